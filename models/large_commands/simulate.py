"""A run: large commands one after the other, and what others feel meanwhile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from forecache.hwprofiles import load_host
from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.errors import InputError

from ..engine import EngineProfile, load_engine
from ..predict import Progress
from ..series import Cell, Fact, Mark, Run, Series, Table
from .commands import Lasting, Place, bulk_load, flush, keys_command, large_get, set_command
from .cost import Speed
from .scenario import Command, LargeCommands
from .touches import Sets
from .transfer import Client, Link
from .waiting import Block, Turns, by_time, latencies, poisson_arrivals
from .work import Chosen, load_work

_LOOPBACK_US = 10.0
"""One way between two programs on one host: waking the receiver (assumed, 5 to 30)."""

_MOST_REQUESTS = 30_000_000
_BUCKETS = 400
_LEAST_DURATION_S = 0.1

_OLDEST_ASYNC = "redis-6.0"
"""The oldest profile of small commands; earlier engines take its work (assumed)."""


@dataclass(frozen=True)
class Timed:
    """A command at its place in the run."""

    start_s: float
    lasting: Lasting

    @property
    def executed_s(self) -> float:
        """When its execution ends, or a bulk load begins."""
        one_way = self.lasting.round_trip_ns / 2e9
        return self.start_s + one_way + self.lasting.execution_ns / 1e9

    @property
    def streamed_s(self) -> float:
        """When the last byte has come."""
        return self.executed_s + self.lasting.stream_ns / 1e9

    @property
    def end_s(self) -> float:
        """When the client has printed all of it."""
        return self.start_s + self.lasting.lasts_ns / 1e9


def place_of(
    scenario: LargeCommands,
    *,
    values: Mapping[str, float] | None = None,
    client_values: Mapping[str, float] | None = None,
) -> tuple[Place, Chosen]:
    """Engine, hosts, link and client of a scenario.

    Parameters
    ----------
    values, client_values
        Speeds of the server's or the client's host to use instead, by `HostSpeed` field.

    Raises
    ------
    InputError
        A host, an engine version or a client's version nobody knows.
    """
    chosen = load_work(scenario.engine, scenario.engine_version)
    host = load_host(scenario.host).speed(values)
    given = scenario.client
    far = host if given.host is None else load_host(given.host).speed(client_values)
    client_work = chosen.work.client
    if given.version is not None:
        engine, _, version = given.version.partition(" ")
        client_work = load_work(engine, version).work.client
    client = Client(
        speed=Speed(far, first_touch_ns=given.first_touch_ns, copied_page_ns=given.copied_page_ns),
        work=None if given.element_ns is not None else client_work,
        element_ns=given.element_ns or 0.0,
        byte_ns=given.byte_ns,
    )
    profile = _profile(scenario)
    known = None if profile is None else profile.engine_work()
    touch_scale = scenario.server.touch_scale
    if touch_scale is None:
        touch_scale = 1.0 if known is None else known.touch_scale
    server = Speed(host, touch_scale=touch_scale, first_touch_ns=scenario.server.first_touch_ns)
    scale = 1.0 if known is None else known.kernel_scale
    return Place(chosen.work, server, _link(scenario, host, far), client, scale), chosen


def _profile(scenario: LargeCommands) -> EngineProfile | None:
    return _shipped_profile(scenario.engine, scenario.engine_version)


@lru_cache(maxsize=8)
def _shipped_profile(engine: str, version: str) -> EngineProfile | None:
    try:
        return load_engine(engine, version)
    except InputError:
        return None  # older than any profile of small commands


def _link(scenario: LargeCommands, host: HostSpeed, far: HostSpeed) -> Link:
    given = scenario.network
    local = scenario.client.host is None
    gbit = math.inf if local else min(host.network_gbit_per_s, far.network_gbit_per_s)
    if not local:
        gbit = min(gbit, host.network_flow_gbit_per_s, far.network_flow_gbit_per_s)
    one_way = _LOOPBACK_US if local else max(host.network_one_way_us, far.network_one_way_us)
    return Link(
        gbit_per_s=given.gbit_per_s or gbit,
        one_way_us=one_way if given.one_way_us is None else given.one_way_us,
        mtu_bytes=min(host.network_mtu_bytes, far.network_mtu_bytes),
    )


def lasting_of(
    command: Command, scenario: LargeCommands, place: Place, *, fresh: bool = True
) -> Lasting:
    """What one command of a scenario takes.

    Raises
    ------
    InputError
        The engine has no such way.
    """
    sets, strings = scenario.data.sets, scenario.data.strings
    if command.command == "get":
        assert command.value_bytes is not None  # the schema says so
        return large_get(
            place,
            value_bytes=command.value_bytes,
            copies=_copies(scenario, command.value_bytes),
            fresh=fresh,
        )
    if command.command == "keys":
        keys = (sets.count if sets else 0) + (strings.keys if strings else 0)
        key_bytes = strings.key_bytes if strings else sets.key_bytes if sets else 16
        return keys_command(place, keys=keys, key_bytes=key_bytes, fresh=fresh)
    if command.command == "flushdb":
        members = (sets.count * sets.members if sets else 0) + (strings.keys if strings else 0)
        size = sets.member_bytes if sets else strings.key_bytes if strings else 16
        return flush(place, members=members, member_bytes=size, mode=command.mode)
    assert sets is not None  # the schema says so
    if command.command == "import":
        return bulk_load(
            place,
            sets=sets.count,
            members=sets.members,
            member_bytes=sets.member_bytes,
            key_bytes=sets.key_bytes,
            inline=command.form == "inline",
        )
    one = command.command == "smembers"
    shared = sets.members if command.same_key else round(sets.members * (command.overlap or 0.0))
    return set_command(
        place,
        command.command,
        Sets(
            first=sets.members,
            second=0 if one else sets.members,
            shared=0 if one else shared,
            same_key=command.same_key,
            member_bytes=sets.member_bytes,
        ),
        fresh=fresh,
    )


def _copies(scenario: LargeCommands, value_bytes: int) -> bool:
    """Whether a value is copied into a reply buffer.

    Redis to 3.2 puts the value itself into the list of replies (addReplyBulk, networking.c).
    """
    profile = _profile(scenario)
    if profile is None:
        return False
    from_bytes = profile.reply_reference_bytes
    return from_bytes is None or value_bytes < from_bytes


def timeline(scenario: LargeCommands, place: Place) -> list[Timed]:
    """All commands with their times; memory that one command took serves the next ones."""
    found: list[Timed] = []
    free_s, largest = 0.0, 0.0
    for command in scenario.commands:
        lasting = lasting_of(command, scenario, place)
        # The allocator keeps what a reply took; a larger one asks for more.
        if command.command != "import" and lasting.moved.total_bytes <= largest:
            lasting = lasting_of(command, scenario, place, fresh=False)
        elif command.command != "import":
            largest = lasting.moved.total_bytes
        timed = Timed(max(command.at_s, free_s), lasting)
        free_s = timed.end_s
        found.append(timed)
    return found


def service_s(scenario: LargeCommands) -> float:
    """Main-thread time of one of the others' requests.

    A request, its read and its write, with one client in a turn of the event loop.
    """
    load = scenario.load
    if load is None:
        return 0.0
    if load.service_us is not None:
        return load.service_us * 1e-6
    work = (_profile(scenario) or load_engine(_OLDEST_ASYNC)).engine_work()
    host = load_host(scenario.host).speed()
    executing = load.set_share * work.set_instructions
    executing += (1.0 - load.set_share) * work.get_instructions
    instructions = executing + work.parse_instructions
    instructions += work.read_instructions + work.write_instructions
    kernel = host.tcp_recv_ns + host.tcp_send_ns + host.epoll_event_ns
    nanoseconds = instructions / (host.user_ipc * host.clock_ghz) + work.kernel_scale * kernel
    return (nanoseconds + 2.0 * host.dram_ns) * 1e-9


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
        Fact("longest time nobody else is served", _longest(timed), "s"),
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
            Turns(
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
                ("of which memory", "s"),
                ("server", "s"),
                ("network", "s"),
                ("client", "s"),
                ("prints", "s"),
                ("in background", "s"),
            ],
            parts,
        ),
    ]


def _warnings(scenario: LargeCommands, chosen: Chosen) -> list[str]:
    found = []
    if not chosen.counted:
        found.append(
            f"work of large commands was counted on {chosen.work.engine} {chosen.work.version}, "
            f"not on {scenario.engine} {scenario.engine_version}."
        )
    if scenario.load is not None and scenario.load.service_us is None:
        if _profile(scenario) is None:
            found.append(
                f"small commands of {scenario.engine} {scenario.engine_version} were observed by "
                "nobody: they take the work of Redis 6.0."
            )
    return found
