"""First-in first-out rings of int64 on NumPy arrays, for compiled code.

A ring is one int64 array: the capacity, the count of pops, the count of pushes, then the slots.
The capacity is a power of two so that a slot is found with a mask. Push and pop never allocate. A
full ring refuses a push and says so; nothing is ever overwritten.
"""

import numpy as np
from numba import boolean, int64, njit

_CAPACITY = 0
_POPPED = 1
_PUSHED = 2
_FIRST_SLOT = 3


@njit(int64[::1](int64), cache=True, nogil=True)
def new_ring(capacity: int) -> np.ndarray:
    """An empty ring.

    Parameters
    ----------
    capacity : int
        Smallest number of values the ring must hold, at least 1. Rounded up to a power of two.

    Raises
    ------
    ValueError
        If the capacity is below 1.
    """
    if capacity < 1:
        raise ValueError("a ring holds at least one value")
    rounded = 1
    while rounded < capacity:
        rounded *= 2
    ring = np.zeros(_FIRST_SLOT + rounded, np.int64)
    ring[_CAPACITY] = rounded
    return ring


@njit(boolean(int64[::1], int64), cache=True, nogil=True)
def push(ring: np.ndarray, value: int) -> bool:
    """Append a value; False, and nothing changed, if the ring is full."""
    pushed = ring[_PUSHED]
    capacity = ring[_CAPACITY]
    if pushed - ring[_POPPED] >= capacity:
        return False
    ring[_FIRST_SLOT + (pushed & (capacity - 1))] = value
    ring[_PUSHED] = pushed + 1
    return True


@njit(int64(int64[::1]), cache=True, nogil=True)
def pop(ring: np.ndarray) -> int:
    """Remove and return the oldest value.

    Raises
    ------
    IndexError
        If the ring is empty; ask `length` first.
    """
    popped = ring[_POPPED]
    if popped == ring[_PUSHED]:
        raise IndexError("pop from an empty ring")
    ring[_POPPED] = popped + 1
    return ring[_FIRST_SLOT + (popped & (ring[_CAPACITY] - 1))]


@njit(int64(int64[::1]), cache=True, nogil=True)
def oldest(ring: np.ndarray) -> int:
    """The value `pop` would return, left in place.

    Raises
    ------
    IndexError
        If the ring is empty.
    """
    popped = ring[_POPPED]
    if popped == ring[_PUSHED]:
        raise IndexError("an empty ring has no oldest value")
    return ring[_FIRST_SLOT + (popped & (ring[_CAPACITY] - 1))]


@njit(int64(int64[::1]), cache=True, nogil=True)
def length(ring: np.ndarray) -> int:
    """How many values the ring holds."""
    return ring[_PUSHED] - ring[_POPPED]


@njit(int64(int64[::1]), cache=True, nogil=True)
def capacity(ring: np.ndarray) -> int:
    """How many values the ring can hold."""
    return ring[_CAPACITY]


@njit(boolean(int64[::1]), cache=True, nogil=True)
def is_full(ring: np.ndarray) -> bool:
    """Whether the next `push` would be refused."""
    return ring[_PUSHED] - ring[_POPPED] >= ring[_CAPACITY]
