"""What the joint fit predicts, of all its points and of those that were left out of it.

A dataset is left out with all others of its machine and engine: they share that machine's day.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from .descent import STEP
from .fit import JointFit
from .points import JointPoint, log_throughputs, sensitivities

GROUPS: dict[str, Callable[[JointPoint], str]] = {
    "dataset": lambda point: point.campaign,
    "host": lambda point: point.host,
    "engine": lambda point: point.engine,
}
"""What is left out, by name: points that have the same of it are left out together."""

_SIMULATION = 0.01
"""Relative standard error of a run: the grain of a window."""


@dataclass(frozen=True)
class Predicted:
    """A point as one posterior has it.

    Attributes
    ----------
    log_rate
        Logarithm of requests a second.
    inputs_error
        Relative standard error from the numbers.
    """

    log_rate: float
    inputs_error: float


@dataclass(frozen=True)
class Scored:
    """A point with what was measured, and its predictions by what was left out (`fit`: nothing)."""

    point: JointPoint
    log_observed: float
    predicted: dict[str, Predicted]

    def error(self, kind: str) -> float:
        """Predicted over measured, less one."""
        return math.expm1(self.predicted[kind].log_rate - self.log_observed)

    def uncertainty(self, kind: str) -> float:
        """Combined relative standard uncertainty of data, inputs and simulation."""
        noise = self.point.case.noise.standard_error
        return math.hypot(noise, self.predicted[kind].inputs_error, _SIMULATION)

    def inside(self, kind: str, discrepancy: float, *, z: float = 1.96) -> bool:
        """Whether the measurement lies in the interval of all that, with the model's error."""
        half = z * math.hypot(self.uncertainty(kind), discrepancy)
        return abs(self.predicted[kind].log_rate - self.log_observed) <= half


def score(fit: JointFit, points: Sequence[JointPoint]) -> list[Scored]:
    """All points, predicted with the fit and with what it would be without each group.

    Parameters
    ----------
    points
        Calibration points and held-out ones.
    """
    slopes = _slopes(fit, points)
    found: list[dict[str, Predicted]] = [{} for _ in points]

    def add(kind: str, rows: Sequence[int], mean: np.ndarray, covariance: np.ndarray) -> None:
        where = dict(zip(fit.names, mean.tolist(), strict=True))
        rates = log_throughputs([points[row] for row in rows], where)
        for row, rate in zip(rows, rates, strict=True):
            error = math.sqrt(max(0.0, float(slopes[row] @ covariance @ slopes[row])))
            found[row][kind] = Predicted(float(rate), error)

    add("fit", range(len(points)), fit.mean, fit.covariance)
    for kind, group_of in GROUPS.items():
        for group in dict.fromkeys(group_of(point) for point in points):
            rows = [row for row, point in enumerate(points) if group_of(point) == group]
            add(kind, rows, *fit.without(partial(_is_of, group_of, group)))
    return [
        Scored(point, math.log(point.case.observed["throughput_rps"]), own)
        for point, own in zip(points, found, strict=True)
    ]


def _is_of(group_of: Callable[[JointPoint], str], group: str, point: JointPoint) -> bool:
    """Whether a point belongs to a group."""
    return group_of(point) == group


def _slopes(fit: JointFit, points: Sequence[JointPoint]) -> np.ndarray:
    """(points, names) derivatives; one setting of a curve stands for those beside it."""
    asked: dict[tuple[str, str, int], int] = {}
    stands_for = []
    for row, point in enumerate(points):
        shared = {k: v for k, v in point.case.given.items() if k != "io_threads"}
        threads = point.case.scenario.io_threads
        # One thread and two have rules of their own; beyond, three settings go together.
        key = (
            point.dataset,
            repr(sorted(shared.items())),
            threads if threads < 3 else -(threads // 3),
        )
        stands_for.append(asked.setdefault(key, row))
    rows = sorted(set(stands_for))
    found = sensitivities([points[row] for row in rows], fit.names, fit.where, step=STEP)
    place = {row: number for number, row in enumerate(rows)}
    all_rows: np.ndarray = found[[place[row] for row in stands_for]]
    return all_rows


def honest_discrepancies(scored: Sequence[Scored], likely: float) -> tuple[float, float]:
    """The model's relative standard error: of loads of GET and SET alone, and of all others.

    Each is at least `likely`, and what left-out calibration points ask for: with it their errors,
    in standard errors of all that is uncertain, have a mean square of one. Waits of keys of one
    MGET overlap, which is another part of the model, so its errors say nothing of single keys.
    """
    own = [each for each in scored if each.point.case.role == "calibration"]
    plain = [each for each in own if each.point.only_get_and_set]
    others = [each for each in own if not each.point.only_get_and_set]
    return max(likely, _asked_for(plain)), max(likely, _asked_for(others))


def _asked_for(scored: Sequence[Scored]) -> float:
    errors = np.array([each.predicted["dataset"].log_rate - each.log_observed for each in scored])
    known = np.array([each.uncertainty("dataset") for each in scored])
    candidates = np.linspace(0.0, 0.5, 501)
    squares = [float(np.sum(errors**2 / (known**2 + d**2))) for d in candidates]
    fits = (d for d, square in zip(candidates, squares, strict=True) if square <= len(scored))
    return float(next(fits, candidates[-1]))
