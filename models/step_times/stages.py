"""Work times speed: the durations of every step of a node, from an engine, a host and a workload.

time = instructions / (IPC * clock) + system calls * time per call + lines * their latency
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from forecache.hwprofiles.speed import HostSpeed

from ..engines.commands import CommandKind, traced_codes
from ..engines.profile import EngineWork
from ..memory.lines import LINE_BYTES
from ..node.setup import DRAWS, JITTER_ONE, QUANTILES, NodeTimes
from .command_times import CommandTimes, command_times
from .cores import interruption_table_ps, shares_cores, wake_latencies_ns
from .inputs import NodeInputs, user_rate
from .persistence import (
    LogTimes,
    copy_on_write_ps,
    log_times,
    stall_shares,
    stream_scenario,
    with_stalls,
)
from .policy_times import (
    SECTIONS,
    futex_ns,
    item_locks,
    list_table,
    lock_table,
    section_ns,
    sharing_out,
)
from .values import FREE_PUSH_SHARE
from .wire import TlsTimes, tls_times
from .workload_caches import WorkloadCaches, shared_line_ns, workload_caches

KERNEL_VARIATION = 0.12
"""Coefficient of variation of a system call's duration from run to run (assumed: repeated socket
calls on a quiet host vary by 0.05 to 0.2; log-normal)."""

DOZE_SHARE = 0.5
"""Part of the CPU time of blocking that is spent before the thread sleeps; the rest when it is
scheduled again (assumed: a context switch each way)."""

MOST_DOZE_NS = 2500.0
"""But no longer than this: where blocking takes long, that is the hypervisor's way out of an idle
core and back. Two clients in a closed loop fall into step, so that both sides sleep, and four
don't, on two virtual hosts whose blocking takes 8 and 27 us; with more clients than the load
generator keeps up with, shorter ones are nearer to what was measured, but then four clients fall
into step as well, since every wake-up takes the same time here (chosen with these points in
view)."""

OWN_TURN_SHARE = 0.25
"""What a turn of an I/O thread's own event loop takes of the main thread's, which has a dozen more
duties before it sleeps (assumed; 0.1 to 0.5)."""

EVENT_INSTRUCTIONS = 120.0
"""Of the main thread for an event of a poll until it knows that the client has a job already:
`aePoll`, `connSocketEventHandler`, `readQueryFromClient` and `trySendReadToIOThreads`, read in the
machine code of Valkey 8.1.1."""

EVENT_LINES = 0.125
"""Cache lines an event that another thread has polled: it takes 8 bytes there."""

TRANSMIT_SHARE = 0.4
"""Part of a send that stays with the sender at least, whatever interrupt cores take off it."""

_KIB_BITS = 8 * 1024

_PS_PER_NS = 1000

Part = dict[str, Any]
"""Some of the fields of `NodeTimes`, by name."""

_SHORTEST_TURN_PS = 20_000
"""A turn of an event loop that finds nothing still reads the clock and looks at its lists."""


def code_table(kinds: list[CommandKind]) -> np.ndarray:
    """(1024,) command code by draw, each kind getting its share of the slots to the nearest one."""
    return _code_table(tuple(kind.share for kind in kinds))


@lru_cache(maxsize=64)
def _code_table(shares: tuple[float, ...]) -> np.ndarray:
    ends = np.rint(np.cumsum(shares) * DRAWS).astype(np.int64)
    return np.searchsorted(ends, np.arange(DRAWS), side="right").astype(np.int64)


@lru_cache(maxsize=8)
def jitter_table(variation: float = KERNEL_VARIATION) -> np.ndarray:
    """(256,) quantiles of a log-normal factor of mean one, in units of 1 / `JITTER_ONE`."""
    sigma = math.sqrt(math.log1p(variation**2))
    quantiles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    factor = np.exp(sigma * ndtri(quantiles))
    return np.rint(factor / factor.mean() * JITTER_ONE).astype(np.int64)


def node_times(inputs: NodeInputs) -> NodeTimes:
    """Durations of all steps, in whole picoseconds: the parts below, each with fields of its own.

    By `inputs.rate_rps`, what happens every so often happens to one request in so many, and lines
    last in caches that others fill. Without it there are no stalls, no pages are copied for a
    snapshot, and lines last as they do while the main thread takes one request after the other.
    """
    scenario, workload = inputs.scenario, inputs.scenario.workload
    caches = workload_caches(inputs)
    tls = tls_times(
        scenario,
        inputs.engine,
        inputs.speed,
        kernel_scale=inputs.work.kernel_scale,
        line_wait_ns=caches.connection_line_ns,
    )
    shared_ns = inputs.work.shared_lines * shared_line_ns(inputs)
    commands = command_times(inputs, shared_ns=shared_ns)
    log = log_times(inputs)
    sockets = _sockets(inputs, tls, caches)
    written_bytes = commands.reply_bytes * workload.pipeline
    handing: Part
    if inputs.policy.hand_over == "turns":
        handing = sharing_out(inputs, sockets, written_bytes=written_bytes)
    else:
        handing = _jobs(inputs, tls, written_bytes=written_bytes, shared_ns=shared_ns)
    by_code = _by_code(inputs, commands, log)
    codes: Part = with_stalls(by_code, stall_shares(inputs))
    threads = scenario.generator_threads
    codes_of = traced_codes(inputs.kinds) if workload.trace is not None else {}
    arrivals: Part = workload.varying.tables(threads, codes_of)
    return NodeTimes(
        **_event_loop(inputs),
        **sockets,
        **handing,
        **_between_threads(inputs),
        **_network(inputs.speed),
        **_generator(inputs, caches),
        **codes,
        **arrivals,
        flush_ps=log.flush_ps,
        free_arguments_ps=_ps(commands.free_arguments_ns),
        prefetch_by_keys_ps=_table(commands.prefetch_ns),
        code_by_draw=code_table(inputs.kinds),
        lock_by_draw=lock_table(workload, item_locks(scenario.io_threads)),
        list_by_draw=list_table(workload),
        section_ps=_table(section_ns(inputs, commands.neighbour_ns)),
        section_moved_ps=_table([s.lines * inputs.speed.core_to_core_ns for s in SECTIONS]),
        jitter=jitter_table(),
        wake_latency_ps=_table(_after_send_ns(inputs.work, inputs.speed)),
        interruption_ps=interruption_table_ps(inputs.speed),
        sibling_scale=sibling_scale(inputs.sharing.physical_cores, inputs.speed.busy_sibling_speed),
    )


def _event_loop(inputs: NodeInputs) -> Part:
    """Turns, polls, falling asleep and waking."""
    work, speed = inputs.work, inputs.speed
    turns = inputs.engine.turns_per_round
    turn_ns = turns * inputs.user_ns(work.loop_instructions)
    dozing_ns = _dozing_ns(work, speed)
    short = _short_sleep_scale(work, speed)
    crowded = shares_cores(inputs.scenario, inputs.sharing)
    return {
        # A turn takes some time whatever it finds, or time would stand still while it spins.
        "loop_ps": max(_SHORTEST_TURN_PS, _ps(turn_ns)),
        "own_turn_ps": max(_SHORTEST_TURN_PS, _ps(OWN_TURN_SHARE * turn_ns)),
        "poll_ps": _ps(turns * work.kernel_scale * speed.epoll_wait_ns),
        "poll_event_ps": _ps(work.kernel_scale * speed.epoll_event_ns),
        "doze_ps": _ps(dozing_ns),
        "block_ps": _ps(_unblocking_ns(work, speed)),
        "wake_send_ps": _ps(work.wake_scale * speed.wake_send_ns),
        "short_block_ps": _ps(short * speed.block_ns - dozing_ns),
        "short_wake_send_ps": _ps(short * speed.wake_send_ns),
        # Threads that share cores pay the whole price: what they do to each other was found so.
        "long_sleep_ps": 0 if crowded else _ps(speed.block_ns),
        "switch_ps": _ps(speed.context_switch_ns),
        # A socket is taken out and put in again.
        "rearm_ps": _ps(2 * work.kernel_scale * speed.epoll_ctl_ns),
        "futex_ps": _ps(futex_ns(work, speed)),
    }


def _sockets(inputs: NodeInputs, tls: TlsTimes, caches: WorkloadCaches) -> Part:
    """What the server does at its end of a connection."""
    work, speed = inputs.work, inputs.speed
    recv_ns, send_ns = inputs.socket_ns(speed)
    event_ns = work.kernel_scale * inputs.reply_event_ns()
    # What else each byte takes, in either direction.
    byte_ns = caches.copy_wait_ns / caches.copied_bytes + tls.byte_ns
    return {
        "read_event_ps": _ps(inputs.user_ns(work.read_instructions)),
        "recv_ps": _ps(work.kernel_scale * recv_ns + tls.recv_ns),
        "send_ps": _ps(_sending_ns(inputs, work.kernel_scale * send_ns) + event_ns + tls.send_ns),
        "write_event_ps": _ps(inputs.user_ns(work.write_instructions)),
        "recv_ps_per_kib": _ps((inputs.recv_ns_per_byte() + byte_ns) * 1024),
        "send_ps_per_kib": _ps((inputs.send_ns_per_byte() + byte_ns) * 1024),
        "accept_ps": _ps(tls.accept_ns),
        "handshake_ps": _ps(tls.handshake_ns),
    }


def _jobs(inputs: NodeInputs, tls: TlsTimes, *, written_bytes: float, shared_ns: float) -> Part:
    """Handing requests to other threads as jobs; `sharing_out` is the same of fork-join threads.

    A request has two jobs, a read and a write: each is charged half of the lines fetched. A client
    that is owned by its thread is handed back once.
    """
    work, user, line_ns = inputs.work, inputs.user_ns, inputs.speed.core_to_core_ns
    handings = 1 if inputs.policy.hand_over == "clients" else 2
    reply_lines = written_bytes / LINE_BYTES * work.reply_lines_per_line
    taken_lines = work.read_lines + work.write_lines + reply_lines
    pushing_ns = user(work.push_instructions) + work.execute_lines * line_ns / handings
    return {
        "push_ps": _ps(pushing_ns + tls.job_ns),
        "pop_ps": _ps(user(work.pop_instructions) + taken_lines * line_ns / 2 + shared_ns / 2),
        "done_ps": _ps(user(work.done_instructions) + work.done_lines * line_ns),
    }


def _between_threads(inputs: NodeInputs) -> Part:
    """Looking at each other, telling each other, and jobs that free memory."""
    work, speed, user = inputs.work, inputs.speed, inputs.user_ns
    event_ns = work.kernel_scale * speed.syscall_ns
    return {
        "scan_ps": _ps(user(work.scan_instructions)),
        "event_ps": _ps(user(EVENT_INSTRUCTIONS) + EVENT_LINES * speed.core_to_core_ns),
        "collect_ps": _ps(user(work.collect_instructions)),
        "handover_ps": _ps(speed.core_to_core_ns),
        "activate_ps": _ps(speed.syscall_ns),
        "thread_wake_ps": _ps(speed.whole_wake_latency_ns),
        "free_push_ps": _ps(user(FREE_PUSH_SHARE * work.push_instructions)),
        # A line that the I/O thread keeps reading.
        "publish_ps": _ps(speed.core_to_core_ns),
        "notify_ps": _ps(event_ns + user(work.push_instructions)),
        "notice_ps": _ps(event_ns + user(work.collect_instructions)),
    }


def _further_commands_ns(inputs: NodeInputs) -> float:
    """Wait of the main thread per command, in the mean, for what an I/O thread has parsed.

    The first command of a batch comes with its client, for which `_jobs` charges.
    """
    policy, engine = inputs.policy, inputs.engine
    if inputs.lone or policy.hand_over in ("none", "turns") or not engine.whole_pipeline:
        return 0.0
    pipeline = inputs.scenario.workload.pipeline
    parsed = min(pipeline, engine.lookahead or pipeline)
    lines = inputs.work.command_lines * (parsed - 1) / pipeline
    return lines * inputs.speed.core_to_core_ns


def _network(speed: HostSpeed) -> Part:
    """The way between the hosts."""
    return {
        "one_way_ps": _ps(speed.network_one_way_us * 1000),
        "wire_ps_per_kib": _ps(_KIB_BITS / speed.network_gbit_per_s),
        "packet_ps": _ps(1e9 / speed.network_packets_per_s),
        "flow_ps_per_kib": _ps(_KIB_BITS / speed.network_flow_gbit_per_s),
        "softirq_ps": _ps(speed.softirq_ns),
    }


def _by_code(inputs: NodeInputs, commands: CommandTimes, log: LogTimes) -> Part:
    """Tables by command code, stalls left out.

    Executing a command, writing it to the log and copying the pages that it writes add up.
    """
    kinds, key_bytes = inputs.kinds, inputs.scenario.workload.key_bytes
    execute_ps = _table(commands.execute_ns) + log.execute_ps
    execute_ps = execute_ps + _ps(_further_commands_ns(inputs))
    if (follows := inputs.scenario.follows) is not None:
        execute_ps = execute_ps + _ps(follows.per_request * stream_times(inputs).write_ns)
    return {
        "parse_by_code_ps": _table(commands.parse_ns),
        "execute_by_code_ps": execute_ps + copy_on_write_ps(inputs),
        "stall_ps": _table(commands.stall_ns),
        "prefetched_stall_by_code_ps": _table(commands.prefetched_stall_ns),
        "request_bytes_by_code": np.array([round(k.request_bytes(key_bytes)) for k in kinds]),
        "reply_bytes_by_code": np.array([kind.reply_bytes for kind in kinds], np.int64),
        "write_by_code_ps": _table(commands.write_ns),
        "free_by_code_ps": _table(commands.free_ns),
        # One that has no key is one whose key nobody waits for.
        "keys_by_code": np.array([max(1, kind.keys) for kind in kinds], np.int64),
        "logged_bytes_by_code": log.bytes_by_code,
        "rare_below_by_code": np.zeros(len(kinds), np.int64),
    }


class StreamTimes(NamedTuple):
    """What a replica takes for its primary's writes, in ns of its main thread.

    Attributes
    ----------
    write_ns
        For a write: parsing and executing it, keeping it for replicas of its own, and its part of
        a receive. Nothing is answered.
    waking_ns
        For a batch that finds the replica asleep, besides: a turn of the event loop, falling asleep
        and waking. It is idle time otherwise, and limits nothing.
    """

    write_ns: float
    waking_ns: float


def stream_times(inputs: NodeInputs) -> StreamTimes:
    """What `follows` of a scenario takes: its writes as a main thread without TLS executes them.

    They come over one connection (`readQueryFromClient` of the primary's client), and are copied
    into the replica's own backlog as they came (`replicationFeedStreamFromPrimaryStream`).
    """
    follows = inputs.scenario.follows
    assert follows is not None  # who asks has looked
    stream = replace(inputs, scenario=stream_scenario(inputs.scenario, follows))
    times = node_times(stream)
    shares = np.array([kind.share for kind in stream.kinds])
    each_ps = times.parse_by_code_ps + times.execute_by_code_ps + times.stall_ps.mean(axis=1)
    batch_ps = times.poll_event_ps + times.read_event_ps + times.recv_ps + times.flush_ps
    byte_ns = times.recv_ps_per_kib / 1024 / _PS_PER_NS + inputs.speed.copy_ns_per_byte
    write_ns = (float(shares @ each_ps) + batch_ps / follows.at_once) / _PS_PER_NS
    waking_ps = times.loop_ps + times.poll_ps + times.doze_ps + times.block_ps
    return StreamTimes(write_ns + stream.request_bytes * byte_ns, waking_ps / _PS_PER_NS)


def _generator(inputs: NodeInputs, caches: WorkloadCaches) -> Part:
    """The load generator's steps."""
    generator, speed = inputs.generator, inputs.generator_speed
    recv_ns, send_ns = inputs.socket_ns(speed)
    kernel, rate = generator.kernel_scale, user_rate(speed)

    def user_ns(instructions: float) -> float:
        return generator.user_scale * instructions / rate

    request_bytes, reply_bytes = inputs.request_bytes, inputs.reply_bytes
    request = generator.request_instructions + request_bytes * generator.byte_instructions
    reply = generator.reply_instructions + reply_bytes * generator.byte_instructions
    if inputs.engine.threading.locks_items:
        gets = sum(kind.share for kind in inputs.kinds if kind.command == "get")
        reply += gets * generator.text_get_instructions
    pipeline = inputs.scenario.workload.pipeline
    replies_bytes = pipeline * reply_bytes
    recv_ns_per_byte = speed.recv_ns_per_byte(replies_bytes)
    send_ns_per_byte = speed.send_ns_per_byte(pipeline * request_bytes)
    tls = tls_times(
        inputs.scenario,
        inputs.engine,
        speed,
        kernel_scale=kernel,
        line_wait_ns=caches.connection_line_ns,
    )
    byte_ns = caches.copy_wait_ns / caches.copied_bytes + tls.byte_ns
    # Work of a poll was counted per batch, for which such a tool polls twice.
    polls = 2 if inputs.polls_to_send else 1
    polling_ns = speed.epoll_wait_ns * generator.poll_rounds * kernel
    event_ns = speed.epoll_event_ns * generator.poll_rounds * kernel / polls
    around_ns = user_ns(generator.batch_instructions) / 2
    around_ns += generator.batch_syscalls * speed.syscall_ns / 2
    around_ns += kernel * generator.epoll_changes * speed.epoll_ctl_ns / 2
    return {
        "generator_poll_ps": _ps((polling_ns + user_ns(generator.poll_instructions)) / polls),
        "generator_poll_event_ps": _ps(event_ns),
        "generator_recv_ps": _ps(kernel * recv_ns + tls.recv_ns + around_ns),
        "generator_reply_ps": _ps(user_ns(reply)),
        "generator_send_ps": _ps(kernel * send_ns + tls.send_ns + around_ns),
        "generator_request_ps": _ps(user_ns(request)),
        "generator_recv_ps_per_kib": _ps((recv_ns_per_byte + byte_ns) * 1024),
        "generator_send_ps_per_kib": _ps((send_ns_per_byte + byte_ns) * 1024),
    }


def _sending_ns(inputs: NodeInputs, send_ns: float) -> float:
    """A send without what interrupt cores do instead.

    Over loopback, where it is measured, a send contains what the receiver's interrupt takes. It
    stands for the interrupts that incoming packets cause on the server's cores.
    """
    if inputs.scenario.interrupt_cores == 0:
        return send_ns
    return max(TRANSMIT_SHARE * send_ns, send_ns - inputs.speed.softirq_ns)


def _after_send_ns(work: EngineWork, speed: HostSpeed) -> np.ndarray:
    """(256,) from the end of a send that wakes a sleeper until it runs, at each quantile.

    A host's wake latency counts from the start of that send until the sleeper's `epoll_wait` has
    returned; the send itself and the sleeper's way back are simulated.
    """
    simulated = work.kernel_scale * speed.tcp_send_ns + work.wake_scale * speed.wake_send_ns
    simulated += _unblocking_ns(work, speed)
    return np.asarray(np.maximum(speed.syscall_ns, wake_latencies_ns(speed) - simulated))


def _unblocking_ns(work: EngineWork, speed: HostSpeed) -> float:
    """CPU time of a thread that has slept long, until it is back from `epoll_wait`."""
    return work.wake_scale * speed.whole_block_ns - _dozing_ns(work, speed)


def _dozing_ns(work: EngineWork, speed: HostSpeed) -> float:
    """CPU time of a thread on its way to sleep: at most that of a sleep that ends at once."""
    least_ns = _short_sleep_scale(work, speed) * speed.block_ns
    return min(DOZE_SHARE * work.wake_scale * speed.whole_block_ns, MOST_DOZE_NS, least_ns)


def _short_sleep_scale(work: EngineWork, speed: HostSpeed) -> float:
    """What stands for `wake_scale` where a thread is woken as soon as it has fallen asleep."""
    return min(speed.short_sleep_share, work.wake_scale)


def _ps(time_ns: float) -> int:
    return round(time_ns * _PS_PER_NS)


def _table(times_ns: object) -> np.ndarray:
    return np.rint(np.asarray(times_ns, float) * _PS_PER_NS).astype(np.int64)


# --- two threads on one physical core: how much slower each of them runs --------------------------

# On a host with two threads a core a CPU of the operating system is half a core. Linux gives a
# thread a core of its own while there is one (`select_idle_core` in kernel/sched/fair.c), so that
# only more busy threads than cores share some.


def sibling_scale(cores: int, speed: float) -> np.ndarray:
    """How many times as long a step takes, in units of 1 / `JITTER_ONE`, by busy threads from 0 on.

    With b busy threads on c cores 2 (b - c) threads share one, each as often as any other: a
    thread's mean speed is that of those that share and of those that don't, by their numbers.

    Parameters
    ----------
    cores
        Physical ones; 0: no two threads share one, and the table is empty.
    speed
        Of each of two threads on one core, against that of a thread that has it alone.
    """
    if cores == 0:
        return np.zeros(0, np.int64)
    busy = np.arange(2 * cores + 1)
    sharing = 2 * np.maximum(0, busy - cores) / np.maximum(1, busy)
    return np.rint(JITTER_ONE / (1 - sharing * (1 - speed))).astype(np.int64)
