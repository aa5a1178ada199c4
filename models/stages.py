"""Work times speed: the durations of every step of a node, from an engine, a host and a workload.

time = instructions / (IPC * clock) + system calls * their cost + lines * their latency
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from forecache.hwprofiles.schema import HostSpeed

from .arrivals import Arrivals
from .bandwidth import MemoryLoad, loaded_curve, memory_load
from .collections_layout import collection_structures
from .commands import (
    ARGUMENT,
    ARGUMENTS_PARSED,
    DATA_TYPES,
    WRITES,
    CommandKind,
    command_kinds,
    execute_instructions,
    keys_of_type,
)
from .contention import written_in_turn_ns
from .engine import EngineProfile, EngineWork
from .forking import forked_times
from .generator import GeneratorWork
from .interruptions import interruption_table_ps
from .layouts import structures
from .locks import item_locks, lock_table
from .memory import (
    LINE_BYTES,
    CacheTimes,
    Population,
    Structure,
    Waits,
    buffer_dram_lines,
    buffer_wait_ns,
    cache_times,
    memory_times,
    waits_of,
)
from .node.setup import DRAWS, JITTER_ONE, QUANTILES, NodeTimes
from .scenario import Scenario
from .tls import RECORD_BYTES, tls_times
from .values import (
    ARGUMENTS_SHARE,
    REPLY_INSTRUCTIONS,
    ValuePath,
    ValueTimes,
    freeing_arguments_ns,
    value_path,
)
from .workload import Workload

KERNEL_VARIATION = 0.12
"""Coefficient of variation of a system call's duration from run to run (assumed: repeated socket
calls on a quiet host vary by 0.05 to 0.2; log-normal)."""

CONNECTION_LINES = 48
"""Lines of kernel and engine state a connection owns: socket, receive queue, client (assumed; a
TCP socket alone has about 2 KiB)."""

RESIDENT_LINES = 6000
"""Lines of code, tables and buffers that every request uses (assumed: 375 KiB of kernel and engine
text and data)."""

TCP_SEGMENT_BYTES = 65_483
"""What one segment carries over loopback (its MTU of 65,536 less headers); with segmentation
offload about as much on a network. A larger send goes through the stack once per segment."""

LARGE_REQUEST_BYTES = 6_000
"""From here on the rest of a request doubles its client's buffer (INFO counts reads of 40 KB with
values of 6.6 KB, and of 16 to 20 KB with values of 4 KB)."""

DOZE_SHARE = 0.5
"""Part of the CPU time of blocking that is spent before the thread sleeps; the rest when it is
scheduled again (assumed: a context switch each way)."""

RESIDENT_TOUCHES = 900
"""Of which one request touches so many (assumed)."""

OWN_TURN_SHARE = 0.25
"""What a turn of an I/O thread's own event loop takes of the main thread's, which has a dozen more
duties before it sleeps (assumed; 0.1 to 0.5)."""

IP_TCP_HEADER_BYTES = 52
"""IPv4, TCP and its time stamps: part of the MTU."""

ETHERNET_HEADER_BYTES = 14
"""Taken to count against a bandwidth as well (assumed)."""

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


def command_structures(
    kind: CommandKind, scenario: Scenario, engine: EngineProfile, work: EngineWork
) -> list[Structure]:
    """The lines a command touches, scaled by what was observed."""
    workload = scenario.workload
    all_keys = sum(keys_of_type(workload, held) for held in DATA_TYPES)
    if kind.data_type == "string":
        lines = structures(
            engine.layout,
            keys=all_keys,
            key_bytes=workload.key_bytes,
            value_bytes=kind.value_bytes,
        )
    else:
        lines = collection_structures(
            kind, engine.layout, all_keys=all_keys, key_bytes=workload.key_bytes
        )
    # A lone main thread that looks a pipeline's keys up in groups walks to the entries only; the
    # batches that come back from I/O threads fetch the value as well. A SET writes its value where
    # the one before it was released, so it touches as many lines as a GET reads.
    lone = scenario.io_threads == 1
    scaled = [
        replace(
            s,
            touches=s.touches * work.touch_scale,
            prefetched=s.prefetched and not (lone and s.name == "value"),
            written=s.written or kind.stored_values > 0,
        )
        for s in lines
    ]
    if kind.stored_values and lone and work.value_touches > 0:
        # A number of its own, which `touch_scale` leaves alone.
        scaled.append(Structure("old value", 0.0, work.value_touches))
    return scaled


def keyspace(kind: CommandKind, scenario: Scenario) -> Workload:
    """The workload as the keys of a command's type see it: so many of them, alike popular."""
    workload = scenario.workload
    if kind.data_type == "string":
        return workload
    return workload.model_copy(update={"keys": keys_of_type(workload, kind.data_type)})


def populations(
    kinds: Sequence[CommandKind], scenario: Scenario, engine: EngineProfile, work: EngineWork
) -> list[Population]:
    """What lies in memory, and how often a request touches it: strings of all sizes, collections.

    A SET touches as many lines as a GET.
    """
    workload = scenario.workload
    asked = sum(kind.share * kind.keys for kind in kinds if kind.data_type == "string")
    # Nothing but GET and SET: each request asks for one key, whatever the shares add up to.
    asked = 1.0 if workload.only_get_and_set else asked
    found = [
        Population(
            workload,
            command_structures(CommandKind("get", size, weight), scenario, engine, work),
            weight,
            asked,
        )
        for size, weight in workload.sizes
    ]
    for kind in kinds:
        if kind.data_type != "string":
            lines = command_structures(kind, scenario, engine, work)
            # Commands of a type share its lines, which are counted once.
            of_type = sum(k.share for k in kinds if k.data_type == kind.data_type)
            found.append(Population(keyspace(kind, scenario), lines, kind.share / of_type, of_type))
    return found


def data_bytes(scenario: Scenario, engine: EngineProfile, work: EngineWork) -> float:
    """What all keys take in memory, as far as commands walk through it."""
    found = populations(command_kinds(scenario), scenario, engine, work)
    lines = (
        population.share * population.workload.keys * structure.lines_per_key
        for population in found
        for structure in population.structures
    )
    return LINE_BYTES * sum(lines)


@dataclass(frozen=True)
class WorkloadCaches:
    """How long the caches hold a line, and what that makes of copies.

    Attributes
    ----------
    times
        Of any line.
    copy_wait_ns
        Wait per request for lines of requests and replies that are no longer near.
    copied_bytes
        Of requests and replies, per request.
    copied_dram_lines
        Lines of them that come from DRAM and go back there, per request.
    """

    times: CacheTimes
    copy_wait_ns: float
    copied_bytes: float
    copied_dram_lines: float = 0.0


def workload_caches(
    scenario: Scenario, engine: EngineProfile, work: EngineWork, speed: HostSpeed
) -> WorkloadCaches:
    """How long the host's caches hold a line while everything competes for them.

    Keys of all sizes, code and connections do, requests that wait in the buffers of all
    connections, and the replies of one pipeline, which are put together in the same memory again
    and again.
    """
    workload = scenario.workload
    kinds = command_kinds(scenario)
    population = populations(kinds, scenario, engine, work)
    request = sum(k.share * k.request_bytes(workload.key_bytes) for k in kinds) / LINE_BYTES
    reply = sum(k.share * k.reply_bytes for k in kinds) / LINE_BYTES
    waiting = request * workload.pipeline * workload.clients, request
    answered = reply * workload.pipeline, reply
    resident = (
        RESIDENT_LINES + workload.clients * CONNECTION_LINES,
        RESIDENT_TOUCHES + CONNECTION_LINES / workload.pipeline,
    )
    copied = LINE_BYTES * (request + reply)
    helped = engine.policy != "fork_join"
    pace_ns = own_ns = _pace_ns(scenario, work, speed, copied, helped=helped)
    # What others bring in meanwhile depends on how long a request takes, which depends on that.
    for _ in range(3):
        times = cache_times(
            population,
            speed,
            others=(resident, waiting, answered),
            fills_per_request=speed.l3_fills_per_us * pace_ns / 1000.0,
        )
        caches = WorkloadCaches(
            times,
            # Requests come from another core: what is near is what the last level holds.
            request * buffer_wait_ns(*waiting, replace(speed, l2_ns=speed.l3_ns), times)
            + reply * buffer_wait_ns(*answered, speed, times),
            copied,
            buffer_dram_lines(*waiting, times) + buffer_dram_lines(*answered, times),
        )
        if speed.l3_fills_per_us == 0.0:
            break
        waits_ns = 0.0
        for kind in kinds:
            waits = command_waits(kind, scenario, engine, work, speed, caches)
            later_ns = work.stream_scale * waits.head_ns() + waits.tail_ns()
            waits_ns += kind.share * kind.keys * (waits.touching_ns() + later_ns)
        pace_ns = own_ns + waits_ns + caches.copy_wait_ns
        if (rate_rps := workload.mean_rate_rps) is not None:
            pace_ns = max(pace_ns, 1e9 / rate_rps)
    return caches


def _pace_ns(
    scenario: Scenario,
    work: EngineWork,
    speed: HostSpeed,
    copied_bytes: float,
    *,
    helped: bool = True,
) -> float:
    """About the time between two requests of a busy main thread, before it waits for memory.

    `helped`: I/O threads, if there are any, both read and write for it.
    """
    workload = scenario.workload
    instructions = work.parse_instructions + work.get_instructions
    instructions += sum(
        kind.share * (execute_instructions(kind, work.commands) - work.get_instructions)
        for kind in command_kinds(scenario)
        if kind.command not in ("get", "set")
    )
    if scenario.io_threads > 1 and helped:
        return instructions / user_rate(speed) + work.execute_lines * speed.core_to_core_ns
    instructions += (work.read_instructions + work.write_instructions) / workload.pipeline
    unix = scenario.transport == "unix_socket"
    calls = (
        speed.unix_recv_ns + speed.unix_send_ns if unix else speed.tcp_recv_ns + speed.tcp_send_ns
    )
    kernel = work.kernel_scale * calls / workload.pipeline + speed.copy_ns_per_byte * copied_bytes
    return instructions / user_rate(speed) + kernel


def shared_line_ns(scenario: Scenario, work: EngineWork, speed: HostSpeed) -> float:
    """Mean wait of an I/O thread per access to the line that all of them write in turn.

    A thread comes back to it `shared_lines` times while it reads and writes for one client (half as
    often again per SET). That takes at least its own work, and all of them together no less than
    the main thread takes for those requests, or the clients to send them. Stopped threads count as
    writers: fewer of them would come back so much sooner.
    """
    workload = scenario.workload
    writers = scenario.io_threads - 1
    kinds = command_kinds(scenario)
    sets = workload.pipeline * sum(kind.share * kind.stored_values for kind in kinds)
    accesses = work.shared_lines * (1.0 + sets / 2)
    if writers < 2 or accesses == 0.0:
        return 0.0
    unix = scenario.transport == "unix_socket"
    calls_ns = (
        speed.unix_recv_ns + speed.unix_send_ns if unix else speed.tcp_recv_ns + speed.tcp_send_ns
    )
    copied = sum(k.share * (k.request_bytes(workload.key_bytes) + k.reply_bytes) for k in kinds)
    instructions = work.read_instructions + work.write_instructions + 2 * work.pop_instructions
    instructions += workload.pipeline * work.parse_instructions + sets * work.value_instructions
    own_ns = instructions / user_rate(speed) + work.kernel_scale * calls_ns
    own_ns += speed.copy_ns_per_byte * copied * workload.pipeline
    own_ns += (work.read_lines + work.write_lines) / 2 * speed.core_to_core_ns
    request_ns = _pace_ns(scenario, work, speed, copied)
    if (rate_rps := workload.mean_rate_rps) is not None:
        request_ns = max(request_ns, 1e9 / rate_rps)
    between_ns = max(own_ns, writers * workload.pipeline * request_ns) / accesses
    return written_in_turn_ns(writers, speed.core_to_core_ns, between_ns)


def user_rate(speed: HostSpeed) -> float:
    """Instructions of the engine's user code per ns, its data in the first two cache levels."""
    return speed.user_ipc * speed.clock_ghz


def command_waits(
    kind: CommandKind,
    scenario: Scenario,
    engine: EngineProfile,
    work: EngineWork,
    speed: HostSpeed,
    caches: WorkloadCaches,
) -> Waits:
    """Where the lines are that one kind of command touches for each of its keys; see `memory`."""
    lines = command_structures(kind, scenario, engine, work)
    return waits_of(lines, keyspace(kind, scenario), speed, caches.times)


def scenario_memory_load(
    scenario: Scenario, engine: EngineProfile, work: EngineWork, speed: HostSpeed
) -> MemoryLoad:
    """What a scenario's requests take from memory, and how much slower it is therefore."""
    caches = workload_caches(scenario, engine, work, speed)
    kinds = command_kinds(scenario)
    found = [command_waits(kind, scenario, engine, work, speed, caches) for kind in kinds]
    return _load(scenario, engine, work, speed, caches=caches, found=found)


def _load(
    scenario: Scenario,
    engine: EngineProfile,
    work: EngineWork,
    speed: HostSpeed,
    *,
    caches: WorkloadCaches,
    found: Sequence[Waits],
) -> MemoryLoad:
    """The same from where lines are, at the pace of a main thread that waits for nothing else.

    That is the fastest: where something else limits, memory is faster than this says.

    Parameters
    ----------
    found
        Waits for each kind of command while memory is idle.
    """
    workload, kinds = scenario.workload, command_kinds(scenario)
    batch = prefetch_batch(scenario, engine)

    def waits_ns(longer_ns: float) -> float:
        total = 0.0
        for kind, idle in zip(kinds, found, strict=True):
            waits = idle.with_slower_dram(longer_ns)
            wait_ns = work.stream_scale * waits.head_ns() + waits.tail_ns()
            if scenario.io_threads > 1 and batch > 1:
                wait_ns += waits.together_ns(batch, speed.parallel_misses) / batch
                wait_ns += waits.alone_ns()
            else:
                wait_ns += waits.touching_ns()
            total += kind.share * kind.keys * wait_ns
        return total

    lines = sum(k.share * k.keys * waits.dram_lines for k, waits in zip(kinds, found, strict=True))
    idle_ns = waits_ns(0.0)
    request_ns = _pace_ns(scenario, work, speed, caches.copied_bytes) + idle_ns
    rate_rps = workload.mean_rate_rps
    least_ns = 0.0 if rate_rps is None else 1e9 / rate_rps
    if not scenario.same_host:
        # Clients that wait for the network don't ask meanwhile.
        round_trip_ns = 2000.0 * speed.network_one_way_us
        least_ns = max(least_ns, round_trip_ns / (workload.clients * workload.pipeline))
    return memory_load(
        loaded_curve(speed),
        peak_gb_per_s=speed.dram_bandwidth_gb_per_s,
        bytes_per_request=LINE_BYTES * (lines + caches.copied_dram_lines),
        request_ns=request_ns + caches.copy_wait_ns,
        waiting_ns=waits_ns(speed.dram_ns) - idle_ns,
        least_ns=least_ns,
    )


def copied_value_bytes(kind: CommandKind, scenario: Scenario, engine: EngineProfile) -> int:
    """Bytes of values, members and fields that a command copies into a reply buffer."""
    path = value_path(kind.on_values, kind.value_bytes, scenario, engine)
    return 0 if path.referenced else kind.returned_bytes


def segment_bytes(scenario: Scenario, engine: EngineProfile) -> int:
    """What one pass through the network stack carries of a reply."""
    if scenario.tls is not None:
        return RECORD_BYTES
    return engine.write_limit_bytes if scenario.transport == "unix_socket" else TCP_SEGMENT_BYTES


def read_limit_bytes(scenario: Scenario, engine: EngineProfile) -> int:
    """Mean bytes of the reads that a pipeline's requests take.

    The first one is limited by the buffer all clients share. What is left of a request then lies in
    a buffer of the client's own, which is made twice as large where requests are large.
    """
    workload = scenario.workload
    sizes = [(k.request_bytes(workload.key_bytes), k.share) for k in command_kinds(scenario)]
    first = engine.read_limit_bytes
    grown = engine.large_read_limit_bytes if max(sizes)[0] > LARGE_REQUEST_BYTES else first
    total = workload.pipeline * sum(size * share for size, share in sizes)
    reads = 1 + max(0, math.ceil((total - first) / grown))
    return max(first, math.ceil(total / reads)) if reads > 1 else first


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
    rate = user_rate(speed)
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

    tls = tls_times(scenario, engine, speed, kernel_scale=kernel)
    far_tls = tls_times(scenario, engine, generator_speed, kernel_scale=far_kernel)

    caches = workload_caches(scenario, engine, work, speed)
    batch = prefetch_batch(scenario, engine)
    # Threads that own their clients look up to twice as many keys up together (`take_batch`).
    owning = engine.policy == "owning_threads" and scenario.io_threads > 1
    most_keys = 2 * batch if owning and batch > 1 else batch
    lone = scenario.io_threads == 1
    forked = engine.policy == "fork_join" and not lone
    paths = [value_path(k.on_values, k.value_bytes, scenario, engine) for k in kinds]
    found = [command_waits(kind, scenario, engine, work, speed, caches) for kind in kinds]
    load = _load(scenario, engine, work, speed, caches=caches, found=found)
    slower_ns = (load.latency_factor - 1.0) * speed.dram_ns
    found = [waits.with_slower_dram(slower_ns) for waits in found]
    memory = [
        memory_times(
            path.main_waits(waits),
            parallel_misses=speed.parallel_misses,
            batch_limit=most_keys,
            stream_scale=work.stream_scale,
        ).of_keys(kind.keys)
        for kind, waits, path in zip(kinds, found, paths, strict=True)
    ]
    shares = np.array([kind.share for kind in kinds])
    asked = np.array([kind.share * kind.keys for kind in kinds])
    asked /= asked.sum() / shares.sum()
    looked_up = np.sum([s * m.prefetch_ns for s, m in zip(asked, memory, strict=True)], axis=0)
    keys = np.arange(most_keys + 1)
    looked_up = looked_up + keys * user(work.prefetch_instructions_per_key)
    looked_up[:2] = 0.0

    handings = 1 if owning else 2
    shared_ns = work.shared_lines * shared_line_ns(scenario, work, speed)
    buffered = [
        path.buffered_bytes(k.reply_bytes) * (k.keys if path.referenced else 1)
        for k, path in zip(kinds, paths, strict=True)
    ]
    mean_reply = float(np.dot(shares, buffered))
    reply_lines = mean_reply * scenario.workload.pipeline / LINE_BYTES * work.reply_lines_per_line

    def transfer_ns(kind: CommandKind, buffered_bytes: int) -> float:
        """Lines of the reply buffer and of values that come from an I/O thread's core."""
        if lone or forked:
            return 0.0
        if kind.command in WRITES:
            return kind.items * work.set_lines * line_ns
        return buffered_bytes / LINE_BYTES * work.reply_lines_per_line * line_ns

    values = [
        path.times(
            engine, work, speed, last_touch_ns=m.last_touch_ns, shared_ns=shared_ns / 2
        ).of_values(kind.stored_values)
        for kind, path, m in zip(kinds, paths, memory, strict=True)
    ]

    arguments_ns = freeing_arguments_ns(scenario, engine, work, speed)
    parsed = work.parse_instructions * (1.0 - (ARGUMENTS_SHARE if arguments_ns else 0.0))

    def parse_ns(kind: CommandKind, value: ValueTimes) -> float:
        # An I/O thread that parses a command also finds it in the command table.
        parsing = parsed + (0.0 if lone else work.command_lookup_instructions)
        parsing += kind.sent_value_bytes * work.parse_instructions_per_byte
        if kind.command not in ("get", "set"):
            parsing += (kind.arguments - ARGUMENTS_PARSED) * work.commands[ARGUMENT]
        return user(parsing) + value.reader_ns

    def formatting_ns(kind: CommandKind, path: ValuePath) -> float:
        """What the I/O thread that sends a reply does where it formats it."""
        if lone or not engine.presentation_offload:
            return 0.0
        copied = kind.returned_bytes * work.get_instructions_per_byte if path.referenced else 0.0
        return user(reply_instructions(kind) + copied)

    def reply_instructions(kind: CommandKind) -> float:
        return REPLY_INSTRUCTIONS["set" if kind.command in WRITES else "get"] * kind.reply_values

    def execute_ns(kind: CommandKind, buffered_bytes: int, value: ValueTimes) -> float:
        copied = copied_value_bytes(kind, scenario, engine) * work.get_instructions_per_byte
        copied += kind.stored_values * kind.value_bytes * work.set_instructions_per_byte
        if kind.command == "get":
            base = work.get_instructions
        elif kind.command == "set":
            base = work.set_instructions
        else:
            # Counted with one thread, which makes and releases the values as well.
            values = kind.stored_values * work.value_instructions
            counted = execute_instructions(kind, work.commands)
            base = max(work.get_instructions, counted - values)
        if engine.presentation_offload and not lone:
            base -= reply_instructions(kind)
        base += copied
        if not lone:
            base = max(0.0, base - work.command_lookup_instructions)
        return user(base) + value.main_ns + transfer_ns(kind, buffered_bytes)

    copy_ns_per_byte = speed.copy_ns_per_byte + caches.copy_wait_ns / caches.copied_bytes
    copy_ns_per_byte += tls.byte_ns

    key_bytes = scenario.workload.key_bytes
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
        send_ps=_ps(_sending_ns(scenario, kernel * send_ns, speed) + tls.send_ns),
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
        generator_poll_ps=_ps(polling_ns + generator_user(generator.poll_instructions)),
        generator_poll_event_ps=_ps(event_ns),
        generator_recv_ps=_ps(far_kernel * far_recv_ns + far_tls.recv_ns + around_ns),
        generator_reply_ps=_ps(generator_user(generator.reply_instructions)),
        generator_send_ps=_ps(far_kernel * far_send_ns + far_tls.send_ns + around_ns),
        generator_request_ps=_ps(generator_user(generator.request_instructions)),
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
        free_arguments_ps=_ps(arguments_ns),
        softirq_ps=_ps(speed.softirq_ns),
        switch_ps=_ps(speed.context_switch_ns),
        flush_ps=0,
        parse_by_code_ps=_table([parse_ns(k, v) for k, v in zip(kinds, values, strict=True)]),
        execute_by_code_ps=_table(
            [execute_ns(k, b, v) for k, b, v in zip(kinds, buffered, values, strict=True)]
        ),
        stall_ps=_table([m.stall_ns for m in memory]),
        prefetched_stall_by_code_ps=_table([m.prefetched_stall_ns for m in memory]),
        prefetch_by_keys_ps=_table(looked_up),
        request_bytes_by_code=np.array([kind.request_bytes(key_bytes) for kind in kinds], np.int64),
        reply_bytes_by_code=np.array([kind.reply_bytes for kind in kinds], np.int64),
        write_by_code_ps=_table(
            [
                p.writer_ns(w, work.stream_scale) + formatting_ns(k, p)
                for k, p, w in zip(kinds, paths, found, strict=True)
            ]
        ),
        free_by_code_ps=_table([value.freeing_ns for value in values]),
        keys_by_code=np.array([kind.keys for kind in kinds], np.int64),
        logged_bytes_by_code=np.zeros(len(kinds), np.int64),
        rare_below_by_code=np.zeros(len(kinds), np.int64),
        code_by_draw=code_table(kinds),
        lock_by_draw=lock_table(scenario.workload, item_locks(scenario.io_threads)),
        jitter=jitter_table(),
        interruption_ps=interruption_table_ps(speed),
        **Arrivals().tables(1, {}),
    )
    if not forked:
        return times
    written = mean_reply * scenario.workload.pipeline
    return forked_times(times, scenario, engine, work, speed, reply_bytes=written)


def _sending_ns(scenario: Scenario, send_ns: float, speed: HostSpeed) -> float:
    """A send without what interrupt cores do instead.

    Over loopback, where it is measured, a send contains what the receiver's interrupt takes. It
    stands for the interrupts that incoming packets cause on the server's cores.
    """
    if scenario.interrupt_cores == 0:
        return send_ns
    return max(TRANSMIT_SHARE * send_ns, send_ns - speed.softirq_ns)


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
