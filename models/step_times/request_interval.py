"""How soon a busy main thread takes the next request, and I/O threads a line they all write.

Both are estimates before anything is simulated: caches and memory are loaded by how often requests
come, which depends on how long they take.
"""

from __future__ import annotations

from ..engines.commands import execute_instructions
from ..memory.contention import written_in_turn_ns
from .inputs import NodeInputs


def main_request_interval_ns(inputs: NodeInputs, *, helped: bool = True) -> float:
    """About the time between two requests of a busy main thread, before it waits for memory.

    `helped`: I/O threads, if there are any, both read and write for it.
    """
    workload, work, speed = inputs.scenario.workload, inputs.work, inputs.speed
    instructions = work.parse_instructions + work.get_instructions
    instructions += sum(
        kind.share * (execute_instructions(kind, work.commands) - work.get_instructions)
        for kind in inputs.kinds
        if kind.row.work
    )
    given_ns = sum(1e3 * k.share * k.other.execution_us for k in inputs.kinds if k.other)
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
    scenario, work, speed, kinds = inputs.scenario, inputs.work, inputs.speed, inputs.kinds
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
