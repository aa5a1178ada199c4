"""Stacked bars of a result over time: the look-ups that terminal, page and figure share.

A point may have

- `stacks`: `title`, `time_s`, `unit`, `what` a bar is, `count` of all there are, `layers` (`name`,
  `stands_out`) from the ground up, `bars` (`name`, `sizes`, maybe `flag` and `note`), the highest
  first, `limits` (`name`, `value`)
- `ticks`: `name`, and `counts` per time of its series
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .formats import UNKNOWN, count, is_number
from .quantities import quantity
from .runs import Floats
from .shapes import Json, number, rows

MOST_ROWS = 20
"""Bars that a table tells one by one."""

_GROUPS = 10


@dataclass(frozen=True, eq=False)
class StackView:
    """Bars side by side, the highest first; see the top of this module."""

    title: str
    time_s: float
    unit: str
    what: str
    count: int
    layers: tuple[tuple[str, bool], ...]
    """Name of each, and whether it stands out."""
    names: tuple[str, ...]
    sizes: Floats
    """(bars, layers)."""
    flags: tuple[str, ...]
    notes: tuple[str, ...]
    limits: tuple[tuple[str, float], ...]

    @property
    def totals(self) -> Floats:
        """(bars,) heights."""
        return np.asarray(self.sizes.sum(axis=1))

    @property
    def highest(self) -> float:
        """The greatest of all heights and limits."""
        return max(float(self.totals.max()), *(value for _, value in self.limits), 0.0)

    @property
    def flagged(self) -> list[int]:
        """Indices of the bars that are set apart."""
        return [index for index, flag in enumerate(self.flags) if flag]

    def said(self, index: int) -> str:
        """What there is to say about a bar: `host 17, 214 GB: hot; ...`."""
        told = "; ".join(text for text in (self.flags[index], self.notes[index]) if text)
        return f"{self.names[index]}, {quantity(float(self.totals[index]), self.unit)}: {told}"


def stacks_of(point: Json) -> list[StackView]:
    """A point's stacks in the order of time."""
    found = [stack for row in rows(point, "stacks") if (stack := _stack(row)) is not None]
    return sorted(found, key=lambda stack: stack.time_s)


def _stack(row: Json) -> StackView | None:
    layers = tuple((str(x.get("name")), bool(x.get("stands_out"))) for x in rows(row, "layers"))
    bars = [b for b in rows(row, "bars") if len(b.get("sizes") or ()) == len(layers)]
    if not bars or not layers:
        return None
    return StackView(
        title=str(row.get("title") or ""),
        time_s=number(row, "time_s") or 0.0,
        unit=str(row.get("unit") or ""),
        what=str(row.get("what") or ""),
        count=int(number(row, "count") or len(bars)),
        layers=layers,
        names=tuple(str(bar.get("name") or UNKNOWN) for bar in bars),
        sizes=np.array([bar["sizes"] for bar in bars], dtype=np.float64),
        flags=tuple(str(bar.get("flag") or "") for bar in bars),
        notes=tuple(str(bar.get("note") or "") for bar in bars),
        limits=tuple(
            (str(limit.get("name")), float(limit["value"]))
            for limit in rows(row, "limits")
            if is_number(limit.get("value"))
        ),
    )


@dataclass(frozen=True, eq=False)
class TickView:
    """Something that happens often, counted between the times of a point's series."""

    name: str
    counts: Floats


def ticks_of(point: Json, times_s: Floats) -> list[TickView]:
    """What happens often; left out where it never did."""
    found = [
        TickView(
            str(row.get("name") or UNKNOWN), np.array(row.get("counts") or [], dtype=np.float64)
        )
        for row in rows(point, "ticks")
    ]
    return [row for row in found if row.counts.shape == times_s.shape and row.counts.any()]


def table_of(stack: StackView) -> tuple[list[str], list[list[str]]]:
    """Names of columns, and rows: a bar each, or the mean of every tenth of many bars."""
    used = [i for i in range(len(stack.layers)) if stack.sizes[:, i].any()]
    columns = [stack.what, "in all", *(stack.layers[i][0] for i in reversed(used))]
    if len(stack.names) <= MOST_ROWS:
        named = [(name, np.array([i])) for i, name in enumerate(stack.names)]
    else:
        parts = np.array_split(np.arange(len(stack.names)), _GROUPS)
        named = list(zip(_group_names(), parts, strict=True))
    found = []
    for name, part in named:
        sizes = stack.sizes[part].mean(axis=0)
        cells = [float(sizes.sum()), *(float(sizes[i]) for i in reversed(used))]
        found.append([name, *(quantity(round(cell, 6), stack.unit) for cell in cells)])
    return columns, found


def _group_names() -> Sequence[str]:
    return ("highest tenth", *(f"{n}. tenth" for n in range(2, _GROUPS)), "lowest tenth")


def notes_of(stack: StackView) -> list[str]:
    """What there is to say about single bars, flagged ones first."""
    noted = [i for i in range(len(stack.names)) if stack.notes[i] and not stack.flags[i]]
    return [stack.said(index) for index in (*stack.flagged, *noted)]


def chosen_text(stack: StackView) -> str:
    """`100 hosts`, or how many of them have a bar."""
    all_of_them = f"{count(stack.count)} {stack.what}{'s' * (stack.count != 1)}"
    shown = len(stack.names)
    return all_of_them if shown == stack.count else f"{shown} of {all_of_them}, evenly chosen"
