"""How each engine generation lays a string key out in memory, as far as a look-up feels it.

Source of the layouts: Valkey's dict.c, hashtable.c, object.c and sds.c of each version, summarised
under "Waiting for memory" in `docs/models.md`. Sizes are those of the bundled allocator (jemalloc
with 8-byte quantum): classes of 8 bytes up to 64, then four per doubling.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from .memory import LINE_BYTES, Structure

LAYOUTS = ("dict", "dict_embedded_key", "hashtable", "hashtable_embedded_value")
"""Redis to 7.4 and Valkey 7.2; Valkey 8.0; Valkey 8.1 and 9.0; Valkey 9.1."""

SLABS = "slabs"
"""Memcached: chained items in slabs, key and value in the item."""

_ITEM_HEADER_BYTES = 56
"""With the number for compare-and-swap that items have by default (memcached.h)."""

_CHUNK_STEP = 1.25
"""From one slab class to the next (settings.factor)."""

_EMBEDDED_STRING_BYTES = 44
"""OBJ_ENCODING_EMBSTR_SIZE_LIMIT: up to here a value lies in its object (object.c)."""

_BUCKET_SLOTS = 7
"""Entries of a 64-byte bucket; one slot points to a child bucket when there are more
(hashtable.c)."""


def size_class(size_bytes: int) -> int:
    """Bytes the allocator hands out for a request."""
    if size_bytes <= 64:
        return max(8, (size_bytes + 7) // 8 * 8)
    step = 1 << ((size_bytes - 1).bit_length() - 3)
    return (size_bytes + step - 1) // step * step


def sds_bytes(length: int) -> int:
    """Bytes of a dynamic string: header, content, terminator (sds.h)."""
    header = 1 if length < 32 else 3 if length < 256 else 5 if length < 65536 else 9
    return header + length + 1


def hash_table_load(keys: int) -> float:
    """Mean entries per top-level bucket: the table doubles when 7 a bucket are exceeded."""
    buckets = 1
    while keys > _BUCKET_SLOTS * buckets:
        buckets *= 2
    return keys / buckets


def child_share(load: float) -> float:
    """Share of look-ups that go on to a child bucket, with Poisson occupancy.

    A bucket of more than 7 entries keeps six of them and the way to a child.
    """
    occupancy = np.arange(_BUCKET_SLOTS + 1, 64)
    chance = np.exp(occupancy * math.log(load) - load - gammaln(occupancy + 1.0))
    return float(np.sum((occupancy - _BUCKET_SLOTS + 1) * chance)) / load


def _value(value_bytes: int) -> list[Structure]:
    """The object of a value and, unless it lies inside, its string."""
    if value_bytes <= _EMBEDDED_STRING_BYTES:
        size = size_class(16 + 3 + value_bytes + 1)
        return [Structure("value object", size / LINE_BYTES, 1.0)]
    return [Structure("value object", 16 / LINE_BYTES, 1.0), _string(value_bytes)]


def _string(value_bytes: int) -> Structure:
    lines = size_class(sds_bytes(value_bytes)) / LINE_BYTES
    touched = (sds_bytes(value_bytes) + LINE_BYTES / 2) / LINE_BYTES
    return Structure("value", lines, 1.0, followers=max(0.0, touched - 1.0))


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
        Structure("bucket", 8.0 / LINE_BYTES / load, 1.0),
        Structure("item", lines, 1.0 + load / 2.0, followers=followers),
    ]


def structures(layout: str, *, keys: int, key_bytes: int, value_bytes: int) -> list[Structure]:
    """The lines a look-up of one key walks through, in order.

    Parameters
    ----------
    layout
        One of `LAYOUTS`, or `SLABS`.
    """
    if layout == SLABS:
        return _slab_item(keys, key_bytes, value_bytes)
    if layout in ("dict", "dict_embedded_key"):
        buckets = 2 ** math.ceil(math.log2(max(4, keys)))
        load = keys / buckets
        # A successful look-up walks half of the other entries of its chain on average.
        entries = 1.0 + load / 2.0
        bucket = Structure("bucket", 8.0 / LINE_BYTES / load, 1.0)
        if layout == "dict":
            name = size_class(sds_bytes(key_bytes))
            chain = [
                Structure("entry", 24 / LINE_BYTES, entries),
                Structure("key", name / LINE_BYTES, entries),
            ]
        else:
            embedded = size_class(8 + 8 + 1 + 3 + key_bytes + 1)
            chain = [Structure("entry", embedded / LINE_BYTES, entries)]
        return [bucket, *chain, *_value(value_bytes)]
    load = hash_table_load(keys)
    bucket = Structure("bucket", 1.0 / load, 1.0 + child_share(load))
    if layout == "hashtable_embedded_value":
        # The value takes the place of the pointer to it.
        limit, fixed, value = 128, 8, max(8, 3 + value_bytes + 1)
    else:
        limit, fixed, value = 64, 16, 3 + value_bytes + 1
    inside = fixed + 1 + sds_bytes(key_bytes) + value
    if inside <= limit:
        size = size_class(inside)
        followers = max(0.0, (inside - LINE_BYTES) / LINE_BYTES)
        return [bucket, Structure("entry", size / LINE_BYTES, 1.0, followers=followers)]
    # Long keys get room for an expiry time in advance (object.c).
    reserved = 8 if key_bytes >= 128 else 0
    size = size_class(16 + 1 + sds_bytes(key_bytes) + reserved)
    return [bucket, Structure("entry", size / LINE_BYTES, 1.0), _string(value_bytes)]
