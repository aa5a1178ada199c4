"""The verb `cost`: a bill for each point of a scenario of `kind: cost`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import read_yaml
from forecache.sim.errors import InputError

from ..sweeps import Case, expand
from ..verbs import check_kind
from .bill import Bill, break_even_load, ecpu_per_s, node_bill, serverless_bill
from .prices import PriceTable, load_prices
from .schema import CostScenario


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
        `usd_per_million_requests`; nodes also `spare_gb`, None where their memory is not known),
        `break_even` (`load`, `requests_per_s`, `ecpu_per_s`) and `warnings`. `nodes` and
        `break_even` are None without nodes to compare with.

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
    nodes = node_bill(scenario.nodes, scenario.engine, prices, hours=scenario.hours_per_month)
    if nodes is None:
        raise InputError(
            f"field nodes.payment: found {scenario.nodes.payment!r}, which {prices.id} has no "
            f"price of {scenario.nodes.type} with {scenario.engine} for; valid is on_demand, or a "
            "price in nodes.usd_per_month."
        )
    point["nodes"] = _plain(nodes, requests=requests) | {"spare_gb": _spare_gb(scenario, prices)}
    load = break_even_load(scenario, prices, nodes_usd=nodes.usd)
    point["break_even"] = {
        "load": load,
        "requests_per_s": None if load is None else load * requests_per_s,
        "ecpu_per_s": None if load is None else load * ecpu,
    }
    spare = point["nodes"]["spare_gb"]
    if spare is not None and spare < 0:
        warnings.append(
            f"these nodes are {-spare:.1f} GB too small for the data, so their bill compares with "
            "nothing"
        )
    return point


def _spare_gb(scenario: CostScenario, prices: PriceTable) -> float | None:
    """Memory that the primaries have left for more data, after what is reserved."""
    assert scenario.nodes is not None  # asked only then
    nodes = scenario.nodes
    # A price of one's own may be of a type that the table doesn't know.
    known = nodes.type in prices.nodes.types or nodes.usd_per_month is None
    each = prices.node(nodes.type).maxmemory_bytes if known else None
    if each is None:
        return None
    usable = each * (1.0 - prices.nodes.reserved_share.best)
    return nodes.shards * usable / 1e9 - scenario.data_gb


def _plain(bill: Bill, *, requests: float) -> dict[str, Any]:
    return {
        "lines": [asdict(line) for line in bill.lines],
        "usd": bill.usd,
        "usd_per_million_requests": bill.usd / requests * 1e6 if requests else None,
    }
