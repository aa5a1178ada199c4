"""`forecache validate seeds` on a terminal."""

from rich.console import Console
from rich.text import Text

from forecache.calibration.seeds.page import amount, claimed, error, named

from .console import plain_table
from .shapes import Json, mapping, rows

_SHOWN = ("prediction", "arithmetic")


def print_seeds(result: Json, console: Console) -> None:
    """Print every claim that has a number to compare, and how many hold."""
    table = plain_table()
    table.add_column("claim", no_wrap=True)
    for heading in ("claimed", "predicted", "error"):
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column("", overflow="fold")
    shown = [row for row in rows(result, "rows") if row["role"] in _SHOWN]
    for row in shown:
        bad = row["verdict"] in ("misses", "wrong")
        verdict = Text(str(row["verdict"]), style="bold red" if bad else "")
        table.add_row(named(row), claimed(row), amount(row["predicted"]), error(row), verdict)
    console.print(table)
    console.print()
    for role in _SHOWN:
        counts = mapping(mapping(result, "summary"), role)
        words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        console.print(Text(f"{role}: {words}"))
