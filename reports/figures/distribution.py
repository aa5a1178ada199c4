"""The whole distribution of a latency: which share of requests takes longer."""

import numpy as np
from matplotlib.figure import Figure

from forecache.models.results.latency import LatencyDistribution

from ..text.formats import milliseconds, time_unit
from .canvas import (
    HALF_PX,
    INK,
    MAIN,
    MUTED,
    fixed_ticks,
    header,
    horizontal_grid,
    house_style,
    log_ticks,
    new_figure,
)

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
