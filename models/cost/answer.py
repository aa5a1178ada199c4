"""The verb `cost`: a bill for each point of a scenario of `kind: cost`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from forecache.sim.errors import InputError
from forecache.sim.plain import Result

from ..prices.table import PriceTable, load_prices
from ..results.consistency import Checked
from ..results.displayed import Displayed
from ..scenario.source import ScenarioSource, read_scenario
from ..scenario.sweeps import Case, expand
from .bill import (
    Bill,
    BillLine,
    NotPriced,
    break_even_load,
    break_even_with_nodes,
    ecpu_per_s,
    nodes_usd,
    serverless_bill,
    whole_node_bill,
)
from .schema import CostScenario, PricedNodes
from .sizing import Need, Sizing, sizing


@dataclass(frozen=True)
class MonthlyBill(Result):
    """A bill of a month."""

    lines: list[BillLine]
    usd: float
    usd_per_million_requests: float | None


@dataclass(frozen=True)
class NodesBill(MonthlyBill):
    """The bill of nodes, and the load that they can serve."""

    nodes_usd: float
    """Of the nodes alone, which serverless is compared with: `usd` has what is paid besides too."""
    type: str
    shards: int
    """That are priced."""
    asked_shards: int
    count: int
    """Of nodes, replicas included."""
    needs: list[Need]
    serves_load: float | None
    """The multiple of the requests up to which they are enough; None without a bound."""
    spare_gb: float | None
    """Memory that the primaries have left for more data, after what is reserved; None where their
    memory is not known."""
    not_priced: list[NotPriced]
    """What belongs to the bill and has no known price."""


@dataclass(frozen=True)
class BreakEven(Result):
    """The load at which both cost the same."""

    load: float | None
    """The multiple of the scenario's requests; None where serverless is cheaper at any."""
    requests_per_s: float | None
    ecpu_per_s: float | None
    shards: int
    """That serve it."""
    load_if_enough: float | None
    """That of the priced shards if they could serve it."""


@dataclass(frozen=True)
class CostPoint(Result):
    """The bills of one point of a sweep."""

    given: dict[str, Any]
    requests_per_month: float
    ecpu_per_s: float
    serverless: MonthlyBill
    nodes: NodesBill | None
    """None without nodes to compare with, as the next."""
    break_even: BreakEven | None
    warnings: list[str]


@dataclass(frozen=True)
class UsedPrices(Result):
    """Whose prices they are."""

    id: str
    title: str
    region: str
    date: str


@dataclass(frozen=True)
class CostAnswer(Displayed):
    """What `cost` answers."""

    kind: str
    scenario: dict[str, Any]
    """The fields of the file, at the first point."""
    prices: UsedPrices
    points: list[CostPoint]


def cost(scenario: ScenarioSource) -> CostAnswer:
    """What a cache costs a month.

    Parameters
    ----------
    scenario
        Path of a scenario of `kind: cost`, or its content.
    """
    given = read_scenario(scenario)
    given.kind(["cost"])
    cases = expand(given.data, file=given.name, schema=CostScenario)
    try:
        points = [
            _point(case, load_prices(case.scenario.prices, region=case.scenario.region))
            for case in cases
        ]
    except InputError as error:
        raise InputError(f"{given.name}: {error}") from None
    for point in points:
        check_cost(point)
    table = load_prices(cases[0].scenario.prices)
    return CostAnswer(
        kind="cost",
        scenario=cases[0].scenario.model_dump(mode="json", exclude_none=True),
        prices=UsedPrices(table.id, table.title, table.region, str(table.date)),
        points=points,
    )


def check_cost(point: CostPoint) -> None:
    """Raise a `RuntimeError` if a point contradicts itself."""
    for name, bill in (("serverless", point.serverless), ("nodes", point.nodes)):
        if bill is None:
            continue
        checked = Checked(f"bill {name} {point.given or ''}".strip())
        checked.not_negative("the month", bill.usd)
        checked.sum("the month", bill.usd, [line.usd for line in bill.lines])
        if bill.usd_per_million_requests is not None:
            million = point.requests_per_month / 1e6
            checked.sum("the month", bill.usd, [bill.usd_per_million_requests * million])


def _point(case: Case[CostScenario], prices: PriceTable) -> CostPoint:
    scenario = case.scenario
    requests_per_s = sum(row.a_second for row in scenario.requests)
    requests = requests_per_s * 3600.0 * scenario.hours_per_month
    ecpu = ecpu_per_s(scenario.requests, us_per_ecpu=prices.script_us_per_ecpu.best)
    point = CostPoint(
        given=case.given,
        requests_per_month=requests,
        ecpu_per_s=ecpu,
        serverless=MonthlyBill(**_sums(serverless_bill(scenario, prices), requests=requests)),
        nodes=None,
        break_even=None,
        warnings=[],
    )
    if scenario.nodes is None:
        return point
    sized = sizing(scenario, prices)
    asked = scenario.nodes
    priced = asked.model_copy(update={"shards": max(asked.shards, sized.shards)})
    nodes = whole_node_bill(scenario, priced, prices)
    if nodes is None:
        raise InputError(
            f"field nodes.payment: found {asked.payment!r}, which {prices.id} has no "
            f"price of {asked.type} with {scenario.engine} for; valid is on_demand, or a "
            "price in nodes.usd_per_month."
        )
    serves = sized.most_load(priced.shards)
    load, shards = break_even_with_nodes(scenario, prices, sized, priced)
    return replace(
        point,
        nodes=NodesBill(
            **_sums(nodes, requests=requests),
            nodes_usd=nodes_usd(nodes.lines),
            type=asked.type,
            shards=priced.shards,
            asked_shards=asked.shards,
            count=priced.count,
            needs=list(sized.needs),
            serves_load=serves if math.isfinite(serves) else None,
            spare_gb=next(
                (
                    priced.shards * n.each - scenario.data_gb
                    for n in sized.needs
                    if n.what == "data"
                ),
                None,
            ),
            not_priced=list(nodes.not_priced),
        ),
        break_even=BreakEven(
            load=load,
            requests_per_s=None if load is None else load * requests_per_s,
            ecpu_per_s=None if load is None else load * ecpu,
            shards=shards,
            load_if_enough=break_even_load(scenario, prices, usd=nodes_usd(nodes.lines)),
        ),
        warnings=[
            *([_too_few(asked, sized)] if priced.shards > asked.shards else []),
            *sized.unknown,
        ],
    )


def _too_few(asked: PricedNodes, sized: Sizing) -> str:
    """A warning that more shards are needed than were asked for, and what for."""
    need = sized.deciding
    assert need is not None  # there would be enough
    some = f"{asked.shards:,} shard{'s' * (asked.shards > 1)} of {asked.type}"
    have, want = (_amount(value) for value in (asked.shards * need.each, need.asked))
    return f"{some}: {have} of {want} {need.unit}; {sized.shards:,} are needed, and priced"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _sums(bill: Bill, *, requests: float) -> dict[str, Any]:
    """The fields of a `MonthlyBill`."""
    return {
        "lines": list(bill.lines),
        "usd": bill.usd,
        "usd_per_million_requests": bill.usd / requests * 1e6 if requests else None,
    }
