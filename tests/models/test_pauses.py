"""What pauses of the host add to quantiles of latency."""

from dataclasses import replace

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.hwprofiles.quantity import Curve
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.pauses import (
    PAUSES_FACTOR,
    Pauses,
    core_pauses,
    latency_with_pauses_ms,
    longest_probable_ms,
)
from forecache.models.prediction.predict import Prediction, predict_cases
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case

HOST = "graviton3-c7g.4xlarge"
WORKLOAD = {"clients": 50, "mix": {"get": 1.0}, "keys": 1000, "key_bytes": 16, "value_bytes": 16}
CURVE = ((5.0, 400.0), (1000.0, 8.0), (4000.0, 2.0), (9000.0, 0.0))


def test_pauses_are_what_lasts_a_millisecond_and_more() -> None:
    speed = replace(load_host(HOST).speed(), interruptions=CURVE)
    pauses = core_pauses(speed)
    assert pauses is not None
    rates = pauses.rate_per_s(np.array([0.0, 1000.0, 2000.0, 4000.0, 9000.0]))
    # Half-way in the logarithm is half-way between the rates.
    assert rates == pytest.approx([8.0, 8.0, 5.0, 2.0, 0.0])


def test_a_host_without_long_interruptions_has_none() -> None:
    speed = load_host(HOST).speed()
    assert core_pauses(speed) is None
    assert core_pauses(replace(speed, interruptions=CURVE[:2])) is None
    assert core_pauses(replace(speed, interruptions=((5.0, 4.0), (1e3, 0.0), (2e3, 0.0)))) is None


def test_time_beyond_a_wait_is_the_integral_of_the_rates() -> None:
    # Ten pauses a second, all of 2 ms: of each, all but the first w is waited for longer than w.
    pauses = Pauses(np.array([1000.0, 1999.99, 2000.0]), np.array([10.0, 10.0, 0.0]))
    found = pauses.longer_s_per_s(np.array([0.0, 500.0, 1500.0, 2500.0]))
    assert found == pytest.approx([0.02, 0.015, 0.005, 0.0], abs=1e-4)


def predicted(rate_per_s: float | None, **workload: object) -> Prediction:
    """A prediction for a host whose cores pause so often, for ten milliseconds each time."""
    host = load_host(HOST)
    if rate_per_s is not None:
        points = [(1000.0, rate_per_s), (9_999.0, rate_per_s), (10_000.0, 0.0)]
        curve = Curve(x_unit="us", y_unit="1/s", kind="assumed", method="of a test", points=points)
        host = host.model_copy(update={"interruptions": curve})
    scenario = Scenario.model_validate(
        {"host": HOST, "engine": "valkey", "engine_version": "8.0", "workload": WORKLOAD | workload}
    )
    system = System(host, load_engine("valkey", "8.0"), load_generator("forecache"))
    case = Case(given={}, scenario=scenario), system
    [prediction] = predict_cases([case], draws=0, replications=1, requests=10_000)
    return prediction


def test_in_an_open_loop_what_arrives_in_a_pause_and_until_its_backlog_is_gone_waits() -> None:
    prediction = predicted(2.0, arrival="open_loop", rate_rps=90_000)
    use = prediction.utilisation
    found_ms = latency_with_pauses_ms(prediction, 0.99)
    assert found_ms is not None
    # Two pauses a second of D: 2 (D - w) / (1 - u) of each core's requests wait longer than w. The
    # main thread's core has them while it is busy, that of the load generator, which spins, always.
    main, load = use["main thread"], use["load generator"]
    per_ms = 2.0 / 1000.0 * (main / (1.0 - main) + 1.0 / (1.0 - load))
    assert found_ms == pytest.approx(10.0 - 0.01 / per_ms + prediction.mean("mean_ms"), rel=0.02)


def test_in_a_closed_loop_only_what_is_in_flight_waits() -> None:
    rare, frequent = predicted(1.0, arrival="closed_loop"), predicted(30.0, arrival="closed_loop")
    busy = sum(frequent.utilisation[name] for name in ("main thread", "load generator"))
    share = busy * 30.0 * frequent.mean("mean_ms") / 1000.0
    # Few enough not to be one in a hundred; and more than that, who wait for the whole pause.
    assert latency_with_pauses_ms(rare, 0.99) == pytest.approx(rare.mean("p99_ms"), rel=0.2)
    found_ms = latency_with_pauses_ms(frequent, 1.0 - share / 2)
    assert found_ms == pytest.approx(10.0 + frequent.mean("mean_ms"), rel=0.1)


def test_beyond_capacity_there_is_none() -> None:
    prediction = predicted(2.0, arrival="open_loop", rate_rps=2_000_000)
    assert latency_with_pauses_ms(prediction, 0.99) is None
    assert longest_probable_ms(prediction, 0.99) is None


@pytest.mark.parametrize("arrival", [{}, {"arrival": "open_loop", "rate_rps": 90_000}])
def test_an_interval_of_a_tail_holds_more_pauses_than_were_captured(
    arrival: dict[str, object],
) -> None:
    few, many = predicted(0.5, **arrival), predicted(0.5 * PAUSES_FACTOR, **arrival)
    with_many = latency_with_pauses_ms(many, 0.999)
    assert with_many is not None
    assert few.interval("p999_ms").value < with_many < 1.001 * few.interval("p999_ms").high
    assert few.interval("p50_ms").high < 2.0 * few.mean("p50_ms")


def test_an_interval_of_a_host_without_a_capture_holds_the_interruptions_of_captured_ones() -> None:
    unknown = predicted(None, arrival="open_loop", rate_rps=90_000)
    quiet = predicted(0.0, arrival="open_loop", rate_rps=90_000)
    assert latency_with_pauses_ms(unknown, 0.99) is None
    # A few pauses a second of some milliseconds: in an open loop one request in a hundred has one.
    assert unknown.mean("p99_ms") < 0.5 < unknown.interval("p99_ms").high
    assert longest_probable_ms(quiet, 0.99) is None
    assert quiet.interval("p99_ms").high < 2.0 * quiet.mean("p99_ms")


def test_a_core_that_sleeps_has_late_wake_ups_for_pauses_too() -> None:
    # One wake-up in a thousand takes 5 ms; most take 50 us, and meanwhile cores may be interrupted.
    spread = ((0.0, 1.0), (0.999, 1.0), (0.999001, 100.0), (1.0, 100.0))
    speed = replace(
        load_host(HOST).speed(), interruptions=CURVE, wake_latency_ns=50_000.0, wake_spread=spread
    )
    at_us = np.array([2000.0])
    [awake], [asleep] = (
        pauses.rate_per_s(at_us)
        for pauses in (core_pauses(speed), core_pauses(speed, busy=0.4, sleeps_per_s=3000.0))
        if pauses is not None
    )
    assert awake == pytest.approx(5.0, rel=1e-3)
    late = 0.001 - 2 * 5.0 * 50e-6
    assert asleep == pytest.approx(0.4 * 5.0 + 3000.0 * late, rel=0.01)


def test_a_core_that_is_called_at_once_is_hardly_ever_late() -> None:
    # Wake-ups take 50 us, so the capture sent its messages every 150 us, after 100 us of sleep.
    spread = ((0.0, 1.0), (0.9, 1.0), (0.900001, 100.0), (1.0, 100.0))
    speed = replace(
        load_host(HOST).speed(), interruptions=CURVE, wake_latency_ns=50_000.0, wake_spread=spread
    )

    def late(sleeps_per_s: float) -> float:
        """Of a core that is busy for 40% of its time, the share of wake-ups that are late."""
        found = core_pauses(speed, busy=0.4, sleeps_per_s=sleeps_per_s)
        assert found is not None
        [rate] = found.rate_per_s(np.array([2000.0]))
        return float(rate - 0.4 * 5.0) / sleeps_per_s

    as_captured = late(4000.0)  # 600 ms of a second: 150 us each, 50 of them for the wake-up
    assert late(1000.0) == pytest.approx(as_captured)
    assert late(6000.0) == pytest.approx(0.5 * as_captured, rel=1e-6)  # after 50 us of sleep
    assert late(12_000.0) == pytest.approx(0.0, abs=1e-9)
