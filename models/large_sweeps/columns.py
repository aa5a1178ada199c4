"""What a table of answers has in its columns, and what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from forecache.sim.statistics import Estimate

DOUBLE, INTEGER, TEXT, TRUTH = "double", "int64", "string", "bool"
"""Types of columns, as Arrow calls them."""

Cell = float | int | str | bool | None
Row = tuple[Cell, ...]


@dataclass(frozen=True)
class SweepOptions:
    """How each point is to be answered.

    Attributes
    ----------
    seed
        Of all random streams: the same for every point, so that points share draws and streams
        (common random numbers), and no point depends on which others there are.
    seeds
        Replications of what runs over time.
    nominal
        Of a node: one run at the nominal numbers, without intervals.
    """

    seed: int
    seeds: int = 1
    nominal: bool = False


class RowColumn(NamedTuple):
    """A column, and what stands in it for an answer.

    A unit, if there is one, is part of the name.
    """

    name: str
    type: str
    of: Callable[[Any], Cell]


def number(name: str, of: str | Callable[[Any], Any] | None = None) -> RowColumn:
    """A column of numbers; without `of` those of the attribute of this name."""
    found = attrgetter(of or name) if of is None or isinstance(of, str) else of

    def as_float(answer: Any) -> float | None:
        value = found(answer)
        return None if value is None else float(value)

    return RowColumn(name, DOUBLE, as_float)


def text(name: str, of: str | Callable[[Any], str | None] | None = None) -> RowColumn:
    """A column of words; without `of` those of the attribute of this name."""
    found = attrgetter(of or name) if of is None or isinstance(of, str) else of
    return RowColumn(name, TEXT, found)


def estimate(
    name: str, of: str | Callable[[Any], Any] | None = None, *, interval: bool = True
) -> list[RowColumn]:
    """Columns of a value and of the ends of its interval; empty cells where there is none."""
    found = attrgetter(of or name) if of is None or isinstance(of, str) else of

    def end(which: str) -> Callable[[Any], float | None]:
        def of_answer(answer: Any) -> float | None:
            known: Estimate | None = found(answer)
            return None if known is None else float(getattr(known, which))

        return of_answer

    columns = [RowColumn(name, DOUBLE, end("value"))]
    if interval:
        columns += [RowColumn(f"{name}_{which}", DOUBLE, end(which)) for which in ("low", "high")]
    return columns


def sentences(answer: Any) -> str | None:
    """The warnings of an answer in one cell; an empty one without any."""
    return "; ".join(answer.warnings) or None


def row(columns: Sequence[RowColumn], answer: Any) -> Row:
    """The cells of an answer."""
    return tuple(column.of(answer) for column in columns)
