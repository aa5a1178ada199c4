"""What a scenario of `kind: memory` says: data, the node that holds it, and its limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.record import Record

from ..layouts.allocator import Allocator
from ..layouts.tables import SLOTS
from ..scenario.schema import SnapshotFile
from ..scenario.versions import EngineVersion, OfEngine
from ..scenario.workload import ValueSizes, sizes_of
from .limits import FRAGMENTATION

_UNIFORM_SIZES = 64
"""How many evenly spread sizes stand for a range of sizes."""


class _Population(Record):
    keys: int = Field(ge=0, le=10**11)
    """How many keys are like this."""
    key_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of a key."""
    ttl: float = Field(default=0.0, ge=0, le=1)
    """Share of the keys that have a time to live."""


class Strings(_Population):
    """Keys with a string."""

    type: Literal["string"]
    """What the keys hold."""
    value_bytes: ValueSizes = 512
    """Bytes of a value, or a distribution of them."""
    integers: bool = False
    """Whether the values are whole numbers above 9,999, which need no string."""

    @property
    def sizes(self) -> list[tuple[int, float]]:
        """Value sizes in bytes with weights that add up to one; a uniform range as 64 sizes."""
        return sizes_of(self.value_bytes, of_a_range=_UNIFORM_SIZES)


class Sets(_Population):
    """Keys with a set."""

    type: Literal["set"]
    """What the keys hold."""
    members: int = Field(ge=1, le=10**10)
    """Members of each."""
    member_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of a member; of a whole number, its digits."""
    integers: bool = False
    """Whether the members are whole numbers, of which small sets keep an array."""

    @model_validator(mode="after")
    def _digits(self) -> Sets:
        if self.integers and self.member_bytes > 18:
            raise FieldError(
                "member_bytes", found=self.member_bytes, valid="at most 18 digits with integers"
            )
        return self


class Hashes(_Population):
    """Keys with a hash."""

    type: Literal["hash"]
    """What the keys hold."""
    fields: int = Field(ge=1, le=10**10)
    """Fields of each."""
    field_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of a field's name."""
    value_bytes: int = Field(default=16, ge=0, le=512 * 2**20)
    """Bytes of a field's value."""


class SortedSets(_Population):
    """Keys with a sorted set."""

    type: Literal["sorted_set"]
    """What the keys hold."""
    members: int = Field(ge=1, le=10**10)
    """Members of each."""
    member_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of a member."""
    score_digits: int = Field(default=6, ge=1, le=18)
    """Digits of a score, a whole number; small sorted sets are packed with them."""


class Lists(_Population):
    """Keys with a list."""

    type: Literal["list"]
    """What the keys hold."""
    elements: int = Field(ge=1, le=10**10)
    """Elements of each."""
    element_bytes: int = Field(default=16, ge=1, le=512 * 2**20)
    """Bytes of an element."""


class Streams(_Population):
    """Keys with a stream whose entries have one field, the same in all."""

    type: Literal["stream"]
    """What the keys hold."""
    entries: int = Field(ge=1, le=10**10)
    """Entries of each."""
    field_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of a field's name."""
    value_bytes: int = Field(default=16, ge=0, le=512 * 2**20)
    """Bytes of a field's value."""


Population = Strings | Sets | Hashes | SortedSets | Lists | Streams
"""Keys that are alike."""


class Forking(SnapshotFile):
    """A child that writes a snapshot while the node goes on being written to."""

    writes_per_s: float | None = Field(default=None, ge=0, le=1e8)
    """Keys that are written a second meanwhile, at random; without it every page is written."""
    child_s: float | None = Field(default=None, gt=0, le=86_400)
    """How long the child lives; without it as long as data, host and disk say (`saving.py`)."""


class MemoryScenario(OfEngine):
    """What is kept in memory, by which engine, and what limits it."""

    kind: Literal["memory"] = "memory"
    """Says that the file is about memory."""
    name: str | None = None
    """A name for people."""
    engine: str
    """redis, valkey, or a managed one, which is taken for the open one it comes from."""
    engine_version: EngineVersion | None = None
    """Its version, in quotes; the newest known without it. A newer one is taken as that, and
    every answer says so."""
    allocator: Allocator | None = None
    """`jemalloc` as it comes with the engine, `system_jemalloc` as Debian's servers use, `libc`,
    for Redis up to 3.2 `libc_with_sizes`, or that of Redis 2.8; without it the engine's own."""
    cluster: bool = False
    """Whether cluster mode is on, which finds keys by slot."""
    shards: int = Field(default=1, ge=1, le=1000)
    """Primaries over which `data` is spread evenly; what is answered is for one of them."""
    slots_served: int | None = Field(default=None, ge=1, le=SLOTS)
    """Slots of the node in cluster mode; without it its even share."""
    databases: int = Field(default=16, ge=1, le=10_000)
    """The setting; all keys are in the first."""
    clients: int = Field(default=1, ge=0, le=1_000_000)
    """Connections, active ones."""
    commands: int = Field(default=2, ge=0, le=500)
    """Different commands in use, each of which has a histogram from Redis 7.0 on."""
    replicas: int = Field(default=0, ge=0, le=64)
    """Replicas that follow, which need the backlog."""
    repl_backlog_bytes: int | None = Field(default=None, ge=0, le=2**40)
    """repl-backlog-size; without it the engine's default."""
    maxmemory_bytes: int | None = Field(default=None, gt=0)
    """The setting: used memory stays below it."""
    memory_bytes: int | None = Field(default=None, gt=0)
    """What the machine leaves to the engine: resident memory stays below it."""
    host: str | None = None
    """A host or instance of `forecache catalog`: nine tenths of its memory count, or a managed
    node's maxmemory less what is reserved, unless `memory_bytes` does."""
    fragmentation: float = Field(default=FRAGMENTATION, ge=1, le=10)
    """Resident memory for used memory, mem_fragmentation_ratio (assumed, 1.0 to 1.4: what values
    that change their size leave behind)."""
    forking: Forking | None = None
    """A snapshot or a rewrite of the append-only file, if there are any."""
    data: list[Annotated[Population, Field(discriminator="type")]] = Field(
        min_length=1, max_length=1000
    )
    """What is kept: keys that are alike, population by population."""

    @model_validator(mode="after")
    def _in_a_cluster(self) -> MemoryScenario:
        if not self.cluster:
            if self.slots_served is not None:
                raise FieldError(
                    "slots_served", found=self.slots_served, valid="nothing without cluster"
                )
            if self.shards > 1:
                raise FieldError("shards", found=self.shards, valid="1 without cluster")
        return self
