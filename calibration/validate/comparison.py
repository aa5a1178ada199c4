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


# --- what points are called, and which of them form a curve ---------------------------------------


CURVE_POINTS = 4
"""Fewer points than this in any number of threads make no curve, and have no knee."""

_NAMES = {"io_threads": "io-threads", "engine_version": "version"}


def varying(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Conditions that are not the same at all points, the command first, threads last."""
    names = dict.fromkeys(name for given in points for name in given)
    missing = object()

    def changes(name: str) -> bool:
        first = points[0].get(name, missing)
        return any(given.get(name, missing) != first for given in points)

    order = {"command": -1, "io_threads": 1}
    return sorted((name for name in names if changes(name)), key=lambda name: order.get(name, 0))


def label(given: Mapping[str, Any], names: Sequence[str] | None = None) -> str:
    """Conditions in words: `SET, 3M keys, pipeline 10, io-threads 9`.

    Parameters
    ----------
    names
        Which conditions; None for all.
    """
    parts = []
    for name in given if names is None else names:
        if name not in given:
            continue
        value = given[name]
        if name == "command":
            parts.append(str(value).upper())
        elif name == "keys":
            parts.append(f"{_count(value)} key{'' if value == 1 else 's'}")
        elif name == "engine_version" and "engine" in given:
            parts.append(f"{given['engine']} {value}")
        elif name == "engine" and "engine_version" in given:
            continue
        elif name == "prefetch_batch" and value == 0:
            parts.append("no prefetch")
        elif name == "mix":
            parts.append(_mix(value))
        elif name == "popularity" and isinstance(value, Mapping):
            parts.append(_popularity(value))
        else:
            parts.append(f"{_NAMES.get(name, name.replace('_', ' '))} {value}")
    return ", ".join(parts)


def _mix(mix: Mapping[str, Any]) -> str:
    """Commands of a mix: `MGET of 20 keys`, `80% GET, 20% SET`."""
    parts = []
    for command, what in mix.items():
        fields = what if isinstance(what, Mapping) else {"share": what}
        share, keys = fields.get("share", 1.0), fields.get("keys")
        of_keys = "" if keys is None else f" of {_count(keys)} keys"
        part = "" if share == 1.0 else f"{100 * share:g}% "
        parts.append(f"{part}{command.upper()}{of_keys}")
    return ", ".join(parts)


def _popularity(popularity: Mapping[str, Any]) -> str:
    """Which keys are asked for: `hot set 0.05%`, of the keys, or `zipf exponent 0.99`."""
    [(kind, fields)] = popularity.items()
    if kind == "hot_set":
        return f"hot set {100 * fields['keys']:g}%"
    return " ".join([kind, *(f"{name} {value:g}" for name, value in fields.items())])


def _count(value: int) -> str:
    for size, symbol in ((1_000_000, "M"), (1_000, "k")):
        if value >= size and value % (size // 10) == 0:
            return f"{value / size:g}{symbol}"
    return str(value)


def series_of(points: Sequence[ComparedPoint]) -> dict[str, list[ComparedPoint]]:
    """Points that differ in io_threads only, by what they share, in order of threads.

    Those with a throughput count; a single series has the name `all points`.
    """
    series: dict[str, list[ComparedPoint]] = {}
    for point in points:
        if "io_threads" in point.given and "throughput_rps" in point.observed:
            shared = {k: v for k, v in point.given.items() if k != "io_threads"}
            series.setdefault(label(shared) or "all points", []).append(point)
    return {
        name: sorted(members, key=lambda point: int(point.given["io_threads"]))
        for name, members in series.items()
    }


def curves_of(points: Sequence[ComparedPoint]) -> dict[str, list[ComparedPoint]]:
    """The series long enough to be curves."""
    return {name: own for name, own in series_of(points).items() if len(own) >= CURVE_POINTS}
