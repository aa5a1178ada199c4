"""How long the elements are that lie packed in one string: listpacks, ziplists, intsets.

Layouts: listpack.c, ziplist.c, intset.c. Each function returns the lengths of the elements as text,
in their order, or None where the bytes are damaged.
"""

from __future__ import annotations

_END = 255
_BEYOND = bytes(9)
"""Behind the data, so that a damaged last entry is found out by where it ends."""

_LISTPACK_INTEGERS = {0xF1: 2, 0xF2: 3, 0xF3: 4, 0xF4: 8}
_ZIPLIST_INTEGERS = {0xC0: 2, 0xD0: 4, 0xE0: 8, 0xF0: 3, 0xFE: 1}
"""Bytes of an integer by its header."""


def listpack_lengths(data: bytes) -> list[int] | None:
    """Elements of a listpack."""
    if len(data) < 7 or int.from_bytes(data[:4], "little") != len(data) or data[-1] != _END:
        return None
    found: list[int] = []
    at, last, data = 6, len(data) - 1, data + _BEYOND
    while at < last:
        first = data[at]
        if first < 0x80:
            encoded, length = 1, len(str(first))
        elif first < 0xC0:
            length = first & 0x3F
            encoded = 1 + length
        elif first < 0xE0:  # an integer of 13 bits
            value = (first & 0x1F) << 8 | data[at + 1]
            encoded, length = 2, len(str(value - 2**13 if value >= 2**12 else value))
        elif first < 0xF0:
            length = (first & 0x0F) << 8 | data[at + 1]
            encoded = 2 + length
        elif first == 0xF0:
            length = int.from_bytes(data[at + 1 : at + 5], "little")
            encoded = 5 + length
        elif first in _LISTPACK_INTEGERS:
            width = _LISTPACK_INTEGERS[first]
            encoded, length = 1 + width, _digits(data, at + 1, width)
        else:
            return None
        found.append(length)
        # Behind it its length again, seven bits a byte.
        at += encoded + (1 if encoded < 128 else -(-encoded.bit_length() // 7))
    return found if at == last else None


def ziplist_lengths(data: bytes) -> list[int] | None:
    """Elements of a ziplist."""
    if len(data) < 11 or int.from_bytes(data[:4], "little") != len(data) or data[-1] != _END:
        return None
    found: list[int] = []
    at, last, data = 10, len(data) - 1, data + _BEYOND
    while at < last:
        at += 5 if data[at] == 0xFE else 1  # the length of the entry before
        first = data[at]
        kind = first >> 6
        if kind == 0:
            length = first & 0x3F
            at += 1 + length
        elif kind == 1:
            length = (first & 0x3F) << 8 | data[at + 1]
            at += 2 + length
        elif kind == 2:
            length = int.from_bytes(data[at + 1 : at + 5], "big")
            at += 5 + length
        elif first in _ZIPLIST_INTEGERS:
            width = _ZIPLIST_INTEGERS[first]
            length = _digits(data, at + 1, width)
            at += 1 + width
        elif 0xF1 <= first <= 0xFD:
            length = len(str(first - 0xF1))
            at += 1
        else:
            return None
        found.append(length)
        if at > last:
            return None
    return found


def intset_lengths(data: bytes) -> list[int] | None:
    """Members of a set of integers, which come in their order."""
    width, count = int.from_bytes(data[:4], "little"), int.from_bytes(data[4:8], "little")
    if width not in (2, 4, 8) or len(data) != 8 + width * count:
        return None
    return [_digits(data, at, width) for at in range(8, len(data), width)]


def _digits(data: bytes, at: int, width: int) -> int:
    """Length of an integer as text."""
    return len(str(int.from_bytes(data[at : at + width], "little", signed=True)))
