"""What the terminal's tables share."""

from typing import Literal

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..text.formats import number
from ..text.settings import setting_name

MOST_WARNINGS = 6


def plain_table() -> Table:
    """Return a table without rules, two spaces between its columns."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")


def ruled_table(title: str, *headings: str) -> Table:
    """Return an empty table; a heading that starts with `>` makes a column of numbers."""
    made = Table(
        title=escape(title) or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for heading in headings:
        made.add_column(heading.lstrip(">"), justify="right" if heading.startswith(">") else "left")
    return made


def narrow_table(first: str, *headings: str) -> Table:
    """Return an empty table for 80 columns: no rules, one space between columns, no word cut."""
    made = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    made.add_column(first, no_wrap=True, overflow="fold")
    for heading in headings:
        justify: Literal["left", "right"] = "right" if heading.startswith(">") else "left"
        made.add_column(heading.lstrip(">"), justify=justify, overflow="fold")
    return made


def span(low: float | None, high: float | None) -> str:
    """Return the range of a number, empty when there is none."""
    return "" if low is None or high is None else f"{number(low)} – {number(high)}"


def add_setting_column(table: Table, key: str) -> None:
    """Add the column of a swept field; its name may take two lines, but no word is cut."""
    name = setting_name(key)
    widest = max(len(word) for word in name.split() or [""])
    table.add_column(name, justify="right", overflow="fold", min_width=widest)


def print_warning(warning: str, console: Console) -> None:
    """Print one warning, wrapped beside its mark."""
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold", ratio=1)
    table.add_row(Text("!", style="bold yellow"), Text(warning))
    console.print(table)


def print_warnings(warnings: list[str], console: Console) -> None:
    """Print the first few warnings and how many more there are."""
    if not warnings:
        return
    console.print()
    for warning in warnings[:MOST_WARNINGS]:
        print_warning(warning, console)
    if len(warnings) > MOST_WARNINGS:
        console.print(Text(f"  and {len(warnings) - MOST_WARNINGS} more", style="dim"))
