"""What a scenario of `kind: large_commands` says."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.record import Record as _Group

from ...scenario.versions import EngineVersion, OfEngine

Name = Literal["smembers", "sinter", "sunion", "sdiff", "keys", "flushdb", "import", "get"]

_OF_TWO_SETS = ("sinter", "sunion", "sdiff")
_OF_SETS = (*_OF_TWO_SETS, "smembers", "import")


class SetsData(_Group):
    """Sets that are alike."""

    count: int = Field(default=2, ge=1, le=1_000_000)
    """How many."""
    members: int = Field(ge=1, le=2_000_000_000)
    """Members of each set. There must be enough for a hash table: from 513 on in all versions."""
    member_bytes: int = Field(default=64, ge=1, le=65_000)
    """Length of a member."""
    key_bytes: int = Field(default=16, ge=1, le=1_000)
    """Length of a key."""


class StringsData(_Group):
    """Keys with a string each, for KEYS and FLUSHDB."""

    keys: int = Field(ge=1, le=2_000_000_000)
    """How many."""
    key_bytes: int = Field(default=16, ge=1, le=65_000)
    """Length of a key."""


class LargeData(_Group):
    """What the database holds, before every command: a FLUSHDB leaves it to the next one."""

    sets: SetsData | None = None
    """Sets; also what `import` loads."""
    strings: StringsData | None = None
    """Keys with strings."""


class LargeCommand(_Group):
    """One large command; its client sends the next one when it has printed this one."""

    at_s: float = Field(default=0.0, ge=0, le=1e7)
    """When it is sent, or as soon as the one before it is done."""
    command: Name
    """`import` is `redis-cli --pipe` of a SADD for each member of all sets."""
    overlap: float | None = Field(default=None, ge=0, le=1)
    """Share of the first set's members that the second has too; 0 where nothing is said."""
    same_key: bool = False
    """The command names one key twice."""
    mode: Literal["sync", "async"] | None = None
    """Of `flushdb`; the engine's default where nothing is said."""
    form: Literal["inline", "protocol"] = "protocol"
    """Of what `import` sends: lines, or the protocol's own form."""
    value_bytes: int | None = Field(default=None, ge=1, le=512 << 20)
    """Of the value that `get` asks for."""

    @model_validator(mode="after")
    def _fitting(self) -> LargeCommand:
        if self.command not in _OF_TWO_SETS and self.overlap is not None:
            valid = f"nothing with {self.command}: an overlap is one of two sets"
            raise FieldError("overlap", found=self.overlap, valid=valid)
        if self.same_key and (self.command not in _OF_TWO_SETS or self.overlap is not None):
            valid = "true only with sinter, sunion or sdiff, and without overlap"
            raise FieldError("same_key", found=self.same_key, valid=valid)
        if self.mode is not None and self.command != "flushdb":
            raise FieldError("mode", found=self.mode, valid=f"nothing with {self.command}")
        if (self.value_bytes is None) == (self.command == "get"):
            valid = "a size with get, and only there"
            raise FieldError("value_bytes", found=self.value_bytes, valid=valid)
        return self


class Server(_Group):
    """What the profiles of host and engine leave open."""

    touch_scale: float | None = Field(default=None, gt=0, le=10)
    """Waits for memory against those the host's numbers say; what the engine's profile says of GETs
    and SETs where nothing is said, and 1 for engines without one."""
    first_touch_ns: float = Field(default=700.0, gt=0, le=100_000)
    """The first touch of a page (assumed, 250 to 2,500)."""


class ClientData(_Group):
    """The client that sends the commands: redis-cli on a host, or a program with given times."""

    host: str | None = None
    """The server's where nothing is said."""
    version: str | None = None
    """Of redis-cli, as engine and version: `redis 2.8`; the server's where nothing is said."""
    element_ns: float | None = Field(default=None, ge=0, le=1e9)
    """Per element, instead of redis-cli: a program that parses elements and forgets them."""
    byte_ns: float = Field(default=0.0, ge=0, le=1e6)
    """The same per byte."""
    first_touch_ns: float = Field(default=700.0, gt=0, le=100_000)
    """The first touch of a page there."""
    copied_page_ns: float | None = Field(default=None, gt=0, le=1_000_000)
    """Moving a page of a large text to new memory; the first touch and a copy where nothing is
    said."""


class NetworkData(_Group):
    """Between them; what the hosts' profiles say where nothing is said."""

    gbit_per_s: float | None = Field(default=None, gt=0, le=10_000)
    """Bandwidth of each direction, without bursts; one connection of the two hosts without it."""
    one_way_us: float | None = Field(default=None, ge=0, le=1e6)
    """From one to the other."""


class OtherLoad(_Group):
    """What all other clients ask meanwhile: small commands."""

    requests_per_s: float = Field(ge=0, le=1e7)
    """At random times, whatever was answered before."""
    set_share: float = Field(default=0.2, ge=0, le=1)
    """SETs; the others are GETs."""
    service_us: float | None = Field(default=None, gt=0, le=1e6)
    """Main-thread time of one; from the engine's profile where nothing is said."""


class LargeCommands(OfEngine):
    """Large commands of one client, and what others feel."""

    kind: Literal["large_commands"]
    """What the scenario is about."""
    name: str | None = None
    """A name for people."""
    host: str
    """The server's: a host, an instance, or the path of a profile."""
    engine: str = "valkey"
    """Redis or Valkey."""
    engine_version: EngineVersion
    """Redis 2.8 to 7.4, Valkey from 7.2 on."""
    server: Server = Server()
    """What profiles leave open."""
    client: ClientData = ClientData()
    """Who sends the commands."""
    network: NetworkData = NetworkData()
    """Between them."""
    data: LargeData
    """What the commands find."""
    commands: list[LargeCommand] = Field(min_length=1, max_length=1_000)
    """One after the other."""
    load: OtherLoad | None = None
    """What others ask for."""
    duration_s: float | None = Field(default=None, gt=0, le=1e7)
    """How long to look; until shortly after the last command where nothing is said."""

    @model_validator(mode="after")
    def _has_data(self) -> LargeCommands:
        for command in self.commands:
            if command.command in _OF_SETS and self.data.sets is None:
                raise FieldError("data.sets", found=None, valid=f"sets for {command.command}")
            if command.command in ("keys", "flushdb") and self.data == LargeData():
                raise FieldError("data", found="nothing", valid=f"data for {command.command}")
        return self
