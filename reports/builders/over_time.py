"""Results over time: facts, tables, plots or sparklines, what happened, stacked bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forecache.models.results.series import Fact, Run, RunPoint, RunsOverTime, Stack, Table, Ticks
from forecache.sim.statistics import Estimate, exactly

from ..document import (
    PAGE,
    PLOT_PX,
    TERMINAL,
    Column,
    Document,
    Facts,
    Figure,
    Folded,
    Items,
    Part,
    Section,
    Sparklines,
    StackLines,
    Text,
    TextTable,
    Warnings,
    words,
)
from ..text.formats import count, is_number, quantity
from ..text.repeat import question
from ..text.runs import (
    Comparison,
    Moment,
    Panel,
    cell_texts,
    chosen_text,
    clock_times,
    comparison,
    fact_text,
    flagged,
    highest_of,
    kind_word,
    last_of,
    moment_times,
    moments_of,
    notes_of,
    outcomes,
    panels_of,
    point_title,
    said,
    seeds_sentence,
    stacks_of,
    table_of,
    ticks_of,
    title_of,
    totals_of,
    without_idle,
)
from ..tidy import TidyTable, flat, series_columns, sweep_table, tidy
from . import drawing
from .curves import CurveQuantity, curve_figures

_COMPARABLE_RATIO = 4.0
"""Greatest values further apart would leave the smaller lines of a common axis on its ground."""

_MOST_ROWS = 40
_MOST_SAID = 2
_MOST_DRAWN = 2
"""Facts of a sweep with a figure each; the table has all."""
_MOST_MOMENTS = 20


def runs_over_time(result: RunsOverTime) -> Document:
    """Of several points first what differs between them, then each."""
    points, seeds = result.points, seeds_sentence(result)
    compared = comparison(points)
    split = [without_idle(panels_of(point.run)) for point in points]
    panels = [busy for busy, _ in split]
    stacks = [stacks_of(point.run) for point in points]
    anchors = [f"point-{number}" for number, _ in enumerate(points, start=1)]
    titles = [point_title(point) for point in points]
    several = len(points) > 1
    names = [title if several and title else f"point {n}" for n, title in enumerate(titles)]
    title = " · ".join(dict.fromkeys((title_of(result), kind_word(result))))
    sections = [Section("", [Text(seeds, "muted")] if seeds else [], on=TERMINAL)]
    if compared is not None:
        sections.append(Section("", _compared(points, compared, anchors, by_fact=bool(seeds))))
    for number, point in enumerate(points):
        busy, idle = split[number]
        parts = [
            *([] if compared else [_facts(point.run.facts)]),
            *_run(point.run, busy, idle, panels, name=names[number]),
            *_stacks(stacks[number], stacks),
            _happened(point.run),
            Warnings(list(dict.fromkeys(point.run.warnings)), on=TERMINAL),
        ]
        warnings = Warnings(list(dict.fromkeys(point.run.warnings)), on=PAGE)
        sections.append(Section(titles[number], [warnings, *parts], anchor=anchors[number]))
    options = {
        "--seed": result.provenance.seed,
        "--seeds": result.seeds if result.seeds > 1 else None,
    }
    return Document(
        about=title,
        headline=_outcome(points, compared) or title,
        title=title_of(result),
        byline=[f"{kind_word(result)} over time", *([seeds] if seeds else [])],
        contents=several,
        lines=[", ".join([kind_word(result), *([f"{len(points)} points"] if several else [])])],
        sections=sections,
        more='.to_frame("facts")',
        tables=_tables(points),
        question=lambda: question("simulate", result.scenario, options=options),
    )


def _outcome(points: Sequence[RunPoint], compared: Comparison | None) -> str:
    """What came out: of one point its sentence or first facts; of several the ends of the first
    that varies."""
    if compared is None:
        if points[0].run.summary:
            return points[0].run.summary
        facts = points[0].run.facts[:_MOST_SAID]
        return ", ".join(f"{each.name} {fact_text(each)}" for each in facts)
    for name in compared.columns[compared.leading :]:
        known = [
            (fact.value, fact_text(fact), point_title(point))
            for point in points
            for fact in point.run.facts
            if fact.name == name and is_number(fact.value)
        ]
        if known:
            (_, low, at_low), (_, high, at_high) = min(known), max(known)
            return f"{name}: from {low} with {at_low} to {high} with {at_high}"
    return f"{len(points)} points"


def _facts(facts: Sequence[Fact]) -> Facts:
    return Facts([(fact.name, fact_text(fact), fact.note) for fact in facts], numeric=True)


def _compared(
    points: Sequence[RunPoint], compared: Comparison, anchors: Sequence[str], *, by_fact: bool
) -> list[Part]:
    """What differs between points, and what doesn't."""
    parts: list[Part] = [*_drawn_facts(points, compared)]
    if by_fact:
        # A row for each point under the name of the fact.
        names, found = outcomes(points, compared)
        rows = [row for outcome in found for row in outcome.rows]
        columns = [
            words(name, list(cells), wraps=True)
            for name, cells in zip(names, zip(*rows, strict=True), strict=True)
        ]
        groups = {place * len(points): outcome.name for place, outcome in enumerate(found)}
        targets = [*anchors] * len(found)
        parts.append(TextTable(columns, lead=1, targets=targets, groups=groups))
    else:
        columns = [
            Column(name, [row[index] for row in compared.rows])
            for index, name in enumerate(compared.heads)
        ]
        parts.append(TextTable(columns, lead=compared.leading, targets=anchors))
    if compared.common:
        parts.append(Section("The same at all points", [_facts(compared.common)]))
    return parts


def _drawn_facts(points: Sequence[RunPoint], compared: Comparison) -> list[Figure]:
    """Over the sweep, the first facts that differ and that most points have as a number."""
    quantities = []
    for name in compared.columns[compared.leading :]:
        facts = [next((x for x in point.run.facts if x.name == name), None) for point in points]
        values = [_estimate(fact) if fact else None for fact in facts]
        if 2 * sum(value is not None for value in values) > len(points):
            unit = next((fact.unit for fact in facts if fact and fact.unit), "")
            quantities.append(CurveQuantity(name, name, unit, values))
    return curve_figures([point.given for point in points], quantities[:_MOST_DRAWN])


def _estimate(fact: Fact) -> Estimate | None:
    value = fact.value
    if not is_number(value):
        return None
    if fact.low is None or fact.high is None:
        return exactly(value)
    return Estimate(value, fact.low, fact.high)


def _run(
    run: Run,
    panels: Sequence[Panel],
    idle: Sequence[str],
    all_panels: Sequence[Sequence[Panel]],
    *,
    name: str,
) -> list[Part]:
    moments, ticks = moments_of(run.marks), ticks_of(run)
    sentences = [
        *(f"Ticks below the plots: {row.name}, {count(row.counts.sum())} in all" for row in ticks),
        *([f"Always 0: {', '.join(idle)}"] if idle else []),
    ]
    return [
        *(_table(table, last_s=last_of(moments)) for table in run.tables),
        *(_plot(panel, run, moments, ticks, all_panels, name=name) for panel in panels),
        *(Text(text, "muted", on=PAGE) for text in sentences),
        Sparklines(run.times_s, panels, moments, ticks, idle),
    ]


def _table(table: Table, *, last_s: float) -> Section:
    names = [name for name, _ in table.columns]
    cells = cell_texts(table, last_s=last_s)
    worded = {i for row in table.rows for i, value in enumerate(row) if isinstance(value, str)}
    columns = [
        # A number stays beside its unit.
        Column(
            name, [row[index] for row in cells], wraps=index in worded, numeric=index not in worded
        )
        for index, name in enumerate(names)
    ]
    return Section(table.title, [TextTable(columns, lead=1, most=_MOST_ROWS)])


def _happened(run: Run) -> Section:
    moments = moments_of(run.marks)
    table = TextTable(
        [
            Column("", [str(moment.number) for moment in moments], style="muted"),
            Column("", moment_times(moments)),
            words("", [moment.what for moment in moments], wraps=True),
        ],
        most=_MOST_MOMENTS,
    )
    return Section("What happened", [table] if moments else [], title_on=PAGE)


def _plot(
    panel: Panel,
    run: Run,
    moments: Sequence[Moment],
    ticks: Sequence[Ticks],
    all_panels: Sequence[Sequence[Panel]],
    *,
    name: str,
) -> Figure:
    """One plot; where values are alike at all points, so are the vertical axes of a panel."""
    alike = [
        other
        for panels in all_panels
        for other in panels
        if (other.name, other.unit) == (panel.name, panel.unit)
    ]
    highest = max(other.highest for other in alike)
    if any(other.highest < highest / _COMPARABLE_RATIO for other in alike):
        alike, highest = [panel], panel.highest
    positive = [
        float(line.finite[line.finite > 0].min())
        for other in alike
        for line in other.lines
        if (line.finite > 0).any()
    ]
    return Figure(
        name,
        drawing(
            "over_time",
            panel,
            run.times_s,
            moments,
            highest=highest,
            lowest_positive=min(positive, default=0.0),
            panels=[each for panels in all_panels for each in panels],
            ticks=ticks,
        ),
        label=_spoken(panel, moments),
        width_px=PLOT_PX,
        on=PAGE,
    )


def _spoken(panel: Panel, moments: Sequence[Moment]) -> str:
    """What a screen reader says instead of the plot."""
    lines = [
        f"{line.name} from {quantity(float(line.finite.min()), line.unit)} "
        f"to {quantity(float(line.finite.max()), line.unit)}, "
        f"at the end {quantity(float(line.finite[-1]), line.unit)}"
        for line in panel.lines
        if line.finite.size
    ]
    happened = f"; {len(moments)} marked moments, listed on this page" if moments else ""
    return f"{panel.title} against time: {'; '.join(lines)}{happened}"


# --- stacked bars --------------------------------------------------------------------------------


def _stacks(stacks: Sequence[Stack], all_stacks: Sequence[Sequence[Stack]]) -> list[Part]:
    """Lines on a terminal; on a page figures with tables, their vertical axes alike everywhere."""
    parts: list[Part] = [StackLines(stacks)]
    times = clock_times([stack.time_s for stack in stacks])
    for stack, time in zip(stacks, times, strict=True):
        highest = max(highest_of(s) for found in all_stacks for s in found if s.unit == stack.unit)
        title, notes = f"{time}, {stack.title}", notes_of(stack)
        columns, cells = table_of(stack)
        figure = Figure(
            stack.title,
            drawing("stacked", stack, highest=highest),
            title=title,
            label=_spoken_stack(stack, title),
            width_px=PLOT_PX,
            on=PAGE,
        )
        more = f", and what is said of {len(notes)}" if notes else ""
        table = TextTable(
            [
                Column(name, [row[index] for row in cells], numeric=index > 0)
                for index, name in enumerate(columns)
            ]
        )
        if highest_of(stack) > 0.0 and totals_of(stack).any():
            parts += [
                figure,
                Folded(f"{chosen_text(stack)} as a table{more}", [table, Items(notes)], on=PAGE),
            ]
    return parts


def _spoken_stack(stack: Stack, title: str) -> str:
    totals = totals_of(stack)
    limits = "; ".join(f"{x.name} {quantity(x.value, stack.unit)}" for x in stack.limits)
    return "; ".join(
        [
            f"{title}: {chosen_text(stack)} side by side",
            f"from {quantity(float(totals[0]), stack.unit)} "
            f"to {quantity(float(totals[-1]), stack.unit)}",
            *([limits] if limits else []),
            *[said(stack, index) for index in flagged(stack)][:5],
        ]
    )


# --- numbers -------------------------------------------------------------------------------------


def _tables(points: Sequence[RunPoint]) -> Mapping[str, Any]:
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
        table = sweep_table(
            "fact", [fact for _, fact in every], given=[points[n].given for n, _ in every]
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
