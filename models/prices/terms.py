"""How nodes may be paid, and what a month of a managed node then costs."""

from __future__ import annotations

import re
from typing import Literal

from .table import HOURS_A_MONTH, CacheEngine, PriceTable

Payment = Literal["on_demand", "reserved_1_year", "reserved_3_years", "savings_plan", "spot"]

PAYMENTS: tuple[Payment, ...] = (
    "on_demand",
    "reserved_1_year",
    "reserved_3_years",
    "savings_plan",
    "spot",
)

_YEARS: dict[Payment, int] = {"reserved_1_year": 1, "reserved_3_years": 3}

_GENERATION = re.compile(r"cache\.[a-z]+([0-9]+)")


def node_usd_per_month(
    table: PriceTable, node_type: str, engine: CacheEngine, payment: Payment
) -> float | None:
    """What 730 hours of a managed node cost; None where the table has no such price.

    What is paid upfront is spread evenly over the term. A service sells no nodes on a spot market.
    """
    on_demand = HOURS_A_MONTH * table.node_usd_per_hour(node_type, engine)
    if payment == "on_demand":
        return on_demand
    if payment in _YEARS:
        return table.reserved_usd_per_month(node_type, engine, term_years=_YEARS[payment])
    plan = table.savings_plan
    if payment == "savings_plan" and plan is not None and engine in plan.engines:
        generation = _GENERATION.match(node_type)
        if generation and int(generation[1]) >= plan.from_generation:
            return on_demand * (1.0 - plan.discount.best)
    return None


def price_source(table: PriceTable, node_type: str, payment: Payment) -> str:
    """Whose price that is, with its region and day."""
    source = table.nodes.types[node_type].source or table.nodes.source
    if payment in _YEARS:
        source = table.nodes.reserved_source or source
    elif payment == "savings_plan" and table.savings_plan is not None:
        source = table.savings_plan.discount.source or source
    return table.where(source)
