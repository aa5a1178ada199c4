"""Predicted against observed: how well the calibration holds, fitted and held-out points apart."""

import math
import re
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from forecache.calibration.fit.report import FitPoint

from ..study_answer import HostNumbers
from ..text.formats import Unit, byte_size, is_rate, nanosecond_unit, percent, rate_unit
from .canvas import (
    ACCENT,
    HALF_PX,
    MAIN,
    MUTED,
    PAPER,
    RULE,
    SHADE,
    WIDE_PX,
    add_axes,
    fixed_ticks,
    header,
    horizontal_grid,
    house_style,
    log_ticks,
    new_figure,
)

_BANDS = (0.10, 0.20)


def accuracy(
    points: Sequence[FitPoint], *, quantity: str, width_px: float = WIDE_PX
) -> Figure | None:
    """Draw predicted against observed on log axes, and the relative error beside it.

    Parameters
    ----------
    points
        Calibration points of one quantity; `role` tells `fit` from `holdout`.
    quantity
        What was measured, for the axis: times are in ns, throughput in requests/s.
    width_px
        Under 480 the two panels stand one above the other.

    Returns
    -------
    Figure or None
        None when there are no points.
    """
    found = [((point.observed, point.predicted), point.role) for point in points]
    if not found:
        return None
    every = [value for pair, _ in found for value in pair]
    middle = math.sqrt(min(every) * max(every))
    unit = rate_unit(middle) if is_rate(quantity) else nanosecond_unit(middle)
    symbol = unit.symbol.strip()
    low, high = min(every) / unit.divisor / 1.25, max(every) / unit.divisor * 1.25
    narrow = width_px < 480
    left, gap = 46.0, 62.0
    with house_style():
        if narrow:
            figure, left_axes = new_figure(width_px, 670, left=left, right=34, top=36, bottom=354)
            right_axes = add_axes(figure, left=left, right=34, top=390, bottom=40)
        else:
            panel = (width_px - left - gap - 16) / 2
            figure, left_axes = new_figure(
                width_px, 320, left=left, right=width_px - left - panel, top=36, bottom=42
            )
            right_axes = add_axes(
                figure, left=left + panel + gap, right=width_px - left - 2 * panel - gap,
                top=36, bottom=42,
            )  # fmt: skip
        _scatter_panel(left_axes, found, low, high, unit, symbol)
        _error_panel(right_axes, found, low, high, unit, symbol)
        header(figure, f"Predicted, {symbol}")
        if narrow:
            figure.text(2 / width_px, 1 - 376 / 670, "Relative error", va="baseline")
        else:
            header(figure, "Relative error", x_px=left + panel + gap - 40)
    return figure


def _log_axis(axes: Axes, which: str, low: float, high: float) -> None:
    if which == "x":
        axes.set_xscale("log")
        axes.set_xlim(low, high)
    else:
        axes.set_yscale("log")
        axes.set_ylim(low, high)
    fixed_ticks(axes, which, log_ticks(low, high, most=6), lambda value: f"{value:g}")


def _dots(axes: Axes, xs: list[float], ys: list[float], role: str) -> None:
    held_out = role == "holdout"
    axes.plot(
        xs, ys, linestyle="none", marker="D" if held_out else "o",
        markersize=6 if held_out else 5.5,
        markerfacecolor=ACCENT if held_out else PAPER,
        markeredgecolor=PAPER if held_out else MAIN,
        markeredgewidth=0.8 if held_out else 1.4,
        zorder=4 if held_out else 3, clip_on=False,
    )  # fmt: skip


def _scatter_panel(
    axes: Axes,
    found: list[tuple[tuple[float, float], str]],
    low: float,
    high: float,
    unit: Unit,
    symbol: str,
) -> None:
    _log_axis(axes, "x", low, high)
    _log_axis(axes, "y", low, high)
    axes.set_xlabel(f"observed, {symbol}", labelpad=2)
    ends = [low, high]
    axes.fill_between(
        ends, [v * 0.8 for v in ends], [v * 1.2 for v in ends], color=SHADE, linewidth=0
    )
    axes.plot(ends, ends, color=MUTED, linewidth=1)
    for band, style in zip(_BANDS, ("solid", (0, (4, 3))), strict=True):
        for sign in (-1, 1):
            axes.plot(
                ends, [v * (1 + sign * band) for v in ends], color=MUTED, linewidth=0.6,
                linestyle=style,
            )  # fmt: skip
    for role in sorted({role for _, role in found}):
        pairs = [pair for pair, r in found if r == role]
        _dots(
            axes,
            [observed / unit.divisor for observed, _ in pairs],
            [predicted / unit.divisor for _, predicted in pairs],
            role,
        )
    for row, role in enumerate(sorted({role for _, role in found})):
        held_out = role == "holdout"
        size = sum(r == role for _, r in found)
        axes.annotate(
            f"{'held out' if held_out else 'fitted' if role == 'fit' else role} ({size})",
            (0, 1), xycoords="axes fraction", xytext=(18, -14 - 17 * row),
            textcoords="offset points", color=ACCENT if held_out else MAIN,
        )  # fmt: skip
        x, y = axes.transAxes.inverted().transform(
            axes.transAxes.transform((0, 1)) + (10, -10 - 17 * row)
        )
        axes.plot(
            [x], [y], transform=axes.transAxes, marker="D" if held_out else "o", markersize=6,
            markerfacecolor=ACCENT if held_out else PAPER,
            markeredgecolor=ACCENT if held_out else MAIN, markeredgewidth=1.4,
        )  # fmt: skip


def _error_ticks(reach: float) -> list[float]:
    """Marks of an axis of relative errors that reaches so far, as far apart as their labels need.

    The shaded band ends at two of them where there is room for that.
    """
    if reach < 0.6:
        return [-0.2, -0.1, 0, 0.1, 0.2]
    if reach < 1.2:
        return [-0.2, 0, 0.2]
    step = next((each for each in (0.5, 1.0, 2.0, 5.0) if reach / each <= 5), reach / 4)
    upper = [step * n for n in range(int(reach / step) + 1)]
    return [-1.0, *upper] if step <= 1.0 else upper


def _error_panel(
    axes: Axes,
    found: list[tuple[tuple[float, float], str]],
    low: float,
    high: float,
    unit: Unit,
    symbol: str,
) -> None:
    errors = [predicted / observed - 1 for (observed, predicted), _ in found]
    reach = max(0.25, 1.1 * max(abs(e) for e in errors))
    _log_axis(axes, "x", low, high)
    axes.set_xlabel(f"observed, {symbol}", labelpad=2)
    # No prediction is off by less than -100%.
    axes.set_ylim(-min(reach, 1.05), reach)
    fixed_ticks(axes, "y", _error_ticks(reach), lambda value: percent(value, signed=True))
    horizontal_grid(axes)
    axes.axhspan(-0.2, 0.2, color=SHADE, linewidth=0, zorder=0)
    axes.axhline(0, color=MUTED, linewidth=1, zorder=1)
    for role in sorted({role for _, role in found}):
        pairs = [pair for pair, r in found if r == role]
        _dots(
            axes,
            [observed / unit.divisor for observed, _ in pairs],
            [predicted / observed - 1 for observed, predicted in pairs],
            role,
        )


# --- memory latency of a host, by working set ----------------------------------------------------


_CACHE_SIZE = re.compile(r"\b(L[1-4])\b.*size", re.I)


def cache_sizes(host: HostNumbers) -> list[tuple[str, float]]:
    """Return (level, size in bytes) for the profile rows that name a cache's size."""
    found: dict[str, float] = {}
    for row in host.rows:
        match = _CACHE_SIZE.search(row.name.replace(".", " ").replace("_", " "))
        if match and row.value:
            found.setdefault(match[1].upper(), row.value)
    return sorted(found.items(), key=lambda item: item[1])


def memory_latency(host: HostNumbers, *, width_px: float = HALF_PX) -> Figure | None:
    """Draw the latency of a dependent load against the size of the working set.

    Returns
    -------
    Figure or None
        None when the profile holds fewer than two points of the curve.
    """
    curve = sorted((size, ns) for size, ns in host.latency_curve if size > 0 and ns > 0)
    if len(curve) < 2:
        return None
    xs, ys = [x for x, _ in curve], [y for _, y in curve]
    narrow = width_px < 480
    with house_style():
        figure, axes = new_figure(width_px, 290, left=42, right=18, top=44, bottom=42)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlim(xs[0] / 1.2, xs[-1] * 1.2)
        bottom, top = min(ys) / 1.5, max(ys) * 1.8
        axes.set_ylim(bottom, top)
        powers = [2.0**p for p in range(8, 44) if xs[0] <= 2.0**p <= xs[-1]]
        step = max(1, -(-len(powers) // (5 if narrow else 8)))
        fixed_ticks(axes, "x", powers[::step], byte_size)
        fixed_ticks(axes, "y", log_ticks(bottom, top), lambda value: f"{value:g}")
        axes.set_xlabel("working set", labelpad=2)
        horizontal_grid(axes)
        for level, size_bytes in cache_sizes(host):
            if xs[0] <= size_bytes <= xs[-1]:
                axes.axvline(size_bytes, color=RULE, linewidth=1.2, zorder=1)
                axes.annotate(
                    level, (size_bytes, 1), xycoords=("data", "axes fraction"),
                    xytext=(-4, -11), textcoords="offset points", ha="right", color=MUTED,
                )  # fmt: skip
        axes.plot(
            xs, ys, color=MAIN, marker="o", markersize=4.5, markeredgecolor=PAPER,
            markeredgewidth=0.8, zorder=3,
        )  # fmt: skip
        header(
            figure,
            "Latency of a dependent load, ns, log scale",
            "vertical rules: cache sizes" if cache_sizes(host) else "",
        )
    return figure
