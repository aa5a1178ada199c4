"""The value of a key in an RDB file: how many elements it has, and how long these are (rdb.c)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from .cursor import Cursor

Kind = Literal["string", "set", "hash", "sorted_set", "list", "stream", "module"]

_ID_BYTES = 16
"""Of an entry of a stream: milliseconds and a number."""

_SINGLE_NODE, _PACKED_NODE = 1, 2
"""A list's node of one long element, and one of many (quicklist.h)."""


class ValueSizes(NamedTuple):
    """What a value consists of.

    Attributes
    ----------
    elements
        Members, fields, elements of a list, entries of a stream; 1 of a string and of a module's.
    element_bytes
        Of all together, as text: of a hash those of its fields' names. Of streams and of what
        belongs to modules the bytes that it takes in the file, unpacked.
    value_bytes
        Of a hash those of its fields' values; of a packed sorted set the digits of its scores; of a
        set that is an array of integers the bytes of the array.
    packed
        Whether it lies in one block.
    integers
        Whether it is a whole number, or a set of them that is kept as an array.
    expiring
        Whether elements have times to live of their own.
    """

    kind: Kind
    elements: int = 1
    element_bytes: int = 0
    value_bytes: int = 0
    packed: bool = False
    integers: bool = False
    expiring: bool = False


def value_sizes(cursor: Cursor, number: int, *, valkey: bool) -> ValueSizes:
    """Pass over a value of a type.

    Parameters
    ----------
    number
        The type's, as it stands in the file.
    valkey
        Whether the file says that Valkey wrote it: 22 has two meanings.
    """
    if valkey and number == 22:
        return _hash(cursor, time_after=True)
    read = _READERS.get(number)
    if read is None:
        raise cursor.wrong(
            f"type {number} of a value, which is not known", valid="an RDB file of known types"
        )
    return read(cursor)


def _string(cursor: Cursor) -> ValueSizes:
    length, integer = cursor.size()
    return ValueSizes("string", 1, length, integers=integer)


def _plain(cursor: Cursor, kind: Kind) -> ValueSizes:
    """A list or a set, element by element."""
    count = cursor.count()
    return ValueSizes(kind, count, sum(cursor.size().length for _ in range(count)))


def _sorted_set(cursor: Cursor, *, binary: bool) -> ValueSizes:
    count, total = cursor.count(), 0
    for _ in range(count):
        total += cursor.size().length
        if binary:
            cursor.skip(8)
        elif (digits := cursor.byte()) < 253:  # else it isn't finite
            cursor.skip(digits)
    return ValueSizes("sorted_set", count, total)


def _hash(
    cursor: Cursor, *, time_before: bool = False, time_after: bool = False, soonest: bool = False
) -> ValueSizes:
    if soonest:
        cursor.skip(8)
    count, names, values = cursor.count(), 0, 0
    for _ in range(count):
        if time_before:
            cursor.count()
        names += cursor.size().length
        values += cursor.size().length
        if time_after:
            cursor.skip(8)
    return ValueSizes("hash", count, names, values, expiring=time_before or time_after)


def _packed(
    cursor: Cursor, kind: Kind, lengths_of: Callable[[bytes], list[int] | None], *, parts: int = 1
) -> ValueSizes:
    """A collection in one string; an element has so many parts."""
    lengths = lengths_of(cursor.string())
    if lengths is None or len(lengths) % parts:
        raise cursor.wrong(f"a damaged packed {kind.replace('_', ' ')}", valid="a whole RDB file")
    values = sum(lengths[1::parts]) if parts > 1 else 0
    return ValueSizes(
        kind, len(lengths) // parts, sum(lengths[::parts]), values, True, expiring=parts > 2
    )


def _packed_with_times(cursor: Cursor, *, soonest: bool) -> ValueSizes:
    if soonest:
        cursor.skip(8)
    return _packed(cursor, "hash", listpack_lengths, parts=3)


def _integers(cursor: Cursor) -> ValueSizes:
    start = cursor.at
    width = cursor.string()[:1]
    cursor.at = start
    found = _packed(cursor, "set", intset_lengths)
    return found._replace(value_bytes=found.elements * width[0], integers=True)


def _chain(cursor: Cursor, *, of_ziplists: bool) -> ValueSizes:
    """A list's nodes."""
    count = total = 0
    for _ in range(cursor.count()):
        kind = _PACKED_NODE if of_ziplists else cursor.count()
        if kind == _SINGLE_NODE:
            count, total = count + 1, total + cursor.size().length
        elif kind == _PACKED_NODE:
            node = _packed(cursor, "list", ziplist_lengths if of_ziplists else listpack_lengths)
            count, total = count + node.elements, total + node.element_bytes
        else:
            raise cursor.wrong(f"a list's node of kind {kind}", valid="1 or 2")
    return ValueSizes("list", count, total)


def _stream(cursor: Cursor, *, version: int) -> ValueSizes:
    """A stream with its groups; what is written once an entry is what counts."""
    start, blocks = cursor.at, 0
    packed = 0
    for _ in range(cursor.count()):
        cursor.size()
        before = cursor.at
        blocks += cursor.size().length
        packed += cursor.at - before
    entries = cursor.count()
    _numbers(cursor, 2 if version == 1 else 7)  # the last identifier; first, deleted, added
    for _ in range(cursor.count()):
        cursor.size()
        _numbers(cursor, 2 if version == 1 else 3)
        for _ in range(cursor.count()):  # delivered and not acknowledged
            cursor.skip(_ID_BYTES + 8)
            cursor.count()
        for _ in range(cursor.count()):  # consumers
            cursor.size()
            cursor.skip(8 if version < 3 else 16)
            cursor.skip(_ID_BYTES * cursor.count())
        if version >= 5:
            cursor.skip(_ID_BYTES * cursor.count())
    if version >= 4:
        _producers(cursor)
    return ValueSizes("stream", entries, cursor.at - start - packed + blocks)


def _producers(cursor: Cursor) -> None:
    """What keeps entries from being added twice (Redis 8.6)."""
    _numbers(cursor, 2)
    for _ in range(cursor.count()):
        cursor.size()
        for _ in range(cursor.count()):
            cursor.size()
            _numbers(cursor, 2)
    _numbers(cursor, 2)


def _numbers(cursor: Cursor, count: int) -> None:
    for _ in range(count):
        cursor.count()


def _module(cursor: Cursor) -> ValueSizes:
    start = cursor.at
    cursor.count()  # whose
    skip_module_parts(cursor)
    return ValueSizes("module", 1, cursor.at - start)


def skip_module_parts(cursor: Cursor) -> None:
    """Pass over what a module wrote: each part says of which kind it is."""
    while (part := cursor.count()) != 0:
        if part in (1, 2):
            cursor.count()
        elif part in (3, 4):
            cursor.skip(4 if part == 3 else 8)
        elif part == 5:
            cursor.size()
        else:
            raise cursor.wrong(f"part {part} of a module", valid="0 to 5")


_READERS: Mapping[int, Callable[[Cursor], ValueSizes]] = {
    0: _string,
    1: lambda cursor: _plain(cursor, "list"),
    2: lambda cursor: _plain(cursor, "set"),
    3: lambda cursor: _sorted_set(cursor, binary=False),
    4: _hash,
    5: lambda cursor: _sorted_set(cursor, binary=True),
    7: _module,
    10: lambda cursor: _packed(cursor, "list", ziplist_lengths),
    11: _integers,
    12: lambda cursor: _packed(cursor, "sorted_set", ziplist_lengths, parts=2),
    13: lambda cursor: _packed(cursor, "hash", ziplist_lengths, parts=2),
    14: lambda cursor: _chain(cursor, of_ziplists=True),
    15: lambda cursor: _stream(cursor, version=1),
    16: lambda cursor: _packed(cursor, "hash", listpack_lengths, parts=2),
    17: lambda cursor: _packed(cursor, "sorted_set", listpack_lengths, parts=2),
    18: lambda cursor: _chain(cursor, of_ziplists=False),
    19: lambda cursor: _stream(cursor, version=2),
    20: lambda cursor: _packed(cursor, "set", listpack_lengths),
    21: lambda cursor: _stream(cursor, version=3),
    22: lambda cursor: _hash(cursor, time_before=True),
    23: lambda cursor: _packed_with_times(cursor, soonest=False),
    24: lambda cursor: _hash(cursor, time_before=True, soonest=True),
    25: lambda cursor: _packed_with_times(cursor, soonest=True),
    26: lambda cursor: _stream(cursor, version=4),
    27: lambda cursor: _stream(cursor, version=5),
}
"""Types by number (rdb.h). Not among them: 6 and 9, which versions up to 2.4 and release candidates
wrote."""


# --- packed encodings ----------------------------------------------------------------------------

# How long the elements are that lie packed in one string: listpacks, ziplists, intsets.
#
# Layouts: listpack.c, ziplist.c, intset.c. Each function returns the lengths of the elements as
# text, in their order, or None where the bytes are damaged.


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
