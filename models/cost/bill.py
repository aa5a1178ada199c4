"""Bills of a month, and the load at which a serverless cache and nodes cost the same.

What nodes cost beside their price (old versions, backups, traffic between zones) is a line with its
rate and whose rate it is, or, where no price is known, is listed as such.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from forecache.sim.plain import Result

from ..prices.table import CacheEngine, PriceTable, ZonePrice, node_usd_per_month, price_source
from .schema import MOST_SHARDS, CostScenario, PricedNodes, Requests
from .sizing import OVERHEAD_BYTES, Sizing, hourly_parts

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
    reads
        Of `clients`, what belongs to reads.
    """

    clients: float
    writes: float
    reads: float = 0.0


def nodes_usd(lines: Sequence[BillLine]) -> float:
    """The part of a bill that its nodes cost, with the surcharge for old versions."""
    return sum(line.usd for line in lines if line.what not in BESIDES)


@dataclass(frozen=True)
class Bill:
    """The lines of a month, and what belongs to it without a known price."""

    lines: Sequence[BillLine] = ()
    not_priced: Sequence[NotPriced] = ()

    @staticmethod
    def of(parts: Sequence[BillLine | NotPriced | None]) -> Bill:
        """A bill of lines with and without a price; None is left out."""
        lines = tuple(each for each in parts if isinstance(each, BillLine))
        return Bill(lines, tuple(each for each in parts if isinstance(each, NotPriced)))

    @property
    def usd(self) -> float:
        """All lines together."""
        return sum(line.usd for line in self.lines)


def support_line(
    table: PriceTable, node_type: str, version: str, *, on: str | None, nodes: int, hours: float
) -> BillLine | NotPriced | None:
    """The surcharge for nodes whose version is past its standard support; None if it isn't.

    It is a share of the price on demand, however nodes are paid.

    Parameters
    ----------
    on
        The day of the bill, as YYYY-MM-DD; that of the prices if None.
    """
    rates = table.extended_support
    if rates is None:
        return NotPriced(SUPPORT, nodes * hours, "node-hours", f"{table.id} has no rates of it")
    share = rates.share(version, date.fromisoformat(on or table.date))
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
    """Replicas of a shard in other zones than its primary, with nodes placed zone by zone."""
    return replicas - replicas // zones


def zone_lines(
    price: ZonePrice | None,
    traffic: CacheTraffic,
    *,
    zones: int,
    replicas: int,
    managed: bool,
    hours: float,
    reads_elsewhere: float | None = None,
) -> list[BillLine | NotPriced]:
    """Traffic between zones, over which nodes and clients are spread evenly.

    No price of what the nodes of a service send each other was found.

    Parameters
    ----------
    price
        Of a byte of a client that crosses zones, and of machines of one's own that of any; None
        where it is not known.
    reads_elsewhere
        Share of the reads that cross zones, where it is another one than of writes.
    """
    gb = 3600.0 * hours / 1e9
    clients = gb * traffic.clients * (zones - 1) / zones
    crossing = f"{zones - 1} of {zones} requests and replies cross zones"
    if reads_elsewhere is not None:
        clients = gb * (traffic.clients - traffic.reads) * (zones - 1) / zones
        clients += gb * traffic.reads * reads_elsewhere
        crossing = f"{reads_elsewhere:.0%} of reads and {(zones - 1) / zones:.0%} of writes cross"
    copies = gb * traffic.writes * replicas_elsewhere(replicas, zones)
    found: list[BillLine | NotPriced] = []
    for what, quantity, note in (
        (CLIENTS, clients, crossing),
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


# --- requests as ElastiCache processing units (ECPU), what serverless caches are billed in --------

# Sources: Amazon's description (an ECPU for each kilobyte that a read or write transfers, at least
# one; commands that take more processor time in proportion), and an article that held it against
# the meter (a GET that misses counts one; a kilobyte is 1,000 bytes: 3,200 B count 3.2).

BYTES_PER_ECPU = 1000.0


def ecpu_of_transfer(transferred_bytes: float) -> float:
    """ECPU of a simple read or write of one value: one for each kilobyte, at least one."""
    return max(1.0, transferred_bytes / BYTES_PER_ECPU)


def ecpu_of_get(value_bytes: float, *, hit_rate: float) -> float:
    """Mean ECPU of a GET; one that misses transfers nothing and counts one."""
    return hit_rate * ecpu_of_transfer(value_bytes) + (1.0 - hit_rate)


def ecpu_of_script(
    processor_us: float, *, transferred_bytes: float = 0.0, us_per_ecpu: float
) -> float:
    """ECPU of a command that computes, such as EVAL: the larger of its time and its transfer.

    Parameters
    ----------
    processor_us
        Processor time of one call, in microseconds.
    us_per_ecpu
        Processor time that counts one ECPU, in microseconds.
    """
    return max(ecpu_of_transfer(transferred_bytes), processor_us / us_per_ecpu)


_MOST_LOAD = 1e6
"""Multiple of a scenario's requests up to which a break-even is looked for."""


def ecpu_per_s(requests: Sequence[Requests], *, us_per_ecpu: float) -> float:
    """Mean ECPU a second of all requests."""
    total = 0.0
    for row in requests:
        if row.command == "get":
            each = ecpu_of_get(row.value_bytes, hit_rate=row.hit_rate)
        elif row.command == "set":
            each = ecpu_of_transfer(row.value_bytes)
        else:
            assert row.processor_us is not None  # the schema saw to it
            each = ecpu_of_script(
                row.processor_us, transferred_bytes=row.value_bytes, us_per_ecpu=us_per_ecpu
            )
        total += row.a_second * each
    return total


def serverless_bill(scenario: CostScenario, prices: PriceTable, *, load: float = 1.0) -> Bill:
    """What a serverless cache costs with `load` times the scenario's requests.

    What is kept ready is billed hour by hour: an hour with less use costs as if it were used.
    """
    rates = prices.serverless[scenario.engine]
    shares = scenario.hourly_shares or [1.0] * 24
    used = load * ecpu_per_s(scenario.requests, us_per_ecpu=prices.script_us_per_ecpu.best)
    hourly = [used * 24.0 * part for part in hourly_parts(shares)]
    least = scenario.serverless.least_ecpu_per_s
    billed = sum(max(hour, least) for hour in hourly) / 24.0
    million_ecpu = billed * 3600.0 * scenario.hours_per_month / 1e6
    stored_gb = max(scenario.data_gb, scenario.serverless.least_gb, rates.least_gb.best)
    idle = billed - used
    return Bill(
        [
            BillLine(
                "requests",
                million_ecpu,
                "million ECPU",
                million_ecpu * rates.usd_per_million_ecpu.best,
                f"{idle / billed:.0%} of it kept ready and not used" if idle > 1e-9 * used else "",
            ),
            BillLine(
                "data",
                stored_gb * scenario.hours_per_month,
                "GB-hours",
                stored_gb * scenario.hours_per_month * rates.usd_per_gb_hour.best,
                f"billed as {stored_gb:g} GB" if stored_gb > scenario.data_gb else "",
            ),
        ]
    )


def node_bill(
    nodes: PricedNodes, engine: CacheEngine, prices: PriceTable, *, hours: float
) -> Bill | None:
    """What the nodes cost in a month of `hours`; None where the table has no such price.

    A partial hour counts as a whole one; a node that is committed to costs its month whatever its
    hours.
    """
    count = nodes.count
    monthly, source = nodes.usd_per_month, "the scenario's own price"
    if monthly is None and nodes.payment != "on_demand":
        monthly = node_usd_per_month(prices, nodes.type, engine, nodes.payment)
        if monthly is None:
            return None
        source = price_source(prices, nodes.type, nodes.payment)
    if monthly is not None:
        paid = nodes.payment.replace("_", " ")
        each = BillLine(paid, count, "node-months", count * monthly, "", monthly, source)
        return Bill([each])
    paid_hours = count * math.ceil(hours)
    usd_per_hour = prices.node_usd_per_hour(nodes.type, engine)
    source = price_source(prices, nodes.type, "on_demand")
    lines = [
        BillLine(
            "on demand", paid_hours, "node-hours", paid_hours * usd_per_hour, "", usd_per_hour,
            source,
        )
    ]  # fmt: skip
    if nodes.free_tier and nodes.type in prices.free_tier.types:
        free = min(paid_hours, prices.free_tier.hours_per_month)
        lines.append(
            BillLine(
                "free tier",
                free,
                "node-hours",
                -free * usd_per_hour,
                f"in the first {prices.free_tier.months} months",
                -usd_per_hour,
                prices.where(prices.free_tier.source),
            )
        )
    return Bill(lines)


def whole_node_bill(scenario: CostScenario, nodes: PricedNodes, prices: PriceTable) -> Bill | None:
    """The same with what nodes cost beside: old versions, backups, traffic between zones."""
    hours = scenario.hours_per_month
    bill = node_bill(nodes, scenario.engine, prices, hours=hours)
    if bill is None:
        return None
    support = None
    if nodes.engine_version is not None and scenario.engine == SERVED:
        support = support_line(
            prices,
            nodes.type,
            nodes.engine_version,
            on=nodes.on,
            nodes=nodes.count,
            hours=math.ceil(hours),
        )
    backups = backup_line(prices, data_gb=scenario.data_gb, backups=nodes.backups)
    traffic = zone_lines(
        prices.zone_price(managed=True),
        _traffic(scenario.requests),
        zones=nodes.zones,
        replicas=nodes.replicas,
        managed=True,
        hours=hours,
    )
    return Bill.of([*bill.lines, support, backups, *traffic])


def _traffic(requests: Sequence[Requests]) -> CacheTraffic:
    """Bytes a second of requests and replies, and of writes that replicas get."""
    clients = sum(
        row.a_second * (row.hit_rate * row.value_bytes + 2.0 * OVERHEAD_BYTES) for row in requests
    )
    writes = sum(
        row.a_second * (row.value_bytes + OVERHEAD_BYTES)
        for row in requests
        if row.command == "set"
    )
    return CacheTraffic(clients, writes)


def break_even_with_nodes(
    scenario: CostScenario, prices: PriceTable, sized: Sizing, nodes: PricedNodes
) -> tuple[float | None, int]:
    """The load at which a serverless cache costs as much as the nodes that serve it, and how many.

    Shards are added as the load needs them. None where serverless is cheaper up to the most shards.
    """
    for shards in range(nodes.shards, MOST_SHARDS + 1):
        more = nodes.model_copy(update={"shards": shards})
        bill = whole_node_bill(scenario, more, prices)
        assert bill is not None  # there was one of fewer
        most, usd = sized.most_load(shards), nodes_usd(bill.lines)
        if math.isfinite(most) and serverless_bill(scenario, prices, load=most).usd < usd:
            continue  # cheaper at every load that this many nodes serve
        load = break_even_load(scenario, prices, usd=usd)
        if load is None:
            break
        if load <= most:
            return load, shards
    return None, MOST_SHARDS


def break_even_load(scenario: CostScenario, prices: PriceTable, *, usd: float) -> float | None:
    """The multiple of the requests at which a serverless cache costs `usd`.

    0 where it costs as much or more without any request; None where a million times the requests
    are still cheaper.
    """
    low, high = 0.0, _MOST_LOAD
    if serverless_bill(scenario, prices, load=low).usd >= usd:
        return 0.0
    if serverless_bill(scenario, prices, load=high).usd < usd:
        return None
    # The bill never falls with load: halve until a double knows no more.
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return high
        if serverless_bill(scenario, prices, load=middle).usd < usd:
            low = middle
        else:
            high = middle
