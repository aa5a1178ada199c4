"""CSV reports of Intel VTune: summary, hotspots, hw-events, top-down and callstacks.

Written by `vtune -report KIND -r DIR -format csv -csv-delimiter comma`; comma, tab, semicolon and
`^` are recognised. Column names stay as they are in the file, and say how their numbers were
scaled: `...(%)` and `% of ...` became fractions, `...(K)` was multiplied by a thousand. A blank or
`N/A ...` is None: in a top-down report VTune leaves what is zero blank as well, and the file
doesn't tell the two apart. `-report gprof-cc` is refused.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forecache.hwprofiles.files import read_text

from .lines import ABSENT, Place, is_decimal, numbered, shown

Kind = Literal["summary", "hotspots", "hw-events", "top-down", "callstacks"]


@dataclass(frozen=True)
class VtuneRow:
    """One row.

    Attributes
    ----------
    path : tuple of str
        Names from the top to this row: of the call stack in a top-down report, of the hierarchy in
        a summary, function and frame in callstacks; elsewhere the row's own name alone.
    text : dict
        The text columns that aren't blank: `Module`, `Source File`, `Start Address` and others.
    numbers : dict
        The other columns, None where there is no value.
    """

    path: tuple[str, ...]
    text: dict[str, str]
    numbers: dict[str, float | None]

    @property
    def name(self) -> str:
        """What the row is about: a function, package, metric."""
        return self.path[-1]

    @property
    def depth(self) -> int:
        """Levels above the row."""
        return len(self.path) - 1


@dataclass(frozen=True)
class VtuneReport:
    """A report; tables inside a summary bring columns of their own, which their rows name."""

    kind: Kind
    columns: tuple[str, ...]
    rows: tuple[VtuneRow, ...]


_DELIMITERS = ",\t;^"
_SUMMARY = ("Hierarchy Level", "Metric Name", "Metric Value")
_STACK = "Function Stack"
_EVENTS = ("Hardware Event Count:", "Uncore Event Count:")
# Every other column holds numbers, except the first.
_TEXT_COLUMNS = frozenset(
    {
        *("Function", _STACK, "Function (Full)", "Source Function", "Module", "Module Path"),
        *("Source File", "Source File Path", "Source Line", "Start Address", "Class", "Task Type"),
        *("Process", "Process ID", "PID", "Thread", "Thread ID", "TID", "Package", "Core"),
        *("Logical Core", "Physical Core", "CPU", "Frame Domain", "Sync Object"),
    }
)
# A share may exceed 100% where VTune divides estimates by one another.
_HIGHEST_PERCENT = 1e4


def read_vtune(path: str | Path) -> VtuneReport:
    """Read a CSV report of VTune.

    Raises
    ------
    InputError
        As `parse_vtune`, or the file can't be read.
    """
    return parse_vtune(read_text(path), file=str(path))


def parse_vtune(text: str, *, file: str) -> VtuneReport:
    """A CSV report of VTune, its kind and delimiter found in the first line.

    Raises
    ------
    InputError
        A first line that isn't that of a known report, a row with other than its columns, quotes
        that don't match, a level that skips one, or what should be a number and is none.
    """
    lines = [(at, line) for at, line in numbered(text.removeprefix("\ufeff"), file=file) if line]
    if not lines:
        raise Place(file, 0).wrong("no report", valid=_VALID)
    at, head = lines[0]
    delimiter = _delimiter(at, head)
    columns = tuple(_fields(at, head, delimiter))
    if columns == _SUMMARY:
        return VtuneReport("summary", columns, tuple(_summary_rows(lines[1:], delimiter)))
    if not all(columns) or len(set(columns)) < len(columns) or columns[0] not in _TEXT_COLUMNS:
        raise at.wrong(shown(head), valid=_VALID)
    kind: Kind = "hotspots"
    if columns[:2] == ("Function", _STACK):
        kind = "callstacks"
    elif columns[0] == _STACK:
        kind = "top-down"
    elif any(column.startswith(_EVENTS) for column in columns):
        kind = "hw-events"
    return VtuneReport(kind, columns, tuple(_rows(lines[1:], kind, columns, delimiter)))


_VALID = "a CSV report of VTune: summary, hotspots, hw-events, top-down or callstacks"


def _delimiter(at: Place, head: str) -> str:
    """The first delimiter outside of quotes."""
    quoted = False
    for sign in head:
        quoted ^= sign == '"'
        if sign in _DELIMITERS and not quoted:
            return sign
    raise at.wrong(shown(head), valid=_VALID)


def _fields(at: Place, line: str, delimiter: str) -> list[str]:
    """The fields of a line.

    VTune indents a name by blanks before its quote (`  "f<a, b>",0.5`), which CSV would take for
    an unquoted field that ends at the next comma; hence blanks before a quote are skipped.
    """
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise at.wrong(
            f"{shown(line)} ({error})", valid="a CSV line with matching quotes"
        ) from None


def _rows(
    lines: Sequence[tuple[Place, str]], kind: Kind, columns: tuple[str, ...], delimiter: str
) -> list[VtuneRow]:
    """The rows of a report that is one table."""
    rows: list[VtuneRow] = []
    path: tuple[str, ...] = ()
    for at, line in lines:
        fields = _fields(at, line, delimiter)
        if len(fields) != len(columns):
            raise at.wrong(f"{len(fields)} fields", valid=f"{len(columns)}, as in the first line")
        name = fields[0]
        level = len(line) - len(line.lstrip(" ")) if kind == "top-down" else 0
        if kind == "callstacks" and not name:
            name, level = fields[1], 1
        path = _below(at, path, level, name)
        rows.append(VtuneRow(path, *_cells(at, columns, fields)))
    return rows


def _below(at: Place, path: tuple[str, ...], level: int, name: str) -> tuple[str, ...]:
    """The path of a row from that of the row before it."""
    if level > len(path):
        raise at.wrong(f"level {level}", valid=f"at most {len(path)}, one below the row before")
    if not name:
        raise at.wrong("a row without a name", valid="a name in its first column")
    return (*path[:level], name)


def _cells(
    at: Place, columns: Sequence[str], fields: Sequence[str]
) -> tuple[dict[str, str], dict[str, float | None]]:
    """Text and numbers of the fields behind the first."""
    text: dict[str, str] = {}
    numbers: dict[str, float | None] = {}
    for column, cell in zip(columns[1:], fields[1:], strict=True):
        if column not in _TEXT_COLUMNS:
            numbers[column] = _number(at, column, cell)
        elif cell:
            text[column] = cell
    return text, numbers


def _number(at: Place, column: str, cell: str) -> float | None:
    """A number in the scale its column's name says."""
    cell = cell.strip()
    if cell in ABSENT or cell.startswith("N/A "):
        return None
    if column.endswith("(%)") or column.startswith("% "):
        return at.decimal(cell, column, highest=_HIGHEST_PERCENT) / 100
    return at.decimal(cell, column) * (1000 if "(K)" in column else 1)


def _summary_rows(lines: Sequence[tuple[Place, str]], delimiter: str) -> list[VtuneRow]:
    """The rows of a summary: metrics with one value, and tables under a line of names."""
    rows: list[VtuneRow] = []
    path: tuple[str, ...] = ()
    table: list[str] = []
    for at, line in lines:
        level_text, *fields = _fields(at, line, delimiter)
        level = at.count(level_text, "the hierarchy level", highest=50)
        if len(fields) < 2:
            raise at.wrong(shown(line), valid="a level, a name and a value")
        if len(fields) == 2:
            table = []
            path = _below(at, path, level, fields[0])
            rows.append(_metric(at, path, fields[1]))
        elif len(fields) == len(table):
            path = _below(at, path, level, fields[0])
            rows.append(_table_row(at, path, table, fields))
        elif table or len(set(fields)) < len(fields) or any(map(is_decimal, fields)):
            raise at.wrong(shown(line), valid=f"a row of {len(table) or 2} fields, or their names")
        else:
            table = fields
    return rows


def _metric(at: Place, path: tuple[str, ...], value: str) -> VtuneRow:
    """A metric; its value may be text, as the name of the CPU is."""
    if is_decimal(value) or value.strip() in ABSENT or value.startswith("N/A "):
        # The name says the scale here, not the column.
        return VtuneRow(path, {}, {_SUMMARY[2]: _number(at, path[-1], value)})
    return VtuneRow(path, {_SUMMARY[2]: value}, {})


def _table_row(
    at: Place, path: tuple[str, ...], columns: Sequence[str], fields: Sequence[str]
) -> VtuneRow:
    """A row of a table inside a summary."""
    return VtuneRow(path, *_cells(at, columns, fields))
