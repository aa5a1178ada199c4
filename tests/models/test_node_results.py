"""What `simulate_node` promises: results that add up, repeat, and compare."""

from typing import Any

import numpy as np
import pytest

from forecache.models.node import layout as at
from forecache.models.node.policies import POLICIES
from forecache.models.node.simulate import (
    NodeResult,
    check_conservation,
    run_compiled,
    simulate_node,
)
from verification.nodes.sample_node import sample_setup, sample_times

WINDOW = {"warmup_ps": 10**9, "end_ps": 11 * 10**9, "series_ps": 10**9}


def simulate(policy: str, times: dict[str, Any] | None = None, **changes: Any) -> NodeResult:
    io_threads = 1 if policy == "single_thread" else 4
    usual = {"io_threads": io_threads, "clients": 60, "generators": 5, **WINDOW}
    if policy == "shared_queues":
        usual |= {"whole_pipeline": 1, "initial_active": 4}
    return simulate_node(policy, sample_times(**times or {}), sample_setup(**usual | changes))


@pytest.fixture(params=POLICIES)
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_results_add_up(policy: str) -> None:
    result = simulate(policy)
    assert result.policy == policy
    assert result.window_s == pytest.approx(0.01)
    assert result.completions == result.latency.count == result.counters["completions"] > 1000
    assert result.throughput_rps == pytest.approx(result.completions / 0.01)
    # Where all threads are alike, none of them is the main thread.
    alike = policy == "locked_threads"
    assert (result.main_thread_utilisation == 0.0) == alike
    assert result.main_thread_utilisation <= 1.0
    assert len(result.io_thread_utilisation) == (0 if policy == "single_thread" else 3 + alike)
    assert all(0.0 < share <= 1.0 for share in result.io_thread_utilisation)
    assert 0.0 < result.load_generator_utilisation <= 1.0
    assert result.server_cpu_us_per_request >= result.server_useful_cpu_us_per_request
    threads = 1 if policy == "single_thread" else 4
    busy_s = result.server_cpu_us_per_request * 1e-6 * result.completions
    assert busy_s <= threads * result.window_s * 1.001
    generator_s = result.generator_cpu_us_per_request * 1e-6 * result.completions
    assert generator_s == pytest.approx(5 * result.window_s * result.load_generator_utilisation)
    # Little's law, once more from outside: 60 clients with one request each.
    assert result.throughput_rps * result.latency.mean * 1e-12 == pytest.approx(60, rel=0.02)


def test_the_network_is_as_busy_as_its_bytes(policy: str) -> None:
    result = simulate(policy)
    wire_ps = result.counters["wire_bytes_out"] * 500_000 / 1024
    assert result.network_utilisation == pytest.approx(wire_ps / 10**10)
    # GET replies of 520 bytes, SET replies of 5.
    per_request = result.counters["wire_bytes_out"] / result.completions
    assert per_request == pytest.approx(0.8 * 520 + 0.2 * 5, rel=0.05)
    assert simulate(policy, same_host=1).network_utilisation == 0.0


def test_a_saturated_network_limits_throughput(policy: str) -> None:
    result = simulate(policy, {"wire_ps_per_kib": 50_000_000}, end_ps=101 * 10**9)
    assert result.network_utilisation == pytest.approx(1.0, abs=0.005)


def test_the_series_covers_the_run(policy: str) -> None:
    result = simulate(policy)
    assert result.series.shape == (11, 2)
    assert result.series[1:, 0].sum() == result.completions
    assert result.series[1:, 1].sum() == result.latency.sum_ps


def test_one_io_thread_is_a_single_thread(policy: str) -> None:
    result = simulate(policy, io_threads=1, initial_active=1, whole_pipeline=0)
    assert result.policy == "single_thread"
    assert result.io_thread_utilisation == []
    assert result.final_active_threads == 1
    assert result.latency == simulate("single_thread").latency


def test_generator_threads_without_clients_stay_idle(policy: str) -> None:
    result = simulate(policy, clients=2, generators=5)
    assert result.completions > 100
    assert result.load_generator_utilisation < 2 / 5


def test_a_run_repeats_and_replications_differ(policy: str) -> None:
    first, again = simulate(policy), simulate(policy)
    assert first.counters == again.counters
    assert first.latency == again.latency
    np.testing.assert_array_equal(first.series, again.series)
    assert simulate(policy, replication=1).latency != first.latency
    assert simulate(policy, seed=2).latency != first.latency


def marks(policy: str, io_threads: int) -> np.ndarray:
    """(clients, 32): the draws of each client's first requests, -1 where it made fewer."""
    setup = sample_setup(
        io_threads=io_threads, clients=40, generators=4, outstanding_limit=32, end_ps=10**9
    )
    node = at.new_node(sample_times(), setup)
    run_compiled(policy, node)
    sent = node.clients()["sent"]
    assert 5 < sent.min() <= sent.max() <= 32
    return np.where(np.arange(32) < sent[:, None], node.commands()["mark"], -1)


@pytest.mark.parametrize("name", ["asynchronous", "shared_queues", "fork_join"])
def test_more_threads_leave_every_clients_commands_alone(name: str) -> None:
    alone = marks("single_thread", 1)
    for io_threads in (2, 3, 8):
        helped = marks(name, io_threads)
        both = (alone >= 0) & (helped >= 0)
        assert both.sum() > 40 * 5
        np.testing.assert_array_equal(alone[both], helped[both])
    assert len(np.unique(alone[alone >= 0])) > 200


STAGES = [
    *("poll_ps", "recv_ps", "send_ps", "read_event_ps", "write_event_ps", "loop_ps"),
    *("push_ps", "pop_ps", "handover_ps", "one_way_ps", "generator_send_ps", "wire_ps_per_kib"),
    *("parse_by_code_ps", "execute_by_code_ps", "stall_ps"),
]


@pytest.mark.parametrize("load", [{}, {"pipeline": 16}, {"same_host": 1}])
def test_a_faster_stage_never_costs_throughput(policy: str, load: dict[str, int]) -> None:
    usual = sample_times()
    before = simulate(policy, **load).throughput_rps
    for stage in STAGES:
        faster = simulate(policy, {stage: getattr(usual, stage) // 2}, **load).throughput_rps
        # Batches form a little differently, which costs or gains a few per cent.
        assert faster > 0.95 * before, stage


def test_a_faster_bottleneck_gains(policy: str) -> None:
    crowd = {"clients": 400, "generators": 25}
    before = simulate(policy, **crowd).throughput_rps
    faster = simulate(policy, {"send_ps": sample_times().send_ps // 4}, **crowd).throughput_rps
    assert faster > 1.2 * before


def test_an_unknown_policy_and_an_empty_window_are_refused() -> None:
    with pytest.raises(ValueError, match="no policy named 'forkjoin'; there are single_thread"):
        simulate_node("forkjoin", sample_times(), sample_setup())
    with pytest.raises(ValueError, match="is empty"):
        simulate_node("single_thread", sample_times(), sample_setup(warmup_ps=5, end_ps=5))


# --- the checks themselves: each kind of damage is seen -------------------------------------------


def finished(**changes: Any) -> at.Node:
    setup = sample_setup(io_threads=4, clients=20, generators=2, end_ps=10**10, **changes)
    node = at.new_node(sample_times(), setup)
    run_compiled("asynchronous", node)
    check_conservation(node)
    return node


@pytest.mark.parametrize(
    ("field", "amount"),
    [
        *(("sent", 1), ("sent", -1), ("arrived", 1), ("arrived", -1)),
        *(("read", 10**6), ("executed", 10**6), ("written", 1), ("written", -1)),
        *(("returned", 1), ("returned", -1), ("received", 10**6)),
    ],
)
def test_a_lost_or_made_up_command_is_found(field: str, amount: int) -> None:
    node = finished()
    node.clients()[field][3] += amount
    with pytest.raises(RuntimeError, match=r"inconsistent: .*client 3"):
        check_conservation(node)


def test_a_lost_latency_is_found() -> None:
    node = finished()
    node.head["completions"] += 1
    with pytest.raises(RuntimeError, match="latencies are recorded"):
        check_conservation(node)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_wrong_latency_breaks_littles_law(factor: float) -> None:
    node = finished(think_ps=10**7)
    latency = at.LatencyHistogram()
    for _ in range(node.counter("completions")):
        latency.record(round(factor * node.latency().mean))
    node.histogram[:] = latency.counts
    with pytest.raises(RuntimeError, match="Little's law gives"):
        check_conservation(node)


def test_a_client_whose_thread_never_gets_a_core_waits_all_the_time() -> None:
    starved = {"clients": 3, "generators": 3, "generator_cores": 2, "generator_spins": 1}
    # The first two threads spin on both cores for a slice that is longer than the window.
    result = simulate("single_thread", same_host=1, slice_ps=10**12, **starved)
    assert result.completions > 50
    assert result.throughput_rps * result.latency.mean * 1e-12 == pytest.approx(2, rel=0.05)


def test_lost_arrivals_are_found_in_an_open_loop() -> None:
    node = finished(open_loop=1, outstanding_limit=64)
    node.head["arrivals"] += 10_000
    with pytest.raises(RuntimeError, match="are found"):
        check_conservation(node)
