"""What sets, hashes, sorted sets and lists weigh beside their keys, by generation.

Small ones lie packed in one block; larger ones have a table, or nodes, of their own. All members of
a collection are alike here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from .allocator import Allocator, size_class
from .generations import Generation
from .keys import ENTRY_BYTES
from .strings import (
    INTSET_HEADER_BYTES,
    OBJECT_BYTES,
    integer_bytes,
    listpack_bytes,
    listpack_entry_bytes,
    listpack_integer_bytes,
    object_blocks,
    sds_bytes,
    ziplist_bytes,
    ziplist_entry_bytes,
    ziplist_integer_bytes,
)
from .tables import TableKind, table_bytes

PACKED_ENTRIES = {"sorted_set": 128, "hash": 512, "set": 128}
"""Members and fields up to which a collection is packed (zset-max-listpack-entries,
hash-max-listpack-entries, and -ziplist- before; set-max-listpack-entries where a version packs
sets)."""

PACKED_ITEM_BYTES = 64
"""Longest member, field or value that is packed (...-max-listpack-value)."""

INTSET_ENTRIES = 512
"""Members up to which a set of whole numbers is an array of them (set-max-intset-entries)."""

_LINKED_LIST_ENTRIES = 512
"""Elements up to which a list of Redis 2.8 is a ziplist (list-max-ziplist-entries)."""

NODE_MOST_BYTES = 8192
"""A quicklist's node takes elements up to here (list-max-listpack-size -2)."""

STREAM_NODE_ENTRIES, STREAM_NODE_BYTES = 100, 4096
"""Entries and bytes of a listpack of a stream at most (stream-node-max-entries and -bytes)."""

_STREAM_BYTES, _TREE_NODE_BYTES = 192, 48
"""A stream with the head of its tree, and what each listpack takes of the tree (rax.c: a compressed
node of up to 16 bytes of an id, a byte and a pointer in the node above)."""

MOST_ENTRY_BYTES = 128
"""Up to which size a hash's field and value share a block in Valkey from 8.1 and Redis from 8.6 on
(EMBED_VALUE_MAX_ALLOC_SIZE in entry.h; t_hash.c of Valkey 8.1)."""

_SKIP_LIST_SHARE = 0.25
"""ZSKIPLIST_P: share of the nodes of one level that reach the next."""

_LEVEL_BYTES = 16
"""Next node and how many it skips."""

_LEVELS = 32

_SORTED_SET_BYTES, _LINKED_LIST_BYTES = 16, 48


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
    if integers and members <= INTSET_ENTRIES:
        return Content(
            size_class(INTSET_HEADER_BYTES + members * integer_bytes(member_bytes), allocator)
        )
    if members <= g.packed_sets and member_bytes <= PACKED_ITEM_BYTES:
        return _packed(g, allocator, members, [(member_bytes, integers)])
    if g.set_table == "objects":
        member: float = sum(object_blocks(g, allocator, member_bytes))
        if integers:
            number = size_class(OBJECT_BYTES, allocator)
            # Those that were an array before are made anew.
            room = member - number if g.numbers_keep_room else 0
            member = number + room * (1.0 - INTSET_ENTRIES / members)
        each = size_class(ENTRY_BYTES, allocator) + member
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
        strings = [object_blocks(g, allocator, length) for length in (field_bytes, value_bytes)]
        return size_class(ENTRY_BYTES, allocator) + sum(map(sum, strings))
    field, value = sds_bytes(field_bytes), size_class(sds_bytes(value_bytes), allocator)
    if g.hash_table == "entries":
        return size_class(ENTRY_BYTES, allocator) + size_class(field, allocator) + value
    inside = field + sds_bytes(value_bytes, smallest_header_bytes=3)
    if inside <= MOST_ENTRY_BYTES:
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
            other = sum(object_blocks(g, allocator, member_bytes))
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
        each = size_class(g.list_node_bytes, allocator)
        each += sum(object_blocks(g, allocator, element_bytes))
        return Content(size_class(_LINKED_LIST_BYTES, allocator) + elements * each)
    whole = _packed_bytes(g, elements, [(element_bytes, False)])
    if g.lists == "packed_first" and whole <= NODE_MOST_BYTES:
        return Content(size_class(whole, allocator))
    node = size_class(g.list_node_bytes, allocator)
    fixed = size_class(g.quicklist_bytes, allocator)
    if g.lists == "packed_first" and element_bytes > NODE_MOST_BYTES:
        # Elements that large are kept as they are (quicklist.c, plain nodes).
        return Content(fixed + elements * (node + size_class(element_bytes, allocator)))
    most = max(1, _elements_per_node(g, element_bytes))
    full, rest = divmod(elements, most)
    items = full * (node + size_class(_packed_bytes(g, most, [(element_bytes, False)]), allocator))
    if rest:
        items += node + size_class(_packed_bytes(g, rest, [(element_bytes, False)]), allocator)
    return Content(fixed + items)


def stream_content(
    allocator: Allocator, *, entries: int, field_bytes: int, value_bytes: int
) -> Content:
    """A stream whose entries all have the same field, filled by XADD, without groups.

    Listpacks under a tree of ids (t_stream.c): each begins with the field's name and how many
    entries it has, and gives back what it doesn't use when the next one begins.
    """
    each, front = stream_entry_bytes(value_bytes), 8 + listpack_entry_bytes(field_bytes)
    most = stream_node_entries(value_bytes, front_bytes=front)
    full, rest = divmod(entries, most)
    full, rest = (full - 1, most) if full and not rest else (full, rest)
    node = size_class(listpack_bytes(front + most * each), allocator) + _TREE_NODE_BYTES
    last = size_class(max(STREAM_NODE_BYTES, listpack_bytes(front + rest * each)), allocator)
    return Content(_STREAM_BYTES + full * node + last + _TREE_NODE_BYTES)


def stream_entry_bytes(value_bytes: int) -> int:
    """An entry whose field is that of the first one of its listpack.

    Besides its value flags, what its id is more than that one's, and its length: whole numbers.
    """
    return 9 + listpack_entry_bytes(value_bytes)


def stream_node_entries(value_bytes: int, *, front_bytes: int = 0) -> int:
    """Entries of one listpack of a stream."""
    room = (STREAM_NODE_BYTES - front_bytes) // stream_entry_bytes(value_bytes)
    return min(STREAM_NODE_ENTRIES, max(1, room))


def _elements_per_node(g: Generation, element_bytes: int) -> int:
    """Elements that a node takes: a new one is let in by an estimate of what it adds."""
    empty = _packed_bytes(g, 0, [])
    each = _packed_bytes(g, 1, [(element_bytes, False)]) - empty
    added = element_bytes + g.quicklist_margin_bytes
    if g.packed == "ziplist":
        added = each
    return (NODE_MOST_BYTES - added - empty) // each + 1


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
