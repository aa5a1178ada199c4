"""A run: large commands one after the other on the place a scenario names, and what others feel."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecache.hwprofiles import load_host
from forecache.hwprofiles.network import Path, between, constant
from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.errors import InputError
from forecache.sim.statistics import Estimate

from ...engines.profile import EngineProfile, EngineWork, load_engine
from ...prediction.predict import DRAWS, Progress
from ...prediction.system import UNCHECKED_DISCREPANCY
from ...prediction.uncertainty import (
    Z95,
    Draw,
    Drawn,
    draw_engine,
    draw_host,
    draw_ranges,
    host_ranges,
    moved,
)
from ...results.intervals import RelativeError, interval_over_draws
from ...results.series import Cell, Mark, Run
from ...scenario.versions import taken_as_newest
from ..recorder import Recorder
from .commands import (
    FIRST_TOUCH_RANGE_NS,
    CommandTime,
    DataPlace,
    Speed,
    TransferClient,
    TransferLink,
    bulk_load,
    flush,
    keys_command,
    large_get,
    set_command,
)
from .scenario import ClientData, LargeCommand, LargeCommands, Server
from .work import ChosenWork, TouchedSets, load_work

_LOOPBACK_US = 10.0
"""One way between two programs on one host: waking the receiver (assumed)."""

_LOOPBACK_RANGE_US = (5.0, _LOOPBACK_US, 30.0)

_MOST_REQUESTS = 30_000_000
_BUCKETS = 400
_LEAST_DURATION_S = 0.1


def simulate_large_commands(
    scenario: LargeCommands, seed: int = 1, progress: Progress = print
) -> Run:
    """Run a scenario of `kind: large_commands`."""
    place, chosen = data_place(scenario)
    timed = timeline(scenario, place)
    drawn = [
        timeline(scenario, data_place(scenario, draw=Draw(seed, number))[0])
        for number in range(DRAWS)
    ]
    intervals = RunIntervals(timed, drawn, chosen)
    end_s = max(timed[-1].end_s * 1.05, _LEAST_DURATION_S)
    duration_s = scenario.duration_s or end_s
    edges = np.linspace(0.0, duration_s, _BUCKETS + 1)
    record = Recorder(edges[:-1].tolist())
    others: list[list[float | None]] = [[None, None] for _ in timed]
    if scenario.load is not None and scenario.load.requests_per_s > 0:
        others = _record_others(record, scenario, intervals, edges, seed, progress)
    record.series("busy with large commands", "", "main thread", _busy(timed, edges))
    record.series("waiting to be sent", "bytes", "reply buffer", _buffered(timed, edges))
    longest_s = intervals.main_thread(
        lambda timed: max(t.lasting.execution_ns for t in timed) / 1e9
    )
    record.fact("longest time other clients wait", longest_s, "s")
    record.fact("largest reply buffer", max(_reply_bytes(t) for t in timed), "bytes")
    record.fact("main-thread time", intervals.main_thread(main_thread_s), "s")
    record.marks = [Mark(t.start_s, t.lasting.name) for t in timed]
    _record_tables(record, intervals, others)
    record.warnings = _warnings(scenario, chosen)
    return record.run()


def _reply_bytes(timed: ScheduledCommand) -> float:
    return timed.lasting.moved.total_bytes if timed.lasting.blocking else 0.0


def _overlap(edges: np.ndarray, start_s: float, end_s: float) -> np.ndarray:
    """Share of each bucket that lies between two times."""
    inside = np.minimum(edges[1:], end_s) - np.maximum(edges[:-1], start_s)
    return np.asarray(np.clip(inside, 0.0, None) / np.diff(edges))


def _busy(timed: list[ScheduledCommand], edges: np.ndarray) -> np.ndarray:
    """Share of the main thread that the commands take."""
    total = np.zeros(edges.size - 1)
    for t in timed:
        one_way = t.lasting.round_trip_ns / 2e9
        total += _overlap(edges, t.start_s + one_way, t.executed_s)
        if t.lasting.stream_ns > 0:
            writing = t.lasting.moved.server_ns / t.lasting.stream_ns
            total += writing * _overlap(edges, t.executed_s, t.streamed_s)
    return total


def _buffered(timed: list[ScheduledCommand], edges: np.ndarray) -> np.ndarray:
    """Bytes of replies that wait on the server, at the start of each bucket."""
    times = edges[:-1]
    total = np.zeros(times.size)
    for t in timed:
        size = _reply_bytes(t)
        received = t.start_s + t.lasting.round_trip_ns / 2e9
        points = [received, t.executed_s, max(t.streamed_s, t.executed_s + 1e-12)]
        total += np.interp(times, points, [0.0, size, 0.0], left=0.0, right=0.0)
    return total


@dataclass(frozen=True)
class _Others:
    """Requests of all other clients, and what one takes that nothing delays.

    Attributes
    ----------
    network_s
        To the server and back.
    random
        At the state in which every use of it begins.
    """

    arrival_s: Times
    rate_per_s: float
    service_s: float
    network_s: float
    random: np.random.Generator

    def latencies_s(self, timed: Sequence[ScheduledCommand], *, slower: float = 1.0) -> Times:
        """Latency of each beside these commands.

        Parameters
        ----------
        slower
            By how much longer each of them takes, and the network.
        """
        service_s = slower * self.service_s
        left = max(0.0, 1.0 - service_s * self.rate_per_s)
        found = latencies(
            self.arrival_s,
            service_s=service_s,
            blocks=[
                (t.start_s + t.lasting.round_trip_ns / 2e9, t.lasting.execution_ns / 1e9)
                for t in timed
                if t.lasting.execution_ns > 0
            ],
            turns=[
                ServiceTurns(
                    t.executed_s,
                    t.streamed_s,
                    t.lasting.turn_ns / 1e9,
                    min(left, t.lasting.moved.server_ns / t.lasting.stream_ns),
                )
                for t in timed
                if t.lasting.stream_ns > 0
            ],
            random=copy.deepcopy(self.random),
        )
        return found + slower * self.network_s


def _others(scenario: LargeCommands, duration_s: float, seed: int) -> _Others:
    """Everybody else, if the main thread can serve them.

    Raises
    ------
    InputError
        They ask for more than it can, or than can be followed.
    """
    assert scenario.load is not None
    rate, service = scenario.load.requests_per_s, service_s(scenario)
    if rate * duration_s > _MOST_REQUESTS:
        raise InputError(
            f"field load.requests_per_s: found {rate:,.0f} over {duration_s:,.0f} s; valid is up "
            f"to {_MOST_REQUESTS:,} requests in all."
        )
    if rate * service >= 1.0:
        raise InputError(
            f"field load.requests_per_s: found {rate:,.0f}, which the main thread can't serve "
            f"({service * 1e6:.3g} us each); valid is less than {1.0 / service:,.0f}."
        )
    random = np.random.Generator(np.random.Philox(seed))
    arrival_s = poisson_arrivals(rate, duration_s, random)
    return _Others(arrival_s, rate, service, base_latency_s(scenario) - service, random)


def _record_others(
    record: Recorder,
    scenario: LargeCommands,
    intervals: RunIntervals,
    edges: np.ndarray,
    seed: int,
    progress: Progress,
) -> list[list[float | None]]:
    """What other clients feel; returns p99 and longest latency in ms beside each command."""
    others = _others(scenario, float(edges[-1]), seed)
    arrival, timed = others.arrival_s, intervals.timed
    progress(f"{others.rate_per_s * edges[-1]:,.0f} requests of others")
    found = others.latencies_s(timed)
    rows = by_time(arrival, found, edges)
    for name, values_s in zip(("p50", "p99", "longest"), rows, strict=False):
        record.series(name, "ms", "latency of others", 1e3 * values_s)
    if arrival.size:
        base = interval_over_draws(
            base_latency_s(scenario),
            [base_latency_s(scenario, draw=Draw(seed, number)) for number in range(DRAWS)],
            error=Z95 * UNCHECKED_DISCREPANCY,
        )
        ends = zip((base.low, base.high), intervals.ends(scenario), strict=True)
        found_ms = zip(
            ("longest latency of others", "p99 of others", "p50 of others"),
            _quantiles_ms(found),
            *(
                _quantiles_ms(others.latencies_s(commands, slower=end / base.value))
                for end, commands in ends
            ),
            strict=True,
        )
        # A command that begins later, since the one before it lasts longer, meets other requests.
        for name, value, low, high in found_ms:
            record.fact(name, Estimate(value, min(value, low), max(value, high)), "ms")
    beside: list[list[float | None]] = []
    for t in timed:
        low, high = np.searchsorted(arrival, (t.start_s, t.end_s))
        here = found[low:high]
        beside.append(
            [1e3 * float(np.quantile(here, 0.99)), 1e3 * float(here.max())]
            if here.size
            else [None, None]
        )
    return beside


def _quantiles_ms(found: Times) -> list[float]:
    """The longest latency, p99 and p50."""
    return [1e3 * float(np.quantile(found, quantile)) for quantile in (1.0, 0.99, 0.5)]


def _record_tables(
    record: Recorder, intervals: RunIntervals, others: Sequence[Sequence[float | None]]
) -> None:
    timed = intervals.timed
    record.table(
        "commands",
        [
            *(("at", "s"), ("command", ""), ("elements", ""), ("lasts", "s")),
            *(("main thread", "s"), ("moved", "bytes"), ("bound by", "")),
            *(("p99 of others", "ms"), ("longest of others", "ms")),
        ],
        [
            [
                *(t.start_s, t.lasting.name, t.lasting.elements, t.lasting.lasts_ns / 1e9),
                *(t.lasting.main_thread_ns / 1e9, t.lasting.moved.total_bytes, t.lasting.binds),
                *beside,
            ]
            for t, beside in zip(timed, others, strict=True)
        ],
    )
    record.table(
        "where the time goes",
        [
            *(("command", ""), ("blocks", "s"), ("waits for memory", "s"), ("server", "s")),
            *(("network", "s"), ("client", "s"), ("prints", "s"), ("in background", "s")),
        ],
        [
            [
                t.lasting.name,
                *(t.lasting.execution_ns / 1e9, t.lasting.main.waiting_ns / 1e9),
                *(t.lasting.moved.server_ns / 1e9, t.lasting.moved.network_ns / 1e9),
                *(t.lasting.moved.client_ns / 1e9, t.lasting.print_ns / 1e9),
                t.lasting.background_ns / 1e9,
            ]
            for t in timed
        ],
    )

    def row(index: int) -> list[Cell]:
        lasts = intervals.lasts(lambda timed: timed[index].lasting.lasts_ns / 1e9)
        main = intervals.main_thread(lambda timed: timed[index].lasting.main_thread_ns / 1e9)
        return [timed[index].lasting.name, lasts.low, lasts.high, main.low, main.high]

    record.table(
        "95% intervals",
        [
            *(("command", ""), ("lasts, from", "s"), ("to", "s")),
            *(("main thread, from", "s"), ("to", "s")),
        ],
        [row(index) for index in range(len(timed))],
    )


def _warnings(scenario: LargeCommands, chosen: ChosenWork) -> list[str]:
    asked = [(scenario.engine, scenario.engine_version)]
    if scenario.client.version is not None:
        engine, _, version = scenario.client.version.partition(" ")
        asked.append((engine, version))
    found = []
    for engine, version in dict.fromkeys(asked):
        taken_as = load_work(engine, version).taken_as
        if taken_as is not None:
            found.append(taken_as_newest(engine, version, taken_as))
    if not chosen.counted:
        found.append(
            f"work of large commands was counted on {chosen.work.engine} {chosen.work.version}, "
            f"not on {scenario.engine} {scenario.engine_version}."
        )
    return found


# --- the commands, one after the other ------------------------------------------------------------


@dataclass(frozen=True)
class ScheduledCommand:
    """A command at its place in the run."""

    start_s: float
    lasting: CommandTime

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


def data_place(
    scenario: LargeCommands,
    *,
    values: Mapping[str, float] | None = None,
    client_values: Mapping[str, float] | None = None,
    draw: Drawn | None = None,
) -> tuple[DataPlace, ChosenWork]:
    """Engine, hosts, link and client of a scenario.

    Parameters
    ----------
    values, client_values
        Speeds of the server's or the client's host to use instead, by `HostSpeed` field.
    draw
        Where in their ranges all other numbers lie; at their values without it.
    """
    chosen = load_work(scenario.engine, scenario.engine_version)
    given = scenario.client
    host, far = _speeds(scenario, values or {}, client_values or {}, draw)
    client_work = chosen.work.client
    if given.version is not None:
        engine, _, version = given.version.partition(" ")
        client_work = load_work(engine, version).work.client
    work = chosen.work
    if draw is not None:
        work, client_work = work.drawn(draw), client_work and client_work.drawn(draw)
    client = TransferClient(
        speed=Speed(
            far,
            first_touch_ns=_first_touch_ns(given, draw),
            copied_page_ns=given.copied_page_ns,
        ),
        work=None if given.element_ns is not None else client_work,
        element_ns=given.element_ns or 0.0,
        byte_ns=given.byte_ns,
    )
    known = _engine_work(_profile(scenario.engine, scenario.engine_version), draw)
    touch_scale = scenario.server.touch_scale
    if touch_scale is None:
        touch_scale = known.touch_scale
    server = Speed(
        host, touch_scale=touch_scale, first_touch_ns=_first_touch_ns(scenario.server, draw)
    )
    link = _link(scenario, host, far, draw)
    return DataPlace(work, server, link, client, known.kernel_scale), chosen


def _speeds(
    scenario: LargeCommands,
    values: Mapping[str, float],
    client_values: Mapping[str, float],
    draw: Drawn | None,
) -> tuple[HostSpeed, HostSpeed]:
    """Of the server's and the client's host. Two of one kind are as fast as each other."""
    profile = load_host(scenario.host)
    drawn = {} if draw is None else draw_host(profile, draw)
    host = profile.speed({**drawn, **values})
    if scenario.client.host is None:
        return host, host
    other = load_host(scenario.client.host)
    if draw is not None and other.id != profile.id:
        drawn = draw_ranges("client host", host_ranges(other), draw)
    return host, other.speed({**drawn, **client_values})


def _first_touch_ns(given: Server | ClientData, draw: Drawn | None) -> float:
    if draw is None or "first_touch_ns" in given.model_fields_set:
        return given.first_touch_ns
    return moved(FIRST_TOUCH_RANGE_NS, draw.normals(["first touch of a page"])[0])


def _engine_work(profile: EngineProfile, draw: Drawn | None) -> EngineWork:
    return profile.engine_work({} if draw is None else draw_engine(profile, draw))


@lru_cache(maxsize=8)
def _profile(engine: str, version: str) -> EngineProfile:
    """The profile of an engine's small commands."""
    return load_engine(engine, version)


def _link(
    scenario: LargeCommands, host: HostSpeed, far: HostSpeed, draw: Drawn | None
) -> TransferLink:
    given = scenario.network
    local = scenario.client.host is None
    path = Path([]) if local else between(host, far)
    if given.gbit_per_s is not None:
        path = Path([constant(given.gbit_per_s)])
    one_way = max(host.network_one_way_us, far.network_one_way_us)
    if local:
        z = 0.0 if draw is None else draw.normals(["one way on one host"])[0]
        one_way = moved(_LOOPBACK_RANGE_US, z)
    return TransferLink(
        path=path,
        one_way_us=one_way if given.one_way_us is None else given.one_way_us,
        mtu_bytes=min(host.network_mtu_bytes, far.network_mtu_bytes),
    )


def command_time(
    command: LargeCommand, scenario: LargeCommands, place: DataPlace, *, fresh: bool = True
) -> CommandTime:
    """What one command of a scenario takes."""
    sets, strings = scenario.data.sets, scenario.data.strings
    if command.command == "get":
        size = command.value_bytes
        assert size is not None  # the schema says so
        # Redis to 3.2 puts the value itself into the list of replies (addReplyBulk, networking.c).
        from_bytes = _profile(scenario.engine, scenario.engine_version).reply_reference_bytes
        copies = from_bytes is None or size < from_bytes
        return large_get(place, value_bytes=size, copies=copies, fresh=fresh)
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
        TouchedSets(
            first=sets.members,
            second=0 if one else sets.members,
            shared=0 if one else shared,
            same_key=command.same_key,
            member_bytes=sets.member_bytes,
        ),
        fresh=fresh,
    )


def timeline(scenario: LargeCommands, place: DataPlace) -> list[ScheduledCommand]:
    """All commands with their times; memory that one command took serves the next ones."""
    known: dict[tuple[Any, ...], CommandTime] = {}

    def lasts(command: LargeCommand, *, fresh: bool) -> CommandTime:
        what = (*command.model_dump(exclude={"at_s"}).values(), fresh)
        if what not in known:
            known[what] = command_time(command, scenario, place, fresh=fresh)
        return known[what]

    largest, lastings = 0.0, []
    for command in scenario.commands:
        lasting = lasts(command, fresh=True)
        # The allocator keeps what a reply took; a larger one asks for more.
        if command.command != "import" and lasting.moved.total_bytes <= largest:
            lasting = lasts(command, fresh=False)
        elif command.command != "import":
            largest = lasting.moved.total_bytes
        lastings.append(lasting)
    return schedule(scenario, lastings)


def schedule(scenario: LargeCommands, lastings: Sequence[CommandTime]) -> list[ScheduledCommand]:
    """All commands, each when it is asked for or when the one before it is done."""
    found: list[ScheduledCommand] = []
    free_s = 0.0
    for command, lasting in zip(scenario.commands, lastings, strict=True):
        timed = ScheduledCommand(max(command.at_s, free_s), lasting)
        free_s = timed.end_s
        found.append(timed)
    return found


def service_s(scenario: LargeCommands, *, draw: Drawn | None = None) -> float:
    """Main-thread time of one of the others' requests.

    A request, its read and its write, with one client in a turn of the event loop.
    """
    load = scenario.load
    if load is None:
        return 0.0
    if load.service_us is not None:
        return load.service_us * 1e-6
    work = _engine_work(_profile(scenario.engine, scenario.engine_version), draw)
    profile = load_host(scenario.host)
    host = profile.speed({} if draw is None else draw_host(profile, draw))
    executing = load.set_share * work.set_instructions
    executing += (1.0 - load.set_share) * work.get_instructions
    instructions = executing + work.parse_instructions
    instructions += work.read_instructions + work.write_instructions
    kernel = host.tcp_recv_ns + host.tcp_send_ns + host.epoll_event_ns
    nanoseconds = instructions / (host.user_ipc * host.clock_ghz) + work.kernel_scale * kernel
    return (nanoseconds + 2.0 * host.dram_ns) * 1e-9


def base_latency_s(scenario: LargeCommands, *, draw: Drawn | None = None) -> float:
    """Latency of one of the others' requests that nothing delays, network included."""
    profile = load_host(scenario.host)
    host = profile.speed({} if draw is None else draw_host(profile, draw))
    return service_s(scenario, draw=draw) + 2e-6 * host.network_one_way_us


# --- what all other clients feel while one runs large commands ------------------------------------

# Other requests come at random at a steady rate, as from many clients that don't wait for each
# other, and their latency counts from when they come. The main thread serves them in order, except
# that
#
# - a command that is being executed holds everybody up until it is done, and those who came
#   meanwhile are served afterwards as fast as the main thread can;
# - while a reply is being written, or a bulk load executed read by read, everybody who has come is
#   served between two turns. Who comes during a turn waits for the rest of it, and for those who
#   came before him in it.


Times = NDArray[np.float64]


@dataclass(frozen=True)
class ServiceTurns:
    """A stretch of time with turns of a large command in it; s.

    Attributes
    ----------
    turn_s
        Main-thread time of one turn.
    busy
        Share of the stretch that turns take, at most what others leave.
    """

    start_s: float
    end_s: float
    turn_s: float
    busy: float


def waits(arrival_s: Times, service_s: Times) -> Times:
    """Waits before service of customers that one server takes in order.

    D. V. Lindley's recursion, unrolled: work ahead of the k-th is the largest of what came from any
    earlier one on. `arrival_s` increases.
    """
    if arrival_s.size == 0:
        return arrival_s
    before = np.concatenate(([0.0], np.cumsum(service_s)[:-1]))
    starts = before + np.maximum.accumulate(arrival_s - before)
    return np.asarray(starts - arrival_s)


def latencies(
    arrival_s: Times,
    *,
    service_s: float,
    blocks: Sequence[tuple[float, float]],
    turns: Sequence[ServiceTurns],
    random: np.random.Generator,
) -> Times:
    """Latency of each of the others' requests, without the network; s.

    Parameters
    ----------
    arrival_s
        Increasing.
    service_s
        Main-thread time of one request.
    blocks
        When the main thread begins to execute a command and nothing else, and for how long; s.
    """
    if arrival_s.size == 0:
        return arrival_s
    starts, lasts = np.array(blocks, float).reshape(-1, 2).T
    place = np.searchsorted(arrival_s, starts)
    # A command joins the queue where it comes in.
    everybody = np.insert(arrival_s, place, starts)
    services = np.insert(np.full(arrival_s.size, service_s), place, lasts)
    commands = place + np.arange(place.size)
    found = np.delete(waits(everybody, services), commands) + service_s
    drawn = random.random((2, arrival_s.size))
    for stretch in turns:
        low, high = np.searchsorted(arrival_s, (stretch.start_s, stretch.end_s))
        if high <= low:
            continue
        rate = (high - low) / (stretch.end_s - stretch.start_s)
        ahead = min(1.0, rate * service_s)
        during, past = drawn[0, low:high] < stretch.busy, drawn[1, low:high]
        found[low:high] += during * stretch.turn_s * (1.0 - past * (1.0 - ahead))
    return found


def poisson_arrivals(rate_per_s: float, duration_s: float, random: np.random.Generator) -> Times:
    """Increasing times of a Poisson process over a run."""
    count = random.poisson(rate_per_s * duration_s)
    return np.sort(random.random(count) * duration_s)


def by_time(arrival_s: Times, latency_s: Times, edges_s: Times) -> Times:
    """(4, buckets) p50, p99 and longest latency in s of those who came between two edges, NaN if
    none did, and how many did."""
    rows = np.full((4, edges_s.size - 1), np.nan)
    for bucket, (low, high) in enumerate(pairwise(np.searchsorted(arrival_s, edges_s))):
        rows[3, bucket] = high - low
        if high > low:
            here = latency_s[low:high]
            rows[:3, bucket] = *np.quantile(here, (0.5, 0.99)), here.max()
    return rows


# --- intervals ------------------------------------------------------------------------------------

# How far off a run may be: draws of its uncertain numbers, and the errors that were measured.
#
# Drawn are the instructions that were counted, the speed of both hosts and of what lies between
# them, how much of its waits for memory an engine shows, and the first touch of a page where the
# scenario doesn't give it. The model's own error is that of the engine's commands on live servers,
# with nothing fitted to them; another host than theirs, and another version than the one that was
# counted, each add what a node's prediction adds for a profile that nobody checked.


@dataclass(frozen=True)
class RunIntervals:
    """95% intervals of what a run says.

    Attributes
    ----------
    timed
        Its commands at the nominal numbers.
    drawn
        The same at draws of all that is uncertain.
    chosen
        Whose work they do.
    """

    timed: Sequence[ScheduledCommand]
    drawn: Sequence[Sequence[ScheduledCommand]]
    chosen: ChosenWork

    def main_thread(self, quantity: Callable[[Sequence[ScheduledCommand]], float]) -> Estimate:
        """A time of the main thread, in the unit of the function that reads it off commands."""
        return self._over(quantity, self.chosen.work.errors.main_thread)

    def lasts(self, quantity: Callable[[Sequence[ScheduledCommand]], float]) -> Estimate:
        """A time that the client sees."""
        return self._over(quantity, self.chosen.work.errors.lasts)

    def _over(
        self, quantity: Callable[[Sequence[ScheduledCommand]], float], own: RelativeError
    ) -> Estimate:
        return interval_over_draws(
            quantity(self.timed),
            [quantity(each) for each in self.drawn],
            error=model_error(own, self.chosen),
        )

    def ends(self, scenario: LargeCommands) -> list[list[ScheduledCommand]]:
        """The commands as quick and as slow as the interval of the main thread's time has them."""
        spent = self.main_thread(main_thread_s)
        return [
            schedule(scenario, [t.lasting.slower(end / spent.value) for t in self.timed])
            for end in (spent.low, spent.high)
        ]


def main_thread_s(timed: Sequence[ScheduledCommand]) -> float:
    """CPU time of the main thread for all commands."""
    return sum(t.lasting.main_thread_ns for t in timed) / 1e9


def model_error(own: RelativeError, chosen: ChosenWork) -> float:
    """Half width of the 95% interval of the model's own error, of the logarithm."""
    unchecked = Z95 * UNCHECKED_DISCREPANCY
    return math.hypot(own.half_width, unchecked, 0.0 if chosen.counted else unchecked)
