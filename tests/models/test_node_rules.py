"""The engines' rules, seen from outside: which thread does what, and when threads start."""

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from forecache.models.node import layout as at
from forecache.models.node.setup import QUANTILES, NodeSetup
from forecache.models.node.simulate import _check_range, simulate_node
from tests.models.steady_node import ONLY_SETS, STEADY, run
from verification.nodes.sample_node import sample_setup, sample_times


def test_threads_may_check_durations_at_the_same_time() -> None:
    """Each thread has durations of its own, which are remembered beside those of the others."""
    setup = sample_setup(clients=2, end_ps=10**7)
    every_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            tasks = [threads.submit(_check_often, setup) for _ in range(8)]
            for task in tasks:
                task.result()
    finally:
        sys.setswitchinterval(every_s)


def _check_often(setup: NodeSetup) -> None:
    for _ in range(300):
        _check_range(sample_times(), setup)


# --- asynchronous: threads by events per turn -----------------------------------------------------


def first_turn(*, events: int, **changes: Any) -> at.Node:
    """A node right after its first poll, which finds so many readable clients at once."""
    arrival_ps, sleep_ps = 10**6, 10**9
    # All requests arrive at one moment, and the main thread takes long to wake up.
    times = sample_times(
        **STEADY,
        one_way_ps=arrival_ps,
        wake_latency_ps=sleep_ps,
        block_ps=0,
        poll_ps=1_000,
        poll_event_ps=0,
        recv_ps_per_kib=0,
        send_ps_per_kib=0,
        **{f"generator_{step}_ps": 0 for step in ("poll", "poll_event", "send", "request")},
    )
    setup = sample_setup(
        io_threads=8,
        clients=events,
        generators=1,
        end_ps=arrival_ps + sleep_ps + 1_000 + 1,
        **changes,
    )
    return run("asynchronous", times, setup)


@pytest.mark.parametrize(
    ("events", "per_thread", "active"),
    [(1, 2, 1), (3, 2, 1), (4, 2, 2), (5, 2, 2), (7, 2, 3), (16, 2, 8), (100, 2, 8)]
    + [(7, 3, 2), (12, 3, 4), (9, 1, 8), (1, 0, 2), (4, 0, 5), (50, 0, 8)],
)
def test_one_thread_is_active_per_so_many_events(events: int, per_thread: int, active: int) -> None:
    """With 0 events per thread, all that could be of use: one more than there are events."""
    node = first_turn(events=events, events_per_io_thread=per_thread)
    assert node.counter("active_threads") == active


def test_threads_stop_when_events_become_few() -> None:
    busy = sample_setup(io_threads=4, clients=60, generators=5, end_ps=10**10)
    assert simulate_node("asynchronous", sample_times(), busy).final_active_threads > 1
    quiet = busy._replace(clients=1, generators=1)
    result = simulate_node("asynchronous", sample_times(), quiet)
    assert result.final_active_threads == 1
    assert result.io_thread_utilisation == [0.0, 0.0, 0.0]


# --- fork-join: all threads or none ---------------------------------------------------------------


def one_turn(
    longer: dict[str, Any] | None = None, *, clients: int, io_threads: int, **changes: Any
) -> at.Node:
    """A node after a turn that found all clients readable at once; each asks only once."""
    times = sample_times(
        **STEADY,
        one_way_ps=10**6,
        wake_latency_ps=10**9,
        **{f"generator_{step}_ps": 0 for step in ("poll", "poll_event", "send", "request")},
        **(longer or {}),
    )
    setup = sample_setup(
        io_threads=io_threads,
        clients=clients,
        generators=1,
        think_ps=10**12,
        end_ps=19 * 10**8,
        **changes,
    )
    return run("fork_join", times, setup)


@pytest.mark.parametrize(
    ("io_threads", "clients", "active"),
    [(2, 3, 1), (2, 4, 2), (4, 7, 1), (4, 8, 4), (4, 60, 4), (24, 47, 1), (24, 48, 24), (8, 1, 1)],
)
def test_all_threads_write_from_two_clients_for_each_on(
    io_threads: int, clients: int, active: int
) -> None:
    node = one_turn(clients=clients, io_threads=io_threads)
    assert node.counter("active_threads") == active
    assert node.counter("writes") == clients
    inline = clients if active == 1 else -(-clients // io_threads)
    assert node.counter("inline_writes") == inline
    assert all((node.thread(n, "busy_ps") > 0) is (active > 1) for n in range(1, io_threads))


@pytest.mark.parametrize(("clients", "own", "longest"), [(8, 2, 2), (9, 3, 2), (13, 4, 3)])
def test_the_main_thread_waits_for_the_slowest(clients: int, own: int, longest: int) -> None:
    times = sample_times()
    node = one_turn(clients=clients, io_threads=4)
    # Only GETs, or the copied bytes would differ; replies of 520 bytes.
    kinds = {int(mark & at.CONSTANTS["MARK_CODE"]) for mark in node.commands()["mark"][:, 0]}
    assert len(kinds) <= 2
    busy_ps = [node.thread(n, "busy_ps") for n in (1, 2, 3)]
    write_ps = times.send_ps + times.write_event_ps
    assert max(busy_ps) >= longest * (times.pop_ps + write_ps)
    # The counters' way there and back, and what threads do besides writing, is waited for.
    waited_ps = node.counter("join_wait_ps")
    expected_ps = 2 * times.handover_ps + longest * (times.pop_ps + write_ps) - own * write_ps
    copies_ps = clients * 520 * times.recv_ps_per_kib // 1024
    assert waited_ps == pytest.approx(max(0, expected_ps), abs=copies_ps)
    assert (waited_ps > 0) is (own == longest)


def test_every_wake_up_takes_what_is_drawn_for_it() -> None:
    """A lone client's request wakes the server, its reply the client's thread."""
    setup = sample_setup(clients=1, generators=1, warmup_ps=10**9, end_ps=3 * 10**11)
    mean_ps = 20_000_000
    alike, spread = (
        simulate_node("single_thread", sample_times(wake_latency_ps=table), setup)
        for table in (mean_ps, np.linspace(0, 2 * mean_ps, QUANTILES))
    )
    assert spread.latency.mean == pytest.approx(alike.latency.mean, rel=0.01)
    # The sum of two uniform ones is in its upper hundredth above 1.86 of 2.
    longer_ps = spread.latency.quantile(0.99) - alike.latency.quantile(0.99)
    assert longer_ps == pytest.approx(0.86 * 2 * mean_ps, rel=0.05)


def test_a_thread_that_has_slept_longer_takes_more_to_wake() -> None:
    """A lone client and its server sleep in turn, each as long as the other takes."""
    setup = sample_setup(clients=1, generators=1, same_host=1, warmup_ps=10**9, end_ps=10**11)
    times = sample_times(**STEADY)
    least = np.array([times.short_block_ps, times.short_wake_send_ps])
    most = np.array([times.block_ps, times.wake_send_ps])
    spent = []
    for long_ps in (0, 10**6, 10**9, 2 * 10**9):
        result = simulate_node("single_thread", times._replace(long_sleep_ps=long_ps), setup)
        paid_ps = [result.counters[f"{what}_ps"] for what in ("blocks", "paid_wakes")]
        spent.append(np.array(paid_ps) / result.completions)
    for whole in spent[:2]:
        np.testing.assert_allclose(whole, most, rtol=1e-3)
    # In proportion: the same sleep is half as far on the way to one that is twice as long.
    hardly, half_of_it = (paid - least for paid in spent[2:])
    assert (half_of_it > 0).all()
    np.testing.assert_allclose(hardly / half_of_it, 2.0, rtol=0.05)


def test_threads_read_only_if_told_to_and_active() -> None:
    setup = sample_setup(io_threads=4, clients=60, generators=30, end_ps=10**10, warmup_ps=10**9)
    for do_reads, share in ((0, 1.0), (1, 0.25)):
        counters = simulate_node(
            "fork_join", sample_times(), setup._replace(io_threads_do_reads=do_reads)
        ).counters
        assert counters["activations"] == 0
        assert counters["inline_writes"] / counters["writes"] == pytest.approx(0.25, abs=0.02)
        assert counters["inline_reads"] / counters["reads"] == pytest.approx(share, abs=0.02)
    few = setup._replace(io_threads_do_reads=1, clients=7, generators=7)
    counters = simulate_node("fork_join", sample_times(), few).counters
    assert counters["inline_reads"] == counters["reads"] > 100


def test_a_turn_with_few_writes_stops_the_threads() -> None:
    """And one with many starts them again: near the threshold they come and go."""
    setup = sample_setup(io_threads=4, clients=14, generators=14, end_ps=10**10, warmup_ps=10**9)
    counters = simulate_node("fork_join", sample_times(), setup).counters
    assert counters["activations"] > 100
    share = counters["active_thread_ps"] / 3 / (setup.end_ps - setup.warmup_ps)
    assert 0.05 < share < 0.95


@pytest.mark.parametrize("io_threads", [1, 2, 5, 9])
@pytest.mark.parametrize("do_reads", [0, 1])
def test_saturated_fork_join_is_as_fast_as_its_serial_parts_allow(
    io_threads: int, do_reads: int
) -> None:
    """Main's own work one after the other, plus the n-th part of what n threads share."""
    recv_us, execute_us, send_us = 0.5, 1.0, 2.0
    other = ("loop", "poll", "poll_event", "doze", "block", "read_event", "write_event", "push")
    nothing = (
        *other,
        "recv_ps_per_kib",
        "send_ps_per_kib",
        "pop",
        "done",
        "publish",
        "handover",
        "activate",
    )
    times = sample_times(
        **STEADY,
        **{name if name.endswith("kib") else f"{name}_ps": 0 for name in nothing},
        recv_ps=round(recv_us * 1e6),
        send_ps=round(send_us * 1e6),
        parse_by_code_ps=np.zeros(2, np.int64),
        execute_by_code_ps=np.full(2, round(execute_us * 1e6)),
    )
    setup = sample_setup(
        io_threads=io_threads,
        clients=1000,
        generators=40,
        io_threads_do_reads=do_reads,
        warmup_ps=2 * 10**10,
        end_ps=22 * 10**10,
    )
    shared_us = send_us + do_reads * recv_us
    serial_us = execute_us + (1 - do_reads) * recv_us
    result = simulate_node("fork_join", times, setup)
    expected_rps = 1e6 / (serial_us + shared_us / io_threads)
    # The last of a turn's clients do not divide evenly.
    assert result.throughput_rps == pytest.approx(expected_rps, rel=0.02)
    assert result.main_thread_utilisation > 0.97


def test_io_threads_of_fork_join_know_no_tls() -> None:
    setup = sample_setup(
        io_threads=4,
        clients=60,
        generators=30,
        end_ps=10**10,
        connection_gap_ps=10**9,
        offload_handshakes=1,
    )
    counters = simulate_node("fork_join", sample_times(), setup).counters
    assert counters["inline_handshakes"] == counters["handshakes"] > 3


# --- full rings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["asynchronous", "shared_queues"])
def test_without_room_in_the_ring_the_main_thread_serves(policy: str) -> None:
    setup = sample_setup(
        io_threads=2, clients=40, generators=4, end_ps=10**10, initial_active=2, warmup_ps=10**9
    )
    roomy = simulate_node(policy, sample_times(), setup).counters
    assert roomy["refused_jobs"] == roomy["inline_reads"] == roomy["inline_writes"] == 0
    tight = simulate_node(policy, sample_times(), setup._replace(job_capacity=4)).counters
    assert tight["refused_jobs"] > 0
    assert tight["inline_reads"] > 0
    assert tight["inline_writes"] > 0
    # Work is shared, not lost: the main thread helps where one I/O thread was the bottleneck.
    assert tight["completions"] > roomy["completions"]


# --- arguments ------------------------------------------------------------------------------------


def io_work_us(policy: str, free_arguments_ps: int, **changes: Any) -> tuple[float, float]:
    """Work of all I/O threads per command, and the share whose arguments the main thread freed."""
    times = sample_times(**STEADY, free_arguments_ps=free_arguments_ps)
    setup = sample_setup(
        io_threads=4, clients=40, generators=4, end_ps=10**10, warmup_ps=10**9, initial_active=4,
        whole_pipeline=1, **changes,
    )  # fmt: skip
    result = simulate_node(policy, times, setup)
    busy_us = sum(result.io_thread_utilisation) * result.window_s * 1e6
    commands = result.completions
    return busy_us / commands, result.counters["inline_arguments"] / commands


@pytest.mark.parametrize("policy", ["asynchronous", "shared_queues"])
@pytest.mark.parametrize("pipeline", [1, 8])
def test_arguments_are_freed_by_io_threads_unless_they_have_no_room(
    policy: str, pipeline: int
) -> None:
    before_us, _ = io_work_us(policy, 0, pipeline=pipeline)
    after_us, by_main = io_work_us(policy, 500_000, pipeline=pipeline)
    assert by_main == pytest.approx(0.0, abs=0.01)
    assert after_us - before_us == pytest.approx(0.5, rel=0.15)  # and how often they poll
    _, by_main = io_work_us(policy, 500_000, pipeline=pipeline, job_capacity=2)
    assert by_main > 0.05


# --- who parses what ------------------------------------------------------------------------------


@pytest.mark.parametrize(("whole_pipeline", "parsed"), [(0, 1), (1, 16)])
def test_a_reader_parses_the_first_command_or_all(whole_pipeline: int, parsed: int) -> None:
    """What the reader leaves, the main thread parses when it executes."""
    setup = sample_setup(
        io_threads=2,
        clients=1,
        generators=1,
        pipeline=16,
        events_per_io_thread=0,
        whole_pipeline=whole_pipeline,
        end_ps=10**10,
    )
    longer_ps = 1_000_000
    busy_us = []
    for extra_ps in (0, longer_ps):
        parse_ps = sample_times().parse_by_code_ps + extra_ps
        times = sample_times(**STEADY, **ONLY_SETS, parse_by_code_ps=parse_ps)
        node = run("asynchronous", times, setup)
        batches = node.counter("completions") / 16
        busy_us.append([node.thread(n, "busy_ps") / batches / 1e6 for n in (0, 1)])
    main_us, reader_us = np.subtract(busy_us[1], busy_us[0])
    assert reader_us == pytest.approx(parsed, rel=0.02)
    assert main_us == pytest.approx(16 - parsed, rel=0.02, abs=0.5)


def test_forked_readers_parse_the_first_command_and_the_main_thread_the_rest() -> None:
    """Four clients with 16 commands each, two of them read by the I/O thread."""
    busy_us = []
    for extra_ps in (0, 1_000_000):
        node = one_turn(
            {"parse_by_code_ps": sample_times().parse_by_code_ps + extra_ps},
            clients=4,
            io_threads=2,
            pipeline=16,
            initial_active=2,
            io_threads_do_reads=1,
        )
        assert node.counter("writes") == 4
        busy_us.append([node.thread(n, "busy_ps") / 1e6 for n in (0, 1)])
    main_us, reader_us = np.subtract(busy_us[1], busy_us[0])
    assert reader_us == pytest.approx(2)
    # Both read and parse at the same time; the main thread waits for the other.
    assert main_us == pytest.approx(62)


# --- shared queues: threads by sampled load -------------------------------------------------------

PERIOD_PS = 10**9
SAMPLED = {
    "io_threads": 6,
    "whole_pipeline": 1,
    "ignite_period_ps": PERIOD_PS,
    "grow_period_ps": PERIOD_PS,
}


def offered(share: float, **changes: Any) -> NodeSetup:
    """Poisson arrivals that keep a lone main thread busy for about a share of the time."""
    alone = sample_setup(clients=64, generators=4, open_loop=1, backlog_limit=256)
    rare = alone._replace(mean_interarrival_ps=10**9, end_ps=10**12)
    # One request at a time: what it costs, waking up included.
    cost_us = simulate_node("single_thread", sample_times(), rare).server_cpu_us_per_request
    interarrival_ps = round(cost_us * 1e6 / share * alone.generators)
    return alone._replace(mean_interarrival_ps=interarrival_ps, **SAMPLED | changes)


@pytest.mark.parametrize(("share", "ignited"), [(0.1, False), (0.25, False), (0.45, True)])
def test_the_first_thread_starts_above_30_percent_activity(share: float, ignited: bool) -> None:
    setup = offered(share, end_ps=50 * PERIOD_PS)
    result = simulate_node("shared_queues", sample_times(), setup)
    assert (result.final_active_threads > 1) is ignited
    if not ignited:
        assert result.main_thread_utilisation == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize(("periods", "active"), [(14.9, 1), (16.1, 2)])
def test_sixteen_samples_decide(periods: float, active: int) -> None:
    # The first sample is taken at once.
    crowd = sample_setup(clients=40, generators=8, end_ps=round(periods * PERIOD_PS), **SAMPLED)
    result = simulate_node("shared_queues", sample_times(), crowd)
    assert result.final_active_threads == active


def test_threads_grow_one_at_a_time_while_the_queue_is_deep() -> None:
    crowd = sample_setup(clients=300, generators=30, initial_active=2, **SAMPLED)
    active = [
        simulate_node(
            "shared_queues", sample_times(), crowd._replace(end_ps=periods * PERIOD_PS)
        ).final_active_threads
        for periods in range(1, 90)
    ]
    assert active[0] == 2
    assert active[-1] == 6
    assert set(np.diff(active)) == {0, 1}
    assert set(np.diff(np.flatnonzero(np.diff(active)))) <= {16, 17}


def test_idle_threads_stop_after_a_while() -> None:
    quiet = offered(
        0.05, initial_active=4, grow_period_ps=10**8, end_ps=10**11, shrink_after_ps=10**10
    )
    assert simulate_node("shared_queues", sample_times(), quiet).final_active_threads == 1
    patient = quiet._replace(shrink_after_ps=10**12)
    assert simulate_node("shared_queues", sample_times(), patient).final_active_threads == 4
