"""What `calibrate` answers: how well a fit explains a bundle, and what it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forecache.models.results.displayed import Displayed
from forecache.sim.plain import Result, plain, where_set

CPU = "server CPU time per request"
LIGHT_CPU = "server CPU time per request, below saturation"
THROUGHPUT = "throughput"
LATENCIES = {"p50": "median latency", "p99": "99th percentile of latency"}
"""Of open loops below saturation, in slices in which the host kept still."""


@dataclass(frozen=True)
class ObservedEngine(Result):
    """The engine that was observed, and how deep profilers looked into it."""

    id: str
    name: str
    version: str
    build: str | None
    depth: str


@dataclass(frozen=True)
class ObservedHost(Result):
    """The host it ran on."""

    id: str
    title: str


@dataclass(frozen=True, kw_only=True)
class FitPoint(Result):
    """One quantity of one point, observed and predicted: a time or a rate.

    Attributes
    ----------
    given
        The point in words, as `point`.
    conditions
        The fields of its scenario, where the server's CPU time is compared.
    role
        `fit` or `holdout`.
    quantity
        One of the names at the top of this module.
    observed_all_ns
        Of a latency: over all slices, disturbed ones included.
    low_ns, high_ns, low_rps, high_rps
        Of CPU time and throughput: a 90% interval.
    """

    given: Mapping[str, Any]
    conditions: Mapping[str, Any] = where_set()
    role: str
    quantity: str
    observed_ns: float | None = where_set()
    observed_all_ns: float | None = where_set()
    predicted_ns: float | None = where_set()
    low_ns: float | None = where_set()
    high_ns: float | None = where_set()
    observed_rps: float | None = where_set()
    predicted_rps: float | None = where_set()
    low_rps: float | None = where_set()
    high_rps: float | None = where_set()
    relative_error: float

    @property
    def observed(self) -> float:
        """In requests a second or ns."""
        return self.observed_rps or self.observed_ns or 0.0

    @property
    def predicted(self) -> float:
        """In requests a second or ns."""
        return self.predicted_rps or self.predicted_ns or 0.0


@dataclass(frozen=True)
class FitErrors(Result):
    """Relative errors of some points, without their sign."""

    median_ape: float
    p95_ape: float
    max_ape: float
    rms: float
    n: int
    coverage: float | None = where_set()
    """Of CPU time: the share of points inside their intervals."""


@dataclass(frozen=True)
class FitSummary(Result):
    """Errors by quantity and role; `to_dict` has those of CPU time in saturation by role too."""

    by_quantity: Mapping[str, Mapping[str, FitErrors]]

    def to_dict(self) -> dict[str, Any]:
        """The roles of CPU time, then all quantities."""
        return {**plain(self.by_quantity[CPU]), **super().to_dict()}


@dataclass(frozen=True)
class StageShare(Result):
    """Share of a group of stages in the whole."""

    group: str
    observed: float
    fitted: float
    difference: float


@dataclass(frozen=True)
class StageCheck(Result):
    """What a profiler saw at a point, stage by stage, against what the fit says."""

    point: str
    profiler: str
    of: str
    """`CPU time` or `instructions`."""
    unattributed: float | None
    groups: list[StageShare]
    largest_difference: float


@dataclass(frozen=True)
class LoadVerdict(Result):
    """Whether an open loop keeps up, observed and predicted: `STABLE` or `OVERLOADED`."""

    point: str
    role: str
    observed: str
    predicted: str
    stalled_share: float | None


@dataclass(frozen=True)
class FittedDiscrepancy(Result):
    """The model's own error: of everything, and of waits for memory."""

    all: float | None
    memory: float | None


@dataclass(frozen=True)
class FittedNumber(Result):
    """A number of the profile, with its 95% range and where it comes from."""

    name: str
    value: float | None
    unit: str
    low: float | None
    high: float | None
    kind: str
    note: str


@dataclass(frozen=True)
class Difference(Result):
    """One number of which the data say something else than what was known.

    Attributes
    ----------
    factor
        What the data say alone, over what was known.
    standard_errors
        Difference of the logarithms, in those of such a difference.
    """

    name: str
    factor: float
    standard_errors: float


@dataclass(frozen=True)
class KnownBefore(Result):
    """The earlier fit that one began with, and where its data disagree.

    Attributes
    ----------
    engine
        Id of the earlier profile.
    chi_squared, degrees, bound
        Squared distance of the data from what was known, its directions, and what chance explains.
    widening
        Of the earlier ranges.
    words
        Sentences, none where the data agree.
    """

    engine: str
    chi_squared: float
    degrees: int
    bound: float
    widening: float
    differences: list[Difference]
    words: list[str]


@dataclass(frozen=True)
class Known(Result):
    """How well one factor is known.

    Attributes
    ----------
    prior_weight
        Share of its certainty that comes from its prior.
    low, high
        95% interval of the factor (not its logarithm), from the covariance at the best fit.
    profile_low, profile_high
        The same from the profile likelihood.
    """

    name: str
    prior_weight: float
    low: float
    high: float
    profile_low: float
    profile_high: float


@dataclass(frozen=True)
class Directions(Result):
    """How many independent combinations of the factors the data determine."""

    determined: int
    total: int
    singular_values: list[float]
    """How many times better the observations know each than the priors, descending."""


@dataclass(frozen=True)
class WhatDataTell(Result):
    """What a bundle tells of its engine, and what to observe besides."""

    directions: Directions
    words: list[str]
    """A sentence for each thing that it can't tell."""
    parameters: list[Known]


@dataclass(frozen=True)
class CalibrationReport(Displayed):
    """What `calibrate` answers beside the engine profile."""

    engine: ObservedEngine
    host: ObservedHost
    points: list[FitPoint]
    summary: FitSummary
    stages: list[StageCheck]
    verdicts: list[LoadVerdict]
    warnings: list[str]
    """Where the version is taken as an older one."""
    discrepancy: FittedDiscrepancy
    known: KnownBefore | None
    """None without an earlier fit."""
    parameters: list[FittedNumber]
    identifiability: WhatDataTell
