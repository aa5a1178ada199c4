"""The blocks of memory that strings, keys and collections take, by version.

Sizes are usable ones of the allocator unless a function says *as requested*. With a time to live a
key has an entry in a second table (up to Valkey 8.0) or eight bytes more in its object (from 8.1
on); that table's array is counted with the tables. Small collections lie packed in one block;
larger ones have a table, or nodes, of their own. All members of a collection are alike here.

**Spare room.** An argument of 32 KiB or more is not copied out of the query buffer: the buffer,
which has room for the whole argument and its line end and is read until just that is in it, becomes
the value, and the connection gets a new buffer as large for the next one (processMultibulkBuffer
and readQueryFromClient in networking.c; PROTO_MBULK_BIG_ARG, from Redis 2.6 on). Up to Redis 6.2
sdsMakeRoomFor makes the room, which doubles a string below 1 MiB and adds 1 MiB to a longer one
(SDS_MAX_PREALLOC in sds.c). So does the next buffer's up to 3.0; from 3.2 on that has exactly the
length of this argument, so that only the first of a connection and longer ones are grown, and from
Redis 7.0 on both are exact (sdsMakeRoomForNonGreedy). A connection that is slow loses spare room
before it is used: several times a second a buffer more than twice as long as what it held lately is
cut to what it holds (clientsCronResizeQueryBuffer in redis.c, server.c) and then grows again, up to
twice what has arrived; so a value may have any room between none and all of it. SET gives back room
of more than a tenth of the value from Redis 2.6.16 on (tryObjectEncoding in object.c).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from .allocator import Allocator, size_class
from .generations import Generation, KeyLayout
from .tables import TableKind, table_bytes

# --- strings, and entries of packed lists ---------------------------------------------------------


OBJECT_BYTES = 16
"""Type, encoding, last access, references; pointer to the value (object.h)."""

_MOST_EMBEDDED_BYTES = {"objects": 0, "objects_embedded": 39}
"""Up to which length a string lies in its object, by layout of keys; in all others 44
(OBJ_ENCODING_EMBSTR_SIZE_LIMIT in object.c)."""

INTSET_HEADER_BYTES = 8
"""Encoding and length (intset.h)."""

LARGE_ARGUMENT_BYTES = 32 * 1024
"""From here on an argument becomes the value without a copy (PROTO_MBULK_BIG_ARG)."""

_GROWN_AHEAD_BYTES = 1 << 20
"""SDS_MAX_PREALLOC (sds.h)."""

_LINE_END_BYTES = 2

_OLD_HEADER_BYTES = 8
"""Length and free bytes of a string up to Redis 3.0 (sds.h)."""


def sds_bytes(length: int, *, flags: bool = False) -> int:
    """Bytes of a dynamic string: a header as short as its length allows, content, end (sds.h).

    Parameters
    ----------
    flags
        Whether its header needs room for flags, which the shortest kind has not: so of a string
        inside another block.
    """
    header = 1 if length < 32 else 3 if length < 256 else 5 if length < 65536 else 9
    return max(3 if flags else 1, header) + length + 1


class SpareRoom(NamedTuple):
    """Bytes behind a string that it doesn't use: the least, usually, and the most."""

    least: int
    usual: int
    most: int


_NO_SPARE_ROOM = SpareRoom(0, 0, 0)


def spare_room(g: Generation, length: int) -> SpareRoom:
    """Spare room of a value that was set, by its length; see the module.

    Without trimming all of the room is taken to be as likely as none: in between lies `usual`.
    """
    if length < LARGE_ARGUMENT_BYTES or g.large_arguments == "exact":
        return _NO_SPARE_ROOM
    needed = length + _LINE_END_BYTES
    whole = _grown_bytes(needed) - length
    if not g.trims_strings:
        return SpareRoom(0, whole // 2, whole)
    kept = whole if whole <= length // 10 else 0
    return SpareRoom(
        0, kept if g.large_arguments == "grown" else 0, max(kept, min(whole, length // 10))
    )


def query_buffer_bytes(g: Generation, length: int) -> int:
    """The query buffer that a connection keeps for the next argument after one of this length.

    As requested; none after a short one, whose buffer is that of every connection. The connection
    gives it back when it has waited for 2 s.
    """
    if length < LARGE_ARGUMENT_BYTES:
        return 0
    needed = length + _LINE_END_BYTES
    room = _grown_bytes(needed) if g.large_arguments == "grown" else needed
    return string_bytes(g.keys, room)


def _grown_bytes(length: int) -> int:
    """The room that sdsMakeRoomFor makes for a string of this length."""
    return 2 * length if length < _GROWN_AHEAD_BYTES else length + _GROWN_AHEAD_BYTES


def string_bytes(keys: str, length: int) -> int:
    """Bytes of a string of its own, by the name of a layout of keys."""
    if keys.startswith("objects"):
        return _OLD_HEADER_BYTES + length + 1
    return sds_bytes(length)


def object_blocks(
    g: Generation, allocator: Allocator, length: int, *, spare_bytes: int = 0
) -> tuple[int, int]:
    """Blocks of an object that is a string, and of the string, which is 0 if it lies inside.

    Parameters
    ----------
    spare_bytes
        Room behind a string of its own (`spare_room`).
    """
    if length <= _MOST_EMBEDDED_BYTES.get(g.keys, 44):
        inside = string_bytes(g.keys, length)
        if not g.keys.startswith("objects"):
            inside = sds_bytes(length, flags=True)
        return size_class(OBJECT_BYTES + inside, allocator), 0
    string = string_bytes(g.keys, length + spare_bytes)
    return size_class(OBJECT_BYTES, allocator), size_class(string, allocator)


def integer_bytes(digits: int) -> int:
    """Bytes of an integer in a set of integers (intset.c), by its number of digits."""
    return 2 if digits <= 4 else 4 if digits <= 9 else 8


def listpack_bytes(entries_bytes: int) -> int:
    """A listpack: size, number of entries, the entries, end (listpack.c)."""
    return 4 + 2 + entries_bytes + 1


def listpack_entry_bytes(length: int) -> int:
    """A string in a listpack: encoding and length before it, length of all behind it."""
    encoded = length + (1 if length < 64 else 2 if length < 4096 else 5)
    # Seven bits of it a byte.
    return encoded + max(1, -(-encoded.bit_length() // 7))


def listpack_integer_bytes(digits: int) -> int:
    """Bytes of an integer in a listpack, by its number of digits; between two widths, the wider."""
    widths = ((2, 1), (4, 2), (5, 3), (7, 4), (9, 5))
    encoded = next((width for most, width in widths if digits < most), 9)
    return encoded + 1


def ziplist_bytes(entries_bytes: int) -> int:
    """A ziplist: size, tail, number of entries, the entries, end (ziplist.c)."""
    return 4 + 4 + 2 + entries_bytes + 1


def ziplist_entry_bytes(length: int, *, before_bytes: int) -> int:
    """A string in a ziplist: length of the entry before it, its own, content."""
    own = 1 if length < 64 else 2 if length < 16384 else 5
    return (1 if before_bytes < 254 else 5) + own + length


def ziplist_integer_bytes(digits: int) -> int:
    """Bytes of an integer in a ziplist, by its number of digits; between two widths, the wider."""
    widths = ((3, 2), (5, 3), (7, 4), (10, 5))
    return 1 + next((width for most, width in widths if digits < most), 9)


# --- a key and a string value ---------------------------------------------------------------------


ENTRY_BYTES = 24
"""Pointers to key, value and next entry (dict.c)."""

_EXPIRY_BYTES = 8

_SLOT_LINKS_BYTES = 16
"""Next and previous key of the same slot in each entry, in cluster mode of 7.x (cluster.h)."""

_LONG_KEY_BYTES = 128
"""Keys from here on get room for an expiry time in advance (object.c)."""


class Blocks(NamedTuple):
    """Bytes of a key's blocks; 0 where it has none.

    A key inside its entry counts as `entry`, one inside its object, and a value there, as `object`.
    """

    entry: float = 0.0
    key: float = 0.0
    object: float = 0.0
    value: float = 0.0
    expires: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return sum(self)


def embedded_value_bytes(layout: KeyLayout, *, key_bytes: int, value_bytes: int) -> int:
    """What key and value would take in one object, as requested; its header included."""
    value = sds_bytes(value_bytes, flags=True)
    key = 1 + sds_bytes(key_bytes)
    if layout == "hashtable_embedded_value":
        # The value takes the place of the pointer to it.
        return OBJECT_BYTES - 8 + key + max(8, value)
    return OBJECT_BYTES + key + value


def key_blocks(
    generation: Generation,
    allocator: Allocator,
    *,
    key_bytes: int,
    ttl: bool = False,
    cluster: bool = False,
) -> Blocks:
    """Blocks of a key whose value is a collection, without the collection's own."""
    if generation.key_in_object:
        reserved = _EXPIRY_BYTES if ttl or key_bytes >= _LONG_KEY_BYTES else 0
        inside = OBJECT_BYTES + 1 + sds_bytes(key_bytes) + reserved
        return Blocks(object=size_class(inside, allocator))
    expires = size_class(ENTRY_BYTES, allocator) if ttl else 0
    outer = size_class(OBJECT_BYTES, allocator)
    if generation.keys == "dict_embedded_key":
        key = sds_bytes(key_bytes, flags=True)
        entry = size_class(8 + 8 + 1 + key, allocator)
        return Blocks(entry=entry, object=outer, expires=expires)
    links = _SLOT_LINKS_BYTES if cluster and generation.slots == "links" else 0
    return Blocks(
        entry=size_class(ENTRY_BYTES + links, allocator),
        key=size_class(string_bytes(generation.keys, key_bytes), allocator),
        object=outer,
        expires=expires,
    )


def string_blocks(
    generation: Generation,
    allocator: Allocator,
    *,
    key_bytes: int,
    value_bytes: int,
    integers: bool = False,
    ttl: bool = False,
    cluster: bool = False,
    spare_bytes: int = 0,
) -> Blocks:
    """Blocks of a key with a string, or with a whole number, which lies in its object's pointer.

    Whole numbers below 10,000 share objects up to Valkey 8.0, which is left out.

    Parameters
    ----------
    spare_bytes
        Room behind a string that is no part of another block (`spare_room`).
    """
    blocks = key_blocks(generation, allocator, key_bytes=key_bytes, ttl=ttl, cluster=cluster)
    if integers:
        if generation.numbers_keep_room:
            return blocks._replace(object=object_blocks(generation, allocator, value_bytes)[0])
        return blocks
    if generation.key_in_object:
        inside = embedded_value_bytes(
            generation.keys, key_bytes=key_bytes, value_bytes=value_bytes
        ) + (_EXPIRY_BYTES if ttl else 0)
        # One line, then two (object.c).
        if inside <= (128 if generation.keys == "hashtable_embedded_value" else 64):
            return blocks._replace(object=size_class(inside, allocator))
        whole = string_bytes(generation.keys, value_bytes + spare_bytes)
        return blocks._replace(value=size_class(whole, allocator))
    outer, value = object_blocks(generation, allocator, value_bytes, spare_bytes=spare_bytes)
    return blocks._replace(object=outer, value=value)


# --- collections ----------------------------------------------------------------------------------


PACKED_ENTRIES = {"sorted_set": 128, "hash": 512, "set": 128}
"""Members and fields up to which a collection is packed (zset-max-listpack-entries,
hash-max-listpack-entries, and -ziplist- before; set-max-listpack-entries where a version packs
sets)."""

PACKED_ITEM_BYTES = 64
"""Longest member, field or value that is packed (...-max-listpack-value)."""

INTSET_ENTRIES = 512
"""Members up to which a set of whole numbers is an array of them (set-max-intset-entries)."""

LINKED_LIST_ENTRIES = 512
"""Elements up to which a list of Redis 2.8 is a ziplist (list-max-ziplist-entries)."""

NODE_MOST_BYTES = 8192
"""A quicklist's node takes elements up to here (list-max-listpack-size -2)."""

STREAM_NODE_ENTRIES, STREAM_NODE_BYTES = 100, 4096
"""Entries and bytes of a listpack of a stream at most (stream-node-max-entries and -bytes)."""

_STREAM_BYTES, _TREE_NODE_BYTES = 192, 48
"""A stream with the head of its tree, and what each listpack takes of the tree (rax.c: a compressed
node of up to 16 bytes of an id, a byte and a pointer in the node above)."""

_MOST_ENTRY_BYTES = 128
"""Up to which size a hash's field and value share a block in Valkey from 8.1 and Redis from 8.6 on
(EMBED_VALUE_MAX_ALLOC_SIZE in entry.h; t_hash.c of Valkey 8.1)."""

SKIP_LIST_SHARE = 0.25
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


def element_blocks(
    g: Generation,
    allocator: Allocator,
    data_type: str,
    item_bytes: int,
    value_bytes: int = 0,
) -> list[tuple[str, int]]:
    """Name and bytes of the blocks of one element of a collection that has a table.

    In the order in which a command gets to them, without the node of a skip list. Those of a
    field's value come last and have names that begin with `value`.

    Parameters
    ----------
    item_bytes
        Of the member's, or the field's, name.
    value_bytes
        Of a field's value.
    """
    rules = {"set": g.set_table, "hash": g.hash_table}.get(data_type, g.sorted_set_table)
    entry = ("entry", size_class(ENTRY_BYTES, allocator))
    strings = [("name", item_bytes), *([("value", value_bytes)] if data_type == "hash" else [])]
    if rules == "objects":
        blocks = [entry]
        for name, length in strings:
            outer, string = object_blocks(g, allocator, length)
            blocks += [(f"{name} object", outer), (name, string)] if string else [(name, outer)]
        return blocks
    if rules == "inside":
        if data_type == "sorted_set":
            return []  # the member is in its node
        inside = sds_bytes(item_bytes) + sds_bytes(value_bytes, flags=True)
        if inside <= _MOST_ENTRY_BYTES:
            return [("field", size_class(inside, allocator))]
        # A pointer to the value, and a field whose header has the flag that says so.
        field = 8 + sds_bytes(item_bytes, flags=True)
        value = size_class(sds_bytes(value_bytes), allocator)
        return [("field", size_class(field, allocator)), ("value", value)]
    parts = [(name, size_class(sds_bytes(length), allocator)) for name, length in strings]
    return [entry, *parts] if rules == "entries" else parts


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
    each: float = sum(size for _, size in element_blocks(g, allocator, "set", member_bytes))
    if integers and g.set_table == "objects":
        entry, number = (size_class(size, allocator) for size in (ENTRY_BYTES, OBJECT_BYTES))
        # Those that were an array before are made anew.
        room = each - entry - number if g.numbers_keep_room else 0
        each = entry + (number + room * (1.0 - INTSET_ENTRIES / members))
    kind: TableKind = "dict_direct" if g.set_table == "direct" else g.collection_table
    return _with_table(g, allocator, members, each, kind=kind)


def hash_content(
    g: Generation, allocator: Allocator, *, fields: int, field_bytes: int, value_bytes: int
) -> Content:
    """A hash: packed, or a table."""
    longest = max(field_bytes, value_bytes)
    if fields <= PACKED_ENTRIES["hash"] and longest <= PACKED_ITEM_BYTES:
        return _packed(g, allocator, fields, [(field_bytes, False), (value_bytes, False)])
    blocks = element_blocks(g, allocator, "hash", field_bytes, value_bytes)
    return _with_table(g, allocator, fields, sum(size for _, size in blocks), kind=g.field_table)


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
    if g.sorted_set_table == "inside":
        # Score, way back, member, in Valkey after the length of its header.
        node = 16 + sds_bytes(member_bytes) + (g.engine == "valkey")
    else:
        node = 24  # member, score, way back
    other = sum(size for _, size in element_blocks(g, allocator, "sorted_set", member_bytes))
    mean = 0.0
    for level in range(1, _LEVELS + 1):
        share = SKIP_LIST_SHARE ** (level - 1) * (1.0 - SKIP_LIST_SHARE)
        mean += share * size_class(node + level * _LEVEL_BYTES, allocator)
    return other + mean


def list_content(
    g: Generation, allocator: Allocator, *, elements: int, element_bytes: int
) -> Content:
    """A list, filled from one end: packed, or a chain of packed nodes."""
    if g.lists == "linked":
        if elements <= LINKED_LIST_ENTRIES and element_bytes <= PACKED_ITEM_BYTES:
            return _packed(g, allocator, elements, [(element_bytes, False)])
        each = size_class(g.list_node_bytes, allocator)
        each += sum(object_blocks(g, allocator, element_bytes))
        return Content(size_class(_LINKED_LIST_BYTES, allocator) + elements * each)
    whole = packed_bytes(g, elements, [(element_bytes, False)])
    if g.lists == "packed_first" and whole <= NODE_MOST_BYTES:
        return Content(size_class(whole, allocator))
    node = size_class(g.list_node_bytes, allocator)
    fixed = size_class(g.quicklist_bytes, allocator)
    if g.lists == "packed_first" and element_bytes > NODE_MOST_BYTES:
        # Elements that large are kept as they are (quicklist.c, plain nodes).
        return Content(fixed + elements * (node + size_class(element_bytes, allocator)))
    most = elements_per_node(g, element_bytes)
    full, rest = divmod(elements, most)
    items = full * (node + size_class(packed_bytes(g, most, [(element_bytes, False)]), allocator))
    if rest:
        items += node + size_class(packed_bytes(g, rest, [(element_bytes, False)]), allocator)
    return Content(fixed + items)


def stream_content(
    _g: Generation, allocator: Allocator, *, entries: int, field_bytes: int, value_bytes: int
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


def elements_per_node(g: Generation, element_bytes: int) -> int:
    """Elements that a node takes: a new one is let in by an estimate of what it adds."""
    empty = packed_bytes(g, 0, [])
    each = packed_bytes(g, 1, [(element_bytes, False)]) - empty
    added = element_bytes + g.quicklist_margin_bytes
    if g.packed == "ziplist":
        added = each
    return max(1, (NODE_MOST_BYTES - added - empty) // each + 1)


def packed_bytes(g: Generation, count: int, parts: list[tuple[int, bool]]) -> int:
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
    return Content(size_class(packed_bytes(g, count, parts), allocator))


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
