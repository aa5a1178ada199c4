"""How collections lie in memory, as far as commands feel it.

Source of the layouts: Valkey's t_zset.c, t_hash.c, t_set.c, intset.c, listpack.c, quicklist.c,
t_stream.c, dict.c and hashtable.c. Small ones are one listpack, which is searched from its front,
or an array of whole numbers; large sorted sets are a hash table and a skip list, large hashes and
sets a hash table. Lists and streams are listpacks of bounded size at any size, streams' under a
tree of ids. A version that packs no small sets has a few lines more of them.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..engines.commands import CommandKind
from ..layouts.allocator import size_class
from ..layouts.collections import MOST_ENTRY_BYTES, hash_field_bytes, stream_entry_bytes
from ..layouts.generations import Generation
from ..layouts.keys import ENTRY_BYTES
from ..layouts.strings import (
    INTSET_HEADER_BYTES,
    integer_bytes,
    listpack_bytes,
    listpack_entry_bytes,
    listpack_integer_bytes,
    object_blocks,
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

WALKED_AT_ONCE = 7.0
"""Elements of a table that an iterator of Valkey 8.1 and later asks for together: those of a bucket
(hashtable.c, prefetchNextBucketEntries)."""

_REMEMBERED_LINES = 4096
"""Of one structure that a core keeps at hand during a command: 256 KB, less than any second level
of the hosts that are known."""

_NODE_BYTES = 48
"""A skip-list node of 1.33 levels on average, without its member."""


def collection_structures(
    kind: CommandKind, g: Generation, *, all_keys: int, key_bytes: int
) -> list[Structure]:
    """The lines that a command on a collection walks through, in order.

    A batched look-up reaches the way to the collection, not what is in it.

    Parameters
    ----------
    g
        The layout of an engine's version.
    all_keys
        Keys of all types, which share one table.
    """
    # The way to a long string without the string.
    way = structures(g.keys, keys=all_keys, key_bytes=key_bytes, value_bytes=1024)[:-1]
    if kind.row.touches == "head":
        # Counts stand at the front of a listpack, or in the head of a table, list or stream.
        return [*way, Structure("header", 1.0, 1.0, prefetched=False)]
    if kind.encoding != "table":
        return [*way, *_packed(kind)]
    if kind.data_type == "sorted_set":
        return [*way, *map(_met_once, _sorted_set(kind, g))]
    return [*way, *map(_met_once, _table(kind, g, kind.items))]


def _met_once(structure: Structure) -> Structure:
    """Without touches of lines that the same command has met before.

    Of *n* touches of *L* lines at random places, L(1 - (1 - 1/L)^n) are of a line that was not
    met. What is too large for the caches of a core is not there any more at the next touch.
    """
    lines = max(1.0, structure.lines_per_key)
    if lines > _REMEMBERED_LINES:
        return structure
    return replace(structure, touches=lines * (1.0 - (1.0 - 1.0 / lines) ** structure.touches))


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


def _table(kind: CommandKind, g: Generation, touches: float) -> list[Structure]:
    """A table of the collection's own, so many elements of which are looked up.

    A walk through all of it (`touches: all`) meets buckets in a row, and each element once. What an
    element consists of follows from the footprint of that generation.
    """
    walked = kind.row.touches == "all"
    blocks = _blocks(kind, g)
    chain, ahead = 1.0, 1.0
    if g.collection_table == "hashtable":
        bucket_lines = BUCKET_BYTES * kind.size / hash_table_load(kind.size) / LINE_BYTES
        ahead = WALKED_AT_ONCE if walked else 1.0
    else:
        buckets = buckets_of("dict", kind.size)
        bucket_lines = POINTER_BYTES * buckets / LINE_BYTES
        chain += 0.0 if walked else kind.size / buckets / 2
    in_a_row = max(0.0, bucket_lines - 1.0) if walked else 0.0
    waits = [chain / ahead, *(1.0 for _ in blocks[1:])]
    return [
        Structure("element bucket", bucket_lines, 1.0 if walked else touches, in_a_row, False),
        *(
            Structure(
                f"element {name}",
                size_bytes * kind.size / LINE_BYTES,
                each * touches,
                prefetched=False,
                written=kind.row.writes and name == "value",
            )
            for (name, size_bytes), each in zip(blocks, waits, strict=True)
        ),
    ]


def _blocks(kind: CommandKind, g: Generation) -> list[tuple[str, int]]:
    """Blocks of memory of an element of a table, in the order in which a command gets to them.

    Without the value of a field where the command wants none and it has a block of its own.
    """
    rules = {"set": g.set_table, "hash": g.hash_table}.get(kind.data_type, g.sorted_set_table)
    item = sds_bytes(kind.item_bytes)
    wanted = kind.data_type == "hash" and ("value" in kind.row.returned or kind.row.writes)
    if rules == "objects":
        lengths = [("name", kind.item_bytes), *([("value", kind.value_bytes)] if wanted else [])]
        parts = [(name, object_blocks(g, "jemalloc", length)) for name, length in lengths]
        strings = [
            (part, size)
            for name, (head, string) in parts
            for part, size in ((f"{name} object" if string else name, head), (name, string))
            if size
        ]
        return [("entry", ENTRY_BYTES), *strings]
    value = size_class(sds_bytes(kind.value_bytes))
    if rules == "inside" and kind.data_type == "hash":
        inside = hash_field_bytes(
            g, "jemalloc", field_bytes=kind.item_bytes, value_bytes=kind.value_bytes
        )
        apart = inside > MOST_ENTRY_BYTES
        field = ("field", inside - value if apart else inside)
        return [field, ("value", value)] if wanted and apart else [field]
    if rules in ("direct", "members"):
        return [("name", size_class(item))]
    if rules == "inside":
        return [("node", size_class(_NODE_BYTES + item))]
    first = ("node", _NODE_BYTES) if rules == "nodes" else ("entry", ENTRY_BYTES)
    return [first, ("name", size_class(item)), *([("value", value)] if wanted else [])]


def _sorted_set(kind: CommandKind, g: Generation) -> list[Structure]:
    member = size_class(sds_bytes(kind.item_bytes))
    embedded = g.sorted_set_table == "inside"
    node = size_class(_NODE_BYTES + sds_bytes(kind.item_bytes)) if embedded else _NODE_BYTES
    searches = 1.0
    found: list[Structure] = []
    passed = float(kind.items)
    if kind.row.touches == "insert":
        # The member's old place is searched for, then its new one.
        searches, passed = 2.0 * kind.items, 0.0
        found = _table(kind, g, kind.items)
    elif kind.row.touches == "search":
        # Scores are in the table; ranks and counts take a descent.
        searches = float(kind.row.reply == "integer")
        passed, named = 0.0, kind.row.words.count("member")
        found = _table(kind, g, named) if named else []
    elif kind.row.touches == "end":
        searches = 0.0
        found = _table(kind, g, kind.items)
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
