"""From call graphs of two loads to what one call takes."""

import math

import pytest

from evidence.counts.hand_over_counts import TOTAL, Spent, spent_between
from evidence.counts.hand_over_work import Part
from forecache.calibration.observe.readers.callgrind import Call, CallgrindProfile


def profile(*calls: tuple[str, str, int, int], total: int) -> CallgrindProfile:
    arcs = tuple(Call(a, b, count, {"Ir": cost}) for a, b, count, cost in calls)
    return CallgrindProfile(("Ir",), {"Ir": total}, {}, arcs)


SHORT = profile(("main", "push", 10, 900), ("main", "0x12", 3, 40), total=5_000)
LONG = profile(
    ("main", "push", 60, 5_900),
    ("retry", "push", 10, 1_000),
    ("push", "push", 7, 700),
    ("main", "0x12", 80, 4_000),
    ("0x12", "put", 100, 1_500),
    ("main", "retry", 100, 7_000),
    total=25_000,
)


def test_what_both_loads_did_cancels_out() -> None:
    spent = spent_between(SHORT, LONG, requests=100)
    assert spent["main > push"] == Spent(pytest.approx(0.5), pytest.approx(50.0))
    assert spent["push"] == Spent(pytest.approx(0.6), pytest.approx(60.0))
    assert spent[TOTAL].instructions == pytest.approx(200.0)


def test_functions_without_a_name_and_calls_of_oneself_are_left_out() -> None:
    spent = spent_between(SHORT, LONG, requests=100)
    assert set(spent) == {"push", "main > push", "retry > push", "put", "retry", TOTAL}


def test_a_thread_that_did_nothing_before_counts_from_zero() -> None:
    assert spent_between(None, LONG, requests=100)["put"] == Spent(1.0, 15.0)


def test_a_part_is_what_is_left_of_some_functions_per_call_of_others() -> None:
    functions = {"take": Spent(2.0, 500.0), "run": Spent(4.0, 300.0), "queue": Spent(1.0, 40.0)}
    part = Part("main", of=("take", "queue"), without=("run",), per=("run",), share=0.5)
    assert part.instructions(functions) == pytest.approx(0.5 * (540.0 - 300.0) / 4.0)
    assert Part("main", of=("take",)).instructions(functions) == pytest.approx(250.0)


def test_a_load_that_calls_none_of_them_says_nothing() -> None:
    assert math.isnan(Part("io", of=("take",)).instructions({}))
