"""What stations allow bounds a throughput, and says what it hinges on."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.models.advice.answers import load_cases
from forecache.models.advice.effects import (
    RESOURCES,
    ThroughputBound,
    ridge_elasticities,
    service_times_us,
    throughput_bound,
)
from forecache.models.prediction.predict import Prediction, predict_cases

MAIN, IO = RESOURCES.index("main"), RESOURCES.index("I/O")
ONE_THREAD = {"tool": "valkey-benchmark", "threads": 1}


def predicted(*, draws: int = 0, **fields: Any) -> Prediction:
    workload = {"clients": 200, "command": "get", **fields.pop("workload", {})}
    found = load_cases(
        {
            "host": "graviton3-c7g.4xlarge",
            "engine": "valkey",
            "engine_version": "8.0",
            "workload": workload,
            **fields,
        }
    )
    [prediction] = predict_cases(found, draws=draws, replications=1)
    return prediction


def bound_of(prediction: Prediction) -> ThroughputBound:
    inputs = prediction.system.inputs(prediction.case.scenario)
    return throughput_bound(prediction, service_times_us(prediction, inputs))


def changes(**logs: float) -> np.ndarray:
    """(1, resources), by name."""
    return np.array([[logs.get(name.replace(" ", "_"), 0.0) for name in RESOURCES]])


def made_up(stations: list[dict[int, float]], constant: list[float] | None = None) -> Any:
    busy = np.array([[each.get(n, 0.0) for n in range(len(RESOURCES))] for each in stations])
    return ThroughputBound(busy, np.array(constant or [0.0] * len(stations)))


def test_the_busiest_station_is_the_limit() -> None:
    bound = made_up([{MAIN: 1.0}, {IO: 0.5}])
    assert bound.logs(changes(main=0.2))[0] == pytest.approx(-0.2)
    assert bound.logs(changes(main=-0.2))[0] == pytest.approx(0.2)
    # I/O threads allow twice as much, and no more.
    assert bound.logs(changes(main=-2.0))[0] == pytest.approx(np.log(2.0))
    assert bound.elasticities(changes())[[MAIN, IO]].tolist() == [-1.0, 0.0]


def test_elasticities_are_how_often_a_station_is_the_limit() -> None:
    bound = made_up([{MAIN: 1.0}, {IO: 0.5}])
    draws = np.zeros((10, len(RESOURCES)))
    draws[:3, IO] = 1.0
    assert bound.elasticities(draws)[[MAIN, IO]].tolist() == pytest.approx([-0.7, -0.3])


def test_what_no_number_changes_takes_its_share() -> None:
    bound = made_up([{MAIN: 0.25}], [0.75])
    assert bound.elasticities(changes())[MAIN] == pytest.approx(-0.25)
    assert bound.logs(changes(main=np.log(2.0)))[0] == pytest.approx(-np.log(1.25))


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_elasticities_are_slopes(seed: int, stations: int) -> None:
    random = np.random.default_rng(seed)
    shape = stations, len(RESOURCES)
    bound = ThroughputBound(random.uniform(0.1, 1.0, shape), random.uniform(0.0, 0.5, stations))
    at = random.normal(0.0, 0.3, (1, len(RESOURCES)))
    along = random.normal(0.0, 1.0, len(RESOURCES))
    up, down = (bound.logs(at + sign * 1e-7 * along)[0] for sign in (1, -1))
    slope = bound.elasticities(at) @ along
    ahead, behind = bound.elasticities(at + 1e-6 * along), bound.elasticities(at - 1e-6 * along)
    if np.allclose(ahead, behind, atol=1e-4):  # not at a kink
        assert (up - down) / 2e-7 == pytest.approx(slope, abs=1e-5)
    assert np.all(bound.elasticities(at) <= 0.0)
    assert bound.elasticities(at).sum() >= -1.0 - 1e-12


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, "main"),
        ({"io_threads": 16, "load_generator": ONE_THREAD}, "generator"),
        ({"workload": {"clients": 4}}, "one way"),
        ({"engine": "memcached", "engine_version": "1.6", "io_threads": 2}, "worker"),
        ({"io_threads": 4, "cpu_quota_cores": 1.0}, "I/O"),
    ],
)
def test_of_a_run_the_limit_is_all_but_reached(fields: dict[str, Any], limit: str) -> None:
    bound = bound_of(predicted(**fields))
    # Under a quota threads spin away another 0.13.
    assert bound.logs(changes())[0] == pytest.approx(0.0, abs=0.15)
    elasticities = bound.elasticities(changes())
    assert RESOURCES[int(elasticities.argmin())] == limit


def test_pauses_of_clients_leave_the_server_little_to_say() -> None:
    bound = bound_of(predicted(workload={"clients": 20, "think_us": 5000}))
    assert bound.logs(changes())[0] == pytest.approx(0.0, abs=0.02)
    assert bound.elasticities(changes()).sum() > -0.05


def test_no_more_completes_than_arrives() -> None:
    bound = bound_of(predicted(workload={"arrival": "open_loop", "rate_rps": 50_000}))
    assert bound.logs(changes(main=-3.0))[0] == pytest.approx(0.0, abs=0.02)
    assert bound.logs(changes(main=3.0))[0] < -1.0


def test_it_tells_what_draws_do() -> None:
    """Main thread, I/O threads and network limit in turn here."""
    prediction = predicted(
        draws=20, engine_version="9.1", io_threads=8, workload={"clients": 650, "command": "get"}
    )
    scenario, system = prediction.case.scenario, prediction.system
    nominal_us = service_times_us(prediction, system.inputs(scenario))
    drawn_us = [
        service_times_us(prediction, system.inputs(scenario, draw=n, seed=1)) for n in range(20)
    ]
    known = nominal_us > 0.0
    drawn = np.zeros((20, len(RESOURCES)))
    drawn[:, known] = np.log(np.array(drawn_us)[:, known] / nominal_us[known])
    logs = prediction.log_draws("throughput_rps")
    left = logs - throughput_bound(prediction, nominal_us).logs(drawn)
    assert np.std(left) < 0.15 * np.std(logs)


def test_a_regression_finds_what_is_there() -> None:
    random = np.random.default_rng(3)
    times = random.normal(0.0, [0.1, 0.3, 0.5, 0.0], (20, 4))
    exact, _ = ridge_elasticities(times, 2.0 + times @ [-0.5, -0.3, 0.1, 0.0])
    assert exact == pytest.approx([-0.5, -0.3, 0.1, 0.0], abs=0.01)


def test_a_regression_on_chance_finds_next_to_nothing() -> None:
    """Draws left out one at a time tell that a fit of few draws to noise is worth nothing."""
    random = np.random.default_rng(4)
    found, penalised = [], []
    for _ in range(50):
        times, noise = random.normal(0.0, 1.0, (20, 6)), random.normal(0.0, 1.0, 20)
        centred = times - times.mean(axis=0)
        found.append(np.sum(ridge_elasticities(times, noise)[0] ** 2))
        penalised.append(np.sum(np.linalg.lstsq(centred, noise, rcond=None)[0] ** 2))
    assert np.median(found) < 0.2 * np.median(penalised)
