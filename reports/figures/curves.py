"""A quantity over a sweep: lines by one field, panels by another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..text.curves import CurvePoint, Curves
from ..text.formats import is_number
from ..text.settings import setting_name, value_text
from .canvas import (
    ACCENT,
    GENERATOR,
    INK,
    IO,
    MAIN,
    NETWORK,
    PAPER,
    RULE,
    TEXT_PX,
    WIDE_PX,
    add_axes,
    fixed_ticks,
    header,
    horizontal_grid,
    house_style,
    label_ends,
    new_figure,
    round_ticks,
    shortened,
    text_width_px,
    thinned,
    value_axis,
)

_COLOURS = (MAIN, ACCENT, IO, NETWORK, INK, GENERATOR)
_MARKERS = ("o", "s", "^", "D", "v", "P")
_TOP_PX, _BOTTOM_PX, _LINE_PX = 44.0, 42.0, 17.0
_MOST_LABEL_PX, _MOST_ROW_PX = 130.0, 170.0
"""Longer names of lines and of rows end in …"""
_LEAST_PANEL_PX = 310.0
_LINEAR = 50.0
"""All but times begin at zero, unless values span more than this factor."""
_UNEVEN = 10.0
"""Steps along the axis that differ by more than this factor are readable on a logarithmic one."""


def curves(drawn: Curves, *, width_px: float = WIDE_PX) -> Figure:
    """Draw a sweep as curves with bands; where no field is a number, as dots with bars.

    All panels have the same axes. Markers are hollow where something else than the server limits.
    """
    with house_style():
        return _lines(drawn, width_px) if drawn.numeric else _dots(drawn, width_px)


def _laid_out(
    drawn: Curves, width_px: float, *, columns: int, left_px: float, plot_px: float
) -> tuple[Figure, list[tuple[Axes, float]]]:
    """A figure with axes for every panel, and how wide each of them is in pixels."""
    count = len(drawn.by_panel)
    right_px = max((_label_px(name) + 10 for name in drawn.names if name), default=14.0)
    title_px = 24.0 if drawn.panels else 0.0
    row_px, column_px = title_px + plot_px + _BOTTOM_PX, width_px / columns
    height_px = _TOP_PX + math.ceil(count / columns) * row_px
    made: list[tuple[Axes, float]] = []
    for place, name in enumerate(drawn.by_panel):
        row, column = divmod(place, columns)
        top_px = _TOP_PX + row * row_px + title_px
        margins = {
            "left": column * column_px + left_px,
            "right": width_px - (column + 1) * column_px + right_px,
            "top": top_px,
            "bottom": height_px - top_px - plot_px,
        }
        if not made:
            figure, axes = new_figure(width_px, height_px, **margins)
        else:
            axes = add_axes(figure, **margins)
        span_px = column_px - left_px - right_px
        made.append((axes, span_px))
        if drawn.panels:
            title = shortened(name, column_px - left_px)
            axes.set_title(title, loc="left", fontsize=TEXT_PX, weight="bold", color=INK)
    return figure, made


def _label_px(name: str) -> float:
    return min(_MOST_LABEL_PX, text_width_px(name))


def _say(figure: Figure, drawn: Curves, *, interval: str, scale: str = "") -> None:
    """Write what is drawn above the panels."""
    every = [curve for lines in drawn.by_panel.values() for curve in lines.values()]
    notes = [
        f"lines: {setting_name(drawn.lines)}" if drawn.lines and drawn.numeric else "",
        f"{interval}: 95%" if any(each.high > each.low for each in drawn.values) else "",
        "hollow: limited elsewhere" if any(x.aside for curve in every for x in curve) else "",
    ]
    title = f"{drawn.title}, {drawn.unit.symbol.strip()}{scale}"
    header(figure, title, " · ".join(note for note in notes if note))


def _marks(axes: Axes, curve: Sequence[CurvePoint], xs: Sequence[float], ys: Sequence[float],
           place: int) -> None:  # fmt: skip
    """Draw the marker of each value of a line."""
    colour = _COLOURS[place]
    for each, x, y in zip(curve, xs, ys, strict=True):
        axes.plot(
            [x], [y], _MARKERS[place], color=colour, markersize=5.5, zorder=4, clip_on=False,
            markerfacecolor=PAPER if each.aside else colour,
            markeredgecolor=colour if each.aside else PAPER,
        )  # fmt: skip


# --- over numbers ---------------------------------------------------------------------------------


def _lines(drawn: Curves, width_px: float) -> Figure:
    count = len(drawn.by_panel)
    columns = max(1, min(count, int(width_px / _LEAST_PANEL_PX)))
    plot_px, divisor = 190.0 if count > 1 else 240.0, drawn.unit.divisor
    figure, made = _laid_out(drawn, width_px, columns=columns, left_px=46, plot_px=plot_px)
    ends = [end for each in drawn.values for end in (each.low, each.value, each.high)]
    positive = [end / divisor for end in ends if is_number(end) and end > 0] or [1.0]
    low, high = min(positive), max(positive)
    if not drawn.is_time and high < _LINEAR * low:
        low = high
    for (axes, span_px), lines in zip(made, drawn.by_panel.values(), strict=True):
        _along(axes, drawn, span_px)
        value_axis(axes, low, high)
        horizontal_grid(axes)
        bottom, top = axes.get_ylim()
        labels = []
        for name, curve in lines.items():
            place = drawn.names.index(name)
            colour, xs = _COLOURS[place], [each.x for each in curve]
            values = [each.estimate.value / divisor for each in curve]
            lows = [max(each.estimate.low / divisor, bottom) for each in curve]
            highs = [min(each.estimate.high / divisor, top) for each in curve]
            if len(xs) > 1:
                axes.fill_between(xs, lows, highs, color=colour, alpha=0.07, linewidth=0)
                for ends_ in (lows, highs):
                    axes.plot(xs, ends_, color=colour, alpha=0.45, linewidth=0.6)
            else:
                axes.vlines(xs, lows, highs, color=colour, alpha=0.35, linewidth=5)
            axes.plot(xs, values, color=colour, linewidth=1.6, zorder=3, clip_on=False)
            _marks(axes, curve, xs, values, place)
            labels.append((shortened(name, _label_px(name)), values[-1], colour))
        if drawn.lines:
            label_ends(axes, labels, plot_px)
    logarithmic = made[0][0].get_yscale() == "log"
    _say(figure, drawn, interval="band", scale=", log scale" if logarithmic else "")
    return figure


def _along(axes: Axes, drawn: Curves, span_px: float) -> None:
    """Scale the horizontal axis: as logarithms where the steps between values are very uneven."""
    xs = [float(x) for x in drawn.xs]
    steps = [after - before for before, after in pairwise(xs)]
    gap_px = max(22.0, *(text_width_px(value_text(x)) + 6 for x in xs))
    if xs[0] > 0 and max(steps) > _UNEVEN * min(steps):
        pad = (xs[-1] / xs[0]) ** 0.04
        axes.set_xscale("log")
        axes.set_xlim(xs[0] / pad, xs[-1] * pad)
        kept = thinned([math.log(x) for x in xs], span_px, gap_px=gap_px)
        ticks = [x for x in xs if math.log(x) in kept]
    else:
        pad = 0.04 * (xs[-1] - xs[0])
        axes.set_xlim(xs[0] - pad, xs[-1] + pad)
        ticks = thinned(xs, span_px, gap_px=gap_px)
    fixed_ticks(axes, "x", ticks, value_text)
    axes.set_xlabel(setting_name(drawn.axis), labelpad=2)


# --- over words -----------------------------------------------------------------------------------


def _dots(drawn: Curves, width_px: float) -> Figure:
    """A row for each value of the axis, in it a dot with a bar for each line."""
    names, divisor = drawn.names, drawn.unit.divisor
    texts = [shortened(value_text(x), _MOST_ROW_PX) for x in drawn.xs]
    row = len(names) + 0.7
    figure, made = _laid_out(
        drawn, width_px, columns=1, left_px=max(map(text_width_px, texts)) + 12,
        plot_px=_LINE_PX * row * len(texts),
    )  # fmt: skip
    finite = [x for each in drawn.values for x in (each.value, each.high) if is_number(x)]
    highest = max(finite) / divisor or 1.0
    ticks = [tick for tick in round_ticks(highest, about=4) if tick <= 1.04 * highest]
    middles = [row * (place + 0.5) for place in range(len(texts))]
    for (axes, _), lines in zip(made, drawn.by_panel.values(), strict=True):
        axes.set_xlim(0, 1.04 * highest)
        axes.set_ylim(row * len(texts), 0)
        fixed_ticks(axes, "x", ticks, lambda value: f"{value:g}")
        fixed_ticks(axes, "y", middles, lambda value: texts[int(value / row)])
        axes.grid(axis="x", color=RULE, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines["left"].set_visible(False)
        for name, curve in lines.items():
            place = names.index(name)
            ys = [row * drawn.xs.index(each.x) + place + 0.85 for each in curve]
            lows = [each.estimate.low / divisor for each in curve]
            highs = [min(each.estimate.high / divisor, 1.04 * highest) for each in curve]
            values = [each.estimate.value / divisor for each in curve]
            axes.hlines(ys, lows, highs, color=_COLOURS[place], alpha=0.35, linewidth=5)
            _marks(axes, curve, values, ys, place)
            for y, high in zip(ys, highs, strict=True):
                axes.annotate(
                    shortened(name, _label_px(name)), (high, y), xytext=(6, 0),
                    textcoords="offset points", va="center", color=_COLOURS[place],
                )  # fmt: skip
    _say(figure, drawn, interval="bar")
    return figure
