"""`irq_cores` of a scenario: work that leaves the server's threads, and cores that leave them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.hwprofiles.completion import ASSUMED_SOFTIRQ_NS
from forecache.models.advice.answers import load_cases, thread_candidates
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.caveats import not_covered
from forecache.models.prediction.node_setup import node_setup
from forecache.models.prediction.predict import predict_cases
from forecache.models.prediction.simulation import times_of
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case, expand
from forecache.models.step_times.cores import sharing
from forecache.sim.errors import InputError

SYSTEM = System(
    load_host("graviton3-c7g.4xlarge"),
    load_engine("valkey", "8.0"),
    load_generator("memtier-benchmark"),
)


def scenario(**top: Any) -> Scenario:
    data = {"host": "graviton3-c7g.4xlarge", "engine": "valkey", "io_threads": 8, **top}
    [case] = expand({**data, "workload": {"clients": 400}}, file="test", schema=Scenario)
    return case.scenario


def test_a_send_leaves_its_interrupt_to_the_cores_set_apart() -> None:
    shared = times_of(SYSTEM.inputs(scenario()))
    apart = times_of(SYSTEM.inputs(scenario(irq_cores=2)))
    assert apart.softirq_ps == round(1000 * ASSUMED_SOFTIRQ_NS.best)
    assert shared.send_ps - apart.send_ps == pytest.approx(apart.softirq_ps, abs=2)
    assert shared.generator_send_ps == apart.generator_send_ps
    assert shared.recv_ps == apart.recv_ps


def test_a_cheap_send_keeps_its_own_part() -> None:
    inputs = SYSTEM.inputs(scenario(irq_cores=2))
    cheap = replace(inputs.speed, tcp_send_ns=1000.0)
    times = times_of(replace(inputs, speed=cheap))
    sends_ps = 400_000 * inputs.work.kernel_scale
    sends_ps *= inputs.speed.connection_scale(inputs.scenario.workload.clients)
    assert times.send_ps == pytest.approx(sends_ps, rel=1e-3)


def test_on_one_host_there_is_nothing_to_interrupt() -> None:
    local = scenario(irq_cores=2, load_generator={"same_host": True})
    assert local.interrupt_cores == 0
    inputs = SYSTEM.inputs(local)
    assert node_setup(inputs, warmup_ps=0, end_ps=1, seed=1, replication=0).interrupt_cores == 0
    assert times_of(inputs).send_ps == times_of(SYSTEM.inputs(scenario())).send_ps
    assert any("irq_cores" in warning for warning in not_covered(local, SYSTEM))


def test_cores_set_apart_run_no_threads() -> None:
    def left(**top: Any) -> int:
        return sharing(scenario(**top), host_cores=16).server_cores

    assert left() == 16
    assert left(irq_cores=2) == 14
    assert left(irq_cores=4, cores=8) == 8
    counts = [
        case.scenario.io_threads
        for case, _ in thread_candidates(Case(given={}, scenario=scenario(irq_cores=6)), SYSTEM)
    ]
    assert max(counts) == 10


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"irq_cores": 16}, "field irq_cores: found 16; valid is less than the host's 16 cores"),
        ({"irq_cores": {"sweep": [0, 40]}}, "field irq_cores: found 40; valid is less than"),
        (
            {"load_generator": {"same_host": True, "cores": 17}},
            "field load_generator.cores: found 17; valid is at most the 16 cores",
        ),
        (
            {"main_thread_pinned": True, "cores": 1, "io_threads": {"sweep": [1, 2]}},
            "field main_thread_pinned: found true; valid is false where the server has one core",
        ),
    ],
)
def test_more_cores_than_the_host_has_are_refused(given: dict[str, Any], told: str) -> None:
    fields = {"host": "graviton3-c7g.4xlarge", "engine": "valkey"}
    with pytest.raises(InputError, match="scenario: field") as error:
        load_cases({**fields, **given})
    assert told in str(error.value)
    assert len(load_cases({**fields, "irq_cores": {"sweep": [0, 15]}})) == 2
    assert load_cases({**fields, "main_thread_pinned": True, "cores": 1, "io_threads": 1})


def test_what_an_interrupt_takes_is_uncertain() -> None:
    drawn = [SYSTEM.inputs(scenario(irq_cores=2), draw=draw).speed for draw in range(40)]
    assert drawn == [SYSTEM.inputs(scenario(), draw=draw).speed for draw in range(40)]
    low, high = ASSUMED_SOFTIRQ_NS.low, ASSUMED_SOFTIRQ_NS.high
    assert low is not None
    assert high is not None
    inside = np.mean([low <= speed.softirq_ns <= high for speed in drawn])
    assert 0.8 < inside <= 1.0


def test_one_interrupt_core_limits_a_fast_server() -> None:
    case = Case(given={}, scenario=scenario(irq_cores=1, load_generator={"threads": 32}))
    system = System(
        SYSTEM.host.model_copy(
            update={
                "kernel": SYSTEM.host.kernel.model_copy(
                    update={"softirq_ns": ASSUMED_SOFTIRQ_NS.model_copy(update={"value": 1500.0})}
                )
            }
        ),
        SYSTEM.engine,
        SYSTEM.generator,
    )
    [prediction] = predict_cases([(case, system)], draws=0, replications=1, requests=20_000)
    assert prediction.bottleneck == "interrupts"
    assert prediction.mean("throughput_rps") == pytest.approx(1e9 / 1500, rel=0.02)
