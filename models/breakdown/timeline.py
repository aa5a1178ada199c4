"""What the threads of a node do in a short window, as Chrome trace events.

One track per thread with its steps and what each consists of, arrows from step to step of every
request, and one span per request on its way. ui.perfetto.dev and chrome://tracing open it. The
format: N. Duca, D. Sinclair, *Trace Event Format* (Chromium project).
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import write_text_atomic
from forecache.sim.errors import InputError
from forecache.sim.plain import Result

from ..node.policies import POLICIES
from ..node.setup import NodeSetup, NodeTimes
from ..node.trace import (
    EXECUTE,
    LOOK_UP,
    MEMORY,
    OTHER,
    READ,
    RECEIVE,
    SEND,
    WRITE,
    Step,
    TracedRequest,
)
from ..prediction.predict import Prediction
from .latency import PARTS, stretches, traced_run, watch

WINDOW_MS = 1.0

_PS_PER_MS = 10**9
_PS_PER_NS = 1000

SERVER, GENERATOR, REQUESTS = 1, 2, 3
"""Process numbers of the tracks."""

_PROCESSES = {SERVER: "server", GENERATOR: "load generator", REQUESTS: "requests"}
_GENERIC = ("main thread", "io thread", "generator thread")
_HOPS = (SEND, READ, LOOK_UP, EXECUTE, WRITE, RECEIVE)

Event = dict[str, Any]


@dataclass(frozen=True)
class TimelineFile(Result):
    """A timeline that was written."""

    file: str
    given: dict[str, Any]
    """The point."""
    window_ms: float
    requests: int
    """Completed in the window."""
    events: int


def write_timeline(path: str | Path, prediction: Prediction, *, seed: int) -> TimelineFile:
    """Trace `WINDOW_MS` of a predicted point and write it.

    Raises
    ------
    InputError
        Nothing is served, or too much is on the way to be traced.
    """
    found = traced_run(prediction, seed=seed, window_ps=round(WINDOW_MS * _PS_PER_MS))
    if found is None:
        workload = prediction.case.scenario.workload
        raise InputError(
            f"--timeline {path}: found {workload.clients} clients with pipelines of "
            f"{workload.pipeline}; valid are points that serve requests, with at most 50,000 "
            "of them on the way."
        )
    trace = timeline(*found)
    write_text_atomic(path, json.dumps(trace, separators=(",", ":")) + "\n")
    return TimelineFile(
        file=str(path),
        given=prediction.case.given,
        window_ms=WINDOW_MS,
        requests=trace["otherData"]["requests"],
        events=len(trace["traceEvents"]),
    )


def timeline(policy: str, times: NodeTimes, setup: NodeSetup) -> dict[str, Any]:
    """The measured window of a run, as a JSON object of trace events.

    A request is shown if its reply was taken within the window. Gaps on a track are time in which
    a thread waits: for work, a wake-up or a line from another core.
    """
    steps: list[Step] = []
    requests: list[TracedRequest] = []

    def keep_step(step: Step) -> None:
        if not step.idle and (step.end_ps or 0) > setup.warmup_ps:
            steps.append(step)

    def keep_request(request: TracedRequest) -> None:
        if (request.done_ps or 0) >= setup.warmup_ps:
            requests.append(request)

    ran = watch(policy, times, setup, on_step=keep_step, on_request=keep_request)
    requests.sort(key=lambda request: (request.due_ps, request.client, request.index))
    arrows = _arrows(requests, setup)
    events = _names(setup, alike=POLICIES[policy].threads_alike)
    for step in sorted(steps, key=lambda step: (step.thread, step.start_ps)):
        events += _step_events(step, arrows.get(id(step), []), setup)
    events += _request_events(requests, setup)
    return {
        "displayTimeUnit": "ns",
        "otherData": {"policy": ran, "requests": len(requests)},
        "traceEvents": events,
    }


def _names(setup: NodeSetup, *, alike: bool) -> list[Event]:
    """Names and order of processes and threads."""
    events: list[Event] = []

    def name(pid: int, tid: int, what: str, value: str) -> None:
        order = pid if what == "process" else tid
        for kind, own in (("name", {"name": value}), ("sort_index", {"sort_index": order})):
            about: Event = {"ph": "M", "pid": pid, "tid": tid}
            events.append({**about, "name": f"{what}_{kind}", "args": own})

    for pid, title in _PROCESSES.items():
        name(pid, 0, "process", title)
    for number in range(setup.io_threads + setup.generators):
        pid, tid = _track(number, setup)
        kind = (
            "generator thread" if pid == GENERATOR else "worker thread" if alike else "I/O thread"
        )
        main = number == 0 and not alike
        name(pid, tid, "thread", "main thread" if main else f"{kind} {tid}")
    return events


def _track(number: int, setup: NodeSetup) -> tuple[int, int]:
    """Process and thread number of an agent."""
    if number < setup.io_threads:
        return SERVER, number
    return GENERATOR, number - setup.io_threads + 1


def _ts(time_ps: int) -> float:
    """Microseconds, in whole nanoseconds: all ends are rounded alike, so that steps nest."""
    return round(time_ps / _PS_PER_NS) / 1000


def _label(step: Step, setup: NodeSetup) -> str:
    """What a step is called: the process function that took it, or what it consists of."""
    if step.thread >= setup.io_threads:
        if SEND in step.serves:
            return "send"
        return "receive" if step.name == "handle replies" else "poll"
    if step.name not in _GENERIC:
        return step.name
    parts = dict.fromkeys(PARTS[what] for what, _ in step.parts if what not in (MEMORY, OTHER))
    return ", ".join(parts) or "event loop"


def _step_events(step: Step, arrows: Sequence[Event], setup: NodeSetup) -> list[Event]:
    pid, tid = _track(step.thread, setup)
    on = {"pid": pid, "tid": tid}
    end_ps = step.end_ps or step.start_ps
    label = _label(step, setup)
    begin: Event = {"ph": "B", "cat": "step", "name": label, "ts": _ts(step.start_ps), **on}
    events = [begin, *arrows]
    pieces = step.pieces(end_ps)
    if len(pieces) > 1:
        for what, start_ps, stop_ps in pieces:
            name = "work" if pid == GENERATOR and what == OTHER else PARTS[what]
            events.append({"ph": "B", "cat": "part", "name": name, "ts": _ts(start_ps), **on})
            events.append({"ph": "E", "ts": _ts(stop_ps), **on})
    events.append({"ph": "E", "ts": _ts(end_ps), **on})
    return events


def _arrows(requests: Sequence[TracedRequest], setup: NodeSetup) -> dict[int, list[Event]]:
    """Flow events by the step they start at or lead to, of requests that began in the window."""
    arrows: dict[int, list[Event]] = {}
    for number, request in enumerate(requests):
        # One step may serve a request in several ways.
        taken = (request.steps.get(what) for what in _HOPS)
        hops = list({id(step): step for step in taken if step is not None}.values())
        if hops[0].start_ps < setup.warmup_ps or hops[-1].end_ps is None:
            continue
        phases = ["s", *["t"] * (len(hops) - 2), "f"]
        for phase, step in zip(phases, hops, strict=True):
            pid, tid = _track(step.thread, setup)
            about: Event = {"ph": phase, "cat": "request", "name": "request", "id": hex(number)}
            at = {"bp": "e", "ts": _ts(step.start_ps), "pid": pid, "tid": tid}
            arrows.setdefault(id(step), []).append(about | at)
    return arrows


def _request_events(requests: Sequence[TracedRequest], setup: NodeSetup) -> list[Event]:
    """A span per request with its stations inside; requests that overlap lie on different rows."""
    events: list[Event] = []
    free: list[tuple[int, int]] = []
    rows = 0
    for request in requests:
        done_ps = request.done_ps or request.due_ps
        if free and free[0][0] <= request.due_ps:
            _, row = heapq.heappop(free)
        else:
            row, rows = rows, rows + 1
        heapq.heappush(free, (done_ps, row))
        on = {"cat": "request", "id": hex(row), "pid": REQUESTS, "tid": 0}
        about = {"client": request.client, "request": request.index}
        events.append(
            {"ph": "b", "name": "request", "ts": _ts(request.due_ps), "args": about, **on}
        )
        for station, thread, start_ps, end_ps in stretches(request, setup):
            begin: Event = {"ph": "b", "name": station, "ts": _ts(start_ps), **on}
            events.append({**begin, "args": {"thread": thread}})
            events.append({"ph": "e", "name": station, "ts": _ts(end_ps), **on})
        events.append({"ph": "e", "name": "request", "ts": _ts(done_ps), **on})
    return events
