"""Figures of a study, drawn with matplotlib.

Each function takes a part of a study and a width in pixels, and returns a matplotlib figure, or
None when that part holds nothing to draw. `inline_svg` puts a figure into a page.
To add a figure, write a function like these and draw it in one of the `builders`.
"""

from .accuracy import accuracy, memory_latency
from .canvas import HALF_PX, NARROW_PX, WIDE_PX, house_style, inline_svg, svg_text
from .capacity import front, growth, scaling, utilisation
from .curves import curves
from .latency import latency_by_load, latency_ccdf
from .over_time import PLOT_PX, over_time, right_margin_px
from .stacked import limit_names, stacked
from .stages import sensitivity, stages

__all__ = [
    "HALF_PX",
    "NARROW_PX",
    "PLOT_PX",
    "WIDE_PX",
    "accuracy",
    "curves",
    "front",
    "growth",
    "house_style",
    "inline_svg",
    "latency_by_load",
    "latency_ccdf",
    "limit_names",
    "memory_latency",
    "over_time",
    "right_margin_px",
    "scaling",
    "sensitivity",
    "stacked",
    "stages",
    "svg_text",
    "utilisation",
]
