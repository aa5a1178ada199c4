"""A line written in turn: closed forms of the queue for it, and a simulation of it."""

import heapq
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.models.memory.contention import turn_ns, written_in_turn_ns


def test_a_lone_writer_keeps_the_line() -> None:
    assert turn_ns(1, 50.0, 700.0) == pytest.approx(50.0)
    assert written_in_turn_ns(1, 50.0, 700.0) == 0.0
    assert written_in_turn_ns(8, 0.0, 700.0) == 0.0


@pytest.mark.parametrize("threads", [2, 3, 8, 64])
def test_a_line_that_is_rarely_wanted_comes_from_another_core_k_minus_1_in_k_times(
    threads: int,
) -> None:
    wait = written_in_turn_ns(threads, 50.0, 1e9)
    assert wait == pytest.approx(50.0 * (threads - 1) / threads, rel=1e-4)


@pytest.mark.parametrize("threads", [2, 8, 255])
def test_a_line_that_is_always_wanted_serves_one_core_after_the_other(threads: int) -> None:
    assert turn_ns(threads, 50.0, 0.0) == threads * 50.0
    assert turn_ns(threads, 50.0, 1.0) == pytest.approx(threads * 50.0 - 1.0, rel=1e-9)


@pytest.mark.parametrize("between_ns", [20.0, 50.0, 400.0])
def test_two_customers(between_ns: float) -> None:
    """A busy period goes on while the other one comes back during a service."""
    busy_ns = 50.0 * math.exp(50.0 / between_ns)
    visits_per_ns = busy_ns / (busy_ns + between_ns / 2) / 50.0
    expected = 2 / visits_per_ns - between_ns
    assert turn_ns(2, 50.0, between_ns) == pytest.approx(expected)


@given(
    st.integers(1, 255),
    st.floats(0.1, 1000.0),
    st.floats(0.0, 1e6),
)
def test_a_turn_lies_between_ones_own_and_everybodys_transfer(
    threads: int, transfer_ns: float, between_ns: float
) -> None:
    turn = turn_ns(threads, transfer_ns, between_ns)
    assert transfer_ns * (1 - 1e-6) <= turn <= threads * transfer_ns * (1 + 1e-6)
    assert turn <= turn_ns(threads + 1, transfer_ns, between_ns) * (1 + 1e-6)


def test_the_formula_is_what_a_queue_does() -> None:
    threads, transfer_ns, between_ns, visits = 5, 50.0, 180.0, 40_000
    random = np.random.default_rng(5)
    thinking = random.exponential(between_ns, visits + threads)
    arrivals = sorted(thinking[:threads])
    free_ns = waited_ns = 0.0
    for number in range(visits):
        arrived = heapq.heappop(arrivals)
        free_ns = max(free_ns, arrived) + transfer_ns
        waited_ns += free_ns - arrived
        heapq.heappush(arrivals, free_ns + thinking[threads + number])
    assert turn_ns(threads, transfer_ns, between_ns) == pytest.approx(waited_ns / visits, rel=0.01)
