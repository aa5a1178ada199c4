"""What the page says about results over time: a result turned into strings, rows and figures."""

from collections.abc import Sequence
from typing import Any

from forecache.models.results.series import Fact, Run, RunsOverTime, Stack, Table, Ticks

from .. import figures
from ..text.formats import count
from ..text.quantities import quantity
from ..text.repeat import Question, repeat_view
from ..text.runs import (
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
from .drawing import Drawer, FigureView

# Greatest values further apart would leave the smaller lines of a common axis on its ground.
_COMPARABLE_RATIO = 4.0


def series_view(result: RunsOverTime, question: Question) -> dict[str, Any]:
    """Return the template's context for a result over time."""
    drawer = Drawer()
    points = result.points
    split = [without_idle(panels_of(point.run)) for point in points]
    panels = [found for found, _ in split]
    stacks = [stacks_of(point.run) for point in points]
    compared = comparison(points)
    seeds = seeds_sentence(result)
    return {
        "title": title_of(result),
        "kind": kind_word(result),
        "compared": compared,
        "over_seeds": seeds,
        "outcomes": outcomes(points, compared) if seeds and compared else None,
        "common": _facts(compared.common) if compared else [],
        "points": [
            {
                "title": point_title(point),
                **_run(point.run, index, panels, drawer),
                "stacks": _stack_views(stacks[index], stacks, drawer),
                "idle": ", ".join(split[index][1]),
            }
            for index, point in enumerate(points)
        ],
        "repeat": repeat_view(result.provenance, question),
    }


def _run(run: Run, index: int, panels: Sequence[Sequence[Panel]], drawer: Drawer) -> dict[str, Any]:
    moments = moments_of(run.marks)
    ticks = ticks_of(run)
    return {
        "anchor": f"point-{index + 1}",
        # Those of several points stand side by side.
        "facts": _facts(run.facts) if len(panels) == 1 else [],
        "tables": [_table(table, last_s=last_of(moments)) for table in run.tables],
        "moments": [
            (moment.number, time, moment.what)
            for moment, time in zip(moments, moment_times(moments), strict=True)
        ],
        "figures": [
            drawn
            for panel in panels[index]
            if (drawn := _figure(panel, run, moments, ticks, panels, drawer)) is not None
        ],
        "ticks": [_ticks_sentence(row) for row in ticks],
        "warnings": list(dict.fromkeys(run.warnings)),
    }


def _facts(facts: Sequence[Fact]) -> list[tuple[str, str, str]]:
    """Name, value and note of each fact."""
    return [(fact.name, fact_text(fact), fact.note) for fact in facts]


def _table(table: Table, *, last_s: float) -> dict[str, Any]:
    """Title, cells, and of each column whether it has numbers."""
    return {
        "title": table.title,
        "columns": [
            (name, not any(isinstance(row[i], str) for row in table.rows))
            for i, (name, _) in enumerate(table.columns)
        ],
        "rows": cell_texts(table, last_s=last_s),
    }


def _figure(
    panel: Panel,
    run: Run,
    moments: Sequence[Moment],
    ticks: Sequence[Ticks],
    panels: Sequence[Sequence[Panel]],
    drawer: Drawer,
) -> FigureView | None:
    """One plot; where values are alike at all points, so are the vertical axes of a panel."""
    alike = [
        other
        for found in panels
        for other in found
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
    margin_px = figures.right_margin_px(
        [p for found in panels for p in found], [row.name for row in ticks]
    )
    return drawer.draw(
        lambda width: figures.over_time(
            panel,
            run.times_s,
            moments,
            highest=highest,
            lowest_positive=min(positive, default=0.0),
            margin_px=margin_px,
            ticks=ticks,
            width_px=width,
        ),
        title="",
        caption="",
        label=_spoken(panel, moments),
        width_px=figures.PLOT_PX,
    )


def _ticks_sentence(ticks: Ticks) -> str:
    return f"Ticks below the plots: {ticks.name}, {count(ticks.counts.sum())} in all"


def _stack_views(
    stacks: Sequence[Stack], all_stacks: Sequence[Sequence[Stack]], drawer: Drawer
) -> list[dict[str, Any]]:
    """Figure, notes and table of each stack of a point; vertical axes are alike at all points."""
    units = {stack.unit for found in all_stacks for stack in found}
    highest = {
        unit: max(highest_of(s) for found in all_stacks for s in found if s.unit == unit)
        for unit in units
    }
    times = clock_times([stack.time_s for stack in stacks])
    return [
        _stack_view(stack, time, highest[stack.unit], drawer)
        for stack, time in zip(stacks, times, strict=True)
    ]


def _stack_view(stack: Stack, time: str, highest: float, drawer: Drawer) -> dict[str, Any]:
    margin_px = figures.right_margin_px([], figures.limit_names(stack))
    columns, cells = table_of(stack)
    title = f"{time}, {stack.title}"
    return {
        "figure": drawer.draw(
            lambda width: figures.stacked(
                stack,
                highest=highest,
                margin_px=margin_px if width == figures.PLOT_PX else 14.0,
                width_px=width,
            ),
            title=title,
            caption="",
            label=_spoken_stack(stack, title),
            width_px=figures.PLOT_PX,
        ),
        "about": chosen_text(stack),
        "notes": notes_of(stack),
        "table": {
            "title": "",
            "columns": [(name, index > 0) for index, name in enumerate(columns)],
            "rows": cells,
        },
    }


def _spoken_stack(stack: Stack, title: str) -> str:
    totals = totals_of(stack)
    limits = "; ".join(f"{x.name} {quantity(x.value, stack.unit)}" for x in stack.limits)
    told = [said(stack, index) for index in flagged(stack)]
    return "; ".join(
        [
            f"{title}: {chosen_text(stack)} side by side",
            f"from {quantity(float(totals[0]), stack.unit)} "
            f"to {quantity(float(totals[-1]), stack.unit)}",
            *([limits] if limits else []),
            *told[:5],
        ]
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
