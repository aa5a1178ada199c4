"""What a run consists of: its commands one after the other, on the place its scenario names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from forecache.hwprofiles import load_host
from forecache.hwprofiles.network import Path, between, constant
from forecache.hwprofiles.speed import HostSpeed

from ...engines.profile import EngineProfile, EngineWork, load_engine
from ...prediction.uncertainty import (
    Drawn,
    draw_engine,
    draw_host,
    draw_ranges,
    host_ranges,
    moved,
)
from .commands import DataPlace, Lasting, bulk_load, flush, keys_command, large_get, set_command
from .main_thread import FIRST_TOUCH_RANGE_NS, Speed
from .scenario import ClientData, LargeCommand, LargeCommands, Server
from .touches import TouchedSets
from .transfer import TransferClient, TransferLink
from .work import Chosen, load_work

_LOOPBACK_US = 10.0
"""One way between two programs on one host: waking the receiver (assumed)."""

_LOOPBACK_RANGE_US = (5.0, _LOOPBACK_US, 30.0)


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
    draw: Drawn | None = None,
) -> tuple[DataPlace, Chosen]:
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
    known = _engine_work(_profile_of(scenario), draw)
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
    return moved(FIRST_TOUCH_RANGE_NS, draw.normal("first touch of a page"))


def _engine_work(profile: EngineProfile, draw: Drawn | None) -> EngineWork:
    return profile.engine_work({} if draw is None else draw_engine(profile, draw))


def _profile_of(scenario: LargeCommands) -> EngineProfile:
    """The profile of its engine's small commands."""
    return _shipped_profile(scenario.engine, scenario.engine_version)


@lru_cache(maxsize=8)
def _shipped_profile(engine: str, version: str) -> EngineProfile:
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
        z = 0.0 if draw is None else draw.normal("one way on one host")
        one_way = moved(_LOOPBACK_RANGE_US, z)
    return TransferLink(
        path=path,
        one_way_us=one_way if given.one_way_us is None else given.one_way_us,
        mtu_bytes=min(host.network_mtu_bytes, far.network_mtu_bytes),
    )


def lasting_of(
    command: LargeCommand, scenario: LargeCommands, place: DataPlace, *, fresh: bool = True
) -> Lasting:
    """What one command of a scenario takes."""
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
        TouchedSets(
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
    from_bytes = _profile_of(scenario).reply_reference_bytes
    return from_bytes is None or value_bytes < from_bytes


def timeline(scenario: LargeCommands, place: DataPlace) -> list[Timed]:
    """All commands with their times; memory that one command took serves the next ones."""
    known: dict[tuple[Any, ...], Lasting] = {}

    def lasts(command: LargeCommand, *, fresh: bool) -> Lasting:
        what = (*command.model_dump(exclude={"at_s"}).values(), fresh)
        if what not in known:
            known[what] = lasting_of(command, scenario, place, fresh=fresh)
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
    return placed(scenario, lastings)


def placed(scenario: LargeCommands, lastings: Sequence[Lasting]) -> list[Timed]:
    """All commands, each when it is asked for or when the one before it is done."""
    found: list[Timed] = []
    free_s = 0.0
    for command, lasting in zip(scenario.commands, lastings, strict=True):
        timed = Timed(max(command.at_s, free_s), lasting)
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
    work = _engine_work(_profile_of(scenario), draw)
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
