"""What a scenario of `kind: plan` says: the demand, the objectives, and what may be chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.record import Record as _Record
from forecache.sim.statistics import Estimate, exactly

from ..cost.schema import MOST_SHARDS
from ..footprint.schema import Population
from ..prices.table import NODE_PRICES, Day, Payment, PriceTable, load_prices
from ..scenario.command_table import (
    COMMANDS,
    DESCRIBED_BY,
    CommandRow,
    optional,
    record_by_command,
    with_items,
)
from ..scenario.schema import PersistenceChoice, Slo, TlsChoice
from ..scenario.versions import EngineVersion, OfEngine, engine_and_version
from ..scenario.workload import (
    Collections,
    Mix,
    Popularity,
    SlowCommand,
    ValueSizes,
    Workload,
)

Algorithm = Literal["zstd", "lz4", "gzip"]

ReadsFrom = Literal["primary", "any", "same_zone"]

LEVELS: dict[str, tuple[int, int, int]] = {"zstd": (1, 3, 22), "lz4": (0, 0, 12), "gzip": (1, 6, 9)}
"""Lowest, default and highest level."""


class RatioRange(_Record):
    """A ratio that isn't known exactly."""

    low: float = Field(gt=0, le=1)
    """The least it may be."""
    high: float = Field(gt=0, le=1)
    """The most; plans are made for the middle."""

    @model_validator(mode="after")
    def _ordered(self) -> RatioRange:
        if self.low > self.high:
            raise ValueError(f"low not above high (found {self.low:g} and {self.high:g})")
        return self


class Compression(_Record):
    """How clients compress values of strings before they send them."""

    algorithm: Algorithm
    """What compresses: zstd and lz4 with the extra `forecache[compression]`."""
    level: int | None = Field(default=None, ge=0, le=22)
    """Its level; without it 3 of zstd, 0 of lz4, 6 of gzip."""
    above_bytes: int = Field(default=1024, ge=0, le=512 * 2**20)
    """Values that are longer are compressed; one that would grow stays as it is."""
    sample: str | None = Field(default=None, min_length=1)
    """A file with values, on which ratio and CPU time are measured; this or `ratio`."""
    values: Literal["pieces", "lines"] = "pieces"
    """What values are in the sample: pieces of it as long as the value, or lines about as long."""
    ratio: Annotated[float, Field(gt=0, le=1)] | RatioRange | None = None
    """Bytes after for bytes before, or `{low: 0.3, high: 0.4}`; the CPU time is not known then."""

    @model_validator(mode="after")
    def _one(self) -> Compression:
        if (self.sample is None) == (self.ratio is None):
            raise ValueError("one of sample and ratio")
        low, _, high = LEVELS[self.algorithm]
        if self.level is not None and not low <= self.level <= high:
            raise FieldError(
                "level", found=self.level, valid=f"{low} to {high} of {self.algorithm}"
            )
        return self

    @property
    def level_used(self) -> int:
        """The level, or the algorithm's own."""
        return LEVELS[self.algorithm][1] if self.level is None else self.level

    @property
    def given_ratio(self) -> Estimate | None:
        """The ratio, where it isn't measured."""
        if self.ratio is None:
            return None
        if isinstance(self.ratio, RatioRange):
            low, high = self.ratio.low, self.ratio.high
            return Estimate((low + high) / 2.0, low, high)
        return exactly(self.ratio)


_MOST_KEYS, _MOST_RPS = 10**11, 1e8
"""Of a node's scenario: more than any node holds and serves, so that growth may exceed them."""

LEAST_PROBABILITY = 0.5
"""Bounds of the search hold at the nominal numbers: what fails there is likelier to fail than
not."""


class Operations(_Record):
    """Operations a second of one command; a bare number stands for `a_second`."""

    a_second: float = Field(gt=0, le=1e10)
    """How many, on average over a day."""

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError("a number a second, such as 50k, or a mapping with a_second")
        return {"a_second": value} if isinstance(value, int | float) else value


OperationsKeys = with_items(Operations, "keys")
OperationsMembers = with_items(Operations, "members")
OperationsFields = with_items(Operations, "fields")
OperationsElements = with_items(Operations, "elements")
OperationsEntries = with_items(Operations, "entries")


def _operations_of(name: str, row: CommandRow) -> tuple[Any, Any]:
    """The field of a demand's operations about a command."""
    example = ", `{a_second: 1000, keys: 10}`" if row.items == "keys" else ""
    return optional(Operations, row, name.upper() + example)


class AskedOperations(record_by_command(_operations_of)):  # type: ignore[misc]
    """Operations a second by command, of all clients together, on average over a day."""

    @property
    def by_command(self) -> dict[str, Operations]:
        """Every command that is asked for."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: asked for name, asked in found.items() if asked is not None}

    @property
    def a_second(self) -> float:
        """All of them together."""
        return sum(asked.a_second for asked in self.by_command.values())

    @model_validator(mode="after")
    def _some(self) -> AskedOperations:
        if not self.by_command:
            raise ValueError("operations a second of at least one command")
        return self

    def part(self, *, reads: float, writes: float) -> float:
        """How many a node gets of them that gets these shares of reads and of writes."""
        return sum(
            asked.a_second * (writes if COMMANDS[name].writes else reads)
            for name, asked in self.by_command.items()
        )

    def mix(self, *, reads: float = 1.0, writes: float = 1.0) -> Mix:
        """Their shares, of a node that gets these shares of reads and of writes."""
        total, shares = self.part(reads=reads, writes=writes), dict[str, Any]()
        for name, asked in self.by_command.items():
            items = asked.model_dump(exclude={"a_second"})
            share = asked.a_second * (writes if COMMANDS[name].writes else reads) / total
            if share:
                shares[name] = {"share": share, **items} if items else share
        return Mix(**shares)


class PlanDemand(Collections):
    """What is asked of the whole cache, now and later."""

    operations: AskedOperations
    """Operations a second by command, on average."""
    peak_to_mean: float = Field(default=1.0, ge=1, le=1000)
    """The busiest minutes of a day against the mean: plans have to hold then."""
    growth_per_year: float = Field(default=0.0, ge=0, le=100)
    """By which share operations grow a year: 0.3 is 30%."""
    data_growth_per_year: float | None = Field(default=None, ge=0, le=100)
    """The same of the number of keys; without it like the operations."""
    horizon_months: float = Field(default=0.0, ge=0, le=120)
    """How long a plan has to hold."""
    keys: int = Field(default=1_000_000, ge=1, le=10**11)
    """Keys that GET, SET, MGET and MSET work on."""
    key_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of a key."""
    value_bytes: ValueSizes = 512
    """Bytes of a value, or a distribution of them; before compression."""
    compression: Compression | None = None
    """How clients compress values, if they do."""
    popularity: Popularity = "uniform"
    """How requests spread over keys: `uniform`, `{zipf: 0.99}`, or `{hot_set: {keys: 0.1, requests:
    0.9}}`. With zipf the shard that has the most popular key counts."""
    hot_slot: float = Field(default=0.0, ge=0, lt=1)
    """Share of the operations that go to the busiest slot, which stays whole on one shard."""
    slow_command: SlowCommand | None = None
    """A command that occupies the main thread of every shard now and then."""
    data: list[Annotated[Population, Field(discriminator="type")]] | None = Field(
        default=None, min_length=1, max_length=1000
    )
    """What is kept in memory, population by population as in kind memory (types, times to live);
    without it what the operations work on."""
    clients_per_node: int = Field(default=200, ge=1, le=100_000)
    """Connections to each node that are in use."""
    tls: TlsChoice = None
    """Encrypted connections: `true`, or what differs from the defaults."""
    persistence: PersistenceChoice = "none"
    """What every node keeps on disk."""
    zones: int = Field(default=3, ge=1, le=10)
    """Availability zones over which nodes are spread."""
    reads_from: ReadsFrom = "primary"
    """Which nodes of a shard clients read from: its `primary`, `any` of them in turn, or one in the
    client's own zone (`same_zone`): a replica there, else the primary if it is there, else any
    replica."""

    @model_validator(mode="after")
    def _as_a_workload(self) -> PlanDemand:
        self.workload(rate_rps=1.0)  # what must fit together there has to here
        return self

    @property
    def peak_rps(self) -> float:
        """Operations a second at the peak, now."""
        return self.operations.a_second * self.peak_to_mean

    def growth(self, months: float) -> float:
        """By how much operations have grown then."""
        return float((1.0 + self.growth_per_year) ** (months / 12.0))

    def data_growth(self, months: float) -> float:
        """By how much data have grown then."""
        yearly = self.data_growth_per_year
        yearly = self.growth_per_year if yearly is None else yearly
        return float((1.0 + yearly) ** (months / 12.0))

    def workload(self, *, rate_rps: float, share: float = 1.0, mix: Mix | None = None) -> Workload:
        """What a node is asked for that has a share of the keys, and of all commands or some."""

        def fewer(keys: int) -> int:
            return min(_MOST_KEYS, max(1, round(keys * share)))

        described = {field: getattr(self, field) for field in DESCRIBED_BY.values()}
        if mix is not None:
            types = {COMMANDS[name].type for name in mix.commands}
            described = {f: described[f] for held, f in DESCRIBED_BY.items() if held in types}
        workload = Workload(
            arrival="open_loop",
            rate_rps=min(rate_rps, _MOST_RPS),
            clients=self.clients_per_node,
            mix=mix or self.operations.mix(),
            keys=fewer(self.keys),
            key_bytes=self.key_bytes,
            value_bytes=self.value_bytes,
            popularity=self.popularity,
            slow_command=self.slow_command,
            **described,
        )
        fewer_of = {
            DESCRIBED_BY[held]: each.model_copy(update={"keys": fewer(each.keys)})
            for held, each in workload.collections.items()
        }
        return workload.model_copy(update=fewer_of) if share != 1.0 else workload


Survives = Literal["data", "load", "nothing"]


class Objectives(_Record):
    """What must hold at the peak, up to the horizon."""

    slo: Slo
    """Latencies, at most, and with which probability."""
    memory_headroom: float = Field(default=0.1, ge=0, lt=1)
    """Share of the memory for the server that stays free."""
    cpu_headroom: float = Field(default=0.2, ge=0, lt=1)
    """Share of what a node serves in saturation that stays free."""
    losing_a_node: Survives = "load"
    """What survives the loss of one node: `data` (nothing is lost, which takes replicas), `load`
    (the others hold the slo and the data while they take over), `nothing`."""
    losing_a_zone: Survives = "nothing"
    """The same of a zone with all its nodes."""
    failover: Literal["automatic", "by_hand"] = "automatic"
    """Who sees to it that service goes on then: `automatic`, the managed service or the cluster
    itself, of which a majority of the primaries has to be left to promote replicas; `by_hand`, a
    person may have to, or a Sentinel elsewhere."""
    backups: int = Field(default=0, ge=0, le=35)
    """Daily backups of the data that are kept."""

    @model_validator(mode="after")
    def _likely(self) -> Objectives:
        if self.slo.probability < LEAST_PROBABILITY:
            raise FieldError(
                "slo.probability",
                found=self.slo.probability,
                valid=f"at least {LEAST_PROBABILITY:g}",
            )
        return self


class EngineChoice(_Record):
    """An engine, or some versions of it.

    A bare name stands for its newest known version, `valkey 9.1` for that one.
    """

    engine: str
    """valkey, redis, memcached or elasticache-redis; a profile's id or file."""
    versions: list[EngineVersion] | None = Field(default=None, min_length=1, max_length=20)
    """Its versions, in quotes; the newest known without them."""


def _named(value: object) -> object:
    if not isinstance(value, str):
        return value
    engine, version = engine_and_version(value)
    return {"engine": engine, "versions": version and [version]}


class ShardRange(_Record):
    """How many shards a plan may have."""

    least: int = Field(default=1, ge=1, le=MOST_SHARDS)
    """At least."""
    most: int = Field(default=MOST_SHARDS, ge=1, le=MOST_SHARDS)
    """At most."""

    @model_validator(mode="after")
    def _ordered(self) -> ShardRange:
        if self.least > self.most:
            raise ValueError(f"least not above most (found {self.least} and {self.most})")
        return self


class Choices(_Record):
    """What may be chosen."""

    instances: list[str] = Field(min_length=1, max_length=200)
    """Instances of `forecache catalog`, and ElastiCache node types (`cache.r7g.large`), which go
    with an engine that is sold as a service; `*` stands for any letters: `r7g.*`, `*8g.*`."""
    engines: list[Annotated[EngineChoice, BeforeValidator(_named)]] = Field(
        min_length=1, max_length=20
    )
    """Engines, each with the versions that may be run."""
    io_threads: list[Annotated[int, Field(ge=1, le=256)]] | Literal["automatic"] = "automatic"
    """Numbers of threads, the main thread included, or `automatic`: 1 to 16 as cores allow."""
    shards: ShardRange = ShardRange()
    """How many shards."""
    replicas: list[Annotated[int, Field(ge=0, le=5)]] = Field(
        default=[1], min_length=1, max_length=6
    )
    """Replicas of each shard."""
    payments: list[Payment] = Field(default=["on_demand"], min_length=1, max_length=5)
    """How nodes may be paid; the cheapest whose price is known counts."""
    discounts: dict[Payment, Annotated[float, Field(ge=0, lt=1)]] = Field(default={})
    """What is taken off the price on demand by how a node is paid, in place of the table's price:
    `{spot: 0.6, reserved_1_year: 0.35}`."""
    usd_per_month: dict[str, Annotated[float, Field(gt=0, le=1e7)]] = Field(default={})
    """What you pay for one node a month, by instance, in place of the table's price."""
    prices: str = NODE_PRICES
    """A price table of managed nodes, or the path of one in a file of the same form."""
    region: str | None = Field(default=None, min_length=1, max_length=40)
    """Whose prices are meant, such as `eu-west-1`; without it those of the catalogue count."""
    region_factor: float | None = Field(default=None, gt=0, le=10)
    """What a node costs there, where no table has the region, against where its price is known."""
    data_tiering: bool = False
    """Whether to compare with nodes that keep values on an SSD beside their memory."""
    serverless: bool = False
    """Whether to compare with the bill of an ElastiCache Serverless cache."""

    @property
    def price_table(self) -> PriceTable:
        """The price table of managed nodes."""
        return load_prices(self.prices, field="choices.prices")

    @model_validator(mode="after")
    def _of_a_region(self) -> Choices:
        if self.region_factor is not None and self.region is None:
            raise FieldError("region", found=None, valid="a region with region_factor")
        return self


class TodaysPlan(OfEngine):
    """What runs now, to compare with."""

    instance: str
    """Its instance, or ElastiCache node type."""
    engine: str
    """Its engine."""
    engine_version: EngineVersion | None = None
    """Its version, in quotes."""
    shards: int = Field(ge=1, le=MOST_SHARDS)
    """How many there are."""
    replicas: int = Field(default=0, ge=0, le=5)
    """Of each."""
    io_threads: int = Field(default=1, ge=1, le=256)
    """The setting."""
    usd_per_month: float | None = Field(default=None, gt=0, le=1e7)
    """What one node costs a month; without it the table's price."""


class PlanScenario(_Record):
    """Which machines, how many shards, which engine: what is asked and what may be chosen."""

    kind: Literal["plan"]
    """What the scenario is about."""
    name: str | None = None
    """A name for people."""
    demand: PlanDemand
    """What is asked for."""
    objectives: Objectives
    """What must hold."""
    choices: Choices
    """What may be chosen."""
    today: TodaysPlan | None = None
    """What runs now."""
    on: Day | None = None
    """The day for which surcharges of old versions are told, as YYYY-MM-DD; without it that of the
    price table."""

    @model_validator(mode="after")
    def _can_survive(self) -> PlanScenario:
        for field in ("losing_a_node", "losing_a_zone"):
            needs_replicas = getattr(self.objectives, field) == "data"
            if needs_replicas and not any(self.choices.replicas):
                raise FieldError(
                    "choices.replicas",
                    found=self.choices.replicas,
                    valid=f"at least 1 with {field} data",
                )
        if self.objectives.losing_a_zone != "nothing" and self.demand.zones == 1:
            raise FieldError(
                "demand.zones", found=1, valid="at least 2 where the loss of a zone is survived"
            )
        return self


def as_mapping(scenario: PlanScenario) -> Mapping[str, Any]:
    """The fields that were set, as a file has them."""
    return scenario.model_dump(mode="json", exclude_none=True, exclude_unset=True)
