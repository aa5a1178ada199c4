"""Where the time of a request goes: each step's CPU time per request, by thread."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..node.policies import POLICIES
from ..node.setup import NodeTimes
from ..node.simulate import NodeResult
from ..prediction.predict import Prediction, memory_wait_ps
from ..prediction.simulation import times_of
from ..results.points import Stage
from ..step_times.inputs import NodeInputs
from ..step_times.persistence import code_shares
from ..step_times.policy_times import do_reads
from ..step_times.wire import segment_bytes, write_limit_bytes

_PS_PER_US = 1e6
_PS_PER_S = 1e12


Row = tuple[str, str, float]
"""A step, the thread that takes it, and time per request."""

EVENT_LOOP = "event loop"
POLL = "poll"
"""Of main and I/O threads for the main thread."""
BESIDE_SIBLING = "beside a hyperthread"
"""What the steps take longer whose thread shares its physical core with a busy one."""


@dataclass(frozen=True)
class CpuTime:
    """CPU time of the server per request, at the nominal numbers.

    Attributes
    ----------
    stages
        The steps that requests need; they add up to `server_cpu_us_per_request`.
    server_cpu_us_per_request
        What requests need; None without completions, as the next.
    spinning_cpu_us_per_request
        What threads spend besides, on looking for work where there is none or hardly any: turns of
        a main thread beside I/O threads that find nothing or little, I/O threads without a job, a
        main thread that waits for the slowest. The kernel counts the sum of the two.
    """

    stages: list[Stage]
    server_cpu_us_per_request: float | None
    spinning_cpu_us_per_request: float | None


def server_cpu_time(prediction: Prediction) -> CpuTime:
    """Where the server's CPU time goes.

    Steps are counted by the simulation and priced with the durations it used. Threads that sleep
    when there is nothing to do spend all of their time on requests: what the steps leave of it is
    their turns of the event loop. Threads that spin spend on requests what the steps take.
    """
    results = [metrics.result for metrics in prediction.nominal]
    if any(result.completions == 0 for result in results):
        return CpuTime([], None, None)
    beside_us = float(np.mean([r.counters["sibling_ps"] / r.completions for r in results]))
    beside_us /= _PS_PER_US
    beside = [(BESIDE_SIBLING, "all", beside_us)] if beside_us > 0 else []
    steps = [*steps_of(prediction), *beside]
    stepped_us = math.fsum(us for _, _, us in steps)
    busy_us = float(np.mean([result.server_useful_cpu_us_per_request for result in results]))
    kernel_us = float(np.mean([result.server_cpu_us_per_request for result in results]))
    if POLICIES[results[0].policy].threads_sleep:
        useful_us = busy_us
    elif _stopped_while_waiting(prediction):
        # What the main thread waits for the slowest is no CPU time where neither has a core.
        useful_us = min(stepped_us, kernel_us)
    else:
        waited_ps = [r.counters["join_wait_ps"] / r.completions for r in results]
        useful_us = min(stepped_us, busy_us - float(np.mean(waited_ps)) / _PS_PER_US)
    if useful_us > stepped_us:
        steps = _with_turns(prediction, steps, useful_us - stepped_us)
    else:
        # Steps are priced by their means: what that leaves is below a few per cent.
        steps = [(stage, thread, us * useful_us / stepped_us) for stage, thread, us in steps]
    stages = [Stage(*step) for step in steps]
    return CpuTime(stages, useful_us, max(0.0, kernel_us - useful_us))


def _stopped_while_waiting(prediction: Prediction) -> bool:
    """Whether threads share cores or a quota."""
    scenario, system = prediction.case.scenario, prediction.system
    return system.shares_cores(scenario) or system.sharing(scenario).quota_cores > 0


def _with_turns(prediction: Prediction, steps: list[Row], turns_us: float) -> list[Row]:
    """The steps, and so much time of turns of the event loop."""
    apart = prediction.case.scenario.io_threads > 1 and not prediction.threads_alike
    thread = "worker" if prediction.threads_alike else "I/O" if apart else "main"
    kept = [row for row in steps if row[:2] != (EVENT_LOOP, thread)]
    known_us = math.fsum(us for stage, who, us in steps if (stage, who) == (EVENT_LOOP, thread))
    return [*kept, (EVENT_LOOP, thread, known_us + turns_us)]


def steps_of(prediction: Prediction, *, times: NodeTimes | None = None) -> list[Row]:
    """CPU time per request of each step, in us, as the first run counted it.

    Parameters
    ----------
    times
        Durations that steps are priced with; those of the run if left out.
    """
    inputs = prediction.system.inputs(prediction.case.scenario)
    result = prediction.nominal[0].result
    rows = _Steps(result, inputs, times_of(inputs) if times is None else times).rows()
    alike = prediction.threads_alike
    return [
        (stage, "worker" if alike else thread, time_ps / _PS_PER_US)
        for stage, thread, time_ps in rows
        if time_ps > 0
    ]


class _Steps:
    """How often a request has each step of a run, who takes it, and how long that is."""

    def __init__(self, result: NodeResult, inputs: NodeInputs, times: NodeTimes) -> None:
        self.result, self.inputs, self.times = result, inputs, times
        self.shares = code_shares(self.times)
        self.threaded = inputs.scenario.io_threads > 1
        self.forked = self.threaded and inputs.engine.threading.hand_over == "turns"
        self.reads = self.per_request("reads")
        self.writes = self.per_request("writes")
        self.inline_reads = self.per_request("inline_reads")
        self.offloaded_reads = max(0.0, self.reads - self.inline_reads)
        self.offloaded_writes = max(0.0, self.writes - self.per_request("inline_writes"))
        # What the main thread does by itself, as a share.
        self.read_inline = self.inline_reads / max(self.reads, 1e-9)
        self.written_inline = self.per_request("inline_writes") / max(self.writes, 1e-9)
        copied = self.times.request_bytes_by_code, self.times.reply_bytes_by_code
        self.read_kib, self.written_kib = (self.mean(table) / 1024 for table in copied)

    def per_request(self, counter: str) -> float:
        return self.result.counters[counter] / self.result.completions

    def mean(self, table: np.ndarray) -> float:
        """Of a table by command code."""
        return float(np.dot(self.shares, table))

    @staticmethod
    def by(inline: float, stage: str, time_ps: float) -> list[Row]:
        """A step's rows where the main thread has a share of it."""
        return [(stage, "main", inline * time_ps), (stage, "I/O", (1.0 - inline) * time_ps)]

    def parsed_inline(self) -> float:
        """Share of the commands that the main thread parses.

        A reader that is not the main thread parses those that it looks ahead to, or the first.
        """
        engine = self.inputs.engine
        ahead = engine.lookahead if engine.whole_pipeline else int(engine.threading.parses_first)
        parsed = 1.0 if ahead is None else min(1.0, ahead * self.reads)
        return 1.0 - (1.0 - self.read_inline) * parsed

    def rows(self) -> list[Row]:
        """All steps."""
        times = self.times
        dozes, polls = self._naps_and_polls()
        polling = polls * times.poll_ps + self.reads * times.poll_event_ps
        looping = self.per_request("loops") * times.loop_ps + polling
        handshakes, by_main = self.per_request("handshakes"), self.per_request("inline_handshakes")
        waking = self.per_request("paid_wakes_ps")
        rows = [
            *self._reading(),
            ("look up ahead", "main", _prefetching_ps(self.result, times.prefetch_by_keys_ps)),
            ("execute", "main", self.mean(times.execute_by_code_ps)),
            ("wait for memory", "main", memory_wait_ps(self.result, times)),
            *self._writing(),
            *self.by(self.written_inline, "wake the receiver", waking),
            ("sleep and wake up", "main", dozes * times.doze_ps + self.per_request("blocks_ps")),
            ("accept", "main", handshakes * times.accept_ps + by_main * times.handshake_ps),
            ("handshake", "I/O", (handshakes - by_main) * times.handshake_ps),
        ]
        if self.forked:
            reads_too = do_reads(self.inputs.scenario, self.inputs.engine)
            rows += _forked_rows(self.result, times, do_reads=reads_too)
        elif self.threaded:
            return [*rows, *self._handing_over(), *self.by(self.read_inline, POLL, polling)]
        return [*rows, (EVENT_LOOP, "main", looping)]

    def _naps_and_polls(self) -> tuple[float, float]:
        """Looks before it sleeps, and polls that find something, of the main thread.

        A call that finds nothing looks again before it sleeps, and when it has been woken.
        """
        loops, blocks, polls = (self.per_request(n) for n in ("loops", "blocks", "polls"))
        if self.forked:
            return max(0.0, polls - loops), max(0.0, loops - blocks)
        if self.threaded:
            return blocks, max(0.0, polls - 2.0 * blocks)
        return max(0.0, polls - loops - blocks), loops

    def _reading(self) -> list[Row]:
        times = self.times
        reading_ps = self.reads * (times.read_event_ps + times.recv_ps)
        reading_ps += self.read_kib * times.recv_ps_per_kib
        reading_ps -= self.per_request("resumed_reads") * times.recv_ps
        reading_ps += self.per_request("rearms") * times.rearm_ps
        return [
            *self.by(self.read_inline, "read", reading_ps),
            *self.by(self.parsed_inline(), "parse", self.mean(times.parse_by_code_ps)),
        ]

    def _writing(self) -> list[Row]:
        times, writes = self.times, self.writes
        calls, segments = self._calls_and_segments()
        writing_ps = writes * (calls * times.write_event_ps + segments * times.send_ps)
        writing_ps += self.written_kib * times.send_ps_per_kib
        return self.by(self.written_inline, "write", writing_ps)

    def _calls_and_segments(self) -> tuple[int, int]:
        """Of the write of a client's replies."""
        if self.writes <= 0:
            return 1, 1
        of = self.inputs.scenario, self.inputs.engine
        reply_bytes = self.mean(self.times.reply_bytes_by_code) / self.writes
        limit, segment = write_limit_bytes(*of), segment_bytes(*of)
        calls = max(1, math.ceil(reply_bytes / limit))
        last_bytes = reply_bytes - (calls - 1) * limit
        last = max(1, math.ceil(last_bytes / segment))
        return calls, (calls - 1) * math.ceil(limit / segment) + last

    def _handing_over(self) -> list[Row]:
        """Jobs and lists that go from thread to thread, and what I/O threads do with them."""
        times, hand_over = self.times, self.inputs.engine.threading.hand_over
        jobs = self.offloaded_reads + self.offloaded_writes
        handed, taken_over = jobs * times.push_ps, jobs * times.pop_ps
        if hand_over == "clients":
            handed = self.writes * (times.push_ps + times.collect_ps)
            # Each list is joined by one side and taken by the other; either tells half of the time.
            moved = self.per_request("list_moves") * times.done_ps
            moved += self.per_request("notifications") * (times.notify_ps + times.notice_ps) / 2
            handed += moved
            taken_over += moved
        elif hand_over != "batches":
            handed += self.offloaded_writes * times.done_ps
            handed += self.per_request("found_again") * times.event_ps
        if hand_over == "shared_queue":
            handed += jobs * times.collect_ps
        freed, freed_by_main = self.per_request("freed_values"), self.per_request("inline_frees")
        handed += (freed - freed_by_main) * times.free_push_ps
        freeing_ps = self.mean(times.free_by_code_ps)
        freeing_ps /= max(1e-9, self.mean(times.free_by_code_ps > 0))
        by_main = self.per_request("inline_arguments")
        handed += (1.0 - by_main) * times.free_push_ps * (times.free_arguments_ps > 0)
        deferred = self.inputs.engine.deferred_objects > 0
        sending = "free for the main thread" if deferred else "read the value to send"
        return [
            ("free arguments", "I/O", (1.0 - by_main) * times.free_arguments_ps),
            ("free arguments", "main", by_main * times.free_arguments_ps),
            *self.by(self.written_inline, sending, self.mean(times.write_by_code_ps)),
            ("free replaced values", "I/O", (freed - freed_by_main) * freeing_ps),
            ("free replaced values", "main", freed_by_main * freeing_ps),
            ("hand over", "main", handed),
            ("take over", "I/O", taken_over),
            ("locks of the process", "main", self._locked_ps(freed)),
        ]

    def _locked_ps(self, stored: float) -> float:
        """What SETs do under locks of the process, and calls of futex; sleeping comes on top."""
        times, threads = self.times, self.inputs.scenario.io_threads
        if threads == 1 or not self.inputs.engine.threading.locks_items:
            return 0.0
        under_ps = times.section_ps.sum() + times.section_moved_ps.sum() * (1.0 - 1.0 / threads)
        asking_ps = 2 * times.futex_ps + times.handover_ps
        return float(stored * under_ps + self.per_request("lock_waits") * asking_ps)


def _forked_rows(result: NodeResult, times: NodeTimes, *, do_reads: bool) -> list[Row]:
    """Time to share clients out."""
    counters, completions = result.counters, result.completions
    offloaded = counters["writes"] - counters["inline_writes"]
    offloaded += counters["reads"] - counters["inline_reads"]
    # The main thread has a share of its own: of n threads, the n-th part.
    threads = 1 + len(result.io_thread_utilisation)
    shared = offloaded * threads / (threads - 1)
    active_ps = counters["active_thread_ps"] / (threads - 1)
    turns = counters["loops"] - counters["blocks"]
    forks = turns * active_ps / (result.window_s * _PS_PER_S) * (1 + do_reads)
    handed = shared * times.push_ps + forks * (threads - 1) * times.publish_ps
    started = counters["activations"] * (threads - 1) * times.activate_ps
    return [
        ("hand over", "main", (handed + offloaded * times.done_ps + started) / completions),
        ("take over", "I/O", offloaded * times.pop_ps / completions),
    ]


def _prefetching_ps(result: NodeResult, prefetch_by_keys_ps: np.ndarray) -> float:
    """Time of batched look-ups per request: as if every batch had the mean number of keys."""
    keys = result.counters["prefetched_keys"]
    if keys == 0:
        return 0.0
    limit = len(prefetch_by_keys_ps) - 1
    batches = max(result.counters["prefetch_batches"], keys / limit)
    mean_keys = min(float(limit), max(2.0, keys / batches))
    time_ps = float(np.interp(mean_keys, np.arange(limit + 1), prefetch_by_keys_ps))
    return batches * time_ps / result.completions
