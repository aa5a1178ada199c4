"""Columns of tables of answers: what stands in each cell, and its type."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

DOUBLE, INTEGER, TEXT, TRUTH = "double", "int64", "string", "bool"
"""Types of columns, as Arrow calls them."""

Cell = float | int | str | bool | None
Row = tuple[Cell, ...]


class RowColumn(NamedTuple):
    """A column, and what stands in it for an answer.

    A unit, if there is one, is part of the name.
    """

    name: str
    type: str
    of: Callable[[Any], Cell]


Source = str | Callable[[Any], Any]
"""Where a cell comes from: attributes with dots between, or a function of the answer."""


def attribute(path: str) -> Callable[[Any], Any]:
    """The attribute at the end of a path such as `nodes.usd`; None where a part of it is None."""
    names = path.split(".")

    def found(answer: Any) -> Any:
        for name in names:
            answer = None if answer is None else getattr(answer, name)
        return answer

    return found


def column(name: str, type_: str, of: Source | None = None) -> RowColumn:
    """A column of any type; without `of` the attribute of this name."""
    found = of if callable(of) else attribute(of or name)
    made: Callable[[Any], Cell] = {DOUBLE: float, INTEGER: int}.get(type_, lambda value: value)

    def cell(answer: Any) -> Cell:
        value = found(answer)
        return None if value is None else made(value)

    return RowColumn(name, type_, cell)


def number(name: str, of: Source | None = None) -> RowColumn:
    """A column of numbers."""
    return column(name, DOUBLE, of)


def text(name: str, of: Source | None = None) -> RowColumn:
    """A column of words."""
    return column(name, TEXT, of)


def estimate(name: str, of: Source | None = None, *, interval: bool = True) -> list[RowColumn]:
    """Columns of a value and of the ends of its interval; empty cells where there is none."""
    found = of if callable(of) else attribute(of or name)

    def end(which: str) -> Callable[[Any], Any]:
        return lambda answer: None if (known := found(answer)) is None else getattr(known, which)

    ends = ("low", "high") if interval else ()
    return [number(name, end("value")), *(number(f"{name}_{which}", end(which)) for which in ends)]


def sentences(answer: Any) -> str | None:
    """The warnings of an answer in one cell; an empty one without any."""
    return "; ".join(answer.warnings) or None


def row(columns: Sequence[RowColumn], answer: Any) -> Row:
    """The cells of an answer."""
    return tuple(column.of(answer) for column in columns)


def column_type(values: Sequence[Any]) -> str:
    """The type of a column with these values; text where no other holds them all."""
    if isinstance(values, range):
        return INTEGER
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return TRUTH
    if any(isinstance(value, bool) for value in known):
        return TEXT
    if known and all(isinstance(value, int) for value in known):
        return INTEGER
    if known and all(isinstance(value, int | float) for value in known):
        return DOUBLE
    return TEXT


def as_cell(value: Any, type_: str) -> Any:
    """A swept value as a cell: a mapping, a list or what is mixed with text becomes text."""
    if value is None or type_ in (TRUTH, INTEGER):
        return value
    if type_ == DOUBLE:
        return float(value)
    return value if isinstance(value, str) else json.dumps(value, default=str)
