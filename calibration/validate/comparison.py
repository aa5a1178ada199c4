"""What `validate` answers: every point of a dataset, measured and predicted, and the errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

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
    notes: Sequence[str] = where_set(())
    """Of its sources."""


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
        By metric, of a node: the combined relative standard uncertainty of what was measured, of
        the model's inputs and of the simulation, without the model's own error; and how many of
        it the error is. Above two the model, and not its inputs or the data, is likely wrong.
    engine
        Of a dataset of memory.
    band
        Of a node the utilisation of what is busiest; of memory whether the engine is a managed one.
    bound_by, parts_s
        Of a large command what it waits for longest, and where its time goes.
    """

    index: int
    given: Mapping[str, Any]
    role: str
    engine: str = where_set("")
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
    bound_by: str = where_set("")
    parts_s: Mapping[str, float] | None = where_set()

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


class ComparedMemoryPoint(ComparedPoint):
    """One point of a dataset of memory; `to_dict` has its band beside its engine."""

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        items = super().to_dict()
        first = ("index", "given", "role", "engine", "band")
        return {name: items[name] for name in first} | items


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
class CounterValues(Result):
    """A counter of a whole run, per request."""

    measured: float
    predicted: float


@dataclass(frozen=True)
class CountedInstructions(Result):
    """Instructions per request: all of them, and predicted those of the engine's own code."""

    measured: float
    predicted_user: float


@dataclass(frozen=True)
class CounterCheck(Result):
    """What a profiler counted over a run, which may hold several points, beside the model."""

    given: Mapping[str, Any]
    """What the points of the run share."""
    points: Sequence[int]
    cpus_used: CounterValues
    cpu_us: CounterValues
    cycles: CounterValues
    instructions: CountedInstructions


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
class DataRoles(Result):
    """Positions in the dataset of the points that were fitted, and of those that may not be."""

    calibration_points: Sequence[int]
    held_out_points: Sequence[int]


@dataclass(frozen=True)
class DataProvenance(DataRoles):
    """Origins of all numbers that predictions rest on.

    Attributes
    ----------
    problems
        One sentence for each break of the rule that nothing held out may be fitted.
    same_machine_points
        Those of other datasets that were fitted too.
    """

    profiles: Mapping[str, ProfileOrigins]
    problems: Sequence[str]
    same_machine_points: Mapping[str, Sequence[int]]


_ABOUT = ("dataset", "host", "engine", "fitted", "provenance", "warnings")


@dataclass(frozen=True, kw_only=True)
class Validation(Displayed):
    """What `validate` answers."""

    dataset: ComparedDataset
    host: ComparedHost | None = None
    engine: ComparedEngine | None = None
    fitted: Sequence[FittedFactor] = ()
    provenance: DataRoles | None = None
    warnings: Sequence[str] = ()
    points: Sequence[ComparedPoint]
    summary: Mapping[str, MetricErrors]
    """Of held-out points, by metric."""
    counters: Sequence[CounterCheck] = ()
    knee: Mapping[str, Knee] = field(default_factory=dict)
    """By the name of a curve."""
    PARTS: ClassVar[tuple[str, ...]] = (*_ABOUT, "points", "summary", "counters", "knee")
    """What `to_dict` has, in this order."""

    def to_dict(self) -> dict[str, Any]:
        """The parts by name; an empty mapping where there is no host, engine or provenance."""
        items = super().to_dict()
        return {name: {} if items[name] is None else items[name] for name in self.PARTS}


class MemoryValidation(Validation):
    """Of a dataset of memory, where neither host nor engine of a node has a part."""

    PARTS: ClassVar = tuple(part for part in Validation.PARTS if part not in ("host", "engine"))


class DurationValidation(Validation):
    """Of durations, of slot migrations or large commands."""

    PARTS: ClassVar = (*_ABOUT, "counters", "knee", "points", "summary")


def summary_of(
    points: Sequence[ComparedPoint],
    metrics: Sequence[str],
    *,
    bands: Sequence[str] = (),
) -> dict[str, MetricErrors]:
    """Errors and coverage per metric over held-out points, and by band.

    Parameters
    ----------
    bands
        Their order; without, that of their names.
    """
    summary = {}
    for name in metrics:
        having = [p for p in points if p.held_out and name in p.relative_error]
        if not having:
            continue
        found = {point.band for point in having if point.band}
        by_band = {
            band: _errors([p for p in having if p.band == band], name)
            for band in (bands or sorted(found))
            if band in found
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
