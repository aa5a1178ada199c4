"""Answers about one node: what `simulate` and `compare` say, and every latency."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from forecache.models.advice.compare import NodeComparison, Side
from forecache.models.advice.node_answers import Simulated
from forecache.models.advice.paired import LEAST_DIFFERENCE, PairedQuantity
from forecache.models.prediction.predict import SERVER_CPU
from forecache.models.results.columns import TEXT
from forecache.models.results.latency import LatencyDistribution
from forecache.models.results.points import POINT_QUANTITIES, Form, Point, PointQuantity
from forecache.sim.statistics import Estimate
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from ..document import (
    NOTEBOOK,
    PAGE,
    TERMINAL,
    WIDE_PX,
    Column,
    Document,
    Facts,
    Figure,
    On,
    Part,
    Section,
    Text,
    TextTable,
    words,
)
from ..text.formats import (
    UNKNOWN,
    byte_size,
    count,
    dollars,
    is_number,
    is_wide,
    milliseconds,
    percent,
    plain,
    probability,
    rate,
    rate_with_bounds,
    rate_with_margin,
    time_with_bounds,
)
from ..text.points import (
    INTERVAL_PARTS,
    interval_parts,
    limit_name,
    limit_phrase,
    point_warnings,
    short_limit,
    subtitle_phrase,
    swept_columns,
    threads_alike,
)
from ..text.settings import setting_name, setting_text
from ..tidy import TidyTable, flat, flat_table, sweep_table, tidy
from . import drawing
from .curves import CurveQuantity, curve_figures

if TYPE_CHECKING:
    from forecache.models.large_sweeps.sweep import SweptPoints

_MOST_STAGES = 4
"""Points of a sweep whose stages are drawn; more would bury the table."""

_US_PER_MS = 1000.0

_NOT_THE_SERVER = ("load generator", "clients", "network")
"""What limits elsewhere."""


# --- points --------------------------------------------------------------------------------------


def simulated(answer: Simulated) -> Document:
    """A row for each point, curves over what is swept, and what the intervals consist of."""
    points = answer.points
    best = max(points, key=lambda point: point.throughput_rps.value)
    headline = f"{rate_with_bounds(best.throughput_rps)}; {limit_phrase(best)}"
    if len(points) > 1:
        headline = f"{len(points)} points, up to {rate(best.throughput_rps.value)} at "
        headline += setting_text(best.given)
    stages = _stages(points) if len(points) <= _MOST_STAGES else []
    return Document(
        about=subtitle_phrase(answer, points),
        headline=headline,
        byline=["simulation"],
        warnings=point_warnings(points),
        sections=[
            Section("", _curves(answer)),
            Section("What is predicted", points_parts(points), title_on=PAGE),
            *(Section("", [figure], on=PAGE) for figure in stages),
            Section(
                "What the intervals of throughput consist of",
                [
                    _uncertainty(points),
                    *(Text(f"{name}: {what}") for name, what in INTERVAL_PARTS.values()),
                ],
                on=PAGE,
            ),
        ],
        tables={"points": lambda: points_table(points), "stages": lambda: stages_table(points)},
    )


def points_parts(points: Sequence[Point]) -> list[Part]:
    """A row for each point; the leading columns are what the sweep varies."""
    wide = any(is_wide(point.throughput_rps) for point in points)
    text = "a range: the interval is too wide for ±; `forecache explain` says what narrows it"
    return [
        TextTable(_columns(points), legend=busy_legend),
        *([Text(text, "muted", on=TERMINAL)] if wide else []),
    ]


def _columns(points: Sequence[Point]) -> list[Column]:
    """What is swept, then what is predicted: with all intervals where there is room."""
    return [
        *(Column(name, cells, wraps=True) for name, cells in swept_columns(points)),
        *quantity_columns(points, "simulate", on=TERMINAL),
        *quantity_columns(points, "page", on=PAGE),
    ]


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


def quantity_columns(
    points: Sequence[Point], table: Literal["simulate", "recommend", "page"], *, on: On
) -> list[Column]:
    """Columns of what a table of points shows, in the order of their quantities."""
    alike = threads_alike(points)
    columns = []
    for quantity in POINT_QUANTITIES:
        form: Form = getattr(quantity, table)
        absent = quantity.optional and all(quantity.value(point) is None for point in points)
        if form and not absent:
            workers = quantity.of_workers if alike else None
            columns.append(
                Column(
                    (workers[0] if workers else quantity.heading) + _ENDINGS.get(form, ""),
                    [_cell(quantity, point, form) for point in points],
                    # Beside each other in a terminal, intervals are easier to read from the left.
                    numeric=quantity.type != TEXT and (form == "value" or on == PAGE),
                    wraps=form == "short",
                    drop=quantity.yields,
                    on=on,
                )
            )
    return columns


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


def busy_legend(names: Sequence[str]) -> str:
    """Say of which threads the columns that are shown tell how busy they are."""
    meanings = {each.heading: each.meaning for each in POINT_QUANTITIES if each.meaning}
    meanings |= dict(each.of_workers for each in POINT_QUANTITIES if each.of_workers)
    short = [name for name in names if name in meanings]
    if not short:
        return ""
    *others, last = [meanings[name] for name in short]
    listed = f"{', '.join(others)} and {last}" if others else last
    are = "are" if others or last.endswith("s") else "is"
    return f"{', '.join(short)}: how busy the {listed} {are}"


def _uncertainty(points: Sequence[Point]) -> TextTable:
    """A row for each point, a column for each part of its interval."""
    parts = [interval_parts(point.uncertainty) for point in points]
    return TextTable(
        [
            *(Column(name, cells) for name, cells in swept_columns(points)),
            *(
                Column(name, [of_point[place][1] for of_point in parts])
                for place, (name, _, _) in enumerate(parts[0])
            ),
        ]
    )


def _curves(answer: Simulated) -> list[Figure]:
    """Throughput and p99 over the sweep; first what an open loop does not give."""
    points = answer.points
    given = [point.given for point in points]
    quantities = [
        CurveQuantity(
            "throughput_rps", "Throughput", "1/s", [point.throughput_rps for point in points]
        ),
        CurveQuantity("p99_ms", "p99 latency", "ms", [point.p99_ms for point in points]),
    ]
    if answer.scenario.get("workload", {}).get("arrival") == "open_loop":
        quantities.reverse()
    alone = _curve(answer)
    drawn = curve_figures(
        given,
        [each for each in quantities if not alone or each.name != "throughput_rps"],
        aside=[point.bottleneck in _NOT_THE_SERVER for point in points],
    )
    return [*alone, *drawn]


def _curve(answer: Simulated) -> list[Figure]:
    """Throughput by the swept field with what limits, if it is a number and the only one."""
    points = answer.points
    keys = list(dict.fromkeys(key for point in points for key in point.given))
    numbers = all(is_number(point.given.get(key)) for key in keys for point in points)
    if len(keys) != 1 or not numbers:
        return []
    [key] = keys
    name = setting_name(key)
    ordered = sorted(points, key=lambda point: float(point.given[key]))
    listed = ", ".join(f"{rate(p.throughput_rps.value)} at {p.given[key]:g}" for p in ordered)
    return [
        Figure(
            key,
            drawing("scaling", answer, key=key),
            title=f"Throughput by {name}",
            label=f"Predicted throughput by {name}: {listed}.",
            width_px=WIDE_PX,
            on=PAGE if len(points) > 1 else NOTEBOOK,
        )
    ]


def _stages(points: Sequence[Point]) -> list[Figure]:
    swept = swept_columns(points)
    names = [", ".join(f"{name} {cells[i]}" for name, cells in swept) for i in range(len(points))]
    return [stages_figure(point, name) for point, name in zip(points, names, strict=True)]


def stages_figure(point: Point, name: str) -> Figure:
    """CPU time of a request by stage."""
    of = f": {name}" if name else ""
    return Figure(
        "stages",
        drawing("stages", point),
        title=f"Where a request’s CPU time goes{of}",
        caption=f"Each stage of a request, by the thread that runs it; {limit_phrase(point)}.",
        label=f"Processor time of each stage of a request{of}.",
    )


def points_table(points: Sequence[Point], *, more: Sequence[Mapping[str, Any]] = ()) -> TidyTable:
    """A row for each point of a node."""
    return sweep_table("node", points, given=[point.given for point in points], more=more)


def stages_table(points: Sequence[Point]) -> TidyTable:
    """A row for each stage of each point: CPU time of a request."""
    return tidy(
        [
            flat(stage, point=number, **point.given)
            for number, point in enumerate(points)
            for stage in point.stages
        ]
    )


# --- two nodes side by side ----------------------------------------------------------------------


NAMES = {
    "throughput_rps": "requests/s",
    "p50_ms": "p50",
    "p99_ms": "p99",
    SERVER_CPU: "CPU a request",
    "limit_rps": "could serve",
    "used_memory_bytes": "used memory",
    "usd_per_month": "a month",
    "usd_per_million_requests": "a million requests",
}
_LEGEND = (
    "change: of after over before, with the 95% interval of what the two do not share; "
    f"{NO_CLEAR_DIFFERENCE}: it holds 0, or the change is under {LEAST_DIFFERENCE:.0%}"
)
_FIRST = ("throughput_rps", "p99_ms")
_RATES = frozenset({"throughput_rps", "limit_rps"})
_LESS_IS_BETTER = frozenset(NAMES) - _RATES


def _prices(sides: Sequence[tuple[str, Side]]) -> list[str]:
    """Whose prices both nodes have, with their regions and days."""
    notes = list(dict.fromkeys(side.price_note for _, side in sides))
    if not all(notes):
        return []
    told = [f"{name} {side.price_note}" for name, side in sides]
    return [f"Prices: {notes[0] if len(notes) == 1 else '; '.join(told)}."]


def compared(answer: NodeComparison) -> Document:
    """What is compared, then a row for each quantity."""
    sides = (("before", answer.first), ("after", answer.second))
    found = answer.differences
    table = TextTable(
        [
            words("", [NAMES[each.quantity] for each in found]),
            Column("before", [_value(x.quantity, x.first) for x in found], wraps=True, drop=1),
            Column("after", [_value(x.quantity, x.second) for x in found], wraps=True, drop=2),
            Column("change", list(map(change, found))),
            words("", list(map(judged, found)), wraps=True),
        ]
    )
    return Document(
        about="",
        title="What one scenario gains over another",
        headline="Change: " + "; ".join(_in_words(x) for x in found if x.quantity in _FIRST),
        byline=["comparison"],
        warnings=list(
            dict.fromkeys(text for _, side in sides for text in point_warnings([side.point]))
        ),
        sections=[
            Section(
                "What changes",
                [
                    Facts([(name, side_phrase(side)) for name, side in sides]),
                    table,
                    Text(_LEGEND, "muted"),
                    *(Text(each, "muted") for each in _prices(sides)),
                ],
                title_on=PAGE,
            ),
            *(Section("", [stages_figure(side.point, name)], on=PAGE) for name, side in sides),
        ],
        tables={
            "differences": lambda: flat_table(found),
            "points": lambda: points_table(
                [side.point for _, side in sides], more=[{"side": side.name} for _, side in sides]
            ),
        },
    )


def _in_words(difference: PairedQuantity) -> str:
    """`requests/s +38% (+31% to +45%)`, or `p99: no clear difference`."""
    name = NAMES[difference.quantity]
    if difference.verdict == NO_CLEAR_DIFFERENCE:
        return f"{name}: {NO_CLEAR_DIFFERENCE}"
    return f"{name} {change(difference)}"


def side(answer: Side) -> Document:
    """One of two nodes."""
    return Document(
        about=side_phrase(answer),
        headline=f"{rate_with_bounds(answer.point.throughput_rps)}; {limit_phrase(answer.point)}",
        sections=[Section("", points_parts([answer.point]))],
        tables={
            "points": lambda: points_table([answer.point]),
            "stages": lambda: stages_table([answer.point]),
        },
    )


def side_phrase(side: Side) -> str:
    """`compare.yaml: redis-6.2 on c7g.4xlarge (…), io-threads 4; limited by …`."""
    threads = side.point.given.get("io_threads", side.scenario.get("io_threads", 1))
    about = f"{side.engine.id} on {side.host.title}, io-threads {threads}"
    verdict = "" if side.point.holds else f"; {side.point.verdict.lower()}"
    return f"{side.name}: {about}; {limit_phrase(side.point)}{verdict}"


def change(difference: PairedQuantity) -> str:
    """`+38% (+31% to +45%)`; of no clear difference the interval alone, or `under 1%`."""
    ratio = difference.ratio
    if ratio is None or not is_number(ratio.value):
        return UNKNOWN
    clear = difference.verdict != NO_CLEAR_DIFFERENCE
    value = percent(ratio.value - 1.0, signed=True)
    if ratio.low == ratio.high:
        return value if clear or ratio.value == 1.0 else f"under {LEAST_DIFFERENCE:.0%}"
    low, high = (percent(end - 1.0, signed=True) for end in (ratio.low, ratio.high))
    return f"{value} ({low} to {high})" if clear else f"{low} to {high}"


def judged(difference: PairedQuantity) -> str:
    """`better`, `worse` or `no clear difference`; empty where there is nothing to compare."""
    if difference.verdict not in ("higher", "lower"):
        return difference.verdict or ""
    wanted = "lower" if difference.quantity in _LESS_IS_BETTER else "higher"
    return "better" if difference.verdict == wanted else "worse"


def _value(quantity: str, estimate: Estimate | None) -> str:
    if estimate is None:
        return UNKNOWN
    if quantity in _RATES:
        return rate_with_bounds(estimate)
    if quantity.endswith("_ms"):
        return time_with_bounds(estimate)
    if quantity == SERVER_CPU:
        return milliseconds(estimate.value / _US_PER_MS)
    return byte_size(estimate.value) if quantity.endswith("_bytes") else dollars(estimate.value)


# --- every latency, and sweeps in files -----------------------------------------------------------


_SHARES = (0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)


def latency(result: LatencyDistribution) -> Document:
    """Quantiles of the latencies of a point, those that are known."""
    known = [share for share in _SHARES if result.count * (1.0 - share) >= 10.0]
    quantiles = [
        *((f"p{share * 100:.10g}", milliseconds(result.quantile(share))) for share in known),
        ("longest", milliseconds(result.max_ms)),
    ]

    def buckets() -> TidyTable:
        latency_ms, share = result.cdf()
        counts = result.counts.sum(axis=0).tolist()
        return tidy(
            [
                {"latency_ms": at_ms, "requests": n, "cdf": below, "ccdf": above}
                for at_ms, n, below, above in zip(
                    latency_ms.tolist(), counts, share.tolist(), result.ccdf()[1].tolist(),
                    strict=True,
                )
            ]
        )  # fmt: skip

    return Document(
        about=f"{result.replications} replications at the nominal numbers",
        headline=f"{count(result.count)} requests, {milliseconds(result.mean_ms)} on average",
        sections=[
            Section("", [TextTable([Column(name, [text]) for name, text in quantiles])]),
            Section("", [Figure("ccdf", drawing("latency_ccdf", result))], on=PAGE),
        ],
        tables={"buckets": buckets},
    )


def swept(result: SweptPoints) -> Document:
    """How many points of a large sweep lie where."""
    return Document(
        about=f"a sweep of kind {result.kind}: {result.files} Parquet files",
        headline=f"{result.points:,} points in {result.folder}",
        sections=[
            Section(
                "",
                [
                    Text(
                        f"{result.found:,} were there before, {result.answered:,} were answered now"
                    )
                ],
            )
        ],
    )
