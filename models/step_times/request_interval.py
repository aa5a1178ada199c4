"""How soon a busy main thread takes the next request, and I/O threads a line they all write.

Both are estimates before anything is simulated: caches and memory are loaded by how often requests
come, which depends on how long they take.
"""

from __future__ import annotations

from forecache.hwprofiles.speed import HostSpeed

from ..engines.commands import command_kinds, execute_instructions
from ..engines.profile import EngineWork
from ..memory.contention import written_in_turn_ns
from ..scenario.schema import Scenario


def user_rate(speed: HostSpeed) -> float:
    """Instructions of the engine's user code per ns, its data in the first two cache levels."""
    return speed.user_ipc * speed.clock_ghz


def main_request_interval_ns(
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
    request_ns = main_request_interval_ns(scenario, work, speed, copied)
    if (rate_rps := workload.mean_rate_rps) is not None:
        request_ns = max(request_ns, 1e9 / rate_rps)
    between_ns = max(own_ns, writers * workload.pipeline * request_ns) / accesses
    return written_in_turn_ns(writers, speed.core_to_core_ns, between_ns)
