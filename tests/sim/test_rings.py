"""Rings against a deque."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.sim.rings import capacity, is_full, length, new_ring, oldest, pop, push


@given(st.integers(1, 9), st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))))
def test_first_in_first_out_and_never_overwritten(wanted: int, steps: list[int | None]) -> None:
    ring = new_ring(wanted)
    model: deque[int] = deque()
    for value in steps:
        if value is None:
            if model:
                assert oldest(ring) == model[0]
                assert pop(ring) == model.popleft()
            else:
                with pytest.raises(IndexError, match="empty"):
                    pop(ring)
                with pytest.raises(IndexError, match="empty"):
                    oldest(ring)
        elif push(ring, value):
            model.append(value)
        else:
            assert len(model) == capacity(ring)
        assert length(ring) == len(model)
        assert is_full(ring) == (len(model) == capacity(ring))


@pytest.mark.parametrize(
    ("wanted", "rounded"), [(1, 1), (2, 2), (3, 4), (2048, 2048), (2049, 4096)]
)
def test_capacity_is_a_power_of_two(wanted: int, rounded: int) -> None:
    assert capacity(new_ring(wanted)) == rounded


def test_a_ring_holds_something() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        new_ring(0)
