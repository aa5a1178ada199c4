"""What commands in turn cost beyond the same commands alone.

Code that other commands have pushed out of the instruction cache is fetched again.
"""

from __future__ import annotations

import math

import numpy as np

from .inputs import NodeInputs, kept

DISTINCT = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
LINES = (0.0, 7.0, 16.6, 29.0, 32.8, 41.6)
"""By the number of different commands in turn, in an order drawn at random: cache lines of code
that one command misses more than alone (counted in valgrind on Redis 7.0, means of three sets and
of instruction caches of 32 and 64 KiB: `evidence/counts/mixing_counts.json`). The 7 to 28 branches
that are counted there as well are left out: that predictor is simpler than those of processors."""

LINE_CYCLES = 14.0
"""A line of code from the second level (Zen 3 to 5 and Golden Cove: 12 to 15 by their manuals).

A command then takes 0.12 us longer among 8, 0.13 among 16 and 0.17 among 32 at 3.5 GHz; 0.17, 0.22
and 0.48, branches and all, were measured once on a Xeon 6 guest (Redis 7.0, the sets that were
counted, as many keys alone as in turn)."""

_ALIKE = {"set": "get"}
"""GET and SET share most of their code: in turn they miss one line more than alone."""


@kept
def mixing_ns(inputs: NodeInputs) -> float:
    """Time that each command takes longer, because others come in between.

    The number of different commands is that of equally frequent ones with the same entropy.
    """
    shares: dict[str, float] = {}
    for kind in inputs.executed:
        name = _ALIKE.get(kind.command, kind.command)
        shares[name] = shares.get(name, 0.0) + kind.share
    total = sum(shares.values())
    entropy = -sum(each / total * math.log(each / total) for each in shares.values() if each > 0)
    lines = float(np.interp(math.exp(entropy), DISTINCT, LINES))
    return LINE_CYCLES * lines / inputs.speed.clock_ghz
