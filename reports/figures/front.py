"""Cost of capacity plans against the headroom that they leave."""

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


def front(points: list[FrontPoint], *, width_px: float = WIDE_PX) -> Figure | None:
    """Draw headroom against cost a month: all plans, the front as a line, the best in front.

    None where there are fewer than two points.
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
        axes.set_xlim(0, 1.04 * top)
        ticks = [tick for tick in round_ticks(top, about=4 if narrow else 7) if tick <= top]
        fixed_ticks(axes, "x", ticks, usd)
        fixed_ticks(axes, "y", [0, 0.25, 0.5, 0.75, 1.0], lambda value: f"{value * 100:.0f}%")
        axes.set_xlabel("a month", labelpad=2)
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
        axes.plot(
            [best.usd_per_month], [best.headroom], "o", color=ACCENT, markersize=10,
            markeredgecolor=PAPER, markeredgewidth=1.5, zorder=4,
        )  # fmt: skip
        axes.annotate(
            f"{best.setting.shards} × {best.setting.instance}",
            (best.usd_per_month, best.headroom), xytext=(8, -14), textcoords="offset points",
            color=ACCENT, weight="bold", ha="left" if best.usd_per_month < 0.6 * top else "right",
        )  # fmt: skip
        note = "line: nothing simulated has more for the money"
        header(figure, "Headroom at the horizon’s peak", note, color=INK)
    return figure
