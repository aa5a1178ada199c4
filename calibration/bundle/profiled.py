"""The points that profilers look at.

One coordinate changes at a time, so that what is done per request, per read, per event loop and per
byte can be told apart.
"""

from .points import Conditions

_BASE = [
    Conditions(command=command, pipeline=pipeline, keys=1_000, value_bytes=value_bytes)
    for value_bytes in (16, 512)
    for command in ("get", "set")
    for pipeline in (1, 16)
]

# With I/O threads there is handing over besides.
CLOCK_POINTS = [*_BASE, Conditions(command="get", keys=1_000, io_threads=2)]

# One client: every event loop has one read.
CALLGRIND_POINTS = [*_BASE, Conditions(command="get", keys=1_000, clients=1)]

# More data than second-level caches hold, to see misses.
CACHE_POINTS = [
    Conditions(command=command, pipeline=16, keys=100_000, value_bytes=512)
    for command in ("get", "set")
]

COUNTER_POINTS = [*_BASE, *CACHE_POINTS]
