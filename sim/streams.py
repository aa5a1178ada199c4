"""Random numbers that are addressed, never ordered: Philox4x32-10.

Every draw has an address (seed, replication, stream, purpose, index), and its value depends on
nothing else. Two executions of one model that visit events in different ways, or that run on
different machines, therefore see the same numbers, and a changed scenario parameter leaves all
other draws alone.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as
1, 2, 3", SC'11. The counter is (index low word, index high word, stream, purpose) and the key is
(seed, replication). Seed, replication, stream and purpose count modulo 2**32, the index modulo
2**64.

All functions are compiled; calling them from plain Python gives the same bits.
"""

import math
from typing import Any

import numpy as np
from numba import float64, int64, njit, types, uint32

Word = Any
"""A 32-bit word: a uint32 in compiled code, an int outside."""

_MASK = np.uint64(0xFFFFFFFF)
_HALF_WORD = np.uint64(32)
# The multipliers and key increments of Philox4x32 (Salmon et al. 2011, table 2 and section 4.3).
_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint64(0x9E3779B9)
_WEYL_1 = np.uint64(0xBB67AE85)
_ROUNDS = 10

_TWO_TO_MINUS_32 = 2.0**-32
_TWO_TO_MINUS_52 = 2.0**-52


@njit(
    types.UniTuple(uint32, 4)(int64, int64, int64, int64, int64),
    cache=True,
    nogil=True,
)
def draw4(
    seed: int, replication: int, stream: int, purpose: int, index: int
) -> tuple[Word, Word, Word, Word]:
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

    Returns
    -------
    tuple of four uint32
    """
    c0 = np.uint64(index) & _MASK
    c1 = np.uint64(index) >> _HALF_WORD
    c2 = np.uint64(stream) & _MASK
    c3 = np.uint64(purpose) & _MASK
    k0 = np.uint64(seed) & _MASK
    k1 = np.uint64(replication) & _MASK
    for _ in range(_ROUNDS):
        product_0 = _MULTIPLIER_0 * c0
        product_1 = _MULTIPLIER_1 * c2
        c0 = (product_1 >> _HALF_WORD) ^ c1 ^ k0
        c1 = product_1 & _MASK
        c2 = (product_0 >> _HALF_WORD) ^ c3 ^ k1
        c3 = product_0 & _MASK
        k0 = (k0 + _WEYL_0) & _MASK
        k1 = (k1 + _WEYL_1) & _MASK
    return np.uint32(c0), np.uint32(c1), np.uint32(c2), np.uint32(c3)


@njit(float64(uint32), cache=True, nogil=True)
def to_unit(word: Word) -> float:
    """A number in (0, 1) from one 32-bit word: (word + 1/2) / 2**32."""
    return (float(word) + 0.5) * _TWO_TO_MINUS_32


@njit(float64(uint32, uint32), cache=True, nogil=True)
def to_unit_wide(high: Word, low: Word) -> float:
    """A number in (0, 1) from two 32-bit words, with a full double-precision significand.

    52 random bits and a half step: one more bit would round the largest value to 1.
    """
    steps = (np.uint64(high) << np.uint64(20)) | (np.uint64(low) >> np.uint64(12))
    return (float(steps) + 0.5) * _TWO_TO_MINUS_52


@njit(float64(int64, int64, int64, int64, int64), cache=True, nogil=True)
def uniform(seed: int, replication: int, stream: int, purpose: int, index: int) -> float:
    """A uniform number in (0, 1) with a full significand; the address is that of `draw4`."""
    high, low, _, _ = draw4(seed, replication, stream, purpose, index)
    return to_unit_wide(high, low)


@njit(int64(float64, float64), cache=True, nogil=True)
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
