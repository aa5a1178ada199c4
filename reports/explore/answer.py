"""What is known of one state of the controls so far, and what earlier states have brought."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from forecache.models.advice.paired import PairedQuantity
from forecache.models.advice.quick_estimate import QuickEstimate
from forecache.models.results.points import LoadPoint, Point

from .job import (
    Compared,
    Described,
    Estimated,
    Message,
    SimulatedLoads,
    SimulatedThreads,
    SimulationsDone,
)

MOST_RESULTS = 500


class Results:
    """Simulated results by key, those of longest ago left out."""

    def __init__(self, most: int = MOST_RESULTS) -> None:
        self._most = most
        self._found: OrderedDict[str, Any] = OrderedDict()

    @property
    def keys(self) -> frozenset[str]:
        """Of everything that is kept."""
        return frozenset(self._found)

    def kept(self, key: str, result: Any) -> Any:
        """The result, or what is kept by its key where there is none; it becomes the latest."""
        found = self._found.pop(key, None) if result is None else result
        self._found[key] = found
        while len(self._found) > self._most:
            self._found.popitem(last=False)
        return found


@dataclass
class SideAnswer:
    """What is known of one of the scenarios."""

    about: Described
    estimates: dict[int, QuickEstimate] = field(default_factory=dict)
    """By number of threads, as the next."""
    points: dict[int, Point] = field(default_factory=dict)
    load_estimates: list[tuple[float, QuickEstimate]] = field(default_factory=list)
    loads: list[LoadPoint] = field(default_factory=list)

    @property
    def point(self) -> Point | None:
        """The setting that is looked at, once simulated."""
        return self.points.get(self.about.threads)

    @property
    def estimate(self) -> QuickEstimate | None:
        """Its quick estimate."""
        return self.estimates.get(self.about.threads)


@dataclass
class Answer:
    """What is known of one scenario, or of two and their difference."""

    sides: list[SideAnswer] = field(default_factory=list)
    differences: list[PairedQuantity] = field(default_factory=list)
    progress: SimulationsDone | None = None

    def take(self, messages: Iterable[Message], results: Results) -> set[str]:
        """Add what messages say; return which parts of the page have changed with it.

        They are `scenario`, `threads`, `looked_at`, `loads`, `differences` and `progress`.
        """
        changed: set[str] = set()
        for message in messages:
            changed |= self._take(message, results)
        return changed

    def _take(self, message: Message, results: Results) -> set[str]:
        match message:
            case Described():
                self.sides.append(SideAnswer(message))
                return {"scenario"}
            case Estimated():
                side = self.sides[message.side]
                side.estimates |= {each.io_threads: each for each in message.by_threads}
                side.load_estimates += message.by_load
                if not message.by_threads:
                    return {"loads"}
                counts = {each.io_threads for each in message.by_threads}
                return {"threads"} | ({"looked_at"} if side.about.threads in counts else set())
            case SimulatedThreads():
                side = self.sides[message.side]
                side.points[message.threads] = results.kept(message.key, message.point)
                looked_at = message.threads == side.about.threads
                return {"threads", *(["looked_at"] if looked_at else [])}
            case SimulatedLoads():
                self.sides[message.side].loads = results.kept(message.key, message.points)
                return {"loads"}
            case Compared():
                self.differences = results.kept(message.key, message.differences)
                return {"differences"}
            case SimulationsDone():
                self.progress = message
                return {"progress"}
        return set()
