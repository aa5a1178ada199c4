"""What writing, sending and loading a node's data takes, from a profile with origins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from pydantic import Field, model_validator

from forecache.hwprofiles.files import parse, read_yaml, shipped
from forecache.hwprofiles.quantity import Quantity, Source, ranges_of
from forecache.hwprofiles.record import Record

from ....prediction.uncertainty import Z95, Drawn, draw_ranges
from ....results.intervals import RelativeError, student_factor
from ..slots.migration_work import drawn_rate


@dataclass(frozen=True, kw_only=True)
class NodeContent:
    """What a node's file holds.

    Attributes
    ----------
    keys
        How many, each with a string.
    key_bytes
        Of each.
    sizes
        (bytes, share) of their values.
    """

    keys: float
    key_bytes: int
    sizes: Sequence[tuple[float, float]]

    @property
    def file_bytes(self) -> float:
        """Size of the file: a type, two lengths, a key and a value each (rdb.c), uncompressed."""
        each = sum(
            share
            * (1 + _length_bytes(self.key_bytes) + self.key_bytes + _length_bytes(size) + size)
            for size, share in self.sizes
        )
        return self.keys * each


def _length_bytes(length: float) -> int:
    """Bytes that a length takes in a file (`rdbSaveLen`)."""
    return 1 if length < 1 << 6 else 2 if length < 1 << 14 else 5


@dataclass(frozen=True, kw_only=True)
class SyncWork:
    """CPU time in ns on one host; bytes are those of the file.

    Attributes
    ----------
    save_key_ns, save_ns_per_byte
        Whoever writes the data: a forked child, or a server that shuts down.
    relay_ns_per_byte
        The primary's main thread takes it from the child's pipe and sends it.
    store_ns_per_byte
        The replica's main thread receives it and writes it to a file.
    load_key_ns, load_ns_per_byte
        A server reads a file.
    wait_ms
        Of a full sync for the engine's timers, so the same on every host.
    """

    save_key_ns: float = 0.0
    save_ns_per_byte: float = 0.0
    relay_ns_per_byte: float = 0.0
    store_ns_per_byte: float = 0.0
    load_key_ns: float = 0.0
    load_ns_per_byte: float = 0.0
    wait_ms: float = 0.0

    def at_rate(self, factor: float) -> SyncWork:
        """On a host whose threads are `factor` times as fast."""
        scaled = {
            name: value / factor for name, value in vars(self).items() if not name.endswith("_ms")
        }
        return replace(self, **scaled)

    def save_s(self, content: NodeContent, *, disk_bytes_per_s: float = math.inf) -> float:
        """Time to write everything into a file."""
        cpu_s = content.keys * self.save_key_ns + content.file_bytes * self.save_ns_per_byte
        return max(cpu_s * 1e-9, content.file_bytes / disk_bytes_per_s)

    def load_s(self, content: NodeContent, *, disk_bytes_per_s: float = math.inf) -> float:
        """Time to load it."""
        cpu_s = content.keys * self.load_key_ns + content.file_bytes * self.load_ns_per_byte
        return max(cpu_s * 1e-9, content.file_bytes / disk_bytes_per_s)


class SyncErrors(Record):
    """How far off syncs and loads were that nothing was fitted to."""

    save: RelativeError
    """Writing all data into a file."""
    load: RelativeError
    """Loading it."""
    wait_ms: float = Field(ge=0)
    """Standard error of what a sync waits for the engine's timers, whatever else it takes; from as
    many trials."""


class SyncProfile(Record):
    """A file of `sync_work/`: the host it was measured on, and its numbers."""

    id: str
    title: str
    sources: dict[str, Source]
    rate_per_ns: Quantity
    """Instructions a nanosecond of the host: `user_ipc` × `clock_ghz` of its profile."""
    work: dict[str, Quantity]
    errors: SyncErrors

    @model_validator(mode="after")
    def _check(self) -> SyncProfile:
        known = {each.name for each in fields(SyncWork)}
        for name in self.work:
            if name not in known:
                raise ValueError(f"work of {', '.join(sorted(known))}; found {name!r}")
        return self

    def on(self, rate_per_ns: float, *, draw: Drawn | None = None) -> SyncWork:
        """The work at another host's rate of instructions. Kernel time is taken to scale alike.

        Parameters
        ----------
        draw
            Where in their ranges all numbers lie, and how far off what they say is.
        """
        numbers = {name: each.best for name, each in self.work.items()}
        if draw is None:
            return SyncWork(**numbers).at_rate(rate_per_ns / self.rate_per_ns.best)
        part = f"full sync of {self.id}"
        numbers |= draw_ranges(part, ranges_of(self.work), draw)
        # Student's t, as wide as the normal numbers that draws are.
        for step, error in (("save", self.errors.save), ("load", self.errors.load)):
            factor = math.exp(error.half_width / Z95 * draw.normal(f"{part}, {step}"))
            for name in numbers:
                if name.startswith(f"{step}_"):
                    numbers[name] *= factor
        late_ms = self.errors.wait_ms * student_factor(self.errors.load.points) / Z95
        wait_ms = numbers.get("wait_ms", 0.0) + late_ms * draw.normal(f"{part}, wait")
        numbers["wait_ms"] = max(0.0, wait_ms)
        return SyncWork(**numbers).at_rate(rate_per_ns / drawn_rate(self.rate_per_ns, draw))


def load_sync_profile(engine: str) -> SyncProfile:
    """The shipped profile of `valkey`, or `redis` for everything that is like it."""
    name = "valkey" if engine == "valkey" else "redis"
    files = shipped("forecache.models.over_time.cluster.upgrade", "sync_work")
    return parse(
        SyncProfile,
        read_yaml(files[name]),
        file=f"models/over_time/cluster/upgrade/sync_work/{name}.yaml",
    )
