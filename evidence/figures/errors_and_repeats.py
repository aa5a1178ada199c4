"""How far throughput is off, by what predictions knew, beside how far repeats are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from forecache.reports.figures.canvas import (
    MAIN,
    MUTED,
    WIDE_PX,
    add_axes,
    fixed_ticks,
    header,
    horizontal_grid,
    house_style,
    new_figure,
)

_HEIGHT_PX = 270.0
_TOP_PX, _BOTTOM_PX, _LEFT_PX, _GAP_PX = 62.0, 42.0, 40.0, 14.0
_LOWEST, _HIGHEST = 0.003, 2.0


def errors_and_repeats(
    tiers: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, width_px: float = WIDE_PX
) -> Figure:
    """Draw which share of points is off by no more than an error, in a panel for each tier.

    Parameters
    ----------
    tiers
        One or more: errors of its points, and how far their repeats differ, both relative.
    """
    with house_style():
        panel_px = (width_px - _LEFT_PX) / len(tiers)
        figure = None
        for number, (tier, (errors, repeats)) in enumerate(tiers.items()):
            left_px = _LEFT_PX + number * panel_px
            margins = {"left": left_px, "right": width_px - left_px - panel_px + _GAP_PX}
            margins |= {"top": _TOP_PX, "bottom": _BOTTOM_PX}
            if figure is None:
                figure, axes = new_figure(width_px, _HEIGHT_PX, **margins)
            else:
                axes = add_axes(figure, **margins)
            axes.set_xscale("log")
            axes.set_xlim(_LOWEST, _HIGHEST)
            axes.set_ylim(0.0, 1.0)
            horizontal_grid(axes)
            fixed_ticks(axes, "x", [0.01, 0.1, 1.0], lambda value: f"{value:.0%}")
            ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
            fixed_ticks(axes, "y", ticks, (lambda v: f"{v:.0%}") if not number else lambda _: "")
            for values, colour, width in ((repeats, MUTED, 1.2), (errors, MAIN, 1.8)):
                if len(values):
                    ordered = np.maximum(np.sort(values), _LOWEST)
                    shares = np.arange(1, len(ordered) + 1) / len(ordered)
                    axes.step(ordered, shares, where="post", color=colour, linewidth=width)
            axes.set_title(f"{tier}: {len(errors):,}", loc="left", fontsize=10, pad=4)
            axes.set_xlabel("at most", labelpad=2)
        assert figure is not None
        header(
            figure,
            "Share of points whose throughput is off by at most so much",
            "grey: share of points whose repeats differ by at most so much",
        )
    return figure
