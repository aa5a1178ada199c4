"""A bank of first-in first-out rings whose entries carry a time stamp, for compiled code.

One two-dimensional int64 array holds all rings of a kind (one ring a thread, say): a row is a
ring, its first two columns count pops and pushes, then come (stamp, value) pairs. The capacity is a
power of two so that a slot is found with a mask. Nothing allocates; a full ring refuses.
"""

import numpy as np
from numba import njit

POPPED = 0
PUSHED = 1
_FIRST = 2


def new_bank(rings: int, capacity: int) -> np.ndarray:
    """An empty bank of `rings` rings that hold at least `capacity` entries each."""
    rounded = 1
    while rounded < capacity:
        rounded *= 2
    return np.zeros((max(rings, 1), _FIRST + 2 * rounded), np.int64)


@njit(cache=True, nogil=True, forceinline=True)
def push(bank: np.ndarray, ring: int, stamp: int, value: int) -> bool:
    """Append an entry; False, and nothing changed, if the ring is full."""
    slots = (bank.shape[1] - _FIRST) >> 1
    pushed = bank[ring, PUSHED]
    if pushed - bank[ring, POPPED] >= slots:
        return False
    at = _FIRST + 2 * (pushed & (slots - 1))
    bank[ring, at] = stamp
    bank[ring, at + 1] = value
    bank[ring, PUSHED] = pushed + 1
    return True


@njit(cache=True, nogil=True, forceinline=True)
def length(bank: np.ndarray, ring: int) -> int:
    """How many entries the ring holds."""
    return bank[ring, PUSHED] - bank[ring, POPPED]


@njit(cache=True, nogil=True, forceinline=True)
def capacity(bank: np.ndarray) -> int:
    """How many entries each ring can hold."""
    return (bank.shape[1] - _FIRST) >> 1


@njit(cache=True, nogil=True, forceinline=True)
def first_stamp(bank: np.ndarray, ring: int) -> int:
    """Stamp of the oldest entry; the ring must not be empty."""
    slots = (bank.shape[1] - _FIRST) >> 1
    return bank[ring, _FIRST + 2 * (bank[ring, POPPED] & (slots - 1))]


@njit(cache=True, nogil=True, forceinline=True)
def first_value(bank: np.ndarray, ring: int) -> int:
    """Value of the oldest entry; the ring must not be empty."""
    slots = (bank.shape[1] - _FIRST) >> 1
    return bank[ring, _FIRST + 2 * (bank[ring, POPPED] & (slots - 1)) + 1]


@njit(cache=True, nogil=True, forceinline=True)
def pop(bank: np.ndarray, ring: int) -> int:
    """Remove the oldest entry and return its value; the ring must not be empty."""
    value = first_value(bank, ring)
    bank[ring, POPPED] += 1
    return value
