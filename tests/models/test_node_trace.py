"""A traced run is the same run; its steps fill every thread's time, its requests every latency."""

import itertools
from collections import Counter
from typing import Any

import pytest

from forecache.models.breakdown.latency import STATIONS, sample, time_by_station
from forecache.models.node.policies import POLICIES, under_policy
from forecache.models.node.reference import run_node, run_reference
from forecache.models.node.setup import NodeSetup
from forecache.models.node.trace import Step, TracedNode, TracedRequest
from verification.nodes.sample_node import sample_setup, sample_times

LOADS: dict[str, dict[str, Any]] = {
    "closed loop over a network": {"clients": 40, "generators": 3},
    "the same host": {"clients": 40, "generators": 3, "same_host": 1},
    "one client": {"clients": 1, "generators": 1, "end_ps": 8 * 10**8},
    "pipelines": {"clients": 12, "pipeline": 20, "read_limit_bytes": 3_000},
    "thinking": {"clients": 20, "think_ps": 50_000_000},
    "open loop": {"clients": 20, "open_loop": 1, "mean_interarrival_ps": 8_000_000},
    "interruptions": {"clients": 20, "interruption_gap_ps": 200_000_000},
    "overloaded": {"clients": 4, "open_loop": 1, "mean_interarrival_ps": 1_000_000},
}


def setup_of(policy: str, load: dict[str, Any]) -> NodeSetup:
    threads = 1 if policy == "single_thread" else 4
    setup = sample_setup(
        **{
            "io_threads": threads,
            "initial_active": threads,
            "whole_pipeline": int(policy == "shared_queues"),
            "warmup_ps": 10**8,
            "end_ps": 4 * 10**8,
            **load,
        }
    )
    return under_policy(policy, setup)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_traced_run_is_the_same_and_nothing_of_a_latency_is_lost(policy: str, load: str) -> None:
    times, setup = sample_times(), setup_of(policy, LOADS[load])
    steps: list[Step] = []
    requests: list[TracedRequest] = []
    plain = run_reference(policy, times, setup)
    node = run_node(
        policy, TracedNode(times, setup, on_step=steps.append, on_request=requests.append)
    )
    assert node.log == plain.log
    assert node.counters == plain.counters
    assert [thread.busy_ps for thread in node.threads] == [t.busy_ps for t in plain.threads]
    assert node.latency == plain.latency

    assert len(requests) > 10
    for request in requests:
        spent = time_by_station(request, setup)
        assert min(spent.values()) > 0
        assert spent.total() == (request.done_ps or 0) - request.due_ps
    within = sample(policy, times, setup)
    # A trace goes on until the reply is taken, the tool's clock stops before.
    taken_ps = node.latency.sum_ps + node.counters["uncounted_ps"]
    assert within.latency_ps == within.spent_ps.total() == taken_ps
    assert within.requests == node.latency.count

    by_thread: dict[int, list[Step]] = {}
    for step in steps:
        by_thread.setdefault(step.thread, []).append(step)
        pieces = step.pieces(0)
        assert sum(end - start for _, start, end in pieces) == (step.end_ps or 0) - step.start_ps
    for own in by_thread.values():
        assert all(a.end_ps == b.start_ps for a, b in itertools.pairwise(own))


def test_a_lone_request_spends_what_its_steps_cost() -> None:
    """One client, one thread: every row is a duration of the sample, or a sum of such."""
    times = sample_times(
        jitter=sample_times().jitter * 0 + (1 << 16), stall_ps=sample_times().stall_ps * 0
    )
    setup = sample_setup(clients=1, generators=1, warmup_ps=10**8, end_ps=4 * 10**9)
    spent: Counter[str] = Counter()
    found = sample("single_thread", times, setup)
    for (station, _), lasts_ps in found.spent_ps.items():
        spent[station] += lasts_ps
    assert list(dict.fromkeys(STATIONS)) == list(STATIONS)
    assert set(spent) <= set(STATIONS)

    def each(station: str) -> float:
        return spent[station] / found.requests

    get, set_ = (float(times.execute_by_code_ps[code]) for code in (0, 1))
    assert min(get, set_) <= each("execute") <= max(get, set_)
    assert each("wait for memory") == 0
    # To the server: the wire and the way; found by an epoll_wait after the main thread woke.
    assert each("network to the server") >= times.one_way_ps
    assert each("wait in the socket") == pytest.approx(times.wake_latency_ps.mean(), rel=0.02)
    assert each("wait to be read") == times.poll_ps + times.poll_event_ps + times.block_ps
    assert each("wait to be executed") == each("wait to be written") == 0


def test_threads_that_read_and_write_are_named() -> None:
    helped = sample("asynchronous", sample_times(), setup_of("asynchronous", {"clients": 60}))
    thread_kind: dict[str, Counter[str]] = {}
    for (station, thread), lasts_ps in helped.spent_ps.items():
        thread_kind.setdefault(station, Counter())[thread] += lasts_ps
    mostly = {station: threads.most_common(1)[0][0] for station, threads in thread_kind.items()}
    assert mostly["read"] == mostly["write"] == "I/O"
    assert mostly["execute"] == mostly["look up ahead"] == "main"
    assert mostly["receive"] == mostly["send"] == "load generator"
    assert mostly["network to the client"] == "network"
    breakdown = helped.breakdown()
    assert sum(row.us for row in breakdown.stations) == pytest.approx(breakdown.mean_us)
