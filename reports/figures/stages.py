"""Where a request's time goes: the stages of the path, by the thread that runs them."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from forecache.models.advice.sensitivity import InputIndex, Sensitivity
from forecache.models.results.points import Point

from ..text.points import input_name, sensitivity_groups, sensitivity_title, share_with_bounds
from .canvas import (
    HALF_PX,
    INK,
    IO,
    MAIN,
    MUTED,
    header,
    house_style,
    new_figure,
    resource_colour,
    shortened,
    text_width_px,
)

_ROW_PX = 21.0
_GROUP_PX = 27.0


def stage_groups(point: Point) -> list[tuple[str, list[tuple[str, float]]]]:
    """Return (thread, [(stage, µs per request)]) in the order of first appearance."""
    groups: dict[str, list[tuple[str, float]]] = {}
    for row in point.stages:
        groups.setdefault(row.thread, []).append((row.stage, row.us_per_request))
    return list(groups.items())


def stages(point: Point, *, width_px: float = HALF_PX) -> Figure | None:
    """Draw the time of each stage as a bar, in µs per request.

    Returns
    -------
    Figure or None
        None when the point lists no stages.
    """
    groups = stage_groups(point)
    if not groups:
        return None
    names = [name for _, group in groups for name, _ in group]
    longest = max(text_width_px(name) for name in names)
    left = min(max(longest + 10, 60), 0.42 * width_px)
    body_px = _GROUP_PX * len(groups) + _ROW_PX * len(names)
    peak = max(time for _, group in groups for _, time in group) or 1.0
    with house_style():
        figure, axes = new_figure(width_px, body_px + 36, left=left, right=52, top=24, bottom=12)
        axes.set_xlim(0, peak)
        axes.set_ylim(body_px, 0)
        axes.set_axis_off()
        y = 0.0
        for thread, group in groups:
            colour = resource_colour(thread)
            total = sum(time for _, time in group)
            y += _GROUP_PX
            axes.annotate(
                f"{_thread_title(thread)}: {total:.2f} µs", (-left + 2, y - 7),
                xycoords=("axes points", "data"), color=colour, weight="bold", va="baseline",
                annotation_clip=False,
            )  # fmt: skip
            for name, time in group:
                y += _ROW_PX
                axes.barh(y - 7, time, height=12, color=colour, linewidth=0)
                axes.annotate(
                    shortened(name, left - 10), (0, y - 3), xytext=(-6, 0),
                    textcoords="offset points", ha="right", color=INK,
                )  # fmt: skip
                axes.annotate(
                    f"{time:.2f}" if time >= 0.005 or time == 0 else "<0.01", (time, y - 3),
                    xytext=(4, 0), textcoords="offset points", color=MUTED,
                )  # fmt: skip
        header(figure, "Processor time, µs per request")
    return figure


def _thread_title(thread: str) -> str:
    return {
        "i/o": "I/O threads",
        "io": "I/O threads",
        "main": "Main thread",
        "worker": "Worker threads",
    }.get(thread.lower(), thread[:1].upper() + thread[1:])


# --- which inputs move an answer -----------------------------------------------------------------


_ROW_PX = 21.0
_GROUP_PX = 27.0
_LABEL_PX = 96.0
_COLOURS = (MAIN, IO)
_NOTE = "Share of the variance that is left if all others are known, 95%"


def sensitivity(found: Sensitivity, *, width_px: float = HALF_PX) -> Figure | None:
    """Draw the total-order index of each input, uncertain numbers and choices apart.

    Returns
    -------
    Figure or None
        None when nothing moves the answer.
    """
    groups = [(name, each.indices) for name, each in sensitivity_groups(found) if each.indices]
    rows = [row for _, group in groups for row in group]
    if not rows:
        return None
    longest = max(text_width_px(input_name(row)) for row in rows)
    left = min(max(longest + 10, 60), 0.5 * width_px)
    body_px = _GROUP_PX * len(groups) + _ROW_PX * len(rows)
    with house_style():
        figure, axes = new_figure(
            width_px, body_px + 52, left=left, right=_LABEL_PX, top=40, bottom=12
        )
        axes.set_xlim(0, max(row.total.high for row in rows) or 1.0)
        axes.set_ylim(body_px, 0)
        axes.set_axis_off()
        y = 0.0
        for (name, group), colour in zip(groups, _COLOURS, strict=False):
            y += _GROUP_PX
            axes.annotate(
                name, (-left + 2, y - 7), xycoords=("axes points", "data"), color=colour,
                weight="bold", va="baseline", annotation_clip=False,
            )  # fmt: skip
            for row in group:
                y += _ROW_PX
                _draw(row, axes, y_px=y, colour=colour, left_px=left)
        header(figure, sensitivity_title(found), _NOTE)
    return figure


def _draw(row: InputIndex, axes: Axes, *, y_px: float, colour: str, left_px: float) -> None:
    total = row.total
    axes.barh(y_px - 7, total.value, height=10, color=colour, linewidth=0)
    axes.plot([total.low, total.high], [y_px - 7] * 2, color=INK, linewidth=1.2)
    axes.annotate(
        shortened(input_name(row), left_px - 10), (0, y_px - 3), xytext=(-6, 0),
        textcoords="offset points", ha="right", color=INK,
    )  # fmt: skip
    axes.annotate(
        share_with_bounds(row), (total.high, y_px - 3), xytext=(4, 0),
        textcoords="offset points", color=MUTED, annotation_clip=False,
    )  # fmt: skip
