"""Draws of a host that was fitted to datasets, together with engines on it."""

import math
from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.hwprofiles.completion import Learned, with_learned
from forecache.hwprofiles.files import parse
from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.system import System
from forecache.models.prediction.uncertainty import Draw, LearnedNumbers, learned_together
from forecache.models.scenario.schema import Scenario
from forecache.sim.errors import InputError

LEAF = {"unit": "ns", "kind": "fitted", "source": "datasets"}
LEARNED: dict[str, Any] = {
    "source": {"title": "a fit", "file": "datasets/", "points": {"some": [0, 2]}},
    "leaves": {
        "kernel.tcp_send_ns": {"value": 1600, "low": 1400, "high": 1829, **LEAF},
        "caches.L3.latency_ns": {"value": 26, "low": 25, "high": 27, **LEAF},
    },
    "posterior": {
        "discrepancy": 0.07,
        "commands_discrepancy": 0.3,
        "work": {"asynchronous.execute_lines": {"mean": 1.0, "error": 0.5}},
        "correlation": {"tcp_send_ns": {"asynchronous.execute_lines": -0.8}, "l3_ns": {}},
    },
}


def learned_host(change: dict[str, Any] | None = None) -> HostProfile:
    before = load_host("graviton3", fitted=False).model_dump(mode="json", exclude_none=True)
    learned = parse(Learned, {**LEARNED, **(change or {})}, file="learned.yaml")
    return parse(HostProfile, with_learned(before, learned), file="profile.yaml")


def test_learned_numbers_take_the_place_of_assumed_ones() -> None:
    host = learned_host()
    assert host.speed().tcp_send_ns == 1600
    assert host.speed().l3_ns == 26
    assert host.speed().tcp_recv_ns == load_host("graviton3", fitted=False).speed().tcp_recv_ns
    assert host.sources["datasets"].points == {"some": [0, 2]}


def test_an_engine_of_the_policy_has_the_work_that_was_learned_there() -> None:
    host, generator = learned_host(), load_generator("valkey-benchmark")
    for name, factor in (("valkey-8.1", 2.0), ("redis-8.0", 1.0)):
        engine = load_engine(name)
        found = System(host, engine, generator).numbers().work.execute_lines
        low, best, high = engine.uncertain()["execute_lines"]
        one_error = (high / best) ** (1 / 1.96)
        assert found == pytest.approx(best * (one_error if factor > 1 else 1.0), rel=1e-3)
        assert low < found < high


def test_draws_have_the_errors_and_the_correlation_that_were_found() -> None:
    host, engine = learned_host(), load_engine("valkey-8.1")
    _low, best, high = engine.uncertain()["execute_lines"]
    logs = []
    for number in range(2000):
        of_host, of_work = learned_together(host, engine).drawn(Draw(3, number))
        assert set(of_host) == {"tcp_send_ns", "l3_ns"}
        logs.append((math.log(of_host["tcp_send_ns"]), math.log(of_work["execute_lines"])))
    send, lines = np.array(logs).T
    assert np.mean(send) == pytest.approx(math.log(1600), abs=0.01)
    assert np.std(send) == pytest.approx(math.log(1829 / 1600) / 1.96, rel=0.06)
    assert np.mean(lines) == pytest.approx(math.log(best) + math.log(high / best) / 1.96, abs=0.02)
    assert np.corrcoef(send, lines)[0, 1] == pytest.approx(-0.8, abs=0.04)


def test_the_models_error_is_the_one_found_on_left_out_loads() -> None:
    engine, generator = load_engine("valkey-8.1"), load_generator("valkey-benchmark")
    told = {"host": "graviton3", "engine": "valkey", "engine_version": "8.1"}
    gets, others = (
        parse(Scenario, {**told, "workload": {"arrival": "closed_loop", **load}}, file="load.yaml")
        for load in ({"mix": {"get": 0.8, "set": 0.2}}, {"mix": {"mget": {"share": 1, "keys": 9}}})
    )
    system = System(learned_host(), engine, generator)
    assert (system.discrepancy(gets), system.discrepancy(others)) == (0.07, 0.3)
    before = load_host("graviton3", fitted=False)
    assert 0.08 < System(before, engine, generator).discrepancy(gets) < 0.3
    assert learned_together(before, engine).drawn(Draw(1, 0)) == ({}, {})


def test_a_correlation_beyond_one_is_refused() -> None:
    wrong = {**LEARNED["posterior"], "correlation": {"tcp_send_ns": {"l3_ns": 1.2}}}
    with pytest.raises(InputError, match=r"correlation\.tcp_send_ns\.l3_ns"):
        learned_host({"posterior": wrong})


def test_an_observation_elsewhere_adds_to_what_a_joint_fit_learned() -> None:
    """Closed form: conditioning on the datasets or on the observation first gives the same."""
    bounds = (math.exp(-1.96 * 0.1), 1.0, math.exp(1.96 * 0.1))
    # Host and engine are known apart with a variance of one; data told their sum to be 1 +- 0.5.
    gain = 1.0 / (2.0 + 0.25)
    error, correlation = math.sqrt(1.0 - gain), -gain / (1.0 - gain)
    matrix = np.array([[1.0, correlation], [correlation, 1.0]])
    host = {"tcp_send_ns": (bounds, gain, error)}
    before = LearnedNumbers(host, {"kernel_scale": (bounds, gain, error)}, matrix)
    # An observation leaves the engine at 0.6 with half of the error it had.
    seen = tuple(math.exp(0.1 * (0.6 + z * 0.5)) for z in (-1.96, 0.0, 1.96))
    after = before.with_observation({"kernel_scale": bounds}, {"kernel_scale": seen})  # type: ignore[dict-item]
    second = np.array([[1.0, 0.0], [0.0, 0.25]])
    rows = np.array([1.0, 1.0])
    weight = second @ rows / (rows @ second @ rows + 0.25)
    mean = np.array([0.0, 0.6]) + weight * (1.0 - 0.6)
    left = second - np.outer(weight, rows @ second)
    found = [*after.host.values(), *after.work.values()]
    assert [m for _, m, _ in found] == pytest.approx(mean, rel=1e-3)
    assert [e**2 for _, _, e in found] == pytest.approx(np.diag(left), rel=1e-3)
    expected = left[0, 1] / math.sqrt(left[0, 0] * left[1, 1])
    assert after.correlation[0, 1] == pytest.approx(expected, rel=1e-3)


def test_an_observation_that_narrows_nothing_changes_nothing() -> None:
    bounds = (0.8, 1.0, 1.25)
    before = LearnedNumbers({}, {"kernel_scale": (bounds, 0.3, 0.8)}, np.eye(1))
    wider = {"kernel_scale": (1.2, 1.6, 2.2)}
    assert before.with_observation({"kernel_scale": bounds}, wider) is before


def test_only_an_engine_that_began_with_the_shipped_one_adds_to_it() -> None:
    """A file of the user's own, or a shipped profile, stands as it is."""
    host, shipped = load_host("graviton3"), load_engine("redis-8.0")
    assert shipped.observed is not None
    own = {"began_with": "redis-8.0", "host": "elsewhere"}
    leaf = shipped.work["get_instructions"]
    assert leaf.value is not None
    less = {key: 0.7 * leaf.value * f for key, f in (("value", 1), ("low", 0.99), ("high", 1.01))}
    work = {**shipped.work, "get_instructions": leaf.model_copy(update=less)}
    edited = shipped.model_copy(update={"id": "mine", "work": work})
    seen = edited.model_copy(update={"observed": shipped.observed.model_copy(update=own)})
    alone = {
        name: System(host, engine, load_generator("valkey-benchmark")).numbers()
        for name, engine in (("shipped", shipped), ("edited", edited), ("seen", seen))
    }
    assert alone["edited"].speed == alone["shipped"].speed
    assert alone["seen"].speed.user_ipc < alone["shipped"].speed.user_ipc, "less work, slower host"
