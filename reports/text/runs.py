"""What terminal, page and figures share of results over time: panels, moments, comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from forecache.models.advice.paired import LEAST_DIFFERENCE
from forecache.models.results.series import (
    Fact,
    Floats,
    Mark,
    Run,
    RunPoint,
    RunsOverTime,
    Series,
    Stack,
    Table,
    Ticks,
)
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from .formats import (
    SHARE_PANELS,
    count,
    estimate_text,
    is_count,
    is_number,
    quantity,
    quantity_unit,
)
from .settings import setting_name, setting_text, short_names

_ORDER = {
    name: place
    for place, name in enumerate(
        ("throughput", "errors", "latency", "hit rate", "progress", "database", "connections")
    )
}
"""What is looked at first."""

_CLOCK_FROM_S = 7200.0
"""Times of longer runs are told in hours and minutes."""


@dataclass(frozen=True)
class Panel:
    """Lines of one unit that are drawn into one plot."""

    name: str
    unit: str
    lines: tuple[Series, ...]

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


def title_of(result: RunsOverTime) -> str:
    """The name of the scenario; its kind where it has none."""
    return str(result.scenario.get("name") or "") or kind_word(result)


def kind_word(result: RunsOverTime) -> str:
    """The kind of the scenario in words."""
    return result.kind.replace("_", " ")


def panels_of(run: Run) -> list[Panel]:
    """The series of a run by panel: the well-known ones first, others as they first appear.

    Series of one panel in different units become several panels of that name. Shares of a panel
    that holds nothing else have the unit `share`.
    """
    found: dict[tuple[str, str], list[Series]] = {}
    for series in run.series:
        if not series.unit and series.panel in SHARE_PANELS:
            series = replace(series, unit="share")
        found.setdefault((series.panel or series.name, series.unit), []).append(series)
    panels = [Panel(name, unit, tuple(lines)) for (name, unit), lines in found.items()]
    return sorted(panels, key=lambda panel: _ORDER.get(panel.name, len(_ORDER)))


def without_idle(panels: Sequence[Panel]) -> tuple[list[Panel], list[str]]:
    """Panels without the lines that are zero all the time, and the names of those."""
    kept, idle = [], []
    for panel in panels:
        busy = [line for line in panel.lines if not line.finite.size or line.finite.any()]
        idle += [line.name for line in panel.lines if not any(line is other for other in busy)]
        if busy:
            kept.append(Panel(panel.name, panel.unit, tuple(busy)))
    return kept, idle


def moments_of(marks: Sequence[Mark]) -> list[Moment]:
    """Marks in the order of time, numbered from one."""
    ordered = sorted(marks, key=lambda mark: mark.time_s)
    return [Moment(number, mark.time_s, mark.what) for number, mark in enumerate(ordered, 1)]


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


def fact_text(fact: Fact) -> str:
    """A fact's value with its unit, and its interval where it has one."""
    return estimate_text(fact.value, fact.low, fact.high, fact.unit)


def cell_texts(table: Table, *, last_s: float) -> list[list[str]]:
    """The cells of a table as text, row by row.

    Times in a column `at` are written like moments of which the last is at `last_s`.
    """
    found = [
        [quantity(value, unit) for value, (_, unit) in zip(row, table.columns, strict=True)]
        for row in table.rows
    ]
    for index, column in enumerate(table.columns):
        times_s = [cell for row in table.rows if is_number(cell := row[index])]
        if column == ("at", "s") and len(times_s) == len(found):
            last = max([last_s, *times_s])
            for cells, text in zip(found, _clock(times_s, last_s=last), strict=True):
                cells[index] = text
    return found


def point_title(point: RunPoint) -> str:
    """What is given at a point of a sweep, as a heading."""
    names = short_names(list(point.given))
    return setting_text(dict(zip(names, point.given.values(), strict=True)))


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
    common: list[Fact]
    """The facts that are the same at all points."""


_NOTHING = Fact("", None)


def comparison(points: Sequence[RunPoint]) -> Comparison | None:
    """Compare the points of a sweep by their facts; None where there is only one point."""
    if len(points) < 2:
        return None
    keys = list(dict.fromkeys(key for point in points for key in point.given))
    named = [setting_name(name).replace(".", " ") for name in short_names(keys)]
    found = [{fact.name: fact for fact in point.run.facts} for point in points]
    names = list(dict.fromkeys(name for each in found for name in each))
    facts = {name: [each.get(name, _NOTHING) for each in found] for name in names}
    varying = [name for name in names if len({fact_text(fact) for fact in facts[name]}) > 1]
    units = {name: _shared_unit(facts[name]) for name in varying}
    table = [
        [quantity(point.given.get(key), "") for key in keys]
        + [
            fact_text(replace(facts[name][index], unit="") if units[name] else facts[name][index])
            for name in varying
        ]
        for index, point in enumerate(points)
    ]
    heads = [f"{name}, {units[name]}" if units[name] else name for name in varying]
    common = [fact for fact in points[0].run.facts if fact.name not in varying]
    return Comparison([*named, *varying], [*named, *heads], table, len(keys), common)


def _shared_unit(facts: Sequence[Fact]) -> str:
    """The unit of things counted that all facts have in common; empty where there is none."""
    units = {fact.unit for fact in facts if fact is not _NOTHING}
    unit = units.pop() if len(units) == 1 else ""
    return unit if unit and is_count(unit) else ""


# --- over several seeds --------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """One fact at all points of a sweep."""

    name: str
    """With its unit, where values are written without one."""
    rows: list[tuple[str, str, str]]
    """For each point what is given at it, the mean, the difference to the first point."""


def seeds_sentence(result: RunsOverTime) -> str:
    """How many seeds there were; empty if only one."""
    first = result.provenance.seed
    if result.seeds < 2:
        return ""
    return (
        f"Means over seeds {first} to {first + result.seeds - 1} with 95% intervals; "
        f"what happens over time is that of seed {first}"
    )


def outcomes(points: Sequence[RunPoint], compared: Comparison) -> tuple[list[str], list[Outcome]]:
    """What differs between points that were run with the same seeds, fact by fact.

    Returns
    -------
    tuple
        Names of the three columns, and the facts.
    """
    labels = [", ".join(cells[: compared.leading]) for cells in compared.rows]
    columns = [
        ", ".join(compared.columns[: compared.leading]),
        "mean (95%)",
        f"difference to {labels[0]} (95%)",
    ]
    by_name = [{fact.name: fact for fact in point.run.facts} for point in points]
    found = []
    names = zip(compared.columns, compared.heads, strict=True)
    for name, head in list(names)[compared.leading :]:
        facts = [facts.get(name, Fact(name, None)) for facts in by_name]
        unit = next((fact.unit for fact in facts if fact.unit), "")
        shown = unit if head == name else ""
        cells = [
            (label, _mean(fact, shown), _difference(fact, shown))
            for label, fact in zip(labels, facts, strict=True)
        ]
        found.append(Outcome(head, cells))
    return columns, found


def _mean(fact: Fact, unit: str) -> str:
    return estimate_text(fact.value, fact.low, fact.high, unit)


def _difference(fact: Fact, unit: str) -> str:
    """`+1.2 ms (+0.3 to +2.7)`, or `no clear difference (−0.3 to +2.7)`."""
    against = fact.against_first
    if against is None:
        return ""
    text = estimate_text(against.value, against.low, against.high, unit, signed=True)
    first = fact.value - against.value if is_number(fact.value) else 0.0
    holds_zero = against.low <= 0.0 <= against.high
    if not holds_zero and abs(against.value) >= LEAST_DIFFERENCE * abs(first):
        return text
    _, bracket, interval = text.partition("(")
    return f"{NO_CLEAR_DIFFERENCE} {bracket}{interval}".rstrip()


# --- stacked bars and ticks ----------------------------------------------------------------------


MOST_ROWS = 20
"""Bars that a table tells one by one."""

_GROUPS = 10


def stacks_of(run: Run) -> list[Stack]:
    """A run's stacks in the order of time."""
    return sorted(run.stacks, key=lambda stack: stack.time_s)


def sizes_of(stack: Stack) -> Floats:
    """(bars, layers) sizes."""
    return np.array([bar.rounded_sizes for bar in stack.bars], dtype=np.float64)


def totals_of(stack: Stack) -> Floats:
    """(bars,) heights."""
    return np.asarray(sizes_of(stack).sum(axis=1))


def highest_of(stack: Stack) -> float:
    """The greatest of all heights and limits."""
    return max(float(totals_of(stack).max()), *(limit.value for limit in stack.limits), 0.0)


def flagged(stack: Stack) -> list[int]:
    """Indices of the bars that are set apart."""
    return [index for index, bar in enumerate(stack.bars) if bar.flag]


def said(stack: Stack, index: int) -> str:
    """What there is to say about a bar: `host 17, 214 GB: hot; ...`."""
    bar = stack.bars[index]
    words = "; ".join(text for text in (bar.flag, bar.note) if text)
    return f"{bar.name}, {quantity(float(totals_of(stack)[index]), stack.unit)}: {words}"


def ticks_of(run: Run) -> list[Ticks]:
    """What happens often; left out where it never did."""
    return [ticks for ticks in run.ticks if ticks.counts.any()]


def table_of(stack: Stack) -> tuple[list[str], list[list[str]]]:
    """Names of columns, and rows: a bar each, or the mean of every tenth of many bars."""
    all_sizes = sizes_of(stack)
    used = [i for i in range(len(stack.layers)) if all_sizes[:, i].any()]
    columns = [stack.what, "in all", *(stack.layers[i].name for i in reversed(used))]
    if len(stack.bars) <= MOST_ROWS:
        named = [(bar.name, np.array([i])) for i, bar in enumerate(stack.bars)]
    else:
        parts = np.array_split(np.arange(len(stack.bars)), _GROUPS)
        tenths = (f"{n}. tenth" for n in range(2, _GROUPS))
        named = list(zip(("highest tenth", *tenths, "lowest tenth"), parts, strict=True))
    found = []
    for name, part in named:
        sizes = all_sizes[part].mean(axis=0)
        cells = [float(sizes.sum()), *(float(sizes[i]) for i in reversed(used))]
        found.append([name, *(quantity(round(cell, 6), stack.unit) for cell in cells)])
    return columns, found


def notes_of(stack: Stack) -> list[str]:
    """What there is to say about single bars, flagged ones first."""
    noted = [i for i, bar in enumerate(stack.bars) if bar.note and not bar.flag]
    return [said(stack, index) for index in (*flagged(stack), *noted)]


def chosen_text(stack: Stack) -> str:
    """`100 hosts`, or how many of them have a bar."""
    all_of_them = f"{count(stack.count)} {stack.what}{'s' * (stack.count != 1)}"
    shown = len(stack.bars)
    return all_of_them if shown == stack.count else f"{shown} of {all_of_them}, evenly chosen"
