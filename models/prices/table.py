"""Price tables: dated data with a source for every price, and what a node costs by them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from forecache.hwprofiles.files import did_you_mean, parse, read_yaml, shipped
from forecache.hwprofiles.instances import Provider
from forecache.hwprofiles.named_files import names_file
from forecache.hwprofiles.quantity import Quantity, Source
from forecache.hwprofiles.record import Record as _Group
from forecache.hwprofiles.schema import HostProfile
from forecache.sim.errors import InputError

CacheEngine = Literal["redis", "valkey", "memcached"]

HOURS_A_MONTH = 730.0
"""A twelfth of a year of 365 days, as AWS's tools count."""

NODE_PRICES = "elasticache-us-east-1"
"""Price table of managed nodes."""

Payment = Literal["on_demand", "reserved_1_year", "reserved_3_years", "savings_plan", "spot"]

PAYMENTS: tuple[Payment, ...] = get_args(Payment)

_YEARS: dict[Payment, int] = {"reserved_1_year": 1, "reserved_3_years": 3}

_GENERATION = re.compile(r"cache\.[a-z]+([0-9]+)")

SUPPORT_YEARS = 3
"""For which an old version can be kept for a surcharge; then the service upgrades it."""


def _check_day(text: str) -> str:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.isoformat() != text or not 2000 <= found.year <= 2100:
        raise ValueError("a day as YYYY-MM-DD, from 2000 to 2100")
    return text


Day = Annotated[str, AfterValidator(_check_day)]
"""A day as YYYY-MM-DD."""


class BackupRates(_Group):
    """Backups of a cache's data; so many of each cache cost nothing."""

    usd_per_gb_month: Quantity
    free_of_each_cache: Quantity


class ZoneRates(_Group):
    """Bytes between zones, of each direction of a machine that the customer rents.

    A node of the service is none: of its traffic with a client in another zone the client's side
    alone is charged.
    """

    usd_per_gb: Quantity


class ProviderZoneRates(_Group):
    """Bytes between the zones of a provider; `charged` says on which side, for people."""

    usd_per_gb: Quantity
    charged: str


def _check_sources(named: set[str], sources: dict[str, Source]) -> None:
    if unknown := sorted(named - sources.keys()):
        raise ValueError(f"sources listed in this file, not {', '.join(unknown)}")


class ZoneTraffic(_Group):
    """`zones.yaml`."""

    sources: dict[str, Source]
    providers: dict[Provider, ProviderZoneRates]

    @model_validator(mode="after")
    def _sources_known(self) -> ZoneTraffic:
        _check_sources({str(p.usd_per_gb.source) for p in self.providers.values()}, self.sources)
        return self


@dataclass(frozen=True)
class ZonePrice:
    """What a byte costs that crosses zones, on all sides that are charged.

    Attributes
    ----------
    charged
        On which sides, for people.
    source
        Whose price it is, with its day.
    """

    usd_per_gb: float
    charged: str
    source: str


def provider_zone_price(provider: str) -> ZonePrice | None:
    """What a provider charges instances for bytes between zones; None where it is not known."""
    table = _zone_traffic()
    rates = {str(name): found for name, found in table.providers.items()}.get(provider)
    if rates is None:
        return None
    source = table.sources[rates.usd_per_gb.source or ""]
    return ZonePrice(rates.usd_per_gb.best, rates.charged, f"{source.title} ({source.accessed})")


def days_apart(prices: Mapping[str, str]) -> str:
    """A sentence on prices of different days; nothing where all are of one.

    Parameters
    ----------
    prices
        By what they are of, whose price each is, with its day.
    """
    days: dict[str, list[str]] = {}
    for what, source in prices.items():
        for day in _DAY.findall(source)[-1:]:
            days.setdefault(day, []).append(what)
    if len(days) < 2:
        return ""
    told = []
    for day, names in sorted(days.items()):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        told.append(f"{', '.join(names[:3])}{more} on {day}")
    return f"Prices were read on different days: {'; '.join(told)}."


_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b")


@lru_cache(maxsize=1)
def _zone_traffic() -> ZoneTraffic:
    file = Path(__file__).parent / "zones.yaml"
    return parse(ZoneTraffic, read_yaml(file), file=str(file))


class SupportRates(_Group):
    """What a node costs more whose version of Redis is beyond its standard support.

    Attributes
    ----------
    standard_support_until
        The last day, as YYYY-MM-DD, by major version.
    share_in_years_1_and_2, share_in_year_3
        Of the price on demand, in the years after that day.
    """

    versions_source: str
    standard_support_until: dict[str, Day]
    share_in_years_1_and_2: Quantity
    share_in_year_3: Quantity

    def ends(self, version: str) -> date | None:
        """The last day of a version's standard support; None where none is known."""
        day = self.standard_support_until.get(version.split(".")[0])
        return None if day is None else date.fromisoformat(day)

    def share(self, version: str, on: date) -> float:
        """Surcharge of a node that day, as a share of its price on demand."""
        ends = self.ends(version)
        if ends is None or on <= ends:
            return 0.0
        third = ends.year + SUPPORT_YEARS - 1, ends.month, ends.day
        if (on.year, on.month, on.day) > third:
            return self.share_in_year_3.best
        return self.share_in_years_1_and_2.best


class SavingsPlanRates(_Group):
    """A commitment to spend for a year, with nothing upfront.

    Attributes
    ----------
    engines, from_generation
        Of the nodes that it covers: cache.r7g is of generation 7.
    discount
        Share of the price on demand.
    """

    engines: list[str]
    from_generation: int = Field(ge=1, le=99)
    discount: Quantity


@dataclass(frozen=True)
class HourlyPrice:
    """The price of a server, node or host, and where it is from."""

    usd_per_hour: float
    note: str


class ServerlessPrices(_Group):
    """Prices of a serverless cache of one engine; `least_gb` is billed even of an empty one."""

    usd_per_gb_hour: Quantity
    usd_per_million_ecpu: Quantity
    least_gb: Quantity


class ReservedRates(_Group):
    """Prices of a reserved node with Redis: a year with nothing upfront, three all upfront."""

    year_usd_per_hour: float = Field(gt=0)
    three_years_usd: float = Field(gt=0)


class NodeType(_Group):
    """A node's price an hour on demand with Redis or Memcached.

    Attributes
    ----------
    maxmemory_bytes
        Before what is reserved, where it is known.
    vcpus
        It has always, which of a burstable node is a share; where they are known.
    baseline_gbit_per_s
        Of its network, where it is known.
    ssd_gib
        Of the SSD beside the memory, of a node with data tiering.
    source
        For a price that isn't from the table's source.
    reserved
        Where they are known.
    """

    redis_usd_per_hour: float = Field(gt=0)
    maxmemory_bytes: int | None = Field(default=None, gt=0)
    vcpus: float | None = Field(default=None, gt=0)
    baseline_gbit_per_s: float | None = Field(default=None, gt=0)
    ssd_gib: float | None = Field(default=None, gt=0)
    source: str | None = None
    reserved: ReservedRates | None = None


class NodePrices(_Group):
    """Nodes by type; a node with Valkey costs `valkey_factor` times one with Redis."""

    source: str
    reserved_source: str | None = None
    maxmemory_source: str
    types: dict[str, NodeType]
    valkey_factor: Quantity
    reserved_share: Quantity


class ReservedPrice(_Group):
    """What a month of a reserved node costs, all instalments spread over the term.

    It goes before what is known of the node's type.
    """

    type: str
    engine: CacheEngine
    term_years: Literal[1, 3]
    usd_per_month: Quantity


class FreeTier(_Group):
    """Hours of small nodes that a new customer doesn't pay."""

    source: str
    types: list[str]
    hours_per_month: float
    months: int


class PriceTable(_Group):
    """Prices of one service in one region on one day; what is not known is left out."""

    id: str
    title: str
    region: str
    date: str
    currency: Literal["USD"]
    sources: dict[str, Source]
    serverless: dict[CacheEngine, ServerlessPrices]
    script_us_per_ecpu: Quantity
    nodes: NodePrices
    reserved: list[ReservedPrice] = Field(default=[])
    free_tier: FreeTier
    backups: BackupRates | None = None
    between_zones: ZoneRates | None = None
    extended_support: SupportRates | None = None
    savings_plan: SavingsPlanRates | None = None

    @model_validator(mode="after")
    def _sources_known(self) -> PriceTable:
        named = {self.nodes.source, self.nodes.maxmemory_source, self.free_tier.source}
        named |= {row.source for row in self.nodes.types.values() if row.source}
        prices = [self.script_us_per_ecpu, self.nodes.valkey_factor, self.nodes.reserved_share]
        prices += [row.usd_per_month for row in self.reserved]
        for group in self.serverless.values():
            prices += [group.usd_per_gb_hour, group.usd_per_million_ecpu, group.least_gb]
        if self.nodes.reserved_source is not None:
            named.add(self.nodes.reserved_source)
        if self.backups is not None:
            prices += [self.backups.usd_per_gb_month, self.backups.free_of_each_cache]
        if self.between_zones is not None:
            prices.append(self.between_zones.usd_per_gb)
        if self.savings_plan is not None:
            prices.append(self.savings_plan.discount)
        if (support := self.extended_support) is not None:
            named.add(support.versions_source)
            prices += [support.share_in_years_1_and_2, support.share_in_year_3]
        named |= {price.source for price in prices if price.source}
        _check_sources(named, self.sources)
        return self

    def zone_price(self, *, managed: bool) -> ZonePrice | None:
        """What a byte between zones costs: with a node of the service the client's side alone."""
        if self.between_zones is None:
            return None
        each = self.between_zones.usd_per_gb
        sides, charged = (1, "on the client's side") if managed else (2, "on both sides")
        return ZonePrice(sides * each.best, charged, self.where(each.source))

    def node_usd_per_hour(self, node_type: str, engine: CacheEngine) -> float:
        """Price of a node on demand, rounded to a hundredth of a cent as AWS does."""
        row = self.node(node_type)
        factor = self.nodes.valkey_factor.best if engine == "valkey" else 1.0
        return round(row.redis_usd_per_hour * factor, 4)

    def node(self, node_type: str) -> NodeType:
        """A type of node; InputError names close matches where there is none."""
        if node_type not in self.nodes.types:
            raise InputError(
                f"field nodes.type: found {node_type!r}, which {self.id} has no price for; "
                f"{did_you_mean(node_type, self.nodes.types)}"
            )
        return self.nodes.types[node_type]

    def reserved_usd_per_month(
        self, node_type: str, engine: CacheEngine, *, term_years: int
    ) -> float | None:
        """What a month of a reserved node costs; None where the table doesn't say."""
        for row in self.reserved:
            if (row.type, row.engine, row.term_years) == (node_type, engine, term_years):
                return row.usd_per_month.best
        found = self.nodes.types.get(node_type)
        if found is None or found.reserved is None:
            return None
        factor = self.nodes.valkey_factor.best if engine == "valkey" else 1.0
        if term_years == 1:
            return factor * found.reserved.year_usd_per_hour * HOURS_A_MONTH
        return factor * found.reserved.three_years_usd / 36.0

    def where(self, source: str | None) -> str:
        """Whose price it is, for people: source, region, and the day when it was read."""
        found = self.sources.get(source or "")
        title, day = (self.title, None) if found is None else (found.title, found.accessed)
        return f"{title} ({self.region}, {day or self.date})"


def load_prices(name: str, *, field: str = "prices", region: str | None = None) -> PriceTable:
    """A table that is shipped, by its id, or a file of the same form by its path.

    A file is read once as long as it stays what it is.

    Parameters
    ----------
    field
        What messages call the name.
    region
        Whose prices are meant. An `InputError` says if they are not those of the table.
    """
    table = _table(name, field)
    if region not in (None, table.region):
        raise InputError(
            f"field region: found {region!r}; {table.title} has prices of {table.region} only; "
            f"valid is {table.region!r}, or in {field} the file of a table of that region, in the "
            f"form of models/prices/tables/{NODE_PRICES}.yaml."
        )
    return table


def check_region(region: str | None, engine: str) -> None:
    """Refuse a region whose prices of managed nodes are not known, for an engine that needs one."""
    if engine.startswith("elasticache-"):
        known = load_prices(NODE_PRICES).region
        if region not in (None, known):
            raise InputError(
                f"field 'region': found {region!r} with the engine {engine!r}, whose nodes have "
                f"known prices in {known} only; valid is {known!r}, or a plan with a price table "
                "of your own in choices.prices."
            )


def _table(name: str, field: str) -> PriceTable:
    tables = _tables()
    if name in tables:
        return _read(str(tables[name]), 0)
    if not names_file(name):
        raise InputError(
            f"field {field}: found {name!r}; valid is {', '.join(sorted(tables))} or the path of a "
            "YAML file."
        )
    try:
        written_ns = Path(name).stat().st_mtime_ns
    except (OSError, ValueError):
        written_ns = 0  # reading it says why
    return _read(name, written_ns)


@lru_cache(maxsize=1)
def _tables() -> dict[str, Path]:
    return shipped("forecache.models.prices", "tables")


@lru_cache(maxsize=8)
def _read(file: str, _written_ns: int) -> PriceTable:
    return parse(PriceTable, read_yaml(file), file=file)


def served_engine(engine: str) -> CacheEngine:
    """The engine in a price table that a managed engine is billed as."""
    if engine == "memcached":
        return "memcached"
    return "valkey" if engine.endswith("valkey") else "redis"


def managed_node(host: HostProfile, engine: str) -> tuple[PriceTable, str] | None:
    """The node that a service sells with a managed engine on an instance, with its price table.

    None for an engine that one runs oneself, and for a type that the table doesn't have.
    """
    if not engine.startswith("elasticache-"):
        return None
    table, node_type = load_prices(NODE_PRICES), f"cache.{host.instance}"
    return (table, node_type) if node_type in table.nodes.types else None


def host_of(name: str, engine: str) -> str:
    """The host that a scenario names: with a managed engine the instance of a service's node."""
    instance = name.removeprefix("cache.")
    if instance == name or engine.startswith("elasticache-"):
        return instance
    raise InputError(
        f"field 'host': found {name!r}, a node of ElastiCache, with the engine {engine!r}; valid "
        f"is {instance!r} for a server of your own, or the engine 'elasticache-redis'."
    )


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


def server_price(host: HostProfile, engine: str) -> HourlyPrice | None:
    """The price of a server: of its instance, or of the managed node that runs on it.

    None for a host that is no instance and names no price, and for a type of node that the price
    table doesn't have. The instance behind a managed node has a price too; users don't pay it.
    """
    managed = managed_node(host, engine)
    if managed is not None:
        table, node_type = managed
        usd_per_hour = table.node_usd_per_hour(node_type, served_engine(engine))
        return HourlyPrice(usd_per_hour, f"{node_type} on demand, {table.region}, {table.date}")
    usd_per_hour = host.speed().price_usd_per_hour
    if engine.startswith("elasticache-") or not math.isfinite(usd_per_hour):
        return None
    method = host.price_usd_per_hour.method if host.price_usd_per_hour else None
    return HourlyPrice(usd_per_hour, (method or "the host's price").replace("read ", ""))
