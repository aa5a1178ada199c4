"""What a plan costs a month, and what a serverless cache or nodes with an SSD would cost instead.

The bill of a plan is that of its nodes and of what they cost beside, at today's mean load. Nodes
with data tiering keep values on an SSD beside their memory. They are sized by rules
(`cost/sizing.py`), not simulated: what a read from the SSD takes is not modelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forecache.sim.errors import InputError

from ..cost.bill import (
    BACKUPS,
    NODES,
    SERVED,
    Bill,
    BillLine,
    CacheTraffic,
    NotPriced,
    backup_line,
    break_even_load,
    serverless_bill,
    support_line,
    zone_lines,
)
from ..cost.schema import CostScenario, PricedNodes, Requests
from ..cost.sizing import sizing
from ..engines.commands import command_kinds
from ..prices.table import (
    HOURS_A_MONTH,
    CacheEngine,
    node_usd_per_month,
    price_source,
    served_engine,
)
from ..step_times.wire import IP_TCP_HEADER_BYTES
from .offers import zone_price
from .results import DataTieringOffer, ServerlessOffer
from .schema import PlanScenario
from .shard import Offer, memory_room, node_scenario, reads_elsewhere


def with_bill(plan: PlanScenario, offer: Offer) -> Offer:
    """An offer with what it costs beside the price of its nodes."""
    beside: list[BillLine | NotPriced | None] = [
        *zone_lines(
            zone_price(plan.choices, offer.name),
            _traffic(plan, offer),
            zones=plan.demand.zones,
            replicas=offer.replicas,
            managed=offer.managed,
            hours=HOURS_A_MONTH,
            reads_elsewhere=None
            if plan.demand.reads_from == "primary"
            else reads_elsewhere(
                plan.demand.reads_from, replicas=offer.replicas, zones=plan.demand.zones
            ),
        )
    ]
    backups = plan.objectives.backups
    if backups:
        data_gb = memory_room(plan, offer, serving=1).used_bytes / 1e9
        if offer.managed:
            beside.append(backup_line(plan.choices.price_table, data_gb=data_gb, backups=backups))
        else:
            why = "where backups of one's own are kept is not known"
            beside.append(NotPriced(BACKUPS, backups * data_gb, "GB-months", why))
    return replace(offer, support=_support(plan, offer), beside=Bill.of(beside))


def bill_lines(offer: Offer, shards: int) -> list[BillLine]:
    """The lines of a plan of so many shards, which add up to what it costs."""
    nodes = shards * (1 + offer.replicas)
    lines = [
        BillLine(
            NODES, nodes, "node-months", nodes * offer.usd_per_month, offer.payment,
            offer.usd_per_month, offer.price_note,
        )
    ]  # fmt: skip
    if offer.support is not None:
        each = offer.support
        lines.append(replace(each, quantity=nodes * each.quantity, usd=nodes * each.usd))
    return [*lines, *offer.beside.lines]


def _support(plan: PlanScenario, offer: Offer) -> BillLine | None:
    """The surcharge of one node whose version is past its standard support."""
    if not offer.managed or served_engine(offer.engine.engine) != SERVED:
        return None
    table = plan.choices.price_table
    try:
        found = support_line(
            table, offer.name, offer.engine.version, on=plan.on, nodes=1, hours=HOURS_A_MONTH
        )
    except InputError:  # a type without a price on demand, of which it is a share
        return None
    return found if isinstance(found, BillLine) else None


def _traffic(plan: PlanScenario, offer: Offer) -> CacheTraffic:
    """Bytes a second of all clients, and of all writes, with headers of IP and TCP.

    One segment a request and one a reply: less with pipelines, more with replies of many kilobytes.
    """
    demand = plan.demand
    each = writes = reads = 0.0
    for kind in command_kinds(node_scenario(plan, offer, offer.threads[0], serving=1)):
        request = kind.request_bytes(demand.key_bytes) + IP_TCP_HEADER_BYTES
        both = kind.share * (request + kind.reply_bytes + IP_TCP_HEADER_BYTES)
        each += both
        if kind.row.writes:
            writes += kind.share * request
        else:
            reads += both
    rate = demand.operations.a_second
    return CacheTraffic(rate * each, rate * writes, rate * reads)


_ENGINES: tuple[CacheEngine, ...] = ("valkey", "redis")
_TIERING_ENGINE: CacheEngine = "redis"

_MOST_GB = 5_000.0
"""What a serverless cache may hold, and `kind: cost` takes."""


def serverless_offers(
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
    prices, months = plan.choices.price_table, plan.demand.horizon_months
    found = []
    for engine in _ENGINES:
        now, later = (cost_scenario(plan, offers[0], engine, at) for at in (0.0, months))
        if now is None or later is None:
            continue
        found.append(
            ServerlessOffer(
                engine,
                serverless_bill(now, prices).usd,
                serverless_bill(later, prices).usd,
                None if best_usd is None else break_even_load(now, prices, usd=best_usd),
                f"{prices.title}, {prices.date}",
            )
        )
    return found


def cost_scenario(
    plan: PlanScenario, offer: Offer, engine: CacheEngine, months: float
) -> CostScenario | None:
    """The demand as `kind: cost` has it: the mean, since use is what is billed.

    None where a serverless cache can't hold so much data.
    """
    demand = plan.demand
    data_gb = memory_room(plan, offer, serving=1, months=months).used_bytes / 1e9
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


def data_tiering_offer(plan: PlanScenario, offers: Sequence[Offer]) -> DataTieringOffer | None:
    """The cheapest nodes with an SSD that suffice at the horizon; None where not asked for."""
    if not plan.choices.data_tiering:
        return None
    asked = cost_scenario(plan, offers[0], _TIERING_ENGINE, plan.demand.horizon_months)
    if asked is None:
        return None
    table, peak = plan.choices.price_table, plan.demand.peak_to_mean
    busy = [
        each.model_copy(update={"per_s": peak * each.a_second, "per_day": None})
        for each in asked.requests
    ]
    replicas = max(plan.choices.replicas)
    found: list[DataTieringOffer] = []
    for name, row in table.nodes.types.items():
        usd = (
            None
            if row.ssd_gib is None
            else node_usd_per_month(table, name, _TIERING_ENGINE, "on_demand")
        )
        if usd is None:
            continue
        nodes = PricedNodes(type=name, replicas=replicas)
        try:
            sized = sizing(asked.model_copy(update={"requests": busy, "nodes": nodes}), table)
        except InputError:  # the most shards are too few
            continue
        need = sized.deciding
        found.append(
            DataTieringOffer(
                name,
                sized.shards,
                replicas,
                sized.shards * (1 + replicas) * usd,
                need.what if need is not None else "",
                price_source(table, name, "on_demand"),
            )
        )
    return min(found, key=lambda each: each.usd_per_month, default=None)
