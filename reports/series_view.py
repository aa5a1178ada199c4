"""What the page says about results over time: a result turned into strings, rows and figures."""

from collections.abc import Sequence
from typing import Any

from . import figures
from .drawing import Drawer, FigureView
from .quantities import quantity
from .runs import (
    Moment,
    Panel,
    cell_texts,
    comparison,
    fact_text,
    kind_word,
    last_of,
    moment_times,
    moments_of,
    panels_of,
    point_title,
    times_of,
    title_of,
    without_idle,
)
from .shapes import Json, mapping, rows, texts
from .view import provenance_rows

# Greatest values further apart would leave the smaller lines of a common axis on its ground.
_COMPARABLE_RATIO = 4.0


def series_view(result: Json) -> dict[str, Any]:
    """Return the template's context for a result over time; `runs.py` gives its shape."""
    drawer = Drawer()
    points = rows(result, "points")
    split = [without_idle(panels_of(point)) for point in points]
    panels = [found for found, _ in split]
    compared = comparison(points)
    return {
        "title": title_of(result),
        "kind": kind_word(result),
        "compared": compared,
        "common": _facts(compared.common) if compared else [],
        "points": [
            {**_point(point, index, panels, drawer), "idle": ", ".join(split[index][1])}
            for index, point in enumerate(points)
        ],
        "provenance": provenance_rows(mapping(result, "provenance")),
    }


def _point(
    point: Json, index: int, panels: Sequence[Sequence[Panel]], drawer: Drawer
) -> dict[str, Any]:
    moments = moments_of(point)
    return {
        "anchor": f"point-{index + 1}",
        "title": point_title(point),
        # Those of several points stand side by side.
        "facts": _facts(rows(point, "facts")) if len(panels) == 1 else [],
        "tables": [_table(table, last_s=last_of(moments)) for table in rows(point, "tables")],
        "moments": [
            (moment.number, time, moment.what)
            for moment, time in zip(moments, moment_times(moments), strict=True)
        ],
        "figures": [
            drawn
            for panel in panels[index]
            if (drawn := _figure(panel, point, moments, panels, drawer)) is not None
        ],
        "warnings": texts(point, "warnings"),
    }


def _facts(facts: Sequence[Json]) -> list[tuple[str, str, str]]:
    """Name, value and note of each fact."""
    return [
        (str(fact.get("name") or ""), fact_text(fact), str(fact.get("note") or ""))
        for fact in facts
    ]


def _table(table: Json, *, last_s: float) -> dict[str, Any]:
    columns = rows(table, "columns")
    cells = cell_texts(table, last_s=last_s)
    values = table.get("rows") or []
    return {
        "title": str(table.get("title") or ""),
        "columns": [
            (
                str(column.get("name") or ""),
                all(not isinstance(row[i], str) for row in values if i < len(row)),
            )
            for i, column in enumerate(columns)
        ],
        "rows": cells,
    }


def _figure(
    panel: Panel,
    point: Json,
    moments: Sequence[Moment],
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
    margin_px = figures.right_margin_px([p for found in panels for p in found])
    return drawer.draw(
        lambda width: figures.over_time(
            panel,
            times_of(point),
            moments,
            highest=highest,
            lowest_positive=min(positive, default=0.0),
            margin_px=margin_px,
            width_px=width,
        ),
        title="",
        caption="",
        label=_spoken(panel, moments),
        width_px=figures.PLOT_PX,
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
