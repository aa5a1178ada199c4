"""The capacity limit of a node that runs today: the highest load that meets the objective.

At every load the prediction says with which probability the objective is met, given all that is
uncertain: numbers of host and engine by draws, the model's own error. It falls as the load grows.
Where it is a half lies the limit, where it is 97.5% and 2.5% the ends of its interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from forecache.sim.errors import InputError
from forecache.sim.statistics import Estimate
from forecache.sim.words import byte_size

from ..advice.answers import load_cases
from ..advice.limits import find_limits
from ..advice.next_measurement import next_measurement
from ..advice.objective import objective_bounds, probability
from ..advice.sensitivity import ChoiceInputs
from ..engines.commands import counted_on
from ..engines.profile import load_engine
from ..prediction.caveats import not_covered
from ..prediction.predict import SERVER_CPU, Prediction, predict_cases
from ..prediction.system import System
from ..prediction.uncertainty import Z95
from ..scenario.schema import Scenario
from ..scenario.sweeps import Case
from ..scenario.versions import minor_version
from ..scenario.workload import MOST_OUTSTANDING, RATES, Zipf
from .own_times import (
    PIPELINES,
    OwnTimeCorrections,
    awake_us,
    corrections_from,
    mean_times,
    nominal_awake_us,
    parts_under,
)
from .results import (
    CapacityLimit,
    CurrentNode,
    FromInfo,
    NodeHeadroom,
    SettingChange,
    ThreadShare,
)
from .schema import PlanDemand
from .shard import feeds_replicas

LOW, MIDDLE, HIGH = 0.975, 0.5, 0.025
"""Probabilities at the lower end of the interval, at the limit, and at the upper end."""

_FIRST = (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5)
"""Shares of the nominal limit that are tried first."""

_MOST_ROUNDS = 12
_NEAR = 0.02
"""Loads between which an end is sought no further."""

_WIDEST = 64.0

_THREADS = (2, 4, 8)

_OTHER_DEMANDS = {
    "clients": "{:,} connections",
    "pipeline": "pipelines of {:,}",
    "value_bytes": "values of {:,} B",
    "keys": "{:,} keys",
}
"""What may differ from what the files told, and how it is called."""
_SKEW = 0.99
"""Exponent of Zipf's law in the benchmark YCSB, for keys of which a few are asked for most."""

_TOOL = "load generator"

_PIPELINED = (
    "today's commands come in pipelines of {}: the limit of today's nodes is what they serve in "
    "saturation, and latency was not considered"
)
_PIPELINE = 1.5
"""Commands that came with one read from which on clients are taken to send pipelines."""

_OTHER_MEMORY = 0.15
"""By how much a machine's memory may differ: an instance's kernel sees some 2 to 7% less."""


def busiest_primary(
    found: FromInfo, demand: PlanDemand, *, slo: Mapping[str, float], node: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The scenario of a primary of today at its busiest.

    Parameters
    ----------
    demand
        Of all primaries together.
    node
        Fields of a node's scenario that INFO can't tell: at least its host.
    """
    shards = int(found.today["shards"])
    workload = demand.workload(rate_rps=demand.peak_rps / shards, share=1.0 / shards)
    own = dict(node)
    engine = {name: found.today[name] for name in ("engine", "engine_version")}
    fed = "engine" in own or feeds_replicas(load_engine(engine["engine"], engine["engine_version"]))
    return {
        **({} if "engine" in own else engine),  # a profile of one's own has its version
        "io_threads": found.today["io_threads"],
        "replicas": found.today["replicas"] if fed else 0,
        "tls": None if demand.tls is None else demand.tls.model_dump(),
        "persistence": (
            "none" if demand.persistence == "none" else demand.persistence.model_dump()
        ),
        "slo": dict(slo),
        **own,
        "workload": {
            **workload.model_dump(mode="json", exclude_none=True),
            **dict(own.get("workload") or {}),
        },
    }


def capacity_limit(
    found: FromInfo,
    scenario: Mapping[str, Any],
    *,
    times: float = 1.0,
    seed: int = 1,
) -> tuple[CapacityLimit, OwnTimeCorrections | None]:
    """The highest load of a primary of today that meets the objective, and its corrections.

    Parameters
    ----------
    scenario
        As `busiest_primary` makes it.
    times
        The multiple of today's peak that is asked about.
    """
    cases = load_cases(dict(scenario))
    if len(cases) != 1:
        raise InputError("field 'node': found a sweep; valid is one setting.")
    [(case, system)] = cases
    node = case.scenario
    primaries = [each for each in found.nodes if each.role == "primary"]
    pipeline, corrections, shares = measured_corrections(found, node, system, seed=seed)
    if corrections is not None:
        system = corrections.system

    def at(rates_rps: Sequence[float]) -> list[Prediction]:
        cases = [(Case({}, _under(node, pipeline, rps)), system) for rps in rates_rps]
        return predict_cases(cases, seed=seed)

    peak_rps = node.workload.rate_rps or 1.0
    [now] = at([times * peak_rps])
    full = node.saturated() if pipeline == 1 else _in_pipelines(node, pipeline, None)
    [saturated] = predict_cases([(Case({}, full), system)], seed=seed)
    capacity = _capacity(saturated, seed=seed)
    [limit] = find_limits([now if pipeline == 1 else saturated], seed=seed)
    nominal_rps = limit.at_rps or 0.0
    objective = objective_bounds(now)

    def chances(rates_rps: Sequence[float]) -> list[float]:
        predictions = at(rates_rps)
        return [probability(p, capacity_rps=limit.capacity_rps) or 0.0 for p in predictions]

    chance = probability(now, capacity_rps=limit.capacity_rps) or 0.0
    if pipeline > 1:
        most, objective, nominal_rps = capacity, {}, capacity.value
    else:
        ends = crossings(chances, nominal_rps or limit.capacity_rps, (LOW, MIDDLE, HIGH))
        most = Estimate(ends[MIDDLE], ends[LOW], ends[HIGH])
    # Of the main thread's time as little is known as of the CPU time a request takes.
    busy, cpu = now.utilisation.get("main thread"), now.interval(SERVER_CPU)
    if node.io_threads == 1:
        busy = parts_under(now, rate_rps=times * peak_rps).busy
    warnings = [*_other_machine(primaries, system), *not_covered(node, system)]
    if pipeline > 1:
        warnings.insert(0, _PIPELINED.format(pipeline))
    answer = CapacityLimit(
        host=system.host.instance or system.host.id,
        engine=system.engine.engine,
        engine_version=node.engine_version or system.engine.version,
        io_threads=node.io_threads,
        objective=objective,
        ceiling_rps=most,
        nominal_rps=nominal_rps,
        bottleneck="main thread" if limit.station == _TOOL else limit.station,
        nodes=[
            NodeHeadroom(
                each.name,
                each.peak_rps,
                1.0 - times * each.peak_rps / most.value if most.value > 0 else -math.inf,
            )
            for each in sorted(primaries, key=lambda each: -each.peak_rps)
        ],
        warnings=warnings,
        main_thread_busy=(
            None
            if busy is None
            else Estimate(busy, busy * cpu.low / cpu.value, busy * cpu.high / cpu.value)
        ),
        capacity_rps=capacity,
        time=shares,
        corrected=corrections is not None,
        shards=int(found.today["shards"]),
        peak_rps=node.workload.rate_rps or 0.0,
        times=times,
        probability=None if pipeline > 1 else chance,
        changes=_changes(full, system, seed=seed),
        otherwise=_other_demands(full, system, seed=seed),
        measure_next=None
        if corrections is not None
        else next_measurement(saturated, [], seed=seed),
    )
    return answer, corrections


def measured_corrections(
    found: FromInfo, node: Scenario, system: System, *, seed: int
) -> tuple[int, OwnTimeCorrections | None, list[ThreadShare]]:
    """Commands that clients send at once, and what the nodes' own times say of their system.

    Parameters
    ----------
    node
        A primary under any load.
    """
    primaries = [each for each in found.nodes if each.role == "primary"]
    means = mean_times([(each.times, each.rate_rps) for each in primaries if each.times])
    if means is None:
        return 1, None, []
    own, rate_rps = means
    each_read = own.commands_a_read
    if each_read is None:
        pipelines = PIPELINES if own.busy is not None else (1,)
    else:
        pipelines = (1,) if each_read < _PIPELINE else (min(1024, round(each_read)),)
    tried = []
    for pipeline in pipelines:
        load = _under(node, pipeline, rate_rps)
        found_here = corrections_from(load, system, own, rate_rps=rate_rps, seed=seed)
        tried.append((pipeline, *found_here))
    # The number of commands that leaves the least of a request to be corrected.
    return min(
        tried,
        key=lambda row: 0.0 if row[1] is None else abs(row[1].system.nominal_corrections.rest),
    )


def _changes(full: Scenario, system: System, *, seed: int) -> list[SettingChange]:
    """What a node would serve with other settings, the most first.

    Parameters
    ----------
    full
        The load in saturation.
    """
    engine, cores = system.engine, system.numbers().speed.cores
    cases = {}
    for threads in _THREADS:
        if full.io_threads < threads <= min(cores, engine.max_io_threads):
            more = full.model_copy(update={"io_threads": threads})
            cases[f"io-threads {threads}"] = (more, system)
    try:
        newest = load_engine(engine.engine)
    except InputError:  # a profile of one's own of an engine that isn't shipped
        newest = engine
    counted = set(full.workload.commands) <= {*counted_on(newest.commands)}
    if minor_version(newest.version) != minor_version(engine.version) and counted:
        version = full.model_copy(update={"engine_version": newest.version})
        cases[f"{newest.engine} {newest.version}"] = (version, replace(system, engine=newest))
    return sorted(_served_with(cases, (full, system), seed=seed), key=lambda each: -each.ratio)


def _other_demands(full: Scenario, system: System, *, seed: int) -> list[SettingChange]:
    """What a node would serve if the demand were another, the largest differences first.

    Each field alone at the ends of the range over which `sensitivity` varies it.
    """
    point = (Case({}, full), system)
    cases = {}
    for each in ChoiceInputs.of([point], point).inputs:
        if each.name in _OTHER_DEMANDS:
            for value in (each.values[0], each.values[-1]):
                if value != getattr(full.workload, each.name):
                    name = _OTHER_DEMANDS[each.name].format(value)
                    cases[name] = (full.with_workload(**{each.name: value}), system)
    if full.workload.popularity == "uniform":
        skewed = {"popularity": Zipf(zipf=_SKEW)}
        cases[f"a few keys asked for most (zipf {_SKEW})"] = full.with_workload(**skewed), system
    found = _served_with(cases, (full, system), seed=seed)
    return sorted(found, key=lambda each: -abs(math.log(each.ratio)))


def _served_with(
    cases: Mapping[str, tuple[Scenario, System]], base: tuple[Scenario, System], *, seed: int
) -> list[SettingChange]:
    """What a node serves in saturation in each case, against the base, at the nominal numbers."""
    predicted = predict_cases(
        [(Case({}, scenario), of) for scenario, of in (base, *cases.values())],
        seed=seed,
        draws=0,
        replications=1,
    )
    today, *others = map(_served_rps, predicted)
    return [SettingChange(n, rps, rps / today) for n, rps in zip(cases, others, strict=True)]


def _served_rps(saturated: Prediction) -> float:
    """What a node serves when it is never idle, at the nominal numbers.

    Clients are as many and as fast as it takes. With one thread it is what the main thread's steps
    take but for sleeping, to which a load generator that is too slow forces it.
    """
    served = saturated.mean("throughput_rps")
    if saturated.bottleneck not in ("main thread", _TOOL):
        return served
    if saturated.case.scenario.io_threads > 1:
        return served / max(0.01, saturated.utilisation.get("main thread", 1.0))
    return 1e6 / nominal_awake_us(saturated)


def _capacity(saturated: Prediction, *, seed: int) -> Estimate:
    """The same with its interval: draws price the same steps."""
    served, value = saturated.interval("throughput_rps"), _served_rps(saturated)
    if saturated.bottleneck in ("main thread", _TOOL) and saturated.case.scenario.io_threads == 1:
        spread = float(np.std(np.log(awake_us(saturated, seed=seed))))
        half = Z95 * math.hypot(spread, saturated.model_error)
        return Estimate(value, value * math.exp(-half), value * math.exp(half))
    scale = value / served.value
    return Estimate(value, scale * served.low, scale * served.high)


def _under(node: Scenario, pipeline: int, rate_rps: float) -> Scenario:
    """The node under a load."""
    if pipeline > 1:
        return _in_pipelines(node, pipeline, rate_rps)
    return node.with_workload(rate_rps=rate_rps)


def _in_pipelines(node: Scenario, pipeline: int, rate_rps: float | None) -> Scenario:
    """The same load by clients that send several commands at once, pausing for a rate if given."""
    load = node.workload
    clients = max(1, min(load.clients, MOST_OUTSTANDING // pipeline))
    think_us = 0.0 if rate_rps is None else min(1e7, 1e6 * clients * pipeline / rate_rps)
    return node.with_workload(
        **dict.fromkeys(RATES),
        arrival="closed_loop",
        pipeline=pipeline,
        clients=clients,
        think_us=think_us,
    )


def crossings(
    chances: Callable[[Sequence[float]], list[float]], start: float, wanted: Sequence[float]
) -> dict[float, float]:
    """Loads at which a falling probability takes given values.

    Parameters
    ----------
    chances
        Probabilities at some loads.
    start
        A load near which they are sought.

    Loads are tried around `start`, outwards until the values lie between, and then where a straight
    line in the normal quantile of the probability says. 0 is a value that no load reaches, however
    light.
    """
    first = [share * start for share in _FIRST]
    known = dict(zip(first, chances(first), strict=True))
    for _ in range(_MOST_ROUNDS):
        falling = _falling(known)
        rates = [rate for rate, _ in falling]
        missing = []
        if falling[0][1] < max(wanted) and rates[0] > start / _WIDEST:
            missing.append(rates[0] / 1.4)
        if falling[-1][1] > min(wanted) and rates[-1] < start * _WIDEST:
            missing.append(rates[-1] * 1.4)
        for value in wanted:
            before, after = _around(falling, value)
            if before and after and math.log(after[0] / before[0]) > _NEAR:
                missing.append(_between(before, after, value))
        missing = [rate for rate in dict.fromkeys(missing) if rate not in known]
        if not missing:
            break
        known |= dict(zip(missing, chances(missing), strict=True))
    falling = _falling(known)
    found = {}
    for value in wanted:
        before, after = _around(falling, value)
        if before and after:
            found[value] = _between(before, after, value)
        else:
            found[value] = before[0] if before else 0.0
    return found


_Point = tuple[float, float]


def _falling(known: Mapping[float, float]) -> list[_Point]:
    """The points by load, made non-increasing: a higher load is never likelier to be met."""
    found: list[_Point] = []
    least = 1.0
    for rate in sorted(known):
        least = min(least, known[rate])
        found.append((rate, least))
    return found


def _around(falling: Sequence[_Point], value: float) -> tuple[_Point | None, _Point | None]:
    """The last point with at least a probability, and the first with less."""
    before = [each for each in falling if each[1] >= value]
    after = [each for each in falling if each[1] < value]
    return (before[-1] if before else None), (after[0] if after else None)


def _between(before: _Point, after: _Point, value: float) -> float:
    """Load at which the line between two points has a value; not too near to either."""
    ends = [float(ndtri(min(max(p, 1e-6), 1.0 - 1e-6))) for _, p in (before, after)]
    wanted = float(ndtri(value))
    share = 0.5 if ends[0] == ends[1] else (ends[0] - wanted) / (ends[0] - ends[1])
    share = min(0.9, max(0.1, share))
    return before[0] * (after[0] / before[0]) ** share


def _other_machine(nodes: Sequence[CurrentNode], system: System) -> list[str]:
    """Warnings about nodes whose INFO contradicts the host that was named."""
    host, name = system.host, system.host.instance or system.host.id
    found = []
    for node in nodes:
        if node.isa is not None and node.isa != host.isa:
            found.append(f"{node.name} runs on {node.isa} by its INFO, and {name} is {host.isa}")
        told, known = node.system_memory_bytes, (host.memory_gib.value or 0.0) * 2**30
        if told and known and abs(told / known - 1.0) > _OTHER_MEMORY:
            found.append(
                f"{node.name} has {byte_size(told)} of memory by its INFO, and {name} has "
                f"{byte_size(known)}"
            )
    return found
