"""What a run consists of: its commands one after the other, on the place its scenario names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from forecache.hwprofiles import load_host
from forecache.hwprofiles.network import Path, between, constant
from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.errors import InputError

from ...engines.profile import EngineProfile, load_engine
from .commands import DataPlace, Lasting, bulk_load, flush, keys_command, large_get, set_command
from .main_thread import Speed
from .scenario import LargeCommand, LargeCommands
from .touches import TouchedSets
from .transfer import TransferClient, TransferLink
from .work import Chosen, load_work

_LOOPBACK_US = 10.0
"""One way between two programs on one host: waking the receiver (assumed, 5 to 30)."""

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
) -> tuple[DataPlace, Chosen]:
    """Engine, hosts, link and client of a scenario.

    Parameters
    ----------
    values, client_values
        Speeds of the server's or the client's host to use instead, by `HostSpeed` field.

    Raises
    ------
    InputError
        An unknown host, engine version or version of a client.
    """
    chosen = load_work(scenario.engine, scenario.engine_version)
    host = load_host(scenario.host).speed(values)
    given = scenario.client
    far = host if given.host is None else load_host(given.host).speed(client_values)
    client_work = chosen.work.client
    if given.version is not None:
        engine, _, version = given.version.partition(" ")
        client_work = load_work(engine, version).work.client
    client = TransferClient(
        speed=Speed(far, first_touch_ns=given.first_touch_ns, copied_page_ns=given.copied_page_ns),
        work=None if given.element_ns is not None else client_work,
        element_ns=given.element_ns or 0.0,
        byte_ns=given.byte_ns,
    )
    profile = profile_of(scenario)
    known = None if profile is None else profile.engine_work()
    touch_scale = scenario.server.touch_scale
    if touch_scale is None:
        touch_scale = 1.0 if known is None else known.touch_scale
    server = Speed(host, touch_scale=touch_scale, first_touch_ns=scenario.server.first_touch_ns)
    scale = 1.0 if known is None else known.kernel_scale
    return DataPlace(chosen.work, server, _link(scenario, host, far), client, scale), chosen


def profile_of(scenario: LargeCommands) -> EngineProfile | None:
    """The profile of its engine's small commands, if there is one."""
    return _shipped_profile(scenario.engine, scenario.engine_version)


@lru_cache(maxsize=8)
def _shipped_profile(engine: str, version: str) -> EngineProfile | None:
    try:
        return load_engine(engine, version)
    except InputError:
        return None  # older than any profile of small commands


def _link(scenario: LargeCommands, host: HostSpeed, far: HostSpeed) -> TransferLink:
    given = scenario.network
    local = scenario.client.host is None
    path = Path([]) if local else between(host, far)
    if given.gbit_per_s is not None:
        path = Path([constant(given.gbit_per_s)])
    one_way = _LOOPBACK_US if local else max(host.network_one_way_us, far.network_one_way_us)
    return TransferLink(
        path=path,
        one_way_us=one_way if given.one_way_us is None else given.one_way_us,
        mtu_bytes=min(host.network_mtu_bytes, far.network_mtu_bytes),
    )


def lasting_of(
    command: LargeCommand, scenario: LargeCommands, place: DataPlace, *, fresh: bool = True
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
    profile = profile_of(scenario)
    if profile is None:
        return False
    from_bytes = profile.reply_reference_bytes
    return from_bytes is None or value_bytes < from_bytes


def timeline(scenario: LargeCommands, place: DataPlace) -> list[Timed]:
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
    work = (profile_of(scenario) or load_engine(_OLDEST_ASYNC)).engine_work()
    host = load_host(scenario.host).speed()
    executing = load.set_share * work.set_instructions
    executing += (1.0 - load.set_share) * work.get_instructions
    instructions = executing + work.parse_instructions
    instructions += work.read_instructions + work.write_instructions
    kernel = host.tcp_recv_ns + host.tcp_send_ns + host.epoll_event_ns
    nanoseconds = instructions / (host.user_ipc * host.clock_ghz) + work.kernel_scale * kernel
    return (nanoseconds + 2.0 * host.dram_ns) * 1e-9
