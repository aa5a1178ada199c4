"""What a user can choose as inputs: the fields a scenario sweeps, and ranges about others."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError
from scipy.stats import norm

from forecache.sim.errors import InputError

from ...engines.commands import check_bytes_on_the_way
from ...prediction.simulation import pilot_run, times_of
from ...prediction.system import System
from ...scenario.schema import Scenario
from ...scenario.sweeps import Case
from ...scenario.workload import Workload
from ..cases import thread_candidates
from .numbers import in_batches, log_of_run

_FACTOR = 4
"""A field that is not swept is tried from this much less to this much more."""

_VALUES = 17
"""Values of such a range, in equal ratios."""

_LOAD = {"rate_rps": (0.5, 1.25)}
"""A given rate: a server has little beyond twice what it is asked for."""

_FIELDS = ("clients", "pipeline", "value_bytes", "keys", "rate_rps")

PointOf = tuple[Case[Scenario], System]


@dataclass(frozen=True)
class ChoiceInput:
    """A field, and the values that it may have, each as likely as any other.

    `swept` is whether the scenario itself lists them.
    """

    name: str
    values: list[Any]
    swept: bool

    def at(self, share: float) -> int:
        """Index of the value at a share of them, from 0 to 1."""
        return min(int(share * len(self.values)), len(self.values) - 1)


@dataclass(frozen=True)
class ChoiceInputs:
    """All fields that are varied, about one point of a scenario."""

    inputs: list[ChoiceInput]
    base: PointOf
    swept: dict[tuple[str, ...], PointOf]
    """The scenario's own points, by the values of what it sweeps."""

    @staticmethod
    def of(asked: Sequence[PointOf], base: PointOf) -> ChoiceInputs:
        """Those of a scenario's points, `base` among them."""
        names = list(asked[0][0].given)
        swept = []
        for name in names:
            values = list({repr(c.given[name]): c.given[name] for c, _ in asked}.values())
            swept.append(ChoiceInput(name, values, swept=True))
        points = {_key(case.given, names): (case, system) for case, system in asked}
        if not names:
            points = {(): base}
        about = [each for each in _ranges(*base) if each.name not in names]
        return ChoiceInputs([*swept, *about], base, points)

    def point(self, shares: Sequence[float]) -> PointOf:
        """Scenario and system at shares, from 0 to 1, of each input's values."""
        chosen = {
            each.name: each.values[each.at(share)]
            for each, share in zip(self.inputs, shares, strict=True)
        }
        names = [each.name for each in self.inputs if each.swept]
        case, system = self.swept[_key(chosen, names)] if names else self.base
        others = {each.name: chosen[each.name] for each in self.inputs if not each.swept}
        return Case(given=chosen, scenario=_with(case.scenario, others)), system

    def simulated(
        self,
        steps: np.ndarray,
        replications: Sequence[int],
        *,
        metric: str,
        seed: int,
        executor: Executor,
    ) -> np.ndarray:
        """(rows,) logarithm of a metric; a latency under overload is infinite.

        Parameters
        ----------
        steps : (rows, inputs)
            Normal numbers.
        replications : (rows,)
            Which random numbers each run has.
        """
        points = [self.point(row) for row in norm.cdf(steps).tolist()]
        rows = [
            (case.scenario, system, number)
            for (case, system), number in zip(points, replications, strict=True)
        ]
        return in_batches(_simulated, rows, metric, seed, executor=executor)


def _simulated(rows: Sequence[tuple[Scenario, System, int]], metric: str, seed: int) -> list[float]:
    found = []
    for scenario, system, replication in rows:
        inputs = system.inputs(scenario)
        pilot = pilot_run(inputs, times_of(inputs), seed=seed)
        found.append(log_of_run(inputs, pilot, metric, seed=seed, replication=replication))
    return found


def _key(given: dict[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(repr(given[name]) for name in names)


def _with(scenario: Scenario, fields: dict[str, Any]) -> Scenario:
    """A scenario with other values of `io_threads` and fields of the workload."""
    own = {name: value for name, value in fields.items() if name == "io_threads"}
    others = {name: value for name, value in fields.items() if name != "io_threads"}
    workload = scenario.workload.model_copy(update=others)
    return scenario.model_copy(update={**own, "workload": workload})


def _ranges(case: Case[Scenario], system: System) -> list[ChoiceInput]:
    """Ranges about a point; of its thread counts, those that `recommend` would compare."""
    scenario, workload = case.scenario, case.scenario.workload
    counts = [each.scenario.io_threads for each, _ in thread_candidates(case, system)]
    found = [ChoiceInput("io_threads", counts, swept=False)] if len(counts) > 1 else []
    largest = scenario
    for name in _FIELDS:
        value = getattr(workload, name)
        # A pipeline is a closed loop's; sizes with a distribution have no one value.
        closed = workload.arrival == "closed_loop"
        if not isinstance(value, int | float) or (name == "pipeline" and not closed):
            continue
        low, high = _LOAD.get(name, (1.0 / _FACTOR, float(_FACTOR)))
        values = np.geomspace(max(1.0, value * low), max(1.0, value * high), _VALUES)
        chosen = sorted({round(each) for each in values.tolist()})
        try:
            # Together they may be more than can be under way.
            more = _with(largest, {name: chosen[-1]})
            Workload.model_validate(more.workload.model_dump())
            check_bytes_on_the_way(more)
            largest = more
        except (InputError, ValidationError):
            chosen = [each for each in chosen if each <= value]
        if len(chosen) > 1:
            found.append(ChoiceInput(name, chosen, swept=False))
    return found
