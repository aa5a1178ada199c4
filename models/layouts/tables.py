"""Tables of keys, members and fields: how many buckets, and what they weigh.

Two kinds. A `dict` (dict.c, up to Valkey 8.0 and in Redis) is an array of pointers to chained
entries; it doubles when it would hold more entries than it has buckets. In a `dict_direct` what is
looked up hangs in its bucket without an entry, unless the bucket has more than one. A `hashtable`
(hashtable.c, Valkey from 8.1 on) is an array of 64-byte buckets of 7 entries; it doubles when it
would hold more than 7 a bucket, and a bucket that is full before gets a child.

A doubling takes the new array at once and keeps the old one until all entries have moved: one
bucket with each later command on the table, and for tables of keys also in spare time.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, NamedTuple

from .allocator import Allocator, size_class

TableKind = Literal["dict", "dict_direct", "hashtable"]

SLOTS = 16384
"""Hash slots of a cluster (cluster.h)."""

POINTER_BYTES = 8
BUCKET_BYTES = 64
BUCKET_SLOTS = 7
"""Entries of a bucket; one slot points to a child bucket when there are more (hashtable.c)."""

LINK_BYTES = 16
"""Entry of a dict without values: key and next (dict.c, dictEntryNoValue)."""

_FEWEST_DICT_BUCKETS = 4
"""DICT_HT_INITIAL_SIZE (dict.h)."""

_BINOMIAL_BUCKETS = 32
"""Up to this number of buckets, the dependence between their loads matters."""

_NEGLIGIBLE = 1e-9


class TableBytes(NamedTuple):
    """What a table weighs beside its entries.

    `rehash` comes on top while the last doubling is under way. `moving` is as much of it as there
    may be now, if entries were added one after the other: none where the move must have ended.
    """

    settled: float
    rehash: float
    moving: float = 0.0


NO_TABLE = TableBytes(0.0, 0.0)


def buckets_of(kind: TableKind, entries: int) -> int:
    """Buckets after a number of entries was added one by one; 0 for none."""
    if entries <= 0:
        return 0
    if kind != "hashtable":
        return max(_FEWEST_DICT_BUCKETS, 1 << (entries - 1).bit_length())
    return 1 << (-(-entries // BUCKET_SLOTS) - 1).bit_length()


def most_entries(kind: TableKind, buckets: int) -> int:
    """Entries up to which a table keeps its buckets."""
    return BUCKET_SLOTS * buckets if kind == "hashtable" else buckets


def hash_table_load(entries: int) -> float:
    """Mean entries per top-level bucket of a hashtable."""
    return entries / buckets_of("hashtable", entries)


@lru_cache(maxsize=4096)
def children_per_bucket(entries: float, buckets: int) -> float:
    """Mean child buckets of a bucket, by the number of buckets and of entries in all.

    A bucket of m > 7 entries keeps six of them and the way to the next, which takes seven or again
    six: ceil((m - 7) / 6) children. m is binomial, for many buckets Poisson.
    """
    load = entries / buckets
    if buckets == 1:
        return float(max(0, math.ceil((entries - BUCKET_SLOTS) / (BUCKET_SLOTS - 1))))
    few = buckets <= _BINOMIAL_BUCKETS
    odds = 1.0 / (buckets - 1)
    chance = math.exp(entries * math.log1p(-1.0 / buckets)) if few else math.exp(-load)
    total, m = 0.0, 0
    while m < load + 12.0 * math.sqrt(load) + 12.0:
        if m > BUCKET_SLOTS:
            total += chance * -(-(m - BUCKET_SLOTS) // (BUCKET_SLOTS - 1))
        chance *= max(0.0, entries - m) * odds / (m + 1) if few else load / (m + 1)
        m += 1
    return total


def _array_bytes(kind: TableKind, entries: float, buckets: int, allocator: Allocator) -> float:
    if kind != "hashtable":
        pointers = size_class(POINTER_BYTES * buckets, allocator)
        if kind == "dict":
            return pointers
        # The last of each chain needs no entry.
        chains = -buckets * math.expm1(entries * math.log1p(-1.0 / buckets))
        return pointers + (entries - chains) * size_class(LINK_BYTES, allocator)
    children = buckets * children_per_bucket(entries, buckets)
    child_bytes = size_class(BUCKET_BYTES, allocator)
    return size_class(BUCKET_BYTES * buckets, allocator) + children * child_bytes


def _old_array_bytes(kind: TableKind, buckets: int, allocator: Allocator) -> float:
    """The array before, as full as it was when the doubling began; entries move on."""
    before = buckets // 2
    if before < (1 if kind == "hashtable" else _FEWEST_DICT_BUCKETS):
        return 0.0
    if kind != "hashtable":
        return size_class(POINTER_BYTES * before, allocator)
    return _array_bytes(kind, most_entries(kind, before), before, allocator)


def last_moving(kind: TableKind, buckets: int) -> int:
    """Most entries with which the doubling to a number of buckets may be under way.

    Each entry that is added moves a bucket that isn't empty (_dictRehashStep in dict.c, rehashStep
    in hashtable.c). Of the old buckets of a dict, which has an entry for each, 1 - 1/e are not
    empty; of those of a hashtable, which has seven, all.
    """
    before = buckets // 2
    if not _has_smaller(kind, buckets):
        return 0
    share = 1.0 if kind == "hashtable" else -math.expm1(-1.0)
    return most_entries(kind, before) + math.ceil(share * before)


@lru_cache(maxsize=4096)
def table_bytes(kind: TableKind, entries: int, allocator: Allocator) -> TableBytes:
    """Arrays of one table."""
    if entries <= 0:
        return NO_TABLE
    buckets = buckets_of(kind, entries)
    old = _old_array_bytes(kind, buckets, allocator)
    return TableBytes(
        _array_bytes(kind, entries, buckets, allocator),
        old,
        old if entries <= last_moving(kind, buckets) else 0.0,
    )


def slot_tables_bytes(
    kind: TableKind, entries: float, *, slots: int, struct_bytes: int, allocator: Allocator
) -> TableBytes:
    """Tables of a node that keeps one for each of its slots, with the structures that hold them.

    Keys fall into slots at random, so entries per slot are Poisson: each size of table has its
    probability, and its mean load.

    Parameters
    ----------
    entries
        Of all slots together.
    slots
        Slots the node serves.
    struct_bytes
        Of one table, beside its arrays; slots without entries have none.
    """
    if entries <= 0 or slots <= 0:
        return NO_TABLE
    mean = entries / slots
    spread = 8.0 * math.sqrt(mean)
    buckets = buckets_of(kind, max(1, int(mean - spread)))
    settled = -math.expm1(-mean) * size_class(struct_bytes, allocator)
    rehash, moving = 0.0, 0.0
    most_below = most_entries(kind, buckets // 2) if _has_smaller(kind, buckets) else 0
    while True:
        most = most_entries(kind, buckets)
        share = _poisson_up_to(most, mean) - _poisson_up_to(most_below, mean)
        if share > _NEGLIGIBLE:
            # E[m; low < m <= high] of a Poisson m is its mean times P(low - 1 < m <= high - 1).
            part = _poisson_up_to(most - 1, mean) - _poisson_up_to(most_below - 1, mean)
            load = max(mean * part / share, 1.0)
            settled += share * _array_bytes(kind, round(load, 3), buckets, allocator)
            old = _old_array_bytes(kind, buckets, allocator)
            rehash += share * old
            still = min(most, last_moving(kind, buckets))
            moving += old * max(0.0, _poisson_up_to(still, mean) - _poisson_up_to(most_below, mean))
        if most > mean + spread:
            return TableBytes(slots * settled, slots * rehash, slots * moving)
        most_below, buckets = most, 2 * buckets


def _has_smaller(kind: TableKind, buckets: int) -> bool:
    return buckets > (1 if kind == "hashtable" else _FEWEST_DICT_BUCKETS)


def _poisson_up_to(most: int, mean: float) -> float:
    """P(m <= most) of a Poisson m."""
    from scipy.special import pdtr

    return float(pdtr(most, mean)) if most >= 0 else 0.0
