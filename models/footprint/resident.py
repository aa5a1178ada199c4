"""Resident memory for used memory, and what a forked child adds to it.

A child that writes a snapshot shares all pages with its parent until one of them writes. The
parent's writes copy pages: of P pages, w random writes a second that touch k pages each copy
P (1 - exp(-w k t / P)) in t seconds. The child's page tables come on top.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

PAGE_BYTES = 4096

PAGES_PER_WRITE = 3.0
"""Pages that the replacement of a value writes to: its entry, the old value's and the new one's
(assumed, 1.5 to 5: the allocator's books are among few pages)."""

FRAGMENTATION, FRAGMENTATION_RANGE = 1.05, (1.0, 1.4)
"""Resident memory for used memory, mem_fragmentation_ratio (assumed, with this range: what values
that change their size leave behind)."""

SNAPSHOT_BYTES_PER_S = 100e6
"""Pace at which a child goes through the data (assumed, 50 to 200 MB/s)."""

_PAGE_TABLE_ENTRY_BYTES = 8
"""On x86-64 and aarch64; the levels above add less than a hundredth."""


class Child(Protocol):
    """A forked child, as a scenario describes it."""

    @property
    def writes_per_s(self) -> float | None:
        """Keys written a second while it lives; None if unknown."""

    @property
    def child_s(self) -> float | None:
        """How long it lives; None for as long as it takes to go through the data."""


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
        What is resident beside (`baseline.process_bytes`).
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
        seconds = forking.child_s or used_bytes / SNAPSHOT_BYTES_PER_S
        rate = math.inf if forking.writes_per_s is None else forking.writes_per_s
        copied = copied_pages(data_bytes, writes_per_s=rate, child_s=seconds) * PAGE_BYTES
        forked = own + tables + copied
    return Resident(own, forked, own + tables, own + tables + data_bytes)


def copied_pages(
    data_bytes: float,
    *,
    writes_per_s: float,
    child_s: float,
    pages_per_write: float = PAGES_PER_WRITE,
) -> float:
    """Pages written at least once while a child lives; only the first write to each copies it."""
    if writes_per_s <= 0.0 or data_bytes <= 0.0:
        return 0.0
    pages = data_bytes / PAGE_BYTES
    return -pages * math.expm1(-writes_per_s * pages_per_write * child_s / pages)
