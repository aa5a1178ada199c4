"""Memory under load: the fixed point of latency and bandwidth, and what scenarios take from it."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.hwprofiles import load_host
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.memory.contention import USUAL_CURVE, factor_at, loaded_curve, memory_load
from forecache.models.prediction.predict import predict_cases
from forecache.models.prediction.simulation import times_of
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case, expand
from forecache.models.step_times.inputs import NodeInputs
from forecache.models.step_times.workload_caches import scenario_memory_load

MEASURED = [loaded_curve(load_host(name).speed()) for name in ("graviton2", "graviton4")]
MEASURED.append(loaded_curve(load_host("icelake-8375c").speed()))


@pytest.mark.parametrize("slope", [0.1, 1.0, 8.0])
def test_a_straight_curve_has_a_closed_form(slope: float) -> None:
    """F = 1 + slope u and u = b / (t + (F - 1) w) make a quadratic equation of F - 1."""
    request_ns, waiting_ns, asked = 500.0, 300.0, 0.6
    load = memory_load(
        ((0.0, 1.0), (1.0, 1.0 + slope)),
        peak_gb_per_s=10.0,
        bytes_per_request=asked * request_ns * 10.0,
        request_ns=request_ns,
        waiting_ns=waiting_ns,
    )
    a, b, c = waiting_ns, request_ns, -slope * asked * request_ns
    expected = 1.0 + (-b + math.sqrt(b * b - 4 * a * c)) / (2 * a)
    assert load.latency_factor == pytest.approx(expected, rel=1e-6)


@given(
    curve=st.sampled_from([USUAL_CURVE, *MEASURED]),
    peak=st.floats(1.0, 500.0),
    request_ns=st.floats(100.0, 1e5),
    share=st.floats(0.0, 1.0),
    bytes_per_request=st.floats(0.0, 1e6),
)
def test_more_load_never_makes_memory_faster(
    curve: Any, peak: float, request_ns: float, share: float, bytes_per_request: float
) -> None:
    usual = {"peak_gb_per_s": peak, "request_ns": request_ns, "waiting_ns": share * request_ns}
    found = memory_load(curve, bytes_per_request=bytes_per_request, **usual).latency_factor
    more = memory_load(curve, bytes_per_request=1.5 * bytes_per_request, **usual).latency_factor
    assert 1.0 <= found <= more + 1e-9
    between_ns = request_ns * (1.0 + (found - 1.0) * share)
    assert found == pytest.approx(
        max(1.0, factor_at(curve, bytes_per_request / between_ns / peak)), rel=1e-4
    )
    rare = memory_load(curve, bytes_per_request=bytes_per_request, least_ns=1e12, **usual)
    assert rare.latency_factor == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("curve", [USUAL_CURVE, *MEASURED])
def test_curves_start_at_idle_and_rise(curve: Any) -> None:
    assert factor_at(curve, 0.0) == 1.0
    used = np.linspace(0.0, 2.0, 200)
    factors = [factor_at(curve, share) for share in used]
    assert np.all(np.diff(factors) >= 0.0)
    assert 1.5 < factors[-1] / 2 < 4.0


def test_the_usual_curve_lies_between_the_measured_ones() -> None:
    for used, factor in USUAL_CURVE:
        others = [factor_at(curve, used) for curve in MEASURED]
        assert 0.97 * min(others) <= factor <= 1.03 * max(others), used


def test_two_sockets_measured_together_tell_of_one() -> None:
    speed = load_host("icelake-8375c").speed()
    assert speed.loaded_latency[-1][0] == 352, "of both"
    assert loaded_curve(speed)[-1][0] == 1.0


# --- scenarios ------------------------------------------------------------------------------------

SYSTEM = System(
    load_host("graviton4"), load_engine("valkey", "8.0"), load_generator("valkey-benchmark")
)


def inputs(**workload: Any) -> NodeInputs:
    return SYSTEM.inputs(scenario(**workload))


def scenario(**workload: Any) -> Scenario:
    data = {"host": "graviton4", "engine": "valkey", "io_threads": 9}
    workload = {"clients": 650, "keys": 3_000_000, "command": "get", **workload}
    [case] = expand({**data, "workload": workload}, file="test", schema=Scenario)
    return case.scenario


def test_data_that_fit_the_cache_take_nothing_from_memory() -> None:
    load = scenario_memory_load(inputs(keys=1000, value_bytes=16))
    assert load.bytes_per_request < 64
    assert load.latency_factor == pytest.approx(1.0, abs=1e-3)


def test_a_value_beyond_the_cache_is_read_and_replaced_ones_are_written_too() -> None:
    reads = scenario_memory_load(inputs(keys=300_000, value_bytes=65_536, command="get"))
    writes = scenario_memory_load(inputs(keys=300_000, value_bytes=65_536, command="set"))
    assert 0.8 * 65_536 < reads.bytes_per_request < 1.7 * 65_536
    assert writes.bytes_per_request > 1.5 * reads.bytes_per_request


def test_less_bandwidth_makes_commands_wait_longer() -> None:
    plenty = inputs(keys=300_000, value_bytes=65_536)
    little = replace(plenty, speed=replace(plenty.speed, dram_bandwidth_gb_per_s=5.0))
    tiny = replace(plenty, speed=replace(plenty.speed, dram_bandwidth_gb_per_s=2.0))
    waits = [np.mean(times_of(each).prefetched_stall_by_code_ps) for each in (plenty, little, tiny)]
    assert waits[0] < 0.95 * waits[1] < 0.9 * waits[2]


def test_few_requests_leave_memory_idle() -> None:
    busy = inputs(keys=300_000, value_bytes=65_536)
    rare = inputs(keys=300_000, value_bytes=65_536, arrival="open_loop", rate_rps=1000)
    slower, slow = (scenario_memory_load(each).latency_factor - 1.0 for each in (busy, rare))
    assert slow < 0.1 * slower


def test_a_prediction_says_how_much_is_in_use() -> None:
    case = Case(given={}, scenario=scenario(value_bytes=4096))
    [prediction] = predict_cases([(case, SYSTEM)], draws=0, replications=1, requests=5_000)
    found = prediction.memory_bandwidth
    load = scenario_memory_load(SYSTEM.inputs(case.scenario))
    used = load.bytes_per_request * prediction.mean("throughput_rps")
    assert found.gb_per_s == pytest.approx(used / 1e9)
    assert found.utilisation == pytest.approx(used / 465.6e9)
    assert found.latency_factor == load.latency_factor
