"""What lies in memory: the keys of a workload, and the lines a command on one of them touches.

Which blocks there are, and how large, is in `models/layouts/`, with the allocator that comes with
the engine; "Waiting for memory" in `docs/models.md` has a summary of what a look-up touches.

Collections, as far as commands feel them: small ones are one listpack, which is searched from its
front, or an array of whole numbers; large sorted sets are a hash table and a skip list, large
hashes and sets a hash table. Lists and streams are listpacks of bounded size at any size, streams'
under a tree of ids. Linked lists, which versions up to 3.0 make of long lists, count as listpacks.
Source: Valkey's t_zset.c, t_hash.c, t_set.c, intset.c, listpack.c, quicklist.c, t_stream.c, dict.c
and hashtable.c.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import get_args

import numpy as np
from scipy.special import gammaln

from forecache.sim.errors import InputError

from ..engines.commands import CommandKind, command_kinds, executed_kinds, keys_of_type
from ..engines.profile import EngineProfile, EngineWork
from ..layouts.allocator import size_class
from ..layouts.blocks import (
    INTSET_HEADER_BYTES,
    SKIP_LIST_SHARE,
    element_blocks,
    embedded_value_bytes,
    integer_bytes,
    listpack_bytes,
    listpack_entry_bytes,
    listpack_integer_bytes,
    sds_bytes,
    stream_entry_bytes,
    string_blocks,
    string_bytes,
)
from ..layouts.generations import GENERATIONS, Generation, generation
from ..layouts.slabs import CHUNK_GROWTH, hash_table_buckets, item_bytes
from ..layouts.tables import (
    BUCKET_BYTES,
    BUCKET_SLOTS,
    LINK_BYTES,
    POINTER_BYTES,
    buckets_of,
    hash_table_load,
)
from ..scenario.command_table import DataType
from ..scenario.schema import Scenario
from ..scenario.workload import Workload
from .caches import Population
from .lines import BUCKET, LINE_BYTES, Structure

# --- a string key ---------------------------------------------------------------------------------


SLABS = "slabs"
"""Memcached: chained items in slabs, key and value in the item."""

VALUE = "value"
"""Name of the lines of a string with a block of its own."""


@cache
def child_share(load: float) -> float:
    """Share of look-ups that go on to a child bucket, with Poisson occupancy.

    A bucket of more than 7 entries keeps six of them and the way to a child.
    """
    occupancy = np.arange(BUCKET_SLOTS + 1, 64)
    chance = np.exp(occupancy * math.log(load) - load - gammaln(occupancy + 1.0))
    return float(np.sum((occupancy - BUCKET_SLOTS + 1) * chance)) / load


def _direct_chain(keys: int) -> tuple[list[Structure], float]:
    """The way to an object that hangs in its bucket, and how many objects a look-up compares.

    A chain goes from link to link (dict.c, dictEntryNoValue), and its last object needs none.
    Occupancy is Poisson, so a look-up compares half as many other objects as there are a bucket.
    """
    load = keys / buckets_of("dict", keys)
    last = -math.expm1(-load) / load  # share of the objects that are the last of their chain
    bucket = Structure(BUCKET, POINTER_BYTES / LINE_BYTES / load, 1.0)
    walked = 1.0 + load / 2.0
    link = Structure("link", (1.0 - last) * LINK_BYTES / LINE_BYTES, walked - last)
    return [bucket, link], walked


def _slab_item(keys: int, key_bytes: int, value_bytes: int) -> list[Structure]:
    """A bucket's pointer and the items of its chain; the table doubles at 1.5 items a bucket.

    A chunk is larger than its item by up to a quarter, by an eighth on average.
    """
    load = keys / hash_table_buckets(keys)
    size_bytes = item_bytes(key_bytes, value_bytes)
    lines = size_bytes * (1.0 + CHUNK_GROWTH) / 2 / LINE_BYTES
    followers = max(0.0, (size_bytes - LINE_BYTES / 2) / LINE_BYTES)
    return [
        Structure(BUCKET, 8.0 / LINE_BYTES / load, 1.0),
        Structure("item", lines, 1.0 + load / 2.0, followers=followers),
    ]


@lru_cache(maxsize=1024)
def structures(
    layout: str, *, keys: int, key_bytes: int, value_bytes: int
) -> tuple[Structure, ...]:
    """The lines a look-up of one key walks through, in order.

    Parameters
    ----------
    layout
        A `KeyLayout`, or `SLABS`.
    """
    if layout == SLABS:
        return tuple(_slab_item(keys, key_bytes, value_bytes))
    rules = next(known for known in reversed(GENERATIONS) if known.keys == layout)
    blocks = string_blocks(rules, "jemalloc", key_bytes=key_bytes, value_bytes=value_bytes)
    if rules.key_in_object:
        if layout == "dict_embedded_value":
            lines, walked = _direct_chain(keys)
        else:
            load = hash_table_load(keys)
            slots = BUCKET_BYTES / LINE_BYTES / load
            lines, walked = [Structure(BUCKET, slots, 1.0 + child_share(load))], 1.0
        followers = 0.0
        if not blocks.value:
            inside = embedded_value_bytes(rules.keys, key_bytes=key_bytes, value_bytes=value_bytes)
            followers = max(0.0, (inside - LINE_BYTES) / LINE_BYTES)
        lines.append(Structure("entry", blocks.object / LINE_BYTES, walked, followers=followers))
    else:
        load = keys / buckets_of("dict", keys)
        # A successful look-up walks half of the other entries of its chain on average.
        entries = 1.0 + load / 2.0
        lines = [
            Structure(BUCKET, POINTER_BYTES / LINE_BYTES / load, 1.0),
            Structure("entry", blocks.entry / LINE_BYTES, entries),
        ]
        if blocks.key:
            lines.append(Structure("key", blocks.key / LINE_BYTES, entries))
        lines.append(Structure("value object", blocks.object / LINE_BYTES, 1.0))
    if blocks.value:
        touched = (string_bytes(layout, value_bytes) + LINE_BYTES / 2) / LINE_BYTES
        followers = max(0.0, touched - 1.0)
        lines.append(Structure(VALUE, blocks.value / LINE_BYTES, 1.0, followers=followers))
    return tuple(lines)


# --- collections ----------------------------------------------------------------------------------


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
    blocks = element_blocks(g, "jemalloc", kind.data_type, kind.item_bytes, kind.value_bytes)
    if kind.data_type == "hash":
        wanted = "value" in kind.row.returned or kind.row.writes
        return [each for each in blocks if wanted or not each[0].startswith("value")]
    if kind.data_type == "sorted_set" and g.sorted_set_table in ("nodes", "inside"):
        return [("node", _node_bytes(kind, g)), *blocks]
    return blocks


def _node_bytes(kind: CommandKind, g: Generation) -> int:
    """Of a node of a skip list, with its member where that lies inside."""
    if g.sorted_set_table != "inside":
        return _NODE_BYTES
    return size_class(_NODE_BYTES + sds_bytes(kind.item_bytes))


def _sorted_set(kind: CommandKind, g: Generation) -> list[Structure]:
    member = size_class(sds_bytes(kind.item_bytes))
    node = _node_bytes(kind, g)
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
    levels = max(1, round(math.log(max(2, kind.size), 1 / SKIP_LIST_SHARE)))
    for level in range(levels - 1, -1, -1):
        nodes = kind.size * SKIP_LIST_SHARE**level
        own = nodes * (1.0 - SKIP_LIST_SHARE) if level < levels - 1 else nodes
        lines = own * node / LINE_BYTES
        met = _met(searches * min(_NODES_A_LEVEL, nodes), lines, in_turn=False)
        if level == 0:
            met += _met(passed, lines, in_turn=True)
        found.append(Structure(f"level {level}", lines, met, prefetched=False))
    if passed and g.sorted_set_table != "inside":
        names = kind.size * member / LINE_BYTES
        met = _met(passed, names, in_turn=True)
        # A node says where the next one is, so none of them waits for a name.
        ways = max(1, round(passed))
        found.append(Structure("member name", names, met, prefetched=False, ways=ways))
    return found


# --- commands and populations ---------------------------------------------------------------------


_LEAST_KEYS = 1e-6


def command_structures(
    kind: CommandKind, scenario: Scenario, engine: EngineProfile, work: EngineWork
) -> tuple[Structure, ...]:
    """The lines a command touches, scaled by what was observed."""
    workload, lone = scenario.workload, scenario.io_threads == 1
    return _command_structures(
        kind,
        engine.layout,
        None if kind.data_type == "string" else _rules(engine),
        all_keys=sum(keys_of_type(workload, held) for held in get_args(DataType)),
        key_bytes=workload.whole_key_bytes,
        touch_scale=work.touch_scale,
        # A lone main thread that looks a pipeline's keys up in groups may walk to the entries only;
        # the batches that come back from I/O threads fetch the value as well.
        to_entries=lone and not engine.lone_fetches_values,
        old_value_touches=work.value_touches if lone else 0.0,
    )


def _rules(engine: EngineProfile) -> Generation:
    """The layout of an engine's version, with the keys that its profile says.

    An engine of one's own has that of the newest known version with such keys.
    """
    try:
        rules = generation(engine.engine, engine.version)
    except InputError:
        return next(known for known in reversed(GENERATIONS) if known.keys == engine.layout)
    if rules.keys == engine.layout:
        return rules
    return rules.model_copy(update={"keys": engine.layout})


@lru_cache(maxsize=1024)
def _command_structures(
    kind: CommandKind,
    layout: str,
    rules: Generation | None,
    *,
    all_keys: int,
    key_bytes: int,
    touch_scale: float,
    to_entries: bool,
    old_value_touches: float,
) -> tuple[Structure, ...]:
    lines: Sequence[Structure]
    if rules is None:
        lines = structures(layout, keys=all_keys, key_bytes=key_bytes, value_bytes=kind.value_bytes)
        if kind.row.touches == "head":
            lines = [replace(s, followers=0.0) for s in lines if s.name != VALUE]
        elif kind.row.touches == "part":
            lines = [replace(s, followers=0.0) for s in lines]
    else:
        lines = collection_structures(kind, rules, all_keys=all_keys, key_bytes=key_bytes)
    if not kind.keys:
        return tuple(replace(s, touches=0.0, followers=0.0) for s in lines)
    # A SET writes its value where the one before it was released, so it touches as many lines as a
    # GET reads.
    scaled = [
        replace(
            s,
            touches=s.touches * touch_scale,
            prefetched=s.prefetched and not (to_entries and s.name == "value"),
            written=s.written or kind.stored_values > 0,
        )
        for s in lines
    ]
    if kind.stored_values and old_value_touches > 0:
        # A number of its own, which `touch_scale` leaves alone. No look-up brings it: besides the
        # old value it stands for the allocator's books and for the block that the new one gets.
        scaled.append(Structure("old value", 0.0, old_value_touches, prefetched=False))
    return tuple(scaled)


def keyspace(kind: CommandKind, scenario: Scenario) -> Workload:
    """The workload as the keys of a command's type see it: their number, all equally popular."""
    workload = scenario.workload
    if kind.data_type == "string":
        return workload
    return workload.model_copy(update={"keys": keys_of_type(workload, kind.data_type)})


def populations(
    kinds: Sequence[CommandKind], scenario: Scenario, engine: EngineProfile, work: EngineWork
) -> list[Population]:
    """What lies in memory, and how often a request touches it: strings of all sizes, collections.

    A SET touches as many lines as a GET.
    """
    workload = scenario.workload
    found = [
        Population(
            workload,
            command_structures(CommandKind("get", size, weight), scenario, engine, work),
            weight,
            keys_asked("string", kinds, workload),
        )
        for size, weight in workload.sizes
    ]
    for kind in kinds:
        if kind.data_type != "string":
            lines = command_structures(kind, scenario, engine, work)
            # Commands of a type share its lines, which are counted once.
            of_type = keys_asked(kind.data_type, kinds, workload)
            found.append(Population(keyspace(kind, scenario), lines, kind.share / of_type, of_type))
    return found


def keys_asked(data_type: str, kinds: Sequence[CommandKind], workload: Workload) -> float:
    """How many keys of a type a request asks for, in the mean over all requests."""
    if workload.only_get_and_set:
        # One, whatever the shares add up to.
        return 1.0
    of_type = [kind for kind in kinds if kind.data_type == data_type]
    asked = sum(kind.share * kind.keys for kind in of_type)
    # Commands without a key ask for hardly any instead of none, or the waits of theirs, which don't
    # count, would have no value.
    return max(_LEAST_KEYS, asked) if of_type else asked


def data_bytes(scenario: Scenario, engine: EngineProfile, work: EngineWork) -> float:
    """What all keys take in memory, as far as commands walk through it."""
    kinds = executed_kinds(command_kinds(scenario))
    found = populations(kinds, scenario, engine, work)
    lines = (
        population.share * population.workload.keys * structure.lines_per_key
        for population in found
        for structure in population.structures
    )
    return LINE_BYTES * sum(lines)


def prefetch_batch(scenario: Scenario, engine: EngineProfile) -> int:
    """Keys of one batched look-up; one means none, as always where the engine has no such thing."""
    if engine.prefetch_batch == 0:
        return 1
    given = scenario.prefetch_batch
    return max(1, engine.prefetch_batch if given is None else given)
