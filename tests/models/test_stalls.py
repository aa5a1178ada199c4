"""Slow commands: how often they come, and what everybody behind them waits."""

import math
from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.node import layout as at
from forecache.models.node.setup import QUANTILES, NodeTimes
from forecache.models.node.simulate import run_compiled
from forecache.models.prediction.run_length import window
from forecache.models.prediction.simulation import pilot_run, run, times_of
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import expand
from forecache.models.step_times.inputs import NodeInputs
from forecache.models.step_times.persistence import Stall, code_shares, with_stalls
from forecache.sim.errors import InputError
from verification.nodes.sample_node import sample_setup, sample_times

MS = 10**9


def brief_times(service_ps: int) -> NodeTimes:
    """A server that does nothing but execute."""
    zeros = dict.fromkeys(
        ("poll_ps", "poll_event_ps", "doze_ps", "block_ps", "read_event_ps", "recv_ps", "send_ps")
    ) | dict.fromkeys(
        ("write_event_ps", "recv_ps_per_kib", "send_ps_per_kib", "loop_ps", "wire_ps_per_kib")
    )
    generator = ("poll", "poll_event", "recv", "reply", "send", "request")
    zeros |= dict.fromkeys(f"generator_{name}_ps" for name in generator)
    return sample_times(
        **dict.fromkeys(zeros, 0) | {"wake_latency_ps": 0, "one_way_ps": 1},
        parse_by_code_ps=np.zeros(2, np.int64),
        execute_by_code_ps=np.full(2, service_ps),
        stall_ps=np.zeros((2, QUANTILES), np.int64),
    )


def with_codes(times: NodeTimes, stalls: list[tuple[float, float]]) -> NodeTimes:
    tables = {n: t for n, t in times._asdict().items() if "_by_code" in n or n == "stall_ps"}
    return times._replace(**with_stalls(tables, stalls))


def open_loop(duration_ms: float, share: float, *, rate_rps: float, service_ps: int) -> at.Node:
    times = with_codes(brief_times(service_ps), [(share, duration_ms)])
    setup = sample_setup(
        clients=4000,
        generators=4,
        open_loop=1,
        mean_interarrival_ps=round(4e12 / rate_rps),
        generator_spins=1,
        warmup_ps=500 * MS,
        end_ps=15_000 * MS,
        outstanding_limit=1,
        backlog_limit=64,
        seed=5,
    )
    node = at.new_node(times, setup)
    run_compiled("single_thread", node)
    return node


def test_the_mean_wait_is_that_of_pollaczek_and_khinchine() -> None:
    # Two classes of service, both of constant length, in one queue.
    rate, share, slow_s, short_s = 100_000.0, 1e-3, 5e-4, 1e-7
    node = open_loop(1000 * slow_s, share, rate_rps=rate, service_ps=100_000)
    mean_s = (1 - share) * short_s + share * slow_s
    square = (1 - share) * short_s**2 + share * slow_s**2
    wait_s = rate * square / 2 / (1 - rate * mean_s)
    found_s = node.latency().mean / 1e12 - mean_s
    # 1,450 slow commands: three standard errors of their number are 8%.
    assert found_s == pytest.approx(wait_s, rel=0.08)


@pytest.mark.parametrize("duration_ms", [1.0, 4.0])
def test_p99_bends_where_a_hundredth_of_the_requests_meets_a_slow_command(
    duration_ms: float,
) -> None:
    # Next to no other work: a share rate * (D - w) waits longer than w.
    rate, every_s = 50_000.0, 0.2
    node = open_loop(duration_ms, 1 / (rate * every_s), rate_rps=rate, service_ps=1000)
    p99_ms = node.latency().quantile(0.99) / MS
    expected_ms = max(0.0, duration_ms - 0.01 * every_s * 1000)
    assert p99_ms == pytest.approx(expected_ms, abs=0.35)
    assert node.latency().quantile(0.999) / MS == pytest.approx(duration_ms - 0.2, abs=0.35)


def test_as_many_come_as_are_asked_for() -> None:
    times = with_codes(sample_times(), [(0.25, 0.001), (0.5, 0.002)])
    shares = code_shares(times)
    assert shares.tolist() == pytest.approx([0.25 * 0.8, 0.25 * 0.2, 0.25, 0.5], abs=1e-3)
    setup = sample_setup(clients=20, end_ps=200 * MS, warmup_ps=0)
    node = at.new_node(times, setup)
    run_compiled("single_thread", node)
    completions = node.counter("completions")
    # Nothing but their durations fills the time.
    busy = node.thread(0, "busy_ps")
    rest = busy - completions * (0.25 * 1_000_000 + 0.5 * 2_000_000)
    plain = at.new_node(sample_times(), setup)
    run_compiled("single_thread", plain)
    plain_each = plain.thread(0, "busy_ps") / plain.counter("completions")
    assert rest / completions == pytest.approx(plain_each, rel=0.25)


def inputs(slow: dict[str, float], **workload: Any) -> NodeInputs:
    data = {"host": "graviton3", "engine": "valkey", "io_threads": 1}
    fields = {"clients": 50, "keys": 1000, "slow_command": slow, **workload}
    [case] = expand({**data, "workload": fields}, file="test", schema=Scenario)
    engine, host = load_engine("valkey-8.1"), load_host("graviton3-c7g.4xlarge")
    generator = load_generator("memtier-benchmark").generator_work()
    speed = host.speed()
    return NodeInputs(case.scenario, engine, engine.engine_work(), speed, generator, speed)


def test_one_every_so_often_in_a_closed_loop() -> None:
    every_s, duration_ms = 0.02, 4.0
    case = inputs({"every_s": every_s, "duration_ms": duration_ms})
    slowed = run(case, requests=40_000, seed=3)
    plain = run(inputs({"every_s": 3600.0, "duration_ms": 1e-3}), requests=10_000, seed=3)
    lost = 1 - slowed.throughput_rps / plain.throughput_rps
    assert lost == pytest.approx(duration_ms / 1000 / every_s, rel=0.35)
    share = code_shares(times_of(case))[-1]
    assert slowed.throughput_rps * share == pytest.approx(1 / every_s, rel=0.1)


def test_a_window_holds_several_of_them() -> None:
    case = inputs({"share": 1e-5, "duration_ms": 1.0}, arrival="open_loop", rate_rps=50_000)
    times = times_of(case)
    assert code_shares(times)[-1] == pytest.approx(1e-5, rel=1e-3)
    start, end, *_ = window(case, pilot_run(case, times, seed=1), requests=40_000)
    assert (end - start) / 1e12 * 50_000 * 1e-5 >= 20
    assert math.isclose(Stall(1.0, share=1e-5).mean_gap_s(50_000), 2.0)


@pytest.mark.parametrize(
    "slow",
    [
        {"duration_ms": 1.0},
        {"duration_ms": 1.0, "every_s": 1.0, "share": 0.1},
        {"duration_ms": 2000.0, "every_s": 1.0},
        {"duration_ms": -1.0, "every_s": 1.0},
        {"every_s": 1.0},
    ],
)
def test_mistakes_are_named(slow: dict[str, float]) -> None:
    with pytest.raises(InputError, match="slow_command"):
        inputs(slow)
