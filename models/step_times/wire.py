"""What one read, one pass through the network stack and one packet carry, and what TLS adds.

With TLS a send is one record per 16 KiB, and the library makes one system call for each. A receive
takes two calls: five bytes of header, then the record (OpenSSL without `SSL_set_read_ahead`, which
engines don't use). The thread that reads or writes pays for it; which thread does handshakes is a
rule of the engine (networking.c, tls.c and io_threads.c of Redis 6 and Valkey 8.0, 8.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.errors import InputError

from ..engines.commands import WHOLE_ARGUMENT_BYTES, command_kinds, sent_kinds
from ..engines.profile import EngineProfile
from ..scenario.schema import Scenario

TCP_SEGMENT_BYTES = 65_483
"""What one segment carries over loopback (its MTU of 65,536 less headers); with segmentation
offload about as much on a network. A larger send goes through the stack once per segment."""

REPLY_BLOCK_BYTES = 16 * 1024
"""Of the reply list (PROTO_REPLY_CHUNK_BYTES in server.h), unless a value needs a larger one."""

LARGE_REQUEST_BYTES = 6_000
"""From here on the rest of a request doubles its client's buffer (INFO counts reads of 40 KB with
values of 6.6 KB, and of 16 to 20 KB with values of 4 KB)."""

RECEIVED_AT_ONCE_BYTES = 200_000
"""What a socket holds when a request is read into a buffer that takes all of it (counted on a Zen 5
virtual machine under valkey-benchmark, Redis 7.0 and Valkey 9.1: 4.2 to 5.2 reads a SET of 1 MB,
2.4 of 300 KB, 1.0 to 1.1 of 100 KB)."""

IP_TCP_HEADER_BYTES = 52
"""IPv4, TCP and its time stamps: part of the MTU."""

ETHERNET_HEADER_BYTES = 14
"""Taken to count against a bandwidth as well (assumed)."""


def write_limit_bytes(scenario: Scenario, engine: EngineProfile) -> int:
    """What one write carries: a value beyond the engine's limit goes out whole, with its header.

    Counted: 1.0 writes a GET of 100 KB to 1 MB in Redis 7.0 and Valkey 9.1.
    """
    longest = max(
        kind.value_bytes if kind.other is None else kind.reply_bytes
        for kind in sent_kinds(command_kinds(scenario))
    )
    return max(engine.write_limit_bytes, longest + REPLY_BLOCK_BYTES)


def segment_bytes(scenario: Scenario, engine: EngineProfile) -> int:
    """What one pass through the network stack carries of a reply."""
    if scenario.tls is not None:
        return RECORD_BYTES
    unix = scenario.transport == "unix_socket"
    return write_limit_bytes(scenario, engine) if unix else TCP_SEGMENT_BYTES


def read_limit_bytes(scenario: Scenario, engine: EngineProfile) -> int:
    """Mean bytes of the reads that a pipeline's requests take.

    The first one is limited by the buffer all clients share. What is left of a request then lies in
    a buffer of the client's own, which is made twice as large where requests are large. After a
    request whose value is stored as it was read, the buffer takes another one like it.
    """
    workload = scenario.workload
    kinds = sent_kinds(command_kinds(scenario))
    sizes = [(k.request_bytes(workload.key_bytes), k.share) for k in kinds]
    first = engine.read_limit_bytes
    grown = engine.large_read_limit_bytes if max(sizes)[0] > LARGE_REQUEST_BYTES else first
    if max(sizes)[0] > WHOLE_ARGUMENT_BYTES:
        first = grown = max(grown, RECEIVED_AT_ONCE_BYTES)
    total = workload.pipeline * sum(size * share for size, share in sizes)
    reads = 1 + max(0, math.ceil((total - first) / grown))
    return max(first, math.ceil(total / reads)) if reads > 1 else first


# --- TLS ------------------------------------------------------------------------------------------


RECORD_BYTES = 16 * 1024
"""What a TLS record carries at most (RFC 8446, 5.1)."""

CLEARING_INSTRUCTIONS = 835.0
"""`ERR_clear_error`, which empties the sixteen places of a thread's error queue (counted by
callgrind in OpenSSL 3.0.19). The main thread of Valkey 8.0 calls it at each event of a socket, so
once for a read (valkey PR 1271)."""

PENDING_INSTRUCTIONS = 44.0
"""`SSL_pending`, counted alike; that main thread calls it after each job."""

PENDING_LINES = 2.0
"""Lines that `SSL_pending` fetches per request (assumed, 1 to 3): the state of the record layer and
the record that `SSL_read` wrote on the I/O thread; `SSL_write` leaves both alone."""

SESSION_LINES = 100
"""Lines of a session that a request touches, half of them to receive and half to send: record
layers, cipher contexts with their key schedules and tables, buffers (assumed, 60 to 150; a session
takes 33 KB)."""

SESSION_LINES_AT_ONCE = 4
"""How many of them are waited for together (2 to 8): fitted to what a GET took more with 2,000
connections than with 50 on an Intel guest. A Zen 5 machine was measured after it."""

ACCEPT_CALLS = 6
"""System calls around a new connection: accept4, options of the socket, the poll's interest
(anet.c, connection.c)."""

ACCEPT_INSTRUCTIONS = 10_000
"""User code of a new connection: its client and its buffers (assumed, 5,000 to 20,000)."""

HANDSHAKE_RECEIVES = 2
HANDSHAKE_SENDS = 1
"""Flights of a full TLS 1.3 handshake at the server (RFC 8446, 2): hello; hello, certificate and
finished; finished."""

_PS_PER_S = 10**12


@dataclass(frozen=True)
class TlsTimes:
    """What TLS adds, in ns; nothing without it.

    Attributes
    ----------
    recv_ns, send_ns
        To each receive and to each send of a segment.
    byte_ns
        To each byte of either.
    job_ns
        To handing an I/O thread a job.
    accept_ns, handshake_ns
        What a new connection takes; with the handshake's calls.
    """

    recv_ns: float = 0.0
    send_ns: float = 0.0
    byte_ns: float = 0.0
    job_ns: float = 0.0
    accept_ns: float = 0.0
    handshake_ns: float = 0.0


def tls_times(
    scenario: Scenario,
    engine: EngineProfile,
    speed: HostSpeed,
    *,
    kernel_scale: float,
    line_wait_ns: float,
) -> TlsTimes:
    """What TLS adds to the steps of one end of a connection.

    Parameters
    ----------
    kernel_scale
        Time of its socket calls relative to the host's micro-benchmark.
    line_wait_ns
        Wait for a line of a connection that has been idle for as long as all others took.
    """
    if scenario.tls is None:
        return TlsTimes()
    ecdsa = scenario.tls.certificate == "ecdsa-p256"
    handshake_us = speed.tls_ecdsa_handshake_us if ecdsa else speed.tls_rsa_handshake_us
    rate = speed.user_ipc * speed.clock_ghz
    asking_ns = 0.0
    if engine.tls_bookkeeping_by_main:
        # A request has two jobs, a read and a write.
        asking_ns = (CLEARING_INSTRUCTIONS / 2 + PENDING_INSTRUCTIONS) / rate
        asking_ns += PENDING_LINES / 2 * speed.core_to_core_ns
    session_ns = SESSION_LINES / 2 * line_wait_ns / SESSION_LINES_AT_ONCE
    calls_ns = HANDSHAKE_RECEIVES * 2 * speed.tcp_recv_ns + HANDSHAKE_SENDS * speed.tcp_send_ns
    return TlsTimes(
        recv_ns=speed.tls_record_ns + kernel_scale * speed.tcp_recv_ns + session_ns,
        send_ns=speed.tls_record_ns + session_ns,
        byte_ns=speed.tls_ns_per_byte,
        job_ns=asking_ns,
        accept_ns=ACCEPT_CALLS * speed.syscall_ns + ACCEPT_INSTRUCTIONS / rate,
        handshake_ns=1000.0 * handshake_us + kernel_scale * calls_ns,
    )


def only_the_main_thread(scenario: Scenario, engine: EngineProfile) -> bool:
    """Whether an engine's I/O threads have nothing to do because connections are encrypted."""
    return scenario.tls is not None and engine.tls == "main_thread" and scenario.io_threads > 1


def check_abilities(scenario: Scenario, engine: EngineProfile) -> None:
    """Refuse I/O threads and TLS with a version that has none.

    Raises
    ------
    InputError
        The scenario asks for them.
    """
    if scenario.io_threads > 1 and engine.max_io_threads == 1:
        raise InputError(
            f"field 'io_threads': found {scenario.io_threads}; valid with {engine.id} is 1, since "
            "that version has no I/O threads."
        )
    if scenario.tls is not None and engine.tls == "none":
        raise InputError(
            f"field 'tls': found connections with TLS; valid with {engine.id} is none, since that "
            "version has no TLS."
        )


def connection_gap_ps(scenario: Scenario) -> int:
    """From one new connection to the next; 0 where there are none."""
    rate = 0.0 if scenario.tls is None else scenario.tls.new_connections_per_s
    return round(_PS_PER_S / rate) if rate > 0 else 0
