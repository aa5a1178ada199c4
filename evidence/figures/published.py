"""Published measurements and what was predicted of them: a curve per series, or a row per point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from forecache.calibration.validate.comparison import ComparedPoint, curves_of, label, varying
from forecache.reports.figures.canvas import (
    INK,
    MAIN,
    MUTED,
    PAPER,
    WIDE_PX,
    add_axes,
    fixed_ticks,
    header,
    horizontal_grid,
    house_style,
    new_figure,
    round_ticks,
    text_width_px,
    thinned,
)
from forecache.reports.text.formats import Unit, rate_unit, time_unit

from ..accuracy.published_page import points_of

_QUANTITIES = {
    "throughput_rps": "Requests a second",
    "p50_ms": "Median latency",
    "p99_ms": "99th percentile of latency",
}
_SHORT = {
    "throughput_rps": "Requests a second",
    "p50_ms": "p50 latency",
    "p99_ms": "p99 latency",
}
"""For panels beside each other."""
_PANEL_PX = 172.0
_ROW_PX = 22.0
_TOP_PX, _BOTTOM_PX, _LEFT_PX, _GAP_PX = 58.0, 40.0, 44.0, 40.0
_ROWS_BOTTOM_PX = 26.0
_BETWEEN_PX = 70.0
"""From the axis of one row of panels to the top of the next: tick labels, title, series."""
_MOST_COLUMNS = 3
_DOT: dict[str, Any] = {"marker": "o", "markersize": 6, "markeredgecolor": INK, "color": INK}
_BAND_ALPHA = 0.16
_KEY = "dots measured, hollow where throughput was fitted;"


def published(result: Mapping[str, Any], *, width_px: float = WIDE_PX) -> Figure:
    """Draw a validated dataset: measured, predicted, 95% interval.

    Parameters
    ----------
    result
        What `validate` returned, as its artefact has it.

    Returns
    -------
    Figure
        Panels of throughput and latency against io-threads, one column a series, where there are
        curves; else a row per point.
    """
    points = points_of(result)
    curves = curves_of(points)
    if 0 < len(curves) <= _MOST_COLUMNS and sum(map(len, curves.values())) == len(points):
        return _curves(curves, width_px)
    return _rows(points, width_px)


# --- curves -------------------------------------------------------------------------------------


def _curves(curves: Mapping[str, Sequence[ComparedPoint]], width_px: float) -> Figure:
    quantities = [
        name
        for name in _QUANTITIES
        if all(name in point.observed for own in curves.values() for point in own)
    ]
    height_px = _TOP_PX + _BOTTOM_PX - _BETWEEN_PX + len(quantities) * (_PANEL_PX + _BETWEEN_PX)
    columns = len(curves)
    panel_px = (width_px - _LEFT_PX - 14 - (columns - 1) * _GAP_PX) / columns
    with house_style():
        figure = Figure(figsize=(width_px / 72, height_px / 72), dpi=72)
        for row, quantity in enumerate(quantities):
            top = _TOP_PX + row * (_PANEL_PX + _BETWEEN_PX)
            unit = _unit(quantity, [p for own in curves.values() for p in own])
            highest = max(
                max(p.observed[quantity], p.predicted[quantity].high)
                for own in curves.values()
                for p in own
            )
            for column, (name, own) in enumerate(curves.items()):
                left = _LEFT_PX + column * (panel_px + _GAP_PX)
                axes = add_axes(
                    figure,
                    left=left,
                    right=width_px - left - panel_px,
                    top=top,
                    bottom=height_px - top - _PANEL_PX,
                )
                _curve_panel(axes, own, quantity, unit, highest, panel_px)
                if quantity == quantities[-1]:
                    axes.set_xlabel("io-threads, the main thread included", labelpad=2)
                if columns > 1:
                    axes.annotate(
                        name, (0, 1.03), xycoords="axes fraction", color=INK, fontweight="bold"
                    )
            _title(
                figure,
                f"{_QUANTITIES[quantity]},{unit.symbol}",
                f"{_KEY} line and band predicted, 95%" if row == 0 else "",
                height_px - top + (_TOP_PX if row == 0 else _BETWEEN_PX - 26),
            )
    return figure


def _curve_panel(
    axes: Axes,
    points: Sequence[ComparedPoint],
    quantity: str,
    unit: Unit,
    highest: float,
    panel_px: float,
) -> None:
    threads = [float(point.given["io_threads"]) for point in points]
    predicted = [point.predicted[quantity] for point in points]
    value = [each.value / unit.divisor for each in predicted]
    low = [each.low / unit.divisor for each in predicted]
    high = [each.high / unit.divisor for each in predicted]
    ticks = round_ticks(highest / unit.divisor, about=5)
    axes.set_ylim(0, ticks[-1])
    axes.set_xlim(threads[0] - 0.5, threads[-1] + 0.5)
    horizontal_grid(axes)
    fixed_ticks(axes, "y", ticks, lambda tick: f"{tick:g}")
    fixed_ticks(axes, "x", thinned(threads, panel_px - 20), lambda tick: f"{tick:g}")
    axes.fill_between(threads, low, high, color=MAIN, alpha=_BAND_ALPHA, linewidth=0, zorder=1)
    axes.plot(threads, value, color=MAIN, linewidth=1.8, zorder=2)
    for x, point in zip(threads, points, strict=True):
        _dot(axes, x, point.observed[quantity] / unit.divisor, point)


def _dot(axes: Axes, x: float, y: float, point: ComparedPoint) -> None:
    """A measured value; hollow where the point was fitted."""
    face = PAPER if point.role == "calibration" else INK
    axes.plot([x], [y], **_DOT, markerfacecolor=face, zorder=3, clip_on=False)


# --- rows ---------------------------------------------------------------------------------------


def _rows(points: Sequence[ComparedPoint], width_px: float) -> Figure:
    names = varying([point.given for point in points]) or None
    labels = [label(point.given, names) for point in points]
    quantities = [name for name in _QUANTITIES if any(name in point.observed for point in points)]
    left_px = min(0.54 * width_px, 16 + max(text_width_px(text) for text in labels))
    gap_px = 40.0
    panel_px = (width_px - left_px - 14 - (len(quantities) - 1) * gap_px) / len(quantities)
    height_px = _TOP_PX + len(points) * _ROW_PX + _ROWS_BOTTOM_PX
    with house_style():
        figure = new_figure(width_px, height_px, left=0, right=0, top=0, bottom=0)[0]
        figure.clear()
        for column, quantity in enumerate(quantities):
            left = left_px + column * (panel_px + gap_px)
            axes = add_axes(
                figure,
                left=left,
                right=width_px - left - panel_px,
                top=_TOP_PX,
                bottom=_ROWS_BOTTOM_PX,
            )
            unit = _unit(quantity, points)
            _row_panel(axes, points, quantity, unit)
            axes.set_yticks(range(len(points)), labels if column == 0 else [""] * len(points))
            axes.annotate(
                f"{_SHORT[quantity]},{unit.symbol}",
                (0, 1),
                xytext=(0, 8),
                xycoords="axes fraction",
                textcoords="offset points",
                color=INK,
            )
        header(figure, f"{_KEY} bars predicted, 95%", color=MUTED)
    return figure


def _row_panel(axes: Axes, points: Sequence[ComparedPoint], quantity: str, unit: Unit) -> None:
    having = [(y, point) for y, point in enumerate(points) if quantity in point.observed]
    highest = max(
        max(point.observed[quantity], point.predicted[quantity].high) for _, point in having
    )
    ticks = round_ticks(highest / unit.divisor, about=4)
    axes.set_xlim(0, ticks[-1])
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.grid(axis="x", color="#d9dfe6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    fixed_ticks(axes, "x", ticks, lambda tick: f"{tick:g}")
    for y, point in having:
        found = point.predicted[quantity]
        low, value, high = (end / unit.divisor for end in (found.low, found.value, found.high))
        # Matplotlib's own caps would project beyond the interval.
        axes.plot(
            [low, high],
            [y, y],
            color=MAIN,
            linewidth=5,
            alpha=2 * _BAND_ALPHA,
            zorder=1,
            solid_capstyle="butt",
        )
        axes.plot([value], [y], marker="|", markersize=13, color=MAIN, markeredgewidth=2.2)
        _dot(axes, point.observed[quantity] / unit.divisor, y, point)


def _unit(quantity: str, points: Sequence[ComparedPoint]) -> Unit:
    largest = max(p.observed[quantity] for p in points if quantity in p.observed)
    return rate_unit(largest) if quantity.endswith("_rps") else time_unit(largest)


def _title(figure: Figure, text: str, note: str, from_bottom_px: float) -> None:
    """What a row of panels shows, and a muted note below it."""
    height_px = figure.get_figheight() * 72
    width_px = figure.get_figwidth() * 72
    for line, below_px, colour in ((text, 13.0, INK), (note, 29.0, MUTED)):
        if line:
            figure.text(
                2 / width_px,
                (from_bottom_px - below_px) / height_px,
                line,
                color=colour,
                va="baseline",
            )
