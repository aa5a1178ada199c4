"""What commands in turn cost beyond the same commands alone.

Code that other commands have pushed out of the instruction cache is fetched again, and branches
are predicted by what the commands before did.
"""

from __future__ import annotations

import math

import numpy as np

from .inputs import NodeInputs, kept

DISTINCT = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
LINES = (0.0, 7.0, 16.6, 29.0, 32.8, 41.6)
BRANCHES = (0.0, 7.1, 10.6, 17.1, 19.7, 28.2)
"""By the number of different commands in turn, in an order drawn at random: cache lines of code
and branches that one command misses more than alone (counted in valgrind on Redis 7.0, means of
three sets and of instruction caches of 32 and 64 KiB: `evidence/counts/mixing_counts.json`)."""

LINE_CYCLES, BRANCH_CYCLES = 14.0, 17.0
"""A line of code from the second level, and a mispredicted branch (Zen 3 to 5 and Golden Cove: 12
to 15 and 13 to 18 by their manuals and A. Fog, *The microarchitecture of Intel, AMD and VIA CPUs*).

With these a command takes 0.20 us longer among 8, 0.23 among 16 and 0.30 among 32 at 3.5 GHz; 0.17,
0.22 and 0.48 were measured once on a Xeon 6 guest (Redis 7.0, the sets that were counted, as many
keys alone as in turn)."""

_ALIKE = {"set": "get"}
"""GET and SET share most of their code: in turn they miss 1 line and 3 branches more than alone."""


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
    found = [np.interp(math.exp(entropy), DISTINCT, counts) for counts in (LINES, BRANCHES)]
    return float(LINE_CYCLES * found[0] + BRANCH_CYCLES * found[1]) / inputs.speed.clock_ghz
