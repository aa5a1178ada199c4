"""Compiled code: C, built into a shared library per room when the package is installed.

`library` loads one, and `Layout` reads the declarations of its header, so that Python fills and
reads the very fields that the C code works on. Where the sources are newer than the library, as in
a checkout that somebody changes, `library` builds it again.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .toolchain import build, is_current, library_path

Array = NDArray[Any]

_WORD: np.dtype[Any] = np.dtype(np.int64)
_TYPES: dict[str, np.dtype[Any]] = {
    "int64_t": _WORD,
    "int32_t": np.dtype(np.int32),
    "uint32_t": np.dtype(np.uint32),
    "uint8_t": np.dtype(np.uint8),
    "double": np.dtype(np.float64),
}
_COMMENT = re.compile(r"//[^\n]*")
_ENUM = re.compile(r"enum\s*\{(.*?)\}", re.DOTALL)
_DEFINE = re.compile(r"#define (\w+) (.+)")
_STRUCT = re.compile(r"\nstruct (\w+) \{\n(.*?)\n\};", re.DOTALL)
_DECLARATION = re.compile(r"union \{|struct \{|\};|[^;{}]+;")
_FIELD = re.compile(r"(struct )?(\w+) (\**)(\w+)((?:\[[^]]*\])?)$")


@cache
def library(folder: Path) -> ctypes.CDLL:
    """The shared library of a folder of C sources, built if it is missing or older than they are.

    Raises
    ------
    OSError
        If it cannot be built or loaded.
    """
    if not is_current(folder):
        build(folder)
    return ctypes.CDLL(str(library_path(folder)))


class Layout:
    """Structures and constants that a C header declares, without those of what it includes.

    Attributes
    ----------
    dtypes : dict of str to numpy.dtype
        By the name of a structure. A pointer is an int64; members of a union share their place.
    constants : dict of str to int
        Enumerators, and macros that stand for a number.
    """

    def __init__(self, *headers: Path) -> None:
        self.dtypes: dict[str, np.dtype[Any]] = {}
        self.constants: dict[str, int] = {}
        for header in headers:
            text = _COMMENT.sub("", header.read_text(encoding="utf-8"))
            self._read_constants(text)
            for name, body in _STRUCT.findall(text):
                self.dtypes[name] = self._record(body)

    def _read_constants(self, text: str) -> None:
        for body in _ENUM.findall(text):
            value = -1
            for entry in filter(None, (part.strip() for part in body.split(","))):
                name, _, given = (part.strip() for part in entry.partition("="))
                value = self._number(given) if given else value + 1
                self.constants[name] = value
        for name, given in _DEFINE.findall(text):
            if re.fullmatch(r"[\w\s()*<-]+", plain := re.sub(r"INT64_C|\(int64_t\)", "", given)):
                self.constants[name] = self._number(plain)

    def _number(self, expression: str) -> int:
        return int(eval(expression, {"__builtins__": {}}, dict(self.constants)))

    def _record(self, body: str) -> np.dtype[Any]:
        names: list[str] = []
        formats: list[Any] = []
        offsets: list[int] = []
        at = ends = 0
        union_at: list[int] = []
        widest = 0
        for line in _DECLARATION.findall(" ".join(body.split())):
            if line in ("union {", "struct {"):
                union_at.append(at if line == "union {" else -1)
                widest = 0 if line == "union {" else widest
                continue
            if line == "};":
                begins = union_at.pop()
                at = begins + widest if begins >= 0 else at
                continue
            found = _FIELD.fullmatch(line.rstrip(";").strip())
            if found is None:
                raise ValueError(f"not a declaration that can be read: {line}")
            structure, kind, pointer, name, count = found.groups()
            if count == "[]":
                break  # of any length, and behind all others
            known: dict[str, np.dtype[Any]] = self.dtypes if structure else _TYPES
            dtype = _WORD if pointer else known[kind]
            shape = (self._number(count[1:-1]),) if count else ()
            names.append(name)
            formats.append((dtype, shape) if shape else dtype)
            offsets.append(at)
            size = dtype.itemsize * int(np.prod(shape, dtype=int))
            in_union = bool(union_at) and union_at[-1] >= 0
            widest = max(widest, size)
            if not in_union:
                at += size
            ends = max(ends, offsets[-1] + size)
        return np.dtype(
            {"names": names, "formats": formats, "offsets": offsets, "itemsize": -(-ends // 8) * 8}
        )


def pointer(array: Array) -> int:
    """The address of an array, for a field that points to it; the caller keeps it alive."""
    return int(array.ctypes.data)
