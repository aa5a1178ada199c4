"""What a simulation over minutes and hours returns: series, what happened when, and answers.

The node model answers with numbers of a steady state; whatever changes with time, such as a cluster
that is resized, answers with a `Run`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Cell = float | int | str | None
"""A cell of a table; None where there is nothing to say."""


@dataclass(frozen=True)
class Series:
    """One quantity over the times of a run; NaN where it has no value."""

    name: str
    """Such as `answered`."""
    unit: str
    """Such as `1/s`, `ms`, `bytes`; `share` for a fraction, empty for a count."""
    panel: str
    """Which plot it belongs to, with others of the same unit: `throughput`, `latency`, say."""
    values: NDArray[np.float64]
    """One for each time."""


@dataclass(frozen=True)
class Mark:
    """Something that happened."""

    time_s: float
    what: str


@dataclass(frozen=True)
class Fact:
    """One answer; a value of None means that it never happened, as `note` says."""

    name: str
    value: float | int | str | None
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Answers that come in rows, one for each command or event, say."""

    title: str
    columns: Sequence[tuple[str, str]]
    """Name and unit of each."""
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Ticks:
    """Something that happens too often to be told one by one."""

    name: str
    """Such as `live migrations`."""
    counts: NDArray[np.int64]
    """For each time of the run how often it happened since the time before."""


@dataclass(frozen=True)
class LimitLine:
    """A line across stacked bars, such as what a host has."""

    name: str
    value: float


@dataclass(frozen=True)
class Layer:
    """What part of a bar is about."""

    name: str
    stands_out: bool = False
    """Whether it has a colour of its own; the others are shades of one, darker upwards."""


@dataclass(frozen=True)
class Bar:
    """One bar of a stack."""

    name: str
    """Such as `host 17`."""
    sizes: Sequence[float]
    """Of each layer, from the ground up."""
    flag: str = ""
    """What sets it apart from the others, in a word or two: `hot`."""
    note: str = ""
    """What there is to say about it, in half a sentence."""

    @property
    def total(self) -> float:
        """Its height."""
        return float(sum(self.sizes))


MOST_BARS = 500
"""Bars of a stack: as many as a screen is wide enough for, and a bound on what JSON holds."""


@dataclass(frozen=True)
class Stack:
    """Stacked bars at one time of a run, side by side: hosts and what is on them, say.

    Raises
    ------
    ValueError
        A bar has not one size for each layer, or one below zero, is higher than the one before it,
        or there are none, too many, or more than are said to be.
    """

    title: str
    time_s: float
    unit: str
    """Of sizes and limits."""
    what: str
    """What a bar is, such as `host`."""
    count: int
    """How many of them there are; the bars may be a choice of them."""
    layers: Sequence[Layer]
    """What bars are made of, from the ground up."""
    bars: Sequence[Bar]
    """The highest first."""
    limits: Sequence[LimitLine] = ()

    def __post_init__(self) -> None:
        """Hold what a plot relies on."""
        if not 0 < len(self.bars) <= min(MOST_BARS, self.count):
            raise ValueError(f"between 1 and {min(MOST_BARS, self.count)} bars of {self.title!r}")
        for bar in self.bars:
            if len(bar.sizes) != len(self.layers):
                raise ValueError(f"as many sizes as layers in {bar.name}")
            if not all(size >= 0 for size in bar.sizes):
                raise ValueError(f"sizes not below 0 in {bar.name}")
        totals = [bar.total for bar in self.bars]
        if any(later > earlier * (1 + 1e-9) for earlier, later in pairwise(totals)):
            raise ValueError(f"bars of {self.title!r} with the highest first")


@dataclass(frozen=True)
class Run:
    """One simulation over time.

    Raises
    ------
    ValueError
        A series, a row or ticks are not as long as they should be, or times don't increase.
    """

    times_s: NDArray[np.float64]
    series: Sequence[Series]
    facts: Sequence[Fact]
    marks: Sequence[Mark] = ()
    tables: Sequence[Table] = ()
    warnings: Sequence[str] = field(default=())
    ticks: Sequence[Ticks] = ()
    stacks: Sequence[Stack] = ()

    def __post_init__(self) -> None:
        """Hold lengths and order, so that a plot never pairs a value with a wrong time."""
        if np.any(np.diff(self.times_s) <= 0):
            raise ValueError("times that increase")
        for series in self.series:
            if series.values.shape != self.times_s.shape:
                raise ValueError(f"as many values of {series.name} as times")
        for ticks in self.ticks:
            if ticks.counts.shape != self.times_s.shape:
                raise ValueError(f"as many counts of {ticks.name} as times")
        for table in self.tables:
            if any(len(row) != len(table.columns) for row in table.rows):
                raise ValueError(f"as many cells as columns in each row of {table.title!r}")

    def as_dict(self) -> dict[str, Any]:
        """The run as `json.dumps` takes it; gaps are None."""
        return {
            "series": {
                "time_s": [float(t) for t in self.times_s],
                "columns": [
                    {
                        "name": s.name,
                        "unit": s.unit,
                        "panel": s.panel,
                        "values": [_plain(float(v)) for v in s.values],
                    }
                    for s in self.series
                ],
            },
            "marks": [{"time_s": m.time_s, "what": m.what} for m in self.marks],
            "facts": [
                {"name": f.name, "value": _plain(f.value), "unit": f.unit, "note": f.note}
                for f in self.facts
            ],
            "tables": [
                {
                    "title": t.title,
                    "columns": [{"name": name, "unit": unit} for name, unit in t.columns],
                    "rows": [[_plain(cell) for cell in row] for row in t.rows],
                }
                for t in self.tables
            ],
            "warnings": list(self.warnings),
            "ticks": [{"name": t.name, "counts": [int(n) for n in t.counts]} for t in self.ticks],
            "stacks": [_plain_stack(stack) for stack in self.stacks],
        }


def _plain_stack(stack: Stack) -> dict[str, Any]:
    """A stack for JSON; sizes have six digits, and what a bar doesn't say is left out."""
    bars = []
    for bar in stack.bars:
        plain: dict[str, Any] = {"name": bar.name, "sizes": [float(f"{s:.6g}") for s in bar.sizes]}
        said = {"flag": bar.flag, "note": bar.note}
        bars.append(plain | {key: text for key, text in said.items() if text})
    return {
        "title": stack.title,
        "time_s": float(stack.time_s),
        "unit": stack.unit,
        "what": stack.what,
        "count": stack.count,
        "layers": [{"name": x.name, "stands_out": x.stands_out} for x in stack.layers],
        "bars": bars,
        "limits": [{"name": limit.name, "value": float(limit.value)} for limit in stack.limits],
    }


def _plain(value: Cell) -> Cell:
    """A number of plain Python, None for one that JSON doesn't know."""
    plain: Cell = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain
