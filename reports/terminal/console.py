"""What the terminal's tables share."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..text.settings import setting_name

MOST_WARNINGS = 6


def plain_table() -> Table:
    """Return a table without rules, two spaces between its columns."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")


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
