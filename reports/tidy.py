"""Tidy tables: a row for each thing, one value in each cell, units in the names of columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from forecache.models.results.columns import RowColumn, as_cell, column_type, row
from forecache.models.results.points import Point, point_columns
from forecache.models.results.series import Series
from forecache.sim.plain import Result, plain
from forecache.sim.statistics import Estimate


@dataclass(frozen=True)
class TidyTable:
    """Columns of equal length, in order.

    Attributes
    ----------
    columns
        Of each its name and its type, as `models/results/columns.py` names types.
    cells
        The values of each column; None where there is none.
    """

    columns: list[tuple[str, str]]
    cells: list[list[Any]]

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.cells[0]) if self.cells else 0


def sweep_table(
    kind: Literal["node", "memory", "cost", "plan", "fact"],
    answers: Sequence[Any],
    *,
    given: Sequence[Mapping[str, Any]],
    more: Sequence[Mapping[str, Any]] = (),
) -> TidyTable:
    """The columns of a large sweep, with what was given at each answer before them.

    Parameters
    ----------
    answers, given
        As many of one as of the other: a row for each.
    more
        Further cells of each row, at its end.
    """
    columns = point_columns() if kind == "node" else _sweep_columns(kind)
    taken = {"point", *(column.name for column in columns)}
    before = [
        {"point": number, **{f"given_{n}" if n in taken else n: v for n, v in each.items()}}
        for number, each in enumerate(given)
    ]
    left = tidy(before)
    found = list(zip(*(row(columns, answer) for answer in answers), strict=True))
    middle = [(column.name, column.type) for column in columns]
    cells = [list(each) for each in found] or [[] for _ in columns]
    right = tidy(more) if more else TidyTable([], [])
    return TidyTable([*left.columns, *middle, *right.columns], [*left.cells, *cells, *right.cells])


def _sweep_columns(kind: str) -> list[RowColumn]:
    # With everything that can be swept, which no terminal needs.
    from forecache.models.large_sweeps import points

    columns: dict[str, Callable[[], list[RowColumn]]] = {
        "memory": points.memory_columns,
        "cost": points.cost_columns,
        "plan": points.plan_columns,
        "fact": points.fact_columns,
    }
    return columns[kind]()


def tidy(rows: Sequence[Mapping[str, Any]]) -> TidyTable:
    """Rows as a table, with a column for each name in any of them."""
    names = list(dict.fromkeys(name for each in rows for name in each))
    found = {name: [_plain(each.get(name)) for each in rows] for name in names}
    types = {name: column_type(values) for name, values in found.items()}
    return TidyTable(
        list(types.items()),
        [[as_cell(value, types[name]) for value in values] for name, values in found.items()],
    )


def point_cells(point: Point) -> dict[str, Any]:
    """What is predicted at a point, an estimate in three cells, threads by their mean."""
    return {column.name: column.of(point) for column in point_columns()}


def flat(item: Result, **before: Any) -> dict[str, Any]:
    """The fields of a result as one row, behind other cells.

    An estimate is three columns, `x`, `x_low` and `x_high`; parts and mappings are columns of their
    own; what is `given` keeps its names; sentences are joined, other lists left out.
    """
    found = dict(before)
    for each in fields(item):  # type: ignore[arg-type]
        found.update(_flat(each.name, getattr(item, each.name)))
    return found


def flat_table(items: Iterable[Result], **before: Any) -> TidyTable:
    """A table of results, a row for each."""
    return tidy([flat(item, **before) for item in items])


_GIVEN = ("given", "conditions")


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Estimate):
        yield name, value.value
        yield f"{name}_low", value.low
        yield f"{name}_high", value.high
    elif isinstance(value, Result):
        for each in fields(value):  # type: ignore[arg-type]
            yield from _flat(f"{name}_{each.name}", getattr(value, each.name))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(str(key) if name in _GIVEN else f"{name}_{key}", inner)
    elif isinstance(value, list | tuple):
        if all(isinstance(inner, str) for inner in value):
            yield name, "; ".join(value) or None
    else:
        yield name, value


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's; numbers that are not finite stay what they are."""
    return value if isinstance(value, float) else plain(value)


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
