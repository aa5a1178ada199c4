"""Nodes that keep values on an SSD beside their memory, for the same demand.

They are sized by rules (`cost/sizing.py`), not simulated: what a read from the SSD takes is not
modelled.
"""

from __future__ import annotations

from collections.abc import Sequence

from forecache.sim.errors import InputError

from ...cost.schema import PricedNodes
from ...cost.sizing import sizing
from ...prices.table import CacheEngine
from ...prices.terms import node_usd_per_month, price_source
from ..offers import Offer
from ..results import DataTieringOffer
from ..schema import PlanScenario
from ..serverless import asked_of
from .price import price_table

_ENGINE: CacheEngine = "redis"


def data_tiering_of(plan: PlanScenario, offers: Sequence[Offer]) -> DataTieringOffer | None:
    """The cheapest such nodes that are enough at the horizon; None where none is asked for."""
    if not plan.choices.data_tiering:
        return None
    asked = asked_of(plan, offers[0], _ENGINE, plan.demand.horizon_months)
    if asked is None:
        return None
    table, peak = price_table(plan.choices), plan.demand.peak_to_mean
    busy = [
        each.model_copy(update={"per_s": peak * each.a_second, "per_day": None})
        for each in asked.requests
    ]
    replicas = max(plan.choices.replicas)
    found: list[DataTieringOffer] = []
    for name, row in table.nodes.types.items():
        usd = None if row.ssd_gib is None else node_usd_per_month(table, name, _ENGINE, "on_demand")
        if usd is None:
            continue
        nodes = PricedNodes(type=name, replicas=replicas)
        try:
            sized = sizing(asked.model_copy(update={"requests": busy, "nodes": nodes}), table)
        except InputError:  # the most shards are too few
            continue
        need = sized.deciding
        count = sized.shards * (1 + replicas)
        found.append(
            DataTieringOffer(
                name,
                sized.shards,
                replicas,
                count * usd,
                need.what if need is not None else "",
                price_source(table, name, "on_demand"),
            )
        )
    return min(found, key=lambda each: each.usd_per_month, default=None)
