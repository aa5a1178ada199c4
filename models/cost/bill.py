"""Bills of a month, and the load at which a serverless cache and nodes cost the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from forecache.sim.plain import Result

from ..prices.table import CacheEngine, PriceTable
from .ecpu import ecpu_of_get, ecpu_of_script, ecpu_of_transfer
from .schema import MOST_SHARDS, CostScenario, PricedNodes, Requests
from .sizing import Sizing, hourly_parts

_PAID_MONTHLY = {"reserved_1_year": 1, "reserved_3_years": 3}

_MOST_LOAD = 1e6
"""Multiple of a scenario's requests up to which a break-even is looked for."""


@dataclass(frozen=True)
class BillLine(Result):
    """One line of a bill."""

    what: str
    quantity: float
    unit: str
    usd: float
    note: str = ""


@dataclass(frozen=True)
class Bill:
    """The lines of a month."""

    lines: Sequence[BillLine]

    @property
    def usd(self) -> float:
        """All lines together."""
        return sum(line.usd for line in self.lines)


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

    A partial hour counts as a whole one; a reserved node costs its month whatever its hours.
    """
    count = nodes.count
    years = _PAID_MONTHLY.get(nodes.payment)
    monthly = nodes.usd_per_month
    if monthly is None and years is not None:
        monthly = prices.reserved_usd_per_month(nodes.type, engine, term_years=years)
        if monthly is None:
            return None
    if monthly is not None:
        return Bill(
            [BillLine(nodes.payment.replace("_", " "), count, "node-months", count * monthly)]
        )
    paid_hours = count * math.ceil(hours)
    usd_per_hour = prices.node_usd_per_hour(nodes.type, engine)
    lines = [BillLine("on demand", paid_hours, "node-hours", paid_hours * usd_per_hour)]
    if nodes.free_tier and nodes.type in prices.free_tier.types:
        free = min(paid_hours, prices.free_tier.hours_per_month)
        lines.append(
            BillLine(
                "free tier",
                free,
                "node-hours",
                -free * usd_per_hour,
                f"in the first {prices.free_tier.months} months",
            )
        )
    return Bill(lines)


def break_even_with_nodes(
    scenario: CostScenario, prices: PriceTable, sized: Sizing, nodes: PricedNodes
) -> tuple[float | None, int]:
    """The load at which a serverless cache costs as much as the nodes that serve it, and how many.

    Shards are added as the load needs them. None where serverless is cheaper up to the most shards.
    """
    for shards in range(nodes.shards, MOST_SHARDS + 1):
        more = nodes.model_copy(update={"shards": shards})
        bill = node_bill(more, scenario.engine, prices, hours=scenario.hours_per_month)
        assert bill is not None  # there was one of fewer
        most = sized.most_load(shards)
        if math.isfinite(most) and serverless_bill(scenario, prices, load=most).usd < bill.usd:
            continue  # cheaper at every load that this many nodes serve
        load = break_even_load(scenario, prices, nodes_usd=bill.usd)
        if load is None:
            break
        if load <= most:
            return load, shards
    return None, MOST_SHARDS


def break_even_load(
    scenario: CostScenario, prices: PriceTable, *, nodes_usd: float
) -> float | None:
    """The multiple of the requests at which a serverless cache costs `nodes_usd`.

    0 where it costs as much or more without any request; None where a million times the requests
    are still cheaper.
    """
    low, high = 0.0, _MOST_LOAD
    if serverless_bill(scenario, prices, load=low).usd >= nodes_usd:
        return 0.0
    if serverless_bill(scenario, prices, load=high).usd < nodes_usd:
        return None
    # The bill never falls with load: halve until a double knows no more.
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return high
        if serverless_bill(scenario, prices, load=middle).usd < nodes_usd:
            low = middle
        else:
            high = middle
