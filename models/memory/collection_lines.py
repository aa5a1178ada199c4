"""How collections lie in memory, as far as commands feel it.

Source of the layouts: Valkey's t_zset.c, t_hash.c, t_set.c, intset.c, listpack.c, quicklist.c,
t_stream.c, dict.c and hashtable.c. Small ones are one listpack, which is searched from its front,
or an array of whole numbers; large sorted sets are a hash table and a skip list, large hashes and
sets a hash table. Lists and streams are listpacks of bounded size at any size, streams' under a
tree of ids. A version that packs no small sets has a few lines more of them.
"""

from __future__ import annotations

import math

from ..engines.commands import CommandKind
from ..layouts.allocator import size_class
from ..layouts.collections import stream_entry_bytes
from ..layouts.keys import ENTRY_BYTES
from ..layouts.strings import (
    INTSET_HEADER_BYTES,
    integer_bytes,
    listpack_bytes,
    listpack_entry_bytes,
    listpack_integer_bytes,
    sds_bytes,
)
from ..layouts.tables import BUCKET_BYTES, POINTER_BYTES, buckets_of, hash_table_load
from .key_lines import structures
from .lines import LINE_BYTES, Structure

_SKIP_LIST_SHARE = 0.25
"""ZSKIPLIST_P: share of the nodes of one level that reach the next."""

_NODES_A_LEVEL = 3.0
"""Nodes a descent meets on each level and on no level above: 1/p - 1 (W. Pugh, Skip Lists, CACM
33(6), 1990: 1/p comparisons a level, one of which is with a node met before)."""

_SCORE_DIGITS = 6
"""Of a score, a whole number (assumed)."""

_NODE_BYTES = 48
"""A skip-list node of 1.33 levels on average, without its member."""


def collection_structures(
    kind: CommandKind, layout: str, *, all_keys: int, key_bytes: int
) -> list[Structure]:
    """The lines that a command on a sorted set or a hash walks through, in order.

    A batched look-up reaches the way to the collection, not what is in it.

    Parameters
    ----------
    layout
        One of `layouts.LAYOUTS`.
    all_keys
        Keys of all types, which share one table.
    """
    # The way to a long string without the string.
    way = structures(layout, keys=all_keys, key_bytes=key_bytes, value_bytes=1024)[:-1]
    if kind.row.touches == "head":
        # Counts stand at the front of a listpack, or in the head of a table, list or stream.
        return [*way, Structure("header", 1.0, 1.0, prefetched=False)]
    if kind.encoding != "table":
        return [*way, *_packed(kind)]
    if kind.data_type == "sorted_set":
        return [*way, *_sorted_set(kind, layout)]
    if kind.data_type == "hash":
        return [*way, *_hash(kind, layout)]
    return [*way, *_members(kind, layout, kind.items, name="member")]


_OWN_LINES = {"quicklist": 2.0, "stream": 3.0}
"""Lines in front of the first block: the list and its node; the stream and two of its tree."""


def packed_entry_bytes(kind: CommandKind) -> int:
    """One entry of a listpack, a ziplist or an array of whole numbers."""
    if kind.encoding == "intset":
        return integer_bytes(kind.item_bytes)
    if kind.encoding == "stream":
        return stream_entry_bytes(kind.value_bytes)
    name_bytes = listpack_entry_bytes(kind.item_bytes)
    if kind.data_type == "sorted_set":
        return name_bytes + listpack_integer_bytes(_SCORE_DIGITS)
    return name_bytes + (listpack_entry_bytes(kind.value_bytes) if kind.data_type == "hash" else 0)


def _packed(kind: CommandKind) -> list[Structure]:
    """One block, or those of a list or a stream, each of which lies in a row.

    A search goes through half a block, one in an array of whole numbers halves it again and again;
    a seek starts at the nearer end.
    """
    entries = kind.packed_entries * packed_entry_bytes(kind)
    block_bytes = (
        INTSET_HEADER_BYTES + entries if kind.encoding == "intset" else listpack_bytes(entries)
    )
    blocks = kind.size / kind.packed_entries
    seeks = {"index", "id"} & {*kind.row.words}
    part = {
        "search": 0.0 if kind.encoding == "intset" else 0.5 / blocks,
        "range": min(1.0, (0.25 / blocks if seeks else 0.0) + kind.items / kind.size),
        "end": 0.0,
    }
    share = part.get(kind.row.touches, 1.0)
    touched = share * block_bytes * blocks / LINE_BYTES
    waits = max(1.0, share * blocks)
    if kind.encoding == "intset" and kind.row.touches == "search":
        waits = max(1.0, math.log2(max(1.0, block_bytes / LINE_BYTES)))
    own = _OWN_LINES.get(kind.encoding, 0.0)
    front = [Structure("list", own, own, prefetched=False)] if own else []
    return [
        *front,
        Structure(
            "listpack",
            blocks * size_class(block_bytes) / LINE_BYTES,
            waits,
            followers=max(0.0, touched - waits) / waits,
            prefetched=False,
        ),
    ]


def _members(kind: CommandKind, layout: str, touches: float, *, name: str) -> list[Structure]:
    """A table of the collection's own: buckets and entries with the names inside or beside."""
    item = size_class(sds_bytes(kind.item_bytes))
    if not layout.startswith("hashtable"):
        buckets = buckets_of("dict", kind.size)
        rows: list[tuple[str, float, float]] = [
            ("bucket", POINTER_BYTES * buckets, 1.0),
            ("entry", ENTRY_BYTES * kind.size, 1.0 + kind.size / buckets / 2),
            ("name", item * kind.size, 1.0),
        ]
    else:
        rows = [
            ("bucket", BUCKET_BYTES * kind.size / hash_table_load(kind.size), 1.0),
            ("entry", size_class(8 + sds_bytes(kind.item_bytes)) * kind.size, 1.0),
        ]
    return [
        Structure(f"{name} {part}", size / LINE_BYTES, each * touches, prefetched=False)
        for part, size, each in rows
    ]


def _hash(kind: CommandKind, layout: str) -> list[Structure]:
    found = _members(kind, layout, kind.items, name="field")
    if "value" not in kind.row.returned and not kind.row.writes:
        return found
    value = size_class(sds_bytes(kind.value_bytes)) * kind.size / LINE_BYTES
    written = kind.row.writes
    return [*found, Structure("field value", value, kind.items, prefetched=False, written=written)]


def _sorted_set(kind: CommandKind, layout: str) -> list[Structure]:
    member = size_class(sds_bytes(kind.item_bytes))
    embedded = layout == "hashtable_embedded_value"
    node = size_class(_NODE_BYTES + sds_bytes(kind.item_bytes)) if embedded else _NODE_BYTES
    searches = 1.0
    found: list[Structure] = []
    passed = float(kind.items)
    if kind.row.touches == "insert":
        # The member's old place is searched for, then its new one.
        searches, passed = 2.0 * kind.items, 0.0
        found = _members(kind, layout, kind.items, name="member")
    elif kind.row.touches == "search":
        # Scores are in the table; ranks and counts take a descent.
        searches = float(kind.row.reply == "integer")
        passed, named = 0.0, kind.row.words.count("member")
        found = _members(kind, layout, named, name="member") if named else []
    elif kind.row.touches == "end":
        searches = 0.0
        found = _members(kind, layout, kind.items, name="member")
    levels = max(1, round(math.log(max(2, kind.size), 1 / _SKIP_LIST_SHARE)))
    for level in range(levels - 1, -1, -1):
        nodes = kind.size * _SKIP_LIST_SHARE**level
        touches = searches * min(_NODES_A_LEVEL, nodes) + (passed if level == 0 else 0.0)
        own = nodes * (1.0 - _SKIP_LIST_SHARE) if level < levels - 1 else nodes
        found.append(
            Structure(f"level {level}", own * node / LINE_BYTES, touches, prefetched=False)
        )
    if passed and not embedded:
        names = kind.size * member / LINE_BYTES
        found.append(Structure("member name", names, passed, prefetched=False))
    return found
