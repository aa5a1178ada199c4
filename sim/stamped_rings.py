"""First-in first-out rings inside one int64 array, for compiled code.

A simulation that keeps its whole state in one array (its *memory*) has one argument to hand from
function to function, which is what makes compiled code fast. A ring is four words of that memory:
the count of pops, the count of pushes, the index mask, and the offset of the entries, which lie
elsewhere. Entries are (stamp, value) pairs, for `push` and `pop`, or values alone, for `put` and
`take`. The capacity is a power of two. Nothing allocates or checks: a caller that may meet a full
ring asks `is_full` first.
"""

import numpy as np
from numba import njit

POPPED = 0
PUSHED = 1
MASK = 2
ENTRIES = 3
RING_WORDS = 4
STAMPED_WORDS = 2
"""Words of a stamped entry; a plain one takes one."""

inlined = njit(forceinline=True, error_model="numpy")


def rounded_capacity(entries: int) -> int:
    """The smallest power of two that holds so many entries."""
    rounded = 1
    while rounded < entries:
        rounded *= 2
    return rounded


def entry_words(entries: int, words: int = STAMPED_WORDS) -> int:
    """Words of memory that the entries of a ring take which holds at least so many."""
    return words * rounded_capacity(entries)


def initialise(memory: np.ndarray, ring: int, entries: int, entries_at: int) -> None:
    """Make an empty ring at offset `ring`, with room for its entries at offset `entries_at`."""
    memory[ring + POPPED] = 0
    memory[ring + PUSHED] = 0
    memory[ring + MASK] = rounded_capacity(entries) - 1
    memory[ring + ENTRIES] = entries_at


def values(memory: np.ndarray, ring: int, words: int = STAMPED_WORDS) -> np.ndarray:
    """A copy of the values in the ring at offset `ring`, oldest first."""
    slots = np.arange(memory[ring + POPPED], memory[ring + PUSHED]) & memory[ring + MASK]
    return memory[memory[ring + ENTRIES] + words * slots + words - 1]


@inlined
def length(memory, ring):
    """How many entries the ring holds."""
    return memory[ring + PUSHED] - memory[ring + POPPED]


@inlined
def capacity(memory, ring):
    """How many entries the ring can hold."""
    return memory[ring + MASK] + 1


@inlined
def is_full(memory, ring):
    """Whether another entry would overwrite the oldest."""
    return length(memory, ring) > memory[ring + MASK]


@inlined
def entry_of(memory, ring, number):
    """Offset of the stamped entry that was pushed after so many others."""
    return memory[ring + ENTRIES] + STAMPED_WORDS * (number & memory[ring + MASK])


@inlined
def push(memory, ring, stamp, value):
    """Append a stamped entry; the ring must not be full."""
    pushed = memory[ring + PUSHED]
    entry = entry_of(memory, ring, pushed)
    memory[entry] = stamp
    memory[entry + 1] = value
    memory[ring + PUSHED] = pushed + 1


@inlined
def insert(memory, ring, stamp, value):
    """Add a stamped entry behind those whose stamps are not later; the ring must not be full."""
    popped, number = memory[ring + POPPED], memory[ring + PUSHED]
    memory[ring + PUSHED] = number + 1
    entry = entry_of(memory, ring, number)
    while number > popped:
        before = entry_of(memory, ring, number - 1)
        if memory[before] <= stamp:
            break
        memory[entry] = memory[before]
        memory[entry + 1] = memory[before + 1]
        entry = before
        number -= 1
    memory[entry] = stamp
    memory[entry + 1] = value


@inlined
def first_entry(memory, ring):
    """Offset of the oldest stamped entry; the ring must not be empty."""
    return entry_of(memory, ring, memory[ring + POPPED])


@inlined
def first_stamp(memory, ring):
    """Stamp of the oldest entry; the ring must not be empty."""
    return memory[first_entry(memory, ring)]


@inlined
def first_value(memory, ring):
    """Value of the oldest stamped entry; the ring must not be empty."""
    return memory[first_entry(memory, ring) + 1]


@inlined
def pop(memory, ring):
    """Remove the oldest stamped entry and return its value; the ring must not be empty."""
    value = first_value(memory, ring)
    memory[ring + POPPED] += 1
    return value


@inlined
def put(memory, ring, value):
    """Append a plain entry; the ring must not be full."""
    pushed = memory[ring + PUSHED]
    memory[memory[ring + ENTRIES] + (pushed & memory[ring + MASK])] = value
    memory[ring + PUSHED] = pushed + 1


@inlined
def take(memory, ring):
    """Remove the oldest plain entry and return it; the ring must not be empty."""
    popped = memory[ring + POPPED]
    memory[ring + POPPED] = popped + 1
    return memory[memory[ring + ENTRIES] + (popped & memory[ring + MASK])]
