"""What sets, hashes, sorted sets and lists weigh beside their keys, by generation.

Small ones lie packed in one block; larger ones have a table, or nodes, of their own. All members of
a collection are alike here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from .allocator import Allocator, size_class
from .generations import Generation
from .keys import ENTRY_BYTES, OBJECT_BYTES
from .strings import (
    INTSET_HEADER_BYTES,
    integer_bytes,
    listpack_bytes,
    listpack_entry_bytes,
    listpack_integer_bytes,
    old_sds_bytes,
    sds_bytes,
    ziplist_bytes,
    ziplist_entry_bytes,
    ziplist_integer_bytes,
)
from .tables import TableKind, table_bytes

PACKED_ENTRIES = {"sorted_set": 128, "hash": 512}
"""Members and fields up to which a sorted set and a hash are packed (zset-max-listpack-entries,
hash-max-listpack-entries, and -ziplist- before)."""

PACKED_ITEM_BYTES = 64
"""Longest member, field or value that is packed (...-max-listpack-value)."""

_INTSET_ENTRIES = 512
"""Members up to which a set of whole numbers is an array of them (set-max-intset-entries)."""

_LINKED_LIST_ENTRIES = 512
"""Elements up to which a list of Redis 2.8 is a ziplist (list-max-ziplist-entries)."""

_NODE_MOST_BYTES = 8192
"""A quicklist's node takes elements up to here (list-max-listpack-size -2)."""

_MOST_ENTRY_BYTES = 128
"""Up to which size a hash's field and value share a block in Valkey from 8.1 and Redis from 8.6 on
(EMBED_VALUE_MAX_ALLOC_SIZE in entry.h; t_hash.c of Valkey 8.1)."""

_SKIP_LIST_SHARE = 0.25
"""ZSKIPLIST_P: share of the nodes of one level that reach the next."""

_LEVEL_BYTES = 16
"""Next node and how many it skips."""

_LEVELS = 32

_SORTED_SET_BYTES, _QUICKLIST_BYTES, _LINKED_LIST_BYTES = 16, 40, 48


class Content(NamedTuple):
    """Bytes of one collection beside its key.

    `items` are members, fields, elements and what holds them; `table` the array of its own table;
    `rehash` comes on top while that table moves, which takes commands on the collection, and
    `moving` is as much of it as there may be now (`TableBytes`).
    """

    items: float
    table: float = 0.0
    rehash: float = 0.0
    moving: float = 0.0


def set_content(
    g: Generation, allocator: Allocator, *, members: int, member_bytes: int, integers: bool
) -> Content:
    """A set: an array of whole numbers, packed, or a table."""
    if integers and members <= _INTSET_ENTRIES:
        return Content(
            size_class(INTSET_HEADER_BYTES + members * integer_bytes(member_bytes), allocator)
        )
    if members <= g.packed_sets and member_bytes <= PACKED_ITEM_BYTES:
        return _packed(g, allocator, members, [(member_bytes, integers)])
    if g.set_table == "objects":
        string = 0 if integers else size_class(old_sds_bytes(member_bytes), allocator)
        each = size_class(ENTRY_BYTES, allocator) + size_class(OBJECT_BYTES, allocator) + string
        return _with_table(g, allocator, members, each)
    member = size_class(sds_bytes(member_bytes), allocator)
    if g.set_table == "entries":
        member += size_class(ENTRY_BYTES, allocator)
    kind: TableKind = "dict_direct" if g.set_table == "direct" else g.collection_table
    return _with_table(g, allocator, members, member, kind=kind)


def hash_content(
    g: Generation, allocator: Allocator, *, fields: int, field_bytes: int, value_bytes: int
) -> Content:
    """A hash: packed, or a table."""
    longest = max(field_bytes, value_bytes)
    if fields <= PACKED_ENTRIES["hash"] and longest <= PACKED_ITEM_BYTES:
        return _packed(g, allocator, fields, [(field_bytes, False), (value_bytes, False)])
    each = hash_field_bytes(g, allocator, field_bytes=field_bytes, value_bytes=value_bytes)
    return _with_table(g, allocator, fields, each, kind=g.field_table)


def hash_field_bytes(
    g: Generation, allocator: Allocator, *, field_bytes: int, value_bytes: int
) -> int:
    """A field with its value in a hash that has a table."""
    if g.hash_table == "objects":
        strings = [old_sds_bytes(field_bytes), old_sds_bytes(value_bytes)]
        outer = size_class(OBJECT_BYTES, allocator)
        return size_class(ENTRY_BYTES, allocator) + sum(
            outer + size_class(string, allocator) for string in strings
        )
    field, value = sds_bytes(field_bytes), size_class(sds_bytes(value_bytes), allocator)
    if g.hash_table == "entries":
        return size_class(ENTRY_BYTES, allocator) + size_class(field, allocator) + value
    inside = field + sds_bytes(value_bytes, smallest_header_bytes=3)
    if inside <= _MOST_ENTRY_BYTES:
        return size_class(inside, allocator)
    # A pointer to the value, and a field whose header has the flag that says so.
    return size_class(8 + sds_bytes(field_bytes, smallest_header_bytes=3), allocator) + value


def sorted_set_content(
    g: Generation, allocator: Allocator, *, members: int, member_bytes: int, score_digits: int
) -> Content:
    """A sorted set: packed, or a table and a skip list."""
    if members <= PACKED_ENTRIES["sorted_set"] and member_bytes <= PACKED_ITEM_BYTES:
        return _packed(g, allocator, members, [(member_bytes, False), (score_digits, True)])
    each = sorted_set_member_bytes(g, allocator, member_bytes=member_bytes)
    fixed = sum(
        size_class(size, allocator)
        for size in (_SORTED_SET_BYTES, g.skip_list_bytes, g.skip_list_header_bytes)
    )
    content = _with_table(g, allocator, members, each, kind=g.member_table)
    return content._replace(items=content.items + fixed)


@lru_cache(maxsize=1024)
def sorted_set_member_bytes(g: Generation, allocator: Allocator, *, member_bytes: int) -> float:
    """A member of a sorted set that has a skip list: node, member, entry of the table."""
    inside = 0
    if g.sorted_set_table == "inside":
        # Score, way back, member, in Valkey after the length of its header.
        node, inside, other = 16, sds_bytes(member_bytes), 0
        inside += g.engine == "valkey"
    else:
        # Member, score, way back.
        node = 24
        if g.sorted_set_table == "objects":
            other = size_class(OBJECT_BYTES, allocator)
            other += size_class(old_sds_bytes(member_bytes), allocator)
        else:
            other = size_class(sds_bytes(member_bytes), allocator)
        if g.sorted_set_table != "nodes":
            other += size_class(ENTRY_BYTES, allocator)
    mean = 0.0
    for level in range(1, _LEVELS + 1):
        share = _SKIP_LIST_SHARE ** (level - 1) * (1.0 - _SKIP_LIST_SHARE)
        mean += share * size_class(node + level * _LEVEL_BYTES + inside, allocator)
    return other + mean


def list_content(
    g: Generation, allocator: Allocator, *, elements: int, element_bytes: int
) -> Content:
    """A list, filled from one end: packed, or a chain of packed nodes."""
    if g.lists == "linked":
        if elements <= _LINKED_LIST_ENTRIES and element_bytes <= PACKED_ITEM_BYTES:
            return _packed(g, allocator, elements, [(element_bytes, False)])
        each = size_class(g.list_node_bytes, allocator) + size_class(OBJECT_BYTES, allocator)
        each += size_class(old_sds_bytes(element_bytes), allocator)
        return Content(size_class(_LINKED_LIST_BYTES, allocator) + elements * each)
    whole = _packed_bytes(g, elements, [(element_bytes, False)])
    if g.lists == "packed_first" and whole <= _NODE_MOST_BYTES:
        return Content(size_class(whole, allocator))
    node = size_class(g.list_node_bytes, allocator)
    fixed = size_class(_QUICKLIST_BYTES, allocator)
    if g.lists == "packed_first" and element_bytes > _NODE_MOST_BYTES:
        # Elements that large are kept as they are (quicklist.c, plain nodes).
        return Content(fixed + elements * (node + size_class(element_bytes, allocator)))
    most = max(1, _elements_per_node(g, element_bytes))
    full, rest = divmod(elements, most)
    items = full * (node + size_class(_packed_bytes(g, most, [(element_bytes, False)]), allocator))
    if rest:
        items += node + size_class(_packed_bytes(g, rest, [(element_bytes, False)]), allocator)
    return Content(fixed + items)


def _elements_per_node(g: Generation, element_bytes: int) -> int:
    """Elements that a node takes: a new one is let in by an estimate of what it adds."""
    empty = _packed_bytes(g, 0, [])
    each = _packed_bytes(g, 1, [(element_bytes, False)]) - empty
    added = element_bytes + g.quicklist_margin_bytes
    if g.packed == "ziplist":
        added = each
    return (_NODE_MOST_BYTES - added - empty) // each + 1


def _packed_bytes(g: Generation, count: int, parts: list[tuple[int, bool]]) -> int:
    """A listpack or ziplist of `count` times the parts: length or digits, and whether a number."""
    if g.packed == "listpack":
        each = sum(
            listpack_integer_bytes(size) if number else listpack_entry_bytes(size)
            for size, number in parts
        )
        return listpack_bytes(count * each)
    each, before = 0, 0
    # Twice, so that the first of the parts knows what is before it.
    for _ in range(2):
        each = 0
        for size, number in parts:
            before = (
                ziplist_integer_bytes(size)
                if number
                else ziplist_entry_bytes(size, before_bytes=before)
            )
            each += before
    return ziplist_bytes(count * each)


def _packed(
    g: Generation, allocator: Allocator, count: int, parts: list[tuple[int, bool]]
) -> Content:
    return Content(size_class(_packed_bytes(g, count, parts), allocator))


def _with_table(
    g: Generation,
    allocator: Allocator,
    count: int,
    each_bytes: float,
    *,
    kind: TableKind | None = None,
) -> Content:
    """A collection with a table of its own."""
    table = table_bytes(kind or g.collection_table, count, allocator)
    struct = size_class(g.table_struct_bytes, allocator)
    return Content(struct + count * each_bytes, table.settled, table.rehash, table.moving)
