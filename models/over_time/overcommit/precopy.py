"""One live migration by pre-copy.

All memory is sent while the machine runs, then in rounds what it wrote meanwhile. As soon as what
is left to send, pages of this round and pages written in it, fits into the allowed blackout, the
machine stops, the rest follows, and it resumes elsewhere. A machine that writes faster than the
network sends never gets there.

Source of the rounds: C. Clark et al., "Live Migration of Virtual Machines", NSDI'05. With a dirty
rate D below the bandwidth B and nothing written twice, round i sends M (D/B)^i. That the rest is
looked at all the time and not between rounds only is QEMU's way (downtime-limit).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...memory.contents import structures
from ...memory.lines import LINE_BYTES, rank_classes
from ...scenario.workload import Popularity

PAGE_BYTES = 4096
"""What is tracked and sent as a whole."""

MOST_ROUNDS = 1_000
"""Rounds after which a migration that still shrinks is taken as one that doesn't."""

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


# --- how fast memory becomes dirty: pages written since they were sent ----------------------------

# Only the first write to a page counts until it is sent again. Hypervisors track pages of 4 KiB
# while they copy, huge pages are split for it.


Dirtying = Callable[[float], float]
"""How a machine writes its memory: bytes of different pages written in so many seconds."""


def even_writes(bytes_per_s: float, working_set_bytes: float) -> Dirtying:
    """Writes that go evenly to a part of the memory.

    Of W bytes written at w bytes a second a page is still clean after t with probability
    exp(-w t / W).

    Parameters
    ----------
    bytes_per_s
        Bytes of pages written a second, a page as often as it is written.
    working_set_bytes
        Pages that writes go to: those written twice in a round are sent once.
    """
    if bytes_per_s <= 0 or working_set_bytes <= 0:
        return lambda _seconds: 0.0
    return lambda seconds: (
        -working_set_bytes * math.expm1(-(bytes_per_s * seconds / working_set_bytes))
    )


def item_writes(
    *, items: int, item_bytes: float, writes_per_s: float, popularity: Popularity
) -> Dirtying:
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
    region_bytes = items * item_bytes
    on_a_page = (PAGE_BYTES + max(item_bytes, 1.0) - 1.0) / max(item_bytes, 1.0)
    classes = rank_classes(max(1, items), popularity, most=_CLASSES)
    keys = np.array([count for count, _ in classes])
    share = np.array([share for _, share in classes])
    # Where several ranks fall together, a class may be empty.
    full = keys > 0
    weight = keys[full] / keys[full].sum()
    rate = writes_per_s * share[full] / keys[full]

    def written(seconds: float) -> float:
        clean = float(np.dot(weight, np.exp(-rate * seconds)))
        return region_bytes * (1.0 - clean**on_a_page)

    return written


def writes_together(parts: Sequence[Dirtying]) -> Dirtying:
    """Writes to several parts of a memory."""
    return lambda seconds: sum(part(seconds) for part in parts)


def key_writes(
    *,
    layout: str,
    keys: int,
    key_bytes: int,
    value_bytes: int,
    reads_per_s: float,
    writes_per_s: float,
    popularity: Popularity,
) -> Dirtying:
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
                item_writes(
                    items=keys,
                    item_bytes=kind.lines_per_key * LINE_BYTES,
                    writes_per_s=by_reads + by_writes,
                    popularity=popularity,
                )
            )
    return writes_together(parts)


def bytes_per_key(layout: str, *, keys: int, key_bytes: int, value_bytes: int) -> float:
    """What a key takes in all, the table included."""
    found = structures(layout, keys=keys, key_bytes=key_bytes, value_bytes=value_bytes)
    return sum(kind.lines_per_key for kind in found) * LINE_BYTES


# --- the migration --------------------------------------------------------------------------------


@dataclass(frozen=True)
class MigrationLimits:
    """When a migration stops the machine, and when it gives up.

    Attributes
    ----------
    blackout_s
        Rest that may be sent while the machine stands still, as time (QEMU's downtime-limit).
    resume_s
        What stopping and resuming take besides.
    timeout_s
        Time after which it is given up.
    within_rounds
        Whether the machine may stop in the middle of a round. If not, only what was written in a
        round that is over can be left: memory that costs next to nothing to send, such as empty
        pages at the end, has the same effect.
    """

    blackout_s: float = 0.3
    resume_s: float = 0.02
    timeout_s: float = 3_600.0
    within_rounds: bool = True


@dataclass(frozen=True)
class Migration:
    """How a migration went: seconds, bytes and rounds; `blackout_s` is NaN if it was given up.

    `dirtied_pages` counts pages that were written for the first time since they were sent: each
    write is held up by the hypervisor.
    """

    duration_s: float
    blackout_s: float
    sent_bytes: float
    rounds: int
    converged: bool
    dirtied_pages: float = 0.0

    def slowed_s(self, fault_s: float) -> float:
        """Time that the machine's thread lost to writes that were held up, `fault_s` each."""
        return self.dirtied_pages * fault_s

    def throughput_lost(self, fault_s: float) -> float:
        """Share of a busy thread's throughput that this costs while the machine runs and moves."""
        running_s = self.duration_s - (self.blackout_s if self.converged else 0.0)
        lost_s = self.slowed_s(fault_s)
        return lost_s / (running_s + lost_s) if lost_s > 0 else 0.0


def migrate(
    memory_bytes: float,
    dirtying: Dirtying,
    *,
    bandwidth_bytes_per_s: float,
    limits: MigrationLimits,
) -> Migration:
    """A migration at a constant bandwidth.

    Parameters
    ----------
    memory_bytes
        Memory the machine has taken, sent in the first round.
    bandwidth_bytes_per_s
        What the stream gets of the network.

    Raises
    ------
    ValueError
        The bandwidth is not above zero.
    """
    if bandwidth_bytes_per_s <= 0:
        raise ValueError("a bandwidth above zero")
    rate = bandwidth_bytes_per_s
    elapsed_s = dirtied_bytes = 0.0
    start_bytes = memory_bytes
    enough_bytes = limits.blackout_s * rate
    for number in range(1, MOST_ROUNDS + 1):
        round_s = start_bytes / rate
        written_bytes = dirtying(round_s)
        ends = written_bytes <= enough_bytes
        if ends and limits.within_rounds:
            round_s = _first_time(start_bytes, dirtying, rate=rate, enough_bytes=enough_bytes)
            written_bytes = dirtying(round_s)
        if elapsed_s + round_s > limits.timeout_s:
            dirtied_bytes += dirtying(limits.timeout_s - elapsed_s)
            return Migration(
                limits.timeout_s,
                math.nan,
                limits.timeout_s * rate,
                number,
                converged=False,
                dirtied_pages=dirtied_bytes / PAGE_BYTES,
            )
        elapsed_s += round_s
        dirtied_bytes += written_bytes
        if ends:
            blackout_s = (start_bytes - rate * round_s + written_bytes) / rate
            return Migration(
                elapsed_s + blackout_s + limits.resume_s,
                blackout_s + limits.resume_s,
                (elapsed_s + blackout_s) * rate,
                number,
                converged=True,
                dirtied_pages=dirtied_bytes / PAGE_BYTES,
            )
        start_bytes = written_bytes
    return Migration(
        elapsed_s,
        math.nan,
        elapsed_s * rate,
        MOST_ROUNDS,
        converged=False,
        dirtied_pages=dirtied_bytes / PAGE_BYTES,
    )


def _first_time(
    start_bytes: float, dirtying: Dirtying, *, rate: float, enough_bytes: float
) -> float:
    """When in a round the rest is small enough; at its end it is.

    The rest may rise before it falls, so that it passes the limit once.
    """
    if start_bytes <= enough_bytes:
        return 0.0
    low, high = 0.0, start_bytes / rate
    for _ in range(60):
        middle = 0.5 * (low + high)
        if start_bytes - rate * middle + dirtying(middle) > enough_bytes:
            low = middle
        else:
            high = middle
    return high
