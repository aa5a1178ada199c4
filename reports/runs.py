"""Reading a result over time: the look-ups that terminal, page and figures share.

Such a result has `kind`, `scenario` (its fields), `points` and `provenance`; a point has

- `given`: the values of the sweep at it
- `series`: `time_s`, and `columns` with `name`, `unit`, `panel` and one value per time (null: none)
- `marks`: `time_s`, `what` happened then
- `facts`: `name`, `value` (null: there is none, as the note says), `unit`, `note`; of several
  `seeds` also `low` and `high` of the interval, and `against_first`, the difference to the first
- `tables`: `title`, `columns` (`name`, `unit`), `rows`
- `warnings`
- `ticks` and `stacks`, which `stacks.py` reads

`forecache.models.results.series` makes them. A part that is missing or null yields an empty one
here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .estimates import estimate_text
from .formats import UNKNOWN, is_number
from .quantities import SHARE_PANELS, is_count, quantity, quantity_unit
from .settings import setting_name, setting_text
from .shapes import Json, mapping, number, rows

Floats = NDArray[np.float64]

_ORDER = {
    name: place
    for place, name in enumerate(
        ("throughput", "errors", "latency", "hit rate", "progress", "database", "connections")
    )
}
"""What is looked at first."""

_CLOCK_FROM_S = 7200.0
"""Times of longer runs are told in hours and minutes."""


@dataclass(frozen=True, eq=False)
class Line:
    """One value over time; NaN where there is none."""

    name: str
    unit: str
    values: Floats

    @property
    def finite(self) -> Floats:
        """The values that are there."""
        return self.values[np.isfinite(self.values)]


@dataclass(frozen=True)
class Panel:
    """Lines of one unit that are drawn into one plot."""

    name: str
    unit: str
    lines: tuple[Line, ...]

    @property
    def highest(self) -> float:
        """The greatest value of all lines; 0 where there is none."""
        return max((float(line.finite.max()) for line in self.lines if line.finite.size), default=0)

    @property
    def title(self) -> str:
        """Name as a heading."""
        return self.name[:1].upper() + self.name[1:]


@dataclass(frozen=True)
class Moment:
    """Something that happened, with the number it has in plots and lists."""

    number: int
    time_s: float
    what: str


def title_of(result: Json) -> str:
    """The name of the scenario; its kind where it has none."""
    return str(mapping(result, "scenario").get("name") or "") or kind_word(result)


def kind_word(result: Json) -> str:
    """The kind of the scenario in words."""
    return str(result.get("kind") or "").replace("_", " ")


def times_of(point: Json) -> Floats:
    """The times of a point's series in seconds, in ascending order."""
    return _floats(mapping(point, "series").get("time_s"))


def panels_of(point: Json) -> list[Panel]:
    """A point's series by panel: the well-known ones first, others as they first appear.

    Series of one panel in different units become several panels of that name. Shares of a panel
    that holds nothing else have the unit `share`.
    """
    count = times_of(point).size
    found: dict[tuple[str, str], list[Line]] = {}
    for column in rows(mapping(point, "series"), "columns"):
        name, panel = str(column.get("name") or UNKNOWN), str(column.get("panel") or "")
        unit = str(column.get("unit") or "")
        if not unit and panel in SHARE_PANELS:
            unit = "share"
        values = _floats(column.get("values"))
        if values.size == count and count:
            found.setdefault((panel or name, unit), []).append(Line(name, unit, values))
    panels = [Panel(name, unit, tuple(lines)) for (name, unit), lines in found.items()]
    return sorted(panels, key=lambda panel: _ORDER.get(panel.name, len(_ORDER)))


def without_idle(panels: Sequence[Panel]) -> tuple[list[Panel], list[str]]:
    """Panels without the lines that are zero all the time, and the names of those."""
    kept, idle = [], []
    for panel in panels:
        busy = [line for line in panel.lines if not line.finite.size or line.finite.any()]
        idle += [line.name for line in panel.lines if line not in busy]
        if busy:
            kept.append(Panel(panel.name, panel.unit, tuple(busy)))
    return kept, idle


def moments_of(point: Json) -> list[Moment]:
    """A point's marks in the order of time, numbered from one."""
    marks = [
        (time_s, str(mark.get("what") or ""))
        for mark in rows(point, "marks")
        if (time_s := number(mark, "time_s")) is not None
    ]
    return [
        Moment(index, time_s, what)
        for index, (time_s, what) in enumerate(sorted(marks, key=lambda mark: mark[0]), 1)
    ]


def moment_times(moments: Sequence[Moment]) -> list[str]:
    """When each moment was, all in the unit of the last, with decimals where they tell more."""
    return _clock([moment.time_s for moment in moments], last_s=last_of(moments))


def last_of(moments: Sequence[Moment]) -> float:
    """When the last moment was, in seconds; 0 without any. All times are told in its unit."""
    return moments[-1].time_s if moments else 0.0


def clock_times(times_s: Sequence[float]) -> list[str]:
    """Times in ascending order, all in the unit of the last."""
    return _clock(times_s, last_s=times_s[-1]) if times_s else []


def _clock(times_s: Sequence[float], *, last_s: float) -> list[str]:
    if last_s >= _CLOCK_FROM_S:
        minutes = [round(time_s / 60) for time_s in times_s]
        return [f"{minute // 60}:{minute % 60:02d} h" for minute in minutes]
    unit = quantity_unit("s", last_s)
    scaled = [time_s / unit.divisor for time_s in times_s]
    whole = all(abs(value - round(value)) < 0.005 for value in scaled)
    decimals = 0 if whole else max(1, unit.decimals)
    return [f"{value:.{decimals}f}{unit.symbol}" for value in scaled]


def fact_text(fact: Json) -> str:
    """A fact's value with its unit, and its interval where it has one."""
    unit = str(fact.get("unit") or "")
    return estimate_text(fact.get("value"), fact.get("low"), fact.get("high"), unit)


def cell_texts(table: Json, *, last_s: float) -> list[list[str]]:
    """The cells of a table as text, row by row.

    Times in a column `at` are told like moments of which the last is at `last_s`.
    """
    columns = rows(table, "columns")
    units = [str(column.get("unit") or "") for column in columns]
    found = [
        [quantity(value, unit) for value, unit in zip(row, units, strict=False)]
        for row in table.get("rows") or []
    ]
    for index, column in enumerate(columns):
        times_s = [row[index] for row in table.get("rows") or [] if index < len(row)]
        if column.get("name") == "at" and units[index] == "s" and all(map(is_number, times_s)):
            last = max([last_s, *times_s])
            for cells, text in zip(found, _clock(times_s, last_s=last), strict=False):
                cells[index] = text
    return found


def point_title(point: Json) -> str:
    """What is given at a point of a sweep, as a heading."""
    given = mapping(point, "given")
    return setting_text(dict(zip(_short_names(list(given)), given.values(), strict=True)))


def _short_names(keys: Sequence[str]) -> list[str]:
    """The last part of each dotted name where that tells it from the others."""
    ends = [key.rpartition(".")[2] for key in keys]
    return [end if ends.count(end) == 1 else key for key, end in zip(keys, ends, strict=True)]


@dataclass(frozen=True)
class Comparison:
    """The points of a sweep side by side."""

    columns: list[str]
    """Names of what is given, then of the facts that vary."""
    heads: list[str]
    """The same with the unit of things counted, which `rows` doesn't repeat."""
    rows: list[list[str]]
    """A text per column, a row for each point."""
    leading: int
    """How many columns say what is given."""
    common: list[Json]
    """The facts that are the same at all points."""


def comparison(points: Sequence[Json]) -> Comparison | None:
    """Compare the points of a sweep by their facts; None where there is only one point."""
    if len(points) < 2:
        return None
    keys = list(dict.fromkeys(str(key) for point in points for key in mapping(point, "given")))
    named = [setting_name(name).replace(".", " ") for name in _short_names(keys)]
    found = [{str(fact.get("name")): fact for fact in rows(point, "facts")} for point in points]
    facts = list(dict.fromkeys(name for each in found for name in each))
    texts = {name: [fact_text(each.get(name, {})) for each in found] for name in facts}
    varying = [name for name in facts if len(set(texts[name])) > 1]
    units = {name: _shared_unit([each.get(name, {}) for each in found]) for name in varying}
    table = [
        [quantity(mapping(point, "given").get(key), "") for key in keys]
        + [fact_text({**each.get(name, {}), **({"unit": ""} if units[name] else {})})
           for name in varying]
        for point, each in zip(points, found, strict=True)
    ]  # fmt: skip
    heads = [f"{name}, {units[name]}" if units[name] else name for name in varying]
    common = [fact for fact in rows(points[0], "facts") if str(fact.get("name")) not in varying]
    return Comparison([*named, *varying], [*named, *heads], table, len(keys), common)


def _shared_unit(facts: Sequence[Json]) -> str:
    """The unit of things counted that all facts have in common; empty where there is none."""
    units = {str(fact.get("unit") or "") for fact in facts if fact}
    unit = units.pop() if len(units) == 1 else ""
    return unit if unit and is_count(unit) else ""


def _floats(values: Any) -> Floats:
    if values is None or isinstance(values, str):
        return np.empty(0)
    return np.array([float(v) if is_number(v) else np.nan for v in values], dtype=np.float64)
