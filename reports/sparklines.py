"""Values over time and stacked bars as lines of characters, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from forecache.models.results.series import Floats, Series, Stack, Ticks

from .document import Sparklines
from .text.formats import block, quantity
from .text.runs import (
    Moment,
    chosen_text,
    clock_times,
    flagged,
    highest_of,
    said,
    totals_of,
)

_WIDEST_NAME = 22
_NARROWEST_SPARK = 12


def lines_table(part: Sparklines, width: int) -> Table:
    """A row for every value over time: its least, mean and greatest, and a sparkline."""
    times_s = part.times_s
    lines = [(panel, line) for panel in part.panels for line in panel.lines]
    cells = [[quantity(float(value), line.unit) for value in _summary(line)] for _, line in lines]
    names = [line.name for _, line in lines] + [f"{row.name}, in all" for row in part.ticks]
    name_width = min(_WIDEST_NAME, max(map(cell_len, names)))
    column_widths = [max(5, *(cell_len(row[i]) for row in cells)) for i in range(3)]
    spark_width = width - name_width - sum(column_widths) - 2 * 4
    table = _bare_table()
    table.add_column("", overflow="fold", width=name_width)
    for name, column_width in zip(("min", "mean", "max"), column_widths, strict=True):
        table.add_column(name, justify="right", width=column_width, no_wrap=True)
    drawn = spark_width >= _NARROWEST_SPARK
    if drawn:
        table.add_column(_span(times_s, spark_width), no_wrap=True, width=spark_width)
        if pointers := _pointers(times_s, part.moments, spark_width):
            table.add_row("", "", "", "", Text(pointers, style="dim"))
    previous = ""
    for (panel, line), row in zip(lines, cells, strict=True):
        if panel.name not in (previous, line.name):
            table.add_row(Text(panel.name, style="dim"))
        previous = panel.name
        spark = [Text(sparkline(times_s, line.values, spark_width))] if drawn else []
        table.add_row(Text(line.name), *map(Text, row), *spark)
    for ticks in part.ticks:
        rug = [Text(_rug(times_s, ticks, spark_width))] if drawn else []
        in_all = quantity(float(ticks.counts.sum()), "")
        table.add_row(Text(f"{ticks.name}, {in_all} in all"), "", "", "", *rug)
    return table


def _bare_table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")


def _rug(times_s: Floats, ticks: Ticks, width: int) -> str:
    """Draw how often something happened in each stretch of time; a space where it didn't."""
    sums = np.bincount(_cells_of(times_s, times_s, width), weights=ticks.counts, minlength=width)
    return "".join(block(each / sums.max()) if each else " " for each in sums.tolist())


def _summary(line: Series) -> tuple[float, float, float]:
    if not line.finite.size:
        return (float("nan"),) * 3
    return float(line.finite.min()), float(line.finite.mean()), float(line.finite.max())


def _cells_of(times_s: Floats, at_s: Floats, width: int) -> np.ndarray:
    span_s = times_s[-1] - times_s[0]
    if span_s <= 0:
        return np.zeros(at_s.size, dtype=np.int64)
    return np.minimum((at_s - times_s[0]) / span_s * width, width - 1).astype(np.int64)


def sparkline(times_s: Floats, values: Floats, width: int) -> str:
    """Draw values over time with `width` characters from zero to their greatest.

    A character is the mean of its stretch of time, or the last value before it where none falls
    into it; a space where there is no value.
    """
    finite = np.isfinite(values)
    highest = float(values[finite].max()) if finite.any() else 0.0
    cells = _cells_of(times_s, times_s, width)
    drawn = []
    latest = float("nan")
    for cell in range(width):
        inside = values[cells == cell]
        if inside.size:
            known = inside[np.isfinite(inside)]
            mean = float(known.mean()) if known.size else float("nan")
            latest = float(inside[-1])
        else:
            mean = latest
        if not np.isfinite(mean):
            drawn.append(" ")
        else:
            drawn.append(block(mean / highest if highest > 0 else 0.0))
    return "".join(drawn)


def _span(times_s: Floats, width: int) -> str:
    start, end = quantity(float(times_s[0]), "s"), quantity(float(times_s[-1]), "s")
    gap = width - cell_len(start) - cell_len(end)
    return start + " " * gap + end if gap > 0 else end


def _pointers(times_s: Floats, moments: Sequence[Moment], width: int) -> str:
    """Numbers of moments above the place of the sparklines where they happened."""
    inside = [m for m in moments if times_s[0] <= m.time_s <= times_s[-1]]
    places = _cells_of(times_s, np.array([m.time_s for m in inside]), width)
    drawn = [" "] * width
    free = 0
    for moment, place in zip(inside, places.tolist(), strict=True):
        text = str(moment.number)
        start = min(place, width - len(text))
        if start >= free:
            drawn[start : start + len(text)] = text
            free = start + len(text) + 1
    return "".join(drawn).rstrip()


# --- stacked bars ---------------------------------------------------------------------------------

_NARROWEST_BARS = 10
_MOST_NOTES = 3


def print_stacks(stacks: Sequence[Stack], console: Console) -> None:
    """Print a line for each time: the highest, the median and the lowest bar, and all of them.

    A character stands for the bars of its stretch, as high as their mean; the full height is the
    highest limit. What is said about bars that are set apart follows.
    """
    full = max(map(highest_of, stacks))
    first = stacks[0]
    what, unit = f"{first.what}s", first.unit
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
    column_widths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    spare = console.width - sum(column_widths) - 2 * len(column_widths)
    drawn = spare >= _NARROWEST_BARS
    table = _bare_table()
    table.add_column("", overflow="fold", width=column_widths[0] if drawn else None)
    for name in names[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    width = min(spare, len(first.bars))
    if drawn:
        table.add_column("", no_wrap=True, width=width)
    for heights, row in zip(totals, cells, strict=True):
        bars = [Text(_bars(heights / full, width))] if drawn else []
        table.add_row(*map(Text, row), *bars)
    console.print(table)
    for stack, time in zip(stacks, times, strict=True):
        noted = [said(stack, index) for index in flagged(stack)]
        more = [f"and {len(noted) - _MOST_NOTES} more"] if len(noted) > _MOST_NOTES else []
        for text in (*noted[:_MOST_NOTES], *more):
            notes = Table.grid(padding=(0, 2))
            notes.add_column(style="dim")
            notes.add_column(overflow="fold")
            notes.add_row(time, Text(text))
            console.print(notes)


def _bars(shares: Floats, width: int) -> str:
    return "".join(block(float(part.mean())) for part in np.array_split(shares, width) if part.size)
