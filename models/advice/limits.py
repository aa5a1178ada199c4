"""How far a setting goes, whatever load is asked of it, and how far a point is from there.

The limit of a setting is the highest load that meets its objective, or without one the highest that
it keeps up with. For clients that never pause it is what they get. For an open loop it is searched
for by simulation: one run of clients that never pause says what the setting serves when it is
saturated and which station is busiest then; bisection between nothing and somewhat more than that
finds the load, with the same random streams in every run. Nothing of this depends on the load that
was asked, so every load of a sweep is told the same limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

from ..prediction.predict import CLIENTS, TURNS, WORKERS, Prediction, predict_cases
from ..prediction.run_length import SATURATED
from ..prediction.system import System
from ..results.points import NextBottleneck
from ..scenario.schema import Scenario
from ..scenario.sweeps import Case
from ..scenario.workload import Bursts, Workload
from .objective import meets

REQUESTS = 12_000
"""Measured requests of each run of the search."""

MOST_SHARE = 1.25
"""An open loop serves no more than so much of what clients get that never pause: one of single
requests over many connections batches a little better."""

FIRST_SHARE = 0.95
ROUNDS = 7
"""Loads tried. The limit is known to 0.5% of what is served in saturation where it lies above
`FIRST_SHARE` of that, else to 1.5%."""

MANY_THREADS = 16
MANY_CLIENTS = 1000
"""Threads and clients of a run that shows what limits next."""

_RELATIVE_DIGITS = 9


@dataclass(frozen=True)
class Limit:
    """The highest load of a setting.

    Attributes
    ----------
    station
        What limits it when it is saturated.
    capacity_rps
        The highest load known to be kept up with, in requests a second.
    at_rps
        The highest load that meets the objective, at most `capacity_rps`; of a rate that changes
        its mean. None where that was not searched for.
    objective
        Whether the objective is missed before the capacity is reached.
    following
        What would limit next if there were more of `station`; None if nothing is known to.
    """

    station: str
    capacity_rps: float
    at_rps: float | None
    objective: bool
    following: NextBottleneck | None


def find_limits(
    predictions: Sequence[Prediction],
    *,
    seed: int,
    search: bool = True,
    following: bool = True,
    executor: Executor | None = None,
) -> list[Limit]:
    """The limit of the setting of each prediction; one search for all loads of a setting.

    Parameters
    ----------
    search
        Whether to search for the highest load that meets the objective; without, what the setting
        serves in saturation has to do.
    following
        Whether to simulate what would limit next.
    """
    keys = [_key(prediction) for prediction in predictions] if len(predictions) > 1 else [""]
    first = dict(reversed(list(zip(keys, predictions, strict=True))))

    def run(cases: Sequence[tuple[Scenario, System]]) -> list[Prediction]:
        return predict_cases(
            [(Case(given={}, scenario=scenario), system) for scenario, system in cases],
            seed=seed,
            draws=0,
            replications=1,
            requests=REQUESTS,
            executor=executor,
        )

    paced = [key for key, p in first.items() if not _never_pauses(p.case.scenario.workload)]
    runs = run([(first[key].case.scenario.saturated(), first[key].system) for key in paced])
    saturated = first | dict(zip(paced, runs, strict=True))
    ends: dict[str, _End] = {key: (p.bottleneck, None) for key, p in saturated.items()}
    if following:
        ends = dict(zip(saturated, _ends(list(saturated.values()), run), strict=True))
    searched = [key for key, p in first.items() if search and _can_be_scaled(p.case.scenario)]
    found = _search(
        {key: (first[key], saturated[key].mean("throughput_rps")) for key in searched}, run
    )
    return [_limit(saturated[key], ends[key], found.get(key)) for key in keys]


_End = tuple[str, NextBottleneck | None]
"""What limits a saturated run, and what would limit it next."""


@dataclass(frozen=True)
class _Found:
    """The highest load that met the objective, the highest kept up with, and what ended it."""

    met_rps: float
    kept_up_rps: float
    objective: bool


def _limit(saturated: Prediction, end: _End, found: _Found | None) -> Limit:
    capacity_rps = saturated.mean("throughput_rps")
    at_rps: float | None = None
    objective = False
    if found is not None:
        objective = found.objective
        capacity_rps = max(capacity_rps, found.kept_up_rps) if objective else found.met_rps
        at_rps = found.met_rps
    elif _never_pauses(saturated.case.scenario.workload):
        at_rps = capacity_rps
    station, following = end
    if following is not None and following.at_rps < capacity_rps:
        following = replace(following, at_rps=capacity_rps)
    return Limit(station, capacity_rps, at_rps, objective, following)


def _search(settings: dict[str, tuple[Prediction, float]], run: Any) -> dict[str, _Found]:
    """Bisect the loads of all settings together."""
    met = dict.fromkeys(settings, 0.0)
    kept_up = dict.fromkeys(settings, 0.0)
    missed = dict.fromkeys(settings, MOST_SHARE)
    objective = dict.fromkeys(settings, False)
    share = dict.fromkeys(settings, FIRST_SHARE)
    for _ in range(ROUNDS if settings else 0):
        cases = [
            (_at_load(p.case.scenario, share[key] * capacity_rps), p.system)
            for key, (p, capacity_rps) in settings.items()
        ]
        for key, probe in zip(settings, run(cases), strict=True):
            if not probe.overloaded:
                kept_up[key] = max(kept_up[key], share[key])
            if meets(probe):
                met[key] = share[key]
            else:
                missed[key], objective[key] = share[key], not probe.overloaded
            share[key] = (met[key] + missed[key]) / 2.0
    return {
        key: _Found(met[key] * capacity_rps, kept_up[key] * capacity_rps, objective[key])
        for key, (_, capacity_rps) in settings.items()
    }


def _ends(saturated: Sequence[Prediction], run: Any) -> list[_End]:
    """What limits saturated runs, and what would limit them next.

    How busy a main thread is while I/O threads limit doesn't tell: it fills its time with small
    batches. Nor does how busy stations are with few clients. A run with ample of them does. Where
    it serves no more because threads take turns, these and not the clients are the limit.
    """
    ample = {i: s for i, p in enumerate(saturated) if (s := _ample(p)) is not None}
    keys = {i: _named(scenario, saturated[i].system) for i, scenario in ample.items()}
    asked = {key: (ample[i], saturated[i].system) for i, key in keys.items()}
    runs = dict(zip(asked, run(list(asked.values())), strict=True))
    found: list[_End] = [(each.bottleneck, each.next_bottleneck) for each in saturated]
    for i, key in keys.items():
        best, (station, following) = runs[key], found[i]
        name, at_rps = best.bottleneck, best.mean("throughput_rps")
        more = at_rps >= saturated[i].mean("throughput_rps")
        if name == CLIENTS:
            name = max(best.utilisation, key=best.utilisation.__getitem__)
        if name == TURNS and station == CLIENTS and not more:
            found[i] = TURNS, following
        elif name == station or not more:
            found[i] = station, None
        else:
            found[i] = station, NextBottleneck(name, at_rps)
    return found


def _ample(prediction: Prediction) -> Scenario | None:
    """The scenario with more of what limits it, where that can be simulated."""
    scenario = prediction.case.scenario
    if prediction.bottleneck in ("I/O threads", WORKERS):
        most = prediction.system.engine.max_io_threads
        many = min(most, max(MANY_THREADS, 2 * scenario.io_threads))
        if many > scenario.io_threads:
            return scenario.model_copy(update={"io_threads": many})
    if prediction.bottleneck == CLIENTS and scenario.workload.clients < MANY_CLIENTS:
        return scenario.with_workload(clients=MANY_CLIENTS)
    return None


def _never_pauses(workload: Workload) -> bool:
    return workload.arrival == "closed_loop" and workload.think_us == 0


def _can_be_scaled(scenario: Scenario) -> bool:
    """Whether the load has a rate to be searched over; a recorded trace has only its own."""
    return scenario.workload.arrival == "open_loop" and scenario.workload.trace is None


def _at_load(scenario: Scenario, mean_rps: float) -> Scenario:
    """The same open loop at another mean rate: one that changes does so in the same proportion."""
    workload = scenario.workload
    factor = mean_rps / (workload.mean_rate_rps or 1.0)
    changes: dict[str, Any] = {}
    if workload.rate_rps is not None:
        changes["rate_rps"] = mean_rps
    if workload.rate_profile is not None:
        changes["rate_profile"] = [
            piece.model_copy(update={"rate_rps": _relative(factor * piece.rate_rps)})
            for piece in workload.rate_profile
        ]
    if workload.bursts is not None:
        bursts = workload.bursts
        rates = {
            "calm_rps": _relative(factor * bursts.calm_rps),
            "burst_rps": _relative(factor * bursts.burst_rps),
        }
        changes["bursts"] = Bursts(calm_s=bursts.calm_s, burst_s=bursts.burst_s, **rates)
    return scenario.with_workload(**changes)


def _peak_rps(workload: Workload) -> float | None:
    """The highest rate of a load that changes; None of a steady one, and of a trace's gaps."""
    if workload.bursts is not None:
        return max(workload.bursts.calm_rps, workload.bursts.burst_rps)
    return max((piece.rate_rps for piece in workload.rate_profile or []), default=None)


def _relative(rate_rps: float) -> float:
    return float(f"{rate_rps:.{_RELATIVE_DIGITS}g}")


def _key(prediction: Prediction) -> str:
    """Key of a setting, whatever its offered load."""
    scenario, system = prediction.case.scenario, prediction.system
    if _can_be_scaled(scenario):
        scenario = _at_load(scenario, 1.0)
    elif scenario.workload.arrival == "open_loop" or scenario.workload.think_us > 0:
        scenario = scenario.saturated()
    return f"{prediction.case.scenario.workload.arrival} {_named(scenario, system)}"


def _named(scenario: Scenario, system: System) -> str:
    parts = "/".join(str(id(part)) for part in (system.host, system.engine, system.generator))
    return f"{parts} {scenario.model_dump_json()}"


@dataclass(frozen=True)
class Standing:
    """A point against the limit of its setting: those fields of a `Point`.

    `verdict` is that on its queue; `verdict.py` looks at the rest.
    """

    bottleneck: str
    next_bottleneck: NextBottleneck | None
    verdict: str
    limit_rps: float | None
    headroom_rps: float | None


def point_standing(prediction: Prediction, limit: Limit) -> Standing:
    """Compare a point with the limit of its setting."""
    workload = prediction.case.scenario.workload
    served_rps = prediction.mean("throughput_rps")
    if _never_pauses(workload):
        return Standing(limit.station, limit.following, "SATURATED", served_rps, 0.0)
    overloaded = prediction.overloaded
    offered_rps = workload.mean_rate_rps or served_rps
    changing = workload.rate_rps is None and workload.arrival == "open_loop"
    # What is known of the point itself is better than what a search said about its neighbours.
    limit_rps = limit.at_rps
    if limit_rps is not None and not overloaded and meets(prediction):
        limit_rps = max(limit_rps, offered_rps)
    capacity_rps = limit.capacity_rps if overloaded else max(limit.capacity_rps, served_rps)
    bound_rps = capacity_rps if limit_rps is None else limit_rps
    headroom_rps: float | None = 0.0 if overloaded else max(0.0, bound_rps - offered_rps)
    if changing and limit_rps is None:
        headroom_rps = None  # Without a search nothing is known of its peaks.
    if (
        not overloaded
        and limit.capacity_rps < SATURATED * served_rps
        and prediction.bottleneck == "none"
    ):
        # Threads that share cores or a quota spin them away when clients ask without a pause. Such
        # a setting serves less in saturation than here, so that says nothing of what it bears.
        return Standing("none", None, "STABLE", None, None)
    if overloaded or offered_rps >= SATURATED * capacity_rps:
        verdict = "OVERLOADED" if overloaded else "SATURATED"
        return Standing(limit.station, limit.following, verdict, limit_rps, headroom_rps)
    beyond = limit_rps is not None and limit_rps < offered_rps
    if beyond and changing:
        # What is served in saturation says nothing of a load whose peaks may exceed it.
        return Standing("none", None, "STABLE", limit_rps, 0.0)
    at_rps = capacity_rps if limit_rps is None or beyond else limit_rps
    peak_rps = _peak_rps(workload)
    if limit_rps is not None and peak_rps is not None:
        peak_rps = at_rps * peak_rps / offered_rps
    else:
        peak_rps = None
    coming = NextBottleneck(limit.station, at_rps, limit.objective and not beyond, peak_rps)
    return Standing("none", coming, "STABLE", limit_rps, headroom_rps)
