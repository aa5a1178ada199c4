"""The blocks that a key and a string value take, by generation.

Sizes are usable ones of the allocator. With a time to live a key has an entry in a second table (up
to Valkey 8.0) or eight bytes more in its object (from 8.1 on); that table's array is counted with
the tables.
"""

from __future__ import annotations

from typing import NamedTuple

from .allocator import Allocator, size_class
from .generations import Generation, KeyLayout
from .strings import (
    FLAGGED_HEADER_BYTES,
    OBJECT_BYTES,
    object_blocks,
    sds_bytes,
    string_bytes,
)

ENTRY_BYTES = 24
"""Pointers to key, value and next entry (dict.c)."""

EXPIRY_BYTES = 8

_SLOT_LINKS_BYTES = 16
"""Next and previous key of the same slot in each entry, in cluster mode of 7.x (cluster.h)."""

_LONG_KEY_BYTES = 128
"""Keys from here on get room for an expiry time in advance (object.c)."""


class Blocks(NamedTuple):
    """Bytes of a key's blocks; 0 where it has none.

    A key inside its entry counts as `entry`, one inside its object, and a value there, as `object`.
    """

    entry: float = 0.0
    key: float = 0.0
    object: float = 0.0
    value: float = 0.0
    expires: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return sum(self)


def embedded_value_bytes(layout: KeyLayout, *, key_bytes: int, value_bytes: int) -> int:
    """What key and value would take in one object, as requested; its header included."""
    value = sds_bytes(value_bytes, smallest_header_bytes=FLAGGED_HEADER_BYTES)
    key = 1 + sds_bytes(key_bytes)
    if layout == "hashtable_embedded_value":
        # The value takes the place of the pointer to it.
        return OBJECT_BYTES - 8 + key + max(8, value)
    return OBJECT_BYTES + key + value


def most_embedded_bytes(layout: KeyLayout) -> int:
    """Up to which size key and value share an object: one line, then two (object.c)."""
    return 128 if layout == "hashtable_embedded_value" else 64


def key_object_bytes(key_bytes: int, *, ttl: bool = False) -> int:
    """An object with its key but not its value inside, as requested."""
    reserved = EXPIRY_BYTES if ttl or key_bytes >= _LONG_KEY_BYTES else 0
    return OBJECT_BYTES + 1 + sds_bytes(key_bytes) + reserved


def embedded_key_entry_bytes(key_bytes: int) -> int:
    """An entry of Valkey 8.0 with its key inside, as requested."""
    return 8 + 8 + 1 + sds_bytes(key_bytes, smallest_header_bytes=FLAGGED_HEADER_BYTES)


def key_blocks(
    generation: Generation,
    allocator: Allocator,
    *,
    key_bytes: int,
    ttl: bool = False,
    cluster: bool = False,
) -> Blocks:
    """Blocks of a key whose value is a collection, without the collection's own."""
    if generation.key_in_object:
        return Blocks(object=size_class(key_object_bytes(key_bytes, ttl=ttl), allocator))
    expires = size_class(ENTRY_BYTES, allocator) if ttl else 0
    outer = size_class(OBJECT_BYTES, allocator)
    if generation.keys == "dict_embedded_key":
        entry = size_class(embedded_key_entry_bytes(key_bytes), allocator)
        return Blocks(entry=entry, object=outer, expires=expires)
    links = _SLOT_LINKS_BYTES if cluster and generation.slots == "links" else 0
    return Blocks(
        entry=size_class(ENTRY_BYTES + links, allocator),
        key=size_class(string_bytes(generation.keys, key_bytes), allocator),
        object=outer,
        expires=expires,
    )


def string_blocks(
    generation: Generation,
    allocator: Allocator,
    *,
    key_bytes: int,
    value_bytes: int,
    integers: bool = False,
    ttl: bool = False,
    cluster: bool = False,
    spare_bytes: int = 0,
) -> Blocks:
    """Blocks of a key with a string, or with a whole number, which lies in its object's pointer.

    Whole numbers below 10,000 share objects up to Valkey 8.0, which is left out.

    Parameters
    ----------
    spare_bytes
        Room behind a string that is no part of another block (`strings.spare_room`).
    """
    blocks = key_blocks(generation, allocator, key_bytes=key_bytes, ttl=ttl, cluster=cluster)
    if integers:
        if generation.numbers_keep_room:
            return blocks._replace(object=object_blocks(generation, allocator, value_bytes)[0])
        return blocks
    if generation.key_in_object:
        inside = embedded_value_bytes(
            generation.keys, key_bytes=key_bytes, value_bytes=value_bytes
        ) + (EXPIRY_BYTES if ttl else 0)
        if inside <= most_embedded_bytes(generation.keys):
            return blocks._replace(object=size_class(inside, allocator))
        whole = string_bytes(generation.keys, value_bytes + spare_bytes)
        return blocks._replace(value=size_class(whole, allocator))
    outer, value = object_blocks(generation, allocator, value_bytes, spare_bytes=spare_bytes)
    return blocks._replace(object=outer, value=value)
