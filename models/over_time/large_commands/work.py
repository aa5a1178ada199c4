"""What large commands do per member, and which lines of memory they wait for, by engine version.

Instructions were counted (`evidence/counts/large_command_counts.py`), in files of `engines/`. Which
lines a command waits for follows from the layouts of `models/layouts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import parse, read_yaml, shipped
from forecache.hwprofiles.quantity import Quantity, Source, ranges_of
from forecache.hwprofiles.record import Record as _Record
from forecache.sim.errors import InputError

from ...layouts import blocks, tables
from ...layouts.allocator import PAGE_BYTES, size_class
from ...memory.lines import LINE_BYTES
from ...prediction.uncertainty import Drawn, draw_ranges
from ...results.intervals import RelativeError
from ...scenario.versions import find_version, is_newer, version_numbers

Layout = Literal["objects", "dict", "hashtable"]
"""How members lie in memory: Redis to 3.2 (entry, object, string), Redis 4 to 7.4 and Valkey to 8.0
(entry, string), Valkey 8.1 on (a bucket of seven, string)."""

Growth = Literal["whole_copies", "size_classes"]

COUNTED = (
    *("import_inline", "import_protocol", "smembers", "sinter_same", "sinter_equal"),
    *("sinter_disjoint", "sunion_same", "sunion_equal", "sunion_disjoint", "sdiff_same"),
    *("sdiff_equal", "sdiff_disjoint", "flushdb", "keys"),
)
"""Commands that are counted: `same` names one key twice, `equal` two keys with the same members."""


class Counted(_Record):
    """Instructions per member, per byte of a member, and per entry that a growing table moves."""

    member: Quantity
    byte: Quantity
    moved: Quantity | None = None


class ClientWork(_Record):
    """What the command-line client of that version does with a reply, and to send a bulk load."""

    reply: Counted
    pipe: Counted
    growth: Growth
    """How the text it prints grows: its string gets a MiB at a time, for which jemalloc before 4.0
    copies all of it once per chunk of 4 MiB (huge_ralloc), and later ones once per size class."""

    def drawn(self, draw: Drawn) -> ClientWork:
        """The same with each counted number drawn within its range."""
        parts = {
            name: _drawn(getattr(self, name), f"client.{name}", draw) for name in ("reply", "pipe")
        }
        return self.model_copy(update=parts)


def _drawn(work: Counted, part: str, draw: Drawn) -> Counted:
    leaves = {name: leaf for name, leaf in work if leaf is not None}
    drawn = draw_ranges(part, ranges_of(leaves), draw)
    return work.model_copy(
        update={
            name: leaves[name].model_copy(update={"value": value}) for name, value in drawn.items()
        }
    )


class LargeErrors(_Record):
    """How far off an engine's commands were, of those that were measured; nothing is fitted to
    them."""

    main_thread: RelativeError
    """CPU time of the main thread."""
    lasts: RelativeError
    """Time until the client has printed all of it."""


class LargeWork(_Record):
    """One engine version."""

    id: str
    engine: str
    version: str
    versions: list[str]
    """Versions of this engine that it stands for; others of `relatives` besides."""
    relatives: dict[str, list[str]] = Field(default={})
    layout: Layout
    lazy_free: bool
    """Whether FLUSHDB can free in the background."""
    lazy_free_default: bool = False
    """Whether it does so unless told otherwise."""
    sources: dict[str, Source]
    instructions: dict[str, Counted]
    client: ClientWork | None = None
    errors: LargeErrors

    @model_validator(mode="after")
    def _complete(self) -> LargeWork:
        different = set(COUNTED) ^ set(self.instructions)
        if different:
            raise ValueError(f"one entry under instructions for each command: {min(different)}")
        return self

    def drawn(self, draw: Drawn) -> LargeWork:
        """The same with each counted number drawn within its range."""
        client = self.client
        counted = {
            name: _drawn(work, f"large commands.{name}", draw)
            for name, work in self.instructions.items()
        }
        changed: dict[str, Any] = {"instructions": counted}
        if client is not None:
            changed["client"] = client.drawn(draw)
        return self.model_copy(update=changed)

    def instructions_of(
        self, command: str, *, members: float, member_bytes: float, built: float = 0.0
    ) -> float:
        """Instructions of a counted command.

        Parameters
        ----------
        members
            Of the first set; of all that is freed, found or loaded for `flushdb`, `keys` and
            imports.
        built
            Members of a table that the command fills.
        """
        work = self.instructions[command]
        total = members * (work.member.best + work.byte.best * member_bytes)
        if work.moved is not None:
            total += work.moved.best * moved_entries(self.layout, built)
        return max(0.0, total)


def buckets_of(layout: Layout, members: float) -> int:
    """Buckets of a table, by its number of entries; four at least."""
    kind: tables.TableKind = "hashtable" if layout == "hashtable" else "dict"
    return max(4, tables.buckets_of(kind, int(members)))


def moved_entries(layout: Layout, members: float) -> float:
    """Entries that a table moved while it grew to its size, one by one.

    Each addition moves a bucket. A dict of Redis doubles when it has as many entries as buckets, so
    a bucket has one entry, and the move ends when the next one begins: a dict that is filled moves
    one entry per addition all the time, and is halfway through when it stops. Valkey's table
    doubles at seven entries a bucket and has moved all of them a seventh of the way to the next.
    """
    if members < 1:
        return 0.0
    if layout == "hashtable":
        return tables.BUCKET_SLOTS * max(0.0, buckets_of(layout, members) - 1.0)
    return max(0.0, members - 4.0)


@dataclass(frozen=True)
class ChosenWork:
    """The work to use for a version, and whether it was counted on that very one."""

    work: LargeWork
    counted: bool
    taken_as: str | None = None
    """The newest known version, where the one that was asked for is newer than that."""


@lru_cache(maxsize=1)
def all_work() -> Mapping[str, LargeWork]:
    """All shipped files by id."""
    files = shipped("forecache.models.over_time.large_commands", "engines")
    return {name: parse(LargeWork, read_yaml(files[name]), file=files[name]) for name in files}


def load_work(engine: str, version: str) -> ChosenWork:
    """The work of an engine version; that of the newest known for one that is newer than it.

    Raises
    ------
    InputError
        Nothing like it was counted.
    """
    found: dict[str, dict[str, ChosenWork]] = {}
    for work in all_work().values():
        found.setdefault(work.engine, {})[work.version] = ChosenWork(work, counted=True)
        for name, versions in {**work.relatives, work.engine: work.versions}.items():
            for each in versions:
                found.setdefault(name, {}).setdefault(each, ChosenWork(work, counted=False))
    others = "; the work of large commands on other versions was not counted."
    if engine not in found:
        raise InputError(
            f"field 'engine': found {engine!r}; valid is one of {', '.join(sorted(found))}{others}"
        )
    known = find_version(version, found[engine])
    if known is None:
        valid = ", ".join(sorted(found[engine], key=version_numbers))
        raise InputError(
            f"field 'engine_version': found {version!r}; valid for {engine} is one of {valid}"
            f"{others}"
        )
    if is_newer(version, found[engine]):
        return replace(found[engine][known], counted=False, taken_as=known)
    return found[engine][known]


# --- which lines a command waits for, and how many of each ----------------------------------------

# A set is visited in the order of its buckets. The buckets of another set, and of a table that is
# filled meanwhile, are met in the same order, because all tables share one hash function: they come
# in a row and nothing waits for them. What they point to lies where it was allocated, and is
# scattered. Sources: t_set.c, dict.c, hashtable.c, db.c of each version. Members that lie in a
# listpack or an intset are not modelled.


_CHAIN_WHILE_GROWING = 0.75
"""Entries of a chain that a table holds on average while it grows from half full to full."""

_MATCHING_TAG = 1 / 256
"""Valkey's buckets hold a byte of every entry's hash, which differs but for this share."""

COPIED_SHARE, HASHED_SHARE = 0.6, 0.25
"""What the lines of a string after its first, which come together (as in `lines.Structure`), add to
the wait for that: a core runs ahead and asks for them while it is on its way; less so where the
string is copied, for which its length has to be there, than where it is hashed. Assumed, 0.1 to 1;
from where CPU time goes in SMEMBERS and SINTER of 100,000 members on Redis 7.0 and Valkey 9.1."""

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


_ENTRY_BYTES: dict[Layout, int] = {
    "objects": size_class(blocks.ENTRY_BYTES, "jemalloc_3"),
    "dict": size_class(blocks.ENTRY_BYTES),
    "hashtable": 0,
}


def string_bytes(layout: Layout, member_bytes: int) -> int:
    """Bytes of a member's string."""
    return size_class(blocks.string_bytes(layout, member_bytes))


def following_lines(string_bytes_used: float) -> float:
    """Lines that a string at a multiple of 8 bytes has beyond its first, on average."""
    offsets = range(0, LINE_BYTES, 8)
    return sum(-(-(o + string_bytes_used) // LINE_BYTES) - 1 for o in offsets) / len(offsets)


def member_memory_bytes(layout: Layout, members: float, member_bytes: int) -> float:
    """What a set takes, its table included, by its number of members."""
    each = _ENTRY_BYTES[layout] + string_bytes(layout, member_bytes)
    each += blocks.OBJECT_BYTES if layout == "objects" else 0
    return members * each + _bucket_bytes(layout) * buckets_of(layout, members)


def _bucket_bytes(layout: Layout) -> int:
    return tables.BUCKET_BYTES if layout == "hashtable" else tables.POINTER_BYTES


class _Counter:
    """Adds up touches of entries, objects and strings of one layout."""

    def __init__(self, layout: Layout, members: float, member_bytes: int) -> None:
        self.layout = layout
        self._sizes = {
            "entries": _ENTRY_BYTES[layout],
            "objects": blocks.OBJECT_BYTES if layout == "objects" else 0,
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
            together=tables.BUCKET_SLOTS if self.layout == "hashtable" else 1.0,
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
    books = total / PAGE_BYTES * _BOOKS_BYTES_PER_PAGE
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
    bucket_bytes = _bucket_bytes(layout)
    region = bucket_bytes * buckets_of(layout, each)
    met = 1.0 if layout == "hashtable" else 2.0
    count.other("buckets", met * members, region, bucket_bytes)
    moved = max(1, sets) * moved_entries(layout, each)
    if layout == "hashtable":
        count.add("strings", moved)
    else:
        count.compare(_CHAIN_WHILE_GROWING * members)
        count.compare(moved)
    return count.rows()
