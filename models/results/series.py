"""What a simulation over minutes and hours returns: series, what happened when, and answers.

The node model answers with numbers of a steady state; whatever changes with time, such as a cluster
that is resized, answers with a `Run`. All points of a scenario with all seeds are `RunsOverTime`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from forecache.sim.errors import InputError
from forecache.sim.plain import Result, where_set
from forecache.sim.statistics import Estimate

from .displayed import Displayed, Provenance

Floats = NDArray[np.float64]

Cell = float | int | str | None
"""A cell of a table; None where there is nothing to say."""


@dataclass(frozen=True)
class Series(Result):
    """One quantity over the times of a run; NaN where it has no value."""

    name: str
    """Such as `answered`."""
    unit: str
    """Such as `1/s`, `ms`, `bytes`; `share` for a fraction, empty for a count."""
    panel: str
    """Which plot it belongs to, with others of the same unit: `throughput`, `latency`, say."""
    values: Floats
    """One for each time."""

    @property
    def finite(self) -> Floats:
        """The values that are there."""
        return self.values[np.isfinite(self.values)]


@dataclass(frozen=True)
class Mark(Result):
    """Something that happened."""

    time_s: float
    what: str


@dataclass(frozen=True)
class Fact(Result):
    """One answer; a value of None means that it never happened, as `note` says."""

    name: str
    value: float | int | str | None
    unit: str = ""
    note: str = ""
    samples: Sequence[float | int | str | None] = where_set(())
    """Of several seeds the value with each; a number in `value` is their mean."""
    low: float | None = where_set()
    """Ends of the 95% interval: of what is uncertain of the model where it says so, and of the
    mean over seeds where at least two have a number."""
    high: float | None = where_set()
    """Infinite, null in JSON, where some of the uncertain numbers leave no bound."""
    against_first: Estimate | None = where_set()
    """Paired difference to the first point of the sweep, over the seeds that both have."""


@dataclass(frozen=True)
class Table(Result):
    """Answers that come in rows, one for each command or event, say."""

    title: str
    columns: Sequence[tuple[str, str]]
    """Name and unit of each."""
    rows: Sequence[Sequence[Cell]]

    def to_dict(self) -> dict[str, Any]:
        """Columns with the names of what they have."""
        columns = [{"name": name, "unit": unit} for name, unit in self.columns]
        return {**super().to_dict(), "columns": columns}


@dataclass(frozen=True)
class Ticks(Result):
    """Something that happens too often to be told one by one."""

    name: str
    """Such as `live migrations`."""
    counts: NDArray[np.int64]
    """For each time of the run how often it happened since the time before."""


@dataclass(frozen=True)
class LimitLine(Result):
    """A line across stacked bars, such as what a host has."""

    name: str
    value: float


@dataclass(frozen=True)
class Layer(Result):
    """What part of a bar is about."""

    name: str
    stands_out: bool = False
    """Whether it has a colour of its own; the others are shades of one, darker upwards."""


@dataclass(frozen=True)
class Bar(Result):
    """One bar of a stack."""

    name: str
    """Such as `host 17`."""
    sizes: Sequence[float]
    """Of each layer, from the ground up."""
    flag: str = where_set("")
    """What sets it apart from the others, in a word or two: `hot`."""
    note: str = where_set("")
    """What there is to say about it, in half a sentence."""

    @property
    def total(self) -> float:
        """Its height."""
        return float(sum(self.sizes))

    @property
    def rounded_sizes(self) -> list[float]:
        """With six digits: there may be many of them."""
        return [float(f"{size:.6g}") for size in self.sizes]

    def to_dict(self) -> dict[str, Any]:
        """With rounded sizes."""
        return {**super().to_dict(), "sizes": self.rounded_sizes}


MOST_BARS = 500
"""Bars of a stack: as many as a screen is wide enough for, and a bound on what JSON holds."""


@dataclass(frozen=True)
class Stack(Result):
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
        # Those that were read have six digits.
        if any(later > earlier * (1 + 1e-5) for earlier, later in pairwise(totals)):
            raise ValueError(f"bars of {self.title!r} with the highest first")


@dataclass(frozen=True)
class Run(Result):
    """One simulation over time.

    Raises
    ------
    ValueError
        A series, a row or ticks are not as long as they should be, or times don't increase.
    """

    times_s: Floats
    series: Sequence[Series]
    facts: Sequence[Fact]
    marks: Sequence[Mark] = ()
    tables: Sequence[Table] = ()
    warnings: Sequence[str] = ()
    ticks: Sequence[Ticks] = ()
    stacks: Sequence[Stack] = ()
    summary: str = ""
    """What came out, in a sentence; empty with kinds that have none."""

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

    def to_dict(self) -> dict[str, Any]:
        """The run as `json.dumps` takes it; gaps are None."""
        plain = super().to_dict()
        series = {"time_s": plain.pop("times_s"), "columns": plain.pop("series")}
        return {"series": series, "marks": plain.pop("marks"), **plain}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Run:
        """The run that `to_dict` was made of."""
        return cls(
            times_s=_floats(plain["series"]["time_s"]),
            series=[
                Series(**{**column, "values": _floats(column["values"])})
                for column in plain["series"]["columns"]
            ],
            marks=[Mark(**mark) for mark in plain["marks"]],
            facts=[_fact(fact) for fact in plain["facts"]],
            tables=[
                Table(t["title"], [(c["name"], c["unit"]) for c in t["columns"]], t["rows"])
                for t in plain["tables"]
            ],
            warnings=plain["warnings"],
            ticks=[Ticks(t["name"], np.array(t["counts"], np.int64)) for t in plain["ticks"]],
            stacks=[
                Stack(
                    **{
                        **stack,
                        "layers": [Layer(**layer) for layer in stack["layers"]],
                        "bars": [Bar(**bar) for bar in stack["bars"]],
                        "limits": [LimitLine(**limit) for limit in stack["limits"]],
                    }
                )
                for stack in plain["stacks"]
            ],
            summary=plain.get("summary", ""),
        )

    def without_times(self) -> Run:
        """Only its facts and warnings, which are all that further seeds are asked for."""
        return Run(np.zeros(0), [], self.facts, warnings=self.warnings)


def _fact(plain: Mapping[str, Any]) -> Fact:
    """A fact of JSON, which has no word for an interval without an upper end."""
    unbounded = plain.get("low") is not None and plain.get("high") is None
    return Fact(**({**plain, "high": np.inf} if unbounded else plain))


def _floats(values: Sequence[float | None]) -> Floats:
    """Numbers of JSON, NaN where there is none."""
    return np.array([np.nan if value is None else value for value in values], np.float64)


_NO_DISTRIBUTION = (
    "a result over time has no distribution of all its latencies, because they change with time; "
    "valid is their p50, p99 or mean at each time, columns of to_frame() that begin with `latency`."
)


class _NoDistribution:
    """What runs over time keeps the latency of each interval only."""

    @property
    def latency(self) -> NoReturn:
        """There is none: what runs over time keeps the latency of each interval only.

        Raises
        ------
        InputError
            Always; it says where latency is.
        """
        raise InputError(_NO_DISTRIBUTION)


@dataclass(frozen=True)
class RunPoint(_NoDistribution, Result):
    """One point of a sweep over time."""

    given: Mapping[str, Any]
    """The values of the sweep at it, by field."""
    run: Run
    """Of several seeds that of the first, with facts and warnings over all."""

    def to_dict(self) -> dict[str, Any]:
        """What is given at the point, and its run."""
        return {"given": dict(self.given), **self.run.to_dict()}


@dataclass(frozen=True)
class RunsOverTime(_NoDistribution, Displayed):
    """The answer to a scenario that runs over time."""

    kind: str
    scenario: Mapping[str, Any]
    """Fields of the first point of the sweep."""
    seeds: int
    """How many seeds each point was run with."""
    points: Sequence[RunPoint]
    provenance: Provenance
    missing: Sequence[str] = where_set(())
    """Runs whose workers were lost, in words."""
