"""Where the time of a request goes: each step's CPU time per request, by thread."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .forking import do_reads
from .node.setup import NodeTimes
from .node.simulate import NodeResult
from .predict import Prediction
from .simulation import Inputs
from .stalls import code_shares
from .wire import segment_bytes

_PS_PER_US = 1e6
_PS_PER_S = 1e12


def stages_of(prediction: Prediction, *, inputs: Inputs | None = None) -> list[dict[str, Any]]:
    """CPU time per request of each step, in microseconds, at the nominal numbers.

    Steps are counted by the simulation and priced with the durations it used, or with those of
    other `inputs`. Spinning is left out: it is time nobody needs.
    """
    result = prediction.nominal[0].result
    if result.completions == 0:
        return []
    if inputs is None:
        inputs = prediction.system.inputs(prediction.case.scenario)
    times, engine = inputs.times(), inputs.engine
    scenario = inputs.scenario
    threaded = scenario.io_threads > 1
    shares = code_shares(times)

    def per_request(counter: str) -> float:
        return result.counters[counter] / result.completions

    def mean(table: np.ndarray) -> float:
        return float(np.dot(shares, table))

    inline_reads = per_request("inline_reads")
    reads = per_request("reads")
    writes = per_request("writes")
    offloaded_reads = max(0.0, reads - inline_reads)
    offloaded_writes = max(0.0, writes - per_request("inline_writes"))
    reader = "I/O" if offloaded_reads > 0.5 * reads else "main"
    writer = "I/O" if offloaded_writes > 0.5 * writes else "main"
    # Where a reader takes the first command only, the main thread parses the others.
    parser = reader if scenario.workload.pipeline == 1 or engine.whole_pipeline else "main"
    if threaded and engine.policy == "multiplexed":
        parser = reader if engine.whole_pipeline else "main"
    calls = segments = 1
    if writes > 0:
        reply_bytes = mean(times.reply_bytes_by_code) / writes
        limit, segment = engine.write_limit_bytes, segment_bytes(scenario, engine)
        calls = max(1, math.ceil(reply_bytes / limit))
        last_bytes = reply_bytes - (calls - 1) * limit
        segments = (calls - 1) * math.ceil(limit / segment) + max(
            1, math.ceil(last_bytes / segment)
        )
    # A call that finds nothing looks again before it sleeps, and when it has been woken.
    loops, blocks = per_request("loops"), per_request("blocks")
    forked = threaded and engine.policy == "fork_join"
    if forked:
        dozes, polls = max(0.0, per_request("polls") - loops), max(0.0, loops - blocks)
    elif threaded:
        dozes, polls = blocks, max(0.0, per_request("polls") - 2.0 * blocks)
    else:
        dozes, polls = max(0.0, per_request("polls") - loops - blocks), loops
    polling = polls * times.poll_ps + reads * times.poll_event_ps
    copied_kib = mean(times.request_bytes_by_code) / 1024, mean(times.reply_bytes_by_code) / 1024
    looking = _prefetching_ps(result, times.prefetch_by_keys_ps)
    inline_writes = per_request("inline_writes") / max(writes, 1e-9)

    def by(thread: str, inline: float, stage: str, time_ps: float) -> list[tuple[str, str, float]]:
        """A step's row; two where the main thread has a share of it as fork-join has it."""
        if not forked:
            return [(stage, thread, time_ps)]
        return [(stage, "main", inline * time_ps), (stage, "I/O", (1.0 - inline) * time_ps)]

    reading_ps = reads * (times.read_event_ps + times.recv_ps)
    reading_ps += copied_kib[0] * times.copy_ps_per_kib
    inline = inline_reads / max(reads, 1e-9)
    # Of a pipeline, fork-join threads parse the first command.
    parsed_inline = 1.0 - (1.0 - inline) * min(1.0, reads)
    rows = [
        *by(reader, inline, "read", reading_ps),
        *by(parser, parsed_inline, "parse", mean(times.parse_by_code_ps)),
        ("look up ahead", "main", looking),
        ("execute", "main", mean(times.execute_by_code_ps)),
        ("wait for memory", "main", prediction.memory_wait_ns * 1000.0),
        *by(
            writer,
            inline_writes,
            "write",
            writes * (calls * times.write_event_ps + segments * times.send_ps)
            + copied_kib[1] * times.copy_ps_per_kib,
        ),
        ("wake the receiver", writer, per_request("paid_wakes") * times.wake_send_ps),
        ("sleep and wake up", "main", dozes * times.doze_ps + blocks * times.block_ps),
    ]
    handshakes, by_main = per_request("handshakes"), per_request("inline_handshakes")
    rows += [
        ("accept", "main", handshakes * times.accept_ps + by_main * times.handshake_ps),
        ("handshake", "I/O", (handshakes - by_main) * times.handshake_ps),
    ]
    if forked:
        rows += _forked_rows(result, times, do_reads=do_reads(scenario, engine))
        rows.append(("event loop", "main", loops * times.loop_ps + polling))
    elif threaded:
        jobs = offloaded_reads + offloaded_writes
        handed = jobs * times.push_ps
        taken_over = jobs * times.pop_ps
        if engine.policy == "owning_threads":
            handed = writes * (times.push_ps + times.collect_ps)
            # Each list is joined by one side and taken by the other; either tells half of the time.
            moved = per_request("list_moves") * times.done_ps
            moved += per_request("notifications") * (times.notify_ps + times.notice_ps) / 2
            handed += moved
            taken_over += moved
        elif engine.policy != "multiplexed":
            handed += offloaded_writes * times.done_ps
        if engine.policy == "shared_queues":
            handed += jobs * times.collect_ps
        freed, freed_by_main = per_request("freed_values"), per_request("inline_frees")
        handed += (freed - freed_by_main) * times.free_push_ps
        freeing_ps = mean(times.free_by_code_ps) / max(1e-9, mean(times.free_by_code_ps > 0))
        arguments_by_main = per_request("inline_arguments")
        handed += (1.0 - arguments_by_main) * times.free_push_ps * (times.free_arguments_ps > 0)
        rows += [
            ("free arguments", "I/O", (1.0 - arguments_by_main) * times.free_arguments_ps),
            ("free arguments", "main", arguments_by_main * times.free_arguments_ps),
            ("read the value to send", writer, mean(times.write_by_code_ps)),
            ("free replaced values", "I/O", (freed - freed_by_main) * freeing_ps),
            ("free replaced values", "main", freed_by_main * freeing_ps),
            ("hand over", "main", handed),
            ("take over", "I/O", taken_over),
            ("poll", reader, polling),
        ]
    else:
        rows.append(("event loop", "main", loops * times.loop_ps + polling))
    if prediction.threads_alike:
        rows = [(stage, "worker", time_ps) for stage, _, time_ps in rows]
    return [
        {"stage": stage, "thread": thread, "us_per_request": time_ps / _PS_PER_US}
        for stage, thread, time_ps in rows
        if time_ps > 0
    ]


def _forked_rows(
    result: NodeResult, times: NodeTimes, *, do_reads: bool
) -> list[tuple[str, str, float]]:
    """What sharing clients out costs, and how long the main thread waits for the slowest."""
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
        ("wait for I/O threads", "main", counters["join_wait_ps"] / completions),
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
