"""Numbers in words, where more than one room says them."""

import math


def chance(probability: float) -> str:
    """A probability in whole percent, rounded down, so that none looks like what it just misses.

    `over 99%` and `under 1%` at the ends: no model is surer than that.
    """
    whole = math.floor(100.0 * probability + 1e-9)
    return "over 99%" if whole >= 99 else "under 1%" if whole < 1 else f"{whole}%"
