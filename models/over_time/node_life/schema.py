"""What a scenario of `kind: node_life` says: a node, its settings, its keys, and what is asked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.record import Record as _Record

from ...layouts.allocator import Allocator
from ...scenario.versions import EngineVersion, OfEngine
from ...scenario.workload import Popularity, ValueSizes
from ..cluster.schema import Demand
from .rules import MaxmemoryPolicy

MOST_STEPS = 100_000


class TimeToLive(_Record):
    """Times to live that are drawn evenly."""

    from_s: float = Field(gt=0, le=3.2e9)
    """The shortest."""
    to_s: float = Field(gt=0, le=3.2e9)
    """The longest."""

    @model_validator(mode="after")
    def _ordered(self) -> TimeToLive:
        if self.from_s > self.to_s:
            raise FieldError("to_s", found=self.to_s, valid=f"at least from_s ({self.from_s:g})")
        return self


class LivingKeys(_Record):
    """Keys that clients ask for, whether they are there or not."""

    keys: int = Field(ge=1, le=10**11)
    """How many different ones."""
    key_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of a key."""
    value_bytes: ValueSizes = 512
    """Bytes of a value, or a distribution of them. A key keeps its size."""
    popularity: Popularity = "uniform"
    """How requests spread over keys."""
    ttl: float | None = Field(default=None, ge=0, le=1)
    """Share of the keys whose writes give them a time to live; all where `ttl_s` is given."""
    ttl_s: Annotated[float, Field(gt=0, le=3.2e9)] | TimeToLive | None = None
    """The time to live, or `{from_s: 300, to_s: 600}`."""
    begins: Literal["full", "empty"] = "full"
    """What is there at first: what would be after a long time, or nothing."""

    @property
    def timed(self) -> float:
        """Share of the keys with a time to live."""
        if self.ttl_s is None:
            return 0.0
        return 1.0 if self.ttl is None else self.ttl

    @model_validator(mode="after")
    def _has_time(self) -> LivingKeys:
        if self.ttl and self.ttl_s is None:
            raise FieldError("ttl_s", found=None, valid="a time in seconds where keys have one")
        return self


class Settings(_Record):
    """Settings of the engine, by their names in its file; its defaults without them."""

    maxmemory_bytes: int | None = Field(default=None, gt=0)
    """`maxmemory`; no limit without it."""
    maxmemory_policy: MaxmemoryPolicy = "noeviction"
    """Which keys are evicted."""
    maxmemory_samples: int = Field(default=5, ge=1, le=64)
    """Keys that are compared for each that is evicted."""
    lfu_log_factor: float = Field(default=10, ge=0, le=1e6)
    """How slowly a counter of uses grows."""
    lfu_decay_time: float = Field(default=1, ge=0, le=1e6)
    """Minutes after which it loses one; 0 for never."""
    hz: int = Field(default=10, ge=1, le=500)
    """How often a second the timer runs, expiry cycles among the rest."""
    active_expire_effort: int = Field(default=1, ge=1, le=10)
    """How much expiry cycles do, from Redis 6.0 on."""
    rdbcompression: bool = True
    """Whether snapshots compress long strings."""
    rdbchecksum: bool = True
    """Whether snapshots have a checksum."""


class LifeEvent(_Record):
    """Something that happens."""

    at_s: float = Field(ge=0, le=3.2e8)
    """When it begins."""


class BatchLoad(LifeEvent):
    """Keys are written one after the other, besides what clients ask: a batch job."""

    event: Literal["load"]
    """Its name."""
    share: float = Field(default=1.0, gt=0, le=1)
    """Of all keys, those that are written."""
    over_s: float = Field(gt=0, le=3.2e8)
    """How long it takes."""
    ttl_s: float | None = Field(default=None, gt=0, le=3.2e9)
    """The time to live that they get, all the same; as of other writes without it."""


class TakeSnapshot(LifeEvent):
    """BGSAVE: a forked child writes all data to disk."""

    event: Literal["snapshot"]
    """Its name."""
    child_s: float | None = Field(default=None, gt=0, le=86_400)
    """How long the child lives; without it as long as data, host and disk say."""


class LoseReplica(LifeEvent):
    """A replica is cut off, or stops, and comes back with the data it had."""

    event: Literal["lose_replica"]
    """Its name."""
    lasts_s: float = Field(gt=0, le=3.2e8)
    """How long."""


AnyLifeEvent = Annotated[BatchLoad | TakeSnapshot | LoseReplica, Field(discriminator="event")]


class Replicas(_Record):
    """Replicas that follow the node."""

    count: int = Field(default=1, ge=1, le=64)
    """How many."""
    backlog_mbyte: float | None = Field(default=None, ge=0, le=1e6)
    """`repl-backlog-size`: a replica that missed no more gets only that; without it the version's
    default, 1 and from Valkey 8.0 on 10."""
    buffer_mbyte: float = Field(default=256.0, gt=0, le=1e6)
    """Changes that the node may hold for a replica (`client-output-buffer-limit replica`)."""
    diskless: bool | None = None
    """`repl-diskless-sync`; without it as the version has it, yes from Redis 7.0 on."""
    sync_delay_s: float = Field(default=5.0, ge=0, le=3600)
    """`repl-diskless-sync-delay`."""
    network_gbit_per_s: float | None = Field(default=None, gt=0, le=1000)
    """Of a connection to a replica; without it what the instance lets through."""
    disk_mbyte_per_s: float | None = Field(default=None, gt=0, le=1e6)
    """Rate of the disk that a sync may go through; no limit without it."""


class NodeLife(OfEngine):
    """A node over minutes to days: keys come, expire and are evicted; snapshots are taken."""

    kind: Literal["node_life"]
    """Which kind of scenario."""
    name: str | None = None
    """A name for people."""
    duration_s: float = Field(gt=0, le=90 * 86_400)
    """Simulated time."""
    report_s: float | None = Field(default=None, gt=0, le=86_400)
    """Interval of the results; without it a 300th of the duration."""
    host: str
    """A host or instance of `forecache catalog`, or a profile's file."""
    engine: str
    """Redis or Valkey, or a managed one."""
    engine_version: EngineVersion | None = None
    """Its version, in quotes; the newest known without it."""
    allocator: Allocator | None = None
    """As in a scenario of `kind: memory`; the engine's own without it."""
    io_threads: int = Field(default=1, ge=1, le=256)
    """Threads of the node as the engine counts them."""
    memory_bytes: int | None = Field(default=None, gt=0)
    """What the machine leaves to the engine; nine tenths of its memory without it."""
    settings: Settings = Settings()
    """Of the engine."""
    data: LivingKeys
    """What clients ask for."""
    demand: Demand
    """How much is asked, and what. Commands that write create keys, the others look for them."""
    stores_misses: bool = False
    """Whether a client that finds no key writes it, as with a cache beside a database."""
    replicas: Replicas | None = None
    """Replicas that follow it; none without it."""
    snapshot_every_s: float | None = Field(default=None, gt=0, le=30 * 86_400)
    """Time from the beginning of one snapshot to the next; none are taken by themselves without
    it."""
    disk_mbyte_per_s: float | None = Field(default=None, gt=0, le=1e6)
    """What the disk takes of a snapshot; as much as the child writes without it."""
    events: list[AnyLifeEvent] = Field(default=[], max_length=1_000)
    """What happens, and when."""

    @property
    def report(self) -> float:
        """Interval of the results, in seconds."""
        return self.report_s or self.duration_s / 300.0

    @model_validator(mode="after")
    def _consistent(self) -> NodeLife:
        if self.duration_s / self.report > MOST_STEPS:
            valid = f"at least {self.duration_s / MOST_STEPS:g}, {MOST_STEPS} results"
            raise FieldError("report_s", found=self.report_s, valid=valid)
        for index, event in enumerate(self.events):
            if event.at_s >= self.duration_s:
                raise FieldError(
                    f"events[{index}].at_s",
                    found=event.at_s,
                    valid=f"a time before the end (duration_s: {self.duration_s:g})",
                )
            if isinstance(event, LoseReplica) and self.replicas is None:
                valid = "with `replicas` only"
                raise FieldError(f"events[{index}].event", found=event.event, valid=valid)
        policy = self.settings.maxmemory_policy
        if policy.startswith("volatile") and not self.data.timed:
            valid = "an allkeys policy or noeviction where no key has a time to live (data.ttl_s)"
            raise FieldError("settings.maxmemory_policy", found=policy, valid=valid)
        return self
