"""Stacked bars and what happens often, in a terminal: a line for each."""

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from forecache.models.results.series import Floats, Stack

from ..text.quantities import quantity
from ..text.runs import clock_times
from ..text.stacks import chosen_text, flagged, highest_of, said, totals_of

BLOCKS = "▁▂▃▄▅▆▇█"
_NARROWEST_BARS = 10
_MOST_NOTES = 3


def block(share: float) -> str:
    """A character as high as a share of 1, the lowest for 0."""
    return BLOCKS[min(len(BLOCKS) - 1, max(0, int(share * len(BLOCKS))))]


def print_stacks(stacks: list[Stack], console: Console) -> None:
    """Print a line for each time: the highest, the median and the lowest bar, and all of them.

    A character stands for the bars of its stretch, as high as their mean; the full height is the
    highest limit. What is said about bars that are set apart follows.
    """
    if not stacks:
        return
    full = max(map(highest_of, stacks))
    first = stacks[0]
    what, unit = f"{first.what}s", first.unit
    console.print()
    console.print(
        Text(f"{what.capitalize()} side by side, the highest first", style="bold").append(
            f"  full height {quantity(full, unit)}", style="dim not bold"
        )
    )
    limits = ", ".join(f"{limit.name} {quantity(limit.value, unit)}" for limit in first.limits)
    console.print(Text(f"{chosen_text(first)}; {limits}", style="dim"))
    times = clock_times([stack.time_s for stack in stacks])
    flags = list(dict.fromkeys(bar.flag for stack in stacks for bar in stack.bars if bar.flag))
    totals = [totals_of(stack) for stack in stacks]
    names = ["", "at", "highest", "median", "lowest", *flags]
    cells = [
        [
            stack.title,
            time,
            *(
                quantity(float(value), unit)
                for value in (heights[0], np.median(heights), heights[-1])
            ),
            *(str(sum(bar.flag == flag for bar in stack.bars)) for flag in flags),
        ]
        for stack, heights, time in zip(stacks, totals, times, strict=True)
    ]
    widths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    spare = console.width - sum(widths) - 2 * len(widths)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", overflow="fold", width=widths[0] if spare >= _NARROWEST_BARS else None)
    for name in names[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    shown = min(spare, len(first.bars))
    if spare >= _NARROWEST_BARS:
        table.add_column("", no_wrap=True, width=shown)
    for heights, row in zip(totals, cells, strict=True):
        bars = [Text(_bars(heights / full, shown))] if spare >= _NARROWEST_BARS else []
        table.add_row(*map(Text, row), *bars)
    console.print(table)
    for stack, time in zip(stacks, times, strict=True):
        told = [said(stack, index) for index in flagged(stack)]
        more = [f"and {len(told) - _MOST_NOTES} more"] if len(told) > _MOST_NOTES else []
        for text in (*told[:_MOST_NOTES], *more):
            notes = Table.grid(padding=(0, 2))
            notes.add_column(style="dim")
            notes.add_column(overflow="fold")
            notes.add_row(time, Text(text))
            console.print(notes)


def _bars(shares: Floats, width: int) -> str:
    return "".join(block(float(part.mean())) for part in np.array_split(shares, width) if part.size)
