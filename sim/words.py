"""Numbers in words, where more than one room says them."""

import math


def chance(probability: float) -> str:
    """A probability in whole percent, rounded down, so that none looks like what it just misses.

    `>99%` and `<1%` at the ends: no model is surer than that.
    """
    whole = math.floor(100.0 * probability + 1e-9)
    return ">99%" if whole >= 99 else "<1%" if whole < 1 else f"{whole}%"
