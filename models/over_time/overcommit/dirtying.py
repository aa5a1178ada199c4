"""How fast a machine's memory becomes dirty: pages written since they were sent.

Only the first write to a page counts until it is sent again. Hypervisors track pages of 4 KiB while
they copy, huge pages are split for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...memory.contents import structures
from ...memory.lines import LINE_BYTES, rank_classes
from ...scenario.workload import Popularity

PAGE_BYTES = 4096
"""What is tracked and sent as a whole."""

_CLASSES = 200
"""Groups of equally popular keys."""

WRITTEN_BY_READS = {
    "objects": ("value object",),
    "objects_embedded": ("value object",),
    "dict": ("value object",),
    "dict_embedded_key": ("value object",),
    "dict_embedded_value": ("entry",),
    "hashtable": ("entry",),
    "hashtable_embedded_value": ("entry",),
    "slabs": ("item",),
}
"""What a GET writes, by layout: Redis and Valkey keep the time of the last use in the object of a
value (`lookupKey` in db.c), Memcached counts references in the item."""

WRITTEN_BY_WRITES = {
    "objects": ("entry", "value object", "value"),
    "objects_embedded": ("entry", "value object", "value"),
    "dict": ("entry", "value object", "value"),
    "dict_embedded_key": ("entry", "value object", "value"),
    "dict_embedded_value": ("bucket", "link", "entry", "value"),
    "hashtable": ("bucket", "entry", "value"),
    "hashtable_embedded_value": ("bucket", "entry", "value"),
    "slabs": ("bucket", "item"),
}
"""What a SET of a key that exists writes: the new value, in a place that an earlier one left, and
whatever points to it."""


class Dirtying(Protocol):
    """How a machine writes its memory."""

    def in_time(self, seconds: float) -> float:
        """Bytes of different pages written in a while."""
        ...


@dataclass(frozen=True)
class EvenWrites:
    """Writes that go evenly to a part of the memory.

    Attributes
    ----------
    bytes_per_s
        Bytes of pages written a second, a page as often as it is written.
    working_set_bytes
        Pages that writes go to: those written twice in a round are sent once.
    """

    bytes_per_s: float
    working_set_bytes: float

    def in_time(self, seconds: float) -> float:
        """Bytes of different pages written in a while.

        Of W bytes written at w bytes a second a page is still clean after t with probability
        exp(-w t / W).
        """
        if self.bytes_per_s <= 0 or self.working_set_bytes <= 0:
            return 0.0
        written = self.bytes_per_s * seconds / self.working_set_bytes
        return -self.working_set_bytes * math.expm1(-written)


class ItemWrites:
    """Writes to items of one size that lie in memory in no order of their popularity.

    A page is clean as long as no item on it was written. Items of s bytes that reach into a page of
    P bytes are (P + s - 1) / s on average, and each of them is clean with the mean over items of
    exp(-rate t).

    Parameters
    ----------
    items, item_bytes
        How many there are and what one takes.
    writes_per_s
        Writes to all of them; each writes a whole item.
    popularity
        Which items they go to.
    """

    def __init__(
        self, *, items: int, item_bytes: float, writes_per_s: float, popularity: Popularity
    ) -> None:
        self.region_bytes = items * item_bytes
        self._on_a_page = (PAGE_BYTES + max(item_bytes, 1.0) - 1.0) / max(item_bytes, 1.0)
        classes = rank_classes(max(1, items), popularity, most=_CLASSES)
        keys = np.array([count for count, _ in classes])
        share = np.array([share for _, share in classes])
        # Where several ranks fall together, a class may be empty.
        full = keys > 0
        self._weight = keys[full] / keys[full].sum()
        self._rate = writes_per_s * share[full] / keys[full]

    def in_time(self, seconds: float) -> float:
        """Bytes of different pages written in a while."""
        clean = float(np.dot(self._weight, np.exp(-self._rate * seconds)))
        return self.region_bytes * (1.0 - clean**self._on_a_page)


@dataclass(frozen=True)
class Together:
    """Writes to several parts of a memory."""

    parts: Sequence[Dirtying]

    def in_time(self, seconds: float) -> float:
        """Bytes of different pages written in a while."""
        return sum(part.in_time(seconds) for part in self.parts)


def key_writes(
    *,
    layout: str,
    keys: int,
    key_bytes: int,
    value_bytes: int,
    reads_per_s: float,
    writes_per_s: float,
    popularity: Popularity,
) -> Together:
    """How an engine that holds strings writes its memory.

    What a key consists of and how large it is are those of the node model
    (`models/memory/contents.py`). Buffers of clients and the kernel's pages, a few MB that are
    always dirty, are left out.

    Parameters
    ----------
    layout
        One of the layouts of an engine's profile.
    reads_per_s, writes_per_s
        GETs and SETs of keys that exist.
    """
    parts = []
    for kind in structures(layout, keys=keys, key_bytes=key_bytes, value_bytes=value_bytes):
        by_reads = reads_per_s if kind.name in WRITTEN_BY_READS[layout] else 0.0
        by_writes = writes_per_s if kind.name in WRITTEN_BY_WRITES[layout] else 0.0
        if by_reads + by_writes > 0:
            parts.append(
                ItemWrites(
                    items=keys,
                    item_bytes=kind.lines_per_key * LINE_BYTES,
                    writes_per_s=by_reads + by_writes,
                    popularity=popularity,
                )
            )
    return Together(parts)


def bytes_per_key(layout: str, *, keys: int, key_bytes: int, value_bytes: int) -> float:
    """What a key takes in all, the table included."""
    found = structures(layout, keys=keys, key_bytes=key_bytes, value_bytes=value_bytes)
    return sum(kind.lines_per_key for kind in found) * LINE_BYTES
