"""How many keys a Memcached node has memory for.

Memcached 1.6 cuts pages of 1 MiB into chunks of one size each and puts an item into the smallest
chunk that takes it: a header of 48 bytes, 8 for its version (CAS), the key with a final zero, the
value with a line end (`slabs.c`, `items.c`; `settings.factor` 1.25, `chunk_size` 48). Held against
`curr_items` of memcached 1.6.18 with `-m 4`, 8 and 16 and values of 500, 100 and 1000 bytes: equal.
"""

from __future__ import annotations

from collections.abc import Sequence

PAGE_BYTES = 2**20
LARGEST_CHUNK_BYTES = PAGE_BYTES // 2
_SMALLEST_CHUNK_BYTES = 96
CHUNK_GROWTH = 1.25
"""From one size of chunks to the next (`settings.factor`)."""

_ALIGNMENT = 8
_HEADER_BYTES = 48 + 8
_FEWEST_BUCKETS = 2**16
"""HASHPOWER_DEFAULT (`assoc.h`)."""


def chunk_bytes(key_bytes: int, value_bytes: int) -> int:
    """Memory that one item takes; items beyond the largest chunk take several of these."""
    size, chunks = _chunks(key_bytes, value_bytes)
    return size * chunks


def keys_that_fit(
    memory_bytes: float, *, key_bytes: int, sizes: Sequence[tuple[int, float]]
) -> float:
    """Keys a node has memory for.

    Memcached evicts within one size of chunks; here the least recently used of all goes.

    Parameters
    ----------
    sizes
        (bytes, share) of values; shares add up to one.
    """
    return memory_bytes // PAGE_BYTES / _pages_per_key(key_bytes, sizes)


def bytes_of_keys(keys: float, *, key_bytes: int, sizes: Sequence[tuple[int, float]]) -> float:
    """Memory that a number of keys needs, in pages; the sizes as in `keys_that_fit`."""
    return keys * _pages_per_key(key_bytes, sizes) * PAGE_BYTES


def hash_table_buckets(keys: float) -> int:
    """Buckets of the table that finds items: it doubles at one and a half a bucket (`assoc.c`)."""
    buckets = _FEWEST_BUCKETS
    while keys > 1.5 * buckets:
        buckets *= 2
    return buckets


def hash_table_bytes(keys: float) -> float:
    """Bytes of that table."""
    return 8.0 * hash_table_buckets(keys)


def item_bytes(key_bytes: int, value_bytes: int) -> int:
    """An item: header, key with a final zero, value with a line end."""
    return _HEADER_BYTES + key_bytes + 1 + value_bytes + 2


def _pages_per_key(key_bytes: int, sizes: Sequence[tuple[int, float]]) -> float:
    return sum(
        share * chunks / (PAGE_BYTES // chunk)
        for size, share in sizes
        for chunk, chunks in [_chunks(key_bytes, size)]
    )


def _chunks(key_bytes: int, value_bytes: int) -> tuple[int, int]:
    """Size and number of the chunks of an item."""
    need = item_bytes(key_bytes, value_bytes)
    size = _SMALLEST_CHUNK_BYTES
    while size < need and size < LARGEST_CHUNK_BYTES:
        grown = int(size * CHUNK_GROWTH)
        size = min(LARGEST_CHUNK_BYTES, -(-grown // _ALIGNMENT) * _ALIGNMENT)
    return size, -(-need // size)
