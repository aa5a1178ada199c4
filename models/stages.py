"""Work times speed: the durations of every step of a node, from an engine, a host and a workload.

time = instructions / (IPC * clock) + system calls * their cost + lines * their latency
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from forecache.hwprofiles.schema import HostSpeed

from .engine import EngineProfile, EngineWork
from .generator import GeneratorWork
from .layouts import structures
from .memory import LINE_BYTES, CacheTimes, MemoryTimes, Structure, cache_times, memory_times
from .node.setup import DRAWS, JITTER_ONE, QUANTILES, NodeTimes
from .scenario import Scenario

KERNEL_VARIATION = 0.12
"""Coefficient of variation of a system call's duration from run to run (assumed: repeated socket
calls on a quiet host vary by 0.05 to 0.2; log-normal)."""

CONNECTION_LINES = 48
"""Lines of kernel and engine state a connection owns: socket, receive queue, client (assumed; a
TCP socket alone has about 2 KiB)."""

RESIDENT_LINES = 6000
"""Lines of code, tables and buffers that every request uses (assumed: 375 KiB of kernel and engine
text and data)."""

DOZE_SHARE = 0.5
"""Part of the CPU time of blocking that is spent before the thread sleeps; the rest when it is
scheduled again (assumed: a context switch each way)."""

RESIDENT_TOUCHES = 900
"""Of which one request touches so many (assumed)."""

_PS_PER_NS = 1000

_SHORTEST_TURN_PS = 20_000
"""A turn of an event loop that finds nothing still reads the clock and looks at its lists."""


@dataclass(frozen=True)
class CommandKind:
    """One command code: what it is, how large its value, how often it comes."""

    command: str
    value_bytes: int
    share: float

    def request_bytes(self, key_bytes: int) -> int:
        """Bytes of the request as the protocol writes it (RESP arrays of bulk strings)."""
        key = _bulk_bytes(key_bytes)
        if self.command == "get":
            return len(b"*2\r\n$3\r\nGET\r\n") + key
        return len(b"*3\r\n$3\r\nSET\r\n") + key + _bulk_bytes(self.value_bytes)

    @property
    def reply_bytes(self) -> int:
        """Bytes of the reply."""
        return _bulk_bytes(self.value_bytes) if self.command == "get" else len(b"+OK\r\n")


def _bulk_bytes(length: int) -> int:
    return 1 + len(str(length)) + 2 + length + 2


def command_kinds(scenario: Scenario) -> list[CommandKind]:
    """The commands of a workload with their shares, which add up to one."""
    workload = scenario.workload
    kinds = []
    for command, share in (("get", workload.get_fraction), ("set", 1 - workload.get_fraction)):
        kinds += [CommandKind(command, size, share * w) for size, w in workload.sizes if share > 0]
    return kinds


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


def command_structures(
    kind: CommandKind, scenario: Scenario, engine: EngineProfile, work: EngineWork
) -> list[Structure]:
    """The lines a command touches, scaled by what was observed."""
    workload = scenario.workload
    lines = structures(
        engine.layout,
        keys=workload.keys,
        key_bytes=workload.key_bytes,
        value_bytes=kind.value_bytes,
    )
    # A lone main thread that looks a pipeline's keys up in groups walks to the entries only; the
    # batches that come back from I/O threads fetch the value as well.
    lone = scenario.io_threads == 1
    scaled = [
        Structure(
            s.name,
            s.lines_per_key,
            s.touches * work.touch_scale,
            # A SET releases the old value without reading it to its end.
            s.followers if kind.command == "get" else 0.0,
            s.prefetched and not (lone and s.name == "value"),
        )
        for s in lines
    ]
    if kind.command == "set" and lone and work.value_touches > 0:
        # A number of its own, which `touch_scale` leaves alone.
        scaled.append(Structure("old value", 0.0, work.value_touches))
    return scaled


def workload_caches(
    scenario: Scenario, engine: EngineProfile, work: EngineWork, speed: HostSpeed
) -> CacheTimes:
    """How long the host's caches hold a line while keys of all sizes compete for them."""
    workload = scenario.workload
    population = [
        (weight, command_structures(CommandKind("get", size, weight), scenario, engine, work))
        for size, weight in workload.sizes
    ]
    return cache_times(
        population,
        workload,
        replace(speed, l3_bytes=speed.l3_bytes * work.cache_share),
        other_lines=RESIDENT_LINES + workload.clients * CONNECTION_LINES,
        other_touches=RESIDENT_TOUCHES + CONNECTION_LINES / workload.pipeline,
    )


def command_memory(
    kind: CommandKind,
    scenario: Scenario,
    engine: EngineProfile,
    work: EngineWork,
    speed: HostSpeed,
    caches: CacheTimes | None = None,
) -> MemoryTimes:
    """What one kind of command waits for; see `memory`.

    Parameters
    ----------
    caches
        From `workload_caches`, where several kinds share them.
    """
    return memory_times(
        command_structures(kind, scenario, engine, work),
        scenario.workload,
        speed,
        caches or workload_caches(scenario, engine, work, speed),
        batch_limit=prefetch_batch(scenario, engine),
    )


def prefetch_batch(scenario: Scenario, engine: EngineProfile) -> int:
    """Keys of one batched look-up; one means none, as always where the engine has no such thing."""
    if engine.prefetch_batch == 0:
        return 1
    given = scenario.prefetch_batch
    return max(1, engine.prefetch_batch if given is None else given)


def node_times(
    scenario: Scenario,
    engine: EngineProfile,
    work: EngineWork,
    speed: HostSpeed,
    generator: GeneratorWork,
    generator_speed: HostSpeed,
) -> NodeTimes:
    """Durations of all steps, in whole picoseconds.

    Parameters
    ----------
    generator_speed
        The host the load generator runs on; the same as `speed` if they share one.
    """
    unix = scenario.transport == "unix_socket"
    kinds = command_kinds(scenario)
    rate = speed.user_ipc * speed.clock_ghz
    generator_rate = generator_speed.user_ipc * generator_speed.clock_ghz
    line_ns = speed.core_to_core_ns

    def user(instructions: float) -> float:
        return instructions / rate

    def generator_user(instructions: float) -> float:
        return instructions / generator_rate

    recv_ns = speed.unix_recv_ns if unix else speed.tcp_recv_ns
    send_ns = speed.unix_send_ns if unix else speed.tcp_send_ns
    far_recv_ns = generator_speed.unix_recv_ns if unix else generator_speed.tcp_recv_ns
    far_send_ns = generator_speed.unix_send_ns if unix else generator_speed.tcp_send_ns
    kernel = work.kernel_scale
    far_kernel = generator.kernel_scale
    polling_ns = generator_speed.epoll_wait_ns * generator.poll_rounds * far_kernel
    event_ns = generator_speed.epoll_event_ns * generator.poll_rounds * far_kernel
    around_ns = generator_user(generator.batch_instructions) / 2
    around_ns += generator.batch_syscalls * generator_speed.syscall_ns / 2

    caches = workload_caches(scenario, engine, work, speed)
    memory = [command_memory(kind, scenario, engine, work, speed, caches) for kind in kinds]
    shares = np.array([kind.share for kind in kinds])
    batch = prefetch_batch(scenario, engine)
    looked_up = np.sum([s * m.prefetch_ns for s, m in zip(shares, memory, strict=True)], axis=0)
    keys = np.arange(batch + 1)
    looked_up = looked_up + keys * user(work.prefetch_instructions_per_key)
    looked_up[:2] = 0.0

    lone = scenario.io_threads == 1
    shared_lines = work.shared_lines if scenario.io_threads > 2 else 0.0
    mean_reply = float(np.dot(shares, [kind.reply_bytes for kind in kinds]))
    reply_lines = mean_reply * scenario.workload.pipeline / LINE_BYTES * work.reply_lines_per_line

    def transfer_ns(kind: CommandKind) -> float:
        """Lines of the reply buffer and of a SET's value that come from an I/O thread's core."""
        if lone:
            return 0.0
        if kind.command == "set":
            return work.set_lines * line_ns
        return kind.reply_bytes / LINE_BYTES * work.reply_lines_per_line * line_ns

    def parse_ns(kind: CommandKind, waits: MemoryTimes) -> float:
        if kind.command == "get":
            return user(work.parse_instructions)
        copied = kind.value_bytes * work.parse_instructions_per_byte
        own = user(work.parse_instructions + copied)
        # The thread that reads a client allocates its values and releases what they replace.
        return own if lone else own + value_ns(waits)

    def value_ns(waits: MemoryTimes) -> float:
        waiting = work.value_touches * waits.last_touch_ns + shared_lines / 2 * line_ns
        return user(work.value_instructions) + waiting

    def execute_ns(kind: CommandKind) -> float:
        if kind.command == "get":
            base, per_byte = work.get_instructions, work.get_instructions_per_byte
        else:
            base, per_byte = work.set_instructions, work.set_instructions_per_byte
            base += work.value_instructions if lone else 0.0
        return user(base + kind.value_bytes * per_byte) + transfer_ns(kind)

    # Only a thread that looks keys up itself pushes its own lines out.
    displaced = work.displaced_lines if scenario.io_threads == 1 else 0.0
    miss_share = float(np.dot(shares, [m.miss_share for m in memory]))
    displaced_ns = displaced * miss_share * speed.dram_ns

    key_bytes = scenario.workload.key_bytes
    nic_ns_per_kib = 1024 * 8 / speed.network_gbit_per_s
    return NodeTimes(
        # A turn takes some time whatever it finds, or time would stand still while it spins.
        loop_ps=max(_SHORTEST_TURN_PS, _ps(user(work.loop_instructions))),
        poll_ps=_ps(kernel * speed.epoll_wait_ns),
        poll_event_ps=_ps(kernel * speed.epoll_event_ns),
        doze_ps=_ps(work.wake_scale * speed.block_ns * DOZE_SHARE),
        block_ps=_ps(work.wake_scale * speed.block_ns * (1.0 - DOZE_SHARE)),
        wake_latency_ps=_ps(_after_send_ns(speed)),
        wake_send_ps=_ps(work.wake_scale * speed.wake_send_ns),
        read_event_ps=_ps(user(work.read_instructions) + displaced_ns),
        recv_ps=_ps(kernel * recv_ns),
        send_ps=_ps(kernel * send_ns),
        write_event_ps=_ps(user(work.write_instructions)),
        copy_ps_per_kib=_ps(kernel * speed.copy_ns_per_byte * 1024),
        # A request has two jobs, a read and a write: each is charged half of the lines fetched.
        push_ps=_ps(user(work.push_instructions) + work.execute_lines * line_ns / 2),
        pop_ps=_ps(
            user(work.pop_instructions)
            + (work.read_lines + work.write_lines + shared_lines + reply_lines) * line_ns / 2
        ),
        scan_ps=_ps(user(work.scan_instructions)),
        done_ps=_ps(user(work.done_instructions) + work.done_lines * line_ns),
        collect_ps=_ps(user(work.collect_instructions)),
        handover_ps=_ps(line_ns),
        activate_ps=_ps(speed.syscall_ns),
        thread_wake_ps=_ps(speed.wake_latency_ns),
        generator_poll_ps=_ps(polling_ns + generator_user(generator.poll_instructions)),
        generator_poll_event_ps=_ps(event_ns),
        generator_recv_ps=_ps(far_kernel * far_recv_ns + around_ns),
        generator_reply_ps=_ps(generator_user(generator.reply_instructions)),
        generator_send_ps=_ps(far_kernel * far_send_ns + around_ns),
        generator_request_ps=_ps(generator_user(generator.request_instructions)),
        one_way_ps=_ps(speed.network_one_way_us * 1000),
        wire_ps_per_kib=_ps(nic_ns_per_kib),
        parse_by_code_ps=_table([parse_ns(k, m) for k, m in zip(kinds, memory, strict=True)]),
        execute_by_code_ps=_table([execute_ns(kind) for kind in kinds]),
        stall_ps=_table([m.stall_ns for m in memory]),
        prefetched_stall_by_code_ps=_table([m.prefetched_stall_ns for m in memory]),
        prefetch_by_keys_ps=_table(looked_up),
        request_bytes_by_code=np.array([kind.request_bytes(key_bytes) for kind in kinds], np.int64),
        reply_bytes_by_code=np.array([kind.reply_bytes for kind in kinds], np.int64),
        code_by_draw=code_table(kinds),
        jitter=jitter_table(),
    )


def _after_send_ns(speed: HostSpeed) -> float:
    """From the end of a send that wakes a sleeper until it runs.

    A host's wake latency counts from the start of that send, and the send itself is simulated.
    """
    return max(speed.syscall_ns, speed.wake_latency_ns - speed.tcp_send_ns - speed.wake_send_ns)


def _ps(time_ns: float) -> int:
    return round(time_ns * _PS_PER_NS)


def _table(times_ns: object) -> np.ndarray:
    return np.rint(np.asarray(times_ns, float) * _PS_PER_NS).astype(np.int64)
