"""A prediction conditioned on what was measured.

The logarithms of all predicted quantities, of every point of a sweep, are taken to be jointly
normal: with the variance that their intervals say, and the correlations that the draws of uncertain
numbers have. What is measured at one point then moves and narrows all that goes with it, by the
rules of normal distributions (docs/statistics.md). Nothing is simulated again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forecache.sim.statistics import Estimate

from ..prediction.predict import Prediction
from ..prediction.uncertainty import Z95, conditioned


@dataclass(frozen=True)
class MeasuredValue:
    """A measured value of one quantity, and the relative standard error it has."""

    value: float
    error: float


def condition_on(
    predictions: Sequence[Prediction],
    *,
    at: int,
    measured: Mapping[str, MeasuredValue],
    quantities: Sequence[str],
) -> list[dict[str, Estimate]]:
    """Quantities of every point with 95% intervals, given a measurement at one point.

    The model's own error is taken to be another at every point and quantity, but to stay: at the
    measured point a measurement tells it too. Quantities that some draws leave without a bound are
    left out.

    Parameters
    ----------
    predictions
        With the same draws.
    at
        Which of them was measured.
    measured
        By quantity.
    """
    entries = [
        (number, name)
        for number, prediction in enumerate(predictions)
        for name in quantities
        if _bounded(prediction, name)
    ]
    told = [i for i, (number, name) in enumerate(entries) if number == at and name in measured]
    found: list[dict[str, Estimate]] = [{} for _ in predictions]
    if not entries:
        return found
    mean = np.array([math.log(predictions[n].mean(name)) for n, name in entries])
    covariance = _covariance([(predictions[n], name) for n, name in entries])
    values = np.array([math.log(measured[entries[i][1]].value) for i in told])
    noise = np.array([measured[entries[i][1]].error ** 2 for i in told])
    mean, covariance = conditioned(mean, covariance, told=told, values=values, noise=noise)
    halves = Z95 * np.sqrt(np.maximum(np.diag(covariance), 0.0))
    for (number, name), centre, half in zip(entries, mean, halves, strict=True):
        value, high = math.exp(centre), math.exp(centre + half)
        prediction = predictions[number]
        if name == "throughput_rps" and prediction.open_loop:
            value = min(value, prediction.offered_rps)
            high = min(high, prediction.offered_rps)
        found[number][name] = Estimate(value, min(value, math.exp(centre - half)), high)
    return found


def _bounded(prediction: Prediction, name: str) -> bool:
    value = prediction.mean(name)
    return (
        math.isfinite(value) and value > 0 and bool(np.isfinite(prediction.log_draws(name)).all())
    )


def _covariance(entries: Sequence[tuple[Prediction, str]]) -> np.ndarray:
    """(entries, entries) of logarithms: the intervals' variances, the draws' correlations."""
    parts = [prediction.parts(name) for prediction, name in entries]
    own = (
        np.array([math.hypot(part.monte_carlo, part.discrepancy, part.windows) for part in parts])
        / Z95
    )
    covariance = np.diag(own**2)
    logs = np.array([prediction.log_draws(name) for prediction, name in entries])
    if logs.shape[1] < 2:
        return covariance
    shared = np.array([part.parameters for part in parts]) / Z95
    centred = logs - logs.mean(axis=1, keepdims=True)
    spread = np.maximum(centred.std(axis=1), 1e-12)
    scaled = centred / spread[:, None]
    correlation = scaled @ scaled.T / logs.shape[1]
    return np.asarray(covariance + correlation * np.outer(shared, shared))
