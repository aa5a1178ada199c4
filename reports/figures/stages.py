"""Where a request's time goes: the stages of the path, by the thread that runs them."""

from matplotlib.figure import Figure

from forecache.models.results.points import Point

from .canvas import (
    HALF_PX,
    INK,
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
