"""Predictions: the same on any executor, intervals that hold, and limits that follow."""

import itertools
import math
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles.parts import Captured
from forecache.hwprofiles.schema import HostProfile
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.advice.answers import load_cases
from forecache.models.prediction.caveats import not_covered
from forecache.models.prediction.predict import (
    LATENCIES,
    QUANTILE_BELOW,
    SERVER_CPU,
    Prediction,
    predict_cases,
)
from forecache.models.prediction.system import UNCHECKED_DISCREPANCY, System
from tests.models.made_profiles import observed_on, unobserved

HOST = "graviton3-c7g.4xlarge"


def cases_of(**fields: Any) -> list[Any]:
    return load_cases({"host": HOST, "engine": "valkey", "engine_version": "8.0", **fields})


def predicted(draws: int = 0, replications: int = 2, seed: int = 1, **fields: Any) -> Prediction:
    [prediction] = predict_cases(
        cases_of(**fields), draws=draws, replications=replications, requests=10_000, seed=seed
    )
    return prediction


def numbers(predictions: list[Prediction]) -> list[Any]:
    return [
        [
            (metrics.values, metrics.result.counters, metrics.result.latency.to_dict())
            for metrics in [*prediction.nominal, *prediction.drawn]
        ]
        for prediction in predictions
    ]


def test_the_executor_makes_no_difference() -> None:
    cases = cases_of(io_threads={"sweep": [1, 4]}, engine_version="9.1", workload={"clients": 40})

    def on(executor: Executor | None) -> list[Any]:
        return numbers(
            predict_cases(cases, draws=2, replications=2, requests=3000, executor=executor)
        )

    expected = on(None)
    for workers in (1, 4):
        with ThreadPoolExecutor(workers) as threads:
            assert on(threads) == expected
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        assert on(processes) == expected


def test_a_seed_repeats_and_more_draws_only_add() -> None:
    fields: dict[str, Any] = {"io_threads": 3, "workload": {"clients": 60}}
    few, many = predicted(draws=2, **fields), predicted(draws=4, **fields)
    assert numbers([many])[0][:2] == numbers([few])[0][:2]
    assert numbers([many])[0][2:4] == numbers([few])[0][2:4]
    assert numbers([predicted(draws=2, seed=2, **fields)]) != numbers([few])
    [(case, system)] = cases_of(**fields)
    first, again, other, next_one = (
        system.inputs(case.scenario, draw=draw, seed=seed)
        for draw, seed in ((0, 1), (0, 1), (0, 2), (1, 1))
    )
    assert first == again
    assert len({inputs.speed.tcp_send_ns for inputs in (first, other, next_one)}) == 3
    assert len({inputs.work.get_instructions for inputs in (first, other, next_one)}) == 3
    assert len({inputs.generator.kernel_scale for inputs in (first, other, next_one)}) == 3


NAMES = ("throughput_rps", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms", SERVER_CPU)


@pytest.mark.parametrize(
    "fields",
    [
        {"io_threads": 1, "workload": {"clients": 100}},
        {"io_threads": 4, "workload": {"clients": 100}, "engine_version": "9.1"},
        {"io_threads": 2, "workload": {"arrival": "open_loop", "rate_rps": 100_000}},
    ],
)
def test_an_interval_holds_its_value_and_is_the_sum_of_its_parts(fields: dict[str, Any]) -> None:
    prediction = predicted(draws=6, **fields)
    for name, level in itertools.product(NAMES, (0.5, 0.95)):
        estimate = prediction.estimate(name, level=level)
        assert 0 < estimate.low <= estimate.value <= estimate.high
        parts = prediction.parts(name, level=level)
        half = math.sqrt(sum(part**2 for part in vars(parts).values()))
        if name in QUANTILE_BELOW:
            continue
        high = estimate.value * math.exp(half)
        if prediction.open_loop and name == "throughput_rps":
            # No more completes than arrives, but for chance.
            high = max(estimate.value, min(high, prediction.offered_rps))
        assert estimate.high == pytest.approx(high)
        lower = math.log(estimate.value / estimate.low)
        if prediction.open_loop and name in LATENCIES:
            # Draws lower it by no more than the fastest of them is lower.
            logs = np.sort(prediction.log_draws(name))
            fastest = logs[int((1 - level) / 2 * (len(logs) - 1))]
            drawn = min(parts.parameters, max(0.0, math.log(estimate.value) - fastest))
            half = math.hypot(drawn, parts.monte_carlo, parts.discrepancy, parts.windows)
        assert lower == pytest.approx(half)
        assert all(part >= 0 for part in vars(parts).values())
    assert prediction.estimate("mean_ms") == prediction.estimate("mean_ms", level=0.95)
    quantiles = [prediction.mean(name) for name in NAMES[2:6]]
    assert quantiles == sorted(quantiles)


@pytest.mark.parametrize(("clients", "turns"), [(4000, 1.0), (256, 2.0)])
def test_whether_p99_is_one_turn_or_two_is_within_its_interval(clients: int, turns: float) -> None:
    """Whether one in a hundred clients waits for a second turn is not known, either way."""
    prediction = predicted(draws=6, io_threads=1, workload={"clients": clients})
    turn_ms, found = prediction.mean("mean_ms"), prediction.interval("p99_ms")
    assert found.value == pytest.approx(turns * turn_ms, rel=0.1)
    assert found.high > 0.95 * (turns + 1.0) * turn_ms
    assert found.low < 1.03 * turn_ms
    assert prediction.interval("p50_ms").high < 1.4 * turn_ms


def test_a_lone_client_waits_for_nobody() -> None:
    few, lone = (predicted(io_threads=1, workload={"clients": n}) for n in (50, 1))
    ratios = [p.interval("p90_ms").high / p.interval("p90_ms").value for p in (few, lone)]
    half = lone.parts("p90_ms")
    assert ratios[1] < 1.05 * math.exp(math.hypot(*vars(half).values())) < ratios[0]


@pytest.mark.parametrize("workload", [{}, {"arrival": "open_loop", "rate_rps": 100_000}])
def test_ends_of_intervals_rise_with_the_quantile_and_the_level(workload: dict[str, Any]) -> None:
    prediction = predicted(draws=6, io_threads=2, workload=workload)
    by_level = [
        [prediction.interval(name, level=level) for name in NAMES[2:6]] for level in (0.5, 0.95)
    ]
    for intervals in by_level:
        for lower, upper in itertools.pairwise(intervals):
            assert lower.low <= upper.low
            assert lower.high <= upper.high
    for half, whole in zip(*by_level, strict=True):
        assert whole.low <= half.low
        assert half.high <= whole.high


def test_the_part_of_parameters_is_the_spread_of_the_draws() -> None:
    prediction = predicted(draws=5, replications=1, workload={"clients": 20})
    spread = float(np.std(prediction.log_draws("mean_ms"), ddof=1))
    # Student t for five draws.
    assert prediction.parts("mean_ms").parameters == pytest.approx(2.776 * spread, rel=1e-3)
    chance = predicted(draws=0, replications=3, workload={"clients": 20})
    values = np.log([metrics.values["mean_ms"] for metrics in chance.nominal])
    expected = 4.303 * float(np.std(values, ddof=1)) / math.sqrt(3)
    assert chance.parts("mean_ms").monte_carlo == pytest.approx(expected, rel=1e-3)


def test_one_run_says_nothing_about_chance_and_no_draw_about_parameters() -> None:
    [(case, system)] = cases_of(workload={"clients": 20})
    host = system.host.model_copy(update={"posterior": None})
    unchecked = System(host, unobserved(system.engine), system.generator)
    [prediction] = predict_cases([(case, unchecked)], draws=0, replications=1, requests=2000)
    parts = prediction.parts("mean_ms")
    assert parts.monte_carlo == parts.parameters == 0.0
    # An unchecked profile has the model's error all the same.
    assert parts.discrepancy == pytest.approx(1.95996 * UNCHECKED_DISCREPANCY, rel=1e-4)


@pytest.mark.parametrize(("level", "errors"), [(0.95, 1.95996), (0.90, 1.64485), (0.5, 0.67449)])
def test_an_observed_engine_brings_its_own_error(level: float, errors: float) -> None:
    """On the host it was observed on; the way to another one brings an unchecked one besides."""
    [(case, system)] = cases_of(workload={"clients": 20})
    unlearned = system.host.model_copy(update={"posterior": None})
    for host, error in ((HOST, 0.03), ("another", math.hypot(0.03, UNCHECKED_DISCREPANCY))):
        engine = observed_on(host, system.engine, discrepancy=0.03, memory_discrepancy=None)
        known = System(unlearned, engine, system.generator)
        [prediction] = predict_cases([(case, known)], draws=0, replications=1, requests=2000)
        for name in ("mean_ms", SERVER_CPU):
            part = prediction.parts(name, level=level).discrepancy
            assert part == pytest.approx(errors * error, rel=1e-4)


def test_waits_for_memory_bring_an_error_of_their_own() -> None:
    """By the share of the server's time that they take: none in the caches, most far beyond."""
    halves, shares = [], []
    for keys in (100, 50_000_000):
        [(case, system)] = cases_of(workload={"clients": 100, "keys": keys, "command": "get"})
        engine = observed_on(HOST, system.engine, discrepancy=0.03, memory_discrepancy=0.20)
        known = System(system.host, engine, system.generator)
        [prediction] = predict_cases([(case, known)], draws=0, replications=1, requests=4000)
        share = prediction.memory_share
        assert share == pytest.approx(
            prediction.memory_wait_ns / 1000.0 / prediction.mean(SERVER_CPU)
        )
        expected = 1.95996 * math.hypot(0.03, 0.20 * share)
        halves.append(prediction.parts("mean_ms").discrepancy)
        shares.append(share)
        assert halves[-1] == pytest.approx(expected, rel=1e-4)
    assert shares[0] < 0.01
    assert 0.05 < shares[1] < 0.6
    assert halves[1] > 1.02 * halves[0]


def test_server_cpu_is_what_its_threads_spend_for_a_request() -> None:
    prediction = predicted(io_threads=3, workload={"clients": 100})
    for metrics in prediction.nominal:
        assert metrics.values[SERVER_CPU] == metrics.result.server_cpu_us_per_request
    busy = prediction.mean(SERVER_CPU) * prediction.mean("throughput_rps") / 1e6
    # All three are busy; I/O threads spin where they have nothing to do.
    assert 1.5 < busy <= 3.01


def test_a_host_that_observed_the_engine_is_drawn_with_it() -> None:
    """What a capture leaves open is part of the fit; on other hosts it is not."""
    [(case, system)] = cases_of(workload={"clients": 20})

    def speeds(host_id: str) -> list[HostSpeed]:
        known = System(system.host, observed_on(host_id, system.engine), system.generator)
        assert known.observed_here == (host_id == system.host.id)
        draws = [known.inputs(case.scenario, draw=draw) for draw in range(3)]
        assert len({inputs.work.get_instructions for inputs in draws}) == 3
        return [inputs.speed for inputs in draws]

    assert not system.observed_here
    here, elsewhere, nominal = speeds(system.host.id), speeds("another"), system.host.speed()
    assert {speed.tcp_send_ns for speed in here} == {nominal.tcp_send_ns}
    assert len({speed.tcp_send_ns for speed in elsewhere}) == 3
    # A fit finds what sleeps take on cores that stop their tick, but not those on cores that don't.
    for speed in here:
        assert speed.whole_block_ns == pytest.approx(nominal.whole_block_ns)
        assert speed.whole_wake_latency_ns == pytest.approx(nominal.whole_wake_latency_ns)
    assert len({round(speed.ticking().whole_block_ns, 3) for speed in here}) == 3


def test_an_engine_observed_on_such_a_host_on_another_day_is_not_observed_here() -> None:
    """Guests of one kind share an id; what was fitted on one is not known of the next."""
    [(case, system)] = cases_of(workload={"clients": 20})
    captured = Captured(date="2026-11-20", cpu_model="x", kernel="x", tool="x", elapsed_s=1.0)
    host = system.host.model_copy(update={"captured": captured})
    engine = observed_on(host.id, system.engine)
    assert engine.observed is not None

    def basis(day: str | None, on: HostProfile = host) -> str:
        observed = engine.observed.model_copy(update={"captured": day, "speed": {"user_ipc": 3.9}})
        known = System(on, engine.model_copy(update={"observed": observed}), system.generator)
        assert (known.numbers().speed.user_ipc == 3.9) == known.observed_here
        told = any(
            "calibrated on another profile" in words for words in not_covered(case.scenario, known)
        )
        assert told != known.observed_here
        return known.basis

    assert basis("2026-11-20") == "observed"
    assert basis("2026-11-21") == "profiled"
    # Files from before the day was noted, and hosts that were never captured.
    assert basis(None) == "observed"
    assert basis("2026-11-20", system.host) == "catalogue"


def test_draws_of_a_host_without_ranges_are_all_chance() -> None:
    """What chance does is not blamed on the parameters."""
    [(case, system)] = cases_of(workload={"clients": 30})

    def certain(model: Any) -> Any:
        work = {
            name: leaf.model_copy(update={"low": leaf.best, "high": leaf.best})
            for name, leaf in model.work.items()
        }
        return model.model_copy(update={"work": work})

    class Certain(type(system.host)):  # type: ignore[misc]
        def uncertain(self) -> dict[str, tuple[float, float, float]]:
            return {}

    host = Certain.model_construct(**dict(system.host))
    exact = type(system)(host, certain(system.engine), certain(system.generator))
    [prediction] = predict_cases([(case, exact)], draws=12, replications=12, requests=16_000)
    parts = prediction.parts("mean_ms")
    spread = float(np.std(prediction.log_draws("mean_ms"), ddof=1))
    assert 0 < spread < 0.02
    assert parts.parameters < 2.2 * spread


def capacity_rps() -> float:
    return predicted(workload={"clients": 200}).mean("throughput_rps")


def test_open_load_is_stable_below_capacity_and_overloaded_above() -> None:
    capacity = capacity_rps()

    def at(share: float) -> Prediction:
        workload = {"arrival": "open_loop", "rate_rps": share * capacity, "clients": 200}
        return predicted(workload=workload)

    light, busy, full, late, over = at(0.3), at(0.8), at(0.98), at(1.3), at(6.0)
    assert not light.overloaded
    assert light.bottleneck == busy.bottleneck == "none"
    # A connection carries one request at a time, as in the closed loop: no two are read together,
    # so that loop's capacity is all there is, and close to it requests wait.
    assert not full.overloaded
    assert full.bottleneck == "main thread"
    counters = full.nominal[0].result.counters
    assert counters["reads"] == pytest.approx(counters["completions"], rel=0.01)
    assert full.mean("p50_ms") > 2 * busy.mean("p50_ms")
    assert full.mean("p99_ms") > 3 * busy.mean("p99_ms")
    assert late.overloaded
    assert over.overloaded
    assert not any(metrics.result.counters["overflows"] for metrics in late.nominal)
    assert late.bottleneck == over.bottleneck == "main thread"
    assert light.mean("p99_ms") < busy.mean("p99_ms") < full.mean("p99_ms") < over.mean("p99_ms")
    for prediction, share in ((light, 0.3), (busy, 0.8), (full, 0.98), (late, 1.0)):
        assert prediction.mean("throughput_rps") == pytest.approx(share * capacity, rel=0.03)
    assert over.mean("throughput_rps") == pytest.approx(capacity, rel=0.05)
    # Far from capacity the throughput is what is offered, however wrong the model may be; beyond
    # it, it is as uncertain as anything else.
    assert light.parts("throughput_rps").discrepancy == 0.0
    error = over.parts("mean_ms").discrepancy
    assert error > 1.9599 * over.system.discrepancy(over.case.scenario) > 0.0
    assert over.parts("throughput_rps").discrepancy == pytest.approx(error, rel=1e-3)


def test_rare_requests_are_not_called_an_overload() -> None:
    """Few arrivals in a window are far from their mean by chance alone."""
    workload = {"arrival": "open_loop", "rate_rps": 0.02, "clients": 4}
    for seed in range(4):
        assert not predicted(seed=seed, workload=workload).overloaded


def test_each_station_can_be_the_limit() -> None:
    cases = {
        "main thread": {"workload": {"clients": 100}},
        "I/O threads": {"io_threads": 2, "workload": {"clients": 300}},
        "load generator": {
            "io_threads": 6, "workload": {"clients": 100}, "load_generator": {"threads": 1}
        },
        "network": {"io_threads": 6, "workload": {"clients": 100, "value_bytes": 50_000}},
    }  # fmt: skip
    for station, fields in cases.items():
        prediction = predicted(replications=1, **fields)
        assert prediction.bottleneck == station
        following = prediction.next_bottleneck
        assert following is not None
        assert following.name != station
        assert following.at_rps >= prediction.mean("throughput_rps")
    thinking = predicted(workload={"clients": 5, "think_us": 1000})
    assert thinking.bottleneck == "none"


def test_with_one_thread_no_io_thread_limits_next() -> None:
    following = predicted(workload={"clients": 100}).next_bottleneck
    assert following is not None
    assert following.name in ("load generator", "network")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, None),
        ({"io_threads": 5, "cores": 4}, "5 threads of valkey-8.0 on 4 CPUs"),
        ({"io_threads": 64, "engine_version": "8.1"}, "64 threads of valkey-8.1 on 16 CPUs"),
        ({"cores": 99}, "the scenario has 99 cores, the host 16"),
        ({"io_threads": 16}, None),
        ({"io_threads": 17}, "runs at most 16 threads"),
        ({"io_threads": 4, "load_generator": {"same_host": True}}, None),
        ({"io_threads": 6, "load_generator": {"same_host": True, "threads": 10}}, None),
        ({"cores": 8, "load_generator": {"same_host": True, "threads": 10}}, None),
        ({"io_threads": 4, "transport": "unix_socket"}, None),
        ({"load_generator": {"threads": 8, "cores": 2}}, None),
        (
            {"workload": {"value_bytes": {"values": [9, 10**6], "weights": [1e5, 1.0]}}},
            "1000000 bytes is too rare",
        ),
        ({"engine": "redis", "engine_version": "7.0", "prefetch_batch": 16}, "prefetch_batch"),
        ({"engine_version": "9.1", "events_per_io_thread": 2}, "events_per_io_thread"),
        ({"engine_version": "9.1", "io_threads_do_reads": True}, "setting of fork-join threads"),
        (
            {
                "engine": "redis",
                "engine_version": "7.0",
                "io_threads": 9,
                "workload": {"clients": 17},
            },
            "they need 18 replies that wait at a time, and there are 17 clients",
        ),
        ({"engine": "redis", "engine_version": "7.0", "io_threads": 129}, "at most 128 threads"),
        ({"main_thread_pinned": True, "io_threads": 20, "cores": 4}, "at most 16 threads"),
        (
            {"engine": "memcached", "engine_version": "1.6", "main_thread_pinned": True},
            "main_thread_pinned has no effect",
        ),
    ],
)
def test_warnings_name_what_the_model_leaves_out(fields: dict[str, Any], told: str | None) -> None:
    [(case, system)] = cases_of(**fields)
    warnings = not_covered(case.scenario, system)
    if told is None:
        assert warnings == []
    else:
        assert any(told in warning for warning in warnings), warnings


def test_a_faster_host_serves_more() -> None:
    throughput = [
        predicted(replications=1, host=host, workload={"clients": 50}).mean("throughput_rps")
        for host in ("graviton2", "graviton3", "graviton4")
    ]
    assert throughput == sorted(throughput)
