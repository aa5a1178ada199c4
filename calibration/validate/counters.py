"""What a profiler counted over a whole run, beside what the model says: a check without a fit.

Published runs come with the processors used, cycles and instructions of the server from its start
to its end, which may hold several points: 25.6 million SETs, then as many GETs. The model's side is
added up over the same points. Its cycles are the time its threads are on a core, spinning included;
of instructions it knows those of the engine's own code only, neither the kernel's nor spinning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from forecache.models.breakdown.explain import steps_of
from forecache.models.prediction.predict import SERVER_CPU, Metrics, Prediction
from forecache.models.prediction.simulation import times_of
from forecache.models.prediction.system import System
from forecache.models.scenario.sweeps import Case
from forecache.models.step_times.inputs import NodeInputs

from .comparison import ComparedPoint, CountedInstructions, CounterCheck, CounterValues, ServerWork
from .dataset import Dataset

_PART = re.compile(r"([\d.]+)\s*([KMG]?)\s*(set|get)s?\b", re.IGNORECASE)
_RATE = re.compile(r"([\d.]+)\s*(set|get)/s", re.IGNORECASE)
_THOUSANDS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}
_STEP = 0.01
_US = 1e-6


def server_work(system: System, inputs: NodeInputs, nominal: Sequence[Metrics]) -> ServerWork:
    """What the server spends on a request, from runs at the numbers of `inputs`.

    Instructions of the engine's own code follow from how much its steps are shorter on a core that
    retires 1% more a cycle.
    """
    cpu_us = sum(metrics.values[SERVER_CPU] for metrics in nominal) / len(nominal)
    speed = inputs.speed
    faster = replace(inputs, speed=replace(speed, user_ipc=speed.user_ipc * (1.0 + _STEP)))

    counted = Prediction(Case(given={}, scenario=inputs.scenario), system, list(nominal), [])

    def steps_us(numbers: NodeInputs) -> float:
        return sum(us for _, _, us in steps_of(counted, times=times_of(numbers)))

    per_us = 1e3 * speed.user_ipc * speed.clock_ghz
    saved_us = steps_us(inputs) - steps_us(faster)
    return ServerWork(
        cpu_us=cpu_us,
        cycles=cpu_us * 1e3 * speed.clock_ghz,
        user_instructions=saved_us * per_us * (1.0 + _STEP) / _STEP,
    )


def counter_checks(dataset: Dataset, points: Sequence[ComparedPoint]) -> list[CounterCheck]:
    """Counters of a dataset's runs, per request, measured and predicted.

    Parameters
    ----------
    points
        Predicted points of the dataset, in its order.
    """
    checks = []
    for point in dataset.points:
        counted = point.whole_run_counters
        if counted is None:
            continue
        members = _covered(dataset, point.given, str(counted.get("covers", "")))
        if not members:
            continue
        requests = sum(count for _, count in members)
        rates = _own_rates(str(counted.get("of", "")))
        predicted_s = measured_s = 0.0
        spent = dict.fromkeys(("cpu_us", "cycles", "user_instructions"), 0.0)
        for index, count in members:
            for name in spent:
                spent[name] += count * getattr(points[index].server, name)
            predicted_s += count / points[index].predicted["throughput_rps"].value
            rate_rps = rates.get(str(dataset.points[index].given.get("command")))
            measured_s += count / (rate_rps or points[index].observed["throughput_rps"])
        cpus = float(counted["cpus_used"])
        checks.append(
            CounterCheck(
                given={k: v for k, v in point.given.items() if k != "command"},
                points=[index for index, _ in members],
                cpus_used=CounterValues(cpus, spent["cpu_us"] * _US / predicted_s),
                cpu_us=CounterValues(
                    cpus * measured_s / requests / _US, spent["cpu_us"] / requests
                ),
                cycles=CounterValues(
                    float(counted["cycles"]) / requests, spent["cycles"] / requests
                ),
                instructions=CountedInstructions(
                    float(counted["instructions"]) / requests,
                    spent["user_instructions"] / requests,
                ),
            )
        )
    return checks


def _own_rates(series: str) -> dict[str, float]:
    """Requests a second, by command, of the series that counters belong to where it is another."""
    return {command.lower(): float(rate) for rate, command in _RATE.findall(series)}


def _covered(dataset: Dataset, given: Mapping[str, Any], covers: str) -> list[tuple[int, float]]:
    """(position, requests) of the points a run holds; none where one of them is not there."""
    members = []
    for amount, thousands, command in _PART.findall(covers):
        wanted = {**given, "command": command.lower()}
        positions = [i for i, point in enumerate(dataset.points) if point.given == wanted]
        if not positions:
            return []
        members.append((positions[0], float(amount) * _THOUSANDS[thousands.upper()]))
    return members
