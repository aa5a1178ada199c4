"""The CSV reports `hotspots` and `hw-events` of Intel VTune.

Written by `vtune -report KIND -r DIR -format csv -csv-delimiter comma -group-by function`. Column
names stay as they are in the file, and say how their numbers were scaled: `...(%)` and `% of ...`
became fractions, `...(K)` was multiplied by a thousand. A blank or `N/A ...` is None.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forecache.hwprofiles.files import read_text

from .lines import ABSENT, Place, numbered, shown

Kind = Literal["hotspots", "hw-events"]


@dataclass(frozen=True)
class VtuneRow:
    """One row.

    Attributes
    ----------
    name : str
        The function that the row is about.
    numbers : dict
        The columns that don't hold text, None where there is no value.
    """

    name: str
    numbers: dict[str, float | None]


@dataclass(frozen=True)
class VtuneReport:
    """A report."""

    kind: Kind
    columns: tuple[str, ...]
    rows: tuple[VtuneRow, ...]


_EVENTS = ("Hardware Event Count:", "Uncore Event Count:")
# Every other column holds numbers, except the first.
_TEXT_COLUMNS = frozenset(
    {
        *("Function (Full)", "Source Function", "Module", "Module Path", "Class", "Task Type"),
        *("Source File", "Source File Path", "Source Line", "Start Address", "Sync Object"),
        *("Process", "Process ID", "PID", "Thread", "Thread ID", "TID", "Package", "Core"),
        *("Logical Core", "Physical Core", "CPU", "Frame Domain"),
    }
)
# A share may exceed 100% where VTune divides estimates by one another.
_HIGHEST_PERCENT = 1e4


def read_vtune(path: str | Path) -> VtuneReport:
    """Read a CSV report of VTune."""
    return parse_vtune(read_text(path), file=str(path))


def parse_vtune(text: str, *, file: str) -> VtuneReport:
    """A CSV report of VTune, its kind found in the first line.

    Raises
    ------
    InputError
        A first line that isn't that of a known report, a row with other than its columns, quotes
        that don't match, or what should be a number and is none.
    """
    lines = [(at, line) for at, line in numbered(text.removeprefix("\ufeff"), file=file) if line]
    if not lines:
        raise Place(file, 0).wrong("no report", valid=_VALID)
    at, head = lines[0]
    columns = tuple(_fields(at, head))
    if not all(columns) or len(set(columns)) < max(2, len(columns)) or columns[0] != "Function":
        raise at.wrong(shown(head), valid=_VALID)
    counts_events = any(column.startswith(_EVENTS) for column in columns)
    rows = tuple(_row(at, columns, _fields(at, line)) for at, line in lines[1:])
    return VtuneReport("hw-events" if counts_events else "hotspots", columns, rows)


_VALID = "a CSV report of VTune by function, hotspots or hw-events"


def _fields(at: Place, line: str) -> list[str]:
    """The fields of a line.

    VTune may put blanks before a quote (`  "f<a, b>",0.5`), which CSV would take for an unquoted
    field that ends at the next comma; hence they are skipped.
    """
    try:
        return next(csv.reader([line], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise at.wrong(
            f"{shown(line)} ({error})", valid="a CSV line with matching quotes"
        ) from None


def _row(at: Place, columns: Sequence[str], fields: Sequence[str]) -> VtuneRow:
    """A row: its name, and the numbers behind it."""
    if len(fields) != len(columns):
        raise at.wrong(f"{len(fields)} fields", valid=f"{len(columns)}, as in the first line")
    if not fields[0]:
        raise at.wrong("a row without a name", valid="a name in its first column")
    numbers = {
        column: _number(at, column, cell)
        for column, cell in zip(columns[1:], fields[1:], strict=True)
        if column not in _TEXT_COLUMNS
    }
    return VtuneRow(fields[0], numbers)


def _number(at: Place, column: str, cell: str) -> float | None:
    """A number in the scale its column's name says."""
    cell = cell.strip()
    if cell in ABSENT or cell.startswith("N/A "):
        return None
    if column.endswith("(%)") or column.startswith("% "):
        return at.decimal(cell, column, highest=_HIGHEST_PERCENT) / 100
    return at.decimal(cell, column) * (1000 if "(K)" in column else 1)
