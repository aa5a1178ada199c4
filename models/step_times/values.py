"""Which thread makes, copies, sends and releases a command's value, and its arguments.

Rules: networking.c (`isCopyAvoidPreferred`), db.c (`dbSetValue`), memory_prefetch.c and
io_threads.c (`tryOffloadFreeObjToIOThreads`) of Valkey 8.0.0 to 9.1.0; redis PR 13968 (8.2) and
PR 14440 (8.4) of what is freed later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..engines.commands import CommandKind
from ..engines.profile import EngineProfile
from ..memory.contents import VALUE, structures
from ..memory.lines import Structure
from ..memory.waits import Waits
from ..scenario.schema import Scenario
from .inputs import NodeInputs
from .policy_times import section_ns

RELEASE_SHARE = 0.5
"""Part of `value_instructions` that releases the old value; the rest makes the new one (assumed: an
allocator's fast paths are about as long in either direction)."""

SHELL_SHARE = 0.5
"""Part of a release that frees the object around the string: of two blocks it is one (assumed)."""

ARGUMENTS_SHARE = 0.1
"""Part of `parse_instructions` that frees the vector of a command's arguments when it is done
(counted with callgrind: 110 to 190 instructions in Valkey 8.1.1 and 9.1.2)."""

RELEASE_INSTRUCTIONS = 280.0
"""Of the instructions of a command those that release its arguments (counted with callgrind:
decrRefCount of two takes 257 in Valkey 8.1.1, 308 in 9.1.2 and 320 in Redis 8.6.3, of GETs as of
SETs, whose value stays)."""

FREE_PUSH_SHARE = 0.6
"""What handing something over to be freed takes of handing over a client (counted with callgrind:
tryOffloadFreeArgvToIOThreads takes 105 instructions in Valkey 8.1.1 and 82 in 9.1.2)."""

SHELL_LINES = 3.0
"""Lines that the main thread waits for when it frees a block that an I/O thread allocated: it goes
back to the other thread's slabs, under a lock and with books that I/O threads write (assumed, 1 to
4; sized by the 143 ns a SET between the 1.53 million SETs a second that valkey PR 3760 reports with
this and the 1.96 without, so that figure is no check of the model)."""

REFERENCE_BYTES = 48
"""What a reply that refers to its value takes in the reply buffer: two headers and the pointer
(networking.c)."""

RING_ENTRIES_PER_LINE = 4
"""Entries of 16 bytes in a job ring; in the shared queue each has a line of its own (queues.c)."""

REPLY_INSTRUCTIONS = {"get": 395.0, "set": 133.0}
"""Of the instructions of a command those that format its reply: `reply` per request at pipeline 16
and values of 16 bytes, counted by callgrind (bundle redis-7.0)."""


@dataclass(frozen=True)
class ValueTimes:
    """What making and releasing a SET's values costs each thread, in ns.

    `freeing_ns` is a job of its own; 0 where no thread is asked to. `writer_ns` is what the thread
    that sends the reply frees for the main thread.
    """

    reader_ns: float = 0.0
    main_ns: float = 0.0
    freeing_ns: float = 0.0
    writer_ns: float = 0.0

    def of_values(self, values: int) -> ValueTimes:
        """The same of a command that replaces several values; one job frees them all."""
        if values < 2:
            return self
        return ValueTimes(
            *(values * self.reader_ns, values * self.main_ns),
            *(values * self.freeing_ns, values * self.writer_ns),
        )


@dataclass(frozen=True)
class ValuePath:
    """What becomes of the value of one kind of command.

    Attributes
    ----------
    command
        `get` or `set`.
    lone
        The thread that reads a command also executes it.
    own_string
        It lies in a block of its own; a smaller one lies inside its object or entry.
    referenced
        A GET's reply refers to it, and who writes the reply reads it from where it lies.
    fetched
        A batched look-up fetches it ahead.
    reads_length
        The main thread reads the length of a value it only refers to.
    freed_apart
        What a SET replaces goes to an I/O thread that frees it.
    made_by_main
        Share of a SET's values that the main thread parses, and so makes, itself: those of a
        pipeline beyond the commands that its reader parses.
    """

    command: str
    lone: bool
    own_string: bool
    referenced: bool
    fetched: bool
    reads_length: bool
    freed_apart: bool
    made_by_main: float

    @property
    def made_by_parser(self) -> bool:
        """Who parses a SET copies its value into a block, which is then hung in as it is."""
        return self.own_string and not self.lone

    def main_waits(self, waits: Waits) -> Waits:
        """What is left to the main thread of a command's waits."""
        return replace(waits, structures=[self._touched_by_main(s) for s in waits.structures])

    def _touched_by_main(self, structure: Structure) -> Structure:
        if self.lone or structure.name != VALUE:
            return structure
        if self.command == "get" and self.fetched and not self.referenced:
            return structure
        # Where an I/O thread has written a SET's value, the main thread only hangs it in.
        written = self.made_by_main if self.command == "set" else 0.0
        first = replace(structure, followers=written * structure.followers)
        if self.fetched:
            return first
        touches = structure.touches if self.referenced and self.reads_length else 0.0
        return replace(first, touches=touches, prefetched=False)

    def writer_ns(self, waits: Waits, stream_scale: float) -> float:
        """Wait of an I/O thread that sends a value from where it lies."""
        if self.lone or not self.referenced:
            return 0.0
        lines = [
            s if s.name == VALUE else replace(s, touches=0.0, followers=0.0)
            for s in waits.structures
        ]
        value = replace(waits, structures=lines)
        return value.touching_ns() + stream_scale * value.head_ns() + value.tail_ns()

    def buffered_bytes(self, reply_bytes: int) -> int:
        """What the main thread hands an I/O thread in a reply buffer."""
        return REFERENCE_BYTES if self.referenced and not self.lone else reply_bytes

    def times(
        self, inputs: NodeInputs, *, last_touch_ns: float, shared_ns: float, deferred: float = 0.0
    ) -> ValueTimes:
        """What the values of a SET cost each thread.

        Parameters
        ----------
        last_touch_ns
            Mean wait for a line of a value.
        shared_ns
            Wait of an I/O thread for the allocation counters that all of them write.
        deferred
            Share of what is freed that is left to the thread that sends the reply.
        """
        if self.command != "set":
            return ValueTimes()
        engine, work, speed = inputs.engine, inputs.work, inputs.speed
        whole_ns = inputs.user_ns(work.value_instructions)
        if engine.threading.locks_items:
            locked_ns = sum(section_ns(inputs, 0.0))
            if inputs.lone:
                waiting_ns = sum(section_ns(inputs, last_touch_ns)) - locked_ns
                return ValueTimes(main_ns=whole_ns + waiting_ns)
            # What it does under locks of the process is simulated apart.
            rest_ns = max(1.0, whole_ns - locked_ns)
            return ValueTimes(freeing_ns=rest_ns)
        if self.lone:
            # Its waits for the old value are among those of the command.
            return ValueTimes(main_ns=whole_ns)
        making_ns = (1.0 - RELEASE_SHARE) * whole_ns
        release_ns = RELEASE_SHARE * whole_ns
        # A value inside its entry came with the look-up.
        waiting_ns = work.value_touches * last_touch_ns if self.own_string else 0.0
        if self.freed_apart:
            # The old value's header, which a batched look-up brought to the main thread's core.
            waiting_ns += speed.core_to_core_ns if self.fetched else last_touch_ns
        if not self.freed_apart:
            freed_ns = release_ns + waiting_ns
            later_ns = deferred * freed_ns if self.own_string else 0.0
            return ValueTimes(reader_ns=making_ns, main_ns=freed_ns - later_ns, writer_ns=later_ns)
        shell_ns = 0.0
        if engine.shells_freed_by_main:
            shell_ns = SHELL_SHARE * release_ns
            release_ns -= shell_ns
            shell_ns += SHELL_LINES * speed.core_to_core_ns
        entries = 1 if engine.threading.hand_over == "shared_queue" else RING_ENTRIES_PER_LINE
        taking_ns = inputs.user_ns(work.pop_instructions) + speed.core_to_core_ns / entries
        return ValueTimes(making_ns, shell_ns, taking_ns + release_ns + waiting_ns + shared_ns)


def freeing_arguments_ns(inputs: NodeInputs) -> float:
    """Time to free a command's arguments, in ns; 0 where that is no job of its own."""
    if inputs.lone or inputs.engine.values_freed_by == "main_thread":
        return 0.0
    taking_ns = inputs.speed.core_to_core_ns / RING_ENTRIES_PER_LINE
    return inputs.user_ns(arguments_instructions(inputs)) + taking_ns


def arguments_instructions(inputs: NodeInputs) -> float:
    """What freeing a command's arguments takes."""
    return ARGUMENTS_SHARE * inputs.work.parse_instructions + RELEASE_INSTRUCTIONS


def deferred_share(kind: CommandKind, path: ValuePath, inputs: NodeInputs) -> float:
    """Share of a command's arguments and replaced strings that the client's I/O thread frees.

    A client comes back to it with the whole pipeline executed.
    """
    engine, workload = inputs.engine, inputs.scenario.workload
    if inputs.lone or engine.deferred_objects == 0:
        return 0.0
    arguments = 1 if engine.whole_pipeline else kind.arguments
    replaced = kind.stored_values if path.own_string else 0
    return min(1.0, engine.deferred_objects / (workload.pipeline * (arguments + replaced)))


def value_path(
    command: str, value_bytes: int, scenario: Scenario, engine: EngineProfile
) -> ValuePath:
    """What becomes of the value of a command under an engine's rules."""
    # Whether it has a block of its own doesn't depend on how many keys there are.
    lines = structures(
        engine.layout, keys=1, key_bytes=scenario.workload.whole_key_bytes, value_bytes=value_bytes
    )
    own_string = any(s.name == VALUE for s in lines)
    threads, limit = scenario.io_threads, engine.reply_reference_bytes
    always = engine.reply_reference_threads is not None and (
        threads >= engine.reply_reference_threads
    )
    if threads > 1:
        limit = 0 if always else engine.reply_reference_bytes_threaded
    return ValuePath(
        command=command,
        lone=threads == 1 or engine.threading.locks_items,
        own_string=own_string,
        referenced=command == "get" and own_string and limit is not None and value_bytes >= limit,
        fetched=not always,
        reads_length=engine.reply_reference_reads_length,
        freed_apart=own_string and threads > 1 and engine.values_freed_by == "io_threads",
        made_by_main=_parsed_by_main(scenario, engine),
    )


def _parsed_by_main(scenario: Scenario, engine: EngineProfile) -> float:
    """Share of commands that the main thread parses though an I/O thread has read them."""
    if engine.threading.hand_over == "turns" or engine.threading.locks_items:
        return 0.0
    pipeline = scenario.workload.pipeline
    ahead = (engine.lookahead or pipeline) if engine.whole_pipeline else 1
    return max(0, pipeline - ahead) / pipeline
