"""Threads that own their clients: who serves whom, what moves when, and who is woken."""

from typing import Any

import numpy as np
import pytest

from forecache.models.node import layout as at
from forecache.models.node.policies import under_policy
from forecache.models.node.setup import DRAWS, JITTER_ONE, NO_LIMIT, QUANTILES, NodeSetup, NodeTimes
from forecache.models.node.simulate import NodeResult, run_compiled, simulate_node
from verification.nodes.sample_node import SET, sample_setup, sample_times

STEADY = {
    "jitter": np.full(QUANTILES, JITTER_ONE),
    "stall_ps": np.zeros((2, QUANTILES), np.int64),
    "wire_ps_per_kib": 0,
    "code_by_draw": np.full(DRAWS, SET, np.int64),
}


def simulate(setup: NodeSetup, **changes: Any) -> NodeResult:
    return simulate_node("owning_threads", sample_times(**STEADY | changes), setup)


def run(times: NodeTimes, setup: NodeSetup) -> at.Node:
    node = at.new_node(times, under_policy("owning_threads", setup))
    run_compiled("owning_threads", node)
    return node


# --- whose client is whose ------------------------------------------------------------------------


@pytest.mark.parametrize(("clients", "shares"), [(1, [1, 0, 0]), (3, [1, 1, 1]), (8, [3, 3, 2])])
def test_a_client_belongs_to_the_thread_with_the_fewest(clients: int, shares: list[int]) -> None:
    """Rarely a request, on each connection in turn: work is as the clients are dealt."""
    setup = sample_setup(
        io_threads=4,
        clients=clients,
        generators=1,
        open_loop=1,
        mean_interarrival_ps=10**9,
        end_ps=10**12,
    )
    busy = simulate(setup).io_thread_utilisation
    assert np.array(busy) / sum(busy) == pytest.approx(np.array(shares) / clients, abs=0.02)


# --- no thread spins ------------------------------------------------------------------------------


def test_cpu_time_is_in_proportion_to_work() -> None:
    quiet = sample_setup(io_threads=8, clients=50, generators=2, think_ps=10**10, end_ps=10**12)
    result = simulate(quiet)
    assert result.final_active_threads == 8
    assert result.server_cpu_us_per_request == result.server_useful_cpu_us_per_request
    assert result.server_cpu_us_per_request < 20
    used = result.main_thread_utilisation + sum(result.io_thread_utilisation)
    spent = result.server_cpu_us_per_request * 1e-6 * result.throughput_rps
    assert used == pytest.approx(spent, rel=1e-9)
    assert used < 0.1


def test_a_lone_request_wakes_both_threads_and_a_crowd_hardly_any() -> None:
    lone = sample_setup(io_threads=2, clients=1, generators=1, end_ps=10**10)
    result = simulate(lone)
    per_request = result.counters["notifications"] / result.completions
    assert per_request == pytest.approx(2, rel=0.02)
    # The I/O thread sleeps twice, until the request and until it comes back, the main thread once.
    assert result.counters["blocks"] / result.completions == pytest.approx(3, rel=0.02)
    crowd = lone._replace(clients=200, generators=20, io_threads=4)
    result = simulate(crowd)
    assert result.counters["notifications"] / result.completions < 0.1
    assert min(result.io_thread_utilisation) > 0.95


def test_who_sleeps_is_woken_at_the_cost_of_who_wakes() -> None:
    """A lone client's request: the I/O thread wakes the main thread, which wakes it in turn."""
    setup = sample_setup(io_threads=2, clients=1, generators=1, end_ps=10**11)
    longer_ps = 10**6
    for field, times_each in (("wake_send_ps", 1), ("notify_ps", 1), ("notice_ps", 1)):
        busy = []
        for extra_ps in (0, longer_ps):
            times = sample_times(**STEADY)
            times = times._replace(**{field: getattr(times, field) + extra_ps})
            node = run(times, setup)
            requests = node.counter("completions")
            busy.append([node.thread(n, "busy_ps") / requests for n in (0, 1)])
        more = np.subtract(busy[1], busy[0]) / longer_ps
        assert more == pytest.approx([times_each, times_each], rel=0.02), field


# --- groups and batches ---------------------------------------------------------------------------


def at_once(clients: int, **changes: Any) -> at.Node:
    """All clients' requests arrive together while the one I/O thread sleeps."""
    arrival_ps, sleep_ps = 10**6, 10**9
    times = sample_times(
        **STEADY,
        one_way_ps=arrival_ps,
        wake_latency_ps=sleep_ps,
        **{f"generator_{step}_ps": 0 for step in ("poll", "poll_event", "send", "request")},
    )
    setup = sample_setup(
        io_threads=2, clients=clients, generators=1, end_ps=int(2.8 * sleep_ps), **changes
    )
    return run(times, setup)


@pytest.mark.parametrize(
    ("clients", "batch", "batches"),
    [(1, 16, 0), (2, 16, 1), (16, 16, 1), (32, 16, 1), (33, 16, 2), (49, 16, 3), (64, 16, 3)]
    + [(9, 4, 2), (8, 4, 1), (40, 1, 0), (40, 0, 0)],
)
def test_batches_of_one_size_and_a_last_one_up_to_twice_as_large(
    clients: int, batch: int, batches: int
) -> None:
    node = at_once(clients, prefetch_batch=batch, hand_over_group=1000)
    assert node.clients()["executed"].sum() == clients
    assert node.counter("prefetch_batches") == batches
    assert node.counter("prefetched_keys") == (clients if batches else 0)


def test_a_full_group_is_handed_over_before_the_thread_has_read_all() -> None:
    """The main thread is told with the first group and executes while the others are read."""
    read_ps = 10**7
    first = {}
    for group in (16, 1000):
        # Reading takes so long that the run ends before it is over, one client too early.
        times = sample_times(**STEADY, one_way_ps=10**6, recv_ps=read_ps, wake_latency_ps=10**9)
        setup = sample_setup(io_threads=2, clients=40, generators=1, hand_over_group=group)
        node = run(times, setup._replace(end_ps=10**9 + 39 * read_ps))
        first[group] = node.counter("notifications")
    assert first == {16: 1, 1000: 0}


def test_whole_turns_leave_two_threads_taking_turns_however_many_clients() -> None:
    """Redis 8.0 hands over once a turn: in a crowd each thread waits while the other works.

    So a request takes what both threads take for it, one after the other, and more clients don't
    change that. The 1,024 clients of one turn are no limit.
    """
    served = {}
    for clients in (400, 1600, 3200):
        setup = sample_setup(
            io_threads=2,
            clients=clients,
            generators=20,
            warmup_ps=10**11,
            end_ps=3 * 10**11,
            hand_over_group=NO_LIMIT,
        )
        result = simulate(setup)
        [io] = result.io_thread_utilisation
        assert result.main_thread_utilisation + io == pytest.approx(1.0, abs=0.05)
        served[clients] = result.throughput_rps
    assert served[3200] <= 1.01 * served[1600] <= 1.01**2 * served[400]
    assert served[3200] == pytest.approx(served[400], rel=0.1)


def test_lists_of_one_client_cost_a_lock_each() -> None:
    crowd = sample_setup(io_threads=2, clients=40, generators=8, end_ps=10**10)
    slower = {
        group: simulate(crowd._replace(hand_over_group=group), done_ps=10**6).throughput_rps
        for group in (1, 16)
    }
    assert slower[1] < 0.9 * slower[16]


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("whole_pipeline", "lookahead", "parsed"),
    [(0, NO_LIMIT, 1), (0, 4, 1), (1, 4, 4), (1, 16, 16), (1, NO_LIMIT, 16)],
)
def test_the_owner_parses_the_first_command_or_what_it_looks_ahead_to(
    whole_pipeline: int, lookahead: int, parsed: int
) -> None:
    setup = sample_setup(
        io_threads=2,
        clients=1,
        generators=1,
        pipeline=16,
        whole_pipeline=whole_pipeline,
        lookahead=lookahead,
        end_ps=10**11,
    )
    busy_us = []
    for extra_ps in (0, 10**6):
        parse_ps = sample_times().parse_by_code_ps + extra_ps
        node = run(sample_times(**STEADY, parse_by_code_ps=parse_ps), setup)
        batches = node.counter("completions") / 16
        busy_us.append([node.thread(n, "busy_ps") / batches / 1e6 for n in (0, 1)])
    main_us, owner_us = np.subtract(busy_us[1], busy_us[0])
    assert owner_us == pytest.approx(parsed, rel=0.02)
    assert main_us == pytest.approx(16 - parsed, rel=0.02, abs=0.1)


def test_a_client_that_the_main_thread_has_is_left_alone() -> None:
    """Its socket is reported again and again meanwhile, but read only when it is back."""
    setup = sample_setup(io_threads=2, clients=1, generators=1, pipeline=64, end_ps=10**10)
    result = simulate(setup, execute_by_code_ps=np.array([10**7, 10**7]))
    batches = result.completions / 64
    # 64 requests of 580 bytes: three reads of 16 KiB, each of them followed by an execution.
    assert result.counters["reads"] / batches == pytest.approx(3, rel=0.03)
    assert result.counters["polls"] / batches > 30
