"""What a run over time answers, collected while it goes on: series, marks, facts and tables."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import simpy

from forecache.sim.statistics import Estimate

from ..results.series import Cell, Fact, Floats, Mark, Run, Series, Stack, Table, Ticks

Process = Generator[simpy.Event, Any, None]
"""A SimPy process: it yields what it waits for. Its clock counts seconds."""


class Recorder:
    """Collects what a run of any kind answers with; `run` makes a `Run` of it.

    Attributes
    ----------
    times_s
        Times at which series have a value.
    """

    def __init__(self, times_s: Sequence[float] = ()) -> None:
        self.times_s = list(times_s)
        self.facts: list[Fact] = []
        self.marks: list[Mark] = []
        self.tables: list[Table] = []
        self.warnings: list[str] = []
        self.summary = ""
        self._values: dict[tuple[str, str, str], list[float]] = {}
        self._gauges: dict[tuple[str, str, str], Callable[[], float]] = {}

    def gauge(self, name: str, unit: str, panel: str, read: Callable[[], float]) -> None:
        """Declare a series of what `read` returns at each sample; equal names are numbered."""
        beside = [known for known, _, its_panel in self._gauges if its_panel == panel]
        same = sum(each == name or each.startswith(f"{name} (") for each in beside)
        self._gauges[f"{name} ({same + 1})" if same else name, unit, panel] = read

    def sample(self) -> None:
        """Read all gauges, at the last of the times."""
        for (name, unit, panel), read in self._gauges.items():
            self.add(name, unit, panel, float(read()))

    def add(self, name: str, unit: str, panel: str, value: float) -> None:
        """The value of a series at the last of the times; one that begins later has gaps before."""
        values = self._values.setdefault((name, unit, panel), [])
        values += [np.nan] * (len(self.times_s) - 1 - len(values))
        values.append(value)

    def series(self, name: str, unit: str, panel: str, values: Floats) -> None:
        """A whole series, with a value at each of the times."""
        self._values[name, unit, panel] = values.tolist()

    def values(self, panel: str, name: str) -> Floats:
        """The values of a series so far."""
        [found] = [each for key, each in self._values.items() if (key[2], key[0]) == (panel, name)]
        return np.array(found)

    def fact(self, name: str, value: Cell | Estimate, unit: str = "", note: str = "") -> None:
        """An answer in one line; a value of None means that it never happened."""
        if isinstance(value, Estimate):
            fact = Fact(name, value.value, unit, note, low=value.low, high=value.high)
            self.facts.append(fact)
        else:
            self.facts.append(Fact(name, value, unit, note))

    def table(
        self, title: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Cell]]
    ) -> None:
        """Answers in rows; `columns` are names and units."""
        self.tables.append(Table(title, columns, rows))

    def run(
        self,
        *,
        without: Sequence[str] = (),
        ticks: Sequence[Ticks] = (),
        stacks: Sequence[Stack] = (),
    ) -> Run:
        """Everything that was recorded.

        Parameters
        ----------
        without
            Series that are left out where they are zero throughout.
        """
        columns = []
        for (name, unit, panel), values in self._values.items():
            if name in without and not np.any(values):
                continue
            padded = values + [np.nan] * (len(self.times_s) - len(values))
            columns.append(Series(name, unit, panel, np.array(padded, float)))
        return Run(
            times_s=np.array(self.times_s),
            series=columns,
            facts=self.facts,
            marks=sorted(self.marks, key=lambda mark: mark.time_s),
            tables=self.tables,
            warnings=self.warnings,
            ticks=ticks,
            stacks=stacks,
            summary=self.summary,
        )
