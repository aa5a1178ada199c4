"""Times of fork-join I/O threads: handing clients out, taking them back, lines all threads write.

Rules: networking.c of Redis 6.2 and 7.0 and of Valkey 7.2. Time goes where clients change threads,
so that a turn which the main thread serves alone has none of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..engines.profile import EngineProfile
from ..memory.contention import written_in_turn_ns
from ..memory.lines import LINE_BYTES
from ..scenario.schema import Scenario
from .inputs import NodeInputs


def do_reads(scenario: Scenario, engine: EngineProfile) -> bool:
    """Whether active fork-join threads read as well: io-threads-do-reads, which is no by itself."""
    return "io_threads_do_reads" in engine.threading.settings and bool(scenario.io_threads_do_reads)


def sharing_out(
    inputs: NodeInputs, sockets: Mapping[str, int], *, written_bytes: float
) -> dict[str, int]:
    """Handing clients to fork-join threads and taking them back, by the field of `NodeTimes`.

    A thread that writes fetches the client's fields and its reply from the main thread's core; the
    main thread fetches what the writer changed, and the reply buffer's lines to write on. With
    reads there are two exchanges a request, of which a duration is the mean: the main thread then
    also fetches the command, and a SET's value, from the core of its reader. All threads, the main
    thread among them, write the same counters at the same time.

    Parameters
    ----------
    sockets
        `write_event_ps`, `send_ps` and `send_ps_per_kib` of `NodeTimes`.
    written_bytes
        Of the replies of one write, in the mean.
    """
    scenario, work, line_ns = inputs.scenario, inputs.work, inputs.speed.core_to_core_ns
    reply_lines = written_bytes / LINE_BYTES * work.reply_lines_per_line
    given_lines, returned_lines = work.write_lines + reply_lines, work.done_lines + reply_lines
    serving_ns = (sockets["write_event_ps"] + sockets["send_ps"]) / 1000
    serving_ns += written_bytes * sockets["send_ps_per_kib"] / 1024 / 1000
    accesses = work.shared_lines / 2
    if do_reads(scenario, inputs.engine):
        sets = 1.0 - scenario.workload.get_fraction
        given_lines = (given_lines + work.read_lines) / 2
        returned_lines += work.execute_lines + sets * work.set_lines
        returned_lines /= 2
        # A SET's value is a third burst of allocations.
        accesses *= 1.0 + sets / 4
    taking_ns = inputs.user_ns(work.pop_instructions) + given_lines * line_ns
    if accesses > 0.0:
        between_ns = (serving_ns + taking_ns) / accesses
        taking_ns += accesses * written_in_turn_ns(scenario.io_threads, line_ns, between_ns)
    done_ns = inputs.user_ns(work.done_instructions) + returned_lines * line_ns
    return {
        "push_ps": round(inputs.user_ns(work.push_instructions) * 1000),
        "pop_ps": round(taking_ns * 1000),
        "done_ps": round(done_ns * 1000),
    }
