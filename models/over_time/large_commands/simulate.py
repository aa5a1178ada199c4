"""A run: large commands one after the other, and what others feel meanwhile."""

from __future__ import annotations

import numpy as np

from forecache.hwprofiles import load_host
from forecache.sim.errors import InputError

from ...prediction.predict import Progress
from ...results.series import Cell, Fact, Mark, Run, Series, Table
from ...scenario.versions import taken_as_newest
from .scenario import LargeCommands
from .timeline import Timed, place_of, profile_of, service_s, timeline
from .waiting import Block, ServiceTurns, by_time, latencies, poisson_arrivals
from .work import Chosen, load_work

_MOST_REQUESTS = 30_000_000
_BUCKETS = 400
_LEAST_DURATION_S = 0.1


def simulate_large_commands(
    scenario: LargeCommands, seed: int = 1, progress: Progress = print
) -> Run:
    """Run a scenario of `kind: large_commands`.

    Raises
    ------
    InputError
        Something it names is not known, or others ask for more than can be followed.
    """
    place, chosen = place_of(scenario)
    timed = timeline(scenario, place)
    end_s = max(timed[-1].end_s * 1.05, _LEAST_DURATION_S)
    duration_s = scenario.duration_s or end_s
    edges = np.linspace(0.0, duration_s, _BUCKETS + 1)
    series = [
        Series("busy with large commands", "", "main thread", _busy(timed, edges)),
        Series("waiting to be sent", "bytes", "reply buffer", _buffered(timed, edges)),
    ]
    facts: list[Fact] = []
    felt_columns: list[list[float | None]] = [[None, None] for _ in timed]
    if scenario.load is not None and scenario.load.requests_per_s > 0:
        felt_series, felt_facts, felt_columns = _felt(scenario, timed, edges, seed, progress)
        series = [*felt_series, *series]
        facts += felt_facts
    facts += [
        Fact("longest time other clients wait", _longest(timed), "s"),
        Fact("largest reply buffer", max(_reply_bytes(t) for t in timed), "bytes"),
        Fact("main-thread time", sum(t.lasting.main_thread_ns for t in timed) / 1e9, "s"),
    ]
    return Run(
        times_s=edges[:-1],
        series=series,
        facts=facts,
        marks=[Mark(t.start_s, t.lasting.name) for t in timed],
        tables=_tables(timed, felt_columns),
        warnings=_warnings(scenario, chosen),
    )


def _reply_bytes(timed: Timed) -> float:
    return timed.lasting.moved.total_bytes if timed.lasting.blocking else 0.0


def _longest(timed: list[Timed]) -> float:
    return max(t.lasting.execution_ns for t in timed) / 1e9


def _overlap(edges: np.ndarray, start_s: float, end_s: float) -> np.ndarray:
    """Share of each bucket that lies between two times."""
    inside = np.minimum(edges[1:], end_s) - np.maximum(edges[:-1], start_s)
    return np.asarray(np.clip(inside, 0.0, None) / np.diff(edges))


def _busy(timed: list[Timed], edges: np.ndarray) -> np.ndarray:
    """Share of the main thread that the commands take."""
    total = np.zeros(edges.size - 1)
    for t in timed:
        one_way = t.lasting.round_trip_ns / 2e9
        total += _overlap(edges, t.start_s + one_way, t.executed_s)
        if t.lasting.stream_ns > 0:
            writing = t.lasting.moved.server_ns / t.lasting.stream_ns
            total += writing * _overlap(edges, t.executed_s, t.streamed_s)
    return total


def _buffered(timed: list[Timed], edges: np.ndarray) -> np.ndarray:
    """Bytes of replies that wait on the server, at the start of each bucket."""
    times = edges[:-1]
    total = np.zeros(times.size)
    for t in timed:
        size = _reply_bytes(t)
        received = t.start_s + t.lasting.round_trip_ns / 2e9
        points = [received, t.executed_s, max(t.streamed_s, t.executed_s + 1e-12)]
        total += np.interp(times, points, [0.0, size, 0.0], left=0.0, right=0.0)
    return total


def _felt(
    scenario: LargeCommands,
    timed: list[Timed],
    edges: np.ndarray,
    seed: int,
    progress: Progress,
) -> tuple[list[Series], list[Fact], list[list[float | None]]]:
    assert scenario.load is not None
    rate, service = scenario.load.requests_per_s, service_s(scenario)
    duration_s = float(edges[-1])
    if rate * duration_s > _MOST_REQUESTS:
        raise InputError(
            f"field load.requests_per_s: found {rate:,.0f} over {duration_s:,.0f} s; valid is up "
            f"to {_MOST_REQUESTS:,} requests in all."
        )
    used = rate * service
    if used >= 1.0:
        raise InputError(
            f"field load.requests_per_s: found {rate:,.0f}, which the main thread can't serve "
            f"({service * 1e6:.3g} us each); valid is less than {1.0 / service:,.0f}."
        )
    progress(f"{rate * duration_s:,.0f} requests of others")
    random = np.random.Generator(np.random.Philox(seed))
    arrival = poisson_arrivals(rate, duration_s, random)
    found = latencies(
        arrival,
        service_s=service,
        blocks=[
            Block(t.start_s + t.lasting.round_trip_ns / 2e9, t.lasting.execution_ns / 1e9)
            for t in timed
            if t.lasting.execution_ns > 0
        ],
        turns=[
            ServiceTurns(
                t.executed_s,
                t.streamed_s,
                t.lasting.turn_ns / 1e9,
                min(1.0 - used, t.lasting.moved.server_ns / t.lasting.stream_ns),
            )
            for t in timed
            if t.lasting.stream_ns > 0
        ],
        random=random,
    )
    found += 2e-6 * load_host(scenario.host).speed().network_one_way_us
    felt = by_time(arrival, found, edges)
    series = [
        Series("p50", "ms", "latency of others", 1e3 * felt.p50_s),
        Series("p99", "ms", "latency of others", 1e3 * felt.p99_s),
        Series("longest", "ms", "latency of others", 1e3 * felt.max_s),
    ]
    facts = []
    if arrival.size:
        facts = [
            Fact("longest latency of others", 1e3 * float(found.max()), "ms"),
            Fact("p99 of others", 1e3 * float(np.quantile(found, 0.99)), "ms"),
            Fact("p50 of others", 1e3 * float(np.quantile(found, 0.5)), "ms"),
        ]
    columns: list[list[float | None]] = []
    for t in timed:
        low, high = np.searchsorted(arrival, (t.start_s, t.end_s))
        here = found[low:high]
        columns.append(
            [None, None]
            if not here.size
            else [1e3 * float(np.quantile(here, 0.99)), 1e3 * float(here.max())]
        )
    return series, facts, columns


def _tables(timed: list[Timed], felt: list[list[float | None]]) -> list[Table]:
    commands: list[list[Cell]] = [
        [
            t.start_s,
            t.lasting.name,
            t.lasting.elements,
            t.lasting.lasts_ns / 1e9,
            t.lasting.main_thread_ns / 1e9,
            t.lasting.moved.total_bytes,
            t.lasting.binds,
            *others,
        ]
        for t, others in zip(timed, felt, strict=True)
    ]
    parts: list[list[Cell]] = [
        [
            t.lasting.name,
            t.lasting.execution_ns / 1e9,
            t.lasting.main.waiting_ns / 1e9,
            t.lasting.moved.server_ns / 1e9,
            t.lasting.moved.network_ns / 1e9,
            t.lasting.moved.client_ns / 1e9,
            t.lasting.print_ns / 1e9,
            t.lasting.background_ns / 1e9,
        ]
        for t in timed
    ]
    return [
        Table(
            "commands",
            [
                ("at", "s"),
                ("command", ""),
                ("elements", ""),
                ("lasts", "s"),
                ("main thread", "s"),
                ("moved", "bytes"),
                ("bound by", ""),
                ("p99 of others", "ms"),
                ("longest of others", "ms"),
            ],
            commands,
        ),
        Table(
            "where the time goes",
            [
                ("command", ""),
                ("blocks", "s"),
                ("waits for memory", "s"),
                ("server", "s"),
                ("network", "s"),
                ("client", "s"),
                ("prints", "s"),
                ("in background", "s"),
            ],
            parts,
        ),
    ]


def _versions(scenario: LargeCommands) -> list[tuple[str, str]]:
    """Engine and version of the server, and of the client where it names one."""
    asked = [(scenario.engine, scenario.engine_version)]
    if scenario.client.version is not None:
        engine, _, version = scenario.client.version.partition(" ")
        asked.append((engine, version))
    return list(dict.fromkeys(asked))


def _warnings(scenario: LargeCommands, chosen: Chosen) -> list[str]:
    found = []
    for engine, version in _versions(scenario):
        taken_as = load_work(engine, version).taken_as
        if taken_as is not None:
            found.append(taken_as_newest(engine, version, taken_as))
    if not chosen.counted:
        found.append(
            f"work of large commands was counted on {chosen.work.engine} {chosen.work.version}, "
            f"not on {scenario.engine} {scenario.engine_version}."
        )
    if scenario.load is not None and scenario.load.service_us is None:
        if profile_of(scenario) is None:
            found.append(
                f"the work of small commands was never observed on {scenario.engine} "
                f"{scenario.engine_version}: that of Redis 6.0 is used."
            )
    return found
