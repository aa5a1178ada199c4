"""A joint fit: what calibration points of all hosts and engines say of all uncertain numbers.

Several starts go downhill to the most probable numbers nearby (`descent.py`), the simulation in the
loop; the most probable end is the fit. Around it the posterior is taken as normal (Laplace's
approximation). The error of the model is found by how probable it makes the measurements. What
would be known without some of the points follows from the same derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from forecache.models.prediction.uncertainty import Draw

from .descent import STEP, Slope, Walk
from .points import JointPoint, Where, sensitivities
from .prior import error_covariance, prior_covariance

Progress = Callable[[str], None]

LEAST_SLOPE = 0.005
"""Numbers by which no point changes more per standard error are left as they are known."""

_DRAWS = 2
"""Starts that are drawn from what was known before the fit."""
_SEED = 1
_MOST = 6
"""Sets of derivatives that are simulated for a start, at most."""
_DISCREPANCIES = (0.02, 0.3)


@dataclass(frozen=True)
class End:
    """Where a start led.

    Attributes
    ----------
    start
        What the start is called.
    steps
        That were taken.
    to_its_end
        Whether it went on until no step gained.
    began, objective
        The objective where it began and where it ended (`descent.Reached`).
    median_error
        Of throughput at the points, at the end.
    """

    start: str
    steps: int
    to_its_end: bool
    began: float
    objective: float
    median_error: float


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
    ends
        Of all starts, the most probable one first: that is the fit.
    """

    names: list[str]
    points: list[JointPoint]
    mean: np.ndarray
    covariance: np.ndarray
    slopes: np.ndarray
    predicted: np.ndarray
    observed: np.ndarray
    discrepancy: float
    ends: list[End]

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


def fit_jointly(
    points: Sequence[JointPoint], *, last: Where | None = None, progress: Progress = lambda _: None
) -> JointFit:
    """Fit all numbers that the points depend on.

    Parameters
    ----------
    last
        Where an earlier fit ended: one more start.

    Raises
    ------
    ValueError
        One of the points may only be predicted.
    """
    held_out = [f"{p.dataset}[{p.case.index}]" for p in points if p.case.role != "calibration"]
    if held_out:
        raise ValueError(f"points with role calibration only, not {', '.join(held_out)}")
    observed = np.log([point.case.observed["throughput_rps"] for point in points])
    walks = _starts(points, observed, last or {})
    for walk in walks:
        walk.go(_MOST)
        progress(_told(walk))
    best, *_ = walks = sorted(walks, key=lambda walk: walk.place.objective)
    slopes, mean = best.slopes(), best.place.mean
    differences = best.place.off + slopes @ mean
    names = best.slope.names
    discrepancy = likely_discrepancy(names, points, slopes, differences)
    _, covariance = posterior(names, points, slopes, differences, discrepancy)
    predicted, ends = observed - best.place.off, [_end(walk) for walk in walks]
    return JointFit(
        names, list(points), mean, covariance, slopes, predicted, observed, discrepancy, ends
    )


def _starts(points: Sequence[JointPoint], observed: np.ndarray, last: Where) -> list[Walk]:
    """A walk from each start, over the numbers that matter at the first of them."""
    every = sorted({name for point in points for name in point.ranges})
    known: dict[str, Where] = {"what was known before": {}}
    if last:
        known["the last fit"] = last
    slopes = {k: sensitivities(points, every, where, step=STEP) for k, where in known.items()}
    kept = np.max([np.abs(each).max(axis=0) for each in slopes.values()], axis=0) >= LEAST_SLOPE
    names = [name for name, keep in zip(every, kept, strict=True) if keep]
    means = {k: np.array([where.get(name, 0.0) for name in names]) for k, where in known.items()}
    prior = prior_covariance(names)
    means |= {f"draw {n + 1}": Draw(_SEED, n).jointly(names, prior) for n in range(_DRAWS)}
    slope = Slope(names, points, observed)
    return [
        Walk(start, slope, place, place, slopes[start][:, kept] if start in slopes else None)
        for start, place in zip(means, slope.places(list(means.values())), strict=True)
    ]


def _end(walk: Walk) -> End:
    error = float(np.median(np.abs(np.expm1(-walk.place.off))))
    return End(
        walk.start, walk.steps, walk.ended, walk.first.objective, walk.place.objective, error
    )


def _told(walk: Walk) -> str:
    end = _end(walk)
    return (
        f"from {end.start}: {end.steps} steps, objective {end.began:.1f} to {end.objective:.1f},"
        f" median error {end.median_error:.1%}"
    )
