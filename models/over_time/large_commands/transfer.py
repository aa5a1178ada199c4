"""A reply on its way: the server writes it, the network carries it, the client parses it.

A command is executed whole before any of its reply is sent; it lies in the server's reply buffers
meanwhile. Then all three work at once, in event-loop turns of at most `TURN_BYTES` on the server,
so that the slowest sets the pace; and when the last byte has come, redis-cli makes one text of all
elements and prints that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from forecache.hwprofiles.network import Path

from ...layouts.allocator import size_class
from .main_thread import PAGE_BYTES, Speed, calls
from .work import ClientWork, Growth

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


def array_bytes(elements: float, element_bytes: float) -> float:
    """Bytes of an array of strings in the protocol."""
    header = len(str(int(element_bytes)))
    return 1.0 + len(str(int(elements))) + 2.0 + elements * (header + element_bytes + 5.0)


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
        return pages * self.speed.moved_page_ns + self.speed.pages_ns(text_bytes)

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
