"""What the verbs answer about a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forecache.hwprofiles.quantity import Quantity
from forecache.sim.errors import InputError
from forecache.sim.plain import Result, where_set

from ..engines.profile import Observed, Reuse
from ..prediction.system import Basis, System
from ..results.displayed import Displayed, Provenance
from ..results.latency import LatencyDistribution
from ..results.points import LoadPoint, Point
from ..scenario.schema import Scenario
from .next_measurement import MeasureNext
from .recommend import Recommendation
from .sensitivity import Sensitivity

if TYPE_CHECKING:
    from ..breakdown.latency import LatencyBreakdown
    from ..breakdown.timeline import TimelineFile


@dataclass(frozen=True)
class HostSummary(Result):
    """A host, in short."""

    id: str
    title: str
    cores: int
    kind: Basis
    """What is known of it: `observed` with this engine, `anchored` by one (`profile --anchor`),
    `profiled` only, or from the `catalogue`."""


@dataclass(frozen=True)
class EngineSummary(Result):
    """An engine, in short."""

    id: str
    title: str
    version: str
    depth: str
    """What its CPU work rests on: the profiler it was observed with, or `prior`."""
    observed: Observed | None
    reuse: Reuse | None


@dataclass(frozen=True)
class NodeAnswer(Displayed):
    """What is answered about a node in a steady state."""

    scenario: dict[str, Any]
    """The fields of the file, at the first point."""
    host: HostSummary
    engine: EngineSummary


@dataclass(frozen=True)
class Simulated(NodeAnswer):
    """What `simulate` answers."""

    points: list[Point]
    """One for each point of the sweep."""
    provenance: Provenance

    @property
    def latency(self) -> LatencyDistribution | None:
        """Every latency of the only point; None under overload.

        Raises
        ------
        InputError
            There are several points, each of which has one.
        """
        if len(self.points) > 1:
            raise InputError(
                f"found {len(self.points)} points; valid is the latency of one of them, "
                "points[0].latency."
            )
        return self.points[0].latency


@dataclass(frozen=True)
class Recommended(NodeAnswer):
    """What `recommend` answers."""

    points: list[Point]
    recommendation: Recommendation
    provenance: Provenance

    @property
    def latency(self) -> LatencyDistribution | None:
        """Every latency at the recommended setting, or at the closest; None under overload."""
        chosen = self.recommendation.chosen
        return next(point.latency for point in self.points if point.given == chosen)


@dataclass(frozen=True)
class StudyTarget(Recommended):
    """What `study` answers about one host."""

    name: str
    load_curve: list[LoadPoint]
    """At the recommended setting."""
    warnings: list[str]
    sensitivity: Sensitivity | None = where_set()
    """What moves the recommended setting, where that was asked for."""

    def to_dict(self) -> dict[str, Any]:
        """The name, and what `recommend` answers."""
        found = super().to_dict()
        return {"name": found.pop("name"), **found}


@dataclass(frozen=True)
class ExplainedPoint(Point):
    """A point, and where the latency of its requests goes."""

    latency_breakdown: LatencyBreakdown | None
    """None where nothing is completed, requests pile up, or too many are on the way to trace."""


@dataclass(frozen=True)
class Shown(Result):
    """Which point to look at."""

    point: int
    """Its index."""
    recommended: bool
    closest: bool
    """It comes closest to an objective that none meets."""


@dataclass(frozen=True)
class NumberOrigin(Result):
    """A number behind an answer, and where it comes from."""

    name: str
    value: float | None
    unit: str
    low: float | None
    high: float | None
    kind: str
    source: str | None = None
    method: str | None = None

    @classmethod
    def of(cls, name: str, leaf: Quantity) -> NumberOrigin:
        """A leaf of a profile."""
        return cls(
            name, leaf.value, leaf.unit, leaf.low, leaf.high, leaf.kind, leaf.source, leaf.method
        )


@dataclass(frozen=True)
class Explained(NodeAnswer):
    """What `explain` answers."""

    points: list[ExplainedPoint]
    shown: Shown
    timeline: TimelineFile | None
    measure_next: MeasureNext
    sensitivity: Sensitivity | None
    """Of the point to look at; None unless it was asked for."""
    numbers: list[NumberOrigin]
    provenance: Provenance

    @property
    def latency(self) -> LatencyDistribution | None:
        """Every latency of the point to look at; None under overload."""
        return self.points[self.shown.point].latency


def node_summary(scenario: Scenario, system: System) -> dict[str, Any]:
    """The fields of a `NodeAnswer`."""
    host, engine = system.host, system.engine
    return {
        "scenario": scenario.model_dump(mode="json", exclude_none=True),
        "host": HostSummary(
            id=host.id,
            title=host.title,
            cores=scenario.cores or host.speed().cores,
            kind=system.basis,
        ),
        "engine": EngineSummary(
            id=engine.id,
            title=engine.title,
            version=engine.version,
            depth=engine.observed.depth if engine.observed else "prior",
            observed=engine.observed,
            reuse=engine.reuse,
        ),
    }
