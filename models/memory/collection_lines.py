"""How collections lie in memory, as far as commands feel it.

Source of the layouts: Valkey's t_zset.c, t_hash.c, t_set.c, intset.c, listpack.c, quicklist.c,
t_stream.c, dict.c and hashtable.c. Small ones are one listpack, which is searched from its front,
or an array of whole numbers; large sorted sets are a hash table and a skip list, large hashes and
sets a hash table. Lists and streams are listpacks of bounded size at any size, streams' under a
tree of ids. Linked lists, which versions up to 3.0 make of long lists, count as listpacks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

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

_REMEMBERED_LINES = 4096
"""Of one kind that a core keeps at hand during a command: 256 KB, the smallest second level of the
hosts that are known (assumed)."""

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
    unpacked = kind.data_type == "set" and kind.encoding == "listpack" and kind.size > g.packed_sets
    if kind.encoding != "table" and not unpacked:
        return [*way, *_packed(kind)]
    if kind.data_type == "sorted_set":
        return [*way, *_sorted_set(kind, g)]
    return [*way, *_table(kind, g, kind.items)]


def _met(touches: float, lines: float, *, in_turn: bool) -> float:
    """Lines that a command waits for, which it may meet again.

    *n* touches of *L* lines at random places meet L(1 - (1 - 1/L)^n) of them; elements that are
    visited in turn, each of them once, meet all up to *L*. What is larger than caches keep in the
    meantime is partly gone at the next touch.

    Parameters
    ----------
    in_turn
        Whether each element is visited once, and not elements at random.
    """
    if touches <= 1.0:
        return touches
    lines = max(1.0, lines)
    met = min(touches, lines) if in_turn else lines * (1.0 - (1.0 - 1.0 / lines) ** touches)
    kept = min(1.0, _REMEMBERED_LINES / lines)
    return kept * met + (1.0 - kept) * touches


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
    chain = 1.0
    if g.collection_table == "hashtable":
        bucket_lines = BUCKET_BYTES * kind.size / hash_table_load(kind.size) / LINE_BYTES
    else:
        buckets = buckets_of("dict", kind.size)
        bucket_lines = POINTER_BYTES * buckets / LINE_BYTES
        chain += kind.size / buckets / 2
    blocks = [
        (name, size_bytes * kind.size / LINE_BYTES, 1.0 if number else chain)
        for number, (name, size_bytes) in enumerate(_blocks(kind, g))
    ]
    if kind.row.touches == "all":
        return [
            _in_a_row("element bucket", bucket_lines),
            *(part for name, lines, _ in blocks for part in _walked(name, lines, touches)),
        ]
    ways = max(1, round(touches))
    return [
        Structure(
            f"element {name}",
            lines,
            _met(touches * each, lines, in_turn=False),
            prefetched=False,
            written=kind.row.writes and name == "value",
            ways=ways,
        )
        for name, lines, each in (("bucket", bucket_lines, 1.0), *blocks)
    ]


def _in_a_row(name: str, lines: float) -> Structure:
    """Lines that are met one after the other, which prefetchers bring from the first on."""
    return Structure(name, lines, 1.0, max(0.0, lines - 1.0), prefetched=False)


def _walked(name: str, lines: float, elements: float) -> Iterator[Structure]:
    """The lines of blocks of all elements, met in the order of a table.

    Elements that were written together, which is assumed, lie together: a walk through a small
    table meets all lines of its pages within microseconds, and prefetchers follow it although it
    jumps. In a large one the next element is elsewhere.
    """
    kept = min(1.0, _REMEMBERED_LINES / lines)
    yield _in_a_row(f"element {name}", kept * lines)
    if kept < 1.0:
        far = (1.0 - kept) * elements
        rest = (1.0 - kept) * lines
        yield Structure(f"scattered {name}", rest, far, prefetched=False, ways=round(far) or 1)


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
    elif kind.row.touches == "range" and "last" in kind.row.words:
        # From the first or last member on, which its head knows.
        searches = 0.0
    elif kind.row.touches == "end":
        searches = 0.0
        found = _table(kind, g, kind.items)
    levels = max(1, round(math.log(max(2, kind.size), 1 / _SKIP_LIST_SHARE)))
    for level in range(levels - 1, -1, -1):
        nodes = kind.size * _SKIP_LIST_SHARE**level
        own = nodes * (1.0 - _SKIP_LIST_SHARE) if level < levels - 1 else nodes
        lines = own * node / LINE_BYTES
        met = _met(searches * min(_NODES_A_LEVEL, nodes), lines, in_turn=False)
        if level == 0:
            met += _met(passed, lines, in_turn=True)
        found.append(Structure(f"level {level}", lines, met, prefetched=False))
    if passed and not embedded:
        names = kind.size * member / LINE_BYTES
        met = _met(passed, names, in_turn=True)
        # A node says where the next one is, so none of them waits for a name.
        ways = max(1, round(passed))
        found.append(Structure("member name", names, met, prefetched=False, ways=ways))
    return found
