"""Columns of a terminal table that fit or don't: no word is ever cut."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .console import plain_table


@dataclass(frozen=True)
class Column:
    """One column of a table; its name, and its cells if it `wraps`, may take several lines."""

    name: str
    cells: list[str]
    wraps: bool = False
    to_the_right: bool = True
    style: str = ""

    @property
    def widest(self) -> int:
        """The width at which nothing wraps."""
        return max(map(cell_len, (self.name, *self.cells)))

    @property
    def least(self) -> int:
        """The width below which a word would be cut."""
        whole = [word for text in self.cells for word in text.split()] if self.wraps else self.cells
        return max(map(cell_len, (*self.name.split(), *whole)), default=0)


def widths(columns: list[Column], available: int, *, gap: int) -> list[int]:
    """Return how wide each column is, in order; empty where a word would have to be cut."""
    found = [column.least for column in columns]
    spare = available - sum(found) - gap * (len(columns) - 1)
    if spare < 0:
        return []
    for index, column in enumerate(columns):
        more = min(spare, column.widest - found[index])
        found[index] += more
        spare -= more
    return found


def column_table(
    columns: list[Column], fitting: list[int], *, gap: int, marked: int | None = None
) -> Table:
    """Return columns side by side, as wide as `fitting` says; the row `marked` is bold."""
    table = plain_table()
    table.padding = (0, gap, 0, 0)
    for column, width in zip(columns, fitting, strict=True):
        table.add_column(
            column.name, justify="right" if column.to_the_right else "left", width=width
        )
    for index, cells in enumerate(zip(*(column.cells for column in columns), strict=True)):
        styled = [
            Text(cell, style=column.style) for cell, column in zip(cells, columns, strict=True)
        ]
        table.add_row(*styled, style="bold" if index == marked else None)
    return table


def row_block(columns: list[Column], index: int) -> Table:
    """Return one row as a block of lines, a column each."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for column in columns:
        table.add_row(Text(column.name), Text(column.cells[index]))
    return table


def print_most_columns(
    columns: list[Column],
    console: Console,
    *,
    dispensable: Sequence[str],
    marked: int | None = None,
) -> list[Column]:
    """Print a row per index, without the dispensable columns that don't fit.

    Where even the others don't fit every row becomes a block of lines.

    Parameters
    ----------
    dispensable
        Names of columns, the one to be left out first in front.
    marked
        The row to be bold.

    Returns
    -------
    list of Column
        Those that were printed side by side; none where rows became blocks.
    """
    for count in range(len(dispensable) + 1):
        shown = [column for column in columns if column.name not in dispensable[:count]]
        for gap in (2, 1):
            fitting = widths(shown, console.width, gap=gap)
            if fitting:
                console.print(column_table(shown, fitting, gap=gap, marked=marked))
                return shown
    for index in range(len(columns[0].cells)):
        if index:
            console.print()
        console.print(row_block(columns, index))
    return []


def print_columns(columns: list[Column], console: Console, *, lead: int = 1) -> None:
    """Print columns side by side, in several tables below each other where one is too wide.

    The first `lead` columns, which say what a row is about, are repeated in each of them.
    """
    leading, others = columns[:lead], columns[lead:]
    while True:
        count = len(others)
        while count > 1 and not widths([*leading, *others[:count]], console.width, gap=2):
            count -= 1
        shown = [*leading, *others[:count]]
        fitting = widths(shown, console.width, gap=2)
        if fitting:
            console.print(column_table(shown, fitting, gap=2))
        else:
            for index in range(len(shown[0].cells)):
                console.print(row_block(shown, index))
        others = others[count:]
        if not others:
            return
        console.print()
