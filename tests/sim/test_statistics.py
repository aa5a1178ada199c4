"""Intervals against textbook values, pairing, and warm-up detection."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.sim.histogram import LatencyHistogram
from forecache.sim.statistics import (
    MSER_BATCH,
    Estimate,
    mean_interval,
    mser5,
    mser5_across,
    paired_difference,
    quantile_interval,
    student_t,
)


# Student t table: two-sided 95% and 99%.
@pytest.mark.parametrize(
    ("confidence", "degrees", "factor"),
    [(0.95, 4, 2.776), (0.95, 9, 2.262), (0.99, 9, 3.250), (0.95, 1, 12.706)],
)
def test_student_t_table(confidence: float, degrees: int, factor: float) -> None:
    assert student_t(confidence, degrees) == pytest.approx(factor, abs=5e-4)


def test_mean_interval_by_hand() -> None:
    estimate = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    half_width = 2.776445 * math.sqrt(2.5 / 5)
    assert estimate.value == 3.0
    assert estimate.low == pytest.approx(3.0 - half_width)
    assert estimate.high == pytest.approx(3.0 + half_width)


def test_a_wider_confidence_gives_a_wider_interval() -> None:
    samples = np.random.default_rng(1).normal(size=10)
    assert mean_interval(samples, 0.99).half_width > mean_interval(samples, 0.9).half_width


def test_quantile_interval_takes_arrays_and_histograms() -> None:
    rng = np.random.default_rng(2)
    arrays = [rng.exponential(1e6, 5000).astype(np.int64) for _ in range(6)]
    histograms = []
    for array in arrays:
        histogram = LatencyHistogram()
        for value in array:
            histogram.record(int(value))
        histograms.append(histogram)
    one, two = quantile_interval(arrays, 0.99), quantile_interval(histograms, 0.99)
    assert one.value == pytest.approx(two.value, rel=0.01)
    assert one.contains(-math.log(0.01) * 1e6)


def test_common_random_numbers_shrink_the_interval() -> None:
    rng = np.random.default_rng(3)
    shared = rng.normal(size=20)
    one = 5.0 + shared + rng.normal(scale=0.1, size=20)
    two = 4.0 + shared + rng.normal(scale=0.1, size=20)
    paired = paired_difference(one, two)
    assert paired.difference.contains(1.0)
    assert paired.variance_reduction > 20
    unpaired = paired_difference(one, rng.permutation(two))
    assert unpaired.difference.half_width > 3 * paired.difference.half_width


def test_equal_alternatives_differ_by_nothing() -> None:
    paired = paired_difference([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    assert paired.difference == Estimate(0.0, 0.0, 0.0)
    assert paired.variance_reduction == math.inf


@pytest.mark.parametrize("samples", [[], [1.0]])
def test_too_few_samples_are_refused(samples: list[float]) -> None:
    with pytest.raises(ValueError, match="at least two samples"):
        mean_interval(samples)


def test_unpaired_samples_and_odd_confidences_are_refused() -> None:
    with pytest.raises(ValueError, match="got 2 and 3"):
        paired_difference([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        mean_interval([1.0, 2.0], 95.0)


def test_mser5_cuts_a_step_where_it_ends() -> None:
    rng = np.random.default_rng(4)
    series = rng.normal(size=2000)
    series[:300] += 5.0
    warm_up = mser5(series)
    assert warm_up.accepted
    assert 300 <= warm_up.cut <= 320


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3))
def test_mser5_ignores_units(shift: float, scale: float) -> None:
    series = np.random.default_rng(5).normal(size=500)
    series[:100] += 4.0
    assert mser5(series * scale + shift).cut == mser5(series).cut


def test_mser5_rejects_a_series_that_never_settles() -> None:
    series = np.concatenate([np.full(800, 10.0), np.zeros(200)])
    series += np.random.default_rng(6).normal(size=1000)
    warm_up = mser5(series)
    assert not warm_up.accepted
    assert warm_up.cut > 500


def test_mser5_matches_the_definition() -> None:
    series = np.random.default_rng(7).normal(size=203).cumsum()
    batches = series[:200].reshape(-1, MSER_BATCH).mean(axis=1)
    criterion = [batches[cut:].var() / (len(batches) - cut) for cut in range(len(batches) - 4)]
    assert mser5(series).cut == int(np.argmin(criterion)) * MSER_BATCH


def test_mser5_across_averages_and_takes_the_shortest() -> None:
    rng = np.random.default_rng(8)
    series = [rng.normal(size=size) for size in (1000, 1003, 1100)]
    for values in series:
        values[:200] += 4.0
    average = np.mean([values[:1000] for values in series], axis=0)
    assert mser5_across(series) == mser5(average)
    assert 200 <= mser5_across(series).cut <= 220
    with pytest.raises(ValueError, match="at least one"):
        mser5_across([])


def test_mser5_needs_ten_batches() -> None:
    with pytest.raises(ValueError, match="at least 50"):
        mser5(np.zeros(49))


def test_estimates_convert_and_report() -> None:
    estimate = Estimate(2.0, 1.0, 3.0)
    assert estimate.scaled(10.0) == Estimate(20.0, 10.0, 30.0)
    assert estimate.mapped(lambda x: 1.0 / x) == Estimate(0.5, 1.0 / 3.0, 1.0)
    assert estimate.relative_half_width == 0.5
    assert estimate.to_dict() == {"value": 2.0, "low": 1.0, "high": 3.0}
    assert Estimate(0.0, -1.0, 1.0).relative_half_width == math.inf
    assert Estimate(0.0, 0.0, 0.0).relative_half_width == 0.0
