"""What a simulation over minutes and hours returns: series, what happened when, and answers.

The node model answers with numbers of a steady state; whatever changes with time, such as a cluster
that is resized, answers with a `Run`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
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
class Run:
    """One simulation over time.

    Raises
    ------
    ValueError
        A series or a row is not as long as it should be, or times don't increase.
    """

    times_s: NDArray[np.float64]
    series: Sequence[Series]
    facts: Sequence[Fact]
    marks: Sequence[Mark] = ()
    tables: Sequence[Table] = ()
    warnings: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        """Hold lengths and order, so that a plot never pairs a value with a wrong time."""
        if np.any(np.diff(self.times_s) <= 0):
            raise ValueError("times that increase")
        for series in self.series:
            if series.values.shape != self.times_s.shape:
                raise ValueError(f"as many values of {series.name} as times")
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
        }


def _plain(value: Cell) -> Cell:
    """A number of plain Python, None for one that JSON doesn't know."""
    plain: Cell = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain
