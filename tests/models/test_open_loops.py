"""Open loops: measured once they have settled, and without a latency beyond capacity."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecache.models.advice.answers import load_cases, predicted_point
from forecache.models.advice.limits import find_limits
from forecache.models.node.simulate import NodeResult, simulate_node
from forecache.models.prediction.predict import LATENCIES, Prediction, predict_cases
from forecache.models.prediction.run_length import Growth, backlog_growth, grows, is_decided, window
from forecache.models.prediction.simulation import pilot_run, run, times_of
from verification.nodes.open_loops import ENGINES, check_policy
from verification.nodes.sample_node import sample_setup, sample_times


def predicted(rate_rps: float, *, draws: int = 0, **fields: Any) -> Prediction:
    scenario = {
        "host": "graviton3-c7g.4xlarge",
        "engine": "valkey",
        "engine_version": "9.1",
        "io_threads": 8,
        "workload": {"arrival": "open_loop", "clients": 650, "rate_rps": rate_rps},
        **fields,
    }
    [prediction] = predict_cases(load_cases(scenario), draws=draws, replications=2, requests=10_000)
    return prediction


def station(load: float, *, seed: int = 1, end_ps: int = 2 * 10**10) -> NodeResult:
    """A lone thread whose requests take about 10 us, at a share of what it can do."""
    times = sample_times(execute_by_code_ps=np.array([10_000_000, 10_000_000]))
    saturated = simulate_node("single_thread", times, sample_setup(clients=20, end_ps=10**10))
    setup = sample_setup(
        clients=20,
        open_loop=1,
        backlog_limit=4096,
        mean_interarrival_ps=round(2 * 1e12 / saturated.throughput_rps / load),
        warmup_ps=end_ps // 5,
        end_ps=end_ps,
        series_ps=end_ps // 256,
        seed=seed,
    )
    return simulate_node("single_thread", times, setup)


@pytest.mark.parametrize("load", [0.2, 0.8, 1.1, 3.0])
def test_a_backlog_grows_by_what_can_not_be_done(load: float) -> None:
    results = [station(load, seed=seed) for seed in range(1, 5)]
    growths = [backlog_growth(result) for result in results]
    assert grows(growths) == (load > 1.0)
    for result, growth in zip(results, growths, strict=True):
        flow = result.flow
        assert flow is not None
        gained = result.counters["arrivals"] - result.counters["overflows"]
        assert result.completions == gained + flow.at_start - flow.at_end
        lacking_rps = max(0.0, flow.rate_rps * (1.0 - 1.0 / load))
        assert growth.rps == pytest.approx(lacking_rps, rel=0.02, abs=4 * growth.error_rps)


def test_a_backlog_that_still_drains_or_speeds_up_is_not_decided() -> None:
    settled = Growth(0.0, 10.0, caught_up=True)
    assert is_decided(settled)
    assert not is_decided(replace(settled, rps=-40.0))
    assert not is_decided(replace(settled, rps=25.0))
    assert not is_decided(replace(settled, caught_up=False))
    assert not is_decided(replace(settled, left_over=True))
    overloaded = Growth(100.0, 10.0, caught_up=False)
    assert is_decided(overloaded)
    assert not is_decided(replace(overloaded, speeds_up=True))


def test_a_run_begins_to_measure_when_threads_and_backlog_have_settled() -> None:
    """Valkey 9.1 ramps its threads up; 800,000/s then have the latency of 9.0, not of a backlog."""
    newer = predicted(800_000)
    older = predicted(800_000, engine_version="9.0")
    assert not newer.overloaded
    assert not older.overloaded
    assert newer.mean("p50_ms") == pytest.approx(older.mean("p50_ms"), rel=0.5)
    assert newer.mean("throughput_rps") == pytest.approx(800_000, rel=0.02)


def test_how_a_run_begins_does_not_matter() -> None:
    [(case, system)] = load_cases(
        {
            "host": "graviton3-c7g.4xlarge",
            "engine": "valkey",
            "engine_version": "9.1",
            "io_threads": 8,
            "workload": {"arrival": "open_loop", "clients": 400, "rate_rps": 500_000},
        }
    )
    inputs = system.inputs(case.scenario)
    settled = pilot_run(inputs, times_of(inputs), seed=1)
    latencies = []
    for active in (1, settled.active_threads, 8):
        begun = replace(settled, active_threads=active)
        window_ps = window(inputs, begun, requests=10_000)
        latencies.append(run(inputs, requests=10_000, seed=1, window_ps=window_ps).latency.mean)
    assert latencies == pytest.approx([latencies[1]] * 3, rel=0.03)


def test_overload_has_a_growth_and_no_latency() -> None:
    points = [
        predicted_point(late, *find_limits([late], seed=1, search=False))
        for late in (predicted(rate, engine_version="8.1", io_threads=2) for rate in (6e5, 1.5e6))
    ]
    for rate_rps, point in zip((6e5, 1.5e6), points, strict=True):
        assert point.verdict == "OVERLOADED"
        assert all(getattr(point, name) is None for name in LATENCIES)
        completes, growth = point.throughput_rps, point.backlog_growth_rps
        assert completes.value + growth.value == pytest.approx(rate_rps)
        assert 0.0 <= growth.low <= growth.value <= growth.high <= rate_rps
    lower, higher = (point.throughput_rps.value for point in points)
    # Fuller batches serve a little more.
    assert higher == pytest.approx(lower, rel=0.08)


def test_numbers_that_overload_leave_a_latency_without_a_bound() -> None:
    prediction = predicted(1_000_000, draws=12)
    assert not prediction.overloaded
    assert any(metrics.overloaded for metrics in prediction.drawn)
    for name in LATENCIES:
        estimate = prediction.estimate(name)
        assert estimate is not None
        assert estimate.high == math.inf
        assert 0.0 < estimate.low <= estimate.value
    assert np.isinf(prediction.log_draws("p99_ms")).any()
    assert prediction.backlog_growth() is None
    throughput = prediction.interval("throughput_rps")
    assert throughput.low <= throughput.value <= throughput.high <= 1.02 * 1_000_000


def test_an_interval_near_capacity_begins_no_lower_than_at_less_load() -> None:
    """Draws near overload have long queues: they make no latency at other draws shorter."""
    lows, fastest = [], []
    for rate_rps in (600_000, 900_000, 1_030_000):
        prediction = predicted(rate_rps, draws=16)
        estimate = prediction.estimate("p50_ms")
        assert estimate is not None
        lows.append(estimate.low)
        fastest.append(math.exp(prediction.log_draws("p50_ms").min()))
        parts = prediction.parts("p50_ms")
        others = math.hypot(parts.monte_carlo, parts.discrepancy, parts.windows)
        assert estimate.low > 0.99 * fastest[-1] * math.exp(-others)
    symmetric = estimate.value * math.exp(-parts.parameters)
    assert symmetric < 0.95 * fastest[0]
    assert lows == sorted(lows)


def test_a_lone_connection_may_have_a_long_queue() -> None:
    """An open loop keeps what is due: 64 requests per connection are no limit of the server."""
    single = {"arrival": "open_loop", "clients": 1}
    fast = predicted(1e6, engine_version="8.1", io_threads=1, workload={**single, "rate_rps": 1e6})
    busy_rps = 0.9 * fast.mean("throughput_rps")
    workload = {**single, "rate_rps": busy_rps}
    busy = predicted(busy_rps, engine_version="8.1", io_threads=1, workload=workload)
    assert (fast.overloaded, busy.overloaded) == (True, False)
    assert fast.bottleneck == "clients"


@pytest.mark.parametrize("policy", ENGINES)
def test_random_open_loops_do_not_contradict_themselves(policy: str) -> None:
    assert check_policy(policy, scenarios=6) == []
