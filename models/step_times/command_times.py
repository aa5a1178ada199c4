"""What each kind of command takes of the threads that parse, look up, execute and answer it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..engines.commands import (
    ARGUMENT,
    ARGUMENTS_PARSED,
    CommandKind,
    sent_kinds,
)
from ..engines.profile import EngineProfile
from ..memory.lines import LINE_BYTES
from ..memory.waits import memory_times
from ..scenario.schema import Scenario
from .inputs import NodeInputs, kept
from .values import (
    ARGUMENTS_SHARE,
    RELEASE_INSTRUCTIONS,
    REPLY_INSTRUCTIONS,
    ValuePath,
    ValueTimes,
    arguments_instructions,
    deferred_share,
    freeing_arguments_ns,
    value_path,
)
from .workload_caches import idle_waits, scenario_memory_load


@dataclass(frozen=True)
class CommandTimes:
    """Durations in ns, lists in the order of `command_kinds`.

    Attributes
    ----------
    parse_ns, execute_ns, write_ns, free_ns
        Of the thread that reads a command, of the one that executes it, of the one that sends its
        reply beyond what every reply takes, and of the one that frees what it replaced.
    stall_ns, prefetched_stall_ns
        Waits for memory of one whose keys were looked up alone, as (samples,), and the mean wait
        that is left of one whose keys were looked up ahead in a batch.
    prefetch_ns
        (keys + 1,) looking up keys together, by their number.
    free_arguments_ns
        Freeing the arguments of one, where that is a job of its own.
    reply_bytes
        Mean of what an I/O thread is handed to send per command.
    neighbour_ns
        Mean wait for another value than that of the command.
    """

    parse_ns: list[float]
    execute_ns: list[float]
    write_ns: list[float]
    free_ns: list[float]
    stall_ns: list[np.ndarray]
    prefetched_stall_ns: list[float]
    prefetch_ns: np.ndarray
    free_arguments_ns: float
    reply_bytes: float
    neighbour_ns: float


def command_times(inputs: NodeInputs, *, shared_ns: float) -> CommandTimes:
    """Times of every kind of command of a scenario.

    Parameters
    ----------
    shared_ns
        Wait of an I/O thread per client for lines that all of them write in turn.
    """
    return _of_requests(inputs, _of_executed(inputs, shared_ns=shared_ns))


def _of_executed(inputs: NodeInputs, *, shared_ns: float) -> CommandTimes:
    """Times of every kind of command that is executed, lists in the order of `executed`."""
    work, speed, kinds = inputs.work, inputs.speed, inputs.executed
    batch = inputs.prefetch_batch
    # Threads that own their clients look up to twice as many keys up together (`take_batch`).
    most_keys = inputs.policy.most_batches * batch if batch > 1 else batch
    paths = [value_path(k.on_values, k.value_bytes, inputs.scenario, inputs.engine) for k in kinds]
    slower_ns = (scenario_memory_load(inputs).latency_factor - 1.0) * speed.dram_ns
    found = [waits.with_slower_dram(slower_ns) for waits in idle_waits(inputs)]
    memory = [
        memory_times(
            path.main_waits(waits),
            parallel_misses=speed.parallel_misses,
            batch_limit=most_keys,
            stream_scale=work.stream_scale,
        ).of_keys(kind.keys, waits.in_flight)
        for kind, waits, path in zip(kinds, found, paths, strict=True)
    ]
    shares = np.array([kind.share for kind in kinds])
    alone = {id(kind) for kind in inputs.kinds}
    # Keys of what a transaction or a script calls are looked up one by one.
    asked = np.array([kind.share * kind.keys * (id(kind) in alone) for kind in kinds])
    if asked.any():
        asked /= asked.sum() / np.sum([kind.share for kind in inputs.kinds])
    looked_up = np.sum([s * m.prefetch_ns for s, m in zip(asked, memory, strict=True)], axis=0)
    keys = np.arange(most_keys + 1)
    looked_up = looked_up + keys * inputs.user_ns(work.prefetch_instructions_per_key)
    looked_up[:2] = 0.0

    buffered = [
        path.buffered_bytes(k.reply_bytes) * (k.keys if path.referenced else 1)
        for k, path in zip(kinds, paths, strict=True)
    ]
    # What a script calls is answered to the script, which replies once.
    sent = sent_kinds(inputs.kinds)
    answered = np.isin([id(kind) for kind in kinds], [id(kind) for kind in sent])
    by_scripts = sum(kind.share * kind.reply_bytes for kind in sent if kind.calls)
    deferred = [deferred_share(k, path, inputs) for k, path in zip(kinds, paths, strict=True)]
    values = [
        path.times(
            inputs, last_touch_ns=m.last_touch_ns, shared_ns=shared_ns / 2, deferred=share
        ).of_values(kind.stored_values)
        for kind, path, m, share in zip(kinds, paths, memory, deferred, strict=True)
    ]
    return CommandTimes(
        parse_ns=[
            _parse_ns(inputs, k, v, p, d)
            for k, v, p, d in zip(kinds, values, paths, deferred, strict=True)
        ],
        execute_ns=[
            _execute_ns(inputs, k, v, p, d) + _transfer_ns(inputs, k, b, p)
            for k, b, v, p, d in zip(kinds, buffered, values, paths, deferred, strict=True)
        ],
        write_ns=[
            p.writer_ns(w, work.stream_scale)
            + _formatting_ns(inputs, k, p)
            # What it frees for the main thread.
            + v.writer_ns
            + d * inputs.user_ns(arguments_instructions(inputs))
            for k, p, w, v, d in zip(kinds, paths, found, values, deferred, strict=True)
        ],
        free_ns=[value.freeing_ns for value in values],
        stall_ns=[m.stall_ns for m in memory],
        prefetched_stall_ns=[m.prefetched_stall_ns for m in memory],
        prefetch_ns=looked_up,
        free_arguments_ns=freeing_arguments_ns(inputs),
        reply_bytes=float(np.dot(shares * answered, buffered)) + by_scripts,
        neighbour_ns=float(np.dot(shares, [m.last_touch_ns for m in memory])),
    )


def _of_requests(inputs: NodeInputs, executed: CommandTimes) -> CommandTimes:
    """The same by what clients send.

    A transaction or a script takes what its commands take, and what calling them does. Their keys
    are looked up one after the other.
    """
    if not any(kind.calls for kind in inputs.kinds):
        return executed
    names = ("parse_ns", "execute_ns", "write_ns", "free_ns", "stall_ns", "prefetched_stall_ns")
    found: dict[str, Any] = {name: [] for name in names}
    place = 0
    for kind in inputs.kinds:
        rows = range(place, place + max(1, len(kind.calls)))
        place = rows.stop
        of = {name: [getattr(executed, name)[row] for row in rows] for name in names}
        if not kind.calls:
            for name in names:
                found[name] += of[name]
            continue
        times = np.array([each for _, each in kind.times])
        parse_ns, write_ns = (times @ of[name] for name in ("parse_ns", "write_ns"))
        parse_ns, write_ns = _calling_ns(inputs, kind, parse_ns, write_ns)
        calling_ns = inputs.user_ns(inputs.execute_instructions(kind))
        stall_ns = _in_turn_ns(of["stall_ns"], times)
        found["parse_ns"].append(parse_ns)
        found["execute_ns"].append(calling_ns + times @ of["execute_ns"])
        found["write_ns"].append(write_ns)
        found["free_ns"].append(times @ of["free_ns"])
        found["stall_ns"].append(stall_ns)
        found["prefetched_stall_ns"].append(stall_ns.mean())
    return replace(executed, **found)


def _calling_ns(
    inputs: NodeInputs, kind: CommandKind, parse_ns: float, write_ns: float
) -> tuple[float, float]:
    """Parsing a transaction or a script, and sending its replies beyond what every reply takes.

    Parameters
    ----------
    parse_ns, write_ns
        Of all its commands, which only a transaction parses and answers one by one.
    """
    work = inputs.work
    if kind.calling == "transaction":
        # MULTI and EXEC are one word each, a GET is two.
        around = max(0.0, work.parse_instructions - work.commands[ARGUMENT])
        return parse_ns + 2.0 * inputs.user_ns(around), write_ns
    parsing = work.parse_instructions
    parsing += (kind.arguments - ARGUMENTS_PARSED) * work.commands[ARGUMENT]
    parsing += 0.0 if inputs.lone else work.command_lookup_instructions
    sent_bytes = sum(times * call.sent_value_bytes for call, times in kind.times)
    parsing += sent_bytes * work.parse_instructions_per_byte
    return inputs.user_ns(parsing) + inputs.moving_ns, 0.0


def _in_turn_ns(stalls_ns: Sequence[np.ndarray], times: np.ndarray) -> np.ndarray:
    """(samples,) waits of several commands, so many times each, one after the other.

    Waits are independent: means and variances add up, in the shape of that which varies most.
    """
    mean_ns = sum(n * s.mean() for s, n in zip(stalls_ns, times, strict=True))
    variances = [n * s.var() for s, n in zip(stalls_ns, times, strict=True)]
    widest = stalls_ns[int(np.argmax(variances))]
    scale = np.sqrt(sum(variances) / max(widest.var(), 1e-300))
    return np.maximum(0.0, mean_ns + scale * (widest - widest.mean()))


def _freed_apart(inputs: NodeInputs, deferred: float) -> float:
    """Share of a command's arguments that the thread that executes it doesn't free."""
    return 1.0 if freeing_arguments_ns(inputs) > 0.0 else deferred


def _stored_instructions(inputs: NodeInputs, kind: CommandKind) -> float:
    """What the bytes of a command's new values take where they are copied."""
    copied_bytes = kind.worked_share * kind.stored_values * kind.value_bytes
    return copied_bytes * inputs.work.set_instructions_per_byte


def _parse_ns(
    inputs: NodeInputs, kind: CommandKind, value: ValueTimes, path: ValuePath, deferred: float
) -> float:
    work = inputs.work
    apart = _freed_apart(inputs, deferred)
    parsing = work.parse_instructions * (1.0 - ARGUMENTS_SHARE * apart)
    # An I/O thread that parses a command also finds it in the command table.
    parsing += 0.0 if inputs.lone else work.command_lookup_instructions
    parsing += kind.worked_share * kind.sent_value_bytes * work.parse_instructions_per_byte
    if path.made_by_parser:
        parsing += _stored_instructions(inputs, kind)
    if kind.row.work:
        parsing += (kind.arguments - ARGUMENTS_PARSED) * work.commands[ARGUMENT]
    return inputs.user_ns(parsing) + value.reader_ns + inputs.moving_ns


def _formatting_ns(inputs: NodeInputs, kind: CommandKind, path: ValuePath) -> float:
    """What the I/O thread that sends a reply does where it formats it."""
    if inputs.lone or kind.other is not None or not inputs.engine.presentation_offload:
        return 0.0
    per_byte = inputs.work.get_instructions_per_byte
    copied = kind.worked_share * kind.returned_bytes * per_byte if path.referenced else 0.0
    return inputs.user_ns(_reply_instructions(kind) + copied)


def _execute_ns(
    inputs: NodeInputs, kind: CommandKind, value: ValueTimes, path: ValuePath, deferred: float
) -> float:
    work = inputs.work
    if kind.other is not None and kind.other.execution_us is not None:
        found = work.command_lookup_instructions if inputs.lone else 0.0
        return 1e3 * kind.other.execution_us + inputs.user_ns(found)
    copied_bytes = copied_value_bytes(kind, inputs.scenario, inputs.engine)
    copied = kind.worked_share * copied_bytes * work.get_instructions_per_byte
    if not path.made_by_parser:
        copied += _stored_instructions(inputs, kind)
    elsewhere = inputs.engine.presentation_offload and not inputs.lone
    formatted = _reply_instructions(kind) if elsewhere else 0.0
    if kind.command == "get":
        base = work.get_instructions
    elif kind.command == "set":
        base = work.set_instructions
    else:
        # Counted with one thread, which makes and releases the values as well.
        values = kind.stored_values * work.value_instructions
        apart = 0.0 if inputs.lone else values + formatted
        executing = inputs.execute_instructions(kind, apart=apart)
        base = max(work.get_instructions, executing - values)
    base -= formatted
    base += copied
    if not inputs.lone:
        base -= work.command_lookup_instructions
        base -= _freed_apart(inputs, deferred) * RELEASE_INSTRUCTIONS
        base = max(0.0, base)
    return inputs.user_ns(base) + value.main_ns + mixing_ns(inputs)


def _transfer_ns(
    inputs: NodeInputs, kind: CommandKind, buffered_bytes: int, path: ValuePath
) -> float:
    """Lines of buffers and of values that come from an I/O thread's core.

    A command that the main thread parses lies in a buffer that an I/O thread has filled.
    """
    work, line_ns = inputs.work, inputs.speed.core_to_core_ns
    if inputs.lone or inputs.engine.threading.hand_over == "turns":
        return 0.0
    request_bytes = kind.request_bytes(inputs.scenario.workload.key_bytes)
    copied_bytes = path.made_by_main * request_bytes
    lines = 0.0
    if kind.row.writes:
        lines = kind.items * work.set_lines * (1.0 - path.made_by_main)
    else:
        copied_bytes += buffered_bytes
    return (lines + copied_bytes / LINE_BYTES * work.reply_lines_per_line) * line_ns


def _reply_instructions(kind: CommandKind) -> float:
    return REPLY_INSTRUCTIONS["get" if kind.row.returned else "set"] * kind.reply_values


def copied_value_bytes(kind: CommandKind, scenario: Scenario, engine: EngineProfile) -> int:
    """Bytes of values, members and fields that a command copies into a reply buffer."""
    path = value_path(kind.on_values, kind.value_bytes, scenario, engine)
    return 0 if path.referenced else kind.returned_bytes


# --- commands in turn ----------------------------------------------------------------------------

DISTINCT = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
MISSED_LINES = (0.0, 7.0, 16.6, 29.0, 32.8, 41.6)
"""By the number of different commands in turn, in an order drawn at random: cache lines of code
that one command misses more than alone, since others have pushed them out of the instruction cache.

Counted in valgrind on Redis 7.0, means of three sets and of caches of 32 and 64 KiB
(`evidence/counts/mixing_counts.json`). The 7 to 28 mispredicted branches that are counted there as
well are left out: that predictor is simpler than those of processors."""

LINE_CYCLES = 14.0
"""A line of code from the second level, whose published latencies are 12 to 15 cycles on Zen 3 to 5
and Golden Cove."""

_ALIKE = {"set": "get"}
"""GET and SET count as one command: in turn they miss 1.5 lines more than alone, where two commands
miss 7 on average (counted once, the same way)."""


@kept
def mixing_ns(inputs: NodeInputs) -> float:
    """Time that each command takes longer, because others come in between.

    The effective number of commands in a mix is the exponential of the entropy of their shares.
    """
    shares: dict[str, float] = {}
    for kind in inputs.executed:
        name = _ALIKE.get(kind.command, kind.command)
        shares[name] = shares.get(name, 0.0) + kind.share
    total = sum(shares.values())
    entropy = -sum(each / total * math.log(each / total) for each in shares.values() if each > 0)
    lines = float(np.interp(math.exp(entropy), DISTINCT, MISSED_LINES))
    return LINE_CYCLES * lines / inputs.speed.clock_ghz
