"""Reading an RDB file forward: lengths, strings and what lies compressed in them (rdb.c, lzf_d.c).

Strings are passed over where only their length counts; that of a compressed one stands before it.
"""

from __future__ import annotations

from mmap import mmap
from typing import NamedTuple

from forecache.sim.errors import InputError

from ..observe.readers.lines import Place

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
