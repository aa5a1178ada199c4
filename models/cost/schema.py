"""What a scenario of `kind: cost` says."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.record import Record as _Record

from ..prices.table import HOURS_A_MONTH, CacheEngine, Day, Payment
from ..scenario.versions import EngineVersion

MOST_SHARDS = 500
"""Shards of a cluster at most (ElastiCache)."""


class Requests(_Record):
    """Requests of one kind: reads and writes of values, or scripts."""

    command: Literal["get", "set", "script"]
    """What they do: read a value, write one, or compute."""
    per_day: float | None = Field(default=None, ge=0, le=1e15)
    """How many a day; this or `per_s`."""
    per_s: float | None = Field(default=None, ge=0, le=1e9)
    """How many a second on average; this or `per_day`."""
    value_bytes: float = Field(default=0.0, ge=0, le=512 * 2**20)
    """What one transfers."""
    hit_rate: float = Field(default=1.0, ge=0, le=1)
    """Share of the reads that find something; only with `get`."""
    processor_us: float | None = Field(default=None, gt=0, le=1e9)
    """Processor time of one script; with `script`, and only there."""

    @model_validator(mode="after")
    def _consistent(self) -> Requests:
        if (self.per_day is None) == (self.per_s is None):
            raise FieldError("per_day", found=self.per_day, valid="either per_day or per_s")
        if (self.command == "script") != (self.processor_us is not None):
            valid = "a time with command script, and only there"
            raise FieldError("processor_us", found=self.processor_us, valid=valid)
        if self.command != "get" and self.hit_rate != 1.0:
            raise FieldError("hit_rate", found=self.hit_rate, valid="a share only with command get")
        return self

    @property
    def a_second(self) -> float:
        """Mean number a second."""
        return self.per_s if self.per_s is not None else (self.per_day or 0.0) / 86_400.0


class Serverless(_Record):
    """What a serverless cache is told to keep ready, which is billed even if it isn't used."""

    least_ecpu_per_s: float = Field(default=0.0, ge=0, le=15_000_000)
    """Smallest ECPU a second."""
    least_gb: float = Field(default=0.0, ge=0, le=5_000)
    """Smallest data, in GB of 10^9 bytes."""


class PricedNodes(_Record):
    """A cluster of nodes that would do the same."""

    type: str
    """Such as cache.m6g.large."""
    shards: int = Field(default=1, ge=1, le=MOST_SHARDS)
    """Shards. If data or the peak hour need more, the larger number is priced."""
    replicas: int = Field(default=0, ge=0, le=5)
    """Replicas of each shard."""
    payment: Payment = "on_demand"
    """How they are paid."""
    usd_per_month: float | None = Field(default=None, gt=0)
    """Price of one node a month, where the table has none or you pay another one."""
    free_tier: bool = False
    """Whether a new customer's free hours are taken off."""
    engine_version: EngineVersion | None = None
    """Version of Redis, in quotes: one beyond its standard support costs more."""
    on: Day | None = None
    """The day for which that is told, as YYYY-MM-DD; without it that of the prices."""
    backups: int = Field(default=0, ge=0, le=35)
    """Daily backups that are kept, of which the service gives one free."""
    zones: int = Field(default=1, ge=1, le=10)
    """Zones over which nodes and clients are spread evenly, whose traffic is billed."""

    @property
    def count(self) -> int:
        """Primaries and replicas."""
        return self.shards * (1 + self.replicas)


class CostScenario(_Record):
    """What a cache costs a month: serverless, and as nodes if they are described."""

    kind: Literal["cost"]
    """What the scenario is about."""
    name: str | None = None
    """A name for people."""
    prices: str = "elasticache-us-east-1"
    """A price table, or the path of one in a file of the same form."""
    region: str | None = Field(default=None, min_length=1, max_length=40)
    """Whose prices are meant: that of the table, which is the only one that it knows."""
    engine: CacheEngine = "valkey"
    """Whose prices: redis, valkey or memcached."""
    hours_per_month: float = Field(default=HOURS_A_MONTH, gt=0, le=744)
    """Hours that a month is taken for."""
    data_gb: float = Field(ge=0, le=5_000)
    """Mean size of the data, in GB of 10^9 bytes; `forecache memory` tells it."""
    requests: list[Requests] = Field(min_length=1)
    """What is asked for."""
    hourly_shares: list[Annotated[float, Field(ge=0)]] | None = Field(
        default=None, min_length=24, max_length=24
    )
    """How requests spread over the hours of a day, in any unit; evenly without it. Nodes have
    to serve the busiest hour."""
    serverless: Serverless = Serverless()
    """What the serverless cache keeps ready."""
    nodes: PricedNodes | None = None
    """Nodes to compare with."""

    @model_validator(mode="after")
    def _some_share(self) -> CostScenario:
        if self.hourly_shares is not None and not any(self.hourly_shares):
            raise FieldError("hourly_shares", found=self.hourly_shares, valid="one share above 0")
        return self
