"""Random generators for arrays, addressed like the draws of `streams`.

NumPy's Philox takes a key and a counter, so that a generator for one address gives the same numbers
whatever was drawn before.
"""

from __future__ import annotations

import numpy as np


def generator(seed: int, purpose: int, index: int = 0) -> np.random.Generator:
    """A generator of its own for one address.

    Parameters
    ----------
    seed
        Seed of the experiment.
    purpose
        What the draws decide; no two things may have the same.
    index
        Which time they decide it: a step, an epoch, a machine.

    Notes
    -----
    The index is the third word of the counter: one generator would have to draw 2**128 blocks to
    get into the next one's numbers.
    """
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, index, 0]))
