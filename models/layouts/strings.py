"""Bytes of the engine's strings, and of the packed lists that small collections are kept in."""

from __future__ import annotations

EMBEDDED_STRING_BYTES = 44
"""OBJ_ENCODING_EMBSTR_SIZE_LIMIT: up to here a value lies in its object (object.c)."""

INTSET_HEADER_BYTES = 8
"""Encoding and length (intset.h)."""

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
