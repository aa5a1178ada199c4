"""Throughput and utilisation against the swept setting, usually the number of I/O threads."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from forecache.models.advice.node_answers import NodeAnswer, Recommended, Simulated
from forecache.models.plan.results import FrontPoint
from forecache.models.results.points import Point
from forecache.sim.statistics import Estimate

from ..text.formats import percent, rate, rate_unit, usd
from ..text.points import SETTING, by_threads, is_outside, standing, threads_alike
from ..text.settings import setting_name
from .canvas import (
    ACCENT,
    GENERATOR,
    HALF_PX,
    INK,
    IO,
    MAIN,
    MUTED,
    PAPER,
    TEXT_PX,
    WIDE_PX,
    fixed_ticks,
    header,
    horizontal_grid,
    house_style,
    label_ends,
    log_ticks,
    new_figure,
    resource_colour,
    round_ticks,
    shade_ranges,
    spread_apart,
    text_width_px,
    thinned,
)

_SHORT_NAMES = {
    "main thread": "main",
    "I/O threads": "I/O",
    "worker threads": "workers",
    "load generator": "load gen.",
}


def _setting_axis(axes: Axes, xs: list[float], span_px: float, *, key: str = SETTING) -> None:
    """Set limits and ticks of the horizontal axis to the swept values."""
    pad = 0.5 if len(xs) < 2 else max(0.03 * (xs[-1] - xs[0]), 0.25 * min(1.0, xs[1] - xs[0]))
    axes.set_xlim(xs[0] - pad, xs[-1] + pad)
    fixed_ticks(axes, "x", thinned(xs, span_px), lambda value: f"{value:g}")
    axes.set_xlabel(setting_name(key), labelpad=2)


def scaling(
    answer: Recommended | Simulated, *, key: str = SETTING, width_px: float = WIDE_PX
) -> Figure:
    """Draw predicted throughput by a swept number, with its 95% band, knee and recommendation.

    A strip under the axis shows what limits at each value. Values outside the calibrated range are
    shaded. Over the number of threads a line marks the number of cores when the sweep goes past it.
    """
    found = sorted(
        ((float(point.given[key]), point) for point in answer.points), key=lambda pair: pair[0]
    )
    xs = [x for x, _ in found]
    estimates = [point.throughput_rps for _, point in found]
    top_rps = max(e.high for e in estimates)
    unit = rate_unit(top_rps)
    narrow = width_px < 480
    with house_style():
        figure, axes = new_figure(
            width_px, 330 if narrow else 350, left=38, right=14, top=44, bottom=72
        )
        top = (1.2 * top_rps / unit.divisor) or 1.0
        ticks = [t for t in round_ticks(top, about=4 if narrow else 5) if t <= top]
        axes.set_ylim(0, top)
        _setting_axis(axes, xs, width_px - 52, key=key)
        fixed_ticks(axes, "y", ticks, lambda value: f"{value:g}")
        horizontal_grid(axes)
        shaded = shade_ranges(axes, xs, [is_outside(p) for _, p in found])
        _band_and_line(axes, xs, estimates, unit.divisor)
        _limit_strip(axes, xs, [p.bottleneck for _, p in found], width_px)
        if key == SETTING:
            _mark_cores(axes, answer, xs, axes.get_ylim()[1])
        if isinstance(answer, Recommended):
            _mark_knee(axes, answer, xs, estimates, unit.divisor)
            _mark_chosen(axes, answer, xs, estimates, unit.divisor)
        grey = ["grey: not calibrated" if narrow else "grey: outside the calibrated range"]
        band = "band: 95%" if narrow else "band: 95% interval"
        notes = [band, "strip: what limits", *(grey if shaded else [])]
        prefix = unit.symbol.strip().removesuffix("/s")
        name = f"Throughput, {prefix} requests/s".replace("  ", " ")
        header(figure, name, " · ".join(notes))
    return figure


def _band_and_line(axes: Axes, xs: list[float], estimates: list[Estimate], divisor: float) -> None:
    values = [e.value / divisor for e in estimates]
    lows = [e.low / divisor for e in estimates]
    highs = [e.high / divisor for e in estimates]
    if len(xs) == 1:
        axes.vlines(xs, lows, highs, color=MAIN, alpha=0.35, linewidth=8)
    else:
        axes.fill_between(xs, lows, highs, color=MAIN, alpha=0.16, linewidth=0)
    axes.plot(
        xs, values, color=MAIN, marker="o", markersize=5, markerfacecolor=MAIN,
        markeredgecolor=PAPER, markeredgewidth=1, clip_on=False, zorder=3,
    )  # fmt: skip


def _beside(axes: Axes, x: float) -> tuple[str, float]:
    """Return the alignment and horizontal offset of a label that must stay inside the axes."""
    low, high = axes.get_xlim()
    place = (x - low) / (high - low)
    return ("left", 6.0) if place < 0.5 else ("right", -6.0)


def _mark_cores(axes: Axes, target: NodeAnswer, xs: list[float], top: float) -> None:
    cores = target.host.cores
    if not xs[0] <= cores < xs[-1]:
        return
    axes.axvline(cores, color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)), zorder=1)
    align, offset = _beside(axes, cores)
    axes.annotate(
        f"{cores:g} cores", (cores, top), xytext=(offset, -11), textcoords="offset points",
        ha=align, color=MUTED,
    )  # fmt: skip


def _mark_knee(
    axes: Axes, target: Recommended, xs: list[float], estimates: list[Estimate], divisor: float
) -> None:
    advice = target.recommendation
    x, chosen = float(advice.knee[SETTING]), advice.chosen[SETTING]
    at = estimates[xs.index(x)]
    axes.vlines(x, 0, at.value / divisor, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
    align, offset = _beside(axes, x)
    if chosen != x:
        # Away from the recommendation, whose own label sits above the curve.
        align, offset = ("right", -6.0) if x < chosen else ("left", 6.0)
        low, high = axes.get_xlim()
        if (x - low) / (high - low) < 0.15:
            align, offset = "left", 6.0
    axes.annotate(
        f"knee {x:g}", (x, 0), xytext=(offset, 8), textcoords="offset points", ha=align, color=INK
    )


def _mark_chosen(
    axes: Axes, target: Recommended, xs: list[float], estimates: list[Estimate], divisor: float
) -> None:
    x = float(target.recommendation.chosen[SETTING])
    at = estimates[xs.index(x)]
    what, high = standing(target.recommendation), at.high / divisor
    axes.plot(
        [x], [at.value / divisor], "o", color=ACCENT, markersize=11, markeredgecolor=PAPER,
        markeredgewidth=1.5, zorder=4, clip_on=False,
    )  # fmt: skip
    axes.vlines(x, at.value / divisor, high, color=ACCENT, linewidth=1, zorder=3)
    align, offset = _beside(axes, x)
    axes.annotate(
        f"{what} {x:g}: {rate(at.value)}", (x, high), xytext=(offset * -1.5, 6),
        textcoords="offset points", ha=align, color=ACCENT, weight="bold",
    )  # fmt: skip


def _limit_strip(axes: Axes, xs: list[float], limits: list[str], width_px: float) -> None:
    """Draw a strip under the axis, one coloured stretch for each run of the same bottleneck."""
    low, high = axes.get_xlim()
    transform = axes.get_xaxis_transform()
    px_per_x = (width_px - 52) / (high - low)
    height_px = 330 - 116 if width_px < 480 else 350 - 116
    y_px, thickness_px = -62.0, 16.0
    edges = [low, *[(a + b) / 2 for a, b in pairwise(xs)], high]
    start = 0
    for i in range(1, len(xs) + 1):
        if i < len(xs) and limits[i] == limits[start]:
            continue
        name = limits[start]
        left, right = edges[start], edges[i]
        axes.add_patch(
            _strip_patch(left, right, y_px / height_px, thickness_px / height_px, name, axes)
        )
        room_px = (right - left) * px_per_x - 8
        options = [name, _SHORT_NAMES.get(name, name)]
        text = next((t for t in options if text_width_px(t, 11) <= room_px), "")
        axes.text(
            (left + right) / 2, (y_px + thickness_px / 2 - 4) / height_px, text,
            transform=transform, ha="center", va="baseline", fontsize=11,
            color=PAPER, clip_on=False,
        )  # fmt: skip
        start = i


def _strip_patch(
    left: float, right: float, y: float, height: float, name: str, axes: Axes
) -> Rectangle:
    return Rectangle(
        (left, y), right - left, height, transform=axes.get_xaxis_transform(),
        facecolor=resource_colour(name), edgecolor=PAPER, linewidth=1.5, clip_on=False,
    )  # fmt: skip


def _io_name(found: list[tuple[float, Point]]) -> str:
    return "worker threads" if threads_alike([point for _, point in found]) else "I/O threads"


def utilisation(target: Recommended, *, width_px: float = HALF_PX) -> Figure:
    """Draw how busy the main thread, the I/O threads and the load generator are.

    I/O threads show their mean and, as a bar, the range from the least to the most busy one.
    """
    found = by_threads(target)
    series: dict[str, tuple[str, list[tuple[float, float | None]]]] = {
        "main thread": (MAIN, [(x, p.main_thread_utilisation) for x, p in found]),
        _io_name(found): (IO, [(x, _mean(p.io_thread_utilisation)) for x, p in found]),
        "load generator": (
            GENERATOR,
            [(x, p.load_generator_utilisation) for x, p in found],
        ),
    }
    lines = {
        name: (colour, [(x, y) for x, y in points if y is not None])
        for name, (colour, points) in series.items()
    }
    lines = {name: line for name, line in lines.items() if line[1]}
    xs = [x for x, _ in found]
    narrow = width_px < 480
    height_px = 300.0
    right = 104.0
    with house_style():
        figure, axes = new_figure(width_px, height_px, left=42, right=right, top=44, bottom=42)
        _setting_axis(axes, xs, width_px - 42 - right)
        ticks = [0, 0.25, 0.5, 0.75, 1.0]
        axes.set_ylim(0, 1.04)
        fixed_ticks(axes, "y", ticks, lambda value: f"{value * 100:.0f}%")
        horizontal_grid(axes)
        chosen = float(target.recommendation.chosen[SETTING])
        axes.axvline(chosen, color=ACCENT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        for x, point in found:
            threads = point.io_thread_utilisation
            if len(threads) > 1:
                axes.vlines(x, min(threads), max(threads), color=IO, alpha=0.35, linewidth=5)
        for colour, points in lines.values():
            axes.plot(
                *zip(*points, strict=True), color=colour, marker="o", markersize=4.5,
                markeredgecolor=PAPER, markeredgewidth=1, clip_on=False, zorder=3,
            )  # fmt: skip
        ends = [points[-1][1] for _, points in lines.values()]
        places = spread_apart(ends, 34 / (height_px - 86), 0.03, 1.0)
        for (name, (colour, points)), place in zip(lines.items(), places, strict=True):
            text = f"{name}\n{percent(points[-1][1])} at {points[-1][0]:g}"
            axes.annotate(
                text, (1, place), xycoords=("axes fraction", "data"), xytext=(4, 0),
                textcoords="offset points", va="center", color=colour, linespacing=1.15,
                fontsize=TEXT_PX - 0.5,
            )  # fmt: skip
        short = "I/O" if "I/O threads" in lines else "workers"
        note = f"{short}: mean; bar: least to most busy thread"
        header(
            figure,
            "Busy share of each thread's time",
            note if not narrow else f"{short}: mean, bar: least to most busy",
        )
    return figure


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


# --- cost of the nodes of capacity plans against the headroom that they leave ---------------------


_STRIP = 0.6
"""Of the dearest plan's cost that the cheapest costs, where the axis leaves zero out."""


def front(points: list[FrontPoint], *, width_px: float = WIDE_PX) -> Figure | None:
    """Draw headroom against cost a month: all plans, the front as a line, the best in front.

    The axis begins at zero unless all plans would then stand in a strip at its end. None where
    there are fewer than two points.
    """
    if len(points) < 2:
        return None
    on_front = [point for point in points if point.on_front]
    dearest = 1.6 * max(point.usd_per_month for point in on_front)
    shown = [point for point in points if point.usd_per_month <= dearest]
    top = max(point.usd_per_month for point in shown)
    narrow = width_px < 480
    with house_style():
        figure, axes = new_figure(width_px, 320, left=46, right=16, top=44, bottom=42)
        axes.set_ylim(0, 1.02)
        cheapest = min(point.usd_per_month for point in shown)
        left = cheapest - 0.25 * (top - cheapest) if cheapest > _STRIP * top else 0.0
        right = top + 0.04 * (top - left)
        axes.set_xlim(left, right)
        steps = round_ticks(right, about=math.ceil((3 if narrow else 6) * right / (right - left)))
        ticks = [tick for tick in steps if left <= tick <= top]
        fixed_ticks(axes, "x", ticks, usd)
        fixed_ticks(axes, "y", [0, 0.25, 0.5, 0.75, 1.0], lambda value: f"{value * 100:.0f}%")
        axes.set_xlabel("nodes, a month", labelpad=2)
        horizontal_grid(axes)
        axes.plot(
            [each.usd_per_month for each in shown], [each.headroom for each in shown], "o",
            color=MUTED, markersize=4.5, alpha=0.55, markeredgecolor=PAPER, markeredgewidth=0.8,
        )  # fmt: skip
        axes.plot(
            [each.usd_per_month for each in on_front], [each.headroom for each in on_front],
            color=MAIN, marker="o", markersize=5.5, markeredgecolor=PAPER, markeredgewidth=1,
            drawstyle="steps-post", zorder=3,
        )  # fmt: skip
        best = on_front[0]
        toward_left = best.usd_per_month > left + 0.6 * (top - left)
        axes.plot(
            [best.usd_per_month], [best.headroom], "o", color=ACCENT, markersize=10,
            markeredgecolor=PAPER, markeredgewidth=1.5, zorder=4,
        )  # fmt: skip
        axes.annotate(
            f"{best.setting.shards} × {best.setting.instance}",
            (best.usd_per_month, best.headroom), xytext=(8, -14), textcoords="offset points",
            color=ACCENT, weight="bold", ha="right" if toward_left else "left",
        )  # fmt: skip
        note = "line: nothing simulated has more for the money"
        header(figure, "Headroom at the horizon’s peak", note, color=INK)
    return figure


_PLENTY = 1.5
"""Room above the highest limit, as a multiple of it."""
_LIMITS = (MAIN, IO, ACCENT, GENERATOR)


def growth(
    limits: Mapping[str, Sequence[float]], yearly: Sequence[float], *, width_px: float = WIDE_PX
) -> Figure | None:
    """Draw growing loads against the limits that they reach.

    Parameters
    ----------
    limits
        Multiples of today's load by name: the best number, or with both ends of its interval.
    yearly
        Growth a year of each load.

    Returns
    -------
    Figure or None
        None where every limit is reached already.
    """
    above = {name: factors for name, factors in limits.items() if factors[0] > 1.0}
    if not above or min(yearly) <= 0.0:
        return None
    top = _PLENTY * max(factors[0] for factors in above.values())
    rates = sorted(yearly)
    years = min(20.0, max(3.0, math.log(top) / math.log1p(rates[len(rates) // 2])))
    with house_style():
        figure, axes = new_figure(width_px, 320, left=46, right=124, top=44, bottom=42)
        axes.set_yscale("log")
        axes.set_ylim(1.0, top)
        axes.set_xlim(0.0, years)
        fixed_ticks(axes, "y", log_ticks(1.0, top), lambda value: f"{value:g}×")
        fixed_ticks(axes, "x", round_ticks(years)[:-1], lambda value: f"{value:g}")
        axes.set_xlabel("years", labelpad=2)
        horizontal_grid(axes)
        ends = []
        for (name, (best, *interval)), colour in zip(above.items(), _LIMITS, strict=False):
            if interval:
                axes.axhspan(*interval, color=colour, alpha=0.14, linewidth=0)
            axes.axhline(best, color=colour, linewidth=1.6)
            ends.append((name, best, colour))
        label_ends(axes, ends, 234)
        for place, rate_of_growth in enumerate(rates):
            until = min(years, math.log(top) / math.log1p(rate_of_growth))
            end = (1.0 + rate_of_growth) ** until
            axes.plot([0.0, until], [1.0, end], color=MUTED, linewidth=1.2)
            at = max(0.3, 0.9 - 0.15 * place)  # names of lines that end alike stay apart
            axes.annotate(
                f"+{percent(rate_of_growth)}", (at * until, end**at), xytext=(5, -9),
                textcoords="offset points", color=MUTED,
            )  # fmt: skip
        header(figure, "Load, in multiples of the load asked about", "lines: growth a year")
    return figure
