"""An RDB file, key by key: names, times to live and sizes, without the values (rdb.c).

Versions 1 to 14 of Redis and up to 80 of Valkey. The checksum at the end is not looked at, which
would take longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Literal, NamedTuple

from forecache.sim.errors import InputError

from ..observe.readers.lines import Place

# --- reading forward: lengths, strings and what lies compressed in them (rdb.c, lzf_d.c) ----------


MOST_UNPACKED_BYTES = 512 * 2**20
"""Of one string (proto-max-bulk-len)."""

_MOST_EXPANSION = 88
"""LZF: three bytes stand for at most 264."""

_WIDTHS = {0: 1, 1: 2, 2: 4}
"""Bytes of an integer that stands for a string, by its encoding."""

_COMPRESSED = 3


class StringSize(NamedTuple):
    """How long a string is, and whether it is stored as an integer."""

    length: int
    integer: bool = False


class Cursor:
    """A place in the bytes of an RDB file.

    Parameters
    ----------
    data
        The file; a map of it in memory will do.
    file
        What to call it in messages.

    Every method raises `InputError` where the file ends early or has what can't be there.
    """

    def __init__(self, data: bytes | mmap, *, file: str) -> None:
        self._data = data
        self.at, self._end, self.file = 0, len(data), file

    def wrong(self, found: str, *, valid: str) -> InputError:
        """The error that the bytes here make."""
        return Place(self.file, 0).wrong(f"{found} at byte {self.at:,}", valid=valid)

    def take(self, count: int) -> bytes:
        """The next bytes."""
        start, self.at = self.at, self.at + count
        if self.at > self._end:
            raise self._early()
        return self._data[start : self.at]

    def skip(self, count: int) -> None:
        """Pass over bytes; that the file ends within them is found out by the next that is read."""
        self.at += count

    def byte(self) -> int:
        """The next byte."""
        try:
            found = self._data[self.at]
        except IndexError:
            raise self._early() from None
        self.at += 1
        return found

    def count(self) -> int:
        """A length that isn't an encoding's."""
        number, encoded = self._length()
        if encoded:
            raise self.wrong(f"encoding {number} in place of a length", valid="a whole RDB file")
        return number

    def size(self) -> StringSize:
        """Pass over a string."""
        number, encoded = self._length()
        if not encoded:
            if number > 20:
                self.at += number
                return StringSize(number)
            return StringSize(number, _is_integer(self.take(number)))
        if number in _WIDTHS:
            value = int.from_bytes(self.take(_WIDTHS[number]), "little", signed=True)
            return StringSize(len(str(value)), True)
        packed, whole = self._compressed(number)
        self.at += packed
        return StringSize(whole)

    def string(self) -> bytes:
        """The next string, unpacked."""
        number, encoded = self._length()
        if not encoded:
            return self.take(number)
        if number in _WIDTHS:
            value = int.from_bytes(self.take(_WIDTHS[number]), "little", signed=True)
            return str(value).encode()
        packed, whole = self._compressed(number)
        unpacked = unpack(self.take(packed), whole)
        if unpacked is None:
            raise self.wrong("a damaged compressed string", valid="a whole RDB file")
        return unpacked

    def _compressed(self, encoding: int) -> tuple[int, int]:
        """Lengths of a compressed string: as it is stored, and unpacked."""
        if encoding != _COMPRESSED:
            raise self.wrong(f"encoding {encoding} of a string", valid="0 to 3")
        packed, whole = self.count(), self.count()
        if whole > _MOST_EXPANSION * (packed + 1):
            raise self.wrong(
                f"a string of {whole:,} bytes in {packed:,} compressed ones",
                valid=f"at most {_MOST_EXPANSION} times as many",
            )
        if whole > MOST_UNPACKED_BYTES:
            raise self.wrong(
                f"a string of {whole:,} bytes", valid=f"at most {MOST_UNPACKED_BYTES:,}"
            )
        return packed, whole

    def _length(self) -> tuple[int, bool]:
        """A number, and whether it is the encoding of a string rather than a length."""
        first = self.byte()
        kind, low = first >> 6, first & 0x3F
        if kind == 0:
            return low, False
        if kind == 1:
            return low << 8 | self.byte(), False
        if kind == 3:
            return low, True
        width = {0x80: 4, 0x81: 8}.get(first)
        if width is None:
            raise self.wrong(f"length of kind {first:#x}", valid="a whole RDB file")
        return int.from_bytes(self.take(width), "big"), False

    def _early(self) -> InputError:
        return Place(self.file, 0).wrong(
            f"its end at byte {self._end:,}, inside a value", valid="a whole RDB file"
        )


def _is_integer(text: bytes) -> bool:
    """Whether a server keeps such a string as a 64-bit integer."""
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or (digits[:1] == b"0" and text != b"0"):
        return False
    return -(2**63) <= int(text) < 2**63


def unpack(packed: bytes, whole: int) -> bytes | None:
    """What a string compressed by LZF was; None if it isn't one of so many bytes."""
    out = bytearray()
    at, end = 0, len(packed)
    while at < end:
        control = packed[at]
        at += 1
        if control < 32:  # so many bytes as they are, and one
            out += packed[at : at + control + 1]
            at += control + 1
            if at > end:
                return None
        else:  # bytes that came before
            length = control >> 5
            if length == 7 and at < end:
                length += packed[at]
                at += 1
            if at >= end:
                return None
            start = len(out) - ((control & 0x1F) << 8 | packed[at]) - 1
            at += 1
            length += 2
            if start < 0:
                return None
            repeated = bytes(out[start : start + length])
            while len(repeated) < length:  # it reaches into itself
                repeated += repeated[: length - len(repeated)]
            out += repeated
        if len(out) > whole:
            return None
    return bytes(out) if len(out) == whole else None


# --- the value of a key: how many elements it has, and how long these are (rdb.c) -----------------


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


_PACKED_END = 255
_BEYOND = bytes(9)
"""Behind the data, so that a damaged last entry is found out by where it ends."""

_LISTPACK_INTEGERS = {0xF1: 2, 0xF2: 3, 0xF3: 4, 0xF4: 8}
_ZIPLIST_INTEGERS = {0xC0: 2, 0xD0: 4, 0xE0: 8, 0xF0: 3, 0xFE: 1}
"""Bytes of an integer by its header."""


def listpack_lengths(data: bytes) -> list[int] | None:
    """Elements of a listpack."""
    if len(data) < 7 or int.from_bytes(data[:4], "little") != len(data) or data[-1] != _PACKED_END:
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
    if len(data) < 11 or int.from_bytes(data[:4], "little") != len(data) or data[-1] != _PACKED_END:
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


# --- a file from its magic word to its end --------------------------------------------------------


MAGIC = {b"REDIS": False, b"VALKEY": True}
"""First bytes of a file, and whether Valkey 9.0 or later wrote it."""

NEWEST = {False: 14, True: 80}
"""Versions that are known, of Redis and of Valkey."""

_END, _DATABASE, _EXPIRES_S, _EXPIRES_MS, _TABLES = 255, 254, 253, 252, 251
_ABOUT, _FREQUENCY, _IDLE, _MODULE, _FUNCTIONS, _SLOT, _METADATA = 250, 249, 248, 247, 245, 244, 243


class KeySizes(NamedTuple):
    """A key: length of its name, whether it has a time to live, its value."""

    key_bytes: int
    expires: bool
    value: ValueSizes


@dataclass
class About:
    """What a file says of itself.

    Attributes
    ----------
    version
        Of the format.
    engine
        Name and version of the server that wrote it; None where it doesn't say.
    used_memory_bytes
        Of the server then; None likewise.
    """

    version: int
    engine: tuple[str, str] | None = None
    used_memory_bytes: float | None = None


def is_rdb(path: str | Path) -> bool:
    """Whether a file begins as RDB files do."""
    try:
        with Path(path).open("rb") as stream:
            start = stream.read(9)
    except OSError:
        return False
    return any(start.startswith(magic) and start[len(magic) :].isdigit() for magic in MAGIC)


def open_rdb(path: str | Path) -> mmap:
    """A file's bytes, which stay on disk until they are looked at."""
    try:
        with Path(path).open("rb") as stream:
            return mmap(stream.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: an empty file
        raise InputError(f"{path}: can't be read: {error}.") from None


class RdbReader:
    """The keys of an RDB file, once through.

    Parameters
    ----------
    data
        Its bytes.
    file
        What to call it in messages.

    `about` is whole when the last key has come.
    """

    def __init__(self, data: bytes | mmap, *, file: str) -> None:
        self._cursor, self.file = Cursor(data, file=file), file
        head = data[:9]
        magic = next((each for each in MAGIC if head.startswith(each)), None)
        digits = b"" if magic is None else head[len(magic) :]
        if magic is None or not digits.isdigit() or len(head) < 9:
            raise self._cursor.wrong(f"{head[:6]!r}", valid="an RDB file, as SAVE writes it")
        self._valkey = MAGIC[magic]
        if not 1 <= int(digits) <= NEWEST[self._valkey]:
            raise self._cursor.wrong(
                f"version {int(digits)} of the format", valid=f"1 to {NEWEST[self._valkey]}"
            )
        self.about = About(int(digits))
        self._cursor.skip(9)

    def __iter__(self) -> Iterator[KeySizes]:
        """The keys of all databases, in the file's order."""
        cursor, expires = self._cursor, False
        while (number := cursor.byte()) != _END:
            if number in (_EXPIRES_S, _EXPIRES_MS):
                cursor.skip(4 if number == _EXPIRES_S else 8)
                expires = True
            elif number >= _METADATA:
                self._skip(number)
            else:
                name = cursor.size().length
                yield KeySizes(name, expires, value_sizes(cursor, number, valkey=self._valkey))
                expires = False

    def _skip(self, number: int) -> None:
        """Pass over what isn't a key."""
        cursor = self._cursor
        if number == _ABOUT:
            self._note(cursor.string(), cursor.string())
        elif number == _FREQUENCY:
            cursor.skip(1)
        elif number == _FUNCTIONS:
            cursor.size()
        elif number == _MODULE:
            for _ in range(3):
                cursor.count()
            skip_module_parts(cursor)
        elif number == _METADATA:
            self._skip_metadata()
        elif number in (_DATABASE, _IDLE, _TABLES, _SLOT):
            for _ in range({_TABLES: 2, _SLOT: 3}.get(number, 1)):
                cursor.count()
        else:
            raise cursor.wrong(f"code {number}, which is not known", valid="a known RDB file")

    def _skip_metadata(self) -> None:
        """Slots on their way (Valkey), or what modules keep of a key (Redis 8.6)."""
        cursor = self._cursor
        if self._valkey:
            cursor.size()
            for _ in range(2 * cursor.count()):
                cursor.count()
        else:
            for _ in range(cursor.count()):
                cursor.skip(4)
                skip_module_parts(cursor)

    def _note(self, name: bytes, value: bytes) -> None:
        """Keep what the file says of itself."""
        about, text = self.about, value.decode(errors="replace")
        for engine in ("redis", "valkey"):
            if name == f"{engine}-ver".encode() and text[:1].isdigit() and len(text) <= 20:
                about.engine = engine, text
        if name == b"used-mem" and text.isascii() and text.isdigit() and len(text) <= 18:
            about.used_memory_bytes = float(text)
