"""The uncertain numbers of a node as inputs: which of them do anything, and runs at others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from forecache.sim.executors import Submitted

from ...engines.commands import (
    ALL_COMMANDS,
    COMMAND_WORK,
    command_kinds,
    executed_kinds,
    work_terms,
)
from ...prediction.node_setup import node_setup
from ...prediction.predict import LATENCIES, Prediction, brief_run
from ...prediction.run_length import Pilot
from ...prediction.simulation import times_near
from ...prediction.system import System
from ...prediction.uncertainty import title_of
from ...scenario.schema import Scenario
from ...step_times.inputs import NodeInputs

_ENDS = (-1.96, 1.96)
"""Standard errors at which a number is tried for whether it does anything."""

_ROWS_PER_CALL = 8


@dataclass(frozen=True)
class UncertainInputs:
    """The uncertain numbers that change some duration or rule of a scenario.

    Attributes
    ----------
    names
        As draws call them.
    covariance : (numbers, numbers)
        Of their steps, in the units of `System.numbers_at`.
    inert
        How many others there are.
    """

    prediction: Prediction
    pilot: Pilot
    names: list[str]
    covariance: np.ndarray
    inert: int

    @staticmethod
    def of(prediction: Prediction) -> UncertainInputs:
        """Those of a prediction that was simulated."""
        pilot, system = prediction.pilot, prediction.system
        assert pilot is not None
        names, covariance = system.uncertain_steps()
        nominal = _durations(prediction, {}, pilot)
        # Most of the table's commands are not asked for: what they take changes nothing.
        kinds = command_kinds(prediction.case.scenario)
        unused = {f"work.{each}" for each in {*COMMAND_WORK} - {*ALL_COMMANDS}}
        done = {each for kind in (*kinds, *executed_kinds(kinds)) for each in work_terms(kind)}
        unused -= {f"work.{each}" for each in done}
        live = [
            index
            for index, name in enumerate(names)
            if name not in unused
            and any(
                not _equal(_durations(prediction, {name: end * error}, pilot), nominal)
                for error in [math.sqrt(covariance[index, index])]
                for end in _ENDS
            )
        ]
        return UncertainInputs(
            prediction,
            pilot,
            [names[index] for index in live],
            covariance[np.ix_(live, live)],
            len(names) - len(live),
        )

    @property
    def titles(self) -> list[str]:
        """The names as answers call them."""
        return [title_of(name) for name in self.names]

    @property
    def errors(self) -> np.ndarray:
        """(numbers,) standard errors, in the units of their steps."""
        return np.sqrt(np.diag(self.covariance))

    def simulated(
        self,
        steps: np.ndarray,
        replications: Sequence[int],
        *,
        metric: str,
        seed: int,
        executor: Executor,
    ) -> np.ndarray:
        """(rows,) logarithm of a metric by simulation; a latency under overload is infinite.

        Parameters
        ----------
        steps : (rows, numbers)
        replications : (rows,)
            Which random numbers each run has.
        """
        scenario, system = self.prediction.case.scenario, self.prediction.system
        rows = [
            (dict(zip(self.names, row, strict=True)), number)
            for row, number in zip(steps.tolist(), replications, strict=True)
        ]
        return in_batches(
            _simulated, rows, scenario, system, self.pilot, metric, seed, executor=executor
        )


def in_batches(
    function: Callable[..., list[float]],
    rows: Sequence[Any],
    *others: Any,
    executor: Executor,
) -> np.ndarray:
    """(rows,) what a function of some rows and other arguments returns, some rows to a call."""
    with Submitted(executor) as calls:
        pending = [
            calls.submit(function, rows[start : start + _ROWS_PER_CALL], *others)
            for start in range(0, len(rows), _ROWS_PER_CALL)
        ]
        return np.array([value for future in pending for value in future.result()])


def log_of_run(
    inputs: NodeInputs, pilot: Pilot, metric: str, *, seed: int, replication: int
) -> float:
    """Logarithm of a metric of one brief run; a latency under overload is infinite."""
    metrics = brief_run(inputs, pilot, seed=seed, replication=replication)
    if metric in LATENCIES and metrics.overloaded:
        return math.inf
    return math.log(max(metrics.values[metric], 1e-12))


def _simulated(
    rows: Sequence[tuple[dict[str, float], int]],
    scenario: Scenario,
    system: System,
    pilot: Pilot,
    metric: str,
    seed: int,
) -> list[float]:
    return [
        log_of_run(
            system.inputs_of(scenario, system.numbers_at(steps)),
            pilot,
            metric,
            seed=seed,
            replication=replication,
        )
        for steps, replication in rows
    ]


def _durations(
    prediction: Prediction, steps: dict[str, float], pilot: Pilot
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """All that a run is told of the numbers."""
    system: System = prediction.system
    inputs: NodeInputs = system.inputs_of(prediction.case.scenario, system.numbers_at(steps))
    setup = node_setup(inputs, warmup_ps=1, end_ps=10**9, seed=1, replication=0)
    return times_near(inputs, pilot), setup


def _equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(
        np.array_equal(a, b)
        for x, y in zip(one, other, strict=True)
        for a, b in zip(x, y, strict=True)
    )
