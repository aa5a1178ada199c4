"""How far a node of today goes: where chances cross, and what its scenario is."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from forecache.models.advice import limits
from forecache.models.plan import capacity_limit as module
from forecache.models.plan.capacity_limit import (
    HIGH,
    LOW,
    MIDDLE,
    busiest_primary,
    capacity_limit,
    crossings,
)
from forecache.models.plan.results import CurrentNode, FromInfo
from forecache.models.plan.schema import PlanDemand
from forecache.models.prediction.predict import predict_cases

DEMAND = {"operations": {"get": 90_000, "set": 10_000}, "keys": 200_000, "value_bytes": 200}


def found(**today: object) -> FromInfo:
    """What two primaries told."""
    nodes = [CurrentNode(name, "primary", rate, rate, 1e8, 100_000) for name, rate in LOADS.items()]
    known = {"engine": "valkey", "engine_version": "8.1.1", "replicas": 0, "io_threads": 1}
    return FromInfo(nodes, DEMAND, {**known, "shards": 2, **today}, [], [], [], [])


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few short runs."""

    def few(*cases: Any, **how: Any) -> Any:
        return predict_cases(*cases, **(how | {"draws": 4, "replications": 2, "requests": 3_000}))

    monkeypatch.setattr(module, "predict_cases", few)
    monkeypatch.setattr(limits, "REQUESTS", 3_000)


LOADS = {"a": 40_000.0, "b": 60_000.0}


@given(
    middle=st.floats(1e3, 1e7),
    spread=st.floats(0.02, 0.5),
    start=st.floats(0.5, 2.0),
)
def test_crossings_of_a_log_normal(middle: float, spread: float, start: float) -> None:
    asked: list[float] = []

    def chances(rates: Sequence[float]) -> list[float]:
        asked.extend(rates)
        return [float(ndtr(math.log(middle / rate) / spread)) for rate in rates]

    ends = crossings(chances, start * middle, (LOW, MIDDLE, HIGH))
    for value in (LOW, MIDDLE, HIGH):
        exact = middle * math.exp(-spread * float(ndtri(value)))
        assert ends[value] == pytest.approx(exact, rel=0.03)
    assert len(asked) < 45


def test_crossings_of_a_cliff_and_of_chance() -> None:
    def cliff(rates: Sequence[float]) -> list[float]:
        return [1.0 if rate < 1000.0 else 0.0 for rate in rates]

    ends = crossings(cliff, 900.0, (LOW, MIDDLE, HIGH))
    assert all(end == pytest.approx(1000.0, rel=0.02) for end in ends.values())

    def never(rates: Sequence[float]) -> list[float]:
        return [1.0 for _ in rates]

    assert crossings(never, 10.0, (MIDDLE,))[MIDDLE] >= 100.0  # nothing is found that stops it


def test_the_scenario_of_a_node_of_today() -> None:
    scenario = busiest_primary(
        found(), PlanDemand.model_validate(DEMAND), slo={"p99_ms": 1.0},
        node={"host": "r7g.large", "irq_cores": 1, "workload": {"clients": 7}},
    )  # fmt: skip
    assert scenario["workload"]["rate_rps"] == 50_000
    assert scenario["workload"]["keys"] == 100_000
    assert scenario["workload"]["clients"] == 7
    assert (scenario["host"], scenario["irq_cores"]) == ("r7g.large", 1)
    assert scenario["engine_version"] == "8.1.1"


@pytest.mark.usefixtures("brief")
def test_the_ceiling_lies_within_its_interval_and_tells_the_busiest_first() -> None:
    scenario = busiest_primary(
        found(), PlanDemand.model_validate(DEMAND), slo={"p99_ms": 1.0}, node={"host": "r7g.large"}
    )
    answer, _ = capacity_limit(found(), scenario)
    rps = answer.ceiling_rps
    assert 0 < rps.low < rps.value < rps.high
    assert rps.low < answer.nominal_rps < rps.high
    assert [node.name for node in answer.nodes] == ["b", "a"]
    assert answer.nodes[0].headroom == pytest.approx(1 - 60_000 / rps.value)
    tight, _ = capacity_limit(found(), {**scenario, "slo": {"p99_ms": 0.12}}, times=2.0)
    assert tight.ceiling_rps.value < rps.value
    assert answer.probability is not None
    assert tight.probability is not None
    assert 0.0 <= tight.probability < answer.probability <= 1.0
    ratios = {each.what: each.ratio for each in answer.otherwise}
    assert ratios["values of 800 B"] < 1.0 < ratios["values of 50 B"]
    away = [abs(math.log(ratio)) for ratio in ratios.values()]
    assert away == sorted(away, reverse=True)
    assert answer.measure_next is not None  # no node told its own times
    assert answer.measure_next.measurements


@pytest.mark.usefixtures("brief")
def test_an_objective_that_no_load_meets_has_no_ceiling() -> None:
    scenario = busiest_primary(
        found(), PlanDemand.model_validate(DEMAND), slo={"p99_ms": 1e-4}, node={"host": "r7g.large"}
    )
    answer, _ = capacity_limit(found(), scenario)
    assert answer.ceiling_rps.value == answer.ceiling_rps.high == 0.0
    assert answer.nodes[0].headroom == -math.inf
    assert answer.to_dict()["nodes"][0]["headroom"] is None
