"""How long a server, or the child that it forks, takes to write all data into a file.

Work x speed = time. Instructions by type, version, compression and checksum were counted
(`evidence/counts/save_counts.py`) and lie in `saving.yaml`. The writer goes through the tables
bucket by bucket, and what these point to lies anywhere: it waits for the blocks of every key
(`layouts/`) in DRAM where the data are larger than the last cache. Every 4 KiB of the file is a
call to the kernel, which copies them into the page cache; a disk that is slower than all this sets
the pace.

Read for behaviour in rdb.c (`rdbSaveDb`, `rdbSaveObject`, `rdbSaveRawString`), rio.c and lzf_c.c of
Redis 7.0 and Valkey 8.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from forecache.hwprofiles import load_host
from forecache.hwprofiles.files import parse, read_yaml
from forecache.hwprofiles.quantity import Source
from forecache.hwprofiles.record import Record
from forecache.hwprofiles.speed import HostSpeed

from ..layouts.allocator import PAGE_BYTES, Allocator
from ..layouts.blocks import (
    INTSET_ENTRIES,
    INTSET_HEADER_BYTES,
    LINKED_LIST_ENTRIES,
    PACKED_ENTRIES,
    PACKED_ITEM_BYTES,
    element_blocks,
    elements_per_node,
    integer_bytes,
    key_blocks,
    listpack_bytes,
    listpack_entry_bytes,
    packed_bytes,
    stream_entry_bytes,
    stream_node_entries,
    string_blocks,
    string_bytes,
)
from ..layouts.generations import Generation
from ..memory.caches import beyond, page_walk_ns
from ..prices.table import host_of
from .limits import ANY_PAGES, Child, Touched
from .schema import (
    Forking,
    Hashes,
    Lists,
    MemoryScenario,
    Population,
    Sets,
    SortedSets,
    Streams,
    Strings,
)
from .weigh import KeyBytes, NodeFootprint, beside_of, key_table, node_of, weigh

FILE_WRITE_NS = 450.0
"""One write to a file beside its bytes: the way through the file system into the page cache. 300 to
400 ns on tmpfs and ext4 of a Zen 5 guest (`python benchmarks/file_writes.py`); assumed range: 250
to 2,000."""

FILE_BYTE_NS = 0.45
"""A byte of it: pages of the cache are found, filled and marked to be written back. 0.36 ns on
tmpfs and 0.46 on ext4 of that guest; assumed range: 0.25 to 1.2."""

SAVED_BYTE_NS = 1.0
"""Kernel time of a byte of a snapshot: written in pieces of 4 KiB, and handed to the disk before
the file is complete (fsync). 2 to 3.6 ns in children of a Zen 3 guest on ext4 whose cores were 1.6
times slower than in calm times (docs/forks.md); assumed range: 0.45 to 2.6."""

_COMPRESSED_FROM_BYTES = 21
"""Strings longer than 20 bytes are compressed if they can be (rdbSaveRawString)."""

_LONG_BYTES = 1024

_LITERAL_POWER = 1.3
"""Between strings that don't compress and those that do wholly, instructions a byte grow with this
power of what is left (counted: records in JSON, of which 0.53 and 0.63 are left)."""

_PREFETCHED = 0.25
"""Of the waits for blocks, what is left where the iterator of the table asks for the next ones in
advance (hashtable.c, HASHTABLE_ITER_PREFETCH_VALUES; assumed, 0.1 to 0.6)."""


class SavingNumbers(Record):
    """Instructions of one version, as counted.

    Attributes
    ----------
    generations
        Versions that have these (`Generation.name`).
    source
        Name of what they were counted on.
    key
        To write a key of 16 bytes, by type: `string`, `integer` (a string that is one), `list`,
        `set`, `hash`, `sorted_set`, `stream`; without the bytes of its value.
    item
        And each member, field, element of a linked list, or node of a list or stream, where it is
        written by itself.
    expiry
        A time to live.
    byte
        A byte of what is written.
    tried, literal_byte, matched_byte
        To compress a string: each one that is tried; a byte that stays, and one that falls away.
    checked_write, checked_byte, checked_long_byte
        A checksum: for each write, which a key has five of and a member two, and for each byte;
        beyond a KiB of a string the code is another from Valkey 8.1 on (crcspeed.c).
    """

    generations: tuple[str, ...]
    source: str
    key: dict[str, float]
    item: dict[str, float]
    expiry: float
    byte: float
    tried: float
    literal_byte: float
    matched_byte: float
    checked_write: float
    checked_byte: float
    checked_long_byte: float


class _Shipped(Record):
    sources: dict[str, Source]
    versions: list[SavingNumbers]


@lru_cache(maxsize=1)
def saving_numbers() -> Mapping[str, SavingNumbers]:
    """What was counted, by the name of the generation."""
    file = Path(str(resources.files(__package__) / "saving.yaml"))
    rows = parse(_Shipped, read_yaml(file), file=file).versions
    return {name: row for row in rows for name in row.generations}


class SavingDoubts(NamedTuple):
    """What of it is known as a range, or a draw of that.

    Attributes
    ----------
    instructions
        Factor on all counts: other compilers and architectures.
    waited
        Share of the waits for blocks that a core can't do anything else in.
    left
        What compression leaves of a byte of values and members.
    looked_up
        Waits for the second cache that compression has for each byte that stays: it looks it up in
        a table of 64 Ki places (lzf_c.c).
    scattered
        Share of the blocks of a collection that don't lie beside each other, so that each is waited
        for: few where it was filled at once, all where it grew in turn with others.
    saved_byte_ns
        Kernel time of a byte of the file.
    """

    instructions: float = 1.0
    waited: float = 0.8
    left: float = 0.65
    looked_up: float = 0.35
    scattered: float = 0.2
    saved_byte_ns: float = SAVED_BYTE_NS


SAVING_RANGES = {
    "instructions": (0.85, 1.0, 1.2),
    "waited": (0.4, 0.8, 1.1),
    "left": (0.05, 0.65, 1.0),
    "looked_up": (0.1, 0.35, 0.8),
    "scattered": (0.1, 0.2, 1.0),
    "saved_byte_ns": (0.45, SAVED_BYTE_NS, 2.6),
}
"""(low, value, high) by the field of `SavingDoubts` (assumed). Compression leaves 0.53 to 0.65 of
records in JSON with 1 to 10 KB, all of random letters, a hundredth of one letter."""

EXPECTED = SavingDoubts()


class Writer(NamedTuple):
    """How fast a core writes.

    Attributes
    ----------
    rate_per_ns
        Instructions of user code.
    own_ns, near_ns, far_ns
        Waits for a line in the second cache, in the last one, and in DRAM with the way to its page.
    cache_bytes
        Of the last cache.
    stream_ns_per_byte
        Of long values out of DRAM.
    """

    rate_per_ns: float = 9.0
    own_ns: float = 4.0
    near_ns: float = 20.0
    far_ns: float = 130.0
    cache_bytes: float = 32e6
    stream_ns_per_byte: float = 0.05


SOME_WRITER = Writer()
"""Of a machine that isn't known (assumed: the catalogue's hosts have 7 to 16 instructions a ns)."""


def writer_of(speed: HostSpeed, data_bytes: float) -> Writer:
    """That of a host, whose data are so many bytes."""
    return Writer(
        rate_per_ns=speed.user_ipc * speed.clock_ghz,
        own_ns=speed.l2_ns,
        near_ns=speed.l3_ns,
        far_ns=speed.dram_ns + page_walk_ns(speed, data_bytes),
        cache_bytes=speed.l3_bytes,
        stream_ns_per_byte=speed.dram_copy_ns_per_byte,
    )


# --- what there is to write -----------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """What one key of a population is in a file.

    Attributes
    ----------
    kind
        Of the key (`SavingNumbers.key`).
    items
        Members, fields, elements or nodes that are written one by one.
    item_kind
        Of them.
    item_writes
        Calls for each.
    strings
        (bytes, how many) of the strings that values and items are, its name among them.
    blocks, item_blocks, block_share
        Blocks of memory that the writer comes to, of the key and of its items, and which share of
        the waits for these is left.
    expiring
        Share of the keys that have a time to live.
    """

    kind: str
    strings: tuple[tuple[float, float], ...]
    blocks: float
    item_blocks: float
    block_share: float
    items: float = 0.0
    item_kind: str = ""
    item_writes: float = 2.0
    expiring: float = 0.0

    @property
    def bytes(self) -> float:
        """All strings."""
        return sum(length * count for length, count in self.strings)

    @property
    def tried_bytes(self) -> float:
        """Of strings that are long enough to be compressed."""
        tried = (pair for pair in self.strings if pair[0] >= _COMPRESSED_FROM_BYTES)
        return sum(length * count for length, count in tried)

    @property
    def long_bytes(self) -> float:
        """Of strings beyond their first KiB."""
        return sum(max(0.0, length - _LONG_BYTES) * count for length, count in self.strings)

    @property
    def writes(self) -> float:
        """Calls that pass on what is written: a type, and a length and bytes of every string."""
        return (4.0 if self.kind == "integer" else 5.0) + self.item_writes * self.items

    def file_bytes(self, *, left: float = 1.0) -> float:
        """Size in the file; `left` is what compression leaves of long strings."""
        total = 1.0 + 9.0 * self.expiring
        for length, count in self.strings:
            kept = left if length >= _COMPRESSED_FROM_BYTES else 1.0
            total += count * (_length_bytes(length) + length * kept)
        scores = 8.0 * self.items * (self.item_kind == "sorted_set")
        return total + scores + (_length_bytes(self.items) if self.items else 0.0)

    def instructions(
        self, numbers: SavingNumbers, *, compression: bool, checksum: bool, left: float
    ) -> float:
        """To write the key."""
        total = numbers.key[self.kind] + self.expiring * numbers.expiry
        total += self.items * numbers.item.get(self.item_kind, numbers.item["list"])
        total += numbers.byte * self.bytes
        if compression:
            more = numbers.literal_byte - numbers.matched_byte
            each_byte = numbers.matched_byte + more * left**_LITERAL_POWER
            for length, count in self.strings:
                if length >= _COMPRESSED_FROM_BYTES:
                    total += count * (numbers.tried + length * each_byte)
        if checksum:
            left = left if compression else 1.0
            long = left * self.long_bytes
            total += numbers.checked_write * self.writes + numbers.checked_long_byte * long
            total += numbers.checked_byte * (self.file_bytes(left=left) - long)
        return total


def _length_bytes(length: float) -> int:
    """Bytes that a length takes in a file (`rdbSaveLen`)."""
    return 1 if length < 1 << 6 else 2 if length < 1 << 14 else 5


def written(g: Generation, population: Population) -> Written:
    """What one key of a population is in a file of a generation."""
    prefetched = _PREFETCHED if g.keys.startswith("hashtable") else 1.0
    strings, items, inside = _strings_of(g, population)
    kind: str = population.type
    if isinstance(population, Strings):
        kind = "integer" if population.integers else "string"
        size = max(length for length, _ in population.sizes)
        blocks = string_blocks(
            g,
            g.allocator,
            key_bytes=population.key_bytes,
            value_bytes=size,
            integers=population.integers,
        )
    else:
        blocks = key_blocks(g, g.allocator, key_bytes=population.key_bytes)
    outer = float(sum(size > 0 for size in blocks))
    if not isinstance(population, Strings):
        outer += 1.0
    return Written(
        kind=kind,
        strings=((float(population.key_bytes), 1.0), *strings),
        blocks=outer,
        item_blocks=items * inside,
        block_share=prefetched,
        items=items,
        item_kind=population.type if items else "",
        item_writes={"hash": 4.0, "sorted_set": 3.0}.get(population.type, 2.0),
        expiring=population.ttl,
    )


_Strings = tuple[tuple[float, float], ...]


def _strings_of(g: Generation, population: Population) -> tuple[_Strings, float, float]:
    """Strings of a key's value, items that are written one by one, blocks of each of them."""
    allocator = g.allocator
    match population:
        case Strings():
            if population.integers:
                return (), 0.0, 0.0
            return tuple((float(size), share) for size, share in population.sizes), 0.0, 0.0
        case Sets(members=n, member_bytes=size):
            if population.integers and n <= INTSET_ENTRIES:
                return ((INTSET_HEADER_BYTES + n * integer_bytes(size), 1.0),), 0.0, 0.0
            if n <= g.packed_sets and size <= PACKED_ITEM_BYTES:
                whole = packed_bytes(g, n, [(size, population.integers)])
                return ((float(whole), 1.0),), 0.0, 0.0
            each = len(element_blocks(g, allocator, "set", size))
            return ((float(size), float(n)),), float(n), each
        case Hashes(fields=n, field_bytes=size, value_bytes=more):
            if n <= PACKED_ENTRIES["hash"] and max(size, more) <= PACKED_ITEM_BYTES:
                whole = packed_bytes(g, n, [(size, False), (more, False)])
                return ((float(whole), 1.0),), 0.0, 0.0
            each = len(element_blocks(g, allocator, "hash", size, more))
            return ((float(size), float(n)), (float(more), float(n))), float(n), each
        case SortedSets(members=n, member_bytes=size):
            if n <= PACKED_ENTRIES["sorted_set"] and size <= PACKED_ITEM_BYTES:
                whole = packed_bytes(g, n, [(size, False), (population.score_digits, True)])
                return ((float(whole), 1.0),), 0.0, 0.0
            # It follows the skip list: the node, and the member where that lies apart.
            return ((float(size), float(n)),), float(n), 1.0 + (g.sorted_set_table != "inside")
        case Lists(elements=n, element_bytes=size):
            whole = packed_bytes(g, n, [(size, False)])
            if g.lists != "linked":
                nodes = math.ceil(n / elements_per_node(g, size))
                return ((whole / nodes, float(nodes)),), float(nodes), 2.0
            if n <= LINKED_LIST_ENTRIES and size <= PACKED_ITEM_BYTES:
                return ((float(whole), 1.0),), 0.0, 0.0
            return ((float(size), float(n)),), float(n), 3.0
        case Streams(entries=n, field_bytes=size, value_bytes=more):
            front = 8 + listpack_entry_bytes(size)
            nodes = math.ceil(n / stream_node_entries(more, front_bytes=front))
            whole = listpack_bytes(front + round(n / nodes * stream_entry_bytes(more)))
            return ((float(whole), float(nodes)),), float(nodes - 1), 2.0


# --- how long it takes ----------------------------------------------------------------------------


def file_bytes(
    g: Generation, data: Iterable[tuple[float, Population]], *, left: float = 1.0
) -> float:
    """Size of the file of (keys, population); `left` is what compression leaves, 1 without it."""
    return sum(keys * written(g, each).file_bytes(left=left) for keys, each in data)


def save_s(
    g: Generation,
    data: Iterable[tuple[float, Population]],
    *,
    data_bytes: float,
    writer: Writer = SOME_WRITER,
    compression: bool = True,
    checksum: bool = True,
    disk_bytes_per_s: float = math.inf,
    doubts: SavingDoubts = EXPECTED,
) -> float:
    """Time to write a server's data into a file, in seconds.

    Parameters
    ----------
    data
        (keys, population): how many keys there are of each kind.
    data_bytes
        Memory that they lie in.
    writer
        The core that writes; `writer_of` has that of a host.
    compression, checksum
        `rdbcompression` and `rdbchecksum`, both on by default.
    disk_bytes_per_s
        What the disk, or the connection to a replica, takes.
    doubts
        Where in their ranges the uncertain numbers lie.
    """
    numbers = saving_numbers()[g.name]
    outside = beyond(writer.cache_bytes, data_bytes)
    wait_ns = writer.near_ns * (1.0 - outside) + writer.far_ns * outside
    left = doubts.left if compression else 1.0
    cpu_ns = size = 0.0
    for keys, population in data:
        each = written(g, population)
        count = each.instructions(numbers, compression=compression, checksum=checksum, left=left)
        blocks = each.blocks + doubts.scattered * each.item_blocks
        waits_ns = blocks * each.block_share * doubts.waited * wait_ns
        if compression:
            tried = left**_LITERAL_POWER * each.tried_bytes
            waits_ns += tried * doubts.looked_up * writer.own_ns
        streamed_ns = outside * writer.stream_ns_per_byte * each.bytes
        cpu_ns += keys * (count * doubts.instructions / writer.rate_per_ns + waits_ns + streamed_ns)
        size += keys * each.file_bytes(left=left)
    cpu_ns += size * doubts.saved_byte_ns
    return max(cpu_ns * 1e-9, size / disk_bytes_per_s)


def child_of(
    g: Generation,
    data: Sequence[tuple[float, Population]],
    forking: Forking,
    *,
    used_bytes: float,
    per_key: Sequence[KeyBytes],
    writer: Writer = SOME_WRITER,
    allocator: Allocator | None = None,
) -> Child:
    """The child that a server with these data forks.

    Parameters
    ----------
    data
        (keys, population).
    used_bytes
        Of all of it.
    per_key
        What a key of each population weighs.
    """
    keys = sum(count for count, _ in data)

    def takes(doubts: SavingDoubts) -> float:
        return save_s(
            g,
            data,
            data_bytes=used_bytes,
            writer=writer,
            compression=forking.rdbcompression,
            checksum=forking.rdbchecksum,
            disk_bytes_per_s=(forking.disk_mbyte_per_s or math.inf) * 1e6,
            doubts=doubts,
        )

    seconds = takes(EXPECTED)
    touched: list[tuple[float, float]] = []
    for (count, population), each in zip(data, per_key, strict=True):
        share, chance = count * each.settled / used_bytes, count / max(keys, 1e-9)
        touched += [
            (share * part, chance * pages)
            for part, pages in touched_by_writes(
                g, population, data_bytes=each.settled, keys=keys, allocator=allocator
            )
        ]
    if seconds <= 0.0:
        return Child(math.inf, forking.writes_per_s, forking.child_s, tuple(touched))
    below, above = (
        math.hypot(
            *(
                math.log(takes(EXPECTED._replace(**{name: ends[place]})) / seconds)
                for name, ends in SAVING_RANGES.items()
            )
        )
        for place in (0, 2)
    )
    return Child(
        bytes_per_s=used_bytes / seconds,
        writes_per_s=forking.writes_per_s,
        child_s=forking.child_s,
        touched=tuple(touched),
        shorter=math.exp(-below),
        longer=math.exp(above),
    )


def child_of_memory(scenario: MemoryScenario) -> Child | None:
    """That of a memory scenario; None where nothing forks."""
    if scenario.forking is None:
        return None
    node = node_of(scenario)
    weight = weigh(node, scenario.data, beside=beside_of(scenario, node), shards=scenario.shards)
    writer = SOME_WRITER
    if scenario.host is not None:
        host = load_host(host_of(scenario.host, scenario.engine))
        writer = writer_of(host.speed(), weight.used_bytes)
    return child_of(
        node.generation,
        list(zip(weight.keys, scenario.data, strict=True)),
        scenario.forking,
        used_bytes=weight.used_bytes,
        per_key=weight.per_key,
        writer=writer,
        allocator=node.allocator,
    )


# --- pages that writes copy while a child lives ---------------------------------------------------

# A SET that replaces a value puts the new one into the block that the last SET left: jemalloc hands
# out the block of a size that was freed last (tcache.h). So one page of a random key is written for
# each kind of block that changes, and pages hold blocks of one size only. Blocks that don't change
# (keys that lie apart) share pages with those of their size that do.
#
# Which blocks change, from db.c and object.c: up to Valkey 8.0 and Redis 8.0 the key's entry, its
# object and its string (dbOverwrite, dbSetValue). In Redis from 8.2 and Valkey from 8.1 on the
# object stays, with a count that goes up and down, and gets the new string; where the value lies
# inside it a new object takes its place in the bucket.


def touched_by_writes(
    g: Generation,
    population: Population,
    *,
    data_bytes: float,
    keys: float = 1e6,
    allocator: Allocator | None = None,
) -> Touched:
    """Which parts of its data the replacement of a string touches.

    The C library's allocator puts a key's blocks one after the other, whatever their sizes, so that
    the replacement of a value touches those of one key.

    Parameters
    ----------
    data_bytes
        That a key has in all, of which the shares are.
    keys
        Of the node, whose table they share.
    allocator
        The engine's own without it.
    """
    allocator = allocator or g.allocator
    bucket_bytes = key_table(NodeFootprint(g, allocator), keys).settled / max(keys, 1.0)
    if not isinstance(population, Strings):
        return ANY_PAGES
    total: dict[int, float] = {}
    written_to: dict[int, float] = {}
    for value_bytes, share in population.sizes:
        blocks = string_blocks(
            g,
            allocator,
            key_bytes=population.key_bytes,
            value_bytes=value_bytes,
            integers=population.integers,
        )
        changing = {"object", "value"}
        if not g.key_in_object:
            changing.add("entry")
        for name, size in zip(blocks._fields, blocks, strict=True):
            if size:
                total[int(size)] = total.get(int(size), 0.0) + share * size
                if name in changing:
                    bytes_written = string_bytes(g.keys, value_bytes) if name == "value" else 8
                    pages = _pages_of(int(size), bytes_written)
                    written_to[int(size)] = written_to.get(int(size), 0.0) + share * pages
        if g.key_in_object and not blocks.value:
            bucket = -1
            total[bucket] = total.get(bucket, 0.0) + share * bucket_bytes
            written_to[bucket] = written_to.get(bucket, 0.0) + share
    if allocator.startswith("libc"):
        return ((1.0, 1.0 + sum(total.values()) / PAGE_BYTES),)
    return tuple((total[size] / data_bytes, pages) for size, pages in written_to.items())


@lru_cache(maxsize=1024)
def _pages_of(block_bytes: int, written_bytes: int) -> float:
    """Pages that a write to the front of a block touches, over all places of it in its pages."""
    places = PAGE_BYTES // math.gcd(block_bytes, PAGE_BYTES)
    starts = [number * block_bytes % PAGE_BYTES for number in range(places)]
    return sum(1 + (start + written_bytes - 1) // PAGE_BYTES for start in starts) / places
