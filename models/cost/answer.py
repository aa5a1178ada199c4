"""The verb `cost`: a bill for each point of a scenario of `kind: cost`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import read_yaml
from forecache.sim.errors import InputError

from ..prices.table import PriceTable, load_prices
from ..results.consistency import check_cost
from ..scenario.kinds import check_kind
from ..scenario.sweeps import Case, expand
from .bill import (
    Bill,
    break_even_load,
    break_even_with_nodes,
    ecpu_per_s,
    node_bill,
    serverless_bill,
)
from .schema import CostScenario, PricedNodes
from .sizing import Sizing, sizing


def cost(scenario: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """What a cache costs a month.

    Parameters
    ----------
    scenario
        Path of a scenario of `kind: cost`, or its content.

    Returns
    -------
    dict
        `kind`, `scenario`, `prices` (id, title, region, date) and `points`: each with `given`,
        `requests_per_month`, `ecpu_per_s`, `serverless` and `nodes` (`lines`, `usd`,
        `usd_per_million_requests`), `break_even` and `warnings`. Nodes also have `type`, `shards`
        that are priced and `asked_shards`, `count` with replicas, `needs` (what shards are needed
        for: what, asked, each, unit, shards, basis), `serves_load` (the multiple of the requests up
        to which these shards are enough, None without a bound) and `spare_gb` (None where their
        memory is not known). `break_even` has `load`, `requests_per_s`, `ecpu_per_s` and the
        `shards` that serve it; `load_if_enough` is that of the priced shards if they could serve
        it. Both are None without nodes to compare with.

    Raises
    ------
    InputError
        The file, a field or a price is not valid.
    """
    file = "scenario" if isinstance(scenario, Mapping) else str(scenario)
    data = dict(scenario) if isinstance(scenario, Mapping) else read_yaml(scenario)
    check_kind(data, file=file, valid=["cost"])
    cases = expand(data, file=file, schema=CostScenario)
    try:
        points = [_point(case, load_prices(case.scenario.prices)) for case in cases]
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    for point in points:
        check_cost(point)
    table = load_prices(cases[0].scenario.prices)
    return {
        "kind": "cost",
        "scenario": cases[0].scenario.model_dump(mode="json", exclude_none=True),
        "prices": table.model_dump(include={"id", "title", "region", "date"}),
        "points": points,
    }


def _point(case: Case[CostScenario], prices: PriceTable) -> dict[str, Any]:
    scenario = case.scenario
    warnings: list[str] = []
    requests_per_s = sum(row.a_second for row in scenario.requests)
    requests = requests_per_s * 3600.0 * scenario.hours_per_month
    ecpu = ecpu_per_s(scenario.requests, us_per_ecpu=prices.script_us_per_ecpu.best)
    serverless = serverless_bill(scenario, prices)
    point: dict[str, Any] = {
        "given": case.given,
        "requests_per_month": requests,
        "ecpu_per_s": ecpu,
        "serverless": _plain(serverless, requests=requests),
        "nodes": None,
        "break_even": None,
        "warnings": warnings,
    }
    if scenario.nodes is None:
        return point
    sized = sizing(scenario, prices)
    asked = scenario.nodes
    priced = asked.model_copy(update={"shards": max(asked.shards, sized.shards)})
    nodes = node_bill(priced, scenario.engine, prices, hours=scenario.hours_per_month)
    if nodes is None:
        raise InputError(
            f"field nodes.payment: found {asked.payment!r}, which {prices.id} has no "
            f"price of {asked.type} with {scenario.engine} for; valid is on_demand, or a "
            "price in nodes.usd_per_month."
        )
    if priced.shards > asked.shards:
        warnings.append(_too_few(asked, sized))
    warnings += sized.unknown
    serves = sized.most_load(priced.shards)
    point["nodes"] = _plain(nodes, requests=requests) | {
        "type": asked.type,
        "shards": priced.shards,
        "asked_shards": asked.shards,
        "count": priced.count,
        "needs": [need.plain() for need in sized.needs],
        "serves_load": serves if math.isfinite(serves) else None,
        "spare_gb": _spare_gb(scenario, sized, shards=priced.shards),
    }
    load, shards = break_even_with_nodes(scenario, prices, sized, priced)
    point["break_even"] = {
        "load": load,
        "requests_per_s": None if load is None else load * requests_per_s,
        "ecpu_per_s": None if load is None else load * ecpu,
        "shards": shards,
        "load_if_enough": break_even_load(scenario, prices, nodes_usd=nodes.usd),
    }
    return point


def _too_few(asked: PricedNodes, sized: Sizing) -> str:
    """That more shards are needed than were asked for, and what for."""
    need = sized.deciding
    assert need is not None  # there would be enough
    some = f"{asked.shards:,} shard{'s' * (asked.shards > 1)} of {asked.type}"
    have, want = (_amount(value) for value in (asked.shards * need.each, need.asked))
    return f"{some}: {have} of {want} {need.unit}; {sized.shards:,} are needed, and priced"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _spare_gb(scenario: CostScenario, sized: Sizing, *, shards: int) -> float | None:
    """Memory that the primaries have left for more data, after what is reserved."""
    for need in sized.needs:
        if need.what == "data":
            return shards * need.each - scenario.data_gb
    return None


def _plain(bill: Bill, *, requests: float) -> dict[str, Any]:
    return {
        "lines": [asdict(line) for line in bill.lines],
        "usd": bill.usd,
        "usd_per_million_requests": bill.usd / requests * 1e6 if requests else None,
    }
