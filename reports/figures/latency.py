"""Latency against offered load at one setting."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from forecache.models.advice.node_answers import StudyTarget
from forecache.models.results.latency import LatencyDistribution
from forecache.sim.statistics import Estimate

from ..text.formats import Unit, milliseconds, rate, rate_unit, time_unit
from ..text.points import is_outside, latency_knee_rps
from .canvas import (
    ACCENT,
    HALF_PX,
    INK,
    MAIN,
    MUTED,
    PAPER,
    SHADE,
    fixed_ticks,
    header,
    horizontal_grid,
    house_style,
    label_ends,
    log_ticks,
    new_figure,
    round_ticks,
    shade_ranges,
    text_width_px,
    value_axis,
)

# The knee of a latency curve, as drawn: where p99 reaches this multiple of its value at the
# lightest load of the curve.

_OVERLOADED = "overloaded"
_UNBOUNDED = "band: 95%, to the top where overload is possible"
_ABOVE_PX = 5
"""What marks a place on the horizontal axis is written above the plot, clear of its lines."""

_SERIES = (("p50_ms", "p50", MUTED), ("p99_ms", "p99", MAIN))


def latency_by_load(target: StudyTarget, *, width_px: float = HALF_PX) -> Figure | None:
    """Draw p50 and p99 against offered load, with intervals, knee and objective.

    Where some of the uncertain numbers overload the server, latency has no bound, and the band goes
    to the top.

    Loads above capacity are shaded: latency there has no steady value, and the vertical axis
    does not follow it.

    Returns
    -------
    Figure or None
        None when the load curve holds no latency.
    """
    curve = [(point.offered_rps, point) for point in target.load_curve]
    lines: dict[str, tuple[str, list[tuple[float, Estimate]]]] = {}
    for key, name, colour in _SERIES:
        points = [(x, e) for x, p in curve if (e := getattr(p, key)) is not None and e.value > 0]
        if points:
            lines[name] = (colour, points)
    if not lines:
        return None
    overloaded = [x for x, p in curve if p.overloaded]
    low_ms, high_ms = _latency_range(lines, set(overloaded))
    slo = target.recommendation.slo
    goal_ms = slo.p99_ms if slo else None
    if goal_ms is not None and goal_ms < 4 * high_ms:
        high_ms = max(high_ms, 1.1 * goal_ms)
    unit_ms = time_unit(high_ms)
    unit = rate_unit(curve[-1][0])
    xs = [x / unit.divisor for x, _ in curve]
    height_px = 322.0
    with house_style():
        figure, axes = new_figure(width_px, height_px, left=46, right=44, top=66, bottom=42)
        axes.set_xlim(0, xs[-1] * 1.02 if xs[-1] > 0 else 1)
        about = 4 if width_px < 480 else 6
        fixed_ticks(
            axes, "x", [t for t in round_ticks(xs[-1], about=about) if t <= xs[-1] * 1.02],
            lambda value: f"{value:g}",
        )  # fmt: skip
        axes.set_xlabel(f"offered load, {unit.symbol.strip()[:-2]} requests/s", labelpad=2)
        value_axis(axes, low_ms / unit_ms.divisor, high_ms / unit_ms.divisor)
        horizontal_grid(axes)
        outside = shade_ranges(axes, xs, [is_outside(p) for _, p in curve])
        overload_x = _mark_overload(axes, [x / unit.divisor for x in overloaded], xs)
        for colour, points in lines.values():
            _series(axes, points, colour, unit.divisor, unit_ms.divisor)
        ends = [
            (name, points[-1][1].value / unit_ms.divisor, colour)
            for name, (colour, points) in lines.items()
        ]
        label_ends(axes, ends, height_px - 108)
        _mark_goal(axes, goal_ms, unit_ms)
        _mark_knee(axes, latency_knee_rps(target.load_curve), unit.divisor, overload_x)
        unbounded = any(math.isinf(e.high) for _, points in lines.values() for _, e in points)
        note = _UNBOUNDED if unbounded else "band: 95% interval"
        note += " · grey: outside the calibrated range" if outside else ""
        header(figure, f"Latency, {unit_ms.symbol.strip()}{_scale_word(axes)}", note)
    return figure


def _scale_word(axes: Axes) -> str:
    return ", log scale" if axes.get_yscale() == "log" else ""


def _latency_range(
    lines: dict[str, tuple[str, list[tuple[float, Estimate]]]], overloaded: set[float]
) -> tuple[float, float]:
    """Return the latencies to show, ignoring overloaded loads unless there are no others."""
    every = [(x, e) for _, points in lines.values() for x, e in points]
    steady = [(x, e) for x, e in every if x not in overloaded] or every
    low = min(e.value if e.low <= 0 else e.low for _, e in steady)
    return low, max(_upper(e) for _, e in steady)


def _upper(estimate: Estimate) -> float:
    """The upper end that can be drawn."""
    return estimate.high if math.isfinite(estimate.high) else estimate.value


def _mark_overload(axes: Axes, overloaded: list[float], xs: list[float]) -> float | None:
    """Shade the loads above capacity and return where they begin, None when there are none."""
    if not overloaded:
        return None
    stable = [x for x in xs if x < overloaded[0]]
    start = (stable[-1] + overloaded[0]) / 2 if stable else 0.0
    axes.axvspan(start, axes.get_xlim()[1], color=SHADE, linewidth=0, zorder=0)
    axes.axvline(start, color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)), zorder=1)
    axes.annotate(
        _OVERLOADED, (1, 1), xycoords="axes fraction", xytext=(0, _ABOVE_PX),
        textcoords="offset points", ha="right", color=MUTED,
    )  # fmt: skip
    return start


def _series(
    axes: Axes, points: list[tuple[float, Estimate]], colour: str, x_unit: float, y_unit: float
) -> None:
    xs = [x / x_unit for x, _ in points]
    ys = [e.value / y_unit for _, e in points]
    lows = [(e.low if e.low > 0 else e.value) / y_unit for _, e in points]
    top = axes.get_ylim()[1]
    highs = [top if math.isinf(e.high) else e.high / y_unit for _, e in points]
    if len(xs) == 1:
        axes.vlines(xs, lows, highs, color=colour, alpha=0.35, linewidth=8)
    else:
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.16, linewidth=0)
    axes.plot(
        xs, ys, color=colour, marker="o", markersize=4, markeredgecolor=PAPER,
        markeredgewidth=0.8, zorder=3,
    )  # fmt: skip


def _mark_goal(axes: Axes, goal_ms: float | None, unit: Unit) -> None:
    if goal_ms is None:
        return
    y = goal_ms / unit.divisor
    if not axes.get_ylim()[0] <= y <= axes.get_ylim()[1]:
        return
    axes.axhline(y, color=ACCENT, linewidth=1, zorder=2)
    axes.annotate(
        f"objective: p99 ≤ {milliseconds(goal_ms)}", (0, y), xytext=(4, 4),
        xycoords=("axes fraction", "data"), textcoords="offset points", color=ACCENT,
    )  # fmt: skip


def _mark_knee(
    axes: Axes, knee_rps: float | None, divisor: float, overload_x: float | None
) -> None:
    if knee_rps is None:
        return
    x = knee_rps / divisor
    axes.axvline(x, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
    low, high = axes.get_xlim()
    width_px = axes.get_window_extent().width
    at_px = (x - low) / (high - low) * width_px
    taken_px = text_width_px(_OVERLOADED) + 12 if overload_x is not None else 0.0
    room_px = {"left": width_px - taken_px - at_px, "right": min(at_px, width_px - taken_px)}
    side = max(room_px, key=room_px.__getitem__)
    options = [f"knee: p99 doubled, {rate(knee_rps)}", f"knee {rate(knee_rps)}", "knee"]
    text = next((t for t in options if text_width_px(t) <= room_px[side]), options[-1])
    # A label that ends at the line must not reach into the word at the right edge.
    shift_px = min(0.0, width_px - taken_px - at_px) if side == "right" else 0.0
    axes.annotate(
        text, (x, 1), xycoords=("data", "axes fraction"), xytext=(shift_px, _ABOVE_PX),
        textcoords="offset points", ha=side, color=INK,
    )  # fmt: skip


# --- the whole distribution of a latency: which share of requests takes longer --------------------


_MARKED = (0.5, 0.99, 0.999)
_LEAST_REQUESTS = 10
"""Beyond fewer requests the curve is chance, and is not drawn."""


def latency_ccdf(latency: LatencyDistribution, *, width_px: float = HALF_PX) -> Figure | None:
    """Draw the share of requests that take longer than a latency, both on logarithmic axes.

    A dot marks p50, p99 and p99.9; thin lines are the replications, whose distance is chance.

    Returns
    -------
    Figure or None
        None when nothing was counted.
    """
    if latency.count < _LEAST_REQUESTS:
        return None
    least = _LEAST_REQUESTS / latency.count
    latency_ms, beyond = latency.ccdf()
    shown = (beyond >= least) & (latency_ms > 0)
    if shown.sum() < 2:
        return None
    unit = time_unit(float(latency_ms[shown][-1]))
    xs = latency_ms / unit.divisor
    low, high = float(xs[shown][0]), float(xs[shown][-1])
    with house_style():
        figure, axes = new_figure(width_px, 322, left=58, right=24, top=44, bottom=42)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(low / 1.05, high * 1.08)
        axes.set_ylim(least / 1.5, 1.3)
        fixed_ticks(axes, "x", log_ticks(*axes.get_xlim()), lambda value: f"{value:.3g}")
        powers = [10.0**-power for power in range(int(-np.log10(least)) + 1)]
        fixed_ticks(axes, "y", powers, lambda value: f"{value * 100:.10g}%")
        axes.set_xlabel(f"latency, {unit.symbol.strip()}, log scale", labelpad=2)
        horizontal_grid(axes)
        for counts in latency.counts if latency.replications > 1 else ():
            left = 1.0 - np.cumsum(counts) / max(1, counts.sum())
            there = left >= least
            axes.plot(xs[there], left[there], color=MUTED, linewidth=0.7, alpha=0.6)
        axes.plot(xs[shown], beyond[shown], color=MAIN, zorder=3)
        for share in _MARKED:
            if 1.0 - share < least:
                continue
            at_ms = latency.quantile(share)
            axes.plot([at_ms / unit.divisor], [1.0 - share], "o", color=MAIN, zorder=4)
            axes.annotate(
                f"p{share * 100:g} {milliseconds(at_ms)}", (at_ms / unit.divisor, 1.0 - share),
                xytext=(-8, -4), textcoords="offset points", ha="right", va="top", color=INK,
            )  # fmt: skip
        header(figure, "Requests that take longer", "log scale · thin lines: replications")
    return figure
