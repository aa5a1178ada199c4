"""Intervals against textbook values, and pairing."""

import math

import numpy as np
import pytest

from forecache.sim.statistics import (
    Estimate,
    mean_interval,
    paired_difference,
    student_t,
)
from verification.queueing.coverage import variance_reduction


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


def test_common_random_numbers_shrink_the_interval() -> None:
    rng = np.random.default_rng(3)
    shared = rng.normal(size=20)
    one = 5.0 + shared + rng.normal(scale=0.1, size=20)
    two = 4.0 + shared + rng.normal(scale=0.1, size=20)
    paired = paired_difference(one, two)
    assert paired.contains(1.0)
    assert variance_reduction(one, two) > 20
    unpaired = paired_difference(one, rng.permutation(two))
    assert unpaired.half_width > 3 * paired.half_width


def test_equal_alternatives_differ_by_nothing() -> None:
    samples = np.array([1.0, 2.0, 3.0])
    assert paired_difference(samples, samples) == Estimate(0.0, 0.0, 0.0)
    assert variance_reduction(samples, samples) == math.inf


@pytest.mark.parametrize("samples", [[], [1.0]])
def test_too_few_samples_are_refused(samples: list[float]) -> None:
    with pytest.raises(ValueError, match="at least two samples"):
        mean_interval(samples)


def test_unpaired_samples_and_odd_confidences_are_refused() -> None:
    with pytest.raises(ValueError, match="got 2 and 3"):
        paired_difference([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        mean_interval([1.0, 2.0], 95.0)


def test_estimates_report() -> None:
    estimate = Estimate(2.0, 1.0, 3.0)
    assert estimate.relative_half_width == 0.5
    assert estimate.to_dict() == {"value": 2.0, "low": 1.0, "high": 3.0}
    assert Estimate(0.0, -1.0, 1.0).relative_half_width == math.inf
    assert Estimate(0.0, 0.0, 0.0).relative_half_width == 0.0
