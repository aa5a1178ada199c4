"""The bill of a plan: its nodes, and what they cost beside, at today's mean load."""

from __future__ import annotations

from dataclasses import replace

from forecache.sim.errors import InputError

from ...cost.beside import (
    BACKUPS,
    NODES,
    SERVED,
    BillLine,
    CacheTraffic,
    NotPriced,
    backup_line,
    day_of_prices,
    sorted_out,
    support_line,
    zone_lines,
)
from ...engines.commands import command_kinds
from ...prices.table import HOURS_A_MONTH, served_engine
from ...step_times.wire import IP_TCP_HEADER_BYTES
from ..offers import Offer
from ..schema import PlanScenario
from ..shard import node_scenario, room_of
from .price import price_table, zone_price


def billed(plan: PlanScenario, offer: Offer) -> Offer:
    """An offer with what it costs beside the price of its nodes."""
    beside: list[BillLine | NotPriced | None] = [
        *zone_lines(
            zone_price(plan.choices, offer.name),
            _traffic(plan, offer),
            zones=plan.demand.zones,
            replicas=offer.replicas,
            managed=offer.managed,
            hours=HOURS_A_MONTH,
        )
    ]
    backups = plan.objectives.backups
    if backups:
        data_gb = room_of(plan, offer, serving=1).used_bytes / 1e9
        if offer.managed:
            beside.append(backup_line(price_table(plan.choices), data_gb=data_gb, backups=backups))
        else:
            why = "where backups of one's own are kept is not known"
            beside.append(NotPriced(BACKUPS, backups * data_gb, "GB-months", why))
    lines, missing = sorted_out(beside)
    return replace(
        offer, support=_support(plan, offer), beside=tuple(lines), not_priced=tuple(missing)
    )


def bill_of(offer: Offer, shards: int) -> list[BillLine]:
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
    return [*lines, *offer.beside]


def _support(plan: PlanScenario, offer: Offer) -> BillLine | None:
    """What one node costs more whose version is beyond its standard support."""
    if not offer.managed or served_engine(offer.engine.engine) != SERVED:
        return None
    table = price_table(plan.choices)
    try:
        found = support_line(
            table,
            offer.name,
            offer.engine.version,
            on=day_of_prices(table, plan.on),
            nodes=1,
            hours=HOURS_A_MONTH,
        )
    except InputError:  # a type without a price on demand, of which it is a share
        return None
    return found if isinstance(found, BillLine) else None


def _traffic(plan: PlanScenario, offer: Offer) -> CacheTraffic:
    """Bytes a second of all clients, and of all writes, with headers of IP and TCP.

    One segment a request and one a reply: less with pipelines, more with replies of many kilobytes.
    """
    demand = plan.demand
    each = writes = 0.0
    for kind in command_kinds(node_scenario(plan, offer, offer.threads[0], serving=1)):
        request = kind.request_bytes(demand.key_bytes) + IP_TCP_HEADER_BYTES
        each += kind.share * (request + kind.reply_bytes + IP_TCP_HEADER_BYTES)
        if kind.row.writes:
            writes += kind.share * request
    rate = demand.operations.a_second
    return CacheTraffic(rate * each, rate * writes)
