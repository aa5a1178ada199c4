"""What `validate` answers: every point of a dataset, measured and predicted, and the errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forecache.models.results.displayed import Displayed
from forecache.sim.plain import Result, where_set
from forecache.sim.statistics import Estimate


@dataclass(frozen=True)
class ComparedDataset(Result):
    """Which dataset it is."""

    id: str
    title: str
    file: str


@dataclass(frozen=True)
class ComparedHost(Result):
    """The host of the predictions."""

    id: str
    title: str
    named: bool
    """False where it stands in for one that the source does not name."""


@dataclass(frozen=True)
class ComparedEngine(Result):
    """The engine of the first point."""

    id: str
    version: str


@dataclass(frozen=True)
class FittedFactor(Result):
    """A number that calibration points moved, with its 95% interval."""

    name: str
    factor: float
    low: float
    high: float
    from_prior: float
    """Share of its certainty that comes from its prior."""
    points: Sequence[int]
    note: str


@dataclass(frozen=True)
class ServerWork(Result):
    """What the server spends on a request; the last are those of the engine's own code."""

    cpu_us: float
    cycles: float
    user_instructions: float


@dataclass(frozen=True, kw_only=True)
class ComparedPoint(Result):
    """One point of a dataset.

    Attributes
    ----------
    observed, predicted, relative_error
        By metric, such as `throughput_rps`; of what was observed, what the model says.
    uncertainty, error_over_uncertainty
        By metric: the combined relative standard uncertainty of what was measured, of
        the model's inputs and of the simulation, without the model's own error; and how many of
        it the error is. Above two the model, and not its inputs or the data, is likely wrong.
    band
        Of the utilisation of what is busiest.
    """

    index: int
    given: Mapping[str, Any]
    role: str
    observed: Mapping[str, float]
    predicted: Mapping[str, Estimate]
    relative_error: Mapping[str, float] = field(init=False)
    uncertainty: Mapping[str, float] | None = where_set()
    error_over_uncertainty: Mapping[str, float] | None = field(
        init=False, metadata=where_set().metadata
    )
    server: ServerWork | None = where_set()
    band: str = where_set("")
    bottleneck: str = where_set("")

    def __post_init__(self) -> None:
        """Predicted over observed, less one."""
        errors = {n: found.value / self.observed[n] - 1.0 for n, found in self.predicted.items()}
        object.__setattr__(self, "relative_error", errors)
        known = self.uncertainty
        ratios = known and {n: abs(errors[n]) / known[n] for n in errors if known.get(n, 0.0) > 0.0}
        object.__setattr__(self, "error_over_uncertainty", ratios)

    @property
    def held_out(self) -> bool:
        """Whether nothing may be fitted to it."""
        return self.role == "validation"


@dataclass(frozen=True)
class PredictionErrors(Result):
    """Relative errors of some points, without their sign."""

    median_ape: float
    max_ape: float
    coverage: float
    """Share inside their intervals."""
    n: int


@dataclass(frozen=True)
class MetricErrors(PredictionErrors):
    """Errors of one metric, also by band."""

    by_band: Mapping[str, PredictionErrors]


@dataclass(frozen=True)
class Knee(Result):
    """First io_threads within 5% of the best throughput."""

    observed: int
    predicted: int


@dataclass(frozen=True)
class ProfileOrigins(Result):
    """Where the numbers of a profile come from."""

    kinds: Mapping[str, int]
    """How many numbers are measured, derived and so on."""
    bundle: str | None
    """What an engine's work was observed in."""
    points: Mapping[str, Sequence[int]]
    """Points of datasets that its sources took, by dataset."""


@dataclass(frozen=True)
class DataProvenance(Result):
    """Origins of all numbers that predictions rest on.

    Attributes
    ----------
    calibration_points, held_out_points
        Positions in the dataset of those that were fitted, and of those that may not be.
    problems
        One sentence for each break of the rule that nothing held out may be fitted.
    same_machine_points
        Those of other datasets that were fitted too.
    """

    calibration_points: Sequence[int]
    held_out_points: Sequence[int]
    profiles: Mapping[str, ProfileOrigins]
    problems: Sequence[str]
    same_machine_points: Mapping[str, Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class Validation(Displayed):
    """What `validate` answers."""

    dataset: ComparedDataset
    host: ComparedHost
    engine: ComparedEngine
    fitted: Sequence[FittedFactor]
    provenance: DataProvenance
    warnings: Sequence[str]
    points: Sequence[ComparedPoint]
    summary: Mapping[str, MetricErrors]
    """Of held-out points, by metric."""
    knee: Mapping[str, Knee] = field(default_factory=dict)
    """By the name of a curve."""


def summary_of(
    points: Sequence[ComparedPoint],
    metrics: Sequence[str],
) -> dict[str, MetricErrors]:
    """Errors and coverage per metric over held-out points, and by band."""
    summary = {}
    for name in metrics:
        having = [p for p in points if p.held_out and name in p.relative_error]
        if not having:
            continue
        found = {point.band for point in having if point.band}
        by_band = {
            band: _errors([p for p in having if p.band == band], name) for band in sorted(found)
        }
        summary[name] = MetricErrors(**vars(_errors(having, name)), by_band=by_band)
    return summary


def _errors(points: Sequence[ComparedPoint], name: str) -> PredictionErrors:
    absolute = np.abs([point.relative_error[name] for point in points])
    inside = [point.predicted[name].contains(point.observed[name]) for point in points]
    return PredictionErrors(
        median_ape=float(np.median(absolute)),
        max_ape=float(absolute.max()),
        coverage=float(np.mean(inside)),
        n=len(points),
    )
