"""The page's figures: curves of one scenario or two, partly estimated and partly simulated.

An estimate is hollow and dashed and has no interval, a simulated point is filled, on a solid line,
with the band of its 95% interval. The two scenarios differ in colour, in the shape of their points
and by name.

They are written as SVG without matplotlib, which takes 70 ms of CPU time for each: the page has
several to draw within a quarter of a second. Palette, ticks and spacing are those of the reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby

from forecache.sim.statistics import Estimate

from ..figures.canvas import (
    ACCENT,
    CSS_NAMES,
    GENERATOR,
    INK,
    MAIN,
    MUTED,
    PAPER,
    RULE,
    TEXT_PX,
    log_ticks,
    round_ticks,
    spread_apart,
    thinned,
)
from ..text.formats import Unit, percent

SIDE_COLOURS = (MAIN, GENERATOR)
SIDE_MARKERS = ("circle", "square")
_HEIGHT_PX = 290.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 50.0, 44.0, 42.0
_BAND = "band: 95% interval"
_LINEAR_RATIO = 12.0
"""Values that span more are drawn on a logarithmic axis, as in the reports."""


@dataclass(frozen=True)
class PlottedCurve:
    """One line: values by x, of which those that are simulated have an interval."""

    name: str
    colour: str
    marker: str
    estimated: dict[float, float] = field(default_factory=dict)
    simulated: dict[float, Estimate] = field(default_factory=dict)
    looked_at: float | None = None
    """The x that is ringed."""

    @property
    def values(self) -> list[tuple[float, float, bool]]:
        """(x, value, whether it is simulated), by x; a simulated value replaces an estimate."""
        found = {x: (value, False) for x, value in self.estimated.items()}
        found |= {x: (each.value, True) for x, each in self.simulated.items()}
        return [(x, value, known) for x, (value, known) in sorted(found.items())]

    @property
    def ends(self) -> list[float]:
        """Every number that the vertical axis must show."""
        found = [value for _, value, _ in self.values]
        for each in self.simulated.values():
            found += [each.low, _upper(each)]
        return [value for value in found if value > 0.0]


@dataclass(frozen=True)
class Horizontal:
    """The horizontal axis: `ticks` where only these values occur, else round ones from zero."""

    label: str
    divisor: float = 1.0
    ticks: Sequence[float] = ()


def curves(
    found: Sequence[PlottedCurve],
    *,
    title: str,
    unit: Unit,
    across: Horizontal,
    width_px: float,
    label: str,
    from_zero: bool = False,
    goal: float | None = None,
) -> str | None:
    """Draw curves over one axis as `<svg>…</svg>`; None where there is nothing positive to draw.

    Parameters
    ----------
    unit
        Of the values.
    label
        What a screen reader says instead of the picture.
    from_zero
        Whether the vertical axis is linear however much the values span.
    goal
        A bound that is drawn if it is near the values, named `objective`.
    """
    shown = [curve for curve in found if curve.ends]
    if not shown:
        return None
    low = min(min(curve.ends) for curve in shown)
    high = max(max(curve.ends) for curve in shown)
    if goal is not None and low / 4 < goal < 4 * high:
        low, high = min(low, 0.9 * goal), max(high, 1.1 * goal)
    bottom_px = _HEIGHT_PX - _BOTTOM
    x_at, x_ticks = _horizontal(across, shown, _LEFT, width_px - _RIGHT)
    is_log = not from_zero and high / low > _LINEAR_RATIO
    y_at, y_ticks = _vertical(low, high, unit.divisor, bottom_px, is_log=is_log)
    parts = [_text(2, 13, title + (", log scale" if is_log else ""), INK)]
    parts.append(_text(2, 29, _note(shown), MUTED))
    for tick in y_ticks:
        y = y_at(tick * unit.divisor)
        parts.append(_line(_LEFT, y, width_px - _RIGHT, y, RULE, width=0.8))
        parts.append(_text(_LEFT - 6, y + 4, f"{tick:g}", MUTED, anchor="end"))
    parts.append(_line(_LEFT, bottom_px, width_px - _RIGHT, bottom_px, MUTED, width=0.8))
    for tick in x_ticks:
        x = x_at(tick * across.divisor)
        parts.append(_line(x, bottom_px, x, bottom_px + 4, MUTED, width=0.8))
        parts.append(_text(x, bottom_px + 17, f"{tick:g}", MUTED, anchor="middle"))
    middle = (_LEFT + width_px - _RIGHT) / 2
    parts.append(_text(middle, _HEIGHT_PX - 6, across.label, MUTED, anchor="middle"))
    if goal is not None and low <= goal <= high:
        y = y_at(goal)
        parts.append(_line(_LEFT, y, width_px - _RIGHT, y, ACCENT))
        parts.append(_text(_LEFT + 4, y - 4, "objective", ACCENT))
    for curve in shown:
        parts += _curve(curve, x_at, y_at)
    parts += _names(shown, y_at, width_px - _RIGHT + 8)
    return _svg(parts, width_px, _HEIGHT_PX, label)


def _note(shown: Sequence[PlottedCurve]) -> str:
    known = [each for curve in shown for _, _, each in curve.values]
    if not any(known):
        return "hollow, dashed: quick estimate"
    unbounded = any(math.isinf(e.high) for curve in shown for e in curve.simulated.values())
    band = "band: 95%, to the top where overload is possible" if unbounded else _BAND
    return band + ("" if all(known) else " · hollow: quick estimate")


def _horizontal(
    across: Horizontal, shown: Sequence[PlottedCurve], left: float, right: float
) -> tuple[Callable[[float], float], list[float]]:
    """Where a value stands, and the ticks in the axis's unit."""
    span = right - left
    if across.ticks:
        first, last = min(across.ticks), max(across.ticks)
        pad = max(0.5, 0.03 * (last - first))
        low, high = first - pad, last + pad
        ticks = thinned(sorted(across.ticks), span * (last - first) / (high - low))
    else:
        low, top = 0.0, max(x for curve in shown for x, _, _ in curve.values) / across.divisor
        high = 1.03 * top
        ticks = [tick for tick in round_ticks(top, about=5) if tick <= high]
    scale = span / ((high - low) * across.divisor)
    return lambda x: left + (x - low * across.divisor) * scale, ticks


def _vertical(
    low: float, high: float, divisor: float, bottom_px: float, *, is_log: bool
) -> tuple[Callable[[float], float], list[float]]:
    span = bottom_px - _TOP
    if is_log:
        first, last = low / 1.25, high * 1.4
        scale = span / math.log(last / first)
        ticks = log_ticks(first / divisor, last / divisor)
        return lambda y: bottom_px - scale * math.log(min(max(y, first), last) / first), ticks
    ticks = round_ticks(1.05 * high / divisor)
    top = ticks[-1] * divisor
    return lambda y: bottom_px - span * y / top, ticks


def _curve(
    curve: PlottedCurve, x_at: Callable[[float], float], y_at: Callable[[float], float]
) -> list[str]:
    colour, values = curve.colour, curve.values
    places = [(x_at(x), y_at(value)) for x, value, _ in values]
    parts = []
    if not all(known for *_, known in values):
        parts.append(_path(places, colour, width=1.2, dashes="4 3"))
    for known, run in groupby(values, key=lambda each: each[2]):
        if known:
            parts += _interval([x for x, *_ in run], curve, x_at, y_at)
    for (x, _, known), (left, top) in zip(values, places, strict=True):
        if x == curve.looked_at:
            parts.append(_mark(left, top, 7, curve.marker, "none", colour, 1.4))
        fill, edge = (colour, PAPER) if known else (PAPER, colour)
        parts.append(_mark(left, top, 3.4, curve.marker, fill, edge, 0.8 if known else 1.4))
    return parts


def _interval(
    xs: Sequence[float],
    curve: PlottedCurve,
    x_at: Callable[[float], float],
    y_at: Callable[[float], float],
) -> list[str]:
    """A stretch of simulated points next to each other, with their intervals."""
    found = [(x_at(x), curve.simulated[x]) for x in xs]
    lows = [(x, y_at(e.low if e.low > 0 else e.value)) for x, e in found]
    highs = [(x, _TOP if math.isinf(e.high) else y_at(e.high)) for x, e in found]
    if len(xs) == 1:
        [(x, low)], [(_, high)] = lows, highs
        return [_line(x, low, x, high, curve.colour, width=6, opacity=0.35)]
    outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*lows, *reversed(highs)])
    band = f'<polygon points="{outline}" style="fill: {_css(curve.colour)}; opacity: 0.16"/>'
    return [band, _path([(x, y_at(e.value)) for x, e in found], curve.colour, width=2)]


def _names(shown: Sequence[PlottedCurve], y_at: Callable[[float], float], left: float) -> list[str]:
    """Names at the right ends of the curves, kept apart."""
    named = [curve for curve in shown if curve.name]
    ends = [y_at(curve.values[-1][1]) for curve in named]
    placed = spread_apart(ends, TEXT_PX + 3, _TOP, _HEIGHT_PX - _BOTTOM)
    return [
        _text(left, y + 4, curve.name, curve.colour, weight="bold")
        for curve, y in zip(named, placed, strict=True)
    ]


def _upper(estimate: Estimate) -> float:
    return estimate.high if math.isfinite(estimate.high) else estimate.value


@dataclass(frozen=True)
class BusyBar:
    """How busy a station of one scenario is."""

    side: int
    share: float
    simulated: bool


def busy(
    stations: Sequence[tuple[str, Sequence[BusyBar]]], *, width_px: float, label: str
) -> str | None:
    """Draw a bar for each station and scenario; None without stations."""
    if not stations:
        return None
    bars = max(len(found) for _, found in stations)
    row_px, left, right = 17.0 * bars + 10.0, 112.0, 46.0
    span = width_px - left - right
    simulated = all(bar.simulated for _, found in stations for bar in found)
    parts = [_text(2, 13, "Busy share of the time", INK)]
    parts.append(_text(2, 29, "simulated" if simulated else "hollow: quick estimate", MUTED))
    for row, (name, found) in enumerate(stations):
        top = 44.0 + row * row_px
        parts.append(_text(left - 8, top + row_px / 2 + 2, name, INK, anchor="end"))
        for place, bar in enumerate(found):
            y, colour = top + 5 + 17.0 * place, SIDE_COLOURS[bar.side]
            share = min(1.0, bar.share)
            parts.append(_bar(left, y, span, MUTED, MUTED, opacity=0.14))
            parts.append(_bar(left, y, span * share, colour if bar.simulated else "none", colour))
            parts.append(_text(left + span + 6, y + 10, percent(bar.share), colour))
    return _svg(parts, width_px, 44.0 + row_px * len(stations) + 8, label)


def _bar(x: float, y: float, width: float, fill: str, edge: str, *, opacity: float = 1.0) -> str:
    style = f"fill: {_css(fill)}; stroke: {_css(edge)}; opacity: {opacity:g}"
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="11" style="{style}"/>'


def _svg(parts: Sequence[str], width_px: float, height_px: float, label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width_px:g} {height_px:g}" role="img" aria-label="{escape(label)}" '
        f'font-size="{TEXT_PX:g}">{"".join(parts)}</svg>'
    )


def _css(colour: str) -> str:
    """A colour that the page may replace in dark mode."""
    name = CSS_NAMES.get(colour)
    return colour if name is None else f"var(--{name},{colour})"


def _text(
    x: float, y: float, text: str, colour: str, *, anchor: str = "start", weight: str = "normal"
) -> str:
    style = f"fill: {_css(colour)}; text-anchor: {anchor}; font-weight: {weight}"
    return f'<text x="{x:.1f}" y="{y:.1f}" style="{style}">{escape(text)}</text>'


def _line(
    x0: float, y0: float, x1: float, y1: float, colour: str, *, width: float = 1, opacity: float = 1
) -> str:
    style = f"stroke: {_css(colour)}; stroke-width: {width:g}; opacity: {opacity:g}"
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" style="{style}"/>'


def _path(
    places: Sequence[tuple[float, float]], colour: str, *, width: float, dashes: str = "none"
) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    style = f"fill: none; stroke: {_css(colour)}; stroke-width: {width:g}"
    return f'<polyline points="{points}" style="{style}; stroke-dasharray: {dashes}"/>'


def _mark(x: float, y: float, radius: float, shape: str, fill: str, edge: str, width: float) -> str:
    style = f"fill: {_css(fill)}; stroke: {_css(edge)}; stroke-width: {width:g}"
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" style="{style}"/>'
    side = 1.8 * radius
    place = f'x="{x - side / 2:.1f}" y="{y - side / 2:.1f}"'
    return f'<rect {place} width="{side:.1f}" height="{side:.1f}" style="{style}"/>'
