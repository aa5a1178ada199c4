"""What is said of such a dataset: every point, measured and predicted, and the errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forecache.calibration.validate.comparison import (
    ComparedDataset,
    ComparedPoint,
    FittedFactor,
    MetricErrors,
)
from forecache.sim.plain import Result, where_set
from forecache.sim.statistics import Estimate


@dataclass(frozen=True)
class NotedDataset(ComparedDataset):
    """A dataset with the notes of its sources."""

    notes: Sequence[str] = where_set(())


@dataclass(frozen=True)
class DataRoles(Result):
    """Positions in the dataset of the points that were fitted, and of those that may not be."""

    calibration_points: Sequence[int]
    held_out_points: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class MemoryPoint(ComparedPoint):
    """A point of memory; its band is whether the engine is a managed one."""

    engine: str


@dataclass(frozen=True, kw_only=True)
class LargeCommandPoint(ComparedPoint):
    """A large command: what it waits for longest, and where its time goes."""

    bound_by: str
    parts_s: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class DatasetValidation(Result):
    """A dataset that is no load on a node."""

    dataset: ComparedDataset
    fitted: Sequence[FittedFactor] = ()
    provenance: DataRoles | None = where_set()
    warnings: Sequence[str] = ()
    points: Sequence[ComparedPoint]
    summary: Mapping[str, MetricErrors]
    """Of held-out points, by metric."""


def interval_over_cases(value: float, cases: Sequence[float], *, error: float) -> Estimate:
    """A positive number with an interval over what it is in some cases, and the model's own error.

    Parameters
    ----------
    cases
        At either end of what is uncertain, in all combinations.
    error
        Relative standard error of the model, as of `interval_over_draws` in
        `models/results/intervals.py`.
    """
    low, high = min(value, *cases), max(value, *cases)
    return Estimate(
        value,
        value * math.exp(-math.hypot(math.log(value / low), error)),
        value * math.exp(math.hypot(math.log(high / value), error)),
    )
