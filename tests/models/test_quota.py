"""CPU quotas of a control group: what a server does with a part of the CPU time per period."""

from typing import Any

import pytest

from forecache.models.advice.answers import load_cases
from forecache.models.node.simulate import NodeResult, simulate_node
from forecache.models.prediction.node_setup import node_setup
from forecache.models.prediction.predict import predict_cases
from forecache.models.prediction.run_length import window
from forecache.models.prediction.simulation import pilot_run, times_of
from forecache.sim.errors import InputError
from verification.nodes.sample_node import sample_setup, sample_times

MS = 10**9
PERIOD_PS = 100 * MS
SPINNING = ("asynchronous", "fork_join", "shared_queues")
SLEEPING = ("owning_threads", "locked_threads", "multiplexed")


def run(policy: str, *, clients: int = 60, **changes: Any) -> NodeResult:
    """Five periods of a closed loop over a fast network, after two."""
    setup = sample_setup(
        clients=clients,
        generators=4,
        io_threads_do_reads=1,
        whole_pipeline=int(policy == "shared_queues"),
        initial_active=changes.get("io_threads", 1) if policy == "shared_queues" else 1,
        warmup_ps=2 * PERIOD_PS,
        end_ps=7 * PERIOD_PS,
        **changes,
    )
    return simulate_node(policy, sample_times(one_way_ps=1_000_000), setup)


@pytest.mark.parametrize("cores", [0.1, 0.5, 0.93])
@pytest.mark.parametrize("tick_ms", [0, 4])
def test_a_saturated_thread_keeps_the_quotas_share_of_its_throughput(
    cores: float, tick_ms: int
) -> None:
    """That a slice's end is noticed at a tick only changes when it stops, not how much it works."""
    alone = run("single_thread")
    limited = run("single_thread", quota_ps=round(cores * PERIOD_PS), tick_ps=tick_ms * MS)
    # What is owed or left at the ends of the window: a tick or a slice in five periods.
    assert limited.throughput_rps == pytest.approx(cores * alone.throughput_rps, abs=0.015 * 4e5)
    assert limited.quota_utilisation == pytest.approx(1.0, abs=0.015 / cores)
    assert limited.counters["throttled_periods"] == 5


def test_whoever_waits_when_the_thread_is_stopped_waits_for_the_next_period() -> None:
    """Once a period all clients do; the stop lasts what the quota leaves of the period."""
    clients = 400
    limited = run("single_thread", clients=clients, quota_ps=PERIOD_PS // 4, tick_ps=0)
    waited = 5 * clients / limited.completions
    assert waited > 0.005
    quantile = limited.latency.quantile
    assert quantile(1.0 - 0.5 * waited) / MS == pytest.approx(75.0, rel=0.03)
    assert limited.latency.max_ps / MS == pytest.approx(75.0, rel=0.05)
    assert quantile(1.0 - 1.5 * waited) / MS < 5.0


def test_periods_of_the_same_share_stop_for_as_long_as_they_last() -> None:
    """A tenth of the period: a tenth of the wait, ten times as often, and nothing else."""
    long = run("single_thread", quota_ps=PERIOD_PS // 2, tick_ps=0)
    short = run(
        "single_thread", quota_ps=PERIOD_PS // 20, quota_period_ps=PERIOD_PS // 10, tick_ps=0
    )
    assert short.throughput_rps == pytest.approx(long.throughput_rps, rel=0.01)
    assert short.latency.max_ps == pytest.approx(long.latency.max_ps / 10, rel=0.1)
    assert short.counters["throttled_periods"] == 10 * long.counters["throttled_periods"]


@pytest.mark.parametrize("policy", ["single_thread", *SPINNING, *SLEEPING])
def test_a_quota_that_is_not_reached_changes_nothing(policy: str) -> None:
    threads = 1 if policy == "single_thread" else 3
    changes = {"io_threads": threads, "open_loop": 1, "mean_interarrival_ps": 60_000_000}
    ample = run(policy, **changes, quota_ps=threads * PERIOD_PS)
    assert ample.counters == run(policy, **changes).counters
    assert ample.latency == run(policy, **changes).latency


def test_a_thread_that_sleeps_saves_its_quota_and_spinning_ones_burn_it() -> None:
    """A twentieth of the load that one thread could carry, and half a core."""
    load = {"open_loop": 1, "mean_interarrival_ps": 200_000_000, "quota_ps": PERIOD_PS // 2}
    alone = run("single_thread", **load)
    assert alone.counters["throttles"] == 0
    assert alone.latency.max_ps < MS
    # Kept busy by one event a thread, all three spin on.
    spinning = run("asynchronous", io_threads=3, events_per_io_thread=0, **load)
    assert spinning.counters["throttled_periods"] == 5
    assert spinning.quota_utilisation == pytest.approx(1.0, abs=0.05)
    assert spinning.latency.mean > 10 * MS > 100 * alone.latency.mean


@pytest.mark.parametrize("policy", [*SPINNING, *SLEEPING])
def test_threads_take_no_more_than_the_quota(policy: str) -> None:
    """On four cores of their own, and sharing two with each other and another program."""
    # Where they share, threads that sleep wait behind the other program for whole slices.
    for place, least in (({}, 0.5), ({"server_cores": 2, "other_threads": 1}, 0.05)):
        limited = run(policy, io_threads=4, quota_ps=PERIOD_PS * 3 // 2, **place)
        # Besides, what each core had or owed at the ends of the window: a slice and a tick.
        most = 1.0 + 4 * 9 / (5 * 150)
        assert least < limited.quota_utilisation < most


def test_another_program_has_what_a_quota_leaves_of_a_core() -> None:
    """Half of a core would be fair, the quota allows a quarter."""
    alone = run("single_thread")
    limited = run("single_thread", server_cores=1, other_threads=1, quota_ps=PERIOD_PS // 4)
    assert limited.throughput_rps == pytest.approx(alone.throughput_rps / 4, rel=0.05)
    fair = run("single_thread", server_cores=1, other_threads=1, quota_ps=PERIOD_PS * 9 // 10)
    assert fair.throughput_rps == pytest.approx(alone.throughput_rps / 2, rel=0.1)


def case(**fields: Any) -> dict[str, Any]:
    return {
        "host": "graviton3-c7g.4xlarge",
        "engine": "valkey",
        "engine_version": "8.0",
        "workload": {"clients": 50, "command": "get"},
        **fields,
    }


def test_a_scenario_says_the_quota_and_its_answer_how_far_it_is_used() -> None:
    points = predict_cases(
        load_cases(case(cpu_quota_cores={"sweep": [0.5, 1.0]})), draws=0, replications=1
    )
    half, whole = points
    assert half.bottleneck == "CPU quota"
    assert half.throttled_periods == 1.0
    # One thread can't take more than one core: nothing is counted.
    assert whole.utilisation["CPU quota"] == whole.throttled_periods == 0.0
    assert half.mean("throughput_rps") == pytest.approx(whole.mean("throughput_rps") / 2, rel=0.03)
    assert half.mean("p999_ms") == pytest.approx(50.0, rel=0.1)


def test_windows_hold_whole_periods() -> None:
    [(found, system)] = load_cases(case(cpu_quota_cores=0.3, cpu_quota_period_ms=30))
    inputs = system.inputs(found.scenario)
    warmup_ps, end_ps, *_ = window(
        inputs, pilot_run(inputs, times_of(inputs), seed=1), requests=1000
    )
    assert warmup_ps % (30 * MS) == end_ps % (30 * MS) == 0
    assert end_ps - warmup_ps >= 300 * MS
    setup = node_setup(inputs, warmup_ps=0, end_ps=1, seed=1, replication=0)
    assert (setup.quota_ps, setup.quota_period_ps) == (9 * MS, 30 * MS)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"cpu_quota_cores": 0}, "cpu_quota_cores"),
        ({"cpu_quota_cores": 0.005}, "found 0.005; valid is at least 0.01, which is"),
        ({"cpu_quota_cores": 1, "cpu_quota_period_ms": 2000}, "cpu_quota_period_ms"),
    ],
)
def test_quotas_that_a_kernel_refuses(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        load_cases(case(**fields))
