"""Intervals of closed forms: from draws, from measured errors, over the steps of a run."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.validation.answer import interval_over_cases
from forecache.models.over_time.cluster.intervals import (
    Outcomes,
    RunStep,
    exactly,
    span_with_interval,
    with_interval_of,
)
from forecache.models.results.intervals import (
    RelativeError,
    interval_over_draws,
    relative_error,
    student_factor,
)
from forecache.sim.statistics import Estimate


def step(begun_s: float, lasts_s: float, low: float = 1.0, high: float = 1.0) -> RunStep:
    return RunStep(begun_s=begun_s, lasts=Estimate(lasts_s, low * lasts_s, high * lasts_s))


def test_without_a_spread_only_the_models_own_error_is_left() -> None:
    found = interval_over_draws(5.0, [5.0] * 20, error=0.3)
    assert found.low == pytest.approx(5.0 * math.exp(-0.3))
    assert found.high == pytest.approx(5.0 * math.exp(0.3))


def test_the_interval_of_draws_holds_19_of_20_further_ones() -> None:
    random = np.random.default_rng(1)
    inside = []
    for _ in range(2000):
        *drawn, further = random.lognormal(0.0, 0.4, size=21)
        inside.append(interval_over_draws(1.0, drawn).contains(further))
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)


def test_an_uneven_range_leaves_an_uneven_interval() -> None:
    random = np.random.default_rng(2)
    z = random.standard_normal(4000)
    drawn = np.exp(np.where(z < 0, 0.6, 0.2) * z)
    found = interval_over_draws(1.0, drawn.tolist())
    assert math.log(found.low) == pytest.approx(-1.96 * 0.6, rel=0.05)
    assert math.log(found.high) == pytest.approx(1.96 * 0.2, rel=0.05)


def test_draws_without_a_bound_leave_the_interval_without_an_upper_end() -> None:
    found = interval_over_draws(2.0, [1.0] * 19 + [math.inf], error=0.1)
    assert found.high == math.inf
    assert 0.0 < found.low < 1.0
    nothing = interval_over_draws(0.0, [0.0] * 20, error=0.5)
    assert (nothing.low, nothing.high) == (0.0, 0.0)


def test_cases_and_the_models_error_are_independent() -> None:
    found = interval_over_cases(10.0, [8.0, 20.0], error=0.4)
    assert found.low == pytest.approx(10.0 * math.exp(-math.hypot(math.log(10 / 8), 0.4)))
    assert found.high == pytest.approx(10.0 * math.exp(math.hypot(math.log(2), 0.4)))


def test_an_error_of_few_comparisons_makes_a_wider_interval() -> None:
    assert relative_error([0.3, -0.4]) == RelativeError(error=0.3536, points=2)
    few, many = (RelativeError(error=0.2, points=points).half_width for points in (4, 400))
    assert few == pytest.approx(2.776 * 0.2, rel=1e-3)
    assert many == pytest.approx(1.966 * 0.2, rel=1e-3)
    assert student_factor(4) > student_factor(5)


# --- over the steps of a run -------------------------------------------------------------------


def test_a_run_is_stretched_by_what_goes_on_in_it() -> None:
    # 10 s of restart, 30 s of a sync, 60 s of nothing.
    steps = [step(0.0, 10.0), step(10.0, 30.0, 0.5, 2.0)]
    assert span_with_interval(0.0, 100.0, steps) == Estimate(100.0, 85.0, 130.0)
    assert span_with_interval(50.0, 100.0, steps) == exactly(50.0)
    assert span_with_interval(0.0, 100.0, []) == exactly(100.0)


def test_of_steps_that_go_on_at_once_the_mean_counts() -> None:
    steps = [step(0.0, 10.0), step(0.0, 10.0, 0.5, 2.0)]
    assert span_with_interval(0.0, 10.0, steps) == Estimate(10.0, 7.5, 15.0)
    alike = [step(0.0, 10.0, 0.5, 2.0)] * 5
    assert span_with_interval(0.0, 10.0, alike) == Estimate(10.0, 5.0, 20.0)


@given(
    st.lists(
        st.tuples(st.floats(0, 90), st.floats(0.1, 50), st.floats(0.2, 1.0), st.floats(1.0, 5.0)),
        max_size=8,
    ),
    st.floats(1.0, 99.0),
)
def test_two_parts_of_a_run_add_up_to_the_whole(
    given_steps: list[tuple[float, float, float, float]], cut_s: float
) -> None:
    steps = [step(*each) for each in given_steps]
    whole = span_with_interval(0.0, 100.0, steps)
    first, second = span_with_interval(0.0, cut_s, steps), span_with_interval(cut_s, 100.0, steps)
    assert whole.low <= whole.value <= whole.high
    assert first.low + second.low == pytest.approx(whole.low)
    assert first.high + second.high == pytest.approx(whole.high)


def test_a_step_without_a_bound_leaves_the_run_without_one() -> None:
    steps = [step(0.0, 10.0), step(10.0, 10.0, 0.5, math.inf)]
    assert span_with_interval(0.0, 30.0, steps) == Estimate(30.0, 25.0, math.inf)


def test_a_time_takes_the_relative_width_of_another() -> None:
    assert with_interval_of(6.0, Estimate(2.0, 1.0, 5.0)) == Estimate(6.0, 3.0, 15.0)
    assert with_interval_of(6.0, exactly(0.0)) == exactly(6.0)


def test_draws_that_end_otherwise_get_a_warning() -> None:
    seen = Outcomes("a full sync", "synchronised")
    seen.see("synchronised", ["synchronised"] * 20)
    assert seen.warnings() == []
    seen.see("synchronised", ["synchronised"] * 17 + ["buffer overrun"] * 3)
    seen.see("buffer overrun", ["buffer overrun"] * 18 + ["synchronised"] * 2)
    assert seen.warnings() == [
        "a full sync does not end with up to 3 of 20 draws of what is uncertain.",
        "a full sync that failed here ends with up to 2 of 20 draws of what is uncertain.",
    ]
