"""What nodes cost beside their price, and in each way in which they may be paid: closed forms."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.models.cost.answer import cost
from forecache.models.cost.bill import (
    CLIENTS,
    REPLICAS,
    Bill,
    BillLine,
    CacheTraffic,
    NotPriced,
    backup_line,
    nodes_usd,
    replicas_elsewhere,
    support_line,
    zone_lines,
)
from forecache.models.plan.answer import payment_warnings
from forecache.models.plan.bill import bill_lines, data_tiering_offer, with_bill
from forecache.models.plan.offers import find_offers, term_prices
from forecache.models.plan.schema import PlanScenario
from forecache.models.plan.shard import Offer
from forecache.models.prices.table import NODE_PRICES, PAYMENTS, load_prices, node_usd_per_month
from forecache.sim.errors import InputError

TABLE = load_prices(NODE_PRICES)


# --- ways to pay ----------------------------------------------------------------------------------


def test_a_node_costs_what_the_price_list_says_in_each_way() -> None:
    def usd(node: str, engine: Any, payment: Any) -> float | None:
        return node_usd_per_month(TABLE, node, engine, payment)

    assert usd("cache.r6g.xlarge", "redis", "on_demand") == pytest.approx(0.411 * 730)
    assert usd("cache.r6g.xlarge", "redis", "reserved_1_year") == pytest.approx(0.281 * 730)
    assert usd("cache.r6g.xlarge", "redis", "reserved_3_years") == pytest.approx(4867 / 36)
    assert usd("cache.r6g.xlarge", "valkey", "reserved_3_years") == pytest.approx(0.8 * 4867 / 36)
    # Database Savings Plans are for Valkey from the seventh generation on.
    assert usd("cache.r7g.large", "valkey", "savings_plan") == pytest.approx(0.8 * 0.1752 * 730)
    assert usd("cache.r6g.large", "valkey", "savings_plan") is None
    assert usd("cache.r7g.large", "redis", "savings_plan") is None
    assert usd("cache.r7g.large", "redis", "reserved_1_year") is None
    assert usd("cache.r7g.large", "redis", "spot") is None


@pytest.mark.parametrize("node", sorted(TABLE.nodes.types))
def test_a_commitment_is_never_dearer(node: str) -> None:
    for engine in ("redis", "valkey"):
        found = [node_usd_per_month(TABLE, node, engine, payment) for payment in PAYMENTS[:3]]
        known = [usd for usd in found if usd is not None]
        assert known == sorted(known, reverse=True)


# --- old versions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "on", "share"),
    [
        ("5.0.6", "2026-01-31", 0.0),
        ("5.0.6", "2026-02-01", 0.8),
        ("5.0.6", "2028-01-31", 0.8),
        ("5.0.6", "2028-02-01", 1.6),
        ("6.2", "2027-01-31", 0.0),
        ("6.2", "2027-02-01", 0.8),
        ("7.1", "2029-12-31", 0.0),  # no end of its support is published
    ],
)
def test_the_surcharge_of_an_old_version_begins_the_day_after(
    version: str, on: str, share: float
) -> None:
    line = support_line(TABLE, "cache.r6g.large", version, on=on, nodes=3, hours=730)
    if share == 0.0:
        assert line is None
        return
    assert isinstance(line, BillLine)
    assert line.usd == pytest.approx(3 * 730 * share * 0.206)
    assert line.usd == pytest.approx(line.quantity * (line.usd_per_unit or 0.0))
    assert "Extended Support" in line.source or "ExtendedSupport" in line.source


def test_rates_agree_with_published_ones() -> None:
    rates = TABLE.extended_support
    assert rates is not None
    # Price list entries of cache.r6g.large in us-east-1, rounded there: 0.165 and 0.33.
    assert 0.206 * rates.share("4.0.10", date(2026, 6, 1)) == pytest.approx(0.165, abs=5e-4)
    assert 0.206 * rates.share("4.0.10", date(2028, 6, 1)) == pytest.approx(0.33, abs=5e-4)


@given(days=st.integers(0, 1500))
@settings(max_examples=50, deadline=None)
def test_a_surcharge_never_falls_with_time(days: int) -> None:
    rates = TABLE.extended_support
    assert rates is not None
    day = date(2025, 12, 1) + timedelta(days)
    assert rates.share("5", day) <= rates.share("5", day + timedelta(1))


# --- backups and traffic --------------------------------------------------------------------------


def test_one_backup_of_each_cache_is_free() -> None:
    assert backup_line(TABLE, data_gb=100, backups=0) is None
    one, seven = (backup_line(TABLE, data_gb=100, backups=n) for n in (1, 7))
    assert isinstance(one, BillLine)
    assert isinstance(seven, BillLine)
    assert one.usd == 0.0
    assert seven.usd == pytest.approx(6 * 100 * 0.085)


@pytest.mark.parametrize(
    ("replicas", "zones", "elsewhere"),
    [(0, 3, 0), (1, 3, 1), (2, 3, 2), (3, 3, 2), (5, 3, 4), (5, 1, 0), (4, 2, 2)],
)
def test_replicas_go_from_zone_to_zone(replicas: int, zones: int, elsewhere: int) -> None:
    assert replicas_elsewhere(replicas, zones) == elsewhere


def test_traffic_between_zones_is_charged_on_each_side_that_is_rented() -> None:
    traffic = CacheTraffic(clients=1e6, writes=1e5)
    month_gb = 730 * 3600 / 1e9

    def found(managed: bool) -> tuple[list[BillLine], list[NotPriced]]:
        bill = Bill.of(
            zone_lines(
                TABLE.zone_price(managed=managed),
                traffic,
                zones=3,
                replicas=2,
                managed=managed,
                hours=730,
            )
        )
        return list(bill.lines), list(bill.not_priced)

    lines, missing = found(managed=False)
    assert [line.what for line in lines] == [CLIENTS, REPLICAS]
    assert lines[0].usd == pytest.approx(1e6 * month_gb * 2 / 3 * 0.02)
    assert lines[1].usd == pytest.approx(1e5 * month_gb * 2 * 0.02)
    assert missing == []
    lines, missing = found(managed=True)
    assert [line.usd for line in lines] == [pytest.approx(1e6 * month_gb * 2 / 3 * 0.01)]
    assert [each.what for each in missing] == [REPLICAS]
    price = TABLE.zone_price(managed=False)
    one = zone_lines(price, traffic, zones=1, replicas=2, managed=False, hours=730)
    assert one == []
    elsewhere = zone_lines(None, traffic, zones=2, replicas=1, managed=False, hours=730)
    assert all(isinstance(each, NotPriced) for each in elsewhere)


def test_the_verb_cost_has_the_same_lines() -> None:
    nodes = {"type": "cache.r6g.large", "shards": 2, "replicas": 1}
    data = {
        "kind": "cost",
        "engine": "redis",
        "data_gb": 10,
        "requests": [{"command": "set", "per_s": 1000, "value_bytes": 900}],
        "nodes": nodes,
    }
    [plain] = cost(data).points
    more = {"engine_version": "5.0.6", "backups": 3, "zones": 2, "on": "2026-11-26"}
    [whole] = cost(data | {"nodes": nodes | more}).points
    assert plain.nodes is not None
    assert whole.nodes is not None
    expected = (
        plain.nodes.usd
        + 4 * 730 * 0.8 * 0.206
        + 2 * 10 * 0.085
        + 1000 * (900 + 200) * 730 * 3600 / 1e9 / 2 * 0.01
    )
    assert whole.nodes.usd == pytest.approx(expected)
    assert [each.what for each in whole.nodes.not_priced] == [REPLICAS]
    # Clients of a serverless cache are in other zones too.
    assert whole.break_even is not None
    assert plain.break_even is not None
    assert (whole.break_even.load or 0) > (plain.break_even.load or 0)
    with pytest.raises(InputError, match="a day as YYYY-MM-DD"):
        cost(data | {"nodes": nodes | {"on": "26.11.2026"}})


# --- plans ----------------------------------------------------------------------------------------

SMALL: dict[str, Any] = {
    "kind": "plan",
    "demand": {
        "operations": {"get": 30_000, "set": 10_000},
        "peak_to_mean": 2.0,
        "keys": 1_000_000,
        "key_bytes": 16,
        "value_bytes": 256,
    },
    "objectives": {"slo": {"p99_ms": 1.0}, "backups": 4},
    "choices": {
        "instances": ["r7g.large", "cache.r6g.large"],
        "engines": ["valkey", "elasticache-redis"],
        "replicas": [1],
        "io_threads": [1],
    },
}


def scenario(**choices: Any) -> PlanScenario:
    return PlanScenario(**{**SMALL, "choices": {**SMALL["choices"], **choices}})


def offers(plan: PlanScenario) -> dict[str, Offer]:
    return {each.name: with_bill(plan, each) for each in find_offers(plan)[0]}


def test_lines_add_up_to_what_a_plan_costs() -> None:
    for offer in offers(scenario()).values():
        for shards in (1, 3):
            lines = bill_lines(offer, shards)
            assert offer.nodes_usd(shards) == pytest.approx(nodes_usd(lines))
            assert offer.bill_usd(shards) is None  # backups, or replicas of the service
            priced = replace(offer, beside=Bill(offer.beside.lines))
            assert priced.bill_usd(shards) == pytest.approx(sum(line.usd for line in lines))
            assert all(line.source for line in lines)
        more = offer.nodes_usd(5) - offer.nodes_usd(4)
        assert more == pytest.approx(2 * offer.usd_per_month)


def test_the_mean_load_is_what_crosses_zones() -> None:
    found = offers(scenario())
    # An array of two or three bulk strings; $256 and +OK back; a header of 52 bytes each.
    get = 4 + 9 + 23 + 52 + (1 + 3 + 2 + 256 + 2) + 52
    put = 4 + 9 + 23 + 264 + 52 + 5 + 52
    gb = (30_000 * get + 10_000 * put) * 2 / 3 * 730 * 3600 / 1e9
    for name, rate in (("r7g.large", 0.02), ("cache.r6g.large", 0.01)):
        [clients] = [line for line in found[name].beside.lines if line.what == CLIENTS]
        assert clients.quantity == pytest.approx(gb)
        assert clients.usd == pytest.approx(rate * gb)
    [copies] = [line for line in found["r7g.large"].beside.lines if line.what == REPLICAS]
    assert copies.quantity == pytest.approx(10_000 * (4 + 9 + 23 + 264 + 52) * 730 * 3600 / 1e9)
    assert nodes_usd(bill_lines(found["r7g.large"], 1)) == pytest.approx(
        2 * found["r7g.large"].usd_per_month
    )
    assert [each.what for each in found["r7g.large"].beside.not_priced] == ["backups"]
    assert [each.what for each in found["cache.r6g.large"].beside.not_priced] == [REPLICAS]


def test_each_cloud_has_its_own_price_between_zones() -> None:
    """AWS on both sides, Google on the sender's and by the GiB, Azure nothing."""
    clouds = scenario(
        instances=["r8g.large", "n2-standard-8", "Standard_D8ps_v5"],
        engines=["valkey"],
    )
    found = offers(clouds)
    usd_per_gb = {"r8g.large": 0.02, "n2-standard-8": 0.01 / 1.024**3, "Standard_D8ps_v5": 0.0}
    for name, rate in usd_per_gb.items():
        lines = {line.what: line for line in found[name].beside.lines}
        for what in (CLIENTS, REPLICAS):
            assert lines[what].usd == pytest.approx(rate * lines[what].quantity)
            assert "(20" in lines[what].source or ", 20" in lines[what].source  # with its day
    assert "free of charge" in found["Standard_D8ps_v5"].beside.lines[0].note


def test_serverless_is_compared_with_nodes_alone() -> None:
    """Backups and traffic are paid of both, and not priced of both."""
    data: dict[str, Any] = {
        "kind": "cost",
        "data_gb": 1,
        "requests": [{"command": "get", "per_s": 500, "value_bytes": 300}],
        "nodes": {"type": "cache.r7g.large"},
    }
    [plain] = cost(data).points
    more = {"backups": 7, "zones": 3}
    [whole] = cost(data | {"nodes": data["nodes"] | more}).points
    assert plain.nodes is not None
    assert whole.nodes is not None
    assert whole.nodes.usd > plain.nodes.usd
    assert whole.nodes.nodes_usd == pytest.approx(plain.nodes.nodes_usd)
    assert whole.break_even == plain.break_even


def test_every_way_to_pay_is_told() -> None:
    plan = scenario(discounts={"spot": 0.6}, payments=["on_demand", "spot"])
    found = offers(plan)
    own = {
        t.payment: t.usd_per_month
        for t in term_prices(plan.choices, "r7g.large", found["r7g.large"].system)
    }
    assert own["spot"] == pytest.approx(0.4 * (own["on demand"] or 0.0))
    assert own["reserved 1 year"] is None
    service = found["cache.r6g.large"]
    told = {
        t.payment: t.usd_per_month for t in term_prices(plan.choices, service.name, service.system)
    }
    assert told["spot"] is None  # which no service sells
    assert told["reserved 3 years"] == pytest.approx(2434 / 36)
    assert found["r7g.large"].usd_per_month == pytest.approx(own["spot"])
    assert "less the scenario's 0.6" in found["r7g.large"].price_note


def test_it_is_said_where_offers_are_paid_in_different_ways() -> None:
    """Of r6g a reserved price is known, of r7g none."""
    two = scenario(
        instances=["cache.r6g.large", "cache.r7g.large"],
        engines=["elasticache-redis"],
        payments=["on_demand", "reserved_1_year"],
    )
    [said] = payment_warnings(two, list(offers(two).values()))
    assert "(on demand: cache.r7g.large; reserved 1 year: cache.r6g.large)" in said
    alike = scenario(instances=["cache.r6g.large"], engines=["elasticache-redis"])
    assert payment_warnings(alike, list(offers(alike).values())) == []


def test_another_region_needs_its_prices_or_a_factor() -> None:
    here, there = offers(scenario()), offers(scenario(region="mars", region_factor=1.1))
    for name, offer in there.items():
        assert offer.usd_per_month == pytest.approx(1.1 * here[name].usd_per_month)
    with pytest.raises(InputError, match="known in mars"):
        offers(scenario(region="mars"))


def test_nodes_with_an_ssd_hold_the_data() -> None:
    plan = scenario(data_tiering=True)
    assert data_tiering_offer(scenario(), list(offers(scenario()).values())) is None
    found = data_tiering_offer(plan, list(offers(plan).values()))
    assert found is not None
    assert (found.instance, found.shards) == ("cache.r6gd.xlarge", 1)
    assert found.usd_per_month == pytest.approx(2 * 730 * 0.781)
