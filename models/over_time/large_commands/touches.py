"""Which lines a large command waits for, and how many of each.

A set is visited in the order of its buckets. The buckets of another set, and of a table that is
filled meanwhile, are met in the same order, because all tables share one hash function: they come
in a row and nothing waits for them. What they point to lies where it was allocated, and is
scattered. Sources: t_set.c, dict.c, hashtable.c, db.c of each version. Members that lie in a
listpack or an intset are not modelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...layouts.allocator import size_class
from ...layouts.blocks import sds_bytes
from .work import Layout, buckets_of, moved_entries

_BUCKET_SLOTS = 7
_LINE_BYTES = 64
_CHAIN_WHILE_GROWING = 0.75
"""Entries of a chain that a table holds on average while it grows from half full to full."""

_MATCHING_TAG = 1 / 256
"""Valkey's buckets hold a byte of every entry's hash, which differs but for this share."""

COPIED_SHARE, HASHED_SHARE = 0.6, 0.25
"""What the lines of a string after its first, which come together (as in `lines.Structure`), add to
the wait for that: a core runs ahead and asks for them while it is on its way; less so where the
string is copied, for which its length has to be there, than where it is hashed. Assumed, 0.1 to 1;
from where CPU time goes in SMEMBERS and SINTER of 100,000 members on Redis 7.0 and Valkey 9.1."""

_PAGE_BYTES = 4096
_BOOKS_BYTES_PER_PAGE = 56
"""What jemalloc notes per page: 24 bytes of its map and a header of a few lines per run of one to
seven pages (jemalloc 3.6 arena.h); later ones keep less."""


@dataclass(frozen=True)
class Touch:
    """Waits for lines of one kind.

    Attributes
    ----------
    count
        Lines waited for by the whole command.
    region_bytes
        Over which they are scattered.
    each_bytes
        Of one entry; several small ones share a line.
    together
        How many are fetched at once: an iterator that looks ahead.
    more
        Waits for the lines of one string that follow its first.
    """

    name: str
    count: float
    region_bytes: float
    each_bytes: float
    together: float = 1.0
    more: float = 0.0


@dataclass(frozen=True)
class TouchedSets:
    """Two sets, as far as a command sees them.

    Attributes
    ----------
    first, second
        Members; `second` is 0 for a command on one set.
    shared
        Members that both have.
    same_key
        The command names one key twice.
    member_bytes
        Length of a member.
    """

    first: int
    second: int
    shared: int
    same_key: bool
    member_bytes: int

    @property
    def visited(self) -> int:
        """Members of both, one key counted once."""
        return self.first + (0 if self.same_key else self.second)

    def steps(self, command: str) -> int:
        """Members that are visited: a union goes through both, a key named twice included."""
        return self.first + (self.second or self.first) if command == "sunion" else self.first

    @property
    def union(self) -> int:
        """Members of either."""
        return self.first if self.same_key else self.first + self.second - self.shared

    def result(self, command: str) -> int:
        """Members of the reply."""
        if command == "sinter":
            return self.first if self.same_key else self.shared
        if command == "sunion":
            return self.union
        if command == "sdiff":
            return 0 if self.same_key else self.first - self.shared
        return self.first


def _entry_bytes(layout: Layout) -> int:
    return {"objects": 32, "dict": 24, "hashtable": 0}[layout]


def string_bytes(layout: Layout, member_bytes: int) -> int:
    """Bytes of a member's string; Redis 2.8 has a header of 8 and no classes below 16 apart."""
    if layout == "objects":
        return size_class(8 + member_bytes + 1)
    return size_class(sds_bytes(member_bytes))


def following_lines(string_bytes_used: float) -> float:
    """Lines that a string at a multiple of 8 bytes has beyond its first, on average."""
    offsets = range(0, _LINE_BYTES, 8)
    return sum(-(-(o + string_bytes_used) // _LINE_BYTES) - 1 for o in offsets) / len(offsets)


def member_memory_bytes(layout: Layout, members: float, member_bytes: int) -> float:
    """What a set takes, its table included, by its number of members."""
    each = _entry_bytes(layout) + string_bytes(layout, member_bytes)
    each += 16 if layout == "objects" else 0
    bucket = 64 if layout == "hashtable" else 8
    return members * each + bucket * buckets_of(layout, members)


class _Counter:
    """Adds up touches of entries, objects and strings of one layout."""

    def __init__(self, layout: Layout, members: float, member_bytes: int) -> None:
        self.layout = layout
        self._sizes = {
            "entries": _entry_bytes(layout),
            "objects": 16 if layout == "objects" else 0,
            "strings": string_bytes(layout, member_bytes),
        }
        self._members = members
        self._more = min(1.0, following_lines(member_bytes + (9 if layout == "objects" else 4)))
        self._rows: list[Touch] = []

    def add(self, name: str, count: float, *, together: float = 1.0, more: float = 0.0) -> None:
        size = self._sizes[name]
        if size and count > 0:
            region = size * self._members
            self._rows.append(Touch(name, count, region, size, together, more))

    def other(self, name: str, count: float, region_bytes: float, each_bytes: float) -> None:
        self._rows.append(Touch(name, count, region_bytes, each_bytes))

    def iterate(self, members: float) -> None:
        self.add("entries", members)
        self.add("objects", members)

    def strings(self, members: float, *, copied: bool) -> None:
        """Whole strings, read to be copied or hashed."""
        # Valkey's iterator fetches the first lines of a bucket's entries before it returns one.
        self.add(
            "strings",
            members,
            together=_BUCKET_SLOTS if self.layout == "hashtable" else 1.0,
            more=self._more * (COPIED_SHARE if copied else HASHED_SHARE),
        )

    def compare(self, chains: float) -> None:
        """Entries of a chain, each of which has to be read to be told from another."""
        for name in ("entries", "objects", "strings"):
            self.add(name, chains)

    def build(self, members: float) -> None:
        """A table for the result, which is then visited to be sent.

        Redis 2.8 puts the same objects into it, later ones copies, which lie in the order in which
        they were made. A dict is half moved then, and visited in another order; Valkey's table is
        not, and its members come in a row.
        """
        if self.layout == "objects":
            for name in ("objects", "strings"):
                self.add(name, _CHAIN_WHILE_GROWING * members + moved_entries("objects", members))
            # Sent, then released.
            self.add("objects", 2.0 * members)
        if self.layout != "hashtable":
            self.add("entries", members)
            self.strings(members, copied=True)

    def rows(self) -> list[Touch]:
        return self._rows


def set_touches(command: str, sets: TouchedSets, layout: Layout) -> Sequence[Touch]:
    """Lines that SMEMBERS, SINTER, SUNION or SDIFF waits for."""
    count = _Counter(layout, sets.visited, sets.member_bytes)
    first, second = sets.first, sets.second
    if command == "sdiff" and sets.same_key:
        # Redis 2.8 visits every member to find that it is to be left out; later ones look first.
        if layout == "objects":
            count.iterate(first)
        return count.rows()
    if command in ("smembers", "sinter", "sdiff"):
        count.iterate(first)
        count.strings(first, copied=command == "smembers" or sets.same_key)
    if command in ("sinter", "sdiff") and not sets.same_key:
        load = second / buckets_of(layout, second)
        absent = first - sets.shared
        if layout == "hashtable":
            count.add("strings", sets.shared + load * _MATCHING_TAG * absent)
        else:
            count.compare(sets.shared * (1.0 + load / 2.0) + load * absent)
    if command == "sunion":
        count.iterate(first + (first if sets.same_key else second))
        count.strings(first + (first if sets.same_key else second), copied=True)
    if command == "sunion" or (command == "sdiff" and sets.result(command)):
        count.build(sets.result(command))
    return count.rows()


def keys_touches(layout: Layout, keys: int, key_bytes: int) -> Sequence[Touch]:
    """Lines that KEYS waits for: every entry and its name."""
    count = _Counter(layout, keys, key_bytes)
    count.add("entries", keys)
    count.strings(keys, copied=True)
    return count.rows()


def flush_touches(layout: Layout, members: float, member_bytes: int) -> Sequence[Touch]:
    """Lines that freeing all members waits for: each of them, and the allocator's books.

    jemalloc looks up the page of what is freed and the run it belongs to, 3.6 once for the size and
    once to free it, in two places; later ones have one line a slab.
    """
    count = _Counter(layout, members, member_bytes)
    if layout == "hashtable":
        count.add("strings", members)
        return count.rows()
    count.add("entries", members)
    count.add("objects", members)
    if layout == "dict":
        # How long a string's header is stands in it (sdsfree); in 2.8 all are alike.
        count.add("strings", members)
    total = member_memory_bytes(layout, members, member_bytes)
    books = total / _PAGE_BYTES * _BOOKS_BYTES_PER_PAGE
    lines = 2.0 * 3.0 if layout == "objects" else 2.0
    count.other("allocator's books", lines * members, books, 64.0)
    return count.rows()


def load_touches(
    layout: Layout, members: float, member_bytes: int, *, sets: int
) -> Sequence[Touch]:
    """Lines that a bulk load waits for, by members and sets, one set after the other.

    Of one set at a time: a bucket (of a dict two, because it is being moved all the while), the
    entries of its chain, and those that are moved, which have to be read to be hashed again.
    """
    each = members / max(1, sets)
    count = _Counter(layout, each, member_bytes)
    bucket_bytes = 64 if layout == "hashtable" else 8
    region = bucket_bytes * buckets_of(layout, each)
    tables = 1.0 if layout == "hashtable" else 2.0
    count.other("buckets", tables * members, region, bucket_bytes)
    moved = max(1, sets) * moved_entries(layout, each)
    if layout == "hashtable":
        count.add("strings", moved)
    else:
        count.compare(_CHAIN_WHILE_GROWING * members)
        count.compare(moved)
    return count.rows()
