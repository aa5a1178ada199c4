"""The gate on made-up predictions: shut where a partition has worsened, by more than chance."""

import json
from dataclasses import replace

import numpy as np
import pytest

from evidence.accuracy.compared import LEAST_POINTS, Place, partitions, pipelines
from evidence.blind.record import sha256
from evidence.gate.compare import judge
from evidence.gate.history import history_problems
from evidence.gate.recompute import Predicted, from_lines, to_lines

ERRORS = np.linspace(0.01, 0.09, 20)
"""Their median is 5%."""


def points(
    *,
    scale: float = 1.0,
    noise: float = 1e-4,
    pipeline: int = 1,
    together: bool = False,
    seed: int = 0,
    errors: np.ndarray = ERRORS,
) -> list[Predicted]:
    """Points of one engine whose errors are `scale` times those given."""
    random = np.random.default_rng(seed)
    made = []
    shared = random.standard_normal(3)
    for number, error in enumerate(errors):
        place = Place("x", f"{pipeline}/{number}", "throughput", "e", "h", "one thread", pipeline)
        chance = noise * (shared if together else random.standard_normal(3))
        runs = np.exp(chance)
        runs *= 100.0 * (1.0 + scale * error) / runs.mean()
        made.append(Predicted(place, 100.0, tuple(runs), together))
    return made


def test_equal_predictions_pass() -> None:
    judgement = judge(points(), points())
    assert judgement.failures == []
    assert {change.partition.by for change in judgement.changes} == {
        "all", "engine", "host", "policy", "pipeline",
    }  # fmt: skip
    assert all(change.before == change.now == pytest.approx(0.05) for change in judgement.changes)


def test_a_tenth_is_allowed_and_no_more() -> None:
    assert judge(points(), points(scale=1.09)).failures == []
    failures = judge(points(), points(scale=1.12)).failures
    assert len(failures) == 5
    assert failures[0].startswith("throughput: median error of 20 points 5.00% -> 5.60%")
    assert judge(points(), points(scale=0.5)).failures == []


def test_only_the_partition_that_worsened_is_named() -> None:
    ranges = (1, 4, 16)
    before = [point for each in ranges for point in points(pipeline=each)]
    now = [point for each in ranges for point in points(pipeline=each, scale=1 + (each == 4))]
    judgement = judge(before, now)
    worsened = [change.partition for change in judgement.changes if change.worsened]
    assert ("pipeline", "2 to 8", "throughput") in worsened
    assert {each.value for each in worsened if each.by == "pipeline"} == {"2 to 8"}


@pytest.mark.parametrize("together", [False, True])
def test_what_chance_explains_passes(together: bool) -> None:
    quiet = judge(points(together=together), points(scale=1.2, together=together))
    assert len(quiet.failures) == 5
    # Three seeds that differ by 5% know an error of 5% to no better than a fifth.
    noise = 0.05
    before = points(noise=noise, together=together, seed=1)
    now = points(noise=noise, together=together, seed=2, scale=1.2)
    assert judge(before, now).failures == []


def test_chance_that_moves_all_points_together_weighs_more() -> None:
    """Independent points average out in a median; a fitted factor's chance does not."""
    widths = []
    for together in (False, True):
        [change, *_] = judge(
            points(noise=0.01, together=together), points(noise=0.01, together=together)
        ).changes
        widths.append(change.excess[1] - change.excess[0])
    assert widths[1] > 1.5 * widths[0]


def test_fewer_than_ten_points_are_no_partition() -> None:
    few = ERRORS[: LEAST_POINTS - 1]
    judgement = judge(points(errors=few), points(errors=few, scale=3.0))
    assert (judgement.changes, judgement.failures) == ([], [])
    enough = ERRORS[:LEAST_POINTS]
    assert judge(points(errors=enough), points(errors=enough, scale=3.0)).failures


def test_a_point_can_neither_vanish_nor_change_what_was_measured() -> None:
    before = points()
    assert judge(before, before[:-1]).failures == [
        "x / 1/19 / throughput: in the reference, but no longer predicted"
    ]
    changed = [replace(before[0], measured=101.0), *before[1:]]
    assert judge(before, changed).failures == [
        "x / 1/0 / throughput: measured 101, in the reference 100"
    ]
    assert judge(before[:-1], before).failures == []
    assert len(judge(before, []).failures) == len(before)


def test_pipelines_fall_into_ranges() -> None:
    ranges = {pipeline: pipelines(pipeline) for pipeline in (1, 2, 8, 9, 32, 33, 500)}
    assert ranges == {
        1: "1", 2: "2 to 8", 8: "2 to 8", 9: "9 to 32", 32: "9 to 32", 33: "33 and more",
        500: "33 and more",
    }  # fmt: skip
    assert partitions([point.place for point in points(pipeline=9)]).keys() >= {
        ("pipeline", "9 to 32", "throughput")
    }


def test_an_artefact_is_read_as_it_was_written() -> None:
    made = points(together=True)
    text = to_lines(made)
    again = from_lines(text)
    assert to_lines(again) == text
    assert judge(made, again).failures == []
    assert {point.place for point in again} == {point.place for point in made}


def history_of(*entries: tuple[str, bytes]) -> str:
    lines = [{"reason": reason, "artefact_sha256": sha256(data)} for reason, data in entries]
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_the_reference_is_replaced_with_a_reason_only() -> None:
    first, second = ("begun", b"1"), ("a better fit", b"2")
    assert history_problems(history_of(first), b"1") == []
    assert history_problems(history_of(first, second), b"2", [history_of(first)]) == []
    [alone] = history_problems(history_of(first), b"2", [history_of(first)])
    assert "its last line is not that of the artefact" in alone
    [silent] = history_problems(history_of(first, (" ", b"2")), b"2")
    assert "line 2 gives no reason" in silent
    [changed] = history_problems(history_of(("another", b"2")), b"2", [history_of(first)])
    assert "a line that was committed has changed" in changed
    assert history_problems("", b"")
