"""Values against time, with what happened meanwhile."""

from collections.abc import Sequence
from itertools import groupby, pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from forecache.models.results.series import Floats, Series, Ticks

from ..text.formats import Unit, count, is_count, quantity_unit
from ..text.runs import Moment, Panel
from .canvas import (
    ACCENT,
    GENERATOR,
    INK,
    IO,
    MAIN,
    MUTED,
    NETWORK,
    TEXT_PX,
    fixed_ticks,
    header,
    horizontal_grid,
    house_style,
    label_ends,
    new_figure,
    round_ticks,
    text_width_px,
    value_axis,
)

PLOT_PX = 1000
_PLOT_HEIGHT_PX = 150.0
_COLOURS = (MAIN, GENERATOR, IO, NETWORK, ACCENT, INK, MUTED)
_DASHES = ("solid", (0, (5, 2)), (0, (1, 1.5)))
# Names longer than this stand above the plot, not beside the lines.
_MOST_LABEL_PX = 190.0
_NARROWEST_LABELLED_PX = 480.0
_MARK_GAP_PX = 18.0
_LEFT_PX = 56
_RUG_PX = 14.0

_TIME_STEPS_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30),
    *(60 * m for m in (1, 2, 5, 10, 15, 20, 30)),
    *(3600 * h for h in (1, 2, 3, 4, 6, 8, 12, 24, 48, 96)),
)


def time_ticks(start_s: float, end_s: float, *, about: int) -> tuple[list[float], float, str]:
    """Ticks for an axis of times, what a tick's seconds are divided by, and the unit's name."""
    span_s = end_s - start_s
    step_s = next((s for s in _TIME_STEPS_S if s * about >= span_s), span_s / about)
    first = int(np.ceil(start_s / step_s - 1e-9))
    last = int(np.floor(end_s / step_s + 1e-9))
    ticks = [i * step_s for i in range(first, last + 1)]
    for least_s, divisor, name in ((7200, 3600.0, "h"), (600, 60.0, "min"), (0.5, 1.0, "s")):
        if span_s >= least_s:
            return ticks, divisor, name
    return ticks, 0.001, "ms"


def thinned_line(times_s: Floats, values: Floats, most: int) -> tuple[Floats, Floats]:
    """At most about `most` points of a line, with the extremes of every stretch and its gaps."""
    stretches = max(1, most // 4)
    if times_s.size <= most:
        return times_s, values
    edges = np.linspace(times_s[0], times_s[-1], stretches + 1)[1:-1]
    kept: list[int] = []
    bounds = [0, *np.searchsorted(times_s, edges), times_s.size]
    for start, end in pairwise(bounds):
        part = values[start:end]
        if not part.size:
            continue
        chosen = {start, end - 1}
        missing = np.isnan(part)
        if missing.any():
            chosen.add(start + int(np.argmax(missing)))
        if not missing.all():
            chosen |= {start + int(np.nanargmin(part)), start + int(np.nanargmax(part))}
        kept += sorted(chosen)
    return times_s[kept], values[kept]


def right_margin_px(panels: Sequence[Panel], others: Sequence[str] = ()) -> float:
    """The margin for the names of lines, and others, the same for all plots below each other."""
    names = [line.name for panel in panels for line in panel.lines]
    widest = max(map(text_width_px, (*names, *others)), default=0.0)
    return widest + 14 if widest <= _MOST_LABEL_PX else 14.0


def over_time(
    panel: Panel,
    times_s: Floats,
    moments: Sequence[Moment],
    *,
    highest: float,
    lowest_positive: float,
    margin_px: float | None = None,
    panels: Sequence[Panel] = (),
    ticks: Sequence[Ticks] = (),
    width_px: float = PLOT_PX,
) -> Figure | None:
    """Draw the lines of one panel over time; dashed verticals with numbers are the moments.

    What happens often is a row of ticks below the plot, the taller the more often.

    Parameters
    ----------
    highest, lowest_positive
        The values that the vertical axis covers: those of all plots it is to be compared with.
    margin_px
        Room to the right, for the names of the lines where it suffices for them. If left out, as
        much as those of `panels` need, all plots that stand below each other.

    Returns
    -------
    Figure or None
        None when no line has a value, or all are at one time.
    """
    lines = [line for line in panel.lines if line.finite.size]
    if not lines or times_s.size < 2 or times_s[-1] <= times_s[0]:
        return None
    unit = quantity_unit(panel.unit, highest)
    if is_count(panel.unit) and highest < 1e6:
        unit = Unit(1.0, 0, panel.unit)
    if margin_px is None:
        margin_px = right_margin_px(panels or [panel], [row.name for row in ticks])
    beside = width_px >= _NARROWEST_LABELLED_PX and margin_px > 14
    names = [] if beside else _name_rows(lines, width_px)
    top = 34.0 + 16 * len(names)
    bottom = 40 + _RUG_PX * len(ticks)
    with house_style():
        figure, axes = new_figure(
            width_px,
            _PLOT_HEIGHT_PX + top + bottom,
            left=_LEFT_PX,
            right=margin_px if beside else 14,
            top=top,
            bottom=bottom,
        )
        axes.set_xlim(float(times_s[0]), float(times_s[-1]))
        for row, found in enumerate(ticks):
            _rug(axes, times_s, found, row, beside=beside)
        axes.tick_params(axis="x", pad=3.5 + _RUG_PX * len(ticks))
        _time_axis(axes, width_px)
        logarithmic = _value_axis(axes, panel, highest, lowest_positive, unit.divisor)
        horizontal_grid(axes)
        _mark_moments(axes, moments)
        ends = []
        for index, line in enumerate(lines):
            ends.append(
                (line.name, _draw(axes, line, times_s, index, unit.divisor), _colour(index))
            )
        if beside:
            label_ends(axes, ends, _PLOT_HEIGHT_PX)
        for row, line_names in enumerate(names):
            for name, x_px, index in line_names:
                _write(figure, name, x_px, 29 + 16 * row, _colour(index))
        shown = ", ".join(
            word for word in (unit.symbol.strip(), "log scale" if logarithmic else "") if word
        )
        header(figure, f"{panel.title}, {shown}" if shown else panel.title)
    return figure


def _rug(axes: Axes, times_s: Floats, ticks: Ticks, row: int, *, beside: bool) -> None:
    """Draw one row of ticks below the axis, named at its right end where there is room."""
    there = ticks.counts > 0
    lowest = -(_RUG_PX * (row + 1) - 1) / _PLOT_HEIGHT_PX
    share = ticks.counts[there] / ticks.counts.max()
    height = (_RUG_PX - 4) / _PLOT_HEIGHT_PX * (0.5 + 0.5 * share)
    axes.vlines(
        times_s[there], lowest, lowest + height, color=ACCENT, linewidth=1.0, clip_on=False,
        transform=axes.get_xaxis_transform(), zorder=3,
    )  # fmt: skip
    if beside:
        axes.annotate(
            ticks.name, (1, lowest), xycoords="axes fraction", xytext=(5, 0),
            textcoords="offset points", va="center", color=ACCENT, annotation_clip=False,
        )  # fmt: skip


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]


def _draw(axes: Axes, line: Series, times_s: Floats, index: int, divisor: float) -> float:
    """Draw one line and return its last value."""
    width_px = axes.get_window_extent().width
    xs, ys = thinned_line(times_s, line.values / divisor, int(2 * width_px))
    axes.plot(
        xs,
        ys,
        color=_colour(index),
        # Where lines coincide, the ones below show on both sides of those above.
        linewidth=max(1.4, 3.0 - 0.7 * index),
        linestyle=_DASHES[index // len(_COLOURS) % len(_DASHES)],
        zorder=3 + index,
    )
    return float(line.finite[-1]) / divisor


def _name_rows(lines: Sequence[Series], width_px: float) -> list[list[tuple[str, float, int]]]:
    """Names of lines (with place and index) in as many rows as they need."""
    found: list[list[tuple[str, float, int]]] = []
    x_px = np.inf
    for index, line in enumerate(lines):
        wide_px = text_width_px(line.name)
        if x_px + wide_px > width_px:
            found.append([])
            x_px = 2.0
        found[-1].append((line.name, x_px, index))
        x_px += wide_px + 16
    return found


def _write(figure: Figure, text: str, x_px: float, y_px: float, colour: str) -> None:
    width_px, height_px = 72 * figure.get_figwidth(), 72 * figure.get_figheight()
    figure.text(
        x_px / width_px, 1 - y_px / height_px, text, color=colour, ha="left", va="baseline",
        weight="bold",
    )  # fmt: skip


def _time_axis(axes: Axes, width_px: float) -> None:
    start_s, end_s = axes.get_xlim()
    ticks, divisor, name = time_ticks(start_s, end_s, about=5 if width_px < 480 else 10)
    fixed_ticks(axes, "x", ticks, lambda value: f"{value / divisor:.10g}")
    axes.set_xlabel(f"time, {name}", labelpad=2)


def _value_axis(
    axes: Axes, panel: Panel, highest: float, lowest_positive: float, divisor: float
) -> bool:
    """Scale the vertical axis and tell whether it is logarithmic: latencies may be."""
    positive = 0 < lowest_positive <= highest
    if panel.name == "latency" and positive:
        value_axis(axes, lowest_positive / divisor, highest / divisor)
        return axes.get_yscale() == "log"
    ticks = round_ticks(highest / divisor, about=4)
    axes.set_ylim(0, ticks[-1])
    fixed_ticks(axes, "y", ticks, lambda value: count(value) if value >= 1e4 else f"{value:g}")
    return False


def _mark_moments(axes: Axes, moments: Sequence[Moment]) -> None:
    """Draw a dashed line at each moment; the numbers of near ones share a label."""
    start_s, end_s = axes.get_xlim()
    shown = [moment for moment in moments if start_s <= moment.time_s <= end_s]
    for moment in shown:
        axes.axvline(moment.time_s, color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    px_per_s = axes.get_window_extent().width / (end_s - start_s)
    places: list[float] = []
    for moment in shown:
        near = places and (moment.time_s - places[-1]) * px_per_s < _MARK_GAP_PX + (
            TEXT_PX if len(shown) > 9 else 0
        )
        places.append(places[-1] if near else moment.time_s)
    for place, group in groupby(zip(places, shown, strict=True), key=lambda pair: pair[0]):
        numbers = [moment.number for _, moment in group]
        label = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"
        left = (place - start_s) * px_per_s < 8
        axes.annotate(
            label, (place, 1), xycoords=("data", "axes fraction"), xytext=(0, 3),
            textcoords="offset points", ha="left" if left else "center", color=MUTED,
        )  # fmt: skip
