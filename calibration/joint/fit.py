"""A joint fit: what calibration points of all hosts and engines say of all uncertain numbers.

Gauss-Newton steps towards the most probable numbers, the simulation in the loop with the same
random streams throughout; around them the posterior is taken as normal (Laplace's approximation).
The error of the model is found by how probable it makes the measurements. What would be known
without some of the points follows from the same derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from .points import JointPoint, Where, log_throughputs, sensitivities
from .prior import error_covariance, prior_covariance

Progress = Callable[[str], None]

STEP = 1.0
"""Standard errors by which a number is moved for its derivative: clients move in waves, so that a
window's count has a grain of up to 2%."""

LEAST_SLOPE = 0.005
"""Numbers by which no point changes more per standard error are left as they are known."""

_STEPS = 6
"""At most; each has derivatives of its own."""
_SHARES = (1.0, 0.5, 0.25)
"""Of a step that are tried: what is linear is so nearby only."""
_LEAST_GAIN = 1.0
"""Of twice the logarithm of the posterior density, for which a step is taken."""
_LONGEST = 1.5
"""Standard errors that a number is moved by in one step at most."""
_DISCREPANCIES = (0.02, 0.3)


@dataclass(frozen=True)
class JointFit:
    """Most probable numbers, and derivatives there.

    Attributes
    ----------
    names
        Of the numbers, in standard errors of what was known of them.
    points
        Calibration points it rests on.
    mean, covariance
        (names,) and (names, names) of the numbers.
    slopes
        (points, names) change of the logarithm of throughput by number.
    predicted, observed
        (points,) logarithms of throughput, at the mean.
    discrepancy
        Relative standard error of the model that makes the measurements most probable.
    """

    names: list[str]
    points: list[JointPoint]
    mean: np.ndarray
    covariance: np.ndarray
    slopes: np.ndarray
    predicted: np.ndarray
    observed: np.ndarray
    discrepancy: float

    @property
    def where(self) -> Where:
        """The most probable numbers by name."""
        return dict(zip(self.names, self.mean.tolist(), strict=True))

    @property
    def linear(self) -> np.ndarray:
        """(points,) measured logarithms, less those predicted before the fit by the slopes."""
        found: np.ndarray = self.observed - self.predicted + self.slopes @ self.mean
        return found

    def without(self, left_out: Callable[[JointPoint], bool]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the numbers as the other points have them."""
        kept = np.array([not left_out(point) for point in self.points])
        points = [point for point, keep in zip(self.points, kept, strict=True) if keep]
        return posterior(self.names, points, self.slopes[kept], self.linear[kept], self.discrepancy)


def posterior(
    names: Sequence[str],
    points: Sequence[JointPoint],
    slopes: np.ndarray,
    differences: np.ndarray,
    discrepancy: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of numbers that move predictions by `slopes`.

    Parameters
    ----------
    differences
        (points,) measured less predicted logarithms at the numbers known before.
    """
    prior = prior_covariance(names)
    if not points:
        return np.zeros(len(names)), prior
    gain = prior @ slopes.T
    total = slopes @ gain + error_covariance(points, discrepancy)
    weights = np.linalg.solve(total, gain.T).T
    covariance = prior - weights @ gain.T
    return weights @ differences, (covariance + covariance.T) / 2.0


def likely_discrepancy(
    names: Sequence[str],
    points: Sequence[JointPoint],
    slopes: np.ndarray,
    differences: np.ndarray,
) -> float:
    """The model's relative standard error under which the measurements are most probable."""
    explained = slopes @ prior_covariance(names) @ slopes.T

    def improbable(log_error: float) -> float:
        total = explained + error_covariance(points, math.exp(log_error))
        _, log_determinant = np.linalg.slogdet(total)
        return float(log_determinant + differences @ np.linalg.solve(total, differences))

    bounds = tuple(math.log(each) for each in _DISCREPANCIES)
    return math.exp(float(minimize_scalar(improbable, bounds=bounds, method="bounded").x))


def fit_jointly(points: Sequence[JointPoint], *, progress: Progress = lambda _: None) -> JointFit:
    """Fit all numbers that the points depend on.

    Raises
    ------
    ValueError
        One of the points may only be predicted.
    """
    held_out = [f"{p.dataset}[{p.case.index}]" for p in points if p.case.role != "calibration"]
    if held_out:
        raise ValueError(f"points with role calibration only, not {', '.join(held_out)}")
    names = sorted({name for point in points for name in point.ranges})
    observed = np.log([point.case.observed["throughput_rps"] for point in points])
    mean = np.zeros(len(names))
    off = observed - log_throughputs(points, _where(names, mean))
    for step in range(_STEPS):
        progress(f"step {step + 1}: {len(names)} numbers, errors {np.std(off):.3f}")
        slopes = sensitivities(points, names, _where(names, mean), step=STEP)
        if step == 0:
            kept = np.abs(slopes).max(axis=0) >= LEAST_SLOPE
            names = [name for name, keep in zip(names, kept, strict=True) if keep]
            mean, slopes = mean[kept], slopes[:, kept]
            off = observed - log_throughputs(points, _where(names, mean))
        differences = off + slopes @ mean
        discrepancy = likely_discrepancy(names, points, slopes, differences)
        wanted, covariance = posterior(names, points, slopes, differences, discrepancy)
        move = np.clip(wanted - mean, -_LONGEST, _LONGEST)
        tried = [mean + share * move for share in _SHARES] if step < _STEPS - 1 else []
        errors = [observed - log_throughputs(points, _where(names, each)) for each in tried]
        now = _improbable(names, points, mean, off, discrepancy)
        gains = [
            now - _improbable(names, points, each, error, discrepancy)
            for each, error in zip(tried, errors, strict=True)
        ]
        best = int(np.argmax(gains)) if gains else 0
        if not gains or gains[best] < _LEAST_GAIN:
            break
        mean, off = tried[best], errors[best]
    progress(f"errors {np.std(off):.3f}, of the model {discrepancy:.3f}")
    predicted = observed - off
    return JointFit(names, list(points), mean, covariance, slopes, predicted, observed, discrepancy)


def _where(names: Sequence[str], mean: np.ndarray) -> Where:
    return dict(zip(names, mean.tolist(), strict=True))


def _improbable(
    names: Sequence[str],
    points: Sequence[JointPoint],
    mean: np.ndarray,
    off: np.ndarray,
    discrepancy: float,
) -> float:
    """Minus twice the logarithm of the density of numbers and measurements, but for a constant.

    Parameters
    ----------
    off
        (points,) measured less predicted logarithms at these numbers.
    """
    known = mean @ np.linalg.solve(prior_covariance(names), mean)
    found = off @ np.linalg.solve(error_covariance(points, discrepancy), off)
    return float(known + found)
