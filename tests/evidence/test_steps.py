"""Steps between two versions: what drifts cancels, and which of them are clear."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.live.generations import random_points
from evidence.live.rounds import shipped
from evidence.live.steps import (
    ORDER,
    PARTS,
    _with_part,
    is_clear,
    points_of,
    sign_of,
    slopes_of,
    step_of,
)


def windows(first_us: float, step: float, drift: float) -> tuple[list[float], list[float]]:
    """CPU times of both in their order, of a host that gets slower by so much a window."""
    seen: tuple[list[float], list[float]] = ([], [])
    for number, side in enumerate(ORDER):
        seen[side].append(first_us * np.exp(step * side + drift * number))
    return seen


@given(st.floats(0.1, 100.0), st.floats(-0.5, 0.5), st.floats(-0.05, 0.05))
def test_an_even_drift_leaves_the_step_and_is_part_of_its_error(
    first_us: float, step: float, drift: float
) -> None:
    found, error = step_of(*windows(first_us, step, drift))
    assert found == pytest.approx(step, abs=1e-9)
    assert error == pytest.approx(abs(drift) / np.sqrt(len(ORDER) // 2 - 1), abs=1e-9)


def test_one_after_the_other_the_same_drift_would_be_taken_for_a_step() -> None:
    in_a_row = np.exp(0.02 * np.arange(len(ORDER)))
    found, _ = step_of(in_a_row[: len(ORDER) // 2], in_a_row[len(ORDER) // 2 :])
    assert found == pytest.approx(0.02 * len(ORDER) / 2)


@pytest.mark.parametrize(
    ("step", "error", "clear"),
    [(0.10, 0.04, True), (0.10, 0.06, False), (0.04, 0.0, False), (-0.06, 0.01, True)],
)
def test_a_step_is_clear_beyond_five_per_cent_and_two_standard_errors(
    step: float, error: float, clear: bool
) -> None:
    assert is_clear(step, error) == clear


@pytest.mark.parametrize(
    ("verdict", "sign"),
    [("higher", "right"), ("lower", "wrong"), ("no clear difference", "no clear difference")],
)
def test_the_sign_of_a_verdict_is_that_of_the_measured_step(verdict: str, sign: str) -> None:
    assert sign_of({"step": 0.1, "shipped": {"verdict": verdict}}, "shipped") == sign


def test_points_are_of_the_round_of_the_same_seed() -> None:
    of_round, points = random_points(7)[::2], points_of(7)
    assert len(points) == 20
    assert all(point in of_round for point in points)
    for first, last in zip(points[::2], points[1::2], strict=True):
        assert first.data_set == last.data_set
        assert first.pipeline <= last.pipeline


def test_parts_of_the_work_together_are_the_second_engine_s_work() -> None:
    first, second = shipped("redis-8.0.6"), shipped("redis-8.6.3")
    engine = first
    for part in PARTS[:-1]:
        changed = _with_part(engine, second, part)
        assert changed != engine
        engine = changed
    assert {k: v.value for k, v in engine.work.items()} == {
        k: v.value for k, v in second.work.items()
    }


def test_slopes_say_which_parts_measured_steps_have() -> None:
    random = np.random.default_rng(1)
    parts = random.normal(size=(400, 3))
    measured = parts @ [1.0, 0.0, 0.5] + random.normal(scale=0.5, size=400)
    slopes, errors = slopes_of(measured, parts)
    assert errors == pytest.approx(0.5 / np.sqrt(400), rel=0.2)
    assert np.abs(slopes - [1.0, 0.0, 0.5]).max() < 3.0 * errors.max()
