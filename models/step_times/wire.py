"""What one read, one pass through the network stack and one packet carry."""

from __future__ import annotations

import math

from ..engines.commands import WHOLE_ARGUMENT_BYTES, command_kinds, sent_kinds
from ..engines.profile import EngineProfile
from ..scenario.schema import Scenario
from .tls import RECORD_BYTES

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
