"""Two nodes side by side: what the second gains or loses against the first.

Both are simulated with the same random streams and at the same draws of everything uncertain, so
that the ratio of the two is known better than either: what they share cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from forecache.hwprofiles.files import named
from forecache.sim.errors import InputError
from forecache.sim.processes import workers
from forecache.sim.statistics import Estimate, exactly

from ..footprint.node import node_room
from ..prediction.predict import SERVER_CPU, Prediction, Progress
from ..prediction.system import NodeCase
from ..prices.table import server_price
from ..results.displayed import Displayed, Provenance, provenance
from ..results.points import Point
from ..scenario.source import ScenarioFile, ScenarioSource, read_scenario
from .answers import check_threads_only, predict_candidates
from .cases import load_cases
from .node_answers import NodeAnswer, node_summary
from .paired import (
    PairedQuantity,
    capacity_ratio_half,
    paired_quantity,
    ratio_interval,
    ratio_verdict,
    server_busy,
)
from .recommend import Candidate, choose

_HOURS_PER_MONTH = 730.0


@dataclass(frozen=True)
class Side(NodeAnswer):
    """One of the two: its scenario, and the point that is compared."""

    name: str
    point: Point
    price_note: str = ""
    """Whose price its node has; empty where none is known."""


@dataclass(frozen=True)
class NodeComparison(Displayed):
    """What `compare` answers."""

    first: Side
    second: Side
    differences: list[PairedQuantity]
    provenance: Provenance


def compare(
    first: ScenarioSource,
    second: ScenarioSource | None = None,
    *,
    points: Sequence[str] = (),
    seed: int = 1,
    progress: Progress | None = None,
) -> NodeComparison:
    """Predict two scenarios with common random numbers, and the ratio of what is predicted.

    A scenario that sweeps io_threads stands for the setting that `recommend` chooses. Without a
    second, two `points` of the first are compared, `engine=valkey 9.1` each; if it has only two,
    they need not be named.
    """
    if second is None:
        names, systems = _two_points(read_scenario(first), points)
    else:
        names, systems = _two_scenarios(first, second, points)
    with named(" and ".join(names)), workers() as where:
        together = predict_candidates(
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


def _two_scenarios(
    first: ScenarioSource, second: ScenarioSource, points: Sequence[str]
) -> tuple[list[str], list[list[NodeCase]]]:
    """What two scenarios are called, and the cases of each."""
    if points:
        raise InputError(f"found the point {points[0]!r} of two scenarios; valid is one scenario.")
    given = read_scenario(first), read_scenario(second)
    names = [each.name for each in given]
    if names[0] == names[1]:
        if not any(isinstance(source, Mapping) for source in (first, second)):
            raise InputError(f"{names[0]}: found the same file twice; valid are two scenarios.")
        names = ["first", "second"]
    systems = [load_cases(each) for each in given]
    for found, name in zip(systems, names, strict=True):
        check_threads_only(found, file=name)
    return names, systems


def _two_points(
    given: ScenarioFile, points: Sequence[str]
) -> tuple[list[str], list[list[NodeCase]]]:
    """The same of two points of one scenario's sweep, all if none are named."""
    by_point: dict[str, list[NodeCase]] = {}
    for case, system in load_cases(given):
        words = ", ".join(f"{n}={value}" for n, value in case.given.items() if n != "io_threads")
        by_point.setdefault(words, []).append((case, system))
    known = "; ".join(list(by_point)[:8]) + ("; …" if len(by_point) > 8 else "")
    found: dict[str, list[NodeCase]] = {}
    for point in points or by_point:
        wanted = {part.strip() for part in point.split(",")}
        meant = [w for w in by_point if w == point or wanted <= set(w.split(", "))]
        if len(meant) != 1:
            raise InputError(
                f"{given.name}: found {point!r}, which {len(meant)} points have; valid is one of "
                f"{known}."
            )
        found[meant[0]] = by_point[meant[0]]
    if len(found) != 2:
        count = f"{len(found)} point{'s' * (len(found) != 1)}"
        raise InputError(
            f"{given.name}: found {count} to compare; valid are two of its sweep "
            f"({known or 'it has none'}), or a second scenario."
        )
    return list(found), list(found.values())


def _chosen(candidates: Sequence[Candidate]) -> Candidate:
    return choose(candidates).chosen if len(candidates) > 1 else candidates[0]


def _side(name: str, candidate: Candidate) -> Side:
    prediction = candidate.prediction
    about = node_summary(prediction.case.scenario, prediction.system)
    price = server_price(prediction.system.host, prediction.system.engine.engine)
    note = "" if price is None else price.note
    return Side(**about, name=name, point=candidate.point, price_note=note)


def differences(first: Candidate, second: Candidate) -> list[PairedQuantity]:
    """Throughput, latencies, CPU time, what both could serve, memory and cost."""
    one, other = first.prediction, second.prediction
    found = [
        paired_quantity(one, other, name)
        for name in ("throughput_rps", "p50_ms", "p99_ms", SERVER_CPU)
    ]
    throughput = found[0]
    found += _limits(first, second, throughput)
    found.append(_known("used_memory_bytes", _used_bytes(one), _used_bytes(other)))
    prices = [server_price(s.host, s.engine.engine) for s in (one.system, other.system)]
    if prices[0] is not None and prices[1] is not None:
        monthly = [each.usd_per_hour * _HOURS_PER_MONTH for each in prices if each is not None]
        found.append(_known("usd_per_month", *monthly))
        found.append(_per_request(throughput, *monthly))
    return found


def _limits(
    first: Candidate, second: Candidate, throughput: PairedQuantity
) -> list[PairedQuantity]:
    """What both could serve; nothing where that is not known of both."""
    first_rps, second_rps = first.point.limit_rps, second.point.limit_rps
    if not first_rps or not second_rps:
        return []
    if _never_pause(first) and _never_pause(second):
        return [replace(throughput, quantity="limit_rps")]
    # The station that limits each at its limit.
    stations = [
        point.next_bottleneck.name
        if point.bottleneck == "none" and point.next_bottleneck is not None
        else point.bottleneck
        for point in (first.point, second.point)
    ]
    half = capacity_ratio_half(
        first.prediction,
        second.prediction,
        bound_by=stations[0] if stations[0] == stations[1] else "",
        busy=(_server_at_limit(first, first_rps), _server_at_limit(second, second_rps)),
    )
    ratio = ratio_interval(second_rps / first_rps, half)
    return [
        PairedQuantity(
            "limit_rps",
            _limit_with_interval(first, first_rps),
            _limit_with_interval(second, second_rps),
            ratio,
            ratio_verdict(ratio),
        )
    ]


def _never_pause(candidate: Candidate) -> bool:
    """Whether its clients get all that it could serve."""
    workload = candidate.prediction.case.scenario.workload
    return workload.arrival == "closed_loop" and workload.think_us == 0


def _server_at_limit(candidate: Candidate, limit_rps: float) -> float:
    """How busy the server's busiest station is at the limit, in proportion to the load."""
    prediction = candidate.prediction
    return server_busy(prediction) * limit_rps / max(1e-9, prediction.mean("throughput_rps"))


def _limit_with_interval(candidate: Candidate, limit_rps: float) -> Estimate:
    """A limit is uncertain as the CPU time of a request is."""
    cpu = candidate.prediction.interval(SERVER_CPU)
    half = math.log(cpu.high / cpu.value) if cpu.value > 0.0 else 0.0
    return ratio_interval(limit_rps, half)


def _used_bytes(prediction: Prediction) -> float:
    system = prediction.system
    return node_room(prediction.case.scenario, system.engine, system.host).used_bytes


def _known(name: str, first: float, second: float) -> PairedQuantity:
    """Of numbers without an interval."""
    values = exactly(first), exactly(second)
    if first <= 0.0:
        return PairedQuantity(name, *values, None, None)
    ratio = ratio_interval(second / first, 0.0)
    return PairedQuantity(name, *values, ratio, ratio_verdict(ratio))


def _per_request(throughput: PairedQuantity, first: float, second: float) -> PairedQuantity:
    """Of a million requests at the predicted throughput."""
    per_million = 1e6 / (_HOURS_PER_MONTH * 3600.0)
    costs = [
        Estimate(*(usd * per_million / rate for rate in (each.value, each.high, each.low)))
        for usd, each in ((first, throughput.first), (second, throughput.second))
        if each is not None and each.low > 0.0
    ]
    if len(costs) < 2 or throughput.ratio is None:
        return PairedQuantity("usd_per_million_requests", None, None, None, None)
    rates = throughput.ratio
    ratio = Estimate(*(second / first / each for each in (rates.value, rates.high, rates.low)))
    return PairedQuantity(
        "usd_per_million_requests", costs[0], costs[1], ratio, ratio_verdict(ratio)
    )
