"""The locks of threads that execute by themselves: how many, and whose keys share one.

Rules: thread.c (`memcached_thread_init`), items.c and doc/threads.txt of Memcached 1.6.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..memory.lines import popularity_bins
from ..node.setup import DRAWS
from ..scenario.workload import Workload, Zipf

_MOST_THREADS = ((2, 10), (3, 11), (4, 12), (10, 13), (20, 14))
_LARGEST_POWER = 15

LIST_LINES = 3.0
"""Lines that a SET fetches from the core that used the list before: its head, the item there, and
the slab class's free list (assumed, 2 to 5)."""


def item_locks(threads: int) -> int:
    """How many item locks the worker threads share, by their number."""
    power = next((power for most, power in _MOST_THREADS if threads <= most), _LARGEST_POWER)
    return 1 << power


def lock_table(workload: Workload, locks: int) -> np.ndarray:
    """(1024,) item lock by draw; -1 where the key is not popular enough to have a slot to itself.

    Keys are popular that get one request in 1,024 or more. Their locks differ: two of so few keys
    hardly ever share one of these many. All others are spread evenly over the locks.
    """
    table = np.full(DRAWS, -1, np.int64)
    shares = popular_shares(workload)
    ends = np.rint(np.cumsum(shares) * DRAWS).astype(np.int64)
    for key, (begin, end) in enumerate(pairwise([0, *ends])):
        table[begin:end] = key % locks
    return table


def popular_shares(workload: Workload) -> np.ndarray:
    """Shares of the requests for the keys that get one in 1,024 or more, largest first."""
    bins = popularity_bins(workload)
    keys, share = bins[0]
    if isinstance(workload.popularity, Zipf):
        ranks = np.arange(1, min(workload.keys, DRAWS) + 1, dtype=float)
        weights = ranks**-workload.popularity.zipf
        shares = weights * share / weights[: round(keys)].sum()
    else:
        shares = np.full(min(round(keys), DRAWS), share / keys)
    return shares[shares * DRAWS >= 1.0]
