"""Predictions conditioned on measurements, against closed forms."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from forecache.models.advice.answers import load_cases
from forecache.models.advice.conditioning import MeasuredValue, condition_on
from forecache.models.prediction.predict import SERVER_CPU, Prediction, predict_cases
from forecache.models.prediction.uncertainty import conditioned

_Z95 = 1.959963984540054
QUANTITIES = ["throughput_rps", "p50_ms", SERVER_CPU]


def test_of_one_number_the_mean_is_weighted_by_precision() -> None:
    mean, covariance = conditioned(
        np.array([1.0]),
        np.array([[0.09]]),
        told=[0],
        values=np.array([2.0]),
        noise=np.array([0.03]),
    )
    precision = 1 / 0.09 + 1 / 0.03
    assert mean[0] == pytest.approx((1.0 / 0.09 + 2.0 / 0.03) / precision)
    assert covariance[0, 0] == pytest.approx(1 / precision)


@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.5, 1.0])
def test_what_is_not_measured_follows_by_its_correlation(correlation: float) -> None:
    a, b, noise = 0.3, 0.2, 0.01
    covariance = np.array([[a * a, correlation * a * b], [correlation * a * b, b * b]])
    mean, left = conditioned(
        np.array([0.0, 5.0]),
        covariance,
        told=[0],
        values=np.array([0.4]),
        noise=np.array([noise]),
    )
    slope = correlation * a * b / (a * a + noise)
    assert mean[1] == pytest.approx(5.0 + slope * 0.4)
    assert left[1, 1] == pytest.approx(b * b - slope * correlation * a * b)
    assert left[0, 1] == pytest.approx(left[1, 0])


def test_two_measurements_are_one_after_the_other() -> None:
    draw = np.random.default_rng(3)
    root = draw.normal(size=(4, 4))
    mean, covariance = draw.normal(size=4), root @ root.T
    values, noise = np.array([0.3, -0.7]), np.array([0.2, 0.5])
    both = conditioned(mean, covariance, told=[1, 3], values=values, noise=noise)
    first = conditioned(mean, covariance, told=[1], values=values[:1], noise=noise[:1])
    second = conditioned(*first, told=[3], values=values[1:], noise=noise[1:])
    np.testing.assert_allclose(both[0], second[0])
    np.testing.assert_allclose(both[1], second[1])


@cache
def sweep() -> list[Prediction]:
    fields: dict[str, Any] = {
        "host": "graviton3-c7g.4xlarge",
        "engine": "valkey",
        "engine_version": "8.0",
        "io_threads": {"sweep": [1, 2]},
        "workload": {"clients": 50, "keys": 10_000, "command": "get"},
    }
    return predict_cases(load_cases(fields), draws=12, replications=2, requests=4000)


def test_without_a_measurement_intervals_are_those_of_the_prediction() -> None:
    found = condition_on(sweep(), at=0, measured={}, quantities=QUANTITIES)
    for prediction, estimates in zip(sweep(), found, strict=True):
        for name in QUANTITIES:
            told = prediction.interval(name)
            assert estimates[name].low == pytest.approx(told.low)
            assert estimates[name].value == pytest.approx(told.value)
            assert estimates[name].high == pytest.approx(told.high)


def test_the_measured_quantity_has_the_closed_form_of_one_number() -> None:
    prediction = sweep()[0]
    told = prediction.interval(SERVER_CPU)
    error, value = 0.05, 1.3 * told.value
    [found, _] = condition_on(
        sweep(), at=0, measured={SERVER_CPU: MeasuredValue(value, error)}, quantities=[SERVER_CPU]
    )
    prior = math.log(told.high / told.value) / _Z95
    share = prior**2 / (prior**2 + error**2)
    expected = math.log(told.value) + share * math.log(1.3)
    half = _Z95 * math.sqrt(share) * error
    assert math.log(found[SERVER_CPU].value) == pytest.approx(expected)
    assert math.log(found[SERVER_CPU].high) == pytest.approx(expected + half)


def test_a_slower_server_lowers_the_other_points_too() -> None:
    prediction = sweep()[0]
    measured = {
        SERVER_CPU: MeasuredValue(1.3 * prediction.mean(SERVER_CPU), 0.05),
        "throughput_rps": MeasuredValue(prediction.mean("throughput_rps") / 1.3, 0.05),
    }
    found = condition_on(sweep(), at=0, measured=measured, quantities=QUANTITIES)
    for prediction, estimates in zip(sweep(), found, strict=True):
        told = prediction.interval("throughput_rps")
        new = estimates["throughput_rps"]
        assert new.value < told.value
        assert math.log(new.high / new.low) < math.log(told.high / told.low)
