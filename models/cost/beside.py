"""What a cache's nodes cost beside their price: old versions, backups, traffic between zones.

Each is a line with its rate and whose rate it is, or, where no price is known, is told as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from forecache.sim.plain import Result

from ..prices.rates import ZonePrice
from ..prices.table import CacheEngine, PriceTable

NODES = "nodes"
SUPPORT = "extended support"
BACKUPS = "backups"
CLIENTS = "clients in other zones"
REPLICAS = "replicas in other zones"

BESIDES = (BACKUPS, CLIENTS, REPLICAS)
"""What is paid besides nodes, which bills are not compared by: it is not known of all, and a
serverless cache has it too."""

SERVED: CacheEngine = "redis"
"""Extended support is for versions of Redis only."""


@dataclass(frozen=True)
class BillLine(Result):
    """One line of a bill; `usd` is the quantity times the rate, where it has one."""

    what: str
    quantity: float
    unit: str
    usd: float
    note: str = ""
    usd_per_unit: float | None = None
    source: str = ""
    """Whose rate it is, with its region and day."""


@dataclass(frozen=True)
class NotPriced(Result):
    """What belongs to a bill and has no known price."""

    what: str
    quantity: float
    unit: str
    why: str


@dataclass(frozen=True)
class CacheTraffic:
    """Bytes a second of a whole cache, mean.

    Attributes
    ----------
    clients
        Of requests and replies together.
    writes
        That each replica of a shard gets, all shards together.
    """

    clients: float
    writes: float


def nodes_usd(lines: Sequence[BillLine]) -> float:
    """What of a bill its nodes are, with the surcharge for old versions."""
    return sum(line.usd for line in lines if line.what not in BESIDES)


def day_of_prices(table: PriceTable, on: str | None) -> date:
    """The day for which a bill is told: one's own, or that of the prices."""
    return date.fromisoformat(on or table.date)


def support_line(
    table: PriceTable, node_type: str, version: str, *, on: date, nodes: int, hours: float
) -> BillLine | NotPriced | None:
    """The surcharge for nodes whose version is beyond its standard support; None if it isn't.

    It is a share of the price on demand, however nodes are paid.
    """
    rates = table.extended_support
    if rates is None:
        return NotPriced(SUPPORT, nodes * hours, "node-hours", f"{table.id} has no rates of it")
    share = rates.share(version, on)
    if share == 0.0:
        return None
    each = share * table.node_usd_per_hour(node_type, SERVED)
    quantity = nodes * hours
    note = f"{share:.0%} on top for Redis {version}, supported until {rates.ends(version)}"
    source = table.where(rates.share_in_years_1_and_2.source)
    return BillLine(SUPPORT, quantity, "node-hours", quantity * each, note, each, source)


def backup_line(table: PriceTable, *, data_gb: float, backups: int) -> BillLine | NotPriced | None:
    """Backups of the whole data beyond those that cost nothing; None without such."""
    rates = table.backups
    if not backups:
        return None
    if rates is None:
        quantity = backups * data_gb
        return NotPriced(BACKUPS, quantity, "GB-months", f"{table.id} has no price of them")
    free = int(rates.free_of_each_cache.best)
    paid = max(0, backups - free)
    quantity, each = paid * data_gb, rates.usd_per_gb_month.best
    note = f"{backups} of {data_gb:.4g} GB, {min(free, backups)} of them free"
    source = table.where(rates.usd_per_gb_month.source)
    return BillLine(BACKUPS, quantity, "GB-months", quantity * each, note, each, source)


def replicas_elsewhere(replicas: int, zones: int) -> int:
    """Replicas of a shard in other zones than its primary, if nodes go from zone to zone."""
    return replicas - replicas // zones


def zone_lines(
    price: ZonePrice | None,
    traffic: CacheTraffic,
    *,
    zones: int,
    replicas: int,
    managed: bool,
    hours: float,
) -> list[BillLine | NotPriced]:
    """CacheTraffic between zones, over which nodes and clients are spread evenly.

    No price of what the nodes of a service send each other was found.

    Parameters
    ----------
    price
        Of a byte of a client that crosses zones, and of machines of one's own that of any; None
        where it is not known.
    """
    gb = 3600.0 * hours / 1e9
    clients = gb * traffic.clients * (zones - 1) / zones
    copies = gb * traffic.writes * replicas_elsewhere(replicas, zones)
    found: list[BillLine | NotPriced] = []
    for what, quantity, note in (
        (CLIENTS, clients, f"{zones - 1} of {zones} requests and replies cross zones"),
        (REPLICAS, copies, f"writes go to {replicas_elsewhere(replicas, zones)} replicas there"),
    ):
        if quantity <= 0.0:
            continue
        if price is None:
            found.append(NotPriced(what, quantity, "GB", "no price between zones is known there"))
        elif managed and what == REPLICAS:
            why = "no price was found of what nodes of the service send each other"
            found.append(NotPriced(what, quantity, "GB", why))
        else:
            each = price.usd_per_gb
            note += f", {price.charged if each == 0.0 else f'charged {price.charged}'}"
            found.append(BillLine(what, quantity, "GB", quantity * each, note, each, price.source))
    return found


def sorted_out(
    found: Sequence[BillLine | NotPriced | None],
) -> tuple[list[BillLine], list[NotPriced]]:
    """Lines of a bill, and what has no price."""
    lines = [each for each in found if isinstance(each, BillLine)]
    return lines, [each for each in found if isinstance(each, NotPriced)]
