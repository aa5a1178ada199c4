"""Where the time of a request goes: its latency, station by station, in a traced run.

The reference execution notes when each step that serves a request begins and ends
(`node/reference/trace.py`). What lies between two of them is waiting, named by what is waited for,
so that the rows add up to the latency exactly.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from .node.reference import run_node
from .node.reference.trace import (
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
    WRITE,
    Journey,
    TracedNode,
)
from .node.setup import NodeSetup, NodeTimes
from .simulation import Inputs, node_setup

SAMPLE = 2000
"""Requests of a sample; whole round trips of all clients, if those are more."""

_WARM_UP_ROUND_TRIPS = 3
_MOST_OUTSTANDING = 50_000
_PS_PER_US = 1e6
_PS_PER_S = 10**12

_ORDER = (SEND, NETWORK_OUT, POLL, READ, LOOK_UP, EXECUTE, WRITE, NETWORK_BACK, RECEIVE)

_WAITS = {
    SEND: "wait to be sent",
    NETWORK_OUT: "network to the server",
    POLL: "wait in the socket for a poll",
    READ: "wait to be read",
    LOOK_UP: "wait to be executed",
    EXECUTE: "wait to be executed",
    WRITE: "wait to be written",
    NETWORK_BACK: "network to the client",
    RECEIVE: "wait in the load generator",
}
_PARTS = {
    READ: "read",
    PARSE: "parse",
    LOOK_UP: "look up ahead",
    EXECUTE: "execute",
    MEMORY: "wait for memory",
    WRITE: "write",
    POLL: "poll",
    OTHER: "hand over",
    INTERRUPTED: "interrupted",
}
STATIONS = (
    *("wait to be sent", "send", "network to the server", "wait in the socket for a poll"),
    *("wait to be read", "read", "parse", "wait to be executed", "look up ahead", "execute"),
    *("wait for memory", "wait to be written", "write", "hand over", "poll", "interrupted"),
    *("network to the client", "wait in the load generator", "receive"),
)
"""In the order in which a request comes by."""


def stations_of(journey: Journey, setup: NodeSetup) -> Counter[tuple[str, str]]:
    """A finished request's latency in ps by (station, thread); the sum is the latency."""
    spent: Counter[tuple[str, str]] = Counter()
    moments = {
        NETWORK_OUT: journey.arrived_ps,
        POLL: journey.polled_ps,
        NETWORK_BACK: journey.returned_ps,
    }
    done_ps = journey.done_ps or journey.due_ps
    at_ps, reader = journey.due_ps, journey.steps.get(READ)
    for what in _ORDER:
        step = journey.steps.get(what)
        if step is None:
            until_ps = moments.get(what)
            if until_ps is not None and until_ps > at_ps:
                thread = "network"
                if what == POLL:
                    thread = "" if reader is None else thread_of(reader.thread, setup)
                spent[_WAITS[what], thread] += until_ps - at_ps
                at_ps = until_ps
            continue
        thread = thread_of(step.thread, setup)
        if step.start_ps > at_ps:
            spent[_WAITS[what], thread] += step.start_ps - at_ps
            at_ps = step.start_ps
        for part, start_ps, end_ps in step.pieces(done_ps):
            if end_ps > at_ps:
                name = what if what in (SEND, RECEIVE) and part == OTHER else _PARTS[part]
                spent[name, thread] += end_ps - max(start_ps, at_ps)
                at_ps = end_ps
    return spent


def thread_of(number: int, setup: NodeSetup) -> str:
    """Which kind of thread a number is."""
    if number == 0:
        return "main"
    return "I/O" if number < setup.io_threads else "load generator"


@dataclass(frozen=True)
class Sample:
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

    def as_dict(self) -> dict[str, Any]:
        """Requests, their mean latency, and rows of station, thread and mean time, in us."""
        rows = sorted(self.spent_ps.items(), key=lambda row: STATIONS.index(row[0][0]))
        each = _PS_PER_US * max(1, self.requests)
        return {
            "requests": self.requests,
            "mean_us": self.latency_ps / each,
            "stations": [
                {"station": station, "thread": thread, "us": spent / each}
                for (station, thread), spent in rows
            ],
        }


def sample(policy: str, times: NodeTimes, setup: NodeSetup) -> Sample:
    """Trace a run and add up where the requests of its window spent their time."""
    spent: Counter[tuple[str, str]] = Counter()
    counts = Counter(requests=0, latency_ps=0)

    def add(journey: Journey) -> None:
        done_ps = journey.done_ps
        if done_ps is not None and setup.warmup_ps <= done_ps < setup.end_ps:
            counts["requests"] += 1
            counts["latency_ps"] += done_ps - journey.due_ps
            spent.update(stations_of(journey, setup))

    policy = policy if setup.io_threads > 1 else "single_thread"
    run_node(policy, TracedNode(times, setup, on_journey=add))
    return Sample(counts["requests"], counts["latency_ps"], spent)


def journey_setup(
    inputs: Inputs, *, rate_rps: float, active_threads: int, seed: int
) -> NodeSetup | None:
    """A run of a few thousand requests that begins with the threads the engine settled on.

    Parameters
    ----------
    rate_rps
        Requests per second, from a prediction.

    Returns
    -------
    NodeSetup or None
        None where so many requests are on the way that the sample would take minutes.
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
    warmup_ps = round(warm_up * request_ps)
    setup = node_setup(
        inputs,
        warmup_ps=warmup_ps,
        end_ps=warmup_ps + round(measured * request_ps),
        seed=seed,
        replication=0,
    )
    return setup._replace(initial_active=active_threads)
