"""What calibration points may move, and that a fit finds it again."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecache.calibration.validate.dataset import MeasuredCase, list_datasets, read_dataset
from forecache.calibration.validate.node_dataset import (
    HOST,
    KERNEL,
    USER,
    WAKE,
    FactorPosterior,
    factors_for,
    fit_posterior,
)
from forecache.hwprofiles import load_host
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import Metrics
from forecache.models.prediction.simulation import run
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import expand

SYSTEM = System(
    load_host("graviton3-c7g.4xlarge"),
    load_engine("valkey-8.0"),
    load_generator("valkey-benchmark"),
)


def case_of(pipeline: int, observed_rps: float = 1.0, **scenario: Any) -> MeasuredCase:
    workload = {"clients": 50, "pipeline": pipeline, "keys": 1000, "value_bytes": 64}
    data = {"host": "graviton3", "engine": "valkey", "engine_version": "8.0", "io_threads": 1}
    [case] = expand({**data, **scenario, "workload": workload}, file="test", schema=Scenario)
    return MeasuredCase({}, "calibration", {"throughput_rps": observed_rps}, case.scenario, 0)


def throughput_rps(scenario: Scenario, factors: FactorPosterior, logs: np.ndarray) -> float:
    inputs = factors.apply(SYSTEM.inputs(scenario), logs)
    return Metrics.of(run(inputs, requests=20_000, seed=3)).values["throughput_rps"]


def test_a_fit_finds_the_machine_behind_the_points() -> None:
    truth = FactorPosterior([KERNEL, USER], np.log([1.3, 0.85]), np.eye(2))
    cases = [case_of(pipeline) for pipeline in (1, 4, 16, 64)]
    paired = []
    for each in cases:
        rps = throughput_rps(each.scenario, truth, truth.mean)
        paired.append((case_of(each.scenario.workload.pipeline, rps), SYSTEM))
    found = fit_posterior([KERNEL, USER], paired, seed=1)
    error = np.sqrt(np.diag(found.covariance))
    assert (np.abs(found.mean - truth.mean) < 2 * error).all()
    # A factor is not known better than the model is right.
    assert SYSTEM.engine.discrepancy is not None
    assert (error > SYSTEM.engine.discrepancy / 4).all()
    assert (error < [KERNEL.prior_error, USER.prior_error]).all()


def test_only_an_unnamed_host_has_a_speed_to_find() -> None:
    cases = [case_of(1), case_of(10)]
    assert set(factors_for(cases, host_known=True)) == {KERNEL, WAKE, USER}
    assert set(factors_for(cases, host_known=False)) == {HOST, KERNEL, WAKE, USER}


def test_without_a_point_to_fit_only_an_unknown_speed_is_open() -> None:
    measured = replace(case_of(1), role="validation")
    without_throughput = replace(case_of(1), observed={"p99_ms": 1.0})
    for cases in ([], [measured], [without_throughput]):
        assert factors_for(cases, host_known=True) == []
        assert factors_for(cases, host_known=False) == [HOST]
    prior = fit_posterior([HOST], [], seed=1)
    assert prior.covariance == pytest.approx(np.array([[HOST.prior_error**2]]))
    assert fit_posterior([], [], seed=1).draw(np.random.default_rng(1)).shape == (0,)


def test_an_unnamed_host_differs_from_the_reference_as_those_of_the_catalogue_do() -> None:
    reference = load_host("graviton3").speed()
    logs = []
    for name in ("graviton2", "graviton4", "icelake-8375c", "sapphire-rapids"):
        speed = load_host(name).speed()
        for field in ("dram_ns", "l3_ns", "tcp_send_ns", "tcp_recv_ns", "core_to_core_ns"):
            logs.append(math.log(getattr(speed, field) / getattr(reference, field)))
        rate = speed.user_ipc * speed.clock_ghz / (reference.user_ipc * reference.clock_ghz)
        logs.append(math.log(rate))
    assert np.sqrt(np.mean(np.square(logs))) == pytest.approx(HOST.prior_error, rel=0.25)


def test_datasets_of_one_machine_name_each_other_and_share_host_and_engine() -> None:
    linked = [dataset for dataset in list_datasets() if dataset.same_machine]
    assert linked
    for dataset in linked:
        for name in dataset.same_machine:
            other, _ = read_dataset(name)
            assert dataset.id in other.same_machine
            for field in ("host", "engine", "engine_version", "transport"):
                assert other.scenario[field] == dataset.scenario[field]


# --- several engines on one machine ---------------------------------------------------------------

OLD = System(
    load_host("graviton3-c7g.4xlarge"),
    load_engine("valkey-7.2"),
    load_generator("valkey-benchmark"),
)


def test_factors_of_several_engines_are_of_the_host() -> None:
    cases = [case_of(1), case_of(10)]
    found = factors_for(cases, host_known=True, several_engines=True)
    assert all(factor.of_host for factor in found)
    assert not any(factor.of_host for factor in (KERNEL, WAKE, USER, HOST))
    scenario = cases[0].scenario
    [user] = [factor for factor in found if factor.name == "host user"]
    for system in (SYSTEM, OLD):
        before, after = system.inputs(scenario), user.apply(system.inputs(scenario), 1.25)
        assert after.work == before.work
        assert after.speed.user_ipc == pytest.approx(before.speed.user_ipc / 1.25)


def test_a_point_tells_less_of_the_host_where_work_is_less_known() -> None:
    """8.0 was observed, 7.2 has the work of a relative in wider ranges."""
    factors = factors_for([case_of(1)], host_known=False, several_engines=True)
    kernel = [factor.name for factor in factors].index("host kernel")
    found = {}
    for system in (SYSTEM, OLD):
        inputs = system.inputs(case_of(1).scenario)
        rps = run(inputs, requests=20_000, seed=3).throughput_rps
        # The machine was a fifth slower than its profile says.
        pair = (case_of(1, rps / 1.2), system)
        found[system.engine.id] = fit_posterior(factors, [pair], seed=1)
    told = {name: posterior.mean[kernel] for name, posterior in found.items()}
    error = {name: posterior.covariance[kernel, kernel] for name, posterior in found.items()}
    assert told["valkey-8.0"] > told["valkey-7.2"] > 0
    assert error["valkey-8.0"] < error["valkey-7.2"] < factors[kernel].prior_error ** 2
