"""Rings inside one memory, against a deque."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.sim import stamped_rings as rings

RING, GUARD, ENTRIES = 3, -1, 10


def new_ring(entries: int, words: int = rings.STAMPED_WORDS) -> np.ndarray:
    """A memory with a ring whose surroundings show whether something was overwritten."""
    memory = np.full(ENTRIES + rings.entry_words(entries, words) + 5, GUARD)
    rings.initialise(memory, RING, entries, ENTRIES)
    return memory


def surroundings(memory: np.ndarray, entries: int, words: int) -> set[int]:
    end = ENTRIES + rings.entry_words(entries, words)
    around = (memory[:RING], memory[RING + rings.RING_WORDS : ENTRIES], memory[end:])
    return {int(word) for part in around for word in part}


@given(st.integers(1, 9), st.lists(st.one_of(st.none(), st.integers(0, 2**62)), max_size=60))
def test_stamped_entries_leave_in_the_order_in_which_they_came(
    entries: int, steps: list[int | None]
) -> None:
    memory, known = new_ring(entries), deque[tuple[int, int]]()
    for number, step in enumerate(steps):
        assert rings.length(memory, RING) == len(known)
        assert rings.is_full(memory, RING) == (len(known) == rings.rounded_capacity(entries))
        if step is not None and not rings.is_full(memory, RING):
            rings.push(memory, RING, step, number)
            known.append((step, number))
        elif known:
            stamp, value = known.popleft()
            assert rings.first_stamp(memory, RING) == stamp
            assert rings.first_value(memory, RING) == value
            assert rings.pop(memory, RING) == value
        assert list(rings.values(memory, RING)) == [value for _, value in known]
    assert surroundings(memory, entries, rings.STAMPED_WORDS) == {GUARD}


@given(st.integers(1, 9), st.lists(st.booleans(), max_size=60))
def test_plain_entries_leave_in_the_order_in_which_they_came(
    entries: int, steps: list[bool]
) -> None:
    memory, known = new_ring(entries, words=1), deque[int]()
    for number, enters in enumerate(steps):
        if enters and not rings.is_full(memory, RING):
            rings.put(memory, RING, number)
            known.append(number)
        elif known:
            assert rings.take(memory, RING) == known.popleft()
        assert list(rings.values(memory, RING, words=1)) == list(known)
    assert surroundings(memory, entries, 1) == {GUARD}


@pytest.mark.parametrize(
    ("entries", "capacity"), [(1, 1), (2, 2), (3, 4), (2048, 2048), (2049, 4096)]
)
def test_capacity_is_the_next_power_of_two(entries: int, capacity: int) -> None:
    assert rings.rounded_capacity(entries) == capacity
    assert rings.capacity(new_ring(entries), RING) == capacity
    assert rings.entry_words(entries) == 2 * capacity


@given(st.integers(1, 9), st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=60))
def test_inserted_entries_leave_in_the_order_of_their_stamps(
    entries: int, steps: list[int | None]
) -> None:
    """Those with equal stamps in the order in which they came."""
    memory, known = new_ring(entries), list[tuple[int, int]]()
    for number, step in enumerate(steps):
        if step is not None and not rings.is_full(memory, RING):
            rings.insert(memory, RING, step, number)
            known = sorted([*known, (step, number)])
        elif known:
            assert rings.first_stamp(memory, RING) == known[0][0]
            assert rings.pop(memory, RING) == known.pop(0)[1]
        assert list(rings.values(memory, RING)) == [value for _, value in known]
    assert surroundings(memory, entries, rings.STAMPED_WORDS) == {GUARD}
