"""What `check` answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from forecache.models.advice.node_answers import NodeAnswer
from forecache.models.results.displayed import Provenance
from forecache.models.results.points import Unmet
from forecache.sim.plain import Result
from forecache.sim.statistics import Estimate


@dataclass(frozen=True)
class ComparedQuantity(Result):
    """One quantity, predicted and measured."""

    quantity: str
    predicted: Estimate
    """With its 95% interval."""
    measured: float
    """Geometric mean of the repetitions."""
    lowest: float
    highest: float
    """Of the repetitions."""
    repetitions: int
    ratio: float
    """Measured to predicted."""
    inside: bool
    """Whether the interval holds what was measured."""


@dataclass(frozen=True)
class ConditionGap(Result):
    """A condition of the measurement that is another than the scenario's."""

    field: str
    scenario: Any
    measured: Any


@dataclass(frozen=True)
class GapCause(Result):
    """Something that may make measured and predicted differ."""

    station: str
    """Where: a station of the model, `other programs`, or `conditions`."""
    what: str
    """In words, with the numbers."""
    evidence: Literal["measured", "possible"]
    """Whether a measurement shows it, or nothing that was measured speaks against it."""
    explains: float
    """Share of the squared differences, in standard errors, that go away with it."""
    predicted: dict[str, float]
    """Each compared quantity, simulated with it; a latency is infinite under overload."""
    next_step: str
    """What to do or to measure about it."""


@dataclass(frozen=True)
class UpdatedPoint(Result):
    """A point of the scenario, once the measurement is known."""

    given: dict[str, Any]
    quantities: dict[str, Estimate]


@dataclass(frozen=True)
class CheckAnswer(NodeAnswer):
    """What `check` answers."""

    given: dict[str, Any]
    """The swept fields of the point that was measured."""
    sources: list[str]
    """Where the measurement comes from."""
    holds: bool
    """Every quantity is inside, under the scenario's conditions."""
    quantities: list[ComparedQuantity]
    differs: list[ConditionGap]
    causes: list[GapCause]
    """The likeliest first; none where it holds."""
    ruled_out: list[str]
    """What measured numbers speak against."""
    measure_next: list[str]
    updated_for: str
    """Whose prediction was updated: the scenario, or the scenario with a cause."""
    updated: list[UpdatedPoint]
    verdict: str
    """On the point as it is predicted; see `Point`."""
    unmet: list[Unmet]
    """What does not hold there."""
    warnings: list[str]
    provenance: Provenance

    @property
    def outside(self) -> list[ComparedQuantity]:
        """The quantities that are not inside."""
        return [each for each in self.quantities if not each.inside]
