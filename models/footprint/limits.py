"""Resident memory, and whether data fit on a machine: the one rule of all verbs.

What a server needs is its resident memory: used memory, connections and their buffers included,
times fragmentation; the process itself; and while a child writes a snapshot its page tables and the
pages that are copied meanwhile. A machine leaves it all but `SYSTEM_SHARE`. A managed node has the
service's limit instead: used memory up to maxmemory less what the service reserves of it.

A child that writes a snapshot shares all pages with its parent until one of them writes. The
parent's writes copy pages: of P pages, w random writes a second that touch k pages each copy
P (1 - exp(-w k t / P)) in t seconds. Pages hold blocks of one size, so this is added up over the
kinds of blocks that writes touch (`saving.touched_by_writes`). The child's page tables come on top.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from forecache.hwprofiles.schema import HostProfile
from forecache.sim.plain import Result
from forecache.sim.statistics import Estimate
from forecache.sim.words import byte_size

from ..prices.table import PriceTable, managed_node

# --- resident memory ------------------------------------------------------------------------------


PAGE_BYTES = 4096

PAGES_PER_WRITE = 3.0
"""Pages that a write touches, where it isn't known what it writes: a key's entry, its object and
its value (assumed, 1.5 to 5)."""

Touched = tuple[tuple[float, float], ...]
"""(share of the data, pages that a write touches there) of the parts that writes touch."""

ANY_PAGES: Touched = ((1.0, PAGES_PER_WRITE),)

FRAGMENTATION, FRAGMENTATION_RANGE = 1.05, (1.0, 1.4)
"""Resident memory for used memory, mem_fragmentation_ratio (assumed, with this range: what values
that change their size leave behind)."""

_PAGE_TABLE_ENTRY_BYTES = 8
"""On x86-64 and aarch64; the levels above add less than a hundredth."""


@dataclass(frozen=True)
class Child:
    """A forked child that writes all data.

    Attributes
    ----------
    bytes_per_s
        Used memory that it gets through in a second.
    writes_per_s
        Keys written a second while it lives; None if unknown.
    child_s
        How long it lives; None for as long as it takes to go through the data.
    touched
        Where writes write.
    shorter, longer
        Ends of the 95% interval of how long it takes, as factors.
    """

    bytes_per_s: float
    writes_per_s: float | None = None
    child_s: float | None = None
    touched: Touched = ANY_PAGES
    shorter: float = 0.5
    longer: float = 2.0

    def lives_s(self, used_bytes: float) -> Estimate:
        """How long it lives."""
        if self.child_s is not None:
            return Estimate(self.child_s, self.child_s, self.child_s)
        seconds = used_bytes / self.bytes_per_s
        return Estimate(seconds, seconds * self.shorter, seconds * self.longer)


@dataclass(frozen=True)
class Resident:
    """Bytes of the machine's memory.

    Attributes
    ----------
    resident
        Of the server.
    forked
        Of server and child together, at the child's end; None where nothing forks.
    forked_low, forked_high
        The same when nothing is written meanwhile, and when every page is.
    """

    resident: float
    forked: float | None
    forked_low: float
    forked_high: float

    @property
    def most(self) -> float:
        """What the machine has to have."""
        return self.resident if self.forked is None else self.forked


def resident(
    used_bytes: float,
    *,
    fragmentation: float,
    process_bytes: float,
    forking: Child | None = None,
    untouched_bytes: float = 0.0,
) -> Resident:
    """Resident memory of a server that uses so much.

    Parameters
    ----------
    fragmentation
        Resident for used memory.
    process_bytes
        What is resident beside (`PROCESS_BYTES`).
    forking
        The child; None where nothing forks. Where it is unknown how much is written while it lives,
        every page is.
    untouched_bytes
        Of used memory, what nothing was ever written to.
    """
    data_bytes = (used_bytes - untouched_bytes) * fragmentation
    own = data_bytes + process_bytes
    tables = own / PAGE_BYTES * _PAGE_TABLE_ENTRY_BYTES
    forked = None
    if forking is not None:
        seconds = forking.lives_s(used_bytes).value
        copied = data_bytes
        if (rate := forking.writes_per_s) is not None:
            pages = copied_pages(
                data_bytes, writes_per_s=rate, child_s=seconds, touched=forking.touched
            )
            copied = pages * PAGE_BYTES
        forked = own + tables + copied
    return Resident(own, forked, own + tables, own + tables + data_bytes)


def copied_pages(
    data_bytes: float,
    *,
    writes_per_s: float,
    child_s: float,
    touched: Touched = ANY_PAGES,
) -> float:
    """Pages written at least once while a child lives; only the first write to each copies it.

    Parameters
    ----------
    touched
        (share of the data, pages that a write touches there) of the parts that writes touch.
    """
    if writes_per_s <= 0.0 or data_bytes <= 0.0:
        return 0.0
    copied = 0.0
    for share, pages_per_write in touched:
        pages = share * data_bytes / PAGE_BYTES
        if pages > 0.0:
            copied -= pages * math.expm1(-writes_per_s * pages_per_write * child_s / pages)
    return copied


# --- limits ---------------------------------------------------------------------------------------


SYSTEM_SHARE = 0.10
"""Of a machine's memory, what is left to the kernel, its page cache and socket buffers, and to
whatever else runs (assumed, 0.02 to 0.2: of an instance's memory ElastiCache keeps 18% on r7g, 11%
on r8g.large and 1.5% on r8g.16xlarge beside maxmemory)."""

_GIB = 2**30


@dataclass(frozen=True)
class MemoryLimit:
    """What a server may use.

    Attributes
    ----------
    name
        `maxmemory`, `memory` (the machine's) or `managed node`.
    of
        Whether used or resident memory stays within it.
    usable_bytes
        The most.
    memory_bytes
        Of the whole machine; the same where the scenario says what is left to the engine.
    field
        Of the scenario, which sets it.
    words
        Who leaves how much to the server, for a sentence.
    """

    name: str
    of: Literal["used", "resident"]
    usable_bytes: float
    memory_bytes: float
    field: str
    words: str


@dataclass(frozen=True)
class Room(Result):
    """What a server needs against what it may use; bytes."""

    limit: MemoryLimit
    used_bytes: float
    needed_bytes: float
    child_bytes: float = 0.0
    """Of what is needed, what a saving child adds: page tables, and pages that are copied."""

    @property
    def fits(self) -> bool:
        """Whether it does."""
        return self.needed_bytes <= self.limit.usable_bytes

    @property
    def shortfall(self) -> str | None:
        """The sentence that goes before everything else where data do not fit; None where they do.

        `r7g.large leaves 14.4 GiB of its 16 GiB to the server, which needs 17.4 GiB: …`
        """
        if self.fits:
            return None
        needs = byte_size(self.needed_bytes)
        if self.limit.of == "resident":
            child = (
                f", {byte_size(self.child_bytes)} for a saving child" if self.child_bytes else ""
            )
            needs += f" ({byte_size(self.used_bytes)} of used memory{child})"
        return f"{self.limit.words}, which needs {needs}: the data do not fit"

    def to_dict(self) -> dict[str, Any]:
        """Both, and whether it fits."""
        return {
            "fits": self.fits,
            "used_bytes": self.used_bytes,
            "needed_bytes": self.needed_bytes,
            "usable_bytes": self.limit.usable_bytes,
            "memory_bytes": self.limit.memory_bytes,
            "limit": self.limit.name,
            "shortfall": self.shortfall,
        }


def machine_limit(name: str, memory_bytes: float, *, field: str = "host") -> MemoryLimit:
    """What a machine with so much memory leaves to a server."""
    usable = (1.0 - SYSTEM_SHARE) * memory_bytes
    words = f"{name} leaves {byte_size(usable)} of its {byte_size(memory_bytes)} to the server"
    return MemoryLimit("memory", "resident", usable, memory_bytes, field, words)


def managed_limit(prices: PriceTable, node_type: str, *, field: str = "host") -> MemoryLimit | None:
    """What a managed node has for data; None where its memory is not known."""
    maxmemory = prices.node(node_type).maxmemory_bytes
    if maxmemory is None:
        return None
    usable = maxmemory * (1.0 - prices.nodes.reserved_share.best)
    words = f"{node_type} leaves {byte_size(usable)} of its {byte_size(maxmemory)} to the server"
    return MemoryLimit("managed node", "used", usable, maxmemory, field, words)


def host_limit(host: HostProfile, engine: str, *, field: str = "host") -> MemoryLimit:
    """What a host leaves to an engine: as a managed node where a service runs the engine."""
    managed = managed_node(host, engine)
    limit = None if managed is None else managed_limit(*managed, field=field)
    if limit is not None:
        return limit
    memory_gib = host.memory_gib.best
    return machine_limit(host.instance or host.id, memory_gib * _GIB, field=field)


def room(
    limit: MemoryLimit,
    used_bytes: float,
    *,
    process_bytes: float,
    fragmentation: float = FRAGMENTATION,
    forking: Child | None = None,
    untouched_bytes: float = 0.0,
) -> Room:
    """What a server with so much used memory needs, against a limit.

    Parameters
    ----------
    process_bytes
        What is resident beside used memory (`PROCESS_BYTES`).
    untouched_bytes
        Of used memory, what is never resident.
    """
    if limit.of == "used":
        return Room(limit, used_bytes, used_bytes)
    held = resident(
        used_bytes,
        fragmentation=fragmentation,
        process_bytes=process_bytes,
        forking=forking,
        untouched_bytes=untouched_bytes,
    )
    return Room(limit, used_bytes, held.most, held.most - held.resident)
