"""Stacked bars of a result over time: what terminal, page and figure share."""

from collections.abc import Sequence

import numpy as np

from forecache.models.results.series import Floats, Run, Stack, Ticks

from .formats import count
from .quantities import quantity

MOST_ROWS = 20
"""Bars that a table tells one by one."""

_GROUPS = 10


def stacks_of(run: Run) -> list[Stack]:
    """A run's stacks in the order of time."""
    return sorted(run.stacks, key=lambda stack: stack.time_s)


def sizes_of(stack: Stack) -> Floats:
    """(bars, layers) sizes."""
    return np.array([bar.rounded_sizes for bar in stack.bars], dtype=np.float64)


def totals_of(stack: Stack) -> Floats:
    """(bars,) heights."""
    return np.asarray(sizes_of(stack).sum(axis=1))


def highest_of(stack: Stack) -> float:
    """The greatest of all heights and limits."""
    return max(float(totals_of(stack).max()), *(limit.value for limit in stack.limits), 0.0)


def flagged(stack: Stack) -> list[int]:
    """Indices of the bars that are set apart."""
    return [index for index, bar in enumerate(stack.bars) if bar.flag]


def said(stack: Stack, index: int) -> str:
    """What there is to say about a bar: `host 17, 214 GB: hot; ...`."""
    bar = stack.bars[index]
    told = "; ".join(text for text in (bar.flag, bar.note) if text)
    return f"{bar.name}, {quantity(float(totals_of(stack)[index]), stack.unit)}: {told}"


def ticks_of(run: Run) -> list[Ticks]:
    """What happens often; left out where it never did."""
    return [ticks for ticks in run.ticks if ticks.counts.any()]


def table_of(stack: Stack) -> tuple[list[str], list[list[str]]]:
    """Names of columns, and rows: a bar each, or the mean of every tenth of many bars."""
    all_sizes = sizes_of(stack)
    used = [i for i in range(len(stack.layers)) if all_sizes[:, i].any()]
    columns = [stack.what, "in all", *(stack.layers[i].name for i in reversed(used))]
    if len(stack.bars) <= MOST_ROWS:
        named = [(bar.name, np.array([i])) for i, bar in enumerate(stack.bars)]
    else:
        parts = np.array_split(np.arange(len(stack.bars)), _GROUPS)
        named = list(zip(_group_names(), parts, strict=True))
    found = []
    for name, part in named:
        sizes = all_sizes[part].mean(axis=0)
        cells = [float(sizes.sum()), *(float(sizes[i]) for i in reversed(used))]
        found.append([name, *(quantity(round(cell, 6), stack.unit) for cell in cells)])
    return columns, found


def _group_names() -> Sequence[str]:
    return ("highest tenth", *(f"{n}. tenth" for n in range(2, _GROUPS)), "lowest tenth")


def notes_of(stack: Stack) -> list[str]:
    """What there is to say about single bars, flagged ones first."""
    noted = [i for i, bar in enumerate(stack.bars) if bar.note and not bar.flag]
    return [said(stack, index) for index in (*flagged(stack), *noted)]


def chosen_text(stack: Stack) -> str:
    """`100 hosts`, or how many of them have a bar."""
    all_of_them = f"{count(stack.count)} {stack.what}{'s' * (stack.count != 1)}"
    shown = len(stack.bars)
    return all_of_them if shown == stack.count else f"{shown} of {all_of_them}, evenly chosen"
