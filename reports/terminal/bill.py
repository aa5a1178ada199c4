"""Bills on a terminal: lines of a plan's, and what an export of today's tells."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from forecache.models.cost.beside import BillLine
from forecache.models.plan.bill.today import FromBill

from ..text.bills import (
    bill_rows,
    cache_rows,
    compared_rows,
    export_phrase,
    line_rows,
    unplaced_rows,
)
from ..text.today import known_rows, unknown_heading
from .console import plain_table

_MOST_UNPLACED = 15


def print_bill(lines: Sequence[BillLine], console: Console) -> None:
    """Print lines of a bill, each with its rate and source."""
    table = plain_table()
    table.add_column("")
    table.add_column("quantity", no_wrap=True)
    table.add_column("USD", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in bill_rows(lines):
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def print_from_bill(found: FromBill, console: Console) -> None:
    """Print today's caches and their lines, against the first plan, and what has no place."""
    console.print(Text("Today’s bill", style="bold"))
    console.print(Text(export_phrase(found)))
    _print_table(("cache", "nodes", "USD a month"), cache_rows(found), console)
    if found.cache:
        console.print()
        console.print(Text(f"{found.cache}, a month of 730 hours", style="bold"))
        _print_table(("", "in the export", "USD a month"), line_rows(found), console)
    if found.compared:
        console.print()
        console.print(Text("Against plan 1, USD a month", style="bold"))
        _print_table(("", "today", "plan"), compared_rows(found), console)
    if found.unplaced:
        console.print()
        console.print(Text("Lines that belong to no cache", style="bold"))
        rows = unplaced_rows(found, most=_MOST_UNPLACED)
        _print_table(("", "why", "USD"), rows, console)
    if found.known:
        console.print()
        print_known(known_rows(found.known), console)
    if found.unknown:
        console.print()
        console.print(Text(unknown_heading(), style="bold"))
        print_sentences(found.unknown, console)


def print_known(rows: Sequence[tuple[str, str, str]], console: Console) -> None:
    """Print fields that were filled in, and how each is known."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for field, value, how in rows:
        text = Text(value)
        text.append(f"  {how}", style="dim")
        table.add_row(Text(field.removeprefix("demand.")), text)
    console.print(table)


def print_sentences(sentences: Sequence[str], console: Console) -> None:
    """Print sentences, indented; empty ones are left out."""
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold", ratio=1)
    for sentence in sentences:
        if sentence:
            table.add_row(Text(" "), Text(sentence))
    console.print(table)


def _print_table(
    names: tuple[str, str, str], rows: Sequence[tuple[str, str, str]], console: Console
) -> None:
    table = plain_table()
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place == 2 else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
