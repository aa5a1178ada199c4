"""Work times speed: the durations of every step of a node, from an engine, a host and a workload.

time = instructions / (IPC * clock) + system calls * their cost + lines * their latency
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtri

from forecache.hwprofiles.speed import HostSpeed

from ..engines.commands import CommandKind
from ..engines.profile import EngineWork
from ..memory.lines import LINE_BYTES
from ..node.setup import DRAWS, JITTER_ONE, QUANTILES, NodeTimes
from ..scenario.arrivals import Arrivals
from .command_times import command_times
from .forking import forked_times
from .inputs import NodeInputs, user_rate
from .interruptions import interruption_table_ps
from .locks import item_locks, lock_table
from .request_interval import shared_line_ns
from .tls import tls_times
from .workload_caches import workload_caches

KERNEL_VARIATION = 0.12
"""Coefficient of variation of a system call's duration from run to run (assumed: repeated socket
calls on a quiet host vary by 0.05 to 0.2; log-normal)."""

DOZE_SHARE = 0.5
"""Part of the CPU time of blocking that is spent before the thread sleeps; the rest when it is
scheduled again (assumed: a context switch each way)."""

OWN_TURN_SHARE = 0.25
"""What a turn of an I/O thread's own event loop takes of the main thread's, which has a dozen more
duties before it sleeps (assumed; 0.1 to 0.5)."""

TRANSMIT_SHARE = 0.4
"""Part of a send that stays with the sender at least, whatever interrupt cores take off it."""

_KIB_BITS = 8 * 1024

_PS_PER_NS = 1000

_SHORTEST_TURN_PS = 20_000
"""A turn of an event loop that finds nothing still reads the clock and looks at its lists."""


def code_table(kinds: list[CommandKind]) -> np.ndarray:
    """(1024,) command code by draw, each kind getting its share of the slots to the nearest one."""
    ends = np.rint(np.cumsum([kind.share for kind in kinds]) * DRAWS).astype(np.int64)
    return np.searchsorted(ends, np.arange(DRAWS), side="right").astype(np.int64)


def jitter_table(variation: float = KERNEL_VARIATION) -> np.ndarray:
    """(256,) quantiles of a log-normal factor of mean one, in units of 1 / `JITTER_ONE`."""
    sigma = math.sqrt(math.log1p(variation**2))
    quantiles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    factor = np.exp(sigma * ndtri(quantiles))
    return np.rint(factor / factor.mean() * JITTER_ONE).astype(np.int64)


def node_times(inputs: NodeInputs) -> NodeTimes:
    """Durations of all steps, in whole picoseconds."""
    scenario, engine, work, speed = inputs.scenario, inputs.engine, inputs.work, inputs.speed
    kinds, user, line_ns = inputs.kinds, inputs.user_ns, speed.core_to_core_ns
    recv_ns, send_ns = inputs.socket_ns(speed)
    kernel = work.kernel_scale
    tls = tls_times(scenario, engine, speed, kernel_scale=kernel)
    caches = workload_caches(inputs)
    copy_ns_per_byte = speed.copy_ns_per_byte + caches.copy_wait_ns / caches.copied_bytes
    copy_ns_per_byte += tls.byte_ns
    shared_ns = work.shared_lines * shared_line_ns(inputs)
    commands = command_times(inputs, caches=caches, shared_ns=shared_ns)
    written_lines = commands.reply_bytes * scenario.workload.pipeline / LINE_BYTES
    reply_lines = written_lines * work.reply_lines_per_line
    hand_over = inputs.policy.hand_over
    handings = 1 if hand_over == "clients" else 2
    key_bytes = scenario.workload.key_bytes
    no_arrivals: dict[str, Any] = Arrivals().tables(1, {})
    times = NodeTimes(
        # A turn takes some time whatever it finds, or time would stand still while it spins.
        loop_ps=max(_SHORTEST_TURN_PS, _ps(user(work.loop_instructions))),
        poll_ps=_ps(kernel * speed.epoll_wait_ns),
        poll_event_ps=_ps(kernel * speed.epoll_event_ns),
        doze_ps=_ps(work.wake_scale * speed.block_ns * DOZE_SHARE),
        block_ps=_ps(work.wake_scale * speed.block_ns * (1.0 - DOZE_SHARE)),
        wake_latency_ps=_ps(_after_send_ns(work, speed)),
        wake_send_ps=_ps(work.wake_scale * speed.wake_send_ns),
        read_event_ps=_ps(user(work.read_instructions)),
        recv_ps=_ps(kernel * recv_ns + tls.recv_ns),
        send_ps=_ps(_sending_ns(inputs, kernel * send_ns) + tls.send_ns),
        write_event_ps=_ps(user(work.write_instructions)),
        copy_ps_per_kib=_ps(copy_ns_per_byte * 1024),
        # A request has two jobs, a read and a write: each is charged half of the lines fetched. A
        # client that is owned by its thread is handed back once.
        push_ps=_ps(
            user(work.push_instructions) + work.execute_lines * line_ns / handings + tls.job_ns
        ),
        pop_ps=_ps(
            user(work.pop_instructions)
            + (work.read_lines + work.write_lines + reply_lines) * line_ns / 2
            + shared_ns / 2
        ),
        scan_ps=_ps(user(work.scan_instructions)),
        done_ps=_ps(user(work.done_instructions) + work.done_lines * line_ns),
        collect_ps=_ps(user(work.collect_instructions)),
        handover_ps=_ps(line_ns),
        activate_ps=_ps(speed.syscall_ns),
        thread_wake_ps=_ps(speed.wake_latency_ns),
        one_way_ps=_ps(speed.network_one_way_us * 1000),
        wire_ps_per_kib=_ps(_KIB_BITS / speed.network_gbit_per_s),
        free_push_ps=_ps(user(work.push_instructions)),
        accept_ps=_ps(tls.accept_ns),
        handshake_ps=_ps(tls.handshake_ns),
        # A line that the I/O thread keeps reading.
        publish_ps=_ps(line_ns),
        own_turn_ps=max(_SHORTEST_TURN_PS, _ps(OWN_TURN_SHARE * user(work.loop_instructions))),
        notify_ps=_ps(kernel * speed.syscall_ns + user(work.push_instructions)),
        notice_ps=_ps(kernel * speed.syscall_ns + user(work.collect_instructions)),
        packet_ps=_ps(1e9 / speed.network_packets_per_s),
        flow_ps_per_kib=_ps(_KIB_BITS / speed.network_flow_gbit_per_s),
        free_arguments_ps=_ps(commands.free_arguments_ns),
        softirq_ps=_ps(speed.softirq_ns),
        switch_ps=_ps(speed.context_switch_ns),
        flush_ps=0,
        parse_by_code_ps=_table(commands.parse_ns),
        execute_by_code_ps=_table(commands.execute_ns),
        stall_ps=_table(commands.stall_ns),
        prefetched_stall_by_code_ps=_table(commands.prefetched_stall_ns),
        prefetch_by_keys_ps=_table(commands.prefetch_ns),
        request_bytes_by_code=np.array([kind.request_bytes(key_bytes) for kind in kinds], np.int64),
        reply_bytes_by_code=np.array([kind.reply_bytes for kind in kinds], np.int64),
        write_by_code_ps=_table(commands.write_ns),
        free_by_code_ps=_table(commands.free_ns),
        keys_by_code=np.array([kind.keys for kind in kinds], np.int64),
        logged_bytes_by_code=np.zeros(len(kinds), np.int64),
        rare_below_by_code=np.zeros(len(kinds), np.int64),
        code_by_draw=code_table(kinds),
        lock_by_draw=lock_table(scenario.workload, item_locks(scenario.io_threads)),
        jitter=jitter_table(),
        interruption_ps=interruption_table_ps(speed),
        **_generator_ps(inputs),
        **no_arrivals,
    )
    if hand_over != "turns":
        return times
    written = commands.reply_bytes * scenario.workload.pipeline
    return forked_times(times, inputs, reply_bytes=written)


def _generator_ps(inputs: NodeInputs) -> dict[str, Any]:
    """Durations of the load generator's steps, by the field of `NodeTimes`."""
    generator, speed = inputs.generator, inputs.generator_speed
    recv_ns, send_ns = inputs.socket_ns(speed)
    kernel = generator.kernel_scale
    rate = user_rate(speed)

    def user(instructions: float) -> float:
        return instructions / rate

    tls = tls_times(inputs.scenario, inputs.engine, speed, kernel_scale=kernel)
    polling_ns = speed.epoll_wait_ns * generator.poll_rounds * kernel
    event_ns = speed.epoll_event_ns * generator.poll_rounds * kernel
    around_ns = user(generator.batch_instructions) / 2
    around_ns += generator.batch_syscalls * speed.syscall_ns / 2
    return {
        "generator_poll_ps": _ps(polling_ns + user(generator.poll_instructions)),
        "generator_poll_event_ps": _ps(event_ns),
        "generator_recv_ps": _ps(kernel * recv_ns + tls.recv_ns + around_ns),
        "generator_reply_ps": _ps(user(generator.reply_instructions)),
        "generator_send_ps": _ps(kernel * send_ns + tls.send_ns + around_ns),
        "generator_request_ps": _ps(user(generator.request_instructions)),
    }


def _sending_ns(inputs: NodeInputs, send_ns: float) -> float:
    """A send without what interrupt cores do instead.

    Over loopback, where it is measured, a send contains what the receiver's interrupt takes. It
    stands for the interrupts that incoming packets cause on the server's cores.
    """
    if inputs.scenario.interrupt_cores == 0:
        return send_ns
    return max(TRANSMIT_SHARE * send_ns, send_ns - inputs.speed.softirq_ns)


def _after_send_ns(work: EngineWork, speed: HostSpeed) -> float:
    """From the end of a send that wakes a sleeper until it runs.

    A host's wake latency counts from the start of that send until the sleeper's `epoll_wait` has
    returned; the send itself and the sleeper's way back are simulated.
    """
    simulated = work.kernel_scale * speed.tcp_send_ns + work.wake_scale * speed.wake_send_ns
    simulated += work.wake_scale * speed.block_ns * (1.0 - DOZE_SHARE)
    return max(speed.syscall_ns, speed.wake_latency_ns - simulated)


def _ps(time_ns: float) -> int:
    return round(time_ns * _PS_PER_NS)


def _table(times_ns: object) -> np.ndarray:
    return np.rint(np.asarray(times_ns, float) * _PS_PER_NS).astype(np.int64)
