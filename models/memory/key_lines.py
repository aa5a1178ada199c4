"""How each engine generation lays a string key out in memory, as far as a look-up feels it.

What the blocks weigh is the footprint model's (`models/footprint/`), with the allocator that comes
with the engine; what a look-up touches of them is summarised under "Waiting for memory" in
`docs/models.md`.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

import numpy as np
from scipy.special import gammaln

from ..layouts.allocator import size_class
from ..layouts.generations import KeyLayout
from ..layouts.keys import (
    ENTRY_BYTES,
    embedded_key_entry_bytes,
    embedded_value_bytes,
    key_object_bytes,
    most_embedded_bytes,
)
from ..layouts.strings import OBJECT_BYTES, embedded_string_bytes, string_bytes
from ..layouts.tables import (
    BUCKET_BYTES,
    BUCKET_SLOTS,
    LINK_BYTES,
    POINTER_BYTES,
    buckets_of,
    hash_table_load,
)
from .lines import BUCKET, LINE_BYTES, Structure

LAYOUTS = (
    *("objects", "objects_embedded", "dict", "dict_embedded_key", "dict_embedded_value"),
    *("hashtable", "hashtable_embedded_value"),
)
"""Redis 2.8; 3.0; 3.2 to 8.0 and Valkey 7.2; Valkey 8.0; Redis 8.2 on; Valkey 8.1 and 9.0;
Valkey 9.1."""

SLABS = "slabs"
"""Memcached: chained items in slabs, key and value in the item."""

VALUE = "value"
"""Name of the lines of a string with a block of its own."""

_ITEM_HEADER_BYTES = 56
"""With the number for compare-and-swap that items have by default (memcached.h)."""

_CHUNK_STEP = 1.25
"""From one slab class to the next (settings.factor)."""


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


def _value(layout: str, value_bytes: int) -> list[Structure]:
    """The object of a value and, unless it lies inside, its string."""
    inside = embedded_string_bytes(layout, value_bytes)
    if inside is not None:
        return [Structure("value object", size_class(inside) / LINE_BYTES, 1.0)]
    outer = Structure("value object", OBJECT_BYTES / LINE_BYTES, 1.0)
    return [outer, _string(layout, value_bytes)]


def _string(layout: str, value_bytes: int) -> Structure:
    whole = string_bytes(layout, value_bytes)
    lines = size_class(whole) / LINE_BYTES
    touched = (whole + LINE_BYTES / 2) / LINE_BYTES
    return Structure(VALUE, lines, 1.0, followers=max(0.0, touched - 1.0))


def _slab_item(keys: int, key_bytes: int, value_bytes: int) -> list[Structure]:
    """A bucket's pointer and the items of its chain; the table doubles at 1.5 items a bucket.

    A chunk is larger than its item by up to a quarter, by an eighth on average.
    """
    buckets = 2**16
    while keys > 1.5 * buckets:
        buckets *= 2
    load = keys / buckets
    item_bytes = _ITEM_HEADER_BYTES + key_bytes + 1 + value_bytes + 2
    lines = item_bytes * (1.0 + _CHUNK_STEP) / 2 / LINE_BYTES
    followers = max(0.0, (item_bytes - LINE_BYTES / 2) / LINE_BYTES)
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
        One of `LAYOUTS`, or `SLABS`.
    """
    if layout == SLABS:
        return tuple(_slab_item(keys, key_bytes, value_bytes))
    if layout in ("objects", "objects_embedded", "dict", "dict_embedded_key"):
        load = keys / buckets_of("dict", keys)
        # A successful look-up walks half of the other entries of its chain on average.
        entries = 1.0 + load / 2.0
        bucket = Structure("bucket", POINTER_BYTES / LINE_BYTES / load, 1.0)
        if layout == "dict_embedded_key":
            embedded = size_class(embedded_key_entry_bytes(key_bytes))
            chain = [Structure("entry", embedded / LINE_BYTES, entries)]
        else:
            name = size_class(string_bytes(layout, key_bytes))
            chain = [
                Structure("entry", ENTRY_BYTES / LINE_BYTES, entries),
                Structure("key", name / LINE_BYTES, entries),
            ]
        return (bucket, *chain, *_value(layout, value_bytes))
    if layout == "dict_embedded_value":
        way, walked = _direct_chain(keys)
    else:
        load = hash_table_load(keys)
        slots = BUCKET_BYTES / LINE_BYTES / load
        way, walked = [Structure(BUCKET, slots, 1.0 + child_share(load))], 1.0
    whole: KeyLayout = (
        "hashtable_embedded_value" if layout == "hashtable_embedded_value" else "hashtable"
    )
    inside = embedded_value_bytes(whole, key_bytes=key_bytes, value_bytes=value_bytes)
    if inside <= most_embedded_bytes(whole):
        followers = max(0.0, (inside - LINE_BYTES) / LINE_BYTES)
        lines = size_class(inside) / LINE_BYTES
        return (*way, Structure("entry", lines, walked, followers=followers))
    lines = size_class(key_object_bytes(key_bytes)) / LINE_BYTES
    return (*way, Structure("entry", lines, walked), _string(layout, value_bytes))
