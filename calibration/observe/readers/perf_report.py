"""Tables that `perf report --stdio` prints, as columns of dots or with a separator (`-t ';'`).

Best made with `perf report --stdio -t ';' --no-children -g none`. Call graphs under the rows are
skipped; a table of an event group, with a share per event, is refused.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from forecache.hwprofiles.files import read_text

from .lines import Place, numbered, shown


@dataclass(frozen=True, kw_only=True)
class ReportRow:
    """One row; None where its column is not in the table.

    `overhead_fraction` is the row's own share of the event, `children_fraction` the share of it
    and all it calls. `kernel` says whether the code belongs to a kernel, a guest's included.
    """

    overhead_fraction: float
    children_fraction: float | None
    samples: int | None
    command: str | None
    dso: str | None
    symbol: str | None
    kernel: bool | None


@dataclass(frozen=True, kw_only=True)
class EventReport:
    """The table of one event.

    `samples` is a rounded number from a thousand on, where perf writes `12K`; `event_count` is
    perf's estimate: nanoseconds for `cpu-clock`.
    """

    event: str
    samples: int
    event_count: int
    rows: tuple[ReportRow, ...]


_SAMPLES = re.compile(r"# Samples: ([0-9]{1,12})([KMG]?) +of events? '(.+)'.*")
_EVENT_COUNT = re.compile(r"# Event count \(approx\.\): ([0-9]+)")
_TITLE = re.compile(r"# +(?:Overhead|Children)\b.*")
_SEPARATOR = re.compile(r"# +(?:Overhead|Children)([^\w\s]+|\t)")
_DOTS = re.compile(r"# +[. ]*\.[. ]*")
_PERCENT = re.compile(r" *[0-9]{1,3}\.[0-9]{2}% *")
_SYMBOL = re.compile(r"\[([.kguH])\] (.+)")
_SCALE = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
# perf indents a call graph further than the widest percentage.
_GRAPH_INDENT = " " * 10
# Shares have two decimals, so each may be this much too high.
_ROUNDING = 0.00005


def read_perf_report(path: str | Path) -> tuple[EventReport, ...]:
    """Tables of a file with the output of `perf report --stdio`.

    Raises
    ------
    InputError
        As `parse_perf_report`, or the file can't be read.
    """
    return parse_perf_report(read_text(path), file=str(path))


def parse_perf_report(text: str, *, file: str) -> tuple[EventReport, ...]:
    """Tables of the output of `perf report --stdio`, one per event.

    Raises
    ------
    InputError
        A line that is no row, shares of more than 100% together, a table without the blank line
        that ends it (as in a file that was cut), or no table at all.
    """
    lines = list(numbered(text.removesuffix("\n"), file=file))
    starts = [index for index, (_, line) in enumerate(lines) if line.startswith("# Samples:")]
    if not starts:
        raise Place(file, 0).wrong("no table", valid="output of `perf report --stdio`")
    for at, line in lines[: starts[0]]:
        if line.strip() and not line.startswith("#"):
            raise at.wrong(shown(line), valid="a table behind `# Samples: ...`")
    ends = [*starts[1:], len(lines)]
    return tuple(_event(lines[a:b]) for a, b in zip(starts, ends, strict=True))


@dataclass(frozen=True)
class _Table:
    """How rows are cut: at a separator, or at the columns where the dots begin."""

    names: list[str]
    separator: str | None
    columns: list[int]

    def cells(self, line: str) -> list[str]:
        """The fields of a row, as many as it has."""
        if self.separator is not None:
            return [cell.strip() for cell in line.split(self.separator)]
        ends = [*self.columns[1:], len(line)]
        # Between two columns stand two blanks; anything else there is a row out of line.
        if any(line[begin - 2 : begin].strip() for begin in self.columns[1:]):
            return []
        return [line[a:b].strip() for a, b in zip([0, *self.columns[1:]], ends, strict=True)]


def _event(lines: list[tuple[Place, str]]) -> EventReport:
    """The table of the lines from `# Samples:` on."""
    at, line = lines[0]
    samples = _SAMPLES.fullmatch(line)
    if samples is None:
        raise at.wrong(shown(line), valid="`# Samples: 12K of event 'cycles'`")
    event_count: int | None = None
    table: _Table | None = None
    rows: list[ReportRow] = []
    ended = False
    for index, (at, line) in enumerate(lines[1:], start=1):
        if found := _EVENT_COUNT.fullmatch(line):
            event_count = at.count(found[1], "the event count")
        elif _TITLE.fullmatch(line) and table is None:
            table = _table(at, line, lines[index + 1][1] if index + 1 < len(lines) else "")
        elif not line.strip():
            ended = bool(rows)
        elif line.startswith((_GRAPH_INDENT, "#")):
            continue
        elif table is None:
            raise at.wrong(shown(line), valid="the names of the columns before the rows")
        else:
            rows.append(_row(at, line, table))
            ended = False
    if event_count is None or table is None:
        raise lines[0][0].wrong("a table without its head", valid="`# Event count` and columns")
    if rows and not ended:
        raise at.wrong("the last row at the end", valid="a whole file, with a blank line there")
    total = sum(row.overhead_fraction for row in rows)
    if total > 1 + _ROUNDING * len(rows) + 1e-9:
        raise lines[0][0].wrong(f"shares of {total:.2%} together", valid="at most 100%")
    return EventReport(
        event=samples[3],
        samples=int(samples[1]) * _SCALE[samples[2]],
        event_count=event_count,
        rows=tuple(rows),
    )


def _table(at: Place, title: str, below: str) -> _Table:
    """How the rows under a title line are cut."""
    if _DOTS.fullmatch(below):
        columns = [found.start() for found in re.finditer(r"\.+", below)]
        ends = [*columns[1:], len(title)]
        names = [title[a:b].strip() for a, b in zip(columns, ends, strict=True)]
        # The title of the share stands right of its dots' start.
        table = _Table(names, None, columns)
    else:
        found = _SEPARATOR.match(title)
        if found is None:
            raise at.wrong(shown(title), valid="dots below, or a separator behind the first name")
        names = [name.strip() for name in title[1:].split(found[1])]
        table = _Table(names, found[1], [])
    shares = {"Children", "Self"} if names[0] == "Children" else {"Overhead"}
    if len(set(names)) < len(names) or not shares <= set(names):
        raise at.wrong(shown(title), valid="Overhead, or Children and Self, each once")
    return table


def _row(at: Place, line: str, table: _Table) -> ReportRow:
    """The row of a line."""
    cells = table.cells(line)
    if len(cells) != len(table.names) or not _PERCENT.fullmatch(cells[0]):
        raise at.wrong(shown(line), valid="a row of " + ", ".join(table.names))
    by_name = dict(zip(table.names, cells, strict=True))

    def share(name: str) -> float:
        if not _PERCENT.fullmatch(by_name[name]):
            raise at.wrong(f"{shown(by_name[name])} as {name}", valid="a share such as 12.34%")
        return at.fraction_of_percent(by_name[name], name)

    samples = by_name.get("Samples")
    symbol = by_name.get("Symbol")
    level = _SYMBOL.fullmatch(symbol) if symbol else None
    if symbol is not None and level is None:
        raise at.wrong(f"{shown(symbol)} as Symbol", valid="[.] or [k] and a name")
    return ReportRow(
        overhead_fraction=share("Self" if "Children" in by_name else "Overhead"),
        children_fraction=share("Children") if "Children" in by_name else None,
        samples=None if samples is None else at.count(samples, "Samples"),
        command=by_name.get("Command") or None,
        dso=by_name.get("Shared Object") or None,
        symbol=level[2].strip() if level else None,
        kernel=level[1] in "kg" if level else None,
    )
