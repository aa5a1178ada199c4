"""How each version of the service scales: mechanisms with origins, one file a version.

A file with `variant_of` says only what differs from the version it names; its `numbers` and
`sources` replace those of the same name one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import did_you_mean, parse, read_yaml, shipped
from forecache.hwprofiles.quantity import Quantity, Source
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError
from forecache.sim.streams import generator

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
