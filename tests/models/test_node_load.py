"""Clients of a node: when requests fall due, who thinks, who shares a generator thread."""

import numpy as np
import pytest

from forecache.models.node.policies import POLICIES
from forecache.models.node.simulate import simulate_node
from tests.models.steady_node import STEADY
from verification.nodes.sample_node import sample_setup, sample_times


def test_latency_counts_from_when_a_request_fell_due() -> None:
    """Above capacity the wait grows by the share of time that capacity lacks."""
    times = sample_times(
        **STEADY,
        execute_by_code_ps=np.array([10_000_000, 10_000_000]),
        # Two to a read, so that turns stay short.
        request_bytes_by_code=np.array([8192, 8192]),
    )
    setup = sample_setup(
        clients=20,
        generators=4,
        open_loop=1,
        backlog_limit=4096,
        mean_interarrival_ps=20_000_000,
        end_ps=40 * 10**9,
        series_ps=10**9,
    )
    result = simulate_node("single_thread", times, setup)
    assert result.counters["overflows"] == 0
    lacking = 1.0 - result.throughput_rps / 200_000
    assert 0.5 < lacking < 0.65
    mean_ps = result.series[:, 1] / result.series[:, 0]
    middle_ps = (np.arange(40) + 0.5) * 10**9
    np.testing.assert_allclose(mean_ps[10:], lacking * middle_ps[10:], rtol=0.05)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_open_loop_completes_what_arrives(policy: str) -> None:
    setup = sample_setup(
        io_threads=1 if policy == "single_thread" else 4,
        clients=100,
        generators=5,
        open_loop=1,
        mean_interarrival_ps=5 * 10**7,
        backlog_limit=64,
        warmup_ps=10**9,
        end_ps=10**11,
    )
    result = simulate_node(policy, sample_times(), setup)
    assert result.throughput_rps == pytest.approx(100_000, rel=0.03)
    assert result.counters["overflows"] == 0


def test_think_time_holds_clients_back() -> None:
    setup = sample_setup(clients=10, generators=2, think_ps=10**9, end_ps=10**11)
    result = simulate_node("single_thread", sample_times(), setup)
    cycle_s = 1e-3 + result.latency.mean * 1e-12
    assert result.throughput_rps == pytest.approx(10 / cycle_s, rel=0.02)


def test_clients_belong_to_threads_in_turn_or_in_blocks() -> None:
    in_turn = sample_setup(clients=6, generators=4)
    assert [in_turn.generator_of(client) for client in range(6)] == [0, 1, 2, 3, 0, 1]
    in_blocks = sample_setup(clients=6, generators=4, clients_in_blocks=1)
    assert [in_blocks.generator_of(client) for client in range(6)] == [0, 0, 1, 2, 2, 3]


def test_clients_that_start_together_wake_their_generator_thread_together() -> None:
    """Those of a thread that starts later stay in a row in the server's queues, and find the thread
    awake that the first of them has woken."""
    wakes = []
    for start_ps in (0, 40_000_000):
        setup = sample_setup(
            io_threads=2,
            clients=128,
            generators=8,
            same_host=1,
            generator_start_ps=start_ps,
            warmup_ps=10**9,
            end_ps=6 * 10**9,
        )
        counters = simulate_node("asynchronous", sample_times(), setup).counters
        wakes.append(counters["paid_wakes"] / counters["completions"])
    at_once, one_after_the_other = wakes
    assert one_after_the_other < at_once / 2
