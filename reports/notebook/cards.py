"""What a notebook shows of each result."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from forecache.models.advice.compare import NodeComparison
from forecache.models.advice.node_answers import Explained, Recommended, Simulated
from forecache.models.cost.answer import CostAnswer
from forecache.models.footprint.answers import MemoryAnswer, MemoryPoint
from forecache.models.large_sweeps.sweep import SweptPoints
from forecache.models.plan.results import PlanAnswer
from forecache.models.results.displayed import Displayed
from forecache.models.results.latency import LatencyDistribution
from forecache.models.results.points import Point
from forecache.models.results.series import RunsOverTime

from ..text.differences import HEADER, side_phrase
from ..text.differences import rows as difference_rows
from ..text.differences import warnings as difference_warnings
from ..text.formats import (
    UNKNOWN,
    byte_size,
    count,
    dollars,
    milliseconds,
    percent,
    plain,
    rate,
    rate_with_bounds,
)
from ..text.plans import (
    chosen_row,
    cost_phrase,
    demand_phrase,
    headline,
    marks_phrase,
    plan_facts,
    ranked_rows,
)
from ..text.point_columns import point_columns
from ..text.points import (
    SETTING,
    about_phrase,
    chosen_point,
    point_warnings,
    standing,
    target_warnings,
)
from ..text.runs import comparison, fact_text, kind_word, title_of
from ..text.settings import setting_name, setting_text, value_text, varying_keys
from ..text.wording import action, headline_facts, limit_phrase
from .card import Card
from .tables import tables_of
from .tidy import TidyTable

_MOST_COLUMNS = 8


def card_of(result: Displayed) -> Card:
    """What is shown of a result: that of its kind, or the start of its first table."""
    for kind, card in _CARDS.items():
        if isinstance(result, kind):
            return card(result)
    from .measured import measured_card  # with all of calibration, which no prediction needs

    if (measured := measured_card(result)) is not None:
        return measured
    tables = tables_of(result)
    title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(result).__name__)
    if not tables:
        return Card(title)
    name, make = next(iter(tables.items()))
    return _start_of(make(), title=f"{title}: {name.replace('_', ' ')}")


def _start_of(table: TidyTable, *, title: str) -> Card:
    width = min(_MOST_COLUMNS, len(table.columns))
    cells = [[plain(cell) for cell in column] for column in table.cells[:width]]
    return Card(
        title,
        header=[name for name, _ in table.columns[:width]],
        rows=list(zip(*cells, strict=True)),
    )


def _point_rows(points: Sequence[Point]) -> tuple[list[str], list[list[str]]]:
    """Columns and cells of points: what varies, throughput, latency, who is busy, what limits."""
    keys = varying_keys([point.given for point in points])
    columns = point_columns(points, "notebook")
    header = [*map(setting_name, keys), *(column.heading for column in columns)]
    cells = [[value_text(point.given.get(key)) for point in points] for key in keys]
    cells += [column.cells for column in columns]
    return header, [list(row) for row in zip(*cells, strict=True)]


def _simulated(answer: Simulated) -> Card:
    points = answer.points
    header, rows = _point_rows(points)
    best = max(points, key=lambda point: point.throughput_rps.value)
    title = f"{len(points)} points, up to {rate(best.throughput_rps.value)}"
    if len(points) > 1:
        title += f" at {setting_text(best.given)}"
    else:
        title = f"{rate_with_bounds(best.throughput_rps)}; {limit_phrase(best)}"
    return Card(
        title, about=about_phrase(answer), header=header, rows=rows, warnings=point_warnings(points)
    )


def _recommended(answer: Recommended) -> Card:
    advice, point = answer.recommendation, chosen_point(answer)
    points = sorted(answer.points, key=lambda each: float(each.given[SETTING]))
    header, rows = _point_rows(points)
    return Card(
        action(advice),
        about=about_phrase(answer),
        lines=["; ".join(headline_facts(advice, point))],
        header=header,
        rows=rows,
        marked=points.index(point) if standing(advice) == "recommended" else None,
        warnings=target_warnings(answer),
    )


def _explained(answer: Explained) -> Card:
    point = answer.points[answer.shown.point]
    at = setting_text(point.given)
    stages = sorted(point.stages, key=lambda stage: -stage.us_per_request)
    total = sum(stage.us_per_request for stage in stages)
    return Card(
        f"A request takes {total:.3g} µs of CPU time" + (f" at {at}" if at else ""),
        about=about_phrase(answer),
        header=["stage", "thread", "µs a request", "share"],
        rows=[
            [
                stage.stage,
                stage.thread,
                f"{stage.us_per_request:.3f}",
                percent(stage.us_per_request / total if total else None),
            ]
            for stage in stages
        ],
        warnings=point_warnings([point]),
        more='.to_frame("stages")',
    )


def _compared(answer: NodeComparison) -> Card:
    return Card(
        "What the second gains or loses against the first",
        lines=[side_phrase(answer.first), side_phrase(answer.second)],
        header=HEADER,
        rows=difference_rows(answer),
        warnings=difference_warnings(answer),
    )


def _planned(answer: PlanAnswer) -> Card:
    columns, rows = ranked_rows(answer)
    facts = plan_facts(answer)[:3]
    return Card(
        headline(answer),
        about=demand_phrase(answer),
        lines=[
            *(f"{name}: {text}" for name, text in facts),
            *(
                line
                for line in (cost_phrase(answer), marks_phrase(answer), answer.with_traffic)
                if line
            ),
        ],
        header=[column.name for column in columns],
        rows=rows,
        marked=chosen_row(answer),
        warnings=answer.warnings,
    )


def _memory(answer: MemoryAnswer) -> Card:
    points = answer.points
    keys = varying_keys([point.given for point in points])
    first = points[0]
    return Card(
        f"{byte_size(first.used_memory_bytes.value)} used by {count(round(first.keys))} keys"
        + (f" with {setting_text(first.given)}" if first.given else ""),
        about=f"{first.engine.name} {first.engine.version}, {first.engine.allocator}",
        header=[*map(setting_name, keys), "used", "resident", "forking", "keys that fit"],
        rows=[
            [*(value_text(point.given.get(key)) for key in keys), *_memory_cells(point)]
            for point in points
        ],
        warnings=list(dict.fromkeys(text for point in points for text in point.warnings)),
    )


def _memory_cells(point: MemoryPoint) -> list[str]:
    return [
        byte_size(point.used_memory_bytes.value),
        byte_size(point.resident_bytes),
        byte_size(point.forked_bytes.value),
        UNKNOWN if point.fits is None or point.fits.keys is None else count(int(point.fits.keys)),
    ]


def _cost(answer: CostAnswer) -> Card:
    points = answer.points
    keys = varying_keys([point.given for point in points])
    first = points[0]
    nodes = f", {dollars(first.nodes.nodes_usd)} as nodes" if first.nodes else ""
    return Card(
        f"{dollars(first.serverless.usd)} a month serverless{nodes}",
        about=f"{answer.prices.title}, prices of {answer.prices.date}",
        header=[*map(setting_name, keys), "serverless", "nodes", "number", "break-even load"],
        rows=[
            [
                *(value_text(point.given.get(key)) for key in keys),
                dollars(point.serverless.usd),
                dollars(point.nodes.nodes_usd) if point.nodes else UNKNOWN,
                str(point.nodes.count) if point.nodes else UNKNOWN,
                plain(point.break_even.load if point.break_even else None),
            ]
            for point in points
        ],
        warnings=list(dict.fromkeys(text for point in points for text in point.warnings)),
    )


def _over_time(result: RunsOverTime) -> Card:
    compared = comparison(result.points)
    about = f"{kind_word(result)}, {len(result.points)} point{'s' * (len(result.points) > 1)}"
    about += f", {result.seeds} seeds" if result.seeds > 1 else ""
    if compared is not None:
        header, rows = compared.heads, compared.rows
        width = min(len(header), compared.leading + _MOST_COLUMNS)
        header, rows = header[:width], [row[:width] for row in rows]
    else:
        facts = result.points[0].run.facts
        header, rows = ["", "", ""], [[f.name, fact_text(f), f.note] for f in facts]
    warnings = dict.fromkeys(text for point in result.points for text in point.run.warnings)
    return Card(
        title_of(result),
        about=about,
        header=header,
        rows=rows,
        warnings=list(warnings),
        more='.to_frame("facts")',
    )


_SHARES = (0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)


def _latency(result: LatencyDistribution) -> Card:
    known = [share for share in _SHARES if result.count * (1.0 - share) >= 10.0]
    found = [
        *((f"p{share * 100:.10g}", milliseconds(result.quantile(share))) for share in known),
        ("longest", milliseconds(result.max_ms)),
    ]
    return Card(
        f"{count(result.count)} requests, {milliseconds(result.mean_ms)} on average",
        about=f"{result.replications} replications at the nominal numbers",
        header=[name for name, _ in found],
        rows=[[text for _, text in found]],
    )


def _swept(result: SweptPoints) -> Card:
    return Card(
        f"{result.points:,} points in {result.folder}",
        about=f"a sweep of kind {result.kind}: {result.files} Parquet files",
        lines=[f"{result.found:,} were there before, {result.answered:,} were answered now"],
    )


_CARDS: dict[type[Any], Callable[[Any], Card]] = {
    Recommended: _recommended,
    Simulated: _simulated,
    Explained: _explained,
    NodeComparison: _compared,
    PlanAnswer: _planned,
    MemoryAnswer: _memory,
    CostAnswer: _cost,
    RunsOverTime: _over_time,
    LatencyDistribution: _latency,
    SweptPoints: _swept,
}
