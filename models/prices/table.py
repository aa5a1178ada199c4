"""Price tables: dated data with a source for every price."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import did_you_mean, parse, read_yaml, shipped
from forecache.hwprofiles.named_files import names_file
from forecache.hwprofiles.quantity import Quantity, Source
from forecache.hwprofiles.record import Record as _Group
from forecache.hwprofiles.schema import HostProfile
from forecache.sim.errors import InputError

from .rates import BackupRates, SavingsPlanRates, SupportRates, ZonePrice, ZoneRates

CacheEngine = Literal["redis", "valkey", "memcached"]

HOURS_A_MONTH = 730.0
"""A twelfth of a year of 365 days, as AWS's tools count."""

NODE_PRICES = "elasticache-us-east-1"
"""Price table of managed nodes."""


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
        if unknown := sorted(named - self.sources.keys()):
            raise ValueError(f"sources listed in this file, not {', '.join(unknown)}")
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


def load_prices(name: str) -> PriceTable:
    """A table that is shipped, by its id, or a file of the same form by its path."""
    tables = shipped("forecache.models.prices", "tables")
    if name in tables:
        return _shipped_table(tables[name])
    if names_file(name):
        return parse(PriceTable, read_yaml(name), file=name)
    raise InputError(
        f"field prices: found {name!r}; valid is {', '.join(sorted(tables))} or the path of a "
        "YAML file."
    )


@lru_cache
def _shipped_table(file: Path) -> PriceTable:
    return parse(PriceTable, read_yaml(file), file=str(file))


def served_engine(engine: str) -> CacheEngine:
    """Whose prices a managed engine has."""
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
