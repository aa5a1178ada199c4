"""Random numbers that are addressed, never ordered: Philox4x32-10.

Every draw has an address (seed, replication, stream, purpose, index), and its value depends on
nothing else. Two executions of one model that visit events in different ways, or that run on
different machines, therefore see the same numbers, and a changed scenario parameter leaves all
other draws alone.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as
1, 2, 3", SC'11. The counter is (index low word, index high word, stream, purpose) and the key is
(seed, replication). Seed, replication, stream and purpose count modulo 2**32, the index modulo
2**64.

`native/random.h` has the same functions for C code, with the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_MASK = 0xFFFFFFFF
# The multipliers and key increments of Philox4x32 (Salmon et al. 2011, table 2 and section 4.3).
_MULTIPLIER_0 = 0xD2511F53
_MULTIPLIER_1 = 0xCD9E8D57
_WEYL_0 = 0x9E3779B9
_WEYL_1 = 0xBB67AE85
_ROUNDS = 10

_TWO_TO_MINUS_32 = 2.0**-32
_TWO_TO_MINUS_52 = 2.0**-52


def draw4(
    seed: int, replication: int, stream: int, purpose: int, index: int
) -> tuple[int, int, int, int]:
    """Four independent 32-bit words of one address.

    Parameters
    ----------
    seed, replication : int
        The key: the seed of the experiment and the number of the replication.
    stream : int
        Whose draw it is: a client, a thread, a queue.
    purpose : int
        What the draw decides: inter-arrival time, service time, key, size.
    index : int
        How many draws of this stream and purpose came before.
    """
    # Integers of NumPy would overflow below.
    return _words(int(seed), int(replication), int(stream), int(purpose), int(index))


def _words(seed: int, replication: int, stream: Any, purpose: int, index: int) -> Any:
    """The words of one stream, or the (streams,) words of an array of uint64."""
    c0, c1 = index & _MASK, index >> 32 & _MASK
    c2, c3 = stream & _MASK, purpose & _MASK
    k0, k1 = seed & _MASK, replication & _MASK
    for _ in range(_ROUNDS):
        product_0 = _MULTIPLIER_0 * c0
        product_1 = _MULTIPLIER_1 * c2
        c0 = (product_1 >> 32) ^ c1 ^ k0
        c1 = product_1 & _MASK
        c2 = (product_0 >> 32) ^ c3 ^ k1
        c3 = product_0 & _MASK
        k0 = (k0 + _WEYL_0) & _MASK
        k1 = (k1 + _WEYL_1) & _MASK
    return c0, c1, c2, c3


def to_unit(word: int) -> float:
    """A number in (0, 1) from one 32-bit word: (word + 1/2) / 2**32."""
    return (word + 0.5) * _TWO_TO_MINUS_32


def to_unit_wide(high: int, low: int) -> float:
    """A number in (0, 1) from two 32-bit words, with a full double-precision significand.

    52 random bits and a half step: one more bit would round the largest value to 1.
    """
    return ((high << 20 | low >> 12) + 0.5) * _TWO_TO_MINUS_52


def uniform(seed: int, replication: int, stream: int, purpose: int, index: int) -> float:
    """A uniform number in (0, 1) with a full significand; the address is that of `draw4`."""
    high, low, _, _ = draw4(seed, replication, stream, purpose, index)
    return to_unit_wide(high, low)


def uniforms(
    seed: int, replication: int, streams: Sequence[int], purpose: int, index: int
) -> np.ndarray:
    """(streams,) numbers, each as `uniform` gives it for its stream."""
    each = np.array(streams, dtype=np.uint64)
    high, low, _, _ = _words(seed, replication, each, purpose, index)
    return ((high << 20 | low >> 12) + 0.5) * _TWO_TO_MINUS_52


def exponential_ps(unit: float, mean_ps: float) -> int:
    """An exponentially distributed time in whole picoseconds, by inversion.

    Parameters
    ----------
    unit : float
        A uniform number in (0, 1), from `to_unit` or `uniform`.
    mean_ps : float
        Mean in picoseconds.
    """
    return int(0.5 - mean_ps * math.log(unit))


# --- random generators for arrays, addressed like the draws of `streams` --------------------------

# NumPy's Philox takes a key and a counter, so that a generator for one address gives the same
# numbers whatever was drawn before.


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
