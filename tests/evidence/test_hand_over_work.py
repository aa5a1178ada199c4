"""From call graphs of two loads to what one call takes."""

import math

import pytest

from evidence.counts.hand_over_counts import TOTAL, Spent, spent_between, without_folders
from evidence.counts.hand_over_work import RANGE, Part, Rule, known_apart, leaves
from forecache.calibration.fit.prior import prior_error
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


def test_counts_name_files_without_their_folders() -> None:
    name = "(below main) [/opt/engines/valkey-server, ???] > main"
    assert without_folders(name) == "(below main) [valkey-server, ???] > main"
    assert without_folders("a > b[c]") == "a > b[c]"


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


def load(clients: int, **functions: Spent) -> dict[str, object]:
    return {"pipeline": 1, "clients": clients, "threads": {"main": functions, "io": {}}}


def test_turns_that_find_nothing_are_left_out_by_a_load_that_has_hardly_others() -> None:
    part = Part("main", ("look",), per=("key",), idle="look", loads=((1, 20),))
    points = [
        load(1, look=Spent(1_000.0, 30_000.0), key=Spent(1.0, 100.0)),
        load(20, look=Spent(50.0, 2_100.0), key=Spent(1.0, 100.0)),
    ]
    found = leaves({"prefetch_instructions_per_key": Rule((part,), "look")}, points)
    assert found["prefetch_instructions_per_key"].value == 2_100.0 - 50.0 * 30.0


def test_a_load_whose_longer_run_called_less_often_says_nothing() -> None:
    assert math.isnan(Part("main", ("take",)).instructions({"take": Spent(-0.5, 300.0)}))


def test_a_number_is_the_sum_of_means_over_loads_in_a_range_that_holds_all_of_them() -> None:
    rule = Rule((Part("main", ("a",)), Part("main", ("b",), share=-0.5)), "a without half of b")
    points = [
        load(1, a=Spent(2.0, 200.0), b=Spent(1.0, 40.0)),
        load(20, a=Spent(1.0, 200.0), b=Spent(1.0, 40.0)),
    ]
    leaf = leaves({"push_instructions": rule}, points)["push_instructions"]
    assert leaf.value == 150.0 - 20.0
    assert leaf.low is not None
    assert leaf.high is not None
    assert leaf.low <= 100.0 - 20.0
    assert leaf.high >= 200.0 - 20.0
    same = leaves({"push_instructions": rule}, points[:1])["push_instructions"]
    assert (same.low, same.high) == (80.0 / RANGE, 80.0 * RANGE)


def test_loads_that_never_call_a_function_are_no_count() -> None:
    with pytest.raises(ValueError, match="calls of nothing"):
        leaves({"push_instructions": Rule((Part("io", ("nothing",)),), "")}, [load(1)])


def test_what_was_counted_depends_on_nothing_fitted() -> None:
    leaf = leaves({"a": Rule((Part("main", ("a",)),), "a")}, [load(1, a=Spent(1.0, 100.0))])["a"]
    before = {"covariance": {"a": {"a": 0.3, "b": 0.1}, "b": {"a": 0.1, "b": 0.2}}}
    after = known_apart(before, {"a": leaf})["covariance"]
    assert after["b"] == {"a": 0.0, "b": 0.2}
    assert after["a"]["b"] == 0.0
    assert after["a"]["a"] == pytest.approx(prior_error(leaf) ** 2, rel=1e-3)
