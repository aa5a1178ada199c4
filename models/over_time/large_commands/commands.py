"""How long each large command takes: on the main thread, on its way, and with its client.

Work × speed = time on the main thread:

    instructions / (IPC x clock) + sum of lines waited for x what each takes + new pages + calls

No data is in the caches when a command begins: whatever else runs, here or on neighbouring
cores, has filled them. Where a line is found that was touched before follows Che's
approximation (`memory/caches.py`), with the touches of this command as all there is. Lines of one
member are waited for one after the other, as in the rest of the model; where little is done per
member, a core works on several at once. Page walks don't overlap.

A command is executed whole before any of its reply is sent; it lies in the server's reply buffers
meanwhile. Then server, network and client work at once, in event-loop turns of at most `TURN_BYTES`
on the server, so that the slowest sets the pace; and when the last byte has come, redis-cli makes
one text of all elements and prints that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from forecache.hwprofiles.network import Path
from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.errors import InputError

from ...engines.commands import bulk_bytes
from ...layouts.allocator import PAGE_BYTES, size_class
from ...memory.caches import beyond, characteristic_requests, hit_shares, page_walk_ns
from ...memory.lines import LINE_BYTES
from .work import (
    ClientWork,
    Growth,
    LargeWork,
    Touch,
    TouchedSets,
    flush_touches,
    keys_touches,
    load_touches,
    member_memory_bytes,
    set_touches,
)

WINDOW_PER_MISS = 12.0
"""Instructions a core looks ahead for each miss it sustains: Zen 5 holds 448 and was measured to
sustain 37, Ivy Bridge holds 168 with 10 line buffers. Assumed, 9 to 17."""

FIRST_TOUCH_NS = 700.0
"""The first touch of a page: fault, clearing it, and giving it back later. Assumed: 100 ns to clear
it, 200 to 500 for the fault on bare metal and up to several times that in a virtual machine."""

FIRST_TOUCH_RANGE_NS = (250.0, FIRST_TOUCH_NS, 2500.0)


@dataclass(frozen=True)
class MainThread:
    """Time of the main thread, ns."""

    computing_ns: float = 0.0
    waiting_ns: float = 0.0
    paging_ns: float = 0.0

    @property
    def total_ns(self) -> float:
        """All of it."""
        return self.computing_ns + self.waiting_ns + self.paging_ns


@dataclass(frozen=True)
class Speed:
    """A host's speed with what only large commands ask of it.

    Attributes
    ----------
    touch_scale
        Waits for lines against those the host's numbers say.
    first_touch_ns
        Of a page of memory the process didn't have.
    copied_page_ns
        To move a page of text to new memory; None: its first touch and the copy.
    """

    host: HostSpeed
    touch_scale: float = 1.0
    first_touch_ns: float = FIRST_TOUCH_NS
    copied_page_ns: float | None = None

    def instructions_ns(self, instructions: float) -> float:
        """Of user code whose data is near."""
        return instructions / (self.host.user_ipc * self.host.clock_ghz)

    def pages_ns(self, new_bytes: float) -> float:
        """Of memory that is touched for the first time."""
        return new_bytes / PAGE_BYTES * self.first_touch_ns

    def streamed_ns(self, streamed_bytes: float) -> float:
        """Reading memory in a row that has left the caches, beyond what a copy itself takes."""
        return streamed_bytes / LINE_BYTES * self.host.dram_ns / self.host.parallel_misses


def waits_ns(touches: Sequence[Touch], *, members: float, speed: Speed, busy_ns: float) -> float:
    """Wait for all lines of a command.

    Parameters
    ----------
    members
        Steps it takes; touches per step set against each other for room in the caches.
    busy_ns
        What it computes in all, in which neighbours fill the shared cache.
    """
    host = speed.host
    rows = [t for t in touches if t.count > 0 and t.region_bytes > 0]
    if not rows or members <= 0:
        return 0.0
    lines = np.array([max(1.0, t.region_bytes / LINE_BYTES) for t in rows])
    rates = np.array([t.count / members for t in rows])
    data_bytes = sum({t.name: t.region_bytes for t in rows}.values())
    fills = host.l3_fills_per_us * 1e-3 * busy_ns / members
    l2 = characteristic_requests(lines, rates, host.l2_bytes / LINE_BYTES)
    l3 = characteristic_requests(lines, rates, host.l3_bytes / LINE_BYTES, fills_per_request=fills)
    per_member = speed.host.user_ipc * speed.host.clock_ghz * busy_ns / members
    at_once = max(1.0, WINDOW_PER_MISS * host.parallel_misses / max(1.0, per_member))
    outside = beyond(host.tlb_reach_bytes, data_bytes)
    total = 0.0
    for touch, count, rate in zip(rows, lines, rates, strict=True):
        each = np.array([rate / count])
        in_l2 = float(hit_shares(each, l2)[0])
        in_l3 = max(in_l2, float(hit_shares(each, l3)[0]))
        near = max(0.0, host.l3_ns - host.l2_ns)
        far = max(near, host.dram_ns - host.l2_ns)
        again = near * (in_l3 - in_l2) + far * (1.0 - in_l3)
        first = _first_touches(touch, count)
        wait = (first * far + (touch.count - first) * again) / touch.count
        ahead = min(touch.together, host.parallel_misses)
        walk = outside * page_walk_ns(host, touch.region_bytes)
        lines_ns = wait * (1.0 / ahead + touch.more) / min(at_once, host.parallel_misses)
        total += touch.count * (lines_ns + walk * min(1.0, wait / far) / ahead)
    return speed.touch_scale * total


def _first_touches(touch: Touch, lines: float) -> float:
    """Of touches at random, those that are the first ones of their line.

    Of entries as large as a line, each has a first one of its own.
    """
    if touch.each_bytes >= LINE_BYTES:
        return min(touch.count, touch.region_bytes / touch.each_bytes)
    return -lines * math.expm1(-touch.count / lines)


def main_thread(
    instructions: float,
    touches: Sequence[Touch],
    *,
    members: float,
    new_bytes: float,
    speed: Speed,
) -> MainThread:
    """Time of a command that does so much."""
    computing = speed.instructions_ns(instructions)
    return MainThread(
        computing_ns=computing,
        waiting_ns=waits_ns(touches, members=members, speed=speed, busy_ns=computing),
        paging_ns=speed.pages_ns(new_bytes),
    )


def calls(total_bytes: float, each_bytes: float) -> int:
    """Number of system calls that carry a number of bytes."""
    return max(1, math.ceil(total_bytes / each_bytes)) if total_bytes > 0 else 0


# --- a reply on its way ---------------------------------------------------------------------------


TURN_BYTES = 64 * 1024
"""NET_MAX_WRITES_PER_EVENT: what one client gets in one turn (server.h)."""

_READ_BYTES = 16 * 1024
"""redisBufferRead of hiredis, and PROTO_IOBUF_LEN of the server."""

_SEGMENT_BYTES = 65_483
"""What one pass through the network stack carries."""

_HEADER_BYTES = 52
"""TCP and IP headers of a packet."""

PARSE_SHARE = 0.35
"""Of redis-cli's instructions per element, those that parse; the rest format, print and free
(callgrind on redis-cli 2.8.17: allocations and the reader against realloc, sdscatlen and free)."""

_ELEMENT_BYTES = 64 + 8
"""A reply object and the pointer to it, in malloc's sizes; its text comes on top."""

_GROWTH_BYTES = 1 << 20
"""SDS_MAX_PREALLOC (sds.h)."""

_CHUNK_BYTES = 4 << 20
"""A chunk of jemalloc 3 (opt.lg_chunk = 22)."""

Party = Literal["server", "network", "client"]


def array_bytes(elements: int, element_bytes: int) -> float:
    """Bytes of an array of strings in the protocol."""
    return float(len(f"*{elements}\r\n") + elements * bulk_bytes(element_bytes))


@dataclass(frozen=True)
class TransferLink:
    """Between client and server.

    Attributes
    ----------
    path
        Of one direction; without ends on one host.
    one_way_us
        From one to the other.
    mtu_bytes
        Of a packet.
    """

    path: Path
    one_way_us: float
    mtu_bytes: float

    @property
    def gbit_per_s(self) -> float:
        """What the one connection carries at first; infinite on one host."""
        return self.path.first_gbit_per_s()

    def carry_ns(self, payload_bytes: float) -> float:
        """Time that a number of bytes and their headers occupy it."""
        packets = calls(payload_bytes, self.mtu_bytes - _HEADER_BYTES)
        return 1e9 * self.path.transfer_s(payload_bytes + packets * _HEADER_BYTES)


@dataclass(frozen=True)
class TransferClient:
    """A command-line client on a host, or one with given times per element and byte.

    Attributes
    ----------
    work
        None where `element_ns` and `byte_ns` say all: what is read is then parsed and forgotten.
    """

    speed: Speed
    work: ClientWork | None
    element_ns: float = 0.0
    byte_ns: float = 0.0

    def receive_ns(self, total_bytes: float, elements: float, element_bytes: float) -> float:
        """Reading and parsing a reply, while it comes."""
        host = self.speed.host
        reading = calls(total_bytes, _READ_BYTES) * host.tcp_recv_ns
        reading += total_bytes * host.recv_ns_per_byte(total_bytes)
        if self.work is None:
            return reading + elements * self.element_ns + total_bytes * self.byte_ns
        work = self.work.reply
        instructions = elements * (work.member.best + work.byte.best * element_bytes)
        kept = elements * (_ELEMENT_BYTES + element_bytes + 16.0)
        if element_bytes > _READ_BYTES:
            # The reader's buffer has to hold all of an element before it is one.
            reading += elements * self.grow_ns(element_bytes)
        parsing = self.speed.instructions_ns(PARSE_SHARE * instructions)
        return reading + parsing + self.speed.pages_ns(kept)

    def print_ns(self, elements: float, element_bytes: float) -> float:
        """Making one text of all elements and writing it to a file, once all are there."""
        if self.work is None or elements == 0:
            return 0.0
        work = self.work.reply
        text = elements * (element_bytes + 1.0)
        instructions = elements * (work.member.best + work.byte.best * element_bytes)
        formatting = self.speed.instructions_ns((1.0 - PARSE_SHARE) * instructions)
        # Into the page cache.
        writing = text * self.speed.host.copy_ns_per_byte
        growing = self.grow_ns(text) if elements > 1 else 2.0 * self.speed.pages_ns(text)
        return formatting + writing + growing

    def grow_ns(self, text_bytes: float) -> float:
        """Making room for a text that grows to a size in bytes."""
        if self.work is None:
            return 0.0
        pages = copied_bytes(text_bytes, self.work.growth) / PAGE_BYTES
        # To copy a page of a large text to memory that is new.
        page_ns = self.speed.copied_page_ns
        if page_ns is None:
            page_ns = self.speed.first_touch_ns + self.speed.streamed_ns(PAGE_BYTES)
        return pages * page_ns + self.speed.pages_ns(text_bytes)

    def send_ns(self, commands: float, command_bytes: float) -> float:
        """Reading a bulk load from a file and sending it, and counting the replies."""
        host = self.speed.host
        total = commands * command_bytes
        sending = calls(total, _READ_BYTES) * (host.tcp_send_ns + host.tcp_recv_ns)
        sending += total * (host.copy_ns_per_byte + host.send_ns_per_byte(total))
        if self.work is None:
            return sending + commands * self.element_ns + total * self.byte_ns
        pipe = self.work.pipe
        instructions = commands * (pipe.member.best + pipe.byte.best * command_bytes)
        return sending + self.speed.instructions_ns(instructions)


def copied_bytes(text_bytes: float, growth: Growth) -> float:
    """Bytes moved while a text grows by a MiB at a time and is copied to each larger place.

    In whole chunks those are 1 + 2 + ... + (k - 1) chunks, the square of the text; in size classes,
    four a doubling, about five times the text.
    """
    if growth == "whole_copies":
        chunks = calls(text_bytes, _CHUNK_BYTES)
        return _CHUNK_BYTES * chunks * (chunks - 1) / 2.0
    moved, place = 0.0, float(_GROWTH_BYTES)
    while place < text_bytes:
        moved += place
        place = float(size_class(int(place) + _GROWTH_BYTES))
    return moved


@dataclass(frozen=True)
class Transfer:
    """How long each party is busy with a reply, ns; all three at once."""

    total_bytes: float
    server_ns: float
    network_ns: float
    client_ns: float

    @property
    def lasts_ns(self) -> float:
        """As long as the slowest takes."""
        return max(self.server_ns, self.network_ns, self.client_ns)

    @property
    def slowest(self) -> Party:
        """Who sets the pace."""
        parties: dict[Party, float] = {
            "server": self.server_ns,
            "network": self.network_ns,
            "client": self.client_ns,
        }
        return max(parties, key=lambda party: parties[party])


def write_ns(total_bytes: float, speed: Speed, *, kernel_scale: float = 1.0) -> float:
    """CPU time of the main thread for writing a reply, turn by turn."""
    host = speed.host
    turns = calls(total_bytes, TURN_BYTES)
    segments = calls(total_bytes, _SEGMENT_BYTES)
    kernel = segments * host.tcp_send_ns + turns * (host.epoll_wait_ns + host.epoll_event_ns)
    # Reply buffers beyond the second level's size have left it by the time they are sent.
    cold = speed.streamed_ns(max(0.0, total_bytes - host.l2_bytes))
    return kernel_scale * kernel + total_bytes * host.send_ns_per_byte(total_bytes) + cold


def read_ns(total_bytes: float, speed: Speed, *, kernel_scale: float = 1.0) -> float:
    """CPU time of the main thread for reading what comes in, and for its replies."""
    host = speed.host
    reads = calls(total_bytes, _READ_BYTES)
    each = host.tcp_recv_ns + host.tcp_send_ns + host.epoll_wait_ns + host.epoll_event_ns
    return kernel_scale * reads * each + total_bytes * host.recv_ns_per_byte(total_bytes)


def transfer(
    total_bytes: float,
    *,
    elements: float,
    element_bytes: float,
    server: Speed,
    link: TransferLink,
    client: TransferClient,
    kernel_scale: float = 1.0,
) -> Transfer:
    """A reply on its way, by its number of elements."""
    return Transfer(
        total_bytes=total_bytes,
        server_ns=write_ns(total_bytes, server, kernel_scale=kernel_scale),
        network_ns=link.carry_ns(total_bytes),
        client_ns=client.receive_ns(total_bytes, elements, element_bytes),
    )


# --- the commands ---------------------------------------------------------------------------------


_OVERSIZE_BYTES = 8 << 20
_ASYNC_NS = 50_000.0
"""FLUSHDB ASYNC on the main thread: two empty tables and a job for a background thread (assumed, 10
to 200 us)."""


@dataclass(frozen=True)
class DataPlace:
    """Who takes part: an engine's work on a host, a link, a client."""

    work: LargeWork
    server: Speed
    link: TransferLink
    client: TransferClient
    kernel_scale: float = 1.0


@dataclass(frozen=True)
class CommandTime:
    """One command, from the request to the last line printed.

    Attributes
    ----------
    main
        Execution on the main thread, during which nothing else is served. For a bulk load, all of
        its commands.
    moved
        Transfer of the reply, or of the load.
    print_ns
        What the client does when all is there.
    turn_ns
        Main-thread time of one turn of the event loop that writes a piece of the reply, or executes
        what one read brought.
    turns
        How many of them there are.
    blocking
        Whether execution is one piece; a bulk load is not.
    background_ns
        Of a thread beside the main one, which no client waits for.
    """

    name: str
    main: MainThread
    moved: Transfer
    print_ns: float
    round_trip_ns: float
    elements: int
    turn_ns: float
    turns: int
    blocking: bool = True
    background_ns: float = 0.0

    @property
    def execution_ns(self) -> float:
        """Of one piece, in which everybody waits."""
        return self.main.total_ns if self.blocking else 0.0

    @property
    def main_thread_ns(self) -> float:
        """CPU time of the main thread, writing or reading included."""
        writing = self.moved.server_ns if self.blocking else 0.0
        return self.main.total_ns + writing

    @property
    def stream_ns(self) -> float:
        """In which the three work at once."""
        return self.moved.lasts_ns

    @property
    def lasts_ns(self) -> float:
        """What the client sees."""
        return self.round_trip_ns + self.execution_ns + self.stream_ns + self.print_ns

    def slower(self, factor: float) -> CommandTime:
        """The same where all that anybody does takes `factor` times as long."""
        moved = self.moved
        return replace(
            self,
            main=MainThread(**{name: each * factor for name, each in vars(self.main).items()}),
            moved=replace(
                moved,
                server_ns=moved.server_ns * factor,
                network_ns=moved.network_ns * factor,
                client_ns=moved.client_ns * factor,
            ),
            print_ns=self.print_ns * factor,
            turn_ns=self.turn_ns * factor,
            background_ns=self.background_ns * factor,
        )

    @property
    def binds(self) -> Party:
        """Who most of the duration is spent on."""
        spent: dict[Party, float] = {
            "server": self.execution_ns,
            "network": self.round_trip_ns,
            "client": self.print_ns,
        }
        spent[self.moved.slowest] += self.stream_ns
        return max(spent, key=lambda party: spent[party])


def _reply(
    place: DataPlace, name: str, main: MainThread, *, elements: int, element_bytes: int
) -> CommandTime:
    total = array_bytes(elements, element_bytes)
    moved = transfer(
        total,
        elements=elements,
        element_bytes=element_bytes,
        server=place.server,
        link=place.link,
        client=place.client,
        kernel_scale=place.kernel_scale,
    )
    turns = max(1, -(-int(total) // TURN_BYTES))
    return CommandTime(
        name=name,
        main=main,
        moved=moved,
        print_ns=place.client.print_ns(elements, element_bytes),
        round_trip_ns=2e3 * place.link.one_way_us,
        elements=elements,
        turn_ns=moved.server_ns / turns,
        turns=turns,
    )


def set_command(
    place: DataPlace, command: str, sets: TouchedSets, *, fresh: bool = True
) -> CommandTime:
    """SMEMBERS, SINTER, SUNION or SDIFF.

    Parameters
    ----------
    fresh
        The server's reply buffers and temporary sets take memory it didn't have before.
    """
    work = place.work
    result = sets.result(command)

    def counted(relation: str, built: int) -> float:
        name = command if command == "smembers" else f"{command}_{relation}"
        return work.instructions_of(
            name, members=sets.first, member_bytes=sets.member_bytes, built=built
        )

    if command == "smembers":
        instructions = counted("", 0)
    elif sets.same_key:
        instructions = counted("same", sets.first)
    else:
        # A union of two visits both; what is counted is for two sets of one size.
        larger = sets.second if command == "sunion" else sets.first
        scale = (sets.first + larger) / (2.0 * sets.first)
        share = sets.shared / sets.first
        alike = counted("equal", sets.first)
        apart = counted("disjoint", sets.union if command == "sunion" else sets.first)
        instructions = scale * (share * alike + (1.0 - share) * apart)
    touches = set_touches(command, sets, work.layout)
    new_bytes = array_bytes(result, sets.member_bytes) if result else 0.0
    if command in ("sunion", "sdiff"):
        new_bytes += member_memory_bytes(work.layout, result, sets.member_bytes)
    main = main_thread(
        instructions,
        touches,
        members=sets.steps(command),
        new_bytes=new_bytes if fresh else 0.0,
        speed=place.server,
    )
    return _reply(place, command, main, elements=result, element_bytes=sets.member_bytes)


def keys_command(place: DataPlace, *, keys: int, key_bytes: int, fresh: bool = True) -> CommandTime:
    """KEYS with a pattern that all keys match."""
    instructions = place.work.instructions_of("keys", members=keys, member_bytes=0.0)
    touches = keys_touches(place.work.layout, keys, key_bytes)
    main = main_thread(
        instructions,
        touches,
        members=max(1, keys),
        new_bytes=array_bytes(keys, key_bytes) if fresh else 0.0,
        speed=place.server,
    )
    return _reply(place, "keys", main, elements=keys, element_bytes=key_bytes)


def flush(
    place: DataPlace,
    *,
    members: int,
    member_bytes: int,
    mode: Literal["sync", "async"] | None = None,
) -> CommandTime:
    """FLUSHDB of sets, by their number of members in all.

    Raises
    ------
    InputError
        This version can't free in the background.
    """
    work = place.work
    if mode == "async" and not work.lazy_free:
        raise InputError(
            f"field mode: found 'async' for {work.engine} {work.version}, which frees on its main "
            "thread; valid is sync, or a version from 4.0 on."
        )
    background = mode == "async" or (mode is None and work.lazy_free_default)
    freeing = main_thread(
        work.instructions_of("flushdb", members=members, member_bytes=0.0),
        flush_touches(work.layout, members, member_bytes),
        members=max(1, members),
        new_bytes=0.0,
        speed=place.server,
    )
    main = MainThread(computing_ns=_ASYNC_NS) if background else freeing
    lasting = _reply(place, "flushdb", main, elements=0, element_bytes=0)
    if not background:
        return lasting
    return replace(lasting, background_ns=freeing.total_ns)


def large_get(
    place: DataPlace, *, value_bytes: int, copies: bool, fresh: bool = True
) -> CommandTime:
    """GET of one value of megabytes.

    Parameters
    ----------
    copies
        Whether the value is copied into a reply buffer; Redis to 3.2 and Valkey from 9.0 on send it
        from where it lies.
    """
    server = place.server
    copying = server.streamed_ns(value_bytes) + value_bytes * server.host.copy_ns_per_byte
    copying *= copies
    # jemalloc gives back what is freed at once from this size on (opt.oversize_threshold).
    fresh = fresh or value_bytes >= _OVERSIZE_BYTES
    paging = server.pages_ns(value_bytes) if copies and fresh else 0.0
    main = MainThread(computing_ns=copying, paging_ns=paging)
    return _reply(place, "get", main, elements=1, element_bytes=value_bytes)


def bulk_load(
    place: DataPlace,
    *,
    sets: int,
    members: int,
    member_bytes: int,
    key_bytes: int,
    inline: bool,
) -> CommandTime:
    """`redis-cli --pipe` of a SADD for each member, one set after the other.

    The server executes what each read of its event loop brings, others are served in between.
    """
    total = sets * members
    work = place.work
    name = "import_inline" if inline else "import_protocol"
    # They were counted with a key of one letter; a line is read letter by letter.
    letters = member_bytes + (key_bytes - 1 if inline else 0)
    each = work.instructions_of(name, members=members, member_bytes=letters, built=members)
    kept = sets * member_memory_bytes(work.layout, members, member_bytes)
    main = main_thread(
        sets * each,
        load_touches(work.layout, total, member_bytes, sets=sets),
        members=max(1, total),
        new_bytes=kept,
        speed=place.server,
    )
    if inline:
        request = len("SADD  \r\n") + key_bytes + member_bytes
    else:
        words = (len("SADD"), key_bytes, member_bytes)
        request = len("*3\r\n") + sum(map(bulk_bytes, words))
    arriving = float(total * request)
    server = main.total_ns + read_ns(arriving, place.server, kernel_scale=place.kernel_scale)
    moved = Transfer(
        total_bytes=arriving,
        server_ns=server,
        network_ns=place.link.carry_ns(arriving),
        client_ns=place.client.send_ns(total, request),
    )
    turns = max(1, -(-int(arriving) // _READ_BYTES))
    return CommandTime(
        name="import",
        main=MainThread(
            computing_ns=main.computing_ns + server - main.total_ns,
            waiting_ns=main.waiting_ns,
            paging_ns=main.paging_ns,
        ),
        moved=moved,
        print_ns=0.0,
        round_trip_ns=2e3 * place.link.one_way_us,
        elements=total,
        turn_ns=server / turns,
        turns=turns,
        blocking=False,
    )
