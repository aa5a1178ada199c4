"""Errors of a group of points, and what its intervals let expect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import binomtest

from .compared import Compared


@dataclass(frozen=True)
class Errors:
    """Of a group of points.

    Attributes
    ----------
    points
        How many were measured and predicted.
    median_error, p95_error, worst_error
        Of absolute errors, relative to what was measured.
    with_interval
        How many of the predictions have an interval.
    inside, level
        Shares of these intervals that hold what was measured, and that should; None without any.
    repeat
        Median of what repeats of a point differ by; None where nothing is known.
    """

    points: int
    median_error: float
    p95_error: float
    worst_error: float
    with_interval: int
    inside: float | None
    level: float | None
    repeat: float | None


def errors_of(points: Sequence[Compared]) -> Errors:
    """Of one point or more."""
    errors = [point.error for point in points]
    repeats = [point.repeat for point in points if point.repeat is not None]
    coverage = coverage_of(points)
    return Errors(
        points=len(points),
        median_error=float(np.median(errors)),
        p95_error=float(np.quantile(errors, 0.95)),
        worst_error=max(errors),
        with_interval=0 if coverage is None else int(coverage["points"]),
        inside=None if coverage is None else coverage["inside"],
        level=None if coverage is None else coverage["nominal"],
        repeat=float(np.median(repeats)) if repeats else None,
    )


def with_interval(points: Sequence[Compared]) -> list[Compared]:
    """Those whose prediction has an interval."""
    return [point for point in points if point.low is not None and point.high is not None]


def expected_median(points: Sequence[Compared]) -> float | None:
    """The median absolute error that the intervals expect; None if no point has one.

    Each error is normal on the log scale, as wide as its interval says; the median is that of all
    these distributions together.
    """
    own = with_interval(points)
    if not own:
        return None
    sigma = np.array([_sigma(point) for point in own])

    def above_half(log: float) -> float:
        return float(np.mean(2.0 * ndtr(log / sigma) - 1.0)) - 0.5

    return math.expm1(brentq(above_half, 0.0, 10.0 * float(sigma.max())))


def _sigma(point: Compared) -> float:
    assert point.low is not None and point.high is not None
    half = 0.5 * math.log(point.high / point.low)
    return max(1e-6, half / float(ndtri(0.5 + point.level / 2.0)))


def coverage_of(points: Sequence[Compared]) -> dict[str, float] | None:
    """Share of points inside their interval, and the share that should be; None without any."""
    own = with_interval(points)
    if not own:
        return None
    inside = [point.low <= point.measured <= point.high for point in own]  # type: ignore[operator]
    return {
        "points": len(own),
        "inside": float(f"{np.mean(inside):.4g}"),
        "nominal": float(f"{np.mean([point.level for point in own]):.4g}"),
    }


def coverage_p_value(points: Sequence[Compared]) -> float:
    """How probable it is that the share inside is off by so much or more, were it as stated.

    Parameters
    ----------
    points
        At least one, all with intervals of one level.
    """
    inside = sum(point.low <= point.measured <= point.high for point in points)  # type: ignore[operator]
    return float(binomtest(inside, len(points), points[0].level).pvalue)
