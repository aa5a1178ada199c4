"""What a node says of its own times: taken into the prediction, and how sure that makes it."""

import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles.catalogue import load_host
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.plan.own_times import (
    LEAST_RPS,
    TIMER_SHARE,
    OwnTimeCorrections,
    awake_us,
    corrections_from,
    mean_times,
    nominal_awake_us,
    parts_under,
)
from forecache.models.plan.results import OwnTimes
from forecache.models.prediction.predict import Prediction, predict_cases
from forecache.models.prediction.system import CorrectedSystem, Corrections, System
from forecache.models.prediction.uncertainty import Draw
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case

RATE_RPS = 20_000.0


@pytest.fixture(scope="module")
def system() -> System:
    """An engine of the catalogue on a host of the catalogue."""
    parts = load_host("r7i.large"), load_engine("redis", "7.0"), load_generator("memtier-benchmark")
    return System(*parts)


def scenario(**workload: Any) -> Scenario:
    """A node under a light open loop."""
    load = {"arrival": "open_loop", "rate_rps": RATE_RPS, "mix": {"get": 0.5, "hgetall": 0.5}}
    hashes = {"keys": 1000, "fields": 60}
    data = {"host": "r7i.large", "engine": "redis", "engine_version": "7.0"}
    return Scenario.model_validate(
        {**data, "workload": {**load, "hashes": hashes, "keys": 10_000, **workload}}
    )


def corrected(system: System, by: Corrections) -> CorrectedSystem:
    """The system with one correction everywhere."""
    parts = system.host, system.engine, system.generator
    return CorrectedSystem(*parts, nominal_corrections=by, drawn_corrections=(by,))


def predicted(system: System, node: Scenario) -> Prediction:
    """At the nominal numbers."""
    [found] = predict_cases([(Case({}, node), system)], draws=0, replications=2)
    return found


def measured_corrections(system: System, node: Scenario) -> OwnTimes:
    """What a node that does as a system says would tell."""
    rate_rps = node.workload.rate_rps or 0.0
    parts = parts_under(predicted(system, node), rate_rps=rate_rps)
    return OwnTimes(
        span_s=60.0, between_looks=True, busy=sum(parts) + TIMER_SHARE, inside=parts.inside,
        administration=0.0, forks=0.0, expiry=0.0, commands_a_read=1.0,
    )  # fmt: skip


def saturated_us(system: System) -> tuple[float, np.ndarray]:
    """CPU time a request in saturation, nominal and drawn."""
    closed = scenario(arrival="closed_loop", rate_rps=None)
    found = predicted(system, closed)
    return nominal_awake_us(found), awake_us(found, seed=1)


@pytest.mark.parametrize("inside", [-0.5, 0.7])
def test_a_node_that_differs_is_recovered_from_its_own_times(system: System, inside: float) -> None:
    real = corrected(system, Corrections(inside=inside, rest=0.15, sleep=0.8))
    own = measured_corrections(real, scenario())
    found, shares = corrections_from(scenario(), system, own, rate_rps=RATE_RPS, seed=1)
    assert found is not None
    before, _ = saturated_us(system)
    after, drawn = saturated_us(found.system)
    exact, _ = saturated_us(real)
    assert abs(math.log(after / exact)) < 0.5 * abs(math.log(before / exact))
    # What is inside is not known to 60% before, as the items of its commands aren't told.
    assert np.std(np.log(drawn)) < 0.15
    assert abs(math.log(after / exact)) < 3.0 * np.std(np.log(drawn))
    whole = shares[0]
    assert whole.measured is not None
    assert whole.after == pytest.approx(whole.measured, rel=0.15)


def test_a_node_that_does_as_predicted_is_hardly_corrected(system: System) -> None:
    own = measured_corrections(system, scenario())
    found, _ = corrections_from(scenario(), system, own, rate_rps=RATE_RPS, seed=1)
    assert found is not None
    corrections = found.system.nominal_corrections
    assert abs(corrections.inside) < 0.1
    assert abs(corrections.rest) < 0.1


def test_a_load_that_is_too_light_tells_nothing(system: System) -> None:
    node = scenario(rate_rps=LEAST_RPS / 2)
    own = measured_corrections(system, node)
    found, shares = corrections_from(node, system, own, rate_rps=LEAST_RPS / 2, seed=1)
    assert found is None
    assert all(each.after is None for each in shares)


def test_only_the_commands_part_goes_to_another_machine(system: System) -> None:
    by = Corrections(inside=0.6, rest=0.2, sleep=-0.4)
    of_mix = Corrections(inside=0.45)
    found = OwnTimeCorrections(corrected(system, by), of_mix, (of_mix,))
    elsewhere = System(load_host("r8g.large"), system.engine, system.generator)
    there = found.of(elsewhere)
    assert isinstance(there, CorrectedSystem)
    assert there.nominal_corrections == of_mix
    assert there.discrepancy(scenario()) == elsewhere.discrepancy(scenario())
    here = found.of(system)
    assert isinstance(here, CorrectedSystem)
    assert here.nominal_corrections == by


def test_corrections_scale_the_work_of_their_part_and_survive_the_way(system: System) -> None:
    by = Corrections(inside=math.log(2.0), rest=math.log(3.0), sleep=math.log(5.0))
    found = pickle.loads(pickle.dumps(corrected(system, by)))
    work, before = found.numbers().work, system.numbers().work
    assert work.get_instructions == pytest.approx(2.0 * before.get_instructions)
    assert work.kernel_scale == pytest.approx(3.0 * before.kernel_scale)
    assert work.wake_scale == pytest.approx(5.0 * before.wake_scale)
    name = "hgetall_listpack_instructions"
    assert work.commands[name] == pytest.approx(2.0 * before.commands[name])
    none = corrected(system, Corrections())
    assert none.numbers(draw=3, seed=2) == system.numbers(draw=3, seed=2)
    assert none._drawn(Draw(2, 3)) == system._drawn(Draw(2, 3))


def test_several_nodes_are_one_on_average() -> None:
    one = OwnTimes(
        span_s=10.0, between_looks=True, busy=0.4, inside=0.2, administration=0.0, forks=0.0,
        expiry=0.0, commands_a_read=1.0,
    )  # fmt: skip
    other = replace(one, busy=0.6, inside=0.4, commands_a_read=3.0)
    found = mean_times([(one, 1000.0), (other, 3000.0)])
    assert found is not None
    own, rate = found
    assert (own.busy, own.inside, own.commands_a_read) == (0.5, pytest.approx(0.3), 2.0)
    assert rate == 2000.0
    untold = mean_times([(one, 1.0), (replace(other, busy=None), 1.0)])
    assert untold is not None
    assert untold[0].busy is None
    assert mean_times([]) is None
