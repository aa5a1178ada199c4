"""`region`: whose prices an answer has, and what is said where days or regions differ."""

from typing import Any

import pytest

import forecache
from forecache.models.advice.cases import load_cases
from forecache.models.plan.answer import load_plan, payment_warnings
from forecache.models.plan.bill import bill_lines, with_bill
from forecache.models.plan.offers import find_offers
from forecache.models.plan.schema import PlanScenario
from forecache.models.plan.shard import Offer
from forecache.models.prices.table import HourlyPrice, days_apart, server_price
from forecache.models.scenario.source import ScenarioFile, in_region
from forecache.sim.errors import InputError

NODE: dict[str, Any] = {
    "host": "c7g.4xlarge",
    "engine": "valkey",
    "engine_version": "9.1",
    "io_threads": 4,
    "workload": {"keys": 1000},
}
PLAN: dict[str, Any] = {
    "kind": "plan",
    "demand": {
        "operations": {"get": 50_000},
        "keys": 100_000,
        "value_bytes": 100,
        "zones": 3,
    },
    "objectives": {"slo": {"p99_ms": 2.0}, "failover": "by_hand"},
    "choices": {
        "instances": ["r7g.xlarge"],
        "engines": ["valkey"],
        "io_threads": [2],
        "replicas": [0],
    },
}
COST: dict[str, Any] = {
    "kind": "cost",
    "data_gb": 1,
    "requests": [{"command": "get", "per_s": 1000, "value_bytes": 100}],
}


def price_of(region: str | None) -> HourlyPrice | None:
    """The price that `recommend` and `compare` go by."""
    system = load_cases(in_region(NODE, region))[0][1]
    return server_price(system.host, system.engine.engine)


def offers(choices: dict[str, Any], region: str | None = None) -> tuple[PlanScenario, list[Offer]]:
    """What a plan may choose, with bills."""
    data = {**PLAN, "choices": {**PLAN["choices"], **choices}}
    asked, _ = load_plan(in_region(data, region))
    return asked, [with_bill(asked, each) for each in find_offers(asked)[0]]


def test_a_node_has_the_price_of_its_region() -> None:
    assert price_of(None) == HourlyPrice(0.58, "on demand, us-east-1, 2026-01-19")
    assert price_of("eu-west-1") == HourlyPrice(0.6202, "on demand, eu-west-1, 2025-03-02")


def test_nodes_and_traffic_of_a_plan_are_of_their_region_with_their_days() -> None:
    asked, [offer] = offers({}, "eu-west-1")
    lines = {line.what: line.source for line in bill_lines(offer, 3)}
    assert "eu-west-1, 2025-03-02" in lines["nodes"]
    assert "us-east-1" not in str(lines)
    told = days_apart(lines)
    assert told.startswith("Prices were read on different days: nodes on 2025-03-02;")
    assert payment_warnings(asked, [offer]) == []


def test_traffic_is_not_priced_where_no_rate_is_known() -> None:
    _, [offer] = offers({}, "us-gov-west-1")
    assert "clients in other zones" in [each.what for each in offer.beside.not_priced]


def test_a_plan_warns_where_its_machines_have_prices_of_different_days() -> None:
    asked, found = offers({"instances": ["r7g.xlarge", "Standard_E4s_v5"]})
    [warning] = payment_warnings(asked, found)
    assert warning.endswith("Standard_E4s_v5 on 2023-12-18; r7g.xlarge on 2026-01-19.")


def test_nodes_of_the_service_have_no_price_elsewhere_unless_one_is_given() -> None:
    nodes = {"instances": ["cache.r7g.xlarge"], "engines": ["elasticache-redis"]}
    with pytest.raises(InputError, match=r"known in eu-west-1.*choices.usd_per_month"):
        offers(nodes, "eu-west-1")
    _, [own] = offers({**nodes, "usd_per_month": {"cache.r7g.xlarge": 350}}, "eu-west-1")
    assert own.usd_per_month == 350
    managed = {"host": "r7g.xlarge", "engine": "elasticache-redis", "region": "eu-west-1"}
    with pytest.raises(InputError, match=r"'eu-west-1'.*us-east-1 only.*choices.prices"):
        forecache.recommend(managed)


def test_a_factor_counts_only_where_the_region_has_no_price() -> None:
    for region, usd in (("eu-west-1", 0.2397), ("mars", 0.2142 * 1.5)):
        _, [offer] = offers({"region": region, "region_factor": 1.5})
        assert offer.usd_per_month == pytest.approx(730 * usd)


def test_a_bill_of_a_region_that_the_table_is_not_of_is_refused() -> None:
    assert forecache.cost(COST, region="us-east-1").prices.region == "us-east-1"
    with pytest.raises(InputError, match=r"'eu-west-1'.*us-east-1 only.*prices the file of a"):
        forecache.cost(COST, region="eu-west-1")


def test_a_region_goes_before_that_of_the_scenario() -> None:
    plan = {**PLAN, "choices": {**PLAN["choices"], "region": "us-west-2"}}
    given = in_region(plan, "eu-west-1")
    assert isinstance(given, ScenarioFile)
    assert given.data["choices"]["region"] == "eu-west-1"
    assert plan["choices"]["region"] == "us-west-2"
    with pytest.raises(InputError, match="'memory'"):
        in_region({"kind": "memory"}, "eu-west-1")


def test_only_days_that_differ_are_told() -> None:
    assert days_apart({"a": "x, 2026-01-19", "b": "y (z, 2026-01-19)", "c": "my own"}) == ""
    told = days_apart({"a": "x, 2026-01-19", "b": "y (z, 2025-03-02)"})
    assert told == "Prices were read on different days: b on 2025-03-02; a on 2026-01-19."
