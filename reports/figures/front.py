"""Cost of the nodes of capacity plans against the headroom that they leave."""

import math

from matplotlib.figure import Figure

from forecache.models.plan.results import FrontPoint

from ..text.plans import usd
from .canvas import (
    ACCENT,
    INK,
    MAIN,
    MUTED,
    PAPER,
    WIDE_PX,
    fixed_ticks,
    header,
    horizontal_grid,
    house_style,
    new_figure,
    round_ticks,
)

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
