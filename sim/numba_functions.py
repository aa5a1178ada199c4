"""Random numbers and histograms for code that Numba compiles: what `streams` and `histogram` do."""

from typing import Any

import numpy as np
from numba import float64, int64, njit, types, uint32

from .histogram import N_BUCKETS

Word = Any

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


@njit(cache=True, nogil=True, forceinline=True)
def record(counts: np.ndarray, value_ps: int) -> None:
    """Count one value in the array of a histogram."""
    value = max(value_ps, 0)
    bucket = 0
    if value > 0:
        bucket = int(np.float64(value).view(np.int64) >> 45) - (1023 * 128 - 1)
    counts[np.uint64(bucket)] += 1
    total = counts[N_BUCKETS] + value
    if total >= (1 << 61):
        total -= 1 << 61
        counts[N_BUCKETS + 1] += 1
    counts[N_BUCKETS] = total
    if value > counts[N_BUCKETS + 2]:
        counts[N_BUCKETS + 2] = value
