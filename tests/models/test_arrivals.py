"""Rates that change: as many requests in every piece as its rate says, and what a file says."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.models.engines.commands import check_trace
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.node import layout as at
from forecache.models.node.reference import arrivals
from forecache.models.node.simulate import run_compiled
from forecache.models.prediction.node_setup import node_setup
from forecache.models.prediction.run_length import window
from forecache.models.prediction.simulation import pilot_run, run, times_of
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import expand
from forecache.models.scenario.workload import Bursts, RatePiece, Workload, read_trace
from forecache.models.step_times.inputs import NodeInputs
from forecache.sim.errors import InputError
from verification.nodes.sample_node import sample_setup, sample_times

MS = 10**9
S = 10**12


def scenario(**workload: Any) -> Scenario:
    data = {"host": "graviton3", "engine": "valkey", "io_threads": 1}
    fields = {"clients": 100, "keys": 1000, "arrival": "open_loop", **workload}
    [case] = expand({**data, "workload": fields}, file="test", schema=Scenario)
    return case.scenario


def inputs(case: Scenario) -> NodeInputs:
    engine = load_engine("valkey-8.1")
    speed = load_host("graviton3-c7g.4xlarge").speed()
    generator = load_generator("memtier-benchmark").generator_work()
    return NodeInputs(case, engine, engine.engine_work(), speed, generator, speed)


PIECES = {
    "piece_ps": np.array([20 * MS, 10 * MS, 30 * MS]),
    # 100, 0 and 400 thousand a second from four threads
    "piece_gap_ps": np.array([40_000_000, 0, 10_000_000]),
}


def test_as_many_arrive_in_each_piece_as_its_rate_says() -> None:
    setup = sample_setup(open_loop=1, generators=4, clients=40, seed=3)
    counts = np.zeros(3)
    cycle_ps = 60 * MS
    cycles = 4
    for source in range(4):
        due = arrivals(sample_times(**PIECES), setup, source)
        for due_ps, _ in itertools.takewhile(lambda d: d[0] < cycles * cycle_ps, due):
            counts[np.searchsorted([20 * MS, 30 * MS], due_ps % cycle_ps, side="right")] += 1
    expected = cycles * np.array([2_000, 0, 12_000])
    assert counts[1] == 0
    # Counts of a Poisson process: four standard deviations.
    assert np.all(np.abs(counts - expected) <= 4 * np.sqrt(expected))


def test_gaps_within_a_piece_are_exponential() -> None:
    setup = sample_setup(open_loop=1, generators=1, clients=1)
    pieces = {"piece_ps": np.array([S]), "piece_gap_ps": np.array([10_000_000])}
    due = arrivals(sample_times(**pieces), setup, 0)
    gaps = np.diff([due_ps for due_ps, _ in itertools.islice(due, 20_001)]) / 1e7
    assert gaps.mean() == pytest.approx(1.0, abs=0.03)
    assert gaps.std() == pytest.approx(1.0, abs=0.04)
    assert np.mean(gaps > 2.0) == pytest.approx(math.exp(-2), abs=0.01)


@pytest.mark.parametrize("policy", ["single_thread", "asynchronous"])
def test_completions_follow_the_rate(policy: str) -> None:
    setup = sample_setup(
        io_threads=1 if policy == "single_thread" else 3,
        open_loop=1,
        clients=400,
        generators=4,
        generator_spins=1,
        backlog_limit=64,
        end_ps=600 * MS,
        series_ps=10 * MS,
    )
    slower = {"piece_ps": PIECES["piece_ps"], "piece_gap_ps": 4 * PIECES["piece_gap_ps"]}
    node = at.new_node(sample_times(**slower), setup)
    run_compiled(policy, node)
    done = node.series()[:60, 0].reshape(10, 6).sum(axis=0)
    expected = 10 * np.array([250, 250, 0, 1000, 1000, 1000])
    # Some are on their way when a piece ends.
    assert np.all(np.abs(done - expected) <= 4 * np.sqrt(expected) + 30)


def test_bursts_take_turns_at_random_for_all_threads_together() -> None:
    bursts = Bursts(calm_rps=10_000, burst_rps=190_000, calm_s=0.02, burst_s=0.02)
    assert bursts.mean_rate_rps == 100_000
    case = inputs(scenario(bursts=bursts.model_dump()))
    setup = node_setup(case, warmup_ps=0, end_ps=2 * S, seed=2, replication=0)
    counts = []
    for source in range(2):
        due = arrivals(times_of(case), setup, source)
        times = [due_ps for due_ps, _ in itertools.takewhile(lambda d: d[0] < 2 * S, due)]
        counts.append(np.histogram(times, bins=1000, range=(0, 2 * S))[0])
    assert np.corrcoef(*counts)[0, 1] > 0.8
    total = sum(map(np.sum, counts)) * setup.generators / 2 / 2
    assert total == pytest.approx(100_000, rel=0.35)
    # Counts vary far more than a Poisson process's, whose index of dispersion is 1.
    assert counts[0].var() / counts[0].mean() > 3


def test_a_window_holds_whole_cycles() -> None:
    profile = [{"duration_s": 0.3, "rate_rps": 20_000}, {"duration_s": 0.1, "rate_rps": 80_000}]
    case = inputs(scenario(rate_profile=profile))
    assert case.scenario.workload.mean_rate_rps == pytest.approx(35_000)
    start, end, *_ = window(case, pilot_run(case, times_of(case), seed=1), requests=20_000)
    assert (end - start) % round(0.4 * S) == 0
    result = run(case, requests=20_000, seed=1)
    assert result.throughput_rps == pytest.approx(35_000, rel=0.05)


def test_bursts_make_the_tail_longer() -> None:
    calm = run(inputs(scenario(rate_rps=60_000)), requests=40_000, seed=1)
    bursts = {"calm_rps": 20_000, "burst_rps": 260_000, "calm_s": 0.05, "burst_s": 0.01}
    bursty = run(inputs(scenario(bursts=bursts)), requests=40_000, seed=1)
    assert bursty.throughput_rps == pytest.approx(60_000, rel=0.3)
    assert bursty.latency.quantile(0.99) > 2 * calm.latency.quantile(0.99)


# --- traces ----------------------------------------------------------------------------------


def trace_file(folder: Path, text: str) -> str:
    file = folder / "trace.csv"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_trace_is_replayed(tmp_path: Path) -> None:
    commands = itertools.cycle(["SET", "GET", "GET", "GET"])
    rows = [f"{10 + 0.001 * number:.6f},{next(commands)}\n" for number in range(40)]
    file = trace_file(tmp_path, "time_s,command\n" + "".join(rows))
    trace = read_trace(file)
    assert trace.due_ps[:3].tolist() == [0, MS, 2 * MS]
    assert trace.period_ps == 40 * MS
    assert trace.mean_rate_rps == pytest.approx(1000)
    case = inputs(scenario(trace=file, mix={"get": 0.5, "set": 0.5}, value_bytes=64))
    times = times_of(case)
    assert times.trace_code[:5].tolist() == [1, 0, 0, 0, 1]
    result = run(case, requests=2_000, seed=1)
    assert result.throughput_rps == pytest.approx(1000, rel=0.01)
    # A quarter of the requests are SETs, whatever the mix says of shares.
    sent = result.counters["wire_bytes_in"] / result.completions
    sizes = times.request_bytes_by_code
    assert sent == pytest.approx(0.75 * sizes[0] + 0.25 * sizes[1], rel=0.01)


def test_each_thread_takes_its_part_of_a_trace() -> None:
    trace = {
        "trace_due_ps": np.array([0, 5, 5, 90]),
        "trace_code": np.array([0, 1, 0, 1]),
    }
    setup = sample_setup(open_loop=1, generators=3, trace_period_ps=100)
    due = [list(itertools.islice(arrivals(sample_times(**trace), setup, s), 3)) for s in range(3)]
    assert due == [
        [(0, 0), (90, 1), (105, 0)],
        [(5, 1), (100, 0), (190, 1)],
        [(5, 0), (105, 1), (200, 0)],
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0,get\n1;set\n", ["line 2", "'1;set'"]),
        ("0,get\nsoon,set\n", ["line 2", "'soon'", "seconds"]),
        ("0,get\n-1,set\n", ["line 2", "'-1'"]),
        ("5,get\n4,set\n", ["line 2", "4", "in order"]),
        ("5,get\n6,12\n", ["line 2", "'6,12'"]),
        ("time_s,command\n5,get\n", ["1 requests"]),
        ("0,get\n99999,get\n", ["a day"]),
    ],
)
def test_damaged_traces_name_the_line(tmp_path: Path, text: str, words: list[str]) -> None:
    file = trace_file(tmp_path, text)
    with pytest.raises(InputError) as error:
        read_trace(file)
    assert all(word in str(error.value) for word in [file, *words]), error.value


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        read_trace(str(tmp_path / "nowhere.csv"))


def test_a_trace_knows_only_commands_of_the_mix(tmp_path: Path) -> None:
    file = trace_file(tmp_path, "0,get\n1,mget\n")
    with pytest.raises(InputError, match=r"found mget as request 2; .* get, set"):
        check_trace(scenario(trace=file))


def test_cycles_must_be_bearable() -> None:
    piece = {"duration_s": 3600, "rate_rps": 100_000}
    with pytest.raises(InputError, match="360000000 requests"):
        check_trace(scenario(rate_profile=[piece]))
    check_trace(scenario(rate_rps=100_000))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ["one of rate_rps, rate_profile, bursts, trace", "none"]),
        ({"rate_rps": 5, "trace": "x.csv"}, ["found rate_rps, trace"]),
        ({"arrival": "closed_loop", "trace": "x.csv"}, ["closed_loop"]),
        ({"rate_profile": []}, ["rate_profile"]),
        ({"rate_profile": [{"duration_s": 1, "rate_rps": 0}]}, ["a rate above 0"]),
        ({"bursts": {"calm_rps": 1, "burst_rps": 2, "calm_s": 1}}, ["bursts.burst_s"]),
    ],
)
def test_mistakes_are_named(fields: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        scenario(**fields)
    assert all(word in str(error.value) for word in words), error.value


def test_a_constant_rate_is_as_before() -> None:
    assert Workload(arrival="open_loop", rate_rps=100.0).mean_rate_rps == 100.0
    assert Workload().mean_rate_rps is None
    assert RatePiece(duration_s=1, rate_rps=2).rate_rps == 2
