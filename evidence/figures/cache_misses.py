"""CPU time of a GET against the number of keys: where the look-ups leave the caches."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from forecache.reports.figures.canvas import (
    ACCENT,
    IO,
    MAIN,
    MUTED,
    PAPER,
    WIDE_PX,
    fixed_ticks,
    header,
    horizontal_grid,
    house_style,
    new_figure,
)

_COLOURS = (MAIN, IO, ACCENT)
_HEIGHT_PX = 340.0

Ladder = Sequence[tuple[int, float, float]]
"""(keys, measured ns, predicted ns), in order."""


def cache_misses(ladders: Mapping[str, Ladder], *, width_px: float = WIDE_PX) -> Figure:
    """Draw measured points and predicted lines of each engine.

    Parameters
    ----------
    ladders
        By the engine's name, for up to three engines.
    """
    with house_style():
        figure, axes = new_figure(width_px, _HEIGHT_PX, left=46, right=120, top=36, bottom=42)
        axes.set_xscale("log")
        keys = sorted({row[0] for ladder in ladders.values() for row in ladder})
        axes.set_xlim(keys[0] / 1.3, keys[-1] * 1.3)
        top = max(max(row[1], row[2]) for ladder in ladders.values() for row in ladder)
        axes.set_ylim(0, 1.05 * top)
        horizontal_grid(axes)
        fixed_ticks(axes, "x", [100, 1e3, 1e4, 1e5, 1e6], lambda value: f"{value:,.0f}")
        axes.set_xlabel("keys of 64 B, GETs at pipeline 32", labelpad=2)
        ends = []
        for (name, ladder), colour in zip(ladders.items(), _COLOURS, strict=False):
            at, measured, predicted = zip(*ladder, strict=True)
            axes.plot(at, predicted, color=colour, linewidth=1.8, zorder=2)
            axes.plot(
                at, measured, linestyle="none", marker="o", markersize=6, color=colour,
                markeredgecolor=PAPER, zorder=3,
            )  # fmt: skip
            ends.append((predicted[-1], name, colour))
        apart = 0.065 * top
        y = -apart
        for end, name, colour in sorted(ends):
            y = max(end, y + apart)
            axes.annotate(
                name, (1.01, y), xycoords=("axes fraction", "data"), color=colour, va="center"
            )
        axes.annotate(
            "dots measured, lines predicted", (0.01, 0.97), xycoords="axes fraction", color=MUTED,
            va="top",
        )  # fmt: skip
        header(figure, "Server CPU per GET, ns")
    return figure
