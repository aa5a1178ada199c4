"""The ratio of two predictions, which were made with the same random streams and draws.

What the two share cancels, so that the ratio is known better than either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from forecache.sim.plain import Result
from forecache.sim.statistics import Estimate, student_t

from ..prediction.predict import LATENCIES, SERVER_CPU, Prediction

Verdict = Literal["higher", "lower", "the same", "undecided"]

SHARED_ERROR = {"all but threads": 0.4, "host": 0.25}
"""Correlation of the model's own errors between two nodes that share so much; 0 on two hosts.

Points of the joint fit, two at a time: errors of settings that differ in io-threads have 45% in
common, of loads and engines on one host 24 to 27%, of two hosts nothing (`docs/scores.md`, "What
two predictions have in common")."""

_LEVEL = 0.95


@dataclass(frozen=True)
class PairedQuantity(Result):
    """One quantity of both, and the second over the first."""

    quantity: str
    first: Estimate | None
    """None where it has none, such as a latency under overload."""
    second: Estimate | None
    ratio: Estimate | None
    """Paired, with a 95% interval; None where one of the two is missing."""
    verdict: Verdict
    """Whether the second is `higher` or `lower`, by an interval that leaves out 1."""


def paired_quantity(first: Prediction, second: Prediction, name: str) -> PairedQuantity:
    """One predicted quantity of both; no ratio of a latency where one is overloaded."""
    if name in LATENCIES and (first.overloaded or second.overloaded):
        return PairedQuantity(name, first.estimate(name), second.estimate(name), None, "undecided")
    ratio = paired_ratio(first, second, name)
    return PairedQuantity(
        name, first.estimate(name), second.estimate(name), ratio, verdict_of(ratio)
    )


def paired_ratio(first: Prediction, second: Prediction, name: str) -> Estimate:
    """Second over first, with the 95% interval of a ratio under the same draws.

    Three parts on the log scale: chance in the simulation, by the replications in pairs; uncertain
    numbers, by the draws in pairs; and that part of the model's own errors which the two do not
    share. One measured window of each differs by more: see `windows` of either.
    """
    nominal = _log_ratios(first, second, name, drawn=False)
    drawn = _log_ratios(first, second, name, drawn=True)
    chance = _half(nominal) / math.sqrt(max(1, len(nominal)))
    parts = [chance, _half(drawn), _model_half(first, second, name)]
    half = math.sqrt(sum(part**2 for part in parts))
    value = second.mean(name) / max(first.mean(name), 1e-12)
    return Estimate(value, value * math.exp(-half), value * math.exp(half))


def capacity_ratio_half(first: Prediction, second: Prediction) -> float:
    """Half the 95% interval, on the log scale, of the ratio of what two nodes serve in saturation.

    That is taken to be in inverse proportion to the CPU time of a request, as in `objective.py`.
    """
    drawn = zip(first.drawn, second.drawn, strict=False)
    times = [[run.result.server_useful_cpu_us_per_request for run in pair] for pair in drawn]
    logs = np.array([math.log(second_us / first_us) for first_us, second_us in times])
    return math.hypot(_half(logs), _model_half(first, second, SERVER_CPU))


def _log_ratios(first: Prediction, second: Prediction, name: str, *, drawn: bool) -> np.ndarray:
    if drawn:
        logs = [each.log_draws(name) for each in (first, second)]
    else:
        logs = [
            np.log([max(run.values[name], 1e-12) for run in each.nominal])
            for each in (first, second)
        ]
    both = np.isfinite(logs[0]) & np.isfinite(logs[1])
    found: np.ndarray = logs[1][both] - logs[0][both]
    return found


def _half(log_ratios: np.ndarray) -> float:
    if len(log_ratios) < 2:
        return 0.0
    return student_t(_LEVEL, len(log_ratios) - 1) * float(np.std(log_ratios, ddof=1))


def _model_half(first: Prediction, second: Prediction, name: str) -> float:
    if _same_node(first, second):
        return 0.0
    a, b = (each.parts(name, level=_LEVEL).discrepancy for each in (first, second))
    shared = shared_error(first, second)
    return math.sqrt(max(0.0, a**2 + b**2 - 2.0 * shared * a * b))


def _same_node(first: Prediction, second: Prediction) -> bool:
    return first.case.scenario == second.case.scenario and first.system == second.system


def shared_error(first: Prediction, second: Prediction) -> float:
    """Correlation of the model's errors between two predictions; see `SHARED_ERROR`."""
    if first.system.host.id != second.system.host.id:
        return 0.0
    same_engine = first.system.engine.id == second.system.engine.id
    same_load = first.case.scenario.workload == second.case.scenario.workload
    return SHARED_ERROR["all but threads" if same_engine and same_load else "host"]


def verdict_of(ratio: Estimate) -> Verdict:
    """What the interval of a ratio says."""
    if ratio.low == ratio.high == 1.0:
        return "the same"
    if ratio.low > 1.0:
        return "higher"
    return "lower" if ratio.high < 1.0 else "undecided"
