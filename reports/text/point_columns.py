"""Cells of tables of points, from the one list of their quantities."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from forecache.models.results.columns import TEXT
from forecache.models.results.points import POINT_QUANTITIES, Form, Point, PointQuantity
from forecache.sim.statistics import Estimate

from .formats import (
    UNKNOWN,
    milliseconds,
    percent,
    plain,
    probability,
    rate,
    rate_with_bounds,
    rate_with_margin,
    time_with_bounds,
)
from .points import short_limit, threads_alike
from .wording import limit_name

Medium = Literal["simulate", "recommend", "page", "notebook"]

_ENDINGS = {"margin": " ±95%", "bounds": " (95%)"}
_WRITTEN: dict[tuple[str, Form], Callable[[Any], str]] = {
    ("1/s", "value"): rate,
    ("1/s", "margin"): rate_with_margin,
    ("1/s", "bounds"): rate_with_bounds,
    ("ms", "value"): milliseconds,
    ("ms", "bounds"): time_with_bounds,
    ("share", "value"): percent,
    ("probability", "value"): probability,
}


class PointColumn(NamedTuple):
    """A column of a table of points."""

    quantity: PointQuantity
    form: Form
    heading: str
    cells: list[str]

    @property
    def is_numeric(self) -> bool:
        """Whether its cells are numbers."""
        return self.quantity.type != TEXT


def point_columns(points: Sequence[Point], medium: Medium) -> list[PointColumn]:
    """Headings and cells of what a medium shows of points, in the order of their quantities."""
    alike = threads_alike(points)
    found = []
    for quantity in POINT_QUANTITIES:
        form: Form = getattr(quantity, medium)
        absent = quantity.optional and all(quantity.value(point) is None for point in points)
        if form and not absent:
            workers = quantity.of_workers if alike else None
            heading = (workers[0] if workers else quantity.heading) + _ENDINGS.get(form, "")
            cells = [_cell(quantity, point, form) for point in points]
            found.append(PointColumn(quantity, form, heading, cells))
    return found


def meanings() -> dict[str, str]:
    """Whose utilisation a heading stands for."""
    found = {each.heading: each.meaning for each in POINT_QUANTITIES if each.meaning}
    return found | dict(each.of_workers for each in POINT_QUANTITIES if each.of_workers)


def _cell(quantity: PointQuantity, point: Point, form: Form) -> str:
    if form in ("short", "name"):
        return short_limit(point) if form == "short" else limit_name(point)
    value = quantity.value(point)
    if value is None:
        return UNKNOWN
    if quantity.type == TEXT:
        return str(value).lower()
    if form == "value" and isinstance(value, Estimate):
        value = value.value
    return _WRITTEN.get((quantity.unit, form), plain)(value)
