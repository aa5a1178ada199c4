"""What `explain` says: where the time of a request goes, what limits, what to measure next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from forecache.models.advice.next_measurement import MeasureNext
from forecache.models.advice.node_answers import (
    Explained,
    ExplainedPoint,
    NumberOrigin,
    Recommended,
    Shown,
    StudyTarget,
)
from forecache.models.advice.sensitivity import InputIndex, Sensitivity
from forecache.models.breakdown.latency import LatencyBreakdown
from forecache.models.breakdown.timeline import TimelineFile

from ..document import (
    PAGE,
    TERMINAL,
    Code,
    Column,
    Document,
    Figure,
    Part,
    Section,
    Text,
    TextTable,
    words,
)
from ..text.formats import byte_size, count, margin, milliseconds, plain, sentence
from ..text.points import (
    chosen_point,
    input_name,
    interval_parts,
    known_phrase,
    limit_name,
    narrowing,
    point_warnings,
    sensitivity_groups,
    sensitivity_notes,
    sensitivity_title,
    share_with_bounds,
    spread_phrase,
    subtitle_phrase,
)
from ..text.settings import setting_text
from ..tidy import TidyTable, flat, flat_table, tidy
from . import drawing
from .node import points_table, stages_figure, stages_table

if TYPE_CHECKING:
    from forecache.calibration.fit.report import FittedNumber

_WAITS_MUCH = 0.5
"""Share of a latency from which on a sentence says where requests wait."""

_MOST_WAITS = 3

_THREADS = {"main": "main thread", "I/O": "I/O threads", "worker": "worker threads"}

_LEAST_US = 0.0005
"""Shorter ones would be written as 0.000."""


def explained(answer: Explained) -> Document:
    """CPU time of a request's stages, and its latency station by station.

    Of a sweep every point gets a line, and one the tables: the recommended one if there is.
    """
    points, place = answer.points, answer.shown.point
    alone = {"io_threads": answer.scenario.get("io_threads", 1)}
    settings = [setting_text(each.given or alone) for each in points]
    point, setting = points[place], settings[place]
    total_us = sum(stage.us_per_request for stage in point.stages)
    at = setting_text(point.given)
    marks = answer.shown.recommended
    lines = [
        f"{'▶' if marks and i == place else ' '} {settings[i]}: {_in_short(each)}"
        for i, each in enumerate(points)
    ]
    sections = []
    if len(points) > 1:
        sections.append(
            Section(
                "Where a request’s time goes",
                [
                    TextTable([words("", lines, wraps=True)], marked=place if marks else None),
                    Text(
                        f"{_which(answer.shown, settings)}; for another, name only that one in the "
                        "scenario.",
                        "muted",
                    ),
                ],
                title_on=PAGE,
            )
        )
    sections.append(
        Section(f"{setting}: CPU time", [stages_figure(point, setting), _stages(point)])
    )
    latency = point.latency_breakdown
    if latency:
        title = f"{setting}: latency by station, from {count(latency.requests)} traced requests"
        sections.append(Section(title, [_stations(latency)]))
    sections += [
        Section("What limits", [Text(x) for x in _limits(point)], title_on=PAGE),
        Section("", _ends(answer.timeline), on=TERMINAL),
    ]
    sensitivity = answer.sensitivity
    if sensitivity is not None:
        sections.append(_moved(sensitivity))
        if sensitivity.measure_next.quantity != answer.measure_next.quantity:
            sections.append(measurements_section(sensitivity.measure_next))
    sections += [
        measurements_section(answer.measure_next),
        Section("Every number behind it, and where it comes from", [_numbers(answer)], on=PAGE),
    ]
    return Document(
        about=subtitle_phrase(answer, points),
        headline=f"A request takes {total_us:.3g} µs of CPU time" + (f" at {at}" if at else ""),
        byline=["explanation"],
        warnings=point_warnings(points),
        sections=sections,
        more='.to_frame("stages")',
        tables={
            "points": lambda: points_table(points),
            "stages": lambda: stages_table(points),
            "latency_breakdown": lambda: _latency_table(points),
            "numbers": lambda: flat_table(answer.numbers),
            **({} if sensitivity is None else {"sensitivity": lambda: _indices_table(sensitivity)}),
        },
    )


def _which(shown: Shown, settings: Sequence[str]) -> str:
    """Which of several points is described in detail."""
    which = "Of these, the first"
    if shown.recommended:
        which = "Of these, the recommended one, ▶"
    elif shown.closest:
        which = f"None meets the objective; {settings[shown.point]} comes closest and follows"
    return f"{which}, in detail"


def _in_short(point: ExplainedPoint) -> str:
    """What a request takes at a point, in a line."""
    spent = point.server_cpu_us_per_request
    parts = ["no request" if spent is None else f"{spent.value:.2f} µs of CPU time"]
    if point.latency_breakdown:
        parts.append(f"latency {point.latency_breakdown.mean_us:.0f} µs")
    return ", ".join([*parts, f"limited by {limit_name(point)}"])


def _stages(point: ExplainedPoint) -> TextTable:
    """CPU time of each step of a request, the sum and spinning last."""
    spent, spinning_us = point.server_cpu_us_per_request, point.spinning_cpu_us_per_request or 0.0
    total_us = 0.0 if spent is None else spent.value
    rows = [
        (row.stage, row.thread, f"{row.us_per_request:.3f}", _share(row.us_per_request, total_us))
        for row in point.stages
        if row.us_per_request >= _LEAST_US
    ]
    rows.append(("all", "", f"{total_us:.3f}", ""))
    if spinning_us >= _LEAST_US:
        rows.append(("spinning, on top", "", f"{spinning_us:.3f}", ""))
    stage, thread, us, share = zip(*rows, strict=True)
    return TextTable(
        [
            words("stage", stage),
            words("thread", thread),
            Column("µs per request", us),
            Column("share", share),
        ]
    )


def _stations(breakdown: LatencyBreakdown) -> TextTable:
    """A request's latency in the order in which it passes the stations, the sums last."""
    rows: list[tuple[str, ...]] = []
    waited_us = served_us = 0.0
    for row in breakdown.stations:
        waited, served = (f"{row.us:.2f}", "") if row.waits else ("", f"{row.us:.2f}")
        waited_us += row.us if row.waits else 0.0
        served_us += 0.0 if row.waits else row.us
        share = _share(row.us, breakdown.mean_us)
        rows.append((row.station, row.thread, waited, served, share))
    rows.append((f"all: {breakdown.mean_us:.2f}", "", f"{waited_us:.2f}", f"{served_us:.2f}", ""))
    station, thread, waiting, being_served, shares = zip(*rows, strict=True)
    return TextTable(
        [
            words("station", station),
            words("thread", thread),
            Column("µs waiting", waiting),
            Column("µs served", being_served),
            Column("share", shares),
        ]
    )


def _limits(point: ExplainedPoint) -> list[str]:
    """What limits a point, and how far what threads share is used, the most used first."""
    found = [f"Limited by: {limit_name(point)}", *_waits(point)]
    used = sorted(point.network_limits.items(), key=lambda item: -item[1])
    bandwidth = (
        "" if point.network_gbit_per_s is None else f" of {point.network_gbit_per_s:g} Gbit/s"
    )
    of = {"bandwidth": bandwidth}
    shares = [f"{name} {share:.0%}{of.get(name, '')}" for name, share in used if share > 0.0]
    if shares:
        found.append(f"Network: {', '.join(shares)}")
    if point.interrupt_utilisation:
        found.append(f"Interrupt cores: {point.interrupt_utilisation:.0%}")
    if point.quota_utilisation:
        found.append(
            f"CPU quota: {point.quota_utilisation:.0%}, with threads stopped in "
            f"{point.throttled_periods:.0%} of its periods"
        )
    memory = point.memory_bandwidth
    found.append(
        f"Memory: {memory.utilisation:.0%} of its bandwidth ({memory.gb_per_s:.2g} GB/s), "
        f"which makes it {memory.latency_factor - 1:.1%} slower than idle"
    )
    return found


def _waits(point: ExplainedPoint) -> list[str]:
    """Where a request waits most, and for which threads; nothing where it hardly waits."""
    if point.latency_breakdown is None:
        return []
    waits = sorted(
        (row for row in point.latency_breakdown.stations if row.waits), key=lambda row: -row.us
    )
    waited_us, whole_us = sum(row.us for row in waits), point.latency_breakdown.mean_us
    if not waited_us > _WAITS_MUCH * whole_us:
        return []
    most = "; ".join(
        f"{milliseconds(row.us / 1000)} {row.station.removeprefix('wait ')}, for the "
        f"{_THREADS.get(row.thread, row.thread)}"
        for row in waits[:_MOST_WAITS]
    )
    return [
        f"A request waits for {milliseconds(waited_us / 1000)} of the "
        f"{milliseconds(whole_us / 1000)} that it takes: {most}"
    ]


def _share(part_us: float, whole_us: float) -> str:
    return f"{part_us / whole_us if whole_us else 0.0:.0%}"


def _ends(timeline: TimelineFile | None) -> list[Part]:
    """Where the timeline is, and where every number is."""
    texts = []
    if timeline:
        given = setting_text(timeline.given)
        texts.append(
            f"Timeline{f' at {given}' if given else ''}: {timeline.window_ms:g} ms, "
            f"{timeline.requests} requests; open {timeline.file} in ui.perfetto.dev"
        )
    texts.append("`--json` also lists every number behind this, with its range and origin.")
    return [Text(text) for text in texts]


def _numbers(answer: Explained) -> TextTable:
    """Every number of host, engine and load generator with range and origin."""
    notes = [", ".join(text for text in (x.source, x.method) if text) for x in answer.numbers]
    return parameters_table(answer.numbers, notes)


_UNITS = {"us": "µs", "1/us": "1/µs", "gbit_per_s": "Gbit/s", "gb_per_s": "GB/s"}


def parameters_table(
    numbers: Sequence[NumberOrigin | FittedNumber], notes: Sequence[str] = ()
) -> TextTable:
    """Numbers with their ranges, kinds and notes."""
    values, units, ranges = [], [], []
    for row in numbers:
        is_size = row.unit.lower() in ("bytes", "b", "byte")
        show = byte_size if is_size else plain
        values.append(show(row.value))
        units.append("" if is_size or row.unit in ("1", "none") else _UNITS.get(row.unit, row.unit))
        known = row.low is not None and row.high is not None
        ranges.append(f"{show(row.low)} – {show(row.high)}" if known else "")
    columns = [
        words("parameter", [row.name for row in numbers], style="name"),
        Column("value", values),
        words("unit", units),
        Column("range", ranges),
        words("kind", [row.kind for row in numbers], style="kind"),
    ]
    if any(notes):
        columns.append(words("note", notes, wraps=True))
    return TextTable(columns)


def measurements_section(measure_next: MeasureNext) -> Section:
    """What to measure next, and what each measurement would bring."""
    gains = narrowing(measure_next)
    parts: list[Part] = [Text(sentence(known_phrase(measure_next)))]
    if gains:
        parts.append(
            TextTable(
                [
                    words("measurement", [x.what for x in gains], wraps=True),
                    Column("the interval becomes", [margin(x.margin) for x in gains]),
                    words("command", [_code(x.commands) for x in gains]),
                ],
                stacked=True,
                on=PAGE,
            )
        )
    for gain in gains:
        title = f"{gain.what}: {margin(gain.margin)}"
        code = Code("\n".join(gain.commands), shell=True)
        parts.append(
            Section(title, [code], on=TERMINAL) if gain.commands else Text(title, on=TERMINAL)
        )
    return Section("To tighten this estimate", parts)


def _code(commands: Sequence[str]) -> str:
    return f"`{' && '.join(commands)}`" if commands else ""


def _latency_table(points: Sequence[ExplainedPoint]) -> TidyTable:
    return tidy(
        [
            flat(station, point=number, **point.given)
            for number, point in enumerate(points)
            if point.latency_breakdown is not None
            for station in point.latency_breakdown.stations
        ]
    )


# --- which inputs move the answer ----------------------------------------------------------------


_CELLS = 20
_BAR_LEGEND = "━ up to the lower end of the interval, ─ up to the upper one"


def _moved(found: Sensitivity) -> Section:
    """Indices of uncertain numbers and, apart, of what the user can choose."""
    title = sensitivity_title(found)
    parts: list[Part] = [
        Figure(
            "sensitivity",
            drawing("sensitivity", found),
            title="Total-order Sobol indices",
            caption="With 95% intervals; uncertain numbers and what can be chosen, apart.",
            label=f"{title}: the share of the variance behind each input.",
        )
    ]
    for name, indices in sensitivity_groups(found):
        rows = indices.indices
        highest = max((row.total.high for row in rows), default=0.0)
        parts += [
            Text(sentence(spread_phrase(name, indices))),
            TextTable(
                [
                    words("input", list(map(input_name, rows)), wraps=True, style="name"),
                    words("share", list(map(share_with_bounds, rows))),
                    words(
                        "", [_bar(row, highest) for row in rows], drop=1, style="bar", on=TERMINAL
                    ),
                ]
            ),
        ]
    parts.append(Text(_BAR_LEGEND, "muted", on=TERMINAL))
    return Section(title, [*parts, *(Text(note, "muted") for note in sensitivity_notes(found))])


def _bar(index: InputIndex, highest: float) -> str:
    if highest <= 0:
        return ""
    low, high = (
        round(_CELLS * min(1.0, end / highest)) for end in (index.total.low, index.total.high)
    )
    return "━" * low + "─" * (high - low)


def _indices_table(found: Sensitivity) -> TidyTable:
    """A row for each input: total-order indices, shares of the variance of `quantity`."""
    sets = [("uncertain", found.uncertain)]
    if found.choices is not None:
        sets.append(("choice", found.choices))
    return tidy(
        [
            flat(index, quantity=found.quantity, set=name, basis=each.basis)
            for name, each in sets
            for index in each.indices
        ]
    )


_ABOUT_PARTS = (
    "Throughput’s 95% interval consists of four parts. Their squares add up to the square of the "
    "whole, on a logarithmic scale."
)


def intervals_section(targets: Sequence[tuple[str, Recommended]]) -> Section:
    """By target, what intervals consist of, what would narrow them, and what moves the answer."""
    parts: list[Part] = [Text(_ABOUT_PARTS)]
    for name, target in targets:
        of_interval = interval_parts(chosen_point(target).uncertainty)
        names, widths, meanings = zip(*of_interval, strict=True)
        table = TextTable(
            [
                words("part of the 95% interval", names),
                Column("half width", widths),
                words("what it is", meanings, wraps=True),
            ]
        )
        moved = target.sensitivity if isinstance(target, StudyTarget) else None
        parts += [
            Section(f"{name}, {setting_text(target.recommendation.chosen)}", [table]),
            *([] if moved is None else [_moved(moved)]),
            measurements_section(target.recommendation.measure_next),
        ]
    title = "Sensitivity: what the intervals consist of"
    return Section(title, parts, anchor="sensitivity", on=PAGE)
