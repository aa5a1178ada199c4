"""First-in first-out rings of stamped entries inside one int64 array, for compiled code.

A simulation that keeps its whole state in one array (its *memory*) has one argument to hand from
function to function, which is what makes compiled code fast. A ring begins at an offset of that
memory: the count of pops, the count of pushes, the index mask, then (stamp, value) pairs. The
capacity is a power of two. Nothing allocates; a full ring refuses a push.
"""

import numpy as np
from numba import njit

POPPED = 0
PUSHED = 1
MASK = 2
FIRST = 3


def rounded_capacity(entries: int) -> int:
    """The smallest power of two that holds so many entries."""
    rounded = 1
    while rounded < entries:
        rounded *= 2
    return rounded


def ring_words(entries: int) -> int:
    """Words of memory a ring takes that holds at least so many entries."""
    return FIRST + 2 * rounded_capacity(entries)


def initialise(memory: np.ndarray, ring: int, entries: int) -> None:
    """Make an empty ring at offset `ring`."""
    memory[ring : ring + ring_words(entries)] = 0
    memory[ring + MASK] = rounded_capacity(entries) - 1


def values(memory: np.ndarray, ring: int) -> np.ndarray:
    """A copy of the values in the ring at offset `ring`, oldest first."""
    mask = memory[ring + MASK]
    slots = np.arange(memory[ring + POPPED], memory[ring + PUSHED]) & mask
    return memory[ring + FIRST + 2 * slots + 1]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def push(memory, ring, stamp, value):
    """Append an entry; False, and nothing changed, if the ring is full."""
    pushed = memory[ring + PUSHED]
    mask = memory[ring + MASK]
    if pushed - memory[ring + POPPED] > mask:
        return False
    at = ring + FIRST + 2 * (pushed & mask)
    memory[at] = stamp
    memory[at + 1] = value
    memory[ring + PUSHED] = pushed + 1
    return True


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def length(memory, ring):
    """How many entries the ring holds."""
    return memory[ring + PUSHED] - memory[ring + POPPED]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def capacity(memory, ring):
    """How many entries the ring can hold."""
    return memory[ring + MASK] + 1


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def first_stamp(memory, ring):
    """Stamp of the oldest entry; the ring must not be empty."""
    return memory[ring + FIRST + 2 * (memory[ring + POPPED] & memory[ring + MASK])]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def first_value(memory, ring):
    """Value of the oldest entry; the ring must not be empty."""
    return memory[ring + FIRST + 2 * (memory[ring + POPPED] & memory[ring + MASK]) + 1]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def pop(memory, ring):
    """Remove the oldest entry and return its value; the ring must not be empty."""
    value = first_value(memory, ring)
    memory[ring + POPPED] += 1
    return value
