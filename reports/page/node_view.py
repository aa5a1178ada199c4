"""What the page says of a node: the answers of `simulate`, `explain` and `compare`.

Each is a list of parts: a title, facts, a figure, a table and sentences, in this order.
"""

from collections.abc import Sequence
from typing import Any

from forecache.models.advice.compare import NodeComparison
from forecache.models.advice.node_answers import Explained, Simulated
from forecache.models.advice.sensitivity import Sensitivity
from forecache.models.results.points import Point

from .. import figures
from ..text import differences, explained
from ..text.accuracy import parameter_rows
from ..text.formats import (
    UNKNOWN,
    rate,
)
from ..text.point_columns import point_columns
from ..text.points import (
    SETTING,
    by_threads,
    point_warnings,
    subtitle_phrase,
    swept_columns,
)
from ..text.repeat import Question, repeat_view
from ..text.settings import setting_name
from ..text.wording import INTERVAL_PARTS, interval_parts, limit_phrase
from .drawing import Drawer, FigureView
from .sensitivity_view import gains_view, moved_view

_MOST_STAGES = 4
"""Points of a sweep whose stages are drawn; more would bury the table."""


def simulated_view(answer: Simulated, question: Question) -> dict[str, Any]:
    """Return the template's context for what `simulate` answers about a node."""
    points = answer.points
    drawer = Drawer()
    curve = _curve(answer, drawer)
    drawn = [
        _stages_figure(point, name, drawer)
        for point, name in zip(points, _names(points), strict=True)
        if len(points) <= _MOST_STAGES
    ]
    return {
        "title": subtitle_phrase(answer, points),
        "kind": "simulation",
        "warnings": point_warnings(points),
        "parts": [
            _part("What is predicted", table=point_table(points, swept_columns(points))),
            *([_part("", figure=curve)] if curve else []),
            *(_part("", figure=view) for view in drawn if view is not None),
            _part(
                "What the intervals of throughput consist of",
                table=_uncertainty_table(points),
                sentences=[f"{name}: {what}" for name, what in INTERVAL_PARTS.values()],
            ),
        ],
        "repeat": repeat_view(answer.provenance, question),
    }


def explained_view(answer: Explained, question: Question) -> dict[str, Any]:
    """Return the template's context for what `explain` answers."""
    settings = explained.settings_of(answer)
    point, setting = answer.points[answer.shown.point], settings[answer.shown.point]
    parts = []
    if len(answer.points) > 1:
        listed = [
            (name, explained.in_short(each))
            for name, each in zip(settings, answer.points, strict=True)
        ]
        which = f"{explained.which_phrase(answer.shown, settings)}: {setting}."
        parts.append(_part("Where a request’s time goes", facts=listed, sentences=[which]))
    drawer = Drawer()
    parts.append(
        _part(
            explained.stages_title(setting),
            figure=_stages_figure(point, setting, drawer),
            table=_table(_headed(explained.STAGE_COLUMNS), explained.stage_rows(point)),
        )
    )
    if point.latency_breakdown:
        parts.append(
            _part(
                explained.stations_title(setting, point.latency_breakdown),
                table=_table(
                    _headed(explained.STATION_COLUMNS),
                    explained.station_rows(point.latency_breakdown),
                ),
            )
        )
    if answer.sensitivity is not None:
        parts.append(_moved(answer.sensitivity, drawer))
    gains = gains_view(answer.measure_next)
    columns = [("measurement", False), ("the interval becomes", True), ("command", False)]
    parts += [
        _part("What limits", sentences=[f"{x}." for x in explained.limit_sentences(point)]),
        _part(
            "What to measure next",
            sentences=[gains["about"]],
            table=_table(columns, gains["gains"], stacked=True) if gains["gains"] else None,
        ),
        _part("Every number behind it, and where it comes from", parameters=_numbers(answer)),
    ]
    return {
        "title": subtitle_phrase(answer, answer.points),
        "kind": "explanation",
        "warnings": point_warnings(answer.points),
        "parts": parts,
        "repeat": repeat_view(answer.provenance, question),
    }


def compared_view(answer: NodeComparison, question: Question) -> dict[str, Any]:
    """Return the template's context for what `compare` answers."""
    sides = (("before", answer.first), ("after", answer.second))
    last = len(differences.HEADER) - 1
    columns = [(name, 0 < i < last) for i, name in enumerate(differences.HEADER)]
    drawer = Drawer()
    stages = [_stages_figure(side.point, called, drawer) for called, side in sides]
    return {
        "title": "What one scenario gains over another",
        "kind": "comparison",
        "warnings": differences.warnings(answer),
        "parts": [
            _part(
                "What changes",
                facts=[(called, differences.side_phrase(side)) for called, side in sides],
                table=_table(columns, differences.rows(answer)),
                sentences=[differences.LEGEND],
            ),
            *(_part("", figure=view) for view in stages if view is not None),
        ],
        "repeat": repeat_view(answer.provenance, question),
    }


def _part(
    title: str,
    *,
    facts: Sequence[tuple[str, str]] = (),
    figure: FigureView | None = None,
    table: dict[str, Any] | None = None,
    parameters: Sequence[dict[str, str]] = (),
    sentences: Sequence[str] = (),
) -> dict[str, Any]:
    """A section of the page."""
    return {
        "title": title,
        "facts": facts,
        "figure": figure,
        "table": table if table and table["rows"] else None,
        "parameters": parameters,
        "sentences": sentences,
    }


def _table(
    columns: Sequence[Sequence[Any]], rows: Sequence[Sequence[str]], *, stacked: bool = False
) -> dict[str, Any]:
    """A table: columns that begin with a name and whether they hold numbers, and cells.

    Parameters
    ----------
    stacked
        On a narrow screen, cells of a row stand below each other: for sentences and commands.
    """
    return {"columns": [column[:2] for column in columns], "rows": rows, "stacked": stacked}


def _headed(names: Sequence[str]) -> list[tuple[str, bool]]:
    """Columns of a table of the terminal, in which `>` begins one of numbers."""
    return [(name.lstrip(">"), name.startswith(">")) for name in names]


def _names(points: Sequence[Point]) -> list[str]:
    """What tells each point of a sweep apart."""
    swept = swept_columns(points)
    return [", ".join(f"{name} {cells[i]}" for name, cells in swept) for i in range(len(points))]


def point_table(
    points: Sequence[Point], settings: Sequence[tuple[str, list[str]]]
) -> dict[str, Any]:
    """What is predicted of points, a row each; columns that nothing is known of are left out.

    Parameters
    ----------
    settings
        Headings and cells of the columns before, which tell points apart.
    """
    columns = [(name, True, cells) for name, cells in settings]
    columns += [(c.heading, c.is_numeric, c.cells) for c in point_columns(points, "page")]
    shown = [column for column in columns if any(cell != UNKNOWN for cell in column[2])]
    return _table(shown, list(zip(*(cells for _, _, cells in shown), strict=True)))


def _uncertainty_table(points: Sequence[Point]) -> dict[str, Any]:
    """A row for each point, a column for each part of its interval."""
    swept = swept_columns(points)
    parts = [interval_parts(point.uncertainty) for point in points]
    return _table(
        [
            *((name, True) for name, _ in swept),
            *((name, True) for name, _, _ in parts[0]),
        ],
        [
            [*(cells[i] for _, cells in swept), *(text for _, text, _ in parts[i])]
            for i in range(len(points))
        ],
    )


def _curve(answer: Simulated, drawer: Drawer) -> FigureView | None:
    """Throughput by the number of I/O threads, where that is all the sweep varies."""
    points = answer.points
    if len(points) < 2 or any(set(point.given) != {SETTING} for point in points):
        return None
    name = setting_name(SETTING)
    listed = ", ".join(f"{rate(p.throughput_rps.value)} at {x:g}" for x, p in by_threads(answer))
    return drawer.draw(
        lambda width: figures.scaling(answer, width_px=width),
        title=f"Throughput by {name}",
        caption="",
        label=f"Predicted throughput by {name}: {listed}.",
        width_px=figures.WIDE_PX,
    )


def _stages_figure(point: Point, name: str, drawer: Drawer) -> FigureView | None:
    of = f": {name}" if name else ""
    return drawer.draw(
        lambda width: figures.stages(point, width_px=width),
        title=f"Where a request’s CPU time goes{of}",
        caption=f"Each stage of a request, by the thread that runs it; {limit_phrase(point)}.",
        label=f"Processor time of each stage of a request{of}.",
    )


def _moved(found: Sensitivity, drawer: Drawer) -> dict[str, Any]:
    """Which inputs move the answer, as figure and numbers."""
    moved = moved_view(found, drawer)
    table = _table(moved["columns"], moved["rows"])
    return _part(moved["title"], figure=moved["figure"], table=table, sentences=moved["sentences"])


def _numbers(answer: Explained) -> list[dict[str, str]]:
    """Every number of host, engine and load generator with range and origin."""
    rows = parameter_rows(answer.numbers)
    for row, number in zip(rows, answer.numbers, strict=True):
        row["note"] = ", ".join(text for text in (number.source, number.method) if text)
    return rows
