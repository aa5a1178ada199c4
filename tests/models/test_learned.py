"""Draws of a host that was fitted to datasets, together with engines on it."""

import math
from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.hwprofiles.files import parse
from forecache.hwprofiles.learned import Learned, with_learned
from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.system import System
from forecache.models.prediction.uncertainty import Draw, draw_learned
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
        of_host, of_work = draw_learned(host, engine, Draw(3, number))
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
    assert draw_learned(before, engine, Draw(1, 0)) == ({}, {})


def test_a_correlation_beyond_one_is_refused() -> None:
    wrong = {**LEARNED["posterior"], "correlation": {"tcp_send_ns": {"l3_ns": 1.2}}}
    with pytest.raises(InputError, match=r"correlation\.tcp_send_ns\.l3_ns"):
        learned_host({"posterior": wrong})
