"""A node's memory over time: tables that double, children that copy pages, the kernel's limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forecache.sim.words import byte_size

from ...footprint.limits import (
    FRAGMENTATION,
    PAGE_BYTES,
    Child,
    MemoryLimit,
    copied_pages,
    host_limit,
    machine_limit,
    resident,
)
from ...footprint.saving import child_of, writer_of
from ...footprint.schema import Forking, Strings
from ...footprint.weigh import PROCESS_BYTES, NodeFootprint, baseline, key_table, key_weight
from ...layouts.generations import generation
from ...layouts.tables import NO_TABLE, TableBytes
from ...prediction.system import System
from ...results.series import Mark
from ...scenario.versions import version_numbers
from ...scenario.workload import ValueSizes, sizes_of
from ...step_times.inputs import ASSUMED_DISK
from ..cluster.sync import NodeContent
from ..recorder import Recorder
from .schema import NodeLife, TakeSnapshot

_SIZES = 16
"""How many evenly spread sizes stand for a range of values."""

_REHASHED_PER_S = 60_000.0
"""Buckets that a timer of 10 Hz moves, a millisecond each time (assumed, 20,000 to 150,000); every
command moves one more (`dictRehashMilliseconds`, `_dictRehashStep`)."""

_POINTER_BYTES = 8.0
_SHRINKS_AT = 0.1
"""Share of the most keys there were below which a table is made smaller (`HASHTABLE_MIN_FILL`)."""

_LOAD_WHEN_FULL, _LOAD_WITH_CHILD = 1.618, 4.0
"""Keys for one that a table was made for up to which it stays as it is: where a larger one would
exceed maxmemory (HASHTABLE_MAX_LOAD_FACTOR, from Redis 6.2 on), and while a child lives
(dict_force_resize_ratio; 5 before Redis 7.4)."""

_FULL = 0.995
"""Of maxmemory, from where on memory counts as full."""

_MOST_TOLD = 200


@dataclass
class _Saving:
    """A child that saves: when it began, how long it lives, and which pages writes copy."""

    at_s: float
    lives_s: float
    child: Child


class MemoryOverTime:
    """What a node's keys, tables and children take.

    Attributes
    ----------
    beside
        Bytes of a node without keys.
    sizes
        Bytes of a key by the size of its value: without and with a time to live; its share.
    limit
        What the machine leaves to the node.
    stops_s
        How long each fork stopped it.
    full_s, killed_s
        When memory was first full, and when node and child first needed more than the machine
        leaves; None if never.
    left_out
        Snapshots that did not begin, since another child lived.
    """

    def __init__(self, scenario: NodeLife, system: System, record: Recorder) -> None:
        self._scenario, self._record = scenario, record
        found = generation(system.engine.engine, system.engine.version)
        self._footprint = NodeFootprint(found, scenario.allocator or found.allocator)
        replicas = scenario.replicas
        mbyte = None if replicas is None else replicas.backlog_mbyte
        self.beside = baseline(
            found,
            replicas=0 if replicas is None else replicas.count,
            repl_backlog_bytes=None if mbyte is None else round(mbyte * 2**20),
        ).total
        data, self._speed = scenario.data, system.host.speed()
        self._strings = self._one(data.value_bytes, data.timed)
        self._key_weight = key_weight(self._footprint, self._strings)
        self.sizes = [
            (self._bytes(size, 0.0), self._bytes(size, 1.0), share)
            for size, share in sizes_of(data.value_bytes, of_a_range=_SIZES)
        ]
        if scenario.memory_bytes is None:
            self.limit: MemoryLimit = host_limit(system.host, system.engine.engine)
        else:
            self.limit = machine_limit("the machine", scenario.memory_bytes, field="memory_bytes")
        self._most_keys = self._moved_s = 0.0
        self._table = NO_TABLE
        numbers = version_numbers(system.engine.version)
        self._looks_at_maxmemory = found.engine == "valkey" or numbers >= [6, 2]
        self._due = self._snapshots()
        self._child: _Saving | None = None
        self.full_s: float | None = None
        self.killed_s: float | None = None
        self.most_resident = 0.0
        self.stops_s: list[float] = []
        self.left_out = 0

    def _one(self, value_bytes: ValueSizes, ttl: float) -> Strings:
        key_bytes = self._scenario.data.key_bytes
        return Strings(type="string", keys=1, key_bytes=key_bytes, value_bytes=value_bytes, ttl=ttl)

    def _bytes(self, value_bytes: int, ttl: float) -> float:
        return key_weight(self._footprint, self._one(value_bytes, ttl)).settled

    def content(self, keys: float) -> NodeContent:
        """What a file of the data would hold."""
        return NodeContent(keys=keys, strings=self._strings)

    # --- tables -----------------------------------------------------------------------------------

    def tables(self, keys: float, expiring: float) -> float:
        """Bytes of the tables of so many keys, when they have moved."""
        table = key_table(self._footprint, max(keys, 1.0)).settled
        return table + key_table(self._footprint, expiring, expires=True).settled

    def beside_keys(
        self, now_s: float, *, keys: float, expiring: float, rate_rps: float, key_bytes: float
    ) -> float:
        """Bytes of all but the keys.

        Both tables are there while keys move from one to the other, a bucket with every command.

        Parameters
        ----------
        key_bytes
            Of all keys together.
        """
        if keys > self._most_keys or keys < _SHRINKS_AT * self._most_keys:
            self._most_keys = keys
        table, before = key_table(self._footprint, max(self._most_keys, 1.0)), self._table
        expires = key_table(self._footprint, expiring, expires=True).settled
        if table.settled > before.settled > 0.0:
            others = self.beside + before.settled + expires + key_bytes
            if self._waits_with_doubling(now_s, others + table.settled):
                table = before
            elif table.settled > 1.2 * before.settled:
                self._begin_moving(now_s, table, rate_rps=rate_rps)
        self._table = table
        moving = table.rehash if now_s < self._moved_s else 0.0
        return self.beside + table.settled + moving + expires

    def _waits_with_doubling(self, now_s: float, bytes_then: float) -> bool:
        """Whether the table of keys stays as it is, though there are more keys than it was made
        for: while a child lives, and where it would not fit below maxmemory, up to a limit."""
        most = self._scenario.settings.maxmemory_bytes
        if self._child is not None and now_s < self._child.at_s + self._child.lives_s:
            longest = _LOAD_WITH_CHILD
        elif self._looks_at_maxmemory and most is not None and bytes_then > most:
            longest = _LOAD_WHEN_FULL
        else:
            return False
        fewer = key_table(self._footprint, max(self._most_keys / longest, 1.0))
        return fewer.settled <= self._table.settled

    def _begin_moving(self, now_s: float, table: TableBytes, *, rate_rps: float) -> None:
        seconds = table.rehash / _POINTER_BYTES / (_REHASHED_PER_S + rate_rps)
        self._moved_s = now_s + seconds
        extra = (table.settled - self._table.settled + table.rehash) / 2**20
        what = f"the table of keys doubles: {extra:,.0f} MiB more for {seconds:,.0f} s"
        self._tell(now_s, what)

    # --- children ---------------------------------------------------------------------------------

    def _snapshots(self) -> list[tuple[float, float | None]]:
        """When snapshots begin, and how long their children live where that is given."""
        scenario = self._scenario
        events = [each for each in scenario.events if isinstance(each, TakeSnapshot)]
        found: list[tuple[float, float | None]] = [(each.at_s, each.child_s) for each in events]
        if (every_s := scenario.snapshot_every_s) is not None:
            times_s = np.arange(every_s, scenario.duration_s, every_s)
            found += [(float(at_s), None) for at_s in times_s]
        return sorted(found, key=lambda each: each[0])

    def begin_snapshots(self, end_s: float, *, keys: float, used_bytes: float) -> Sequence[float]:
        """Begin those that are due; returns how long each fork stops the node, in s."""
        stops: list[float] = []
        while self._due and self._due[0][0] < end_s:
            at_s, lives_s = self._due.pop(0)
            if self._child is not None and at_s < self._child.at_s + self._child.lives_s:
                self.left_out += 1
                continue
            stop_s = self.fork_s(used_bytes)
            child = self.child(keys, used_bytes)
            lives_s = lives_s or child.lives_s(used_bytes).value
            self.fork(at_s, child, lives_s=lives_s, stop_s=stop_s)
            what = f"a snapshot begins: the node stops for {1e3 * stop_s:,.0f} ms"
            self._tell(at_s, f"{what}, its child lives for {lives_s:,.0f} s")
            stops.append(stop_s)
        return stops

    def fork_s(self, used_bytes: float) -> float:
        """How long a fork stops a node that uses so much."""
        held = resident(used_bytes, fragmentation=FRAGMENTATION, process_bytes=PROCESS_BYTES)
        return ASSUMED_DISK.fork_ms(self._speed, held.resident) / 1e3

    def child(self, keys: float, used_bytes: float) -> Child:
        """The child that a node with so many keys would fork."""
        settings = self._scenario.settings
        return child_of(
            self._footprint.generation,
            [(keys, self._strings)],
            Forking(
                rdbcompression=settings.rdbcompression,
                rdbchecksum=settings.rdbchecksum,
                disk_mbyte_per_s=self._scenario.disk_mbyte_per_s,
            ),
            used_bytes=used_bytes,
            per_key=[self._key_weight],
            writer=writer_of(self._speed, used_bytes),
        )

    def fork(self, at_s: float, child: Child, *, lives_s: float, stop_s: float) -> None:
        """A child begins to save."""
        self._child = _Saving(at_s, lives_s, child)
        self.stops_s.append(stop_s)

    # --- what the kernel sees ---------------------------------------------------------------------

    def see(self, now_s: float, *, used_bytes: float, changed_per_s: float) -> float:
        """Resident memory of node and child; marks where there isn't enough.

        Parameters
        ----------
        changed_per_s
            Keys that are written or deleted, a second.
        """
        most = self._scenario.settings.maxmemory_bytes
        if most is not None and used_bytes > _FULL * most and self.full_s is None:
            self.full_s = now_s
            self._tell(now_s, f"memory is full: {byte_size(most)}")
        held = resident(used_bytes, fragmentation=FRAGMENTATION, process_bytes=PROCESS_BYTES)
        total = held.resident
        if self._child is not None and self._child.at_s < now_s:
            lived_s = min(now_s - self._child.at_s, self._child.lives_s)
            data_bytes = used_bytes * FRAGMENTATION
            pages = copied_pages(
                data_bytes,
                writes_per_s=changed_per_s,
                child_s=lived_s,
                touched=self._child.child.touched,
            )
            total = held.forked_low + PAGE_BYTES * pages
            if now_s >= self._child.at_s + self._child.lives_s:
                self._child = None
        self.most_resident = max(self.most_resident, total)
        over = self.limit.of == "resident" and total > self.limit.usable_bytes
        if over and self.killed_s is None:
            self.killed_s = now_s
            what = f"{byte_size(total)} are needed, {self.limit.words}: the kernel may kill it"
            self._tell(now_s, what)
        return total

    def _tell(self, at_s: float, what: str) -> None:
        if len(self._record.marks) < _MOST_TOLD:
            self._record.marks.append(Mark(at_s, what))
