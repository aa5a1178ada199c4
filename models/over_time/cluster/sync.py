"""What writing, sending and loading a node's data takes, from a profile with origins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

from pydantic import Field

from forecache.hwprofiles.files import parse, read_yaml, shipped
from forecache.hwprofiles.quantity import ranges_of
from forecache.hwprofiles.record import Record

from ...footprint.saving import EXPECTED, SavingDoubts, Writer, save_s, written
from ...footprint.schema import Strings
from ...layouts.generations import GENERATIONS, Generation
from ...prediction.uncertainty import Z95, Drawn, draw_ranges
from ...results.intervals import RelativeError, student_factor
from ...step_times.inputs import FORK_MS_PER_GIB
from .migration import (
    BUFFER_LIMIT_BYTES,
    COMMAND_BYTES,
    IDLE,
    HostWork,
    MigrationWork,
    NodeLoad,
    WorkProfile,
    copy_s,
    keys_per_s,
)


@dataclass(frozen=True, kw_only=True)
class NodeContent:
    """What a node's file holds.

    Attributes
    ----------
    keys
        How many, each with a string.
    strings
        What each of them is.
    """

    keys: float
    strings: Strings

    @cached_property
    def file_bytes(self) -> float:
        """Size of the file, uncompressed; it is alike in all versions."""
        return self.keys * written(GENERATIONS[0], self.strings).file_bytes()

    @property
    def sizes(self) -> list[tuple[int, float]]:
        """(bytes, share) of their values."""
        return self.strings.sizes

    def save_s(
        self,
        g: Generation,
        *,
        data_bytes: float,
        writer: Writer,
        compression: bool = True,
        checksum: bool = True,
        disk_bytes_per_s: float = math.inf,
        doubts: SavingDoubts = EXPECTED,
    ) -> float:
        """Time to write everything into a file (`saving.save_s`)."""
        return save_s(
            g,
            [(self.keys, self.strings)],
            data_bytes=data_bytes,
            writer=writer,
            compression=compression,
            checksum=checksum,
            disk_bytes_per_s=disk_bytes_per_s,
            doubts=doubts,
        )


@dataclass(frozen=True, kw_only=True)
class SyncWork(HostWork):
    """CPU time in ns on one host; bytes are those of the file.

    Attributes
    ----------
    relay_ns_per_byte
        The primary's main thread takes it from the child's pipe and sends it.
    store_ns_per_byte
        The replica's main thread receives it and writes it to a file.
    load_key_ns, load_ns_per_byte
        A server reads a file.
    wait_ms
        Of a full sync for the engine's timers, so the same on every host.
    """

    relay_ns_per_byte: float = 0.0
    store_ns_per_byte: float = 0.0
    load_key_ns: float = 0.0
    load_ns_per_byte: float = 0.0
    wait_ms: float = 0.0

    def load_s(self, content: NodeContent, *, disk_bytes_per_s: float = math.inf) -> float:
        """Time to load it."""
        cpu_s = content.keys * self.load_key_ns + content.file_bytes * self.load_ns_per_byte
        return max(cpu_s * 1e-9, content.file_bytes / disk_bytes_per_s)


class SyncErrors(Record):
    """How far off syncs and loads were that nothing was fitted to."""

    load: RelativeError
    """Loading it."""
    wait_ms: float = Field(ge=0)
    """Standard error of what a sync waits for the engine's timers, whatever else it takes; from as
    many trials."""


class SyncProfile(WorkProfile):
    """A file of `sync_work/`: the host it was measured on, and its numbers."""

    known = SyncWork
    errors: SyncErrors

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
        factor = math.exp(self.errors.load.half_width / Z95 * draw.normals([f"{part}, load"])[0])
        for name in numbers:
            if name.startswith("load_"):
                numbers[name] *= factor
        late_ms = self.errors.wait_ms * student_factor(self.errors.load.points) / Z95
        wait_ms = numbers.get("wait_ms", 0.0) + late_ms * draw.normals([f"{part}, wait"])[0]
        numbers["wait_ms"] = max(0.0, wait_ms)
        return SyncWork(**numbers).at_rate(rate_per_ns / self.drawn_rate(draw))


@cache
def load_sync_profile(engine: str) -> SyncProfile:
    """The shipped profile of `valkey`, or `redis` for everything that is like it."""
    name = "valkey" if engine == "valkey" else "redis"
    files = shipped("forecache.models.over_time.cluster", "sync_work")
    file = f"models/over_time/cluster/sync_work/{name}.yaml"
    return parse(SyncProfile, read_yaml(files[name]), file=file)


# --- how long a replica takes to get a primary's data ---------------------------------------------

# How long a replica takes to get a primary's data, and what that takes from the primary.
#
# The primary forks; its child writes all data, into a pipe that the main thread empties into the
# replica's connection (`repl-diskless-sync yes`, the default from Redis 7.0 and Valkey 7.2 on), or
# into a file that is sent afterwards. The replica stores what comes in a file and then loads that
# (`repl-diskless-load disabled`, the default). Meanwhile the primary keeps all changes for it;
# beyond `client-output-buffer-limit replica` it closes the connection, and the sync starts again
# (replication.c, `rdbPipeReadHandler`, `readSyncBulkPayload`).


DISKLESS_DELAY_S = 5.0
"""`repl-diskless-sync-delay`: the child waits for more replicas to come."""

SOFT_LIMIT_BYTES, SOFT_LIMIT_S = 64 << 20, 60.0
"""Soft limit of `client-output-buffer-limit replica`, and how long it may be exceeded."""

_GIB = float(1 << 30)


@dataclass(frozen=True, kw_only=True)
class FullSync:
    """One full sync.

    Attributes
    ----------
    duration_s
        Until the replica is up to date; infinite where it never is.
    fork_s, snapshot_s, load_s, changes_s
        Its parts: the primary stands still; the data are written and sent; the replica loads them;
        what has changed follows.
    source_share
        Share of the primary's main thread during the snapshot.
    buffered_bytes
        The most that the primary holds for the replica.
    outcome
        `synchronised`, `buffer overrun` or `never catches up`.
    """

    duration_s: float
    fork_s: float
    snapshot_s: float
    load_s: float
    changes_s: float
    source_share: float
    buffered_bytes: float
    outcome: str


def full_sync(
    work: SyncWork,
    *,
    content: NodeContent,
    data_bytes: float,
    saving_s: float,
    bytes_per_s: float,
    diskless: bool,
    apply_s: float,
    delay_s: float = DISKLESS_DELAY_S,
    source: NodeLoad = IDLE,
    disk_bytes_per_s: float = math.inf,
    load_s: float | None = None,
    buffer_limit_bytes: float = BUFFER_LIMIT_BYTES,
) -> FullSync:
    """A replica without data, or with data that are too old, follows a primary.

    Parameters
    ----------
    data_bytes
        Memory of the primary, which the fork maps.
    saving_s
        How long the child writes, as fast as it can (`NodeContent.save_s`).
    bytes_per_s
        Of one connection between them.
    diskless
        Whether the child writes into the connection or into a file.
    apply_s
        Time of the replica for one change.
    delay_s
        Before the child begins, if diskless.
    load_s
        How long the replica loads, where that is known.
    """
    keys, each_bytes = max(content.keys, 1.0), content.file_bytes / max(content.keys, 1.0)
    limited = min(bytes_per_s, disk_bytes_per_s)
    passing = MigrationWork(
        relay_ns_per_byte=work.relay_ns_per_byte, load_ns_per_byte=work.store_ns_per_byte
    )
    if not diskless:
        saving_s = max(saving_s, content.file_bytes / disk_bytes_per_s)
    sending_s = keys / keys_per_s(
        *(passing, each_bytes), bytes_per_s=limited, source=source, target=IDLE
    )
    snapshot_s = max(saving_s, sending_s) if diskless else saving_s + sending_s
    fork_s = FORK_MS_PER_GIB * 1e-3 * data_bytes / _GIB
    loading_s = (
        work.load_s(content, disk_bytes_per_s=disk_bytes_per_s) if load_s is None else load_s
    )
    # From the fork on the primary keeps what changes.
    held_s = fork_s + snapshot_s + loading_s
    change_bytes_per_s = source.writes_per_s * (source.write_bytes + COMMAND_BYTES)
    buffered = change_bytes_per_s * held_s
    outcome, changes_s = "synchronised", 0.0
    too_long = change_bytes_per_s > 0 and (
        held_s - SOFT_LIMIT_BYTES / change_bytes_per_s > SOFT_LIMIT_S
    )
    if buffered > buffer_limit_bytes or too_long:
        outcome, changes_s = "buffer overrun", math.inf
    elif source.writes_per_s * apply_s >= 1.0:
        outcome, changes_s = "never catches up", math.inf
    elif apply_s > 0:
        arriving = source.writes_per_s
        changes_s = arriving * held_s * apply_s / (1.0 - arriving * apply_s)
    waits_s = work.wait_ms * 1e-3 + (delay_s if diskless else 0.0)
    relayed_s = content.file_bytes * work.relay_ns_per_byte * 1e-9
    copied = source.writes_per_s * copy_s(source.write_bytes)
    return FullSync(
        duration_s=waits_s + held_s + changes_s,
        fork_s=fork_s,
        snapshot_s=snapshot_s,
        load_s=loading_s,
        changes_s=changes_s,
        source_share=min(1.0, relayed_s / max(snapshot_s, 1e-9) + copied),
        buffered_bytes=min(buffered, buffer_limit_bytes),
        outcome=outcome,
    )
