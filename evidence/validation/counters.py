"""What a profiler counted over a whole run, beside what the model says: a check without a fit.

Published runs come with the processors used, cycles and instructions of the server from its start
to its end, which may hold several points: 25.6 million SETs, then as many GETs. The model's side is
added up over the same points. Its cycles are the time its threads are on a core, spinning included;
of instructions it knows those of the engine's own code only, neither the kernel's nor spinning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forecache.calibration.validate.comparison import ComparedPoint, Validation
from forecache.calibration.validate.dataset import Dataset, read_dataset
from forecache.sim.plain import Result

_PART = re.compile(r"([\d.]+)\s*([KMG]?)\s*(set|get)s?\b", re.IGNORECASE)
_RATE = re.compile(r"([\d.]+)\s*(set|get)/s", re.IGNORECASE)
_THOUSANDS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}
_US = 1e-6


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


def with_counters(answer: Validation) -> dict[str, Any]:
    """A validation as plain data, with the counters of its dataset's runs."""
    dataset, _ = read_dataset(answer.dataset.id)
    checks = counter_checks(dataset, answer.points)
    return {**answer.to_dict(), "counters": [check.to_dict() for check in checks]}


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
