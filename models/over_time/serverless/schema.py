"""What a scenario of `kind: serverless` says, and how each version of the service scales.

Versions are files of mechanisms with origins in `versions/`. One with `variant_of` says only what
differs from the version it names; its `numbers` and `sources` replace those of the same name one by
one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from forecache.hwprofiles.files import (
    FieldError,
    did_you_mean,
    parse,
    read_yaml,
    shipped,
    valid_text,
)
from forecache.hwprofiles.quantity import Quantity, Source
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError
from forecache.sim.streams import generator

from ...prices.table import CacheEngine
from ...scenario.versions import EngineVersion
from ...scenario.workload import Mix, RatePiece
from ..cluster.schema import MOST_STEPS, Data

_DRAWS = 60
"""Purpose of draws."""

Migration = Literal["key_by_key", "threads"]


class Mechanisms(Record):
    """What a cache does when it is asked for more, and what stands between it and its clients."""

    io_threads: tuple[Annotated[int, Field(ge=1, le=256)], ...] = Field(min_length=1, max_length=10)
    """Threads of a shard as its cores are enabled, in order; the engine counts its main thread."""
    first_ecpu_per_s: float = Field(gt=0)
    """What an empty cache lets through; cores are behind it, but for neighbours."""
    scale_above: float = Field(gt=0, lt=1)
    """Share of what is let through to a shard above which it gets more."""
    let_through: float = Field(gt=0, le=1)
    """Share of what a shard can do that proxies let through; what is more waits at them."""
    detect_s: float = Field(gt=0, le=3_600)
    """Time over which that is looked at, and how often."""
    enable_s: float = Field(gt=0, le=3_600)
    """Until a core that was asked for serves."""
    provision_s: float = Field(gt=0, le=7_200)
    """Until new shards are there, without slots."""
    growth: float = Field(gt=1, le=16)
    """Times as many shards after a scale-out."""
    migration: Migration
    """Who moves slots: the main threads (MIGRATE, key by key, one operator) or threads of their
    own, at all sources at once."""
    keys_per_migrate: int = Field(ge=1, le=10_000)
    """Keys that one MIGRATE takes; with migration `key_by_key`."""
    most_blocked: float = Field(gt=0, le=1)
    """Share of a source's main thread that MIGRATE may take, for which the operator pauses; with
    migration `key_by_key`."""
    migration_threads: int = Field(ge=1, le=64)
    """How many threads a source has for that; with migration `threads`."""
    slots_per_job: int = Field(ge=1, le=16_384)
    """Slots that change hands together; with migration `threads`."""
    network_gbit_per_s: float = Field(gt=0, le=1_000)
    """Of one connection between two shards."""
    proxy_ms: float = Field(ge=0, le=100)
    """What a proxy adds to a request, there and back."""
    proxy_rps: float = Field(gt=0)
    """Requests a second of one proxy."""
    same_zone_rtt_ms: float = Field(ge=0, le=100)
    """Round trip within a zone."""
    cross_zone_rtt_ms: tuple[Annotated[float, Field(ge=0, le=100)], ...] = Field(
        min_length=1, max_length=1_000
    )
    """Round trips between pairs of zones, any of which a request may cross."""
    zones: int = Field(ge=1, le=10)
    """Zones that proxies and primaries are spread over."""
    most_connections: int = Field(ge=1)
    """Connections of all clients that the proxies take."""
    slot_ecpu_per_s: float = Field(gt=0)
    """The load that proxies admit to one slot."""
    replica_ecpu_factor: float = Field(ge=1, le=16)
    """Times the first limit, and a slot's, where clients read from replicas."""
    shard_gb: float = Field(gt=0, le=10_000)
    """Data of a shard above which the cache scales out, in GB of 10^9 bytes."""

    @model_validator(mode="after")
    def _ascending(self) -> Mechanisms:
        if any(a >= b for a, b in itertools.pairwise(self.io_threads)):
            raise ValueError("numbers that increase")
        return self


class ServiceVersion(Record):
    """A file of `versions/`."""

    id: str
    title: str
    host: str
    engine: str
    engine_version: str
    host_note: str = ""
    io_threads: tuple[int, ...]
    io_threads_note: str = ""
    migration: Migration
    migration_note: str = ""
    cross_zone_rtt_ms: tuple[float, ...]
    cross_zone_source: str
    zones: int
    sources: dict[str, Source]
    numbers: dict[str, Quantity]

    @model_validator(mode="after")
    def _whole(self) -> ServiceVersion:
        written = {"io_threads", "migration", "cross_zone_rtt_ms", "zones"}
        wanted = Mechanisms.model_fields.keys() - written
        if self.numbers.keys() != wanted:
            raise ValueError(f"numbers {', '.join(sorted(wanted ^ self.numbers.keys()))}")
        named = {self.cross_zone_source} | {n.source for n in self.numbers.values() if n.source}
        if unknown := sorted(named - self.sources.keys()):
            raise ValueError(f"sources listed in this file, not {', '.join(unknown)}")
        return self

    def mechanisms(
        self, changes: Mapping[str, Any] | None = None, *, draw: int | None = None, seed: int = 1
    ) -> Mechanisms:
        """The mechanisms with some of them changed.

        Parameters
        ----------
        changes
            Fields of `Mechanisms` in place of the file's.
        draw
            Number of a draw from the ranges of what is not known; the best values without it.
        """
        values: dict[str, Any] = {name: each.best for name, each in self.numbers.items()}
        if draw is not None:
            units = generator(seed, _DRAWS, draw).random(len(self.numbers))
            for unit, (name, each) in zip(units, sorted(self.numbers.items()), strict=True):
                if each.low is not None and each.high is not None and each.low > 0:
                    # As likely to be twice as long as half as long.
                    values[name] = each.low * (each.high / each.low) ** float(unit)
        for name, field in Mechanisms.model_fields.items():
            if field.annotation is int and name in values:
                values[name] = round(values[name])
        values |= {
            "io_threads": self.io_threads,
            "migration": self.migration,
            "cross_zone_rtt_ms": self.cross_zone_rtt_ms,
            "zones": self.zones,
        }
        return Mechanisms(**(values | dict(changes or {})))


def known_versions() -> list[str]:
    """Versions of the service that have a file."""
    return sorted(shipped("forecache.models.over_time.serverless", "versions"))


@cache
def load_version(name: str) -> ServiceVersion:
    """A version's file."""
    files = shipped("forecache.models.over_time.serverless", "versions")
    if name not in files:
        raise InputError(f"field version: found {name!r}; {did_you_mean(name, files)}")
    return parse(ServiceVersion, _completed(name, files), file=str(files[name]))


def _completed(name: str, files: Mapping[str, Path]) -> dict[str, Any]:
    """The contents of a version's file with what they leave to the version they vary."""
    data = read_yaml(files[name])
    base_name = data.pop("variant_of", None)
    if base_name is None:
        return data
    whole = [other for other in sorted(files) if "variant_of" not in read_yaml(files[other])]
    if base_name not in whole:
        raise InputError(
            f"{files[name]}: field 'variant_of': found {base_name!r}; valid is a version whose "
            f"file says everything: {', '.join(whole)}."
        )
    base = read_yaml(files[base_name])
    parts = {part: {**base[part], **data.get(part, {})} for part in ("sources", "numbers")}
    return {**base, **data, **parts}


class LoadMachines(Record):
    """Number of load machines from then on."""

    at_s: float = Field(ge=0)
    """From when."""
    count: int = Field(ge=0, le=100_000)
    """How many."""


class ServerlessClients(Record):
    """Machines with connections, each of which waits for its answer before it asks again."""

    machines: list[LoadMachines] = Field(
        default=[LoadMachines(at_s=0, count=1)], min_length=1, max_length=1_000
    )
    """How many there are, and from when."""
    connections: int = Field(default=20_000, ge=1, le=1_000_000)
    """Connections of each machine."""
    own_ms: float = Field(default=0.05, ge=0, le=1_000)
    """What a client itself adds to a request, between an answer and its next request."""
    timeout_s: float = Field(default=2.0, gt=0, le=3_600)
    """Time without an answer after which a client gives up an attempt."""
    retries: int = Field(default=3, ge=0, le=20)
    """Attempts after the first, with full jitter from 0.1 s on."""

    @model_validator(mode="after")
    def _in_order(self) -> ServerlessClients:
        times = [row.at_s for row in self.machines]
        if times[0] != 0 or any(a >= b for a, b in itertools.pairwise(times)):
            raise FieldError("machines", found=times, valid="times from 0 that increase")
        return self


class ServerlessDemand(Record):
    """What is asked for; one of the four."""

    rate_rps: float | None = Field(default=None, gt=0, le=1e8)
    """Requests per second, sent whether or not earlier ones are answered."""
    rate_profile: list[RatePiece] | None = Field(default=None, min_length=1, max_length=10_000)
    """Rates in turn, repeated."""
    ramp_to_rps: float | None = Field(default=None, gt=0, le=1e8)
    """A ramp up to this rate, as fast as the cache allows: `ramp_growth` more every second, and
    `ramp_back` less when its driver sees requests wait."""
    ramp_growth: float = Field(default=0.025, gt=0, le=1)
    """Share by which a ramp grows in a second."""
    ramp_look_s: float = Field(default=0.75, gt=0, le=600)
    """How often the driver of a ramp looks whether requests wait."""
    ramp_back: float = Field(default=0.1, gt=0, lt=1)
    """Share by which a ramp falls back when they do."""
    closed_loop: bool = False
    """All connections send one request after the other."""
    mix: Mix = Mix(get=0.8, set=0.2)
    """Shares of GET and SET."""

    @model_validator(mode="after")
    def _one(self) -> ServerlessDemand:
        names = ("rate_rps", "rate_profile", "ramp_to_rps")
        given = [name for name in names if getattr(self, name) is not None]
        given += ["closed_loop"] if self.closed_loop else []
        if len(given) != 1:
            raise ValueError(
                f"one of {', '.join(names)}, closed_loop (found {', '.join(given) or 'none'})"
            )
        asked = {name for name, each in self.mix.commands.items() if each.share}
        if not asked <= {"get", "set"}:
            raise FieldError("mix", found=sorted(asked), valid="get and set")
        return self


class Minimum(Record):
    """What is kept ready from then on."""

    at_s: float = Field(ge=0)
    """When it is set."""
    ecpu_per_s: float = Field(ge=0, le=15_000_000)
    """ECPU a second; billed even if unused."""


class UsageLimits(Record):
    """What a user sets for a cache."""

    least: list[Minimum] = Field(default=[], max_length=1_000)
    """What it keeps ready; of time 0: what it was made with."""
    most_ecpu_per_s: float = Field(default=15_000_000, ge=1_000, le=15_000_000)
    """More is not let through."""
    least_gb: float = Field(default=0.0, ge=0, le=5_000)
    """Data that is billed at least, in GB of 10^9 bytes."""
    most_gb: float = Field(default=5_000, gt=0, le=5_000)
    """Data above which keys are evicted, or writes fail."""
    expiring: bool = True
    """Whether keys have a time to live, as only those are evicted (volatile-lru)."""
    reads_from_replicas: bool = False
    """Whether clients read from any replica (READONLY)."""


class ServerlessScenario(Record):
    """A serverless cache over time, one point of a sweep."""

    kind: Literal["serverless"]
    """Which kind of scenario."""
    name: str | None = None
    """A name for people."""
    version: EngineVersion = "8.0"
    """Version of the service, in quotes: how it scales."""
    duration_s: float = Field(gt=0, le=7 * 86_400)
    """Simulated time."""
    step_s: float = Field(default=0.25, ge=0.01, le=5)
    """Step of the load."""
    report_s: float | None = Field(default=None, gt=0, le=86_400)
    """Interval of the results; a 300th of the duration without it."""
    data: Data = Data()
    """Keys that are asked for, and their values."""
    filled: float = Field(default=0.0, ge=0, le=1)
    """Share of these keys that is there at first."""
    shards: int = Field(default=1, ge=1, le=500)
    """Shards at first, with as many cores as they may have if there are several."""
    demand: ServerlessDemand
    """What is asked for."""
    clients: ServerlessClients = ServerlessClients()
    """Who asks."""
    limits: UsageLimits = UsageLimits()
    """What the user sets."""
    mechanisms: dict[str, Any] = Field(default={})
    """Mechanisms that differ from the version's; docs/serverless.md lists them."""
    prices: str = "elasticache-us-east-1"
    """A price table, or the path of one."""
    price_engine: CacheEngine = "valkey"
    """Whose prices: redis, valkey or memcached."""

    def own_mechanisms(self) -> Mechanisms:
        """The mechanisms of its version with what it changes."""
        return load_version(self.version).mechanisms(self.mechanisms)

    @model_validator(mode="after")
    def _known(self) -> ServerlessScenario:
        if self.version not in known_versions():
            raise FieldError("version", found=self.version, valid=", ".join(known_versions()))
        fields = Mechanisms.model_fields
        for name, value in self.mechanisms.items():
            if name not in fields:
                raise FieldError(f"mechanisms.{name}", found=value, valid=", ".join(fields))
            try:
                load_version(self.version).mechanisms({name: value})
            except ValidationError as error:
                told = valid_text(error.errors()[0])
                raise FieldError(f"mechanisms.{name}", found=value, valid=told) from None
        limits = self.limits
        for index, row in enumerate(limits.least):
            if row.ecpu_per_s > limits.most_ecpu_per_s:
                valid = f"at most limits.most_ecpu_per_s ({limits.most_ecpu_per_s:g})"
                name = f"limits.least[{index}].ecpu_per_s"
                raise FieldError(name, found=row.ecpu_per_s, valid=valid)
        if limits.least_gb > limits.most_gb:
            valid = f"at most limits.most_gb ({limits.most_gb:g})"
            raise FieldError("limits.least_gb", found=limits.least_gb, valid=valid)
        if self.step_s > min(self.clients.timeout_s / 2, self.duration_s):
            valid = "at most the duration and half the clients' timeout"
            raise FieldError("step_s", found=self.step_s, valid=valid)
        if self.duration_s / self.step_s > MOST_STEPS:
            valid = f"at most {MOST_STEPS} steps of the load"
            raise FieldError("duration_s", found=self.duration_s, valid=valid)
        return self
