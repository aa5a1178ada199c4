"""Hosts side by side, each a bar of what is on it."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from forecache.models.results.series import Floats, Stack

from ..text.formats import count, quantity, quantity_unit
from ..text.runs import said, sizes_of
from .canvas import (
    ACCENT,
    GENERATOR,
    INK,
    IO,
    MAIN,
    NETWORK,
    TEXT_PX,
    fixed_ticks,
    header,
    horizontal_grid,
    house_style,
    new_figure,
    round_ticks,
    spread_apart,
    text_width_px,
)
from .over_time import PLOT_PX, right_margin_px

_HEIGHT_PX = 200.0
_LEFT_PX = 56
_ROW_PX = 18.0
_SWATCH_PX = 11.0
_STANDING_OUT = (IO, GENERATOR, ACCENT, NETWORK)
_NARROWEST_BAR_PX = 2.0
# Bars as wide as this are told apart by gaps.
_GAP_FROM_PX = 4.0
_MOST_LABELS = 3


def stacked(
    stack: Stack, *, highest: float, margin_px: float | None = None, width_px: float = PLOT_PX
) -> Figure | None:
    """Draw the bars of one stack with its limits across; flagged ones are pointed at.

    Parameters
    ----------
    highest
        What the vertical axis covers: the highest of all plots it is to be compared with.
    margin_px
        Room to the right, for the names of limits where it suffices for them. If left out, as much
        as they need, and none in a narrow figure.

    Returns
    -------
    Figure or None
        None when all bars are empty.
    """
    all_sizes = sizes_of(stack)
    if not highest > 0 or not all_sizes.any():
        return None
    unit = quantity_unit(stack.unit, highest)
    colours = _colours(stack)
    legend = _legend_rows(stack, colours, width_px)
    limits = [
        (name, limit.value) for name, limit in zip(limit_names(stack), stack.limits, strict=True)
    ]
    if margin_px is None:
        margin_px = right_margin_px([], limit_names(stack)) if width_px == PLOT_PX else 14.0
    beside = all(text_width_px(name) + 8 <= margin_px for name, _ in limits)
    top = 34.0 + _ROW_PX * len(legend)
    with house_style():
        figure, axes = new_figure(
            width_px,
            _HEIGHT_PX + top + 42,
            left=_LEFT_PX,
            right=margin_px if beside else 14,
            top=top,
            bottom=42,
        )
        across_px = axes.get_window_extent().width
        shown = _shown(len(stack.bars), int(across_px / _NARROWEST_BAR_PX))
        axes.set_xlim(0, len(shown))
        ticks = round_ticks(1.06 * highest / unit.divisor, about=4)
        axes.set_ylim(0, max(1.1 * highest / unit.divisor, ticks[-2]))
        fixed_ticks(axes, "y", [t for t in ticks if t <= axes.get_ylim()[1]], _number)
        horizontal_grid(axes)
        _rank_axis(axes, stack, len(shown))
        sizes = all_sizes[shown] / unit.divisor
        _draw_bars(axes, sizes, colours, gap=across_px / len(shown) >= _GAP_FROM_PX)
        for name, value in limits:
            _limit(axes, name, value / unit.divisor, beside=beside)
        _point_at(axes, stack, shown, sizes.sum(axis=1), across_px)
        _write_legend(figure, legend)
        header(figure, f"{stack.what.capitalize()}s side by side, {unit.symbol.strip()}")
    return figure


def limit_names(stack: Stack) -> list[str]:
    """What stands beside each limit: `memory of a host, 256 GB`."""
    return [f"{limit.name}, {quantity(limit.value, stack.unit)}" for limit in stack.limits]


def _number(value: float) -> str:
    return count(value) if value >= 1e4 else f"{value:g}"


def _shown(bars: int, most: int) -> np.ndarray:
    """Indices of evenly chosen bars, at most a given number, the first and the last among them."""
    return np.unique(np.linspace(0, bars - 1, min(bars, max(2, most))).round().astype(np.int64))


def _colours(stack: Stack) -> list[tuple[str, float]]:
    """Colour and opacity of each layer: shades of one, except for what stands out."""
    plain = sum(not layer.stands_out for layer in stack.layers)
    found, shade, other = [], 0, 0
    for layer in stack.layers:
        if layer.stands_out:
            found.append((_STANDING_OUT[other % len(_STANDING_OUT)], 1.0))
            other += 1
        else:
            shade += 1
            found.append((MAIN, 0.2 + 0.6 * shade / plain))
    return found


_Entry = tuple[str, float, tuple[str, float]]


def _legend_rows(
    stack: Stack, colours: Sequence[tuple[str, float]], width_px: float
) -> list[list[_Entry]]:
    """Names of layers that are there, with place and colour, in as many rows as they need."""
    found: list[list[_Entry]] = []
    x_px = np.inf
    used = sizes_of(stack).any(axis=0)
    for index in reversed(np.flatnonzero(used).tolist()):
        name = stack.layers[index].name
        wide_px = _SWATCH_PX + 5 + text_width_px(name)
        if x_px + wide_px > width_px:
            found.append([])
            x_px = 2.0
        found[-1].append((name, x_px, colours[index]))
        x_px += wide_px + 14
    return found


def _write_legend(figure: Figure, legend: Sequence[Sequence[_Entry]]) -> None:
    width_px, height_px = 72 * figure.get_figwidth(), 72 * figure.get_figheight()
    for row, entries in enumerate(legend):
        y_px = 31 + _ROW_PX * row
        for name, x_px, (colour, alpha) in entries:
            corner = (x_px / width_px, 1 - y_px / height_px)
            figure.add_artist(
                Rectangle(
                    corner, _SWATCH_PX / width_px, _SWATCH_PX / height_px,
                    facecolor=colour, alpha=alpha, linewidth=0, transform=figure.transFigure,
                )
            )  # fmt: skip
            figure.text(
                (x_px + _SWATCH_PX + 5) / width_px, corner[1], name,
                color=INK, ha="left", va="baseline",
            )  # fmt: skip


def _draw_bars(
    axes: Axes, sizes: Floats, colours: Sequence[tuple[str, float]], *, gap: bool
) -> None:
    """Draw each layer as one shape, so that hundreds of bars stay a small file."""
    left = np.arange(len(sizes)) + (0.1 if gap else 0.0)
    right = np.arange(len(sizes)) + (0.9 if gap else 1.0)
    tops = np.cumsum(sizes, axis=1)
    for layer, (colour, alpha) in enumerate(colours):
        there = sizes[:, layer] > 0
        if not there.any():
            continue
        low, high = (tops[:, layer] - sizes[:, layer])[there], tops[there, layer]
        x0, x1 = left[there], right[there]
        corners = np.stack([x0, low, x0, high, x1, high, x1, low, x0, low], axis=1)
        one = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
        path = Path(corners.reshape(-1, 2), one * int(there.sum()))
        axes.add_patch(PathPatch(path, facecolor=colour, alpha=alpha, linewidth=0, zorder=2))


def _rank_axis(axes: Axes, stack: Stack, shown: int) -> None:
    """Number the bars from the highest on, as many as there are, shown or not."""
    ticks = [1, *(t for t in round_ticks(stack.count, about=8) if 1 < t <= stack.count)]
    places = {(rank - 1) * (shown - 1) / max(1, stack.count - 1) + 0.5: rank for rank in ticks}
    fixed_ticks(axes, "x", list(places), lambda value: count(places.get(value, 0)))
    chosen = "" if shown == stack.count else f"; {shown} of them shown"
    axes.set_xlabel(f"{count(stack.count)} {stack.what}s, the highest first{chosen}", labelpad=2)


def _limit(axes: Axes, name: str, value: float, *, beside: bool) -> None:
    axes.axhline(value, color=INK, linewidth=1.0, linestyle=(0, (4, 3)), zorder=3)
    place = (1, value) if beside else (0.995, value)
    axes.annotate(
        name, place, xycoords=("axes fraction", "data"), xytext=(5, 0) if beside else (0, 3),
        textcoords="offset points", va="center" if beside else "bottom",
        ha="left" if beside else "right", color=INK, zorder=5,
    )  # fmt: skip


def _point_at(
    axes: Axes, stack: Stack, shown: np.ndarray, totals: Floats, across_px: float
) -> None:
    """Mark flagged bars, and say what there is to say about the first of them."""
    flagged = [place for place, index in enumerate(shown) if stack.bars[index].flag]
    for place in flagged:
        axes.annotate(
            "▼", (place + 0.5, totals[place]), xytext=(0, 1), textcoords="offset points",
            ha="center", va="bottom", color=ACCENT, size=9, zorder=5,
        )  # fmt: skip
    labelled = flagged[:_MOST_LABELS]
    px_per_unit = _HEIGHT_PX / axes.get_ylim()[1]
    wanted = [totals[place] * px_per_unit + 12 for place in labelled]
    heights = spread_apart(wanted, TEXT_PX + 4, 0, _HEIGHT_PX + 8)
    # All to the right of the last mark, so that none covers another bar's.
    start_px = (labelled[-1] + 1) / len(shown) * across_px + 8 if labelled else 0.0
    for place, height_px in zip(labelled, heights, strict=True):
        index = int(shown[place])
        room_px = across_px - start_px
        text = next(
            (t for t in (said(stack, index), f"{stack.bars[index].name}: {stack.bars[index].flag}")
             if text_width_px(t) <= room_px), "",
        )  # fmt: skip
        axes.annotate(
            text, (start_px, height_px), xycoords="axes pixels", ha="left", va="center",
            color=ACCENT, zorder=5,
        )  # fmt: skip
