"""How long caches hold a line and how loaded memory is while everything of a workload competes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..engines.commands import CommandKind, instructions_per_item
from ..memory.caches import (
    CacheTimes,
    buffer_dram_lines,
    buffer_wait_ns,
    cache_times,
    line_wait_ns,
)
from ..memory.contention import MemoryLoad, loaded_curve, memory_load, written_in_turn_ns
from ..memory.contents import command_structures, keys_asked, keyspace, populations
from ..memory.lines import LINE_BYTES
from ..memory.waits import Waits, items_in_flight, waits_of
from .inputs import NodeInputs, kept
from .wire import SESSION_LINES

CONNECTION_LINES = 48
"""Lines of kernel and engine state a connection owns: socket, receive queue, client (assumed; a
TCP socket alone has about 2 KiB)."""

RESIDENT_LINES = 6000
"""Lines of code, tables and buffers that every request uses (assumed: 375 KiB of kernel and engine
text and data)."""

RESIDENT_TOUCHES = 900
"""How many of them one request touches (assumed)."""


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
    connection_line_ns
        Wait for one line of what a connection owns.
    copied_dram_lines
        Lines of them that come from DRAM and go back there, per request.
    """

    times: CacheTimes
    copy_wait_ns: float
    copied_bytes: float
    connection_line_ns: float
    copied_dram_lines: float = 0.0


@kept
def workload_caches(inputs: NodeInputs) -> WorkloadCaches:
    """How long the host's caches hold a line while everything competes for them.

    Keys of all sizes, code and connections do, requests that wait in the buffers of all
    connections, and the replies of one pipeline, which are put together in the same memory again
    and again.
    """
    scenario, engine, work, speed = inputs.scenario, inputs.engine, inputs.work, inputs.speed
    workload, kinds = scenario.workload, inputs.kinds
    population = populations(inputs.executed, scenario, engine, work)
    request = sum(k.share * k.request_bytes(workload.key_bytes) for k in kinds) / LINE_BYTES
    reply = sum(k.share * k.reply_bytes for k in kinds) / LINE_BYTES
    waiting = request * workload.pipeline * workload.clients, request
    answered = reply * workload.pipeline, reply
    each = CONNECTION_LINES + (0 if scenario.tls is None else SESSION_LINES)
    connections = workload.clients * each, each / workload.pipeline
    resident = RESIDENT_LINES + connections[0], RESIDENT_TOUCHES + connections[1]
    copied = LINE_BYTES * (request + reply)
    helped = engine.threading.hand_over != "turns"
    interval_ns = own_ns = main_request_interval_ns(inputs, helped=helped)
    # What others bring in meanwhile depends on how long a request takes, which depends on that.
    for _ in range(3):
        times = cache_times(
            population,
            speed,
            others=(resident, waiting, answered),
            fills_per_request=speed.l3_fills_per_us * interval_ns / 1000.0,
        )
        caches = WorkloadCaches(
            times,
            # Requests come from another core: what is near is what the last level holds.
            request * buffer_wait_ns(*waiting, replace(speed, l2_ns=speed.l3_ns), times)
            + reply * buffer_wait_ns(*answered, speed, times),
            copied,
            line_wait_ns(*connections, speed, times),
            buffer_dram_lines(*waiting, times) + buffer_dram_lines(*answered, times),
        )
        if speed.l3_fills_per_us == 0.0:
            break
        waits_ns = 0.0
        for kind in inputs.executed:
            waits = command_waits(kind, inputs, caches)
            later_ns = work.stream_scale * waits.head_ns() + waits.tail_ns()
            waits_ns += kind.share * kind.keys * (waits.touching_ns() + later_ns)
        interval_ns = own_ns + waits_ns + caches.copy_wait_ns
        if (rate_rps := inputs.rate_rps) is not None:
            interval_ns = max(interval_ns, 1e9 / rate_rps)
    return caches


def command_waits(kind: CommandKind, inputs: NodeInputs, caches: WorkloadCaches) -> Waits:
    """Where the lines are that one kind of command touches for each of its keys; see `memory`."""
    lines = command_structures(kind, inputs.scenario, inputs.engine, inputs.work)
    return waits_of(
        lines,
        keyspace(kind, inputs.scenario),
        inputs.speed,
        caches.times,
        per_request=keys_asked(kind.data_type, inputs.executed, inputs.scenario.workload),
        in_flight=items_in_flight(inputs.speed, instructions_per_item(kind, inputs.work.commands)),
    )


@kept
def idle_waits(inputs: NodeInputs) -> list[Waits]:
    """Where the lines are that each executed kind of command touches, while memory is idle."""
    caches = workload_caches(inputs)
    return [command_waits(kind, inputs, caches) for kind in inputs.executed]


@kept
def scenario_memory_load(inputs: NodeInputs) -> MemoryLoad:
    """What a scenario's requests take from memory, and how much slower it is therefore.

    It is that of a main thread that waits for nothing else, which is the fastest: where something
    else limits, memory is faster than this says.
    """
    caches, found = workload_caches(inputs), idle_waits(inputs)
    scenario, work, speed, kinds = inputs.scenario, inputs.work, inputs.speed, inputs.executed
    workload, batch = scenario.workload, inputs.prefetch_batch

    def waits_ns(longer_ns: float) -> float:
        total = 0.0
        for kind, idle in zip(kinds, found, strict=True):
            waits = idle.with_slower_dram(longer_ns)
            wait_ns = work.stream_scale * waits.head_ns() + waits.tail_ns()
            if not inputs.lone and batch > 1:
                wait_ns += waits.together_ns(batch, speed.parallel_misses) / batch
                wait_ns += waits.alone_ns()
            else:
                wait_ns += waits.touching_ns()
            total += kind.share * kind.keys * wait_ns
        return total

    lines = sum(k.share * k.keys * waits.dram_lines for k, waits in zip(kinds, found, strict=True))
    idle_ns = waits_ns(0.0)
    request_ns = main_request_interval_ns(inputs) + idle_ns
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


# --- how soon a main thread takes the next request, and I/O threads a line they all write ---------

# Estimates before anything is simulated: caches and memory are loaded by how often requests come,
# which depends on how long they take.


def main_request_interval_ns(inputs: NodeInputs, *, helped: bool = True) -> float:
    """About the time between two requests of a busy main thread, before it waits for memory.

    `helped`: I/O threads, if there are any, both read and write for it.
    """
    workload, work, speed = inputs.scenario.workload, inputs.work, inputs.speed
    instructions = work.parse_instructions + work.get_instructions
    instructions += sum(
        kind.share * (inputs.execute_instructions(kind) - work.get_instructions)
        for kind in inputs.executed
        if kind.row.work
    )
    given_ns = sum(
        1e3 * kind.share * kind.other.execution_us
        for kind in inputs.kinds
        if kind.other is not None and kind.other.execution_us is not None
    )
    for caller in (kind for kind in inputs.kinds if kind.calls):
        further = sum(times for _, times in caller.times) - 1.0
        calling = inputs.execute_instructions(caller)
        instructions += caller.share * (calling + further * work.get_instructions)
    if helped and not inputs.lone:
        return given_ns + inputs.user_ns(instructions) + work.execute_lines * speed.core_to_core_ns
    instructions += (work.read_instructions + work.write_instructions) / workload.pipeline
    calls_ns = sum(inputs.socket_ns(speed))
    kernel_ns = work.kernel_scale * calls_ns / workload.pipeline
    return given_ns + inputs.user_ns(instructions) + kernel_ns + inputs.copying_ns()


def shared_line_ns(inputs: NodeInputs) -> float:
    """Mean wait of an I/O thread per access to the line that all of them write in turn.

    A thread comes back to it `shared_lines` times while it reads and writes for one client (half as
    often again per SET). That takes at least its own work, and all of them together no less than
    the main thread takes for those requests, or the clients to send them. Stopped threads count as
    writers: fewer of them would come back so much sooner.
    """
    scenario, work, speed, kinds = inputs.scenario, inputs.work, inputs.speed, inputs.executed
    workload = scenario.workload
    writers = scenario.io_threads - 1
    sets = workload.pipeline * sum(kind.share * kind.stored_values for kind in kinds)
    accesses = work.shared_lines * (1.0 + sets / 2)
    if writers < 2 or accesses == 0.0:
        return 0.0
    instructions = work.read_instructions + work.write_instructions + 2 * work.pop_instructions
    instructions += workload.pipeline * work.parse_instructions + sets * work.value_instructions
    own_ns = inputs.user_ns(instructions) + work.kernel_scale * sum(inputs.socket_ns(speed))
    own_ns += inputs.copying_ns() * workload.pipeline
    own_ns += (work.read_lines + work.write_lines) / 2 * speed.core_to_core_ns
    request_ns = main_request_interval_ns(inputs)
    if (rate_rps := workload.mean_rate_rps) is not None:
        request_ns = max(request_ns, 1e9 / rate_rps)
    between_ns = max(own_ns, writers * workload.pipeline * request_ns) / accesses
    return written_in_turn_ns(writers, speed.core_to_core_ns, between_ns)
