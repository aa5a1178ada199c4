"""Two nodes side by side: what the second gains or loses against the first.

Both are simulated with the same random streams and at the same draws of everything uncertain, so
that the ratio of the two is known better than either: what they share cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from forecache.hwprofiles.files import named
from forecache.sim.errors import InputError
from forecache.sim.plain import Result
from forecache.sim.processes import workers
from forecache.sim.statistics import Estimate, student_t

from ..footprint.node import node_room
from ..prediction.predict import LATENCIES, SERVER_CPU, Prediction, Progress
from ..prediction.system import System
from ..results.points import Point
from ..results.provenance import Provenance, provenance
from ..scenario.sweeps import Case
from .answers import (
    ScenarioSource,
    candidates_of,
    check_threads_only,
    load_cases,
    name_of,
)
from .choice import Candidate, choose
from .node_answers import NodeAnswer, summary_of
from .server_price import server_price

Verdict = Literal["higher", "lower", "the same", "undecided"]

SHARED_ERROR = {"all but threads": 0.4, "host": 0.25}
"""Correlation of the model's own errors between two nodes that share so much; 0 on two hosts.

Points of the joint fit, two at a time: errors of settings that differ in io-threads have 45% in
common, of loads and engines on one host 24 to 27%, of two hosts nothing (`docs/scores.md`, "What
two predictions have in common")."""

_LEVEL = 0.95
_HOURS_PER_MONTH = 730.0


@dataclass(frozen=True)
class Side(NodeAnswer):
    """One of the two: its scenario, and the point that is compared."""

    name: str
    point: Point


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


@dataclass(frozen=True)
class NodeComparison(Result):
    """What `compare` answers."""

    first: Side
    second: Side
    differences: list[PairedQuantity]
    provenance: Provenance


def compare(
    first: ScenarioSource,
    second: ScenarioSource,
    *,
    seed: int = 1,
    progress: Progress | None = None,
) -> NodeComparison:
    """Predict two scenarios with common random numbers, and the ratio of what is predicted.

    A scenario that sweeps io_threads stands for the setting that `recommend` chooses.

    Raises
    ------
    InputError
        A scenario is not valid, or sweeps something else than io_threads.
    """
    sources = first, second
    names = _names(sources)
    systems: list[list[tuple[Case[Any], System]]] = []
    for source, name in zip(sources, names, strict=True):
        found = load_cases(source)
        check_threads_only(found, file=name)
        systems.append(found)
    with named(" and ".join(names)), workers() as where:
        together = candidates_of(
            [*systems[0], *systems[1]], seed=seed, progress=progress, executor=where
        )
    cut = len(systems[0])
    one, other = _chosen(together[:cut]), _chosen(together[cut:])
    return NodeComparison(
        first=_side(names[0], one),
        second=_side(names[1], other),
        differences=differences(one, other),
        provenance=provenance(seed=seed),
    )


def _names(sources: Sequence[ScenarioSource]) -> list[str]:
    """What to call both; two mappings are told apart."""
    given = [name_of(source) for source in sources]
    if given[0] != given[1]:
        return given
    if not any(isinstance(source, Mapping) for source in sources):
        raise InputError(f"{given[0]}: found the same file twice; valid are two scenarios.")
    return ["first", "second"]


def _chosen(candidates: Sequence[Candidate]) -> Candidate:
    return choose(candidates).chosen if len(candidates) > 1 else candidates[0]


def _side(name: str, candidate: Candidate) -> Side:
    prediction = candidate.prediction
    about = summary_of(prediction.case.scenario, prediction.system)
    return Side(**about, name=name, point=candidate.point)


def differences(first: Candidate, second: Candidate) -> list[PairedQuantity]:
    """Throughput, latencies, CPU time, memory and cost of both."""
    one, other = first.prediction, second.prediction
    found = [
        _predicted(one, other, name) for name in ("throughput_rps", "p50_ms", "p99_ms", SERVER_CPU)
    ]
    found.append(_known("used_memory_bytes", _used_bytes(one), _used_bytes(other)))
    prices = server_price(one.system), server_price(other.system)
    if prices[0] is not None and prices[1] is not None:
        monthly = [each.usd_per_hour * _HOURS_PER_MONTH for each in prices if each is not None]
        found.append(_known("usd_per_month", *monthly))
        found.append(_per_request(found[0], *monthly))
    return found


def _predicted(first: Prediction, second: Prediction, name: str) -> PairedQuantity:
    if name in LATENCIES and (first.overloaded or second.overloaded):
        return PairedQuantity(name, first.estimate(name), second.estimate(name), None, "undecided")
    ratio = paired_ratio(first, second, name)
    return PairedQuantity(name, first.estimate(name), second.estimate(name), ratio, _verdict(ratio))


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


def _used_bytes(prediction: Prediction) -> float:
    system = prediction.system
    return node_room(prediction.case.scenario, system.engine, system.host).used_bytes


def _known(name: str, first: float, second: float) -> PairedQuantity:
    """Of numbers without an interval."""
    ratio = second / first if first > 0.0 else math.nan
    return PairedQuantity(
        name,
        Estimate(first, first, first),
        Estimate(second, second, second),
        Estimate(ratio, ratio, ratio),
        _verdict(Estimate(ratio, ratio, ratio)),
    )


def _per_request(throughput: PairedQuantity, first: float, second: float) -> PairedQuantity:
    """Of a million requests at the predicted throughput."""
    per_million = 1e6 / (_HOURS_PER_MONTH * 3600.0)
    costs = [
        Estimate(*(usd * per_million / rate for rate in (each.value, each.high, each.low)))
        for usd, each in ((first, throughput.first), (second, throughput.second))
        if each is not None and each.low > 0.0
    ]
    if len(costs) < 2 or throughput.ratio is None:
        return PairedQuantity("usd_per_million_requests", None, None, None, "undecided")
    rates = throughput.ratio
    ratio = Estimate(*(second / first / each for each in (rates.value, rates.high, rates.low)))
    return PairedQuantity("usd_per_million_requests", costs[0], costs[1], ratio, _verdict(ratio))


def _verdict(ratio: Estimate) -> Verdict:
    if ratio.low == ratio.high == 1.0:
        return "the same"
    if ratio.low > 1.0:
        return "higher"
    return "lower" if ratio.high < 1.0 else "undecided"
