"""Memory latency of the host by working set."""

import re

from matplotlib.figure import Figure

from ..study_answer import HostNumbers
from ..text.formats import byte_size
from .canvas import (
    HALF_PX,
    MAIN,
    MUTED,
    PAPER,
    RULE,
    fixed_ticks,
    header,
    horizontal_grid,
    house_style,
    log_ticks,
    new_figure,
)

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
