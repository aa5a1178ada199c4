"""Replicas of a node over time: what they are sent, what a break costs, and syncs that never end.

A replica that was gone for a while asks for what it missed. The backlog has the last bytes of the
stream of writes: if it has them all they are sent (a partial sync), otherwise everything is: the
node forks, a child writes all data, and what changes meanwhile waits in the replica's output
buffer. Where that overflows the connection is closed, and the replica begins anew: at a steady rate
of writes for ever (replication.c, `masterTryPartialResynchronization`,
`checkClientOutputBufferLimits`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from forecache.hwprofiles.network import Path, between, constant

from ...prediction.system import System
from ...results.series import Mark
from ..cluster.migration import COMMAND_BYTES, NodeLoad
from ..cluster.replacement import backlog_bytes, diskless
from ..cluster.sync import FullSync, NodeContent, full_sync, load_sync_profile
from ..recorder import Recorder
from .schema import LoseReplica, Replicas

DELETE_BYTES = 30
"""Of the DEL of an expired or evicted key in the stream, beside the key."""

_RETRY_S = 1.0
"""A replica tries again every second (`replicationCron`)."""

_MOST_TOLD = 3
_MIB = 2**20


@dataclass(frozen=True)
class Changes:
    """What a node writes to its replicas, a second.

    Attributes
    ----------
    writes, write_bytes
        Writes of clients, and the bytes of key and value of one.
    deletes, key_bytes
        Keys that expire or are evicted, and bytes of a key.
    """

    writes: float
    write_bytes: float
    deletes: float
    key_bytes: float

    @property
    def bytes_per_s(self) -> float:
        """Of the stream."""
        written = self.writes * (self.write_bytes + COMMAND_BYTES)
        return written + self.deletes * (self.key_bytes + DELETE_BYTES)


@dataclass(frozen=True)
class SyncSource:
    """A node as a replica that is synchronised finds it.

    Attributes
    ----------
    load
        What its clients ask for.
    changes
        What it writes to its replicas.
    content, used_bytes
        Its data.
    saving_s
        How long a child takes to write them.
    apply_s
        Time of a replica for one write.
    """

    load: NodeLoad
    changes: Changes
    content: NodeContent
    used_bytes: float
    saving_s: float
    apply_s: float


@dataclass
class _Link:
    """A replica that has lost its node.

    Attributes
    ----------
    at_s, back_s
        When it was lost, and when it is there again.
    missed_bytes
        Of the stream, while it was gone.
    until_s, sync
        When the sync that is under way ends, and which it is.
    begun_s
        When the first full sync began; None before.
    """

    at_s: float
    back_s: float
    missed_bytes: float = 0.0
    until_s: float = math.inf
    sync: FullSync | None = None
    begun_s: float | None = None


class ReplicaLinks:
    """The connections to a node's replicas.

    Attributes
    ----------
    partial, full, broken
        Syncs that were partial, full ones that ended, and full ones that overran their buffer.
    """

    def __init__(
        self, settings: Replicas, events: Sequence[LoseReplica], system: System, record: Recorder
    ) -> None:
        self._settings, self._record = settings, record
        engine, speed = system.engine, system.host.speed()
        mbyte = settings.backlog_mbyte
        self.backlog_bytes = backlog_bytes(engine) if mbyte is None else mbyte * _MIB
        self._diskless = diskless(engine) if settings.diskless is None else settings.diskless
        profile = load_sync_profile("valkey" if engine.engine == "valkey" else "redis")
        self._work = profile.on(speed.user_ipc * speed.clock_ghz)
        gbit = settings.network_gbit_per_s
        self._path = between(speed, speed) if gbit is None else Path([constant(gbit)])
        self._to_come = sorted(events, key=lambda event: event.at_s)
        self._gone: list[_Link] = []
        self.partial = self.full = self.broken = 0
        self.longest_s = 0.0
        self.forks: list[tuple[float, float, float]] = []
        """(time, stop, life of the child) of forks in s, for the run to take."""
        self.least_held_s = math.inf

    def step(self, now_s: float, end_s: float, source: SyncSource) -> float:
        """Go on to the end of a step; returns the share of the main thread that syncs take."""
        changes = source.changes
        if changes.bytes_per_s > 0:
            self.least_held_s = min(self.least_held_s, self.backlog_bytes / changes.bytes_per_s)
        while self._to_come and self._to_come[0].at_s < end_s:
            event = self._to_come.pop(0)
            self._gone.append(_Link(event.at_s, event.at_s + event.lasts_s))
            self._record.marks.append(
                Mark(event.at_s, f"a replica is gone for {event.lasts_s:,.0f} s")
            )
        taken = 0.0
        for link in list(self._gone):
            gone_s = min(end_s, link.back_s) - max(now_s, link.at_s)
            link.missed_bytes += changes.bytes_per_s * max(0.0, gone_s)
            if link.sync is None and link.back_s < end_s:
                self._ask(link, max(now_s, link.back_s), source)
            while link.sync is not None and link.until_s < end_s and link in self._gone:
                self._end(link, source)
            if link.sync is not None:
                taken = max(taken, link.sync.source_share)
        return taken

    def _ask(self, link: _Link, at_s: float, source: SyncSource) -> None:
        """A replica that is back asks for what it missed."""
        if link.begun_s is None and link.missed_bytes <= self.backlog_bytes:
            self.partial += 1
            self._gone.remove(link)
            missed = link.missed_bytes / _MIB
            self._tell(at_s, f"the backlog has the {missed:,.1f} MiB that it missed: partial sync")
            return
        if link.begun_s is None:
            link.begun_s = at_s
            missed, kept = link.missed_bytes / _MIB, self.backlog_bytes / _MIB
            what = f"it missed {missed:,.1f} MiB, the backlog has {kept:,.0f}: full sync"
            self._tell(at_s, what)
        settings = self._settings
        link.sync = full_sync(
            self._work,
            content=source.content,
            data_bytes=source.used_bytes,
            saving_s=source.saving_s,
            bytes_per_s=self._path.mean_bytes_per_s(source.content.file_bytes),
            diskless=self._diskless,
            apply_s=source.apply_s,
            delay_s=settings.sync_delay_s,
            source=source.load,
            disk_bytes_per_s=(settings.disk_mbyte_per_s or math.inf) * 1e6,
            buffer_limit_bytes=settings.buffer_mbyte * _MIB,
        )
        self.forks.append((at_s, link.sync.fork_s, link.sync.snapshot_s))
        link.until_s = at_s + self._lasts_s(link.sync, source.load)

    def _lasts_s(self, sync: FullSync, load: NodeLoad) -> float:
        """Until the sync is through, or its buffer full."""
        if sync.outcome == "synchronised":
            return sync.duration_s
        waits_s = self._work.wait_ms * 1e-3
        waits_s += self._settings.sync_delay_s if self._diskless else 0.0
        change_bytes = load.writes_per_s * (load.write_bytes + COMMAND_BYTES)
        return waits_s + max(0.1, sync.buffered_bytes / max(change_bytes, 1.0))

    def _end(self, link: _Link, source: SyncSource) -> None:
        assert link.sync is not None and link.begun_s is not None
        if link.sync.outcome == "synchronised":
            lasted_s = link.until_s - link.begun_s
            self.full += 1
            self.longest_s = max(self.longest_s, lasted_s)
            self._gone.remove(link)
            self._tell(link.until_s, f"the replica is up to date after {lasted_s:,.0f} s")
            return
        self.broken += 1
        if self.broken <= _MOST_TOLD:
            self._tell(link.until_s, f"the full sync breaks: {link.sync.outcome}")
        self._ask(link, link.until_s + _RETRY_S, source)

    @property
    def never(self) -> bool:
        """Whether a replica is still without its node's data, and its syncs break."""
        return any(
            link.sync is not None and link.sync.outcome != "synchronised" for link in self._gone
        )

    def _tell(self, at_s: float, what: str) -> None:
        self._record.marks.append(Mark(at_s, what))

    def facts(self) -> None:
        """What came of it."""
        record = self._record
        if math.isfinite(self.least_held_s):
            note = f"of writes, at the highest rate, in {self.backlog_bytes / _MIB:,.0f} MiB"
            record.fact("the backlog holds", self.least_held_s, "s", note)
        if self.partial or self.full or self.broken:
            record.fact("partial syncs", self.partial)
            record.fact("full syncs", self.full, "", f"{self.broken:,} more broke")
        if self.full:
            record.fact("longest until up to date", self.longest_s, "s")
        if self.never:
            record.fact("syncs that never end", "yes", "", "changes overrun their buffer each time")
