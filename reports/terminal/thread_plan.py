"""A thread plan in a terminal."""

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from forecache.models.advice.thread_plan.plan import ThreadPlan

from ..text.thread_plan import GAINS_HEADER, cpu_rows, gain_rows, title_phrase
from .columns import Column, print_most_columns

_LEGEND = (
    "gain: in requests/s or as named, of the plan over the plan without the piece, with the 95% "
    "interval of what the two do not share"
)


def print_thread_plan(plan: ThreadPlan, console: Console) -> None:
    """Print who gets which CPUs, what each piece gains, and how to install it."""
    console.print()
    console.print(Text(title_phrase(plan), style="bold"))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", style="cyan")
    for who, cpus in cpu_rows(plan):
        table.add_row(Text(who), Text(cpus))
    console.print(Padding(table, (0, 0, 0, 2)))
    for note in plan.notes:
        console.print(Text(note, style="dim"))
    rows = gain_rows(plan)
    if rows:
        console.print()
        cells = [list(column) for column in zip(*rows, strict=True)]
        columns = [
            Column(name, own, wraps=name != GAINS_HEADER[-1], to_the_right=False)
            for name, own in zip(GAINS_HEADER, cells, strict=True)
        ]
        print_most_columns(columns, console, dispensable=())
        console.print(Text(_LEGEND, style="dim"))
    if plan.start:
        console.print()
        console.print(Text("Start it with", style="bold"))
        console.print(Text("  " + plan.start, style="cyan"), soft_wrap=True)
        console.print(
            Text("--emit DIR writes all of it, with systemd units and scripts for interrupts.")
        )
