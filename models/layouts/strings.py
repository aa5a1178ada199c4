"""Bytes of the engine's strings, and of the packed lists that small collections are kept in.

**Spare room.** An argument of 32 KiB or more is not copied out of the query buffer: the buffer,
which has room for the whole argument and its line end and is read until just that is in it, becomes
the value, and the connection gets a new buffer as large for the next one (processMultibulkBuffer
and readQueryFromClient in networking.c; PROTO_MBULK_BIG_ARG, from Redis 2.6 on). Up to Redis 6.2
sdsMakeRoomFor makes the room, which doubles a string below 1 MiB and adds 1 MiB to a longer one
(SDS_MAX_PREALLOC in sds.c). So does the next buffer's up to 3.0; from 3.2 on that has exactly the
length of this argument, so that only the first of a connection and longer ones are grown, and from
Redis 7.0 on both are exact (sdsMakeRoomForNonGreedy). A connection that is slow loses spare room
before it is used: several times a second a buffer more than twice as long as what it held lately is
cut to what it holds (clientsCronResizeQueryBuffer in redis.c, server.c) and then grows again, up to
twice what has arrived; so a value may have any room between none and all of it. SET gives back room
of more than a tenth of the value from Redis 2.6.16 on (tryObjectEncoding in object.c).
"""

from __future__ import annotations

from typing import NamedTuple

from .allocator import Allocator, size_class
from .generations import Generation

OBJECT_BYTES = 16
"""Type, encoding, last access, references; pointer to the value (object.h)."""

EMBEDDED_STRING_BYTES = 44
"""OBJ_ENCODING_EMBSTR_SIZE_LIMIT: up to here a value lies in its object (object.c)."""

_OLD_EMBEDDED_STRING_BYTES = 39
"""The same in Redis 3.0; before, none did."""

INTSET_HEADER_BYTES = 8
"""Encoding and length (intset.h)."""

LARGE_ARGUMENT_BYTES = 32 * 1024
"""From here on an argument becomes the value without a copy (PROTO_MBULK_BIG_ARG)."""

_GROWN_AHEAD_BYTES = 1 << 20
"""SDS_MAX_PREALLOC (sds.h)."""

_LINE_END_BYTES = 2

FLAGGED_HEADER_BYTES = 3
"""Of a string inside another block, which needs a header with flags."""

_OLD_HEADER_BYTES = 8
"""Length and free bytes of a string up to Redis 3.0 (sds.h)."""


def sds_header_bytes(length: int) -> int:
    """Header of a dynamic string: as short as its length allows (sds.h)."""
    return 1 if length < 32 else 3 if length < 256 else 5 if length < 65536 else 9


def sds_bytes(length: int, *, smallest_header_bytes: int = 1) -> int:
    """Bytes of a dynamic string: header, content, terminator (sds.h).

    Parameters
    ----------
    smallest_header_bytes
        3 where the engine doesn't take the shortest kind of header, which has no flags to spare.
    """
    return max(smallest_header_bytes, sds_header_bytes(length)) + length + 1


def old_sds_bytes(length: int) -> int:
    """The same up to Redis 3.0."""
    return _OLD_HEADER_BYTES + length + 1


class SpareRoom(NamedTuple):
    """Bytes behind a string that it doesn't use: the least, usually, and the most."""

    least: int
    usual: int
    most: int


NO_SPARE_ROOM = SpareRoom(0, 0, 0)


def spare_room(g: Generation, length: int) -> SpareRoom:
    """Spare room of a value that was set, by its length; see the module.

    Without trimming all of the room is taken to be as likely as none: in between lies `usual`.
    """
    if length < LARGE_ARGUMENT_BYTES or g.large_arguments == "exact":
        return NO_SPARE_ROOM
    needed = length + _LINE_END_BYTES
    whole = _grown_bytes(needed) - length
    if not g.trims_strings:
        return SpareRoom(0, whole // 2, whole)
    kept = whole if whole <= length // 10 else 0
    return SpareRoom(
        0, kept if g.large_arguments == "grown" else 0, max(kept, min(whole, length // 10))
    )


def query_buffer_bytes(g: Generation, length: int) -> int:
    """The query buffer that a connection keeps for the next argument after one of this length.

    As requested; none after a short one, whose buffer is that of every connection. The connection
    gives it back when it has waited for 2 s.
    """
    if length < LARGE_ARGUMENT_BYTES:
        return 0
    needed = length + _LINE_END_BYTES
    room = _grown_bytes(needed) if g.large_arguments == "grown" else needed
    return string_bytes(g.keys, room)


def _grown_bytes(length: int) -> int:
    """The room that sdsMakeRoomFor makes for a string of this length."""
    return 2 * length if length < _GROWN_AHEAD_BYTES else length + _GROWN_AHEAD_BYTES


def string_bytes(keys: str, length: int) -> int:
    """Bytes of a string of its own, by the name of a layout of keys."""
    return old_sds_bytes(length) if _has_old_headers(keys) else sds_bytes(length)


def _has_old_headers(keys: str) -> bool:
    return keys.startswith("objects")


def embedded_string_bytes(keys: str, length: int) -> int | None:
    """An object with a short string inside, as requested; None where it lies apart."""
    if _has_old_headers(keys):
        most = 0 if keys == "objects" else _OLD_EMBEDDED_STRING_BYTES
        string = old_sds_bytes(length)
    else:
        most = EMBEDDED_STRING_BYTES
        string = sds_bytes(length, smallest_header_bytes=FLAGGED_HEADER_BYTES)
    return OBJECT_BYTES + string if length <= most else None


def object_blocks(
    g: Generation, allocator: Allocator, length: int, *, spare_bytes: int = 0
) -> tuple[int, int]:
    """Blocks of an object that is a string, and of the string, which is 0 if it lies inside.

    Parameters
    ----------
    spare_bytes
        Room behind a string of its own (`spare_room`).
    """
    inside = embedded_string_bytes(g.keys, length)
    if inside is not None:
        return size_class(inside, allocator), 0
    string = string_bytes(g.keys, length + spare_bytes)
    return size_class(OBJECT_BYTES, allocator), size_class(string, allocator)


def integer_bytes(digits: int) -> int:
    """Bytes of an integer in a set of integers (intset.c), by its number of digits."""
    return 2 if digits <= 4 else 4 if digits <= 9 else 8


def listpack_bytes(entries_bytes: int) -> int:
    """A listpack: size, number of entries, the entries, end (listpack.c)."""
    return 4 + 2 + entries_bytes + 1


def listpack_entry_bytes(length: int) -> int:
    """A string in a listpack: encoding and length before it, length of all behind it."""
    encoded = length + (1 if length < 64 else 2 if length < 4096 else 5)
    return encoded + _back_length_bytes(encoded)


def listpack_integer_bytes(digits: int) -> int:
    """Bytes of an integer in a listpack, by its number of digits; between two widths, the wider."""
    widths = ((2, 1), (4, 2), (5, 3), (7, 4), (9, 5))
    encoded = next((width for most, width in widths if digits < most), 9)
    return encoded + 1


def _back_length_bytes(encoded_bytes: int) -> int:
    """Seven bits a byte."""
    return max(1, -(-encoded_bytes.bit_length() // 7))


def ziplist_bytes(entries_bytes: int) -> int:
    """A ziplist: size, tail, number of entries, the entries, end (ziplist.c)."""
    return 4 + 4 + 2 + entries_bytes + 1


def ziplist_entry_bytes(length: int, *, before_bytes: int) -> int:
    """A string in a ziplist: length of the entry before it, its own, content."""
    own = 1 if length < 64 else 2 if length < 16384 else 5
    return (1 if before_bytes < 254 else 5) + own + length


def ziplist_integer_bytes(digits: int) -> int:
    """Bytes of an integer in a ziplist, by its number of digits; between two widths, the wider."""
    widths = ((3, 2), (5, 3), (7, 4), (10, 5))
    return 1 + next((width for most, width in widths if digits < most), 9)
