"""Documents in a terminal: readable at 80 columns, with or without colour.

Texts are texts, never rich markup. Commands that are too long go on after a backslash, and
configuration is printed unwrapped, so that both can be copied. Of a table that is too wide some
columns are left out, or it becomes several; no word is cut.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import IO, Any, NoReturn, cast

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text as Words

from . import document as parts
from .document import TERMINAL, Column, Document, Part, Section, TextTable
from .text.formats import continued

_PIPE_COLUMNS = 120
"""What a file or a pipe gets."""

LISTING_COLUMNS = 200
"""A listing with sources is wider, so that a row stays one line."""

MOST_WARNINGS = 6
_NARROWEST_CUT = 12
_TONES = {"": "bold", "plain": "bold", "good": "bold green", "bad": "bold yellow"}
_STYLES = {"": "", "muted": "dim", "strong": "bold"}
_COLUMN_STYLES = {"bar": "blue", "muted": "dim"}


def print_answer(answer: Any, console: Console) -> None:
    """Print an answer of any kind."""
    from .builders import document

    print_document(document(answer), console)


def print_document(made: Document, console: Console) -> None:
    """Print the answer in a line, what it is about, then the sections."""
    sections = [each for each in made.sections if each.on in ("", TERMINAL)]
    first, *others = sections or [Section("", [])]
    about = [parts.Text(made.about, "muted")] if made.about else []
    if first.tone and not first.above:
        # Its title is the answer; what it is about follows what belongs to that.
        place = next((n for n, each in enumerate(first.parts) if not _is_strong(each)), 0)
        first = replace(first, parts=[*first.parts[:place], *about, *first.parts[place:]])
    else:
        console.print(Words(made.headline, style="bold"))
        for line in about:
            console.print(Words(line.text, style="dim"))
    print_parts([first, *others, parts.Warnings(made.warnings)], console)


def _is_strong(part: Part) -> bool:
    return isinstance(part, parts.Text) and part.style == "strong"


def print_parts(given: Sequence[Part], console: Console) -> None:
    """Print some parts of a document."""
    _Printer(console).blocks(given)


class _Printer:
    """Prints parts, with an empty line between those that don't belong together."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tight = True
        """Whether what comes next belongs to what was printed last, or is the first."""

    def blocks(self, given: Sequence[Part]) -> None:
        """Print those that a terminal shows."""
        for part in parts.shown(given, TERMINAL):
            self._part(part)

    def _part(self, part: Part) -> None:
        match part:
            case parts.Text():
                self._print(Words(part.text, style=_STYLES[part.style]))
                self._tight = False
            case parts.Section():
                self._section(part)
            case parts.Beside():
                self.blocks([*part.left, *part.right])
            case parts.Items():
                if any(part.sentences):
                    self._block(*_bullets(part.sentences))
            case parts.Facts():
                if part.rows:
                    self._block(_facts(part, self._console.width))
            case TextTable():
                if part.columns and part.columns[0].cells:
                    self._gap()
                    print_table(part, self._console)
            case parts.Code():
                if part.text.strip():
                    self._gap()
                    text = part.text.strip("\n")
                    if part.shell:
                        width = self._console.width - 2
                        text = "\n".join(continued(line, width) for line in text.splitlines())
                    for line in text.splitlines():
                        self._print(Words("  " + line, style="cyan"), soft_wrap=True)
            case parts.Warnings():
                if part.warnings:
                    self._gap()
                    _print_notes(part, self._console)
            case parts.Folded():
                self.blocks(part.parts)
            case parts.Figure():
                self.blocks(part.sketch)
            case parts.Sparklines():
                self._series(part)
            case parts.StackLines():
                if part.stacks:
                    from .sparklines import print_stacks

                    self._gap()
                    print_stacks(part.stacks, self._console)

    def _print(self, *what: Any, **how: Any) -> None:
        self._console.print(*what, **how)

    def _gap(self) -> None:
        if not self._tight:
            self._console.print()
        self._tight = False

    def _block(self, *what: Any) -> None:
        self._gap()
        self._print(*what)

    def _section(self, section: Section) -> None:
        own = parts.shown(section.parts, TERMINAL)
        if not own and not section.tone:
            return
        if section.above:
            self._gap()
            self._print(Words(section.above, style="dim"))
            self._tight = True
        if section.begins_page:
            self._gap()
            self._console.rule(Words(section.title, style="bold"), align="left", style="dim")
            self._tight = True
        elif section.title and section.title_on in ("", TERMINAL):
            if not section.tone:
                self._gap()
            self._print(Words(section.title, style=_TONES[section.tone]))
            self._tight = not section.tone
        self.blocks(own)

    def _series(self, part: parts.Sparklines) -> None:
        from .sparklines import lines_table

        if part.idle:
            self._block(Words(f"always 0: {', '.join(part.idle)}", style="dim"))
        if part.panels:
            self._block(lines_table(part, self._console.width))


def _bullets(sentences: Sequence[str]) -> Iterator[Any]:
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold", ratio=1)
    for sentence in sentences:
        if sentence:
            table.add_row(Words("-", style="dim"), Words(sentence))
    yield table


def _facts(facts: parts.Facts, width: int) -> Table:
    table = Table.grid(padding=(0, 2))
    if facts.numeric:
        table.add_column(style="dim", overflow="fold", max_width=max(24, width // 3))
        table.add_column(overflow="fold", justify="right")
        table.add_column(overflow="fold", style="dim")
        for row in facts.rows:
            table.add_row(*map(Words, row))
        return table
    table.add_column(style="dim", overflow="fold", max_width=width // 2)
    table.add_column(overflow="fold", ratio=1)
    for name, text, *note in facts.rows:
        value = Words(text)
        if any(note):
            value.append(f"  {note[0]}", style="dim")
        table.add_row(Words(name), value)
    return table


def _print_notes(notes: parts.Warnings, console: Console) -> None:
    warnings = notes.warnings
    most = len(warnings) if notes.whole else MOST_WARNINGS
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold", ratio=1)
    for warning in warnings[:most]:
        table.add_row(Words("!", style="bold yellow"), Words(warning))
    console.print(table)
    if len(warnings) > most:
        console.print(Words(f"  and {len(warnings) - most} more", style="dim"))


# --- tables that fit, or leave something out ------------------------------------------------------


def print_table(table: TextTable, console: Console) -> None:
    """Print a table in columns that fit.

    Where not all fit, those that may be are left out; where the others don't, it becomes several
    tables below each other, or every row a block of lines.
    """
    columns = [column for column in table.columns if column.on in ("", TERMINAL)]
    if not any(cell for column in columns for cell in column.cells):
        return
    drops = sorted({column.drop for column in columns if column.drop})
    cut = [replace(column, cells=list(column.cells)[: table.most]) for column in columns]
    if table.groups and (fitting := widths(cut, console.width - 2, gap=2)):
        _print_groups(table, cut, fitting, console)
        return
    for last in (0, *drops):
        kept = [column for column in cut if not 0 < column.drop <= last]
        for gap in (2,) if table.lead else (2, 1):
            if fitting := widths(kept, console.width, gap=gap):
                console.print(_side_by_side(kept, fitting, gap=gap, table=table))
                _print_ends(table, columns, kept, console)
                return
    if table.narrower:
        print_table(replace(table, columns=table.narrower, lead=1, narrower=()), console)
        return
    if table.lead:
        _print_several(cut, console, lead=table.lead)
    else:
        for index in range(len(cut[0].cells)):
            if index:
                console.print()
            console.print(_row_block(cut, index))
    _print_ends(table, columns, [], console)


def _print_groups(
    table: TextTable, columns: Sequence[Column], fitting: Sequence[int], console: Console
) -> None:
    """Print the rows of each group below its name."""
    begins = [*table.groups, len(columns[0].cells)]
    for place, name in enumerate(table.groups.values()):
        rows = slice(begins[place], begins[place + 1])
        own = [
            replace(each, cells=each.cells[rows], name="" if place else each.name)
            for each in columns
        ]
        console.print(Words(name, style="bold"))
        console.print(Padding(_side_by_side(own, fitting, gap=2), (0, 0, 0, 2)))


def _print_ends(
    table: TextTable, columns: Sequence[Column], kept: Sequence[Column], console: Console
) -> None:
    """How many rows are left, and what the short names of columns stand for."""
    left = len(columns[0].cells) - (table.most or len(columns[0].cells))
    if left > 0:
        console.print(Words(f"and {left} more rows; --json has all", style="dim"))
    if kept and (legend := table.said_below(kept)):
        console.print(Words(legend, style="dim"))


def _least(column: Column) -> int:
    """The width below which a word would be cut, of one that may not be cut."""
    if column.cut:
        return _NARROWEST_CUT
    cells = [word for text in column.cells for word in text.split()]
    whole = cells if column.wraps else column.cells
    return max(map(cell_len, (*column.name.split(), *whole)), default=0)


def widths(columns: Sequence[Column], available: int, *, gap: int) -> list[int]:
    """Return how wide each column is, in order; empty where a word would have to be cut."""
    found = [_least(column) for column in columns]
    spare = available - sum(found) - gap * (len(columns) - 1)
    if spare < 0:
        return []
    wanted = [
        max(map(cell_len, (column.name, *column.cells))) - least
        for column, least in zip(columns, found, strict=True)
    ]
    # Where not all can be as wide as they want to, each gets its share of what is left.
    for index, more in enumerate(wanted):
        share = more if sum(wanted[index:]) <= spare else spare * more // sum(wanted[index:])
        found[index] += share
        spare -= share
    return found


def _side_by_side(
    columns: Sequence[Column],
    fitting: Sequence[int],
    *,
    gap: int,
    table: TextTable | None = None,
) -> Table:
    strong = [] if table is None else [table.marked, *table.strong]
    named = any(column.name for column in columns)
    made = Table(
        box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim", show_header=named
    )
    for column, width in zip(columns, fitting, strict=True):
        made.add_column(
            Words(column.name),
            justify="right" if column.numeric else "left",
            width=width,
            style=_COLUMN_STYLES.get(column.style, ""),
            no_wrap=column.cut,
            overflow="ellipsis" if column.cut else "fold",
        )
    for index, cells in enumerate(zip(*(column.cells for column in columns), strict=True)):
        styled = [
            _marked(cell) if column.style == "mark" else Words(cell)
            for cell, column in zip(cells, columns, strict=True)
        ]
        made.add_row(*styled, style="bold" if index in strong else None)
    return made


_MARKS = {"✓": "green", "~": "yellow", "✗": "red", "?": "dim"}


def _marked(cell: str) -> Words:
    text = Words(cell)
    text.stylize(_MARKS.get(cell[:1], ""), 0, 1)
    return text


def _row_block(columns: Sequence[Column], index: int) -> Table:
    """One row as a block of lines, a column each."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for column in columns:
        table.add_row(Words(column.name), Words(column.cells[index]))
    return table


def _print_several(columns: Sequence[Column], console: Console, *, lead: int) -> None:
    """Print several tables below each other, the first `lead` columns in each of them."""
    leading, others = columns[:lead], columns[lead:]
    while True:
        count = len(others)
        while count > 1 and not widths([*leading, *others[:count]], console.width, gap=2):
            count -= 1
        kept = [*leading, *others[:count]]
        if fitting := widths(kept, console.width, gap=2):
            console.print(_side_by_side(kept, fitting, gap=2))
        else:
            for index in range(len(kept[0].cells)):
                console.print(_row_block(kept, index))
        others = others[count:]
        if not others:
            return
        console.print()


# --- standard output ------------------------------------------------------------------------------


class _Console(Console):
    """A console that leaves it to the command line to end when the reader of a pipe goes away."""

    def on_broken_pipe(self) -> NoReturn:
        """Raise what was caught; rich itself would exit with 1, which here stands for a bug."""
        _, error, _ = sys.exc_info()
        raise error or BrokenPipeError


def console(*, pipe_columns: int = _PIPE_COLUMNS) -> Console:
    """Return a console on standard output, as wide as the terminal or as `COLUMNS` says.

    Parameters
    ----------
    pipe_columns
        Width where there is no terminal.
    """
    sized = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    file = None if sys.stdout.isatty() else cast(IO[str], _Trimmed(sys.stdout))
    return _Console(file=file, width=None if sized else pipe_columns, highlight=False)


class _Trimmed:
    """A stream whose lines end without the spaces that fill up a table; a terminal hides them."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write whole lines, which rich always does."""
        self._stream.write(re.sub(r" +$", "", text, flags=re.MULTILINE))
        return len(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)
