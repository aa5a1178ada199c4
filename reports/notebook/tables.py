"""Which tables a result has, and what is in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from forecache.models.advice.compare import NodeComparison, Side
from forecache.models.advice.node_answers import (
    Explained,
    ExplainedPoint,
    Recommended,
    Simulated,
    StudyTarget,
)
from forecache.models.advice.sensitivity import Sensitivity
from forecache.models.cost.answer import CostAnswer
from forecache.models.footprint.answers import MemoryAnswer
from forecache.models.large_sweeps.points import (
    cost_columns,
    fact_columns,
    memory_columns,
    plan_columns,
)
from forecache.models.large_sweeps.sweep import SweptPoints
from forecache.models.plan.results import PlanAnswer, TodayAnswer
from forecache.models.results.columns import DOUBLE, INTEGER, TEXT, TRUTH
from forecache.models.results.displayed import Displayed
from forecache.models.results.latency import LatencyDistribution
from forecache.models.results.points import Point, point_columns
from forecache.models.results.series import Run, RunsOverTime, Series
from forecache.sim.errors import InputError
from forecache.sim.installing import install_command

from .tidy import TidyTable, answered, flat, flat_table, tidy

Tables = Mapping[str, Callable[[], TidyTable]]
"""Tables by name, the most important first; each is made when it is asked for."""


def tables_of(result: Displayed) -> Tables:
    """The tables of a result; none of one that has no tables."""
    for kind, tables in _TABLES.items():
        if isinstance(result, kind):
            return tables(result)
    from .measured import measured_tables  # with all of calibration, which no prediction needs

    return measured_tables(result)


def points_table(points: Sequence[Point], *, more: Sequence[Mapping[str, Any]] = ()) -> TidyTable:
    """A row for each point of a node."""
    return answered(point_columns(), points, given=[point.given for point in points], more=more)


def stages_table(points: Sequence[Point]) -> TidyTable:
    """A row for each stage of each point: CPU time of a request."""
    return tidy(
        [
            flat(stage, point=number, **point.given)
            for number, point in enumerate(points)
            for stage in point.stages
        ]
    )


def _simulated(result: Simulated) -> Tables:
    return {
        "points": lambda: points_table(result.points),
        "stages": lambda: stages_table(result.points),
    }


def _recommended(result: Recommended) -> Tables:
    advice = result.recommendation

    def points() -> TidyTable:
        chosen = [
            {"recommended": advice.setting is not None and point.given == advice.chosen}
            for point in result.points
        ]
        return points_table(result.points, more=chosen)

    return {
        "points": points,
        "regret": lambda: flat_table(advice.regret),
        "stages": lambda: stages_table(result.points),
    }


def _study_target(result: StudyTarget) -> Tables:
    return {**_recommended(result), "load_curve": lambda: points_table(result.load_curve)}


def _explained(result: Explained) -> Tables:
    asked = result.sensitivity
    return {
        "points": lambda: points_table(result.points),
        "stages": lambda: stages_table(result.points),
        "latency_breakdown": lambda: _latency_breakdown(result.points),
        "numbers": lambda: flat_table(result.numbers),
        **({} if asked is None else {"sensitivity": lambda: _sensitivity(asked)}),
    }


def _sensitivity(found: Sensitivity) -> TidyTable:
    """A row for each input: total-order indices, shares of the variance of `quantity`."""
    sets = [("uncertain", found.uncertain)]
    if found.choices is not None:
        sets.append(("choice", found.choices))
    return tidy(
        [
            flat(index, quantity=found.quantity, set=name, basis=each.basis)
            for name, each in sets
            for index in each.indices
        ]
    )


def _latency_breakdown(points: Sequence[ExplainedPoint]) -> TidyTable:
    return tidy(
        [
            flat(station, point=number, **point.given)
            for number, point in enumerate(points)
            if point.latency_breakdown is not None
            for station in point.latency_breakdown.stations
        ]
    )


def _compared(result: NodeComparison) -> Tables:
    sides = (result.first, result.second)

    def points() -> TidyTable:
        names = [{"side": side.name} for side in sides]
        return points_table([side.point for side in sides], more=names)

    return {"differences": lambda: flat_table(result.differences), "points": points}


def _side(result: Side) -> Tables:
    return {
        "points": lambda: points_table([result.point]),
        "stages": lambda: stages_table([result.point]),
    }


def _planned(result: PlanAnswer) -> Tables:
    # The columns of a large sweep are of what to run and the next.
    ranks = range(len(result.plans))
    each = [replace(result, plans=result.plans[rank:], keeps_today=False) for rank in ranks]
    return {
        "plans": lambda: answered(plan_columns(), each, given=[{} for _ in each]),
        "front": lambda: flat_table(result.front),
        "rejected": lambda: flat_table(result.rejected),
    }


def _today(result: TodayAnswer) -> Tables:
    left = {} if result.ceiling is None else {n.name: n.headroom for n in result.ceiling.nodes}

    def nodes() -> TidyTable:
        more = {} if result.ceiling is None else {"headroom": None}
        return tidy(
            [
                flat(node) | more | ({"headroom": left[node.name]} if node.name in left else {})
                for node in result.from_info.nodes
            ]
        )

    def latencies() -> TidyTable:
        return tidy(
            [
                {
                    "command": each.command,
                    "node": each.node,
                    "calls": each.calls,
                    # p99.9 is p999, as everywhere else.
                    **{f"{n.replace('.', '')}_ms": v for n, v in each.quantiles_ms.items()},
                }
                for each in result.from_info.latencies
            ]
        )

    return {"nodes": nodes, "latencies": latencies}


def _memory(result: MemoryAnswer) -> Tables:
    points = result.points
    return {
        "points": lambda: answered(memory_columns(), points, given=[p.given for p in points]),
        "populations": lambda: tidy(
            [
                {
                    "point": number,
                    **point.given,
                    "type": population.type,
                    "keys": population.keys,
                    "bytes_per_key": population.bytes_per_key,
                    **{f"{name}_bytes_per_key": size for name, size in population.parts.items()},
                }
                for number, point in enumerate(points)
                for population in point.populations
            ]
        ),
    }


def _cost(result: CostAnswer) -> Tables:
    points = result.points
    return {
        "points": lambda: answered(cost_columns(), points, given=[p.given for p in points]),
        "lines": lambda: tidy(
            [
                flat(line, point=number, bill=name)
                for number, point in enumerate(points)
                for name, bill in (("serverless", point.serverless), ("nodes", point.nodes))
                if bill is not None
                for line in bill.lines
            ]
        ),
    }


def _over_time(result: RunsOverTime) -> Tables:
    points = result.points

    def series() -> TidyTable:
        return tidy(
            [
                {"point": number, **point.given, **step}
                for number, point in enumerate(points)
                for step in _steps(point.run)
            ]
        )

    def facts() -> TidyTable:
        every = [(number, fact) for number, p in enumerate(points) for fact in p.run.facts]
        table = answered(
            fact_columns(), [fact for _, fact in every], given=[points[n].given for n, _ in every]
        )
        # The rows are facts: several of each point.
        return TidyTable(table.columns, [[number for number, _ in every], *table.cells[1:]])

    def marks() -> TidyTable:
        return tidy(
            [
                flat(mark, point=number, **point.given)
                for number, point in enumerate(points)
                for mark in point.run.marks
            ]
        )

    return {"series": series, "facts": facts, "marks": marks}


def _steps(run: Run) -> list[dict[str, Any]]:
    """The times of a run with the values of all series; None where one has no value."""
    names = series_columns(run.series)
    values = [
        [None if value != value else value for value in series.values.tolist()]
        for series in run.series
    ]
    rows = zip(*values, strict=True) if values else ((),) * len(run.times_s)
    return [
        {"time_s": time_s, **dict(zip(names, cells, strict=True))}
        for time_s, cells in zip(run.times_s.tolist(), rows, strict=True)
    ]


def series_columns(series: Sequence[Series]) -> list[str]:
    """Names of columns: panel, name and unit, `latency_p99_ms`, each once."""
    found: list[str] = []
    for each in series:
        name = "_".join(
            part for part in (_word(each.panel), _word(each.name), unit_suffix(each.unit)) if part
        )
        while name in found:
            name += "_"
        found.append(name)
    return found


def unit_suffix(unit: str) -> str:
    """How a unit ends the name of a column: `per_s` for `1/s`, `usd_per_h` for `USD/h`."""
    words = unit.replace("%", " percent ").replace("/", " per ")
    return _word(words).removeprefix("1_")


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", text.lower()).strip("_")


def _latency(result: LatencyDistribution) -> Tables:
    def buckets() -> TidyTable:
        latency_ms, share = result.cdf()
        counts = result.counts.sum(axis=0).tolist()
        return tidy(
            [
                {"latency_ms": at_ms, "requests": count, "cdf": below, "ccdf": above}
                for at_ms, count, below, above in zip(
                    latency_ms.tolist(), counts, share.tolist(), result.ccdf()[1].tolist(),
                    strict=True,
                )
            ]
        )  # fmt: skip

    return {"buckets": buckets}


_TABLES: dict[type[Any], Callable[[Any], Tables]] = {
    StudyTarget: _study_target,
    Recommended: _recommended,
    Simulated: _simulated,
    Explained: _explained,
    NodeComparison: _compared,
    Side: _side,
    PlanAnswer: _planned,
    TodayAnswer: _today,
    MemoryAnswer: _memory,
    CostAnswer: _cost,
    RunsOverTime: _over_time,
    LatencyDistribution: _latency,
}
"""By type, subclasses before their bases."""


# --- data frames ---------------------------------------------------------------------------------


LIBRARIES = ("pandas", "polars")
_HOW = {
    "pandas": lambda: f"`{install_command('frames')}` installs it",
    "polars": lambda: "`python -m pip install polars` installs it",
}


def frame_of(result: Displayed, table: str | None, library: str | None) -> Any:
    """A table of a result as a data frame; see `Displayed.to_frame`."""
    if library is not None and library not in LIBRARIES:
        raise InputError(f"field library: found {library!r}; valid is {' or '.join(LIBRARIES)}.")
    name = library or next((each for each in LIBRARIES if find_spec(each)), LIBRARIES[0])
    try:
        package = import_module(name)
    except ImportError:
        raise InputError(f"data frames need the package {name}; {_HOW[name]()}.") from None
    if isinstance(result, SweptPoints):
        return package.read_parquet(_parts(Path(result.folder), name))
    found = tables_of(result)
    chosen = next(iter(found), "") if table is None else table
    if not found:
        raise InputError("this result has no table; valid is to_dict().")
    if chosen not in found:
        raise InputError(f"field table: found {chosen!r}; valid is {', '.join(found)}.")
    make = _pandas if name == "pandas" else _polars
    return make(package, found[chosen]())


def _parts(folder: Path, library: str) -> Any:
    """The files of a sweep, in the order of its points."""
    files = sorted(str(path) for path in folder.glob("part-*.parquet"))
    return files if library == "polars" else str(folder)


_COUNTED = {INTEGER: ("int64", "Int64"), TRUTH: ("bool", "boolean")}
"""Without and with empty cells."""


def _pandas(pandas: Any, table: TidyTable) -> Any:
    columns = {}
    for (name, type_), cells in zip(table.columns, table.cells, strict=True):
        if type_ in _COUNTED:
            dtype = _COUNTED[type_][any(cell is None for cell in cells)]
        else:
            # Before pandas 3, "str" makes words of what is missing.
            words = "str" if int(pandas.__version__.partition(".")[0]) >= 3 else "object"
            dtype = "float64" if type_ == DOUBLE else words
        columns[name] = pandas.Series(cells, dtype=dtype)
    return pandas.DataFrame(columns)


def _polars(polars: Any, table: TidyTable) -> Any:
    types = {
        DOUBLE: polars.Float64,
        INTEGER: polars.Int64,
        TEXT: polars.String,
        TRUTH: polars.Boolean,
    }
    names = [name for name, _ in table.columns]
    return polars.DataFrame(
        dict(zip(names, table.cells, strict=True)),
        schema={name: types[type_] for name, type_ in table.columns},
    )
