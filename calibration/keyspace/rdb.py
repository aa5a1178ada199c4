"""An RDB file, key by key: names, times to live and sizes, without the values (rdb.c).

Versions 1 to 14 of Redis and up to 80 of Valkey. The checksum at the end is not looked at, which
would take longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

from forecache.sim.errors import InputError

from .cursor import Cursor
from .values import ValueSizes, skip_module_parts, value_sizes

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
