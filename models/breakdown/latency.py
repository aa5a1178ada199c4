"""Where the time of a request goes: its latency, station by station, in a traced run.

The reference execution notes when each step that serves a request begins and ends
(`node/trace.py`). What lies between two of them is waiting, named by what is waited for,
so that the rows add up to the latency exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from forecache.sim.plain import Result

from ..node.policies import POLICIES, running, under_policy
from ..node.reference import run_node
from ..node.setup import NodeSetup, NodeTimes
from ..node.trace import (
    EXECUTE,
    INTERRUPTED,
    LOOK_UP,
    MEMORY,
    NETWORK_BACK,
    NETWORK_OUT,
    OTHER,
    PARSE,
    POLL,
    READ,
    RECEIVE,
    SEND,
    SIBLING,
    WRITE,
    Step,
    TracedNode,
    TracedRequest,
)
from ..prediction.node_setup import node_setup
from ..prediction.predict import Prediction
from ..prediction.run_length import starting_ps, whole_periods
from ..prediction.simulation import times_of
from ..step_times.inputs import NodeInputs

SAMPLE = 2000
"""Requests of a sample; whole round trips of all clients, if those are more."""

_LARGEST_SAMPLE = 100_000
"""Where a sample has to cover a period of a CPU quota."""

_WARM_UP_ROUND_TRIPS = 3
_MOST_OUTSTANDING = 50_000
_PS_PER_US = 1e6
_PS_PER_S = 10**12

_ORDER = (SEND, NETWORK_OUT, POLL, READ, LOOK_UP, EXECUTE, WRITE, NETWORK_BACK, RECEIVE)

_WAITS = {
    SEND: "wait to be sent",
    NETWORK_OUT: "network to the server",
    POLL: "wait in the socket",
    READ: "wait to be read",
    LOOK_UP: "wait to be executed",
    EXECUTE: "wait to be executed",
    WRITE: "wait to be written",
    NETWORK_BACK: "network to the client",
    RECEIVE: "wait in the load generator",
}
PARTS = {
    READ: "read",
    PARSE: "parse",
    LOOK_UP: "look up ahead",
    EXECUTE: "execute",
    MEMORY: "wait for memory",
    WRITE: "write",
    POLL: "poll",
    OTHER: "hand over",
    SIBLING: "beside a hyperthread",
    INTERRUPTED: "interrupted",
}
"""What a piece of a step is called."""

STATIONS = (
    *("wait to be sent", "send", "network to the server", "wait in the socket"),
    *("wait to be read", "read", "parse", "wait to be executed", "look up ahead", "execute"),
    *("wait for memory", "wait to be written", "write", "hand over", "poll"),
    *("beside a hyperthread", "interrupted"),
    *("network to the client", "wait in the load generator", "receive"),
)
"""In the order in which a request comes by."""

WAITING = frozenset(_WAITS.values()) - {_WAITS[NETWORK_OUT], _WAITS[NETWORK_BACK]}
"""Stations where a request waits for its turn; elsewhere it is served, or travels."""


def time_by_station(request: TracedRequest, setup: NodeSetup) -> Counter[tuple[str, str]]:
    """A finished request's latency in ps by (station, thread); the sum is the latency."""
    spent: Counter[tuple[str, str]] = Counter()
    for station, thread, start_ps, end_ps in stretches(request, setup):
        spent[station, thread] += end_ps - start_ps
    return spent


def stretches(request: TracedRequest, setup: NodeSetup) -> list[tuple[str, str, int, int]]:
    """A finished request's way as (station, thread, start, end) in ps, without gaps or overlaps."""
    found: list[tuple[str, str, int, int]] = []
    moments = {
        NETWORK_OUT: request.arrived_ps,
        POLL: request.polled_ps,
        NETWORK_BACK: request.returned_ps,
    }
    done_ps = request.done_ps or request.due_ps
    at_ps, reader = request.due_ps, request.steps.get(READ)

    def until(end_ps: int, station: str, thread: str) -> int:
        if end_ps > at_ps:
            found.append((station, thread, at_ps, end_ps))
        return max(at_ps, end_ps)

    for what in _ORDER:
        step = request.steps.get(what)
        if step is None:
            moment_ps = moments.get(what)
            if moment_ps is not None:
                thread = "network"
                if what == POLL:
                    thread = "" if reader is None else thread_kind(reader.thread, setup)
                at_ps = until(moment_ps, _WAITS[what], thread)
            continue
        thread = thread_kind(step.thread, setup)
        at_ps = until(step.start_ps, _WAITS[what], thread)
        for part, _, end_ps in step.pieces(done_ps):
            name = what if what in (SEND, RECEIVE) and part == OTHER else PARTS[part]
            at_ps = until(end_ps, name, thread)
    return found


def thread_kind(number: int, setup: NodeSetup) -> str:
    """Which kind of thread a number is."""
    if number == 0:
        return "main"
    return "I/O" if number < setup.io_threads else "load generator"


def watch(
    policy: str,
    times: NodeTimes,
    setup: NodeSetup,
    *,
    on_step: Callable[[Step], None] = lambda _step: None,
    on_request: Callable[[TracedRequest], None] = lambda _request: None,
) -> str:
    """Run a node and hand its finished steps and requests over.

    Returns
    -------
    str
        The policy that ran: without I/O threads every engine is single-threaded.
    """
    policy = running(policy, io_threads=setup.io_threads).name
    node = TracedNode(times, under_policy(policy, setup), on_step=on_step, on_request=on_request)
    run_node(policy, node)
    return policy


@dataclass(frozen=True)
class Station(Result):
    """A place where a request spends time, by thread."""

    station: str
    thread: str
    waits: bool
    """Whether it is one of `WAITING`."""
    us: float
    """Mean over the requests."""


@dataclass(frozen=True)
class LatencyBreakdown(Result):
    """The mean latency of requests, which the stations add up to."""

    requests: int
    """How many were traced."""
    mean_us: float
    stations: list[Station]
    """In the order in which a request comes by."""
    traced_mean_us: float
    """The mean of the traced requests, which that of the prediction takes the place of."""


@dataclass(frozen=True)
class TracedSample:
    """The requests of a traced run that were completed in its window.

    Attributes
    ----------
    latency_ps
        Sum of their latencies.
    spent_ps
        The same by (station, thread).
    """

    requests: int
    latency_ps: int
    spent_ps: Counter[tuple[str, str]]

    def breakdown(self) -> LatencyBreakdown:
        """The mean over the requests."""
        rows = sorted(self.spent_ps.items(), key=lambda row: STATIONS.index(row[0][0]))
        each = _PS_PER_US * max(1, self.requests)
        stations = [
            Station(station, thread, station in WAITING, spent / each)
            for (station, thread), spent in rows
        ]
        mean_us = self.latency_ps / each
        return LatencyBreakdown(self.requests, mean_us, stations, mean_us)


def sample(policy: str, times: NodeTimes, setup: NodeSetup) -> TracedSample:
    """Trace a run and add up where the requests of its window spent their time."""
    spent: Counter[tuple[str, str]] = Counter()
    counts = Counter(requests=0, latency_ps=0)

    def add(request: TracedRequest) -> None:
        done_ps = request.done_ps
        if done_ps is not None and setup.warmup_ps <= done_ps < setup.end_ps:
            counts["requests"] += 1
            counts["latency_ps"] += done_ps - request.due_ps
            for (station, thread), lasts_ps in time_by_station(request, setup).items():
                alike = POLICIES[policy].threads_alike and thread in ("main", "I/O")
                spent[station, "worker" if alike else thread] += lasts_ps

    watch(policy, times, setup, on_request=add)
    return TracedSample(counts["requests"], counts["latency_ps"], spent)


def trace_latency(prediction: Prediction, *, seed: int) -> LatencyBreakdown | None:
    """Where the latency of a predicted point goes, by a traced sample.

    None where nothing was completed, or so much is on the way that a sample would take minutes, or
    requests pile up, so that there is no latency to speak of.
    """
    found = None if prediction.overloaded else traced_run(prediction, seed=seed)
    if found is None:
        return None
    return at_mean(sample(*found).breakdown(), prediction.mean("mean_ms") * 1000.0)


def at_mean(breakdown: LatencyBreakdown, mean_us: float) -> LatencyBreakdown:
    """A traced sample whose parts add up to a mean that is known better than from the sample.

    What few requests miss is waiting: for a stall that is rare, in a backlog that comes and goes.
    The sample also counts until a reply is taken, where a tool's clock stops before.
    """
    rows, traced_us = breakdown.stations, breakdown.traced_mean_us
    waited_us = sum(row.us for row in rows if row.waits)
    served_us = traced_us - waited_us
    if mean_us > served_us and waited_us > 0.0:
        waits, serves = (mean_us - served_us) / waited_us, 1.0
    else:
        waits = serves = mean_us / traced_us if traced_us > 0.0 else 1.0
    stations = [replace(row, us=row.us * (waits if row.waits else serves)) for row in rows]
    return replace(breakdown, mean_us=mean_us, stations=stations)


def traced_run(
    prediction: Prediction, *, seed: int, window_ps: int | None = None
) -> tuple[str, NodeTimes, NodeSetup] | None:
    """Policy, durations and setup of a run to trace, at the nominal numbers of a prediction.

    It begins with the threads the engine settled on; `window_ps` is as in `traced_setup`.
    """
    rate_rps = prediction.mean("throughput_rps")
    if rate_rps <= 0:
        return None
    inputs = prediction.system.inputs(prediction.case.scenario)
    setup = traced_setup(
        inputs,
        rate_rps=rate_rps,
        active_threads=prediction.active_threads,
        seed=seed,
        window_ps=window_ps,
    )
    return None if setup is None else (inputs.engine.policy, times_of(inputs), setup)


def traced_setup(
    inputs: NodeInputs,
    *,
    rate_rps: float,
    active_threads: int,
    seed: int,
    window_ps: int | None = None,
) -> NodeSetup | None:
    """A run of a few thousand requests that begins with the threads the engine settled on.

    Parameters
    ----------
    rate_rps
        Requests per second, from a prediction.
    window_ps
        How long to measure; None for `SAMPLE` requests.

    Returns
    -------
    NodeSetup or None
        None where too many requests are on the way, or come in a period of a CPU quota, that the
        sample would take minutes.
    """
    workload = inputs.scenario.workload
    outstanding = workload.clients * workload.pipeline
    if workload.arrival == "open_loop":
        warm_up, measured = SAMPLE // 2, SAMPLE
    elif outstanding > _MOST_OUTSTANDING:
        return None
    else:
        warm_up = _WARM_UP_ROUND_TRIPS * outstanding
        measured = outstanding * max(1, round(SAMPLE / outstanding))
    request_ps = _PS_PER_S / rate_rps
    warmup_ps = starting_ps(inputs) + round(warm_up * request_ps)
    measured_ps = round(measured * request_ps)
    if inputs.sharing.quota_cores:
        warmup_ps, measured_ps = (whole_periods(inputs, ps) for ps in (warmup_ps, measured_ps))
        if warmup_ps + measured_ps > _LARGEST_SAMPLE * request_ps:
            return None
    setup = node_setup(
        inputs,
        warmup_ps=warmup_ps,
        end_ps=warmup_ps + (window_ps or measured_ps),
        seed=seed,
        replication=0,
    )
    return setup._replace(initial_active=active_threads)
