"""Results over time in a terminal: facts, tables, a line per value with a sparkline, events."""

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from forecache.models.results.series import (
    Fact,
    Floats,
    Run,
    RunPoint,
    RunsOverTime,
    Series,
    Stack,
    Table,
    Ticks,
)

from ..text.quantities import quantity
from ..text.runs import (
    Comparison,
    Moment,
    cell_texts,
    chosen_text,
    clock_times,
    comparison,
    fact_text,
    flagged,
    highest_of,
    kind_word,
    last_of,
    moment_times,
    moments_of,
    outcomes,
    panels_of,
    point_title,
    said,
    seeds_sentence,
    stacks_of,
    ticks_of,
    title_of,
    totals_of,
    without_idle,
)
from .columns import Column, print_columns
from .console import plain_table, print_warnings

_WIDEST_NAME = 22
_NARROWEST_SPARK = 12
_MOST_ROWS = 40
_MOST_MOMENTS = 15


def print_series(result: RunsOverTime, console: Console) -> None:
    """Print what `forecache simulate` returns for a scenario over time.

    Of several points first what differs between them.
    """
    console.print(
        Text(" · ".join(dict.fromkeys((title_of(result), kind_word(result)))), style="bold")
    )
    points = result.points
    compared = comparison(points)
    over_seeds = seeds_sentence(result)
    if over_seeds:
        console.print(Text(over_seeds, style="dim"))
    if compared:
        console.print()
        if over_seeds:
            _print_outcomes(points, compared, console)
        else:
            columns = [
                Column(name, [row[index] for row in compared.rows])
                for index, name in enumerate(compared.heads)
            ]
            print_columns(columns, console, lead=compared.leading)
        if compared.common:
            console.print()
            console.print(Text("The same at all points", style="bold"))
            _print_facts(compared.common, console)
    for point in points:
        console.print()
        heading = point_title(point)
        if compared and heading:
            console.print(Text(heading, style="bold"))
        if not compared:
            _print_facts(point.run.facts, console)
        _print_run(point.run, console)


def _print_outcomes(points: Sequence[RunPoint], compared: Comparison, console: Console) -> None:
    """Print a block of rows for each fact that differs, one for each point."""
    names, found = outcomes(points, compared)
    cells = [row for outcome in found for row in outcome.rows]
    widest = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    for outcome in found:
        table = plain_table()
        for index, name in enumerate(names):
            table.add_column(
                Text(name if outcome is found[0] else ""),
                overflow="fold",
                min_width=min(widest[index], console.width // 4),
                width=None if sum(widest) + 6 > console.width else widest[index],
            )
        table.show_header = outcome is found[0]
        for row in outcome.rows:
            table.add_row(*map(Text, row))
        console.print(Text(outcome.name, style="bold"))
        console.print(Padding(table, (0, 0, 0, 2)))


def _print_run(run: Run, console: Console) -> None:
    moments = moments_of(run.marks)
    for table in run.tables:
        _print_table(table, console, last_s=last_of(moments))
    _print_lines(run, moments, console)
    print_stacks(stacks_of(run), console)
    _print_moments(moments, console)
    print_warnings(list(dict.fromkeys(run.warnings)), console)


def _print_facts(facts: Sequence[Fact], console: Console) -> None:
    if not facts:
        return
    table = RichTable.grid(padding=(0, 2))
    table.add_column(style="dim", overflow="fold", max_width=max(24, console.width // 3))
    table.add_column(overflow="fold", justify="right")
    table.add_column(overflow="fold", style="dim")
    for fact in facts:
        table.add_row(Text(fact.name), Text(fact_text(fact)), Text(fact.note))
    console.print(table)


def _print_table(table: Table, console: Console, *, last_s: float) -> None:
    names = [name for name, _ in table.columns]
    cells = cell_texts(table, last_s=last_s)
    worded = {i for row in table.rows for i, value in enumerate(row) if isinstance(value, str)}
    console.print()
    if table.title:
        console.print(Text(table.title, style="bold"))
    columns = [
        Column(
            name,
            [row[index] for row in cells[:_MOST_ROWS]],
            # A number stays beside its unit.
            wraps=index in worded,
            to_the_right=index not in worded,
        )
        for index, name in enumerate(names)
    ]
    if columns:
        print_columns(columns, console)
    if len(cells) > _MOST_ROWS:
        console.print(Text(f"and {len(cells) - _MOST_ROWS} more rows; --json has all", style="dim"))


def _print_lines(run: Run, moments: list[Moment], console: Console) -> None:
    """Print a row for every value over time: its least, mean and greatest, and a sparkline."""
    times_s = run.times_s
    panels, idle = without_idle(panels_of(run))
    lines = [(panel, line) for panel in panels for line in panel.lines]
    often = ticks_of(run)
    if idle:
        console.print()
        console.print(Text(f"always 0: {', '.join(idle)}", style="dim"))
    if not lines:
        return
    cells = [[quantity(float(value), line.unit) for value in _summary(line)] for _, line in lines]
    names = [line.name for _, line in lines] + [f"{row.name}, in all" for row in often]
    name_width = min(_WIDEST_NAME, max(map(cell_len, names)))
    widths = [max(5, *(cell_len(row[i]) for row in cells)) for i in range(3)]
    spark_width = console.width - name_width - sum(widths) - 2 * 4
    table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", overflow="fold", width=name_width)
    for name, width in zip(("min", "mean", "max"), widths, strict=True):
        table.add_column(name, justify="right", width=width, no_wrap=True)
    shown = spark_width >= _NARROWEST_SPARK
    if shown:
        table.add_column(_span(times_s, spark_width), no_wrap=True, width=spark_width)
        pointers = _pointers(times_s, moments, spark_width)
        if pointers:
            table.add_row("", "", "", "", Text(pointers, style="dim"))
    previous = ""
    for (panel, line), row in zip(lines, cells, strict=True):
        if panel.name not in (previous, line.name):
            table.add_row(Text(panel.name, style="dim"))
        previous = panel.name
        table.add_row(
            Text(line.name),
            *map(Text, row),
            *([Text(sparkline(times_s, line.values, spark_width))] if shown else []),
        )
    for ticks in often:
        drawn = [Text(_rug(times_s, ticks, spark_width))] if shown else []
        in_all = quantity(float(ticks.counts.sum()), "")
        table.add_row(Text(f"{ticks.name}, {in_all} in all"), "", "", "", *drawn)
    console.print()
    console.print(table)


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
            share = mean / highest if highest > 0 else 0.0
            drawn.append(block(share))
    return "".join(drawn)


def _span(times_s: Floats, width: int) -> str:
    start, end = quantity(float(times_s[0]), "s"), quantity(float(times_s[-1]), "s")
    gap = width - cell_len(start) - cell_len(end)
    return start + " " * gap + end if gap > 0 else end


def _pointers(times_s: Floats, moments: list[Moment], width: int) -> str:
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


def _print_moments(moments: list[Moment], console: Console) -> None:
    if not moments:
        return
    table = RichTable.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim")
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for moment, time in list(zip(moments, moment_times(moments), strict=True))[:_MOST_MOMENTS]:
        table.add_row(str(moment.number), Text(time), Text(moment.what))
    console.print()
    console.print(table)
    more = len(moments) - _MOST_MOMENTS
    if more > 0:
        console.print(Text(f"and {more} more events; --json and --report have all", style="dim"))


# --- stacked bars --------------------------------------------------------------------------------


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
    table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
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
            notes = RichTable.grid(padding=(0, 2))
            notes.add_column(style="dim")
            notes.add_column(overflow="fold")
            notes.add_row(time, Text(text))
            console.print(notes)


def _bars(shares: Floats, width: int) -> str:
    return "".join(block(float(part.mean())) for part in np.array_split(shares, width) if part.size)
