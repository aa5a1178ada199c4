"""The bill of a serverless cache for the same demand."""

from __future__ import annotations

from collections.abc import Sequence

from ..cost.bill import break_even_load, serverless_bill
from ..cost.schema import CostScenario, Requests
from ..engines.commands import command_kinds
from ..prices.table import NODE_PRICES, CacheEngine, load_prices
from .offers import Offer
from .results import ServerlessOffer
from .schema import PlanScenario
from .shard import node_scenario, room_of

_ENGINES: tuple[CacheEngine, ...] = ("valkey", "redis")

_MOST_GB = 5_000.0
"""What a serverless cache may hold, and `kind: cost` takes."""


def serverless_of(
    plan: PlanScenario, offers: Sequence[Offer], *, best_usd: float | None
) -> list[ServerlessOffer]:
    """Bills of a month, by engine; none where they are not asked for or data are too many.

    Parameters
    ----------
    best_usd
        Of the nodes of the best plan.
    """
    if not plan.choices.serverless:
        return []
    prices, months = load_prices(NODE_PRICES), plan.demand.horizon_months
    found = []
    for engine in _ENGINES:
        now, later = (asked_of(plan, offers[0], engine, at) for at in (0.0, months))
        if now is None or later is None:
            continue
        level = None
        if best_usd is not None:
            level = break_even_load(now, prices, usd=best_usd)
        found.append(
            ServerlessOffer(
                engine,
                serverless_bill(now, prices).usd,
                serverless_bill(later, prices).usd,
                level,
                f"{prices.title}, {prices.date}",
            )
        )
    return found


def asked_of(
    plan: PlanScenario, offer: Offer, engine: CacheEngine, months: float
) -> CostScenario | None:
    """The demand as `kind: cost` has it: the mean, since use is what is billed."""
    demand = plan.demand
    data_gb = room_of(plan, offer, serving=1, months=months).used_bytes / 1e9
    if data_gb > _MOST_GB:
        return None
    scenario = node_scenario(plan, offer, offer.threads[0], serving=1, months=months)
    mean_rps = demand.operations.a_second * demand.growth(months)
    requests = [
        Requests(
            command="set" if kind.row.writes else "get",
            per_s=mean_rps * kind.share,
            value_bytes=max(kind.request_bytes(demand.key_bytes), kind.reply_bytes),
        )
        for kind in command_kinds(scenario)
    ]
    return CostScenario(kind="cost", engine=engine, data_gb=data_gb, requests=requests)
