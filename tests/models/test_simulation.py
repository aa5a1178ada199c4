"""From a scenario to a run: windows, warm-up, and what every queue must obey."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.node.simulate import NodeResult
from forecache.models.prediction import node_setup as setups
from forecache.models.prediction import run_length, simulation
from forecache.models.prediction.node_setup import node_setup
from forecache.models.prediction.predict import DRAW_REQUESTS, brief_run
from forecache.models.prediction.run_length import NEAR, Window, settling_ps, window
from forecache.models.prediction.simulation import at_rate, pilot_run, run, times_near, times_of
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import expand
from forecache.models.step_times.inputs import NodeInputs
from verification.queueing.mser import MSER_BATCH, mser5_across

ENGINES = ["redis-7.0", "valkey-8.0", "valkey-9.1"]
HOST = load_host("graviton3-c7g.4xlarge")


def inputs_of(engine: str, **fields: Any) -> NodeInputs:
    data = {"host": "graviton3-c7g.4xlarge", "engine": engine, **fields}
    [case] = expand(data, file="test", schema=Scenario)
    system = System(HOST, load_engine(engine), load_generator("valkey-benchmark"))
    return system.inputs(case.scenario)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "workload",
    [
        {"clients": 50},
        {"clients": 50, "pipeline": 16},
        {"clients": 200, "think_us": 2000},
        {"arrival": "open_loop", "rate_rps": 80_000, "clients": 100},
    ],
)
def test_a_window_holds_about_the_requests_asked_for(engine: str, workload: dict[str, Any]) -> None:
    asked = 60_000
    inputs = inputs_of(engine, io_threads=3, workload=workload)
    result = run(inputs, requests=asked, seed=1)
    if pilot_run(inputs, times_of(inputs), seed=1).changing:
        # Whole turns of starting and stopping a thread take longer than so few requests.
        assert result.completions > 0.99 * asked
    else:
        assert result.completions == pytest.approx(asked, rel=0.05)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_warm_up_outlasts_the_transient(engine: str) -> None:
    """What is measured first is like the rest, and so is what MSER-5 would cut of it.

    Of a steady series it cuts some by chance alone, so where it cuts says nothing by itself.
    """
    inputs = inputs_of(engine, io_threads=4, workload={"clients": 100})
    pilot = pilot_run(inputs, times_of(inputs), seed=3)
    warmup_ps, end_ps, *_ = window(inputs, pilot, requests=60_000)
    series = []
    for replication in range(10):
        setup = node_setup(inputs, warmup_ps=0, end_ps=end_ps, seed=3, replication=replication)
        result = simulation.simulate_node(inputs.engine.policy, times_of(inputs), setup)
        completions, latency_ps = result.series.T
        series.append(latency_ps / np.maximum(completions, 1))
    # Without the last entry, which is all but empty.
    measured = np.array(series)[:, warmup_ps // setup.series_ps + 1 : -1]
    for cut in (MSER_BATCH, max(MSER_BATCH, mser5_across(measured).cut)):
        assert measured[:, :cut].mean() == pytest.approx(measured[:, cut:].mean(), rel=0.005)


def active_threads(result: NodeResult) -> float:
    """Active I/O threads, on average over the window."""
    return result.counters["active_thread_ps"] / (result.window_s * 1e12)


@pytest.mark.parametrize("io_threads", [4, 8, 12])
def test_draws_that_begin_with_the_pilots_threads_serve_what_others_do(io_threads: int) -> None:
    """Each has the throughput that it has with time to settle, and their mean is the same."""
    workload = {"clients": 650, "keys": 100_000}
    inputs = inputs_of("valkey-9.1", io_threads=io_threads, workload=workload)
    pilot = pilot_run(inputs, times_of(inputs), seed=1)
    system = System(HOST, inputs.engine, load_generator("valkey-benchmark"))
    settled = window(inputs, pilot, requests=DRAW_REQUESTS, brief=True, near=NEAR)
    logs = []
    for number in range(8):
        drawn = system.inputs(inputs.scenario, draw=number)
        brief = brief_run(drawn, pilot, seed=1, replication=number)
        long = run(drawn, requests=DRAW_REQUESTS, seed=1, replication=number, window_ps=settled)
        logs.append(np.log(brief.values["throughput_rps"] / long.throughput_rps))
    assert np.abs(logs).max() < 0.05
    assert abs(np.mean(logs)) < 0.01


def test_a_loop_that_begins_near_where_it_settles_ends_up_where_others_do() -> None:
    """Valkey 9.1 starts thread by thread: beginning with six of eight saves most of that.

    With three million keys it stays at six threads or at seven, whichever it came by.
    """
    inputs = inputs_of("valkey-9.1", io_threads=12, workload={"clients": 650, "keys": 100_000})
    times = times_of(inputs)
    pilot = pilot_run(inputs, times, seed=1)
    near = window(inputs, pilot, requests=60_000)
    far = window(inputs, replace(pilot, active_threads=0), requests=60_000)
    assert 2 < near.initial_active < pilot.active_threads
    assert far.initial_active == 0
    whole = settling_ps(inputs)
    far = Window(whole + far.warmup_ps, whole + far.end_ps)
    assert near.warmup_ps < far.warmup_ps
    found, known = (
        np.mean(
            [
                (result.throughput_rps, result.latency.quantile(0.99), active_threads(result))
                for n in range(4)
                for result in [run(inputs, requests=1, seed=1, replication=n, window_ps=window_ps)]
            ],
            axis=0,
        )
        for window_ps in (near, far)
    )
    assert found == pytest.approx(known, rel=0.03)


def test_every_thread_of_the_load_generator_starts_before_the_window_begins() -> None:
    inputs = inputs_of(
        "valkey-8.0", io_threads=9, workload={"clients": 400}, load_generator={"threads": 50}
    )
    slow = replace(inputs, generator=replace(inputs.generator, thread_start_us=1000.0))
    warmup_ps, end_ps, *_ = window(slow, pilot_run(slow, times_of(slow), seed=1), requests=10_000)
    result = run(slow, requests=10_000, seed=1, window_ps=Window(warmup_ps, end_ps))
    assert warmup_ps > 49 * 10**9 + 9 * result.latency.mean
    prompt = replace(inputs, generator=replace(inputs.generator, thread_start_us=0.0))
    assert result.throughput_rps == pytest.approx(
        run(prompt, requests=10_000, seed=1).throughput_rps, rel=0.1
    )


@pytest.mark.parametrize(
    ("workload", "longest_s"),
    [
        ({"arrival": "open_loop", "rate_rps": 0.05, "clients": 10}, 3600),
        ({"clients": 1, "think_us": 1e7}, 3600),
        ({"clients": 100_000, "think_us": 1e7}, 40),
    ],
)
def test_rare_requests_end_the_window_early(workload: dict[str, Any], longest_s: float) -> None:
    inputs = inputs_of("valkey-9.1", workload=workload)
    pilot = pilot_run(inputs, times_of(inputs), seed=1)
    warmup_ps, end_ps, *_ = window(inputs, pilot, requests=40_000)
    assert 0 < warmup_ps < end_ps <= longest_s * 10**12
    result = run(inputs, requests=40_000, seed=1, window_ps=Window(warmup_ps, end_ps))
    assert result.completions > 0


@pytest.mark.parametrize(
    "fields",
    [
        {"workload": {"clients": 1}},
        {"workload": {"clients": 5}, "load_generator": {"threads": 300}},
        {"workload": {"clients": 3, "keys": 1, "key_bytes": 1, "value_bytes": 0}},
        {"workload": {"clients": 2, "pipeline": 1024}},
        {"workload": {"clients": 8, "pipeline": 3, "value_bytes": 200_000}},
        {"workload": {"clients": 20}, "transport": "unix_socket"},
        {"workload": {"clients": 20}, "prefetch_batch": 0, "events_per_io_thread": 0},
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("io_threads", [1, 5])
def test_the_corners_run(engine: str, io_threads: int, fields: dict[str, Any]) -> None:
    result = run(inputs_of(engine, io_threads=io_threads, **fields), requests=2000, seed=1)
    assert result.completions >= 1500
    assert 0 < result.main_thread_utilisation <= 1.0
    assert result.latency.mean > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_lone_saturated_thread_serves_one_over_its_time(engine: str) -> None:
    """The utilisation law: throughput times time per request is the share of time at work."""
    result = run(inputs_of(engine, workload={"clients": 100}), requests=20_000, seed=1)
    demand = result.throughput_rps * result.server_useful_cpu_us_per_request * 1e-6
    assert demand == pytest.approx(result.main_thread_utilisation, rel=1e-6)
    assert result.main_thread_utilisation > 0.99


def test_littles_law_holds_for_clients_that_think() -> None:
    workload = {"clients": 40, "think_us": 500}
    result = run(inputs_of("valkey-8.0", workload=workload), requests=40_000, seed=2)
    cycle_s = result.latency.mean / 1e12 + 500e-6
    assert result.throughput_rps == pytest.approx(40 / cycle_s, rel=0.01)


def test_the_window_begins_when_all_generator_threads_have_started() -> None:
    inputs = inputs_of("valkey-8.0", workload={"clients": 50})
    slow = replace(inputs, generator=replace(inputs.generator, thread_start_us=3000.0))
    prompt, late = (run(each, requests=20_000, seed=1) for each in (inputs, slow))
    assert late.throughput_rps == pytest.approx(prompt.throughput_rps, rel=0.02)


def test_more_threads_than_an_engine_runs_are_not_run() -> None:
    most, more = (
        run(inputs_of("valkey-8.0", io_threads=n, workload={"clients": 50}), requests=5000, seed=1)
        for n in (16, 20)
    )
    assert more.throughput_rps == most.throughput_rps
    assert len(more.io_thread_utilisation) == 15


def test_the_network_counts_only_between_hosts() -> None:
    apart, together = (
        run(
            inputs_of("valkey-8.0", workload={"clients": 1}, load_generator={"same_host": same}),
            requests=1000,
            seed=1,
        )
        for same in (False, True)
    )
    assert together.network_utilisation == 0.0
    speed = HOST.speed()
    one_way_us = speed.network_one_way_us
    saved_us = (apart.latency.mean - together.latency.mean) / 1e6
    # Both ways, less what waking each other costs on one host, where the tool keeps the server's
    # core from stopping its tick.
    tick_us = (speed.whole_wake_latency_ns - speed.wake_latency_ns) / 1e3
    assert one_way_us < saved_us <= 2 * one_way_us + tick_us + 1


@pytest.mark.parametrize("pipeline", [1, 16])
def test_shortened_control_periods_do_not_change_the_throughput(
    pipeline: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Valkey 9.1 decides over seconds; with periods shortened five times less it does the same.

    With long pipelines it stops its only I/O thread for lack of work and starts it again: then a
    window holds whole turns of that, or it would show one half or the other.
    """
    inputs = inputs_of("valkey-9.1", io_threads=6, workload={"clients": 400, "pipeline": pipeline})
    short = run(inputs, requests=20_000, seed=1)
    settled = settling_ps(inputs)
    for module in (setups, run_length):
        monkeypatch.setattr(module, "CONTROL_SPEEDUP", run_length.CONTROL_SPEEDUP // 5)
    assert settling_ps(inputs) == pytest.approx(5 * settled)
    slow = run(inputs, requests=20_000, seed=1)
    assert slow.throughput_rps == pytest.approx(short.throughput_rps, rel=0.08)


def test_the_same_seed_repeats_and_another_does_not() -> None:
    inputs = inputs_of("valkey-9.1", io_threads=4, workload={"clients": 60})
    first, again = (run(inputs, requests=5000, seed=4) for _ in range(2))
    other = run(inputs, requests=5000, seed=5)
    assert first.latency == again.latency
    assert first.counters == again.counters
    assert first.latency != other.latency


@pytest.mark.parametrize("stalls", [False, True])
def test_draws_go_by_the_rate_of_the_nominal_run(stalls: bool) -> None:
    """Stalls themselves go by the rate without them, on a host that others fill as well."""
    slow = {"slow_command": {"every_s": 0.2, "duration_ms": 50.0}} if stalls else {}
    quiet = inputs_of("valkey-8.1", io_threads=1, workload={"clients": 50, **slow})
    shared = replace(quiet, speed=replace(quiet.speed, l3_fills_per_us=2.0))
    pilot = pilot_run(shared, times_of(shared), seed=1)
    nominal, drawn = times_of(shared), times_near(shared, pilot)
    assert all(np.array_equal(a, b) for a, b in zip(nominal, drawn, strict=True))
    assert at_rate(shared).served_rps == pilot.served_rps
    plain = inputs_of("valkey-8.1", io_threads=1, workload={"clients": 50})
    alone = run(plain, requests=20_000, seed=1).throughput_rps
    assert pilot.served_rps == pytest.approx(alone, rel=0.1)
    # Nothing that durations say depends on the rate there.
    assert pilot_run(plain, times_of(plain), seed=1).served_rps is None
