"""What the figures share: palette, axes laid out in pixels, ticks, labels that keep apart.

A figure is drawn at the width it will be shown at, one unit to a CSS pixel, so that its text has
the size of the text around it: a wide version for a screen or paper, a narrow one for a phone.
"""

import html
import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

WIDE_PX = 700
HALF_PX = 548
NARROW_PX = 358

TEXT_PX = 12.0
# An axis spans at most this ratio linearly; beyond it a logarithmic one is readable.
_LINEAR_RATIO = 12.0
_PX_PER_INCH = 72.0

# Okabe and Ito's colour-blind-safe set, darkened where it carries text on white.
INK = "#1a2430"
MUTED = "#5b6876"
RULE = "#d9dfe6"
SHADE = "#f1f3f6"
MAIN = "#0067a3"
IO = "#00805e"
GENERATOR = "#b26a00"
NETWORK = "#a3477f"
ACCENT = "#c84c00"
PAPER = "#fefefe"

# CSS variables that stand for the colours on the page, so that dark mode recolours the figures.
CSS_NAMES = {
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    SHADE: "shade",
    MAIN: "main",
    IO: "io",
    GENERATOR: "generator",
    NETWORK: "network",
    ACCENT: "accent",
    PAPER: "paper",
}

_RC: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": TEXT_PX,
    "svg.fonttype": "none",
    # The same study gives the same file.
    "svg.hashsalt": "forecache",
    # Names come from users: a dollar sign in one is a dollar sign.
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": TEXT_PX,
    "ytick.labelsize": TEXT_PX,
    "xtick.major.size": 4,
    "ytick.major.size": 0,
    "xtick.major.width": 0.8,
    "lines.linewidth": 2,
    "lines.solid_joinstyle": "round",
    "path.simplify": False,
    "legend.frameon": False,
}


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the figures' matplotlib settings; needed while drawing and while saving."""
    with matplotlib.rc_context(_RC):  # type: ignore[arg-type,unused-ignore]
        yield


def resource_colour(name: object) -> str:
    """Return the colour of a thread or resource, the same in every figure."""
    text = str(name).lower()
    if "generator" in text or "client" in text:
        return GENERATOR
    if "i/o" in text or "io thread" in text or text == "io" or "worker" in text:
        return IO
    if "net" in text or "kernel" in text or "interrupt" in text:
        return NETWORK
    if "main" in text:
        return MAIN
    return MUTED


class StyledFigure(Figure):
    """A figure that is saved in the house style, and that a notebook shows as SVG."""

    def savefig(self, fname: Any, **options: Any) -> None:
        """As of matplotlib; whether letters of SVG are text or outlines is up to the caller."""
        style = {key: value for key, value in _RC.items() if key != "svg.fonttype"}
        with matplotlib.rc_context(style):  # type: ignore[arg-type,unused-ignore]
            super().savefig(fname, **options)

    def _repr_svg_(self) -> str:
        """On light ground, since a notebook shows SVG as a picture, whose text is dark."""
        buffer = io.StringIO()
        with house_style():
            self.savefig(
                buffer, format="svg", facecolor=PAPER, metadata={"Date": None, "Creator": None}
            )
        svg = buffer.getvalue()
        # A unit of the figure is a pixel of the page, and fonts may be missing there.
        svg = re.sub(r'(width|height)="([\d.]+)pt"', r'\1="\2"', svg, count=2)
        svg = re.sub(r"(\d\.\d{2})\d+", r"\1", svg)
        svg = svg.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
        return svg[svg.index("<svg") :]


def new_figure(
    width_px: float, height_px: float, *, left: float, right: float, top: float, bottom: float
) -> tuple[StyledFigure, Axes]:
    """Return a figure and its axes with margins given in pixels."""
    figure = StyledFigure(
        figsize=(width_px / _PX_PER_INCH, height_px / _PX_PER_INCH), dpi=_PX_PER_INCH
    )
    return figure, add_axes(figure, left=left, right=right, top=top, bottom=bottom)


def add_axes(figure: Figure, *, left: float, right: float, top: float, bottom: float) -> Axes:
    """Add axes whose margins to the figure's edges are given in pixels."""
    width_px = figure.get_figwidth() * _PX_PER_INCH
    height_px = figure.get_figheight() * _PX_PER_INCH
    return figure.add_axes(
        (
            left / width_px,
            bottom / height_px,
            (width_px - left - right) / width_px,
            (height_px - top - bottom) / height_px,
        )
    )


def header(figure: Figure, text: str, note: str = "", *, x_px: float = 2, color: str = INK) -> None:
    """Write what the vertical axis shows at the top left, and a muted note below it."""
    width_px = figure.get_figwidth() * _PX_PER_INCH
    height_px = figure.get_figheight() * _PX_PER_INCH
    for line, y_px, colour in ((text, 13, color), (note, 29, MUTED)):
        if line:
            figure.text(
                x_px / width_px, 1 - y_px / height_px, line, color=colour, ha="left", va="baseline"
            )


def text_width_px(text: str, size_px: float = TEXT_PX) -> float:
    """Estimate the width of a line of sans-serif text, a little on the wide side."""
    return 0.58 * size_px * len(text)


def shortened(name: str, room_px: float) -> str:
    """Return a name that fits, its end left out if need be."""
    if text_width_px(name) <= room_px:
        return name
    longest = int(room_px / (0.58 * TEXT_PX))
    return name if len(name) <= longest else name[: max(longest - 1, 1)] + "…"


def horizontal_grid(axes: Axes) -> None:
    """Draw light rules at the vertical axis's ticks and hide its line."""
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)


def fixed_ticks(
    axes: Axes, which: str, ticks: Sequence[float], label: Callable[[float], str]
) -> None:
    """Put ticks of one axis (`"x"` or `"y"`) exactly at `ticks`, with no minor ones."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _position: label(value)))


def round_ticks(highest: float, *, about: int = 5) -> list[float]:
    """Return round tick values from zero to at least `highest`: steps of 1, 2, 2.5 or 5."""
    if not highest > 0:
        return [0.0, 1.0]
    raw = highest / about
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw * 0.999)
    return [i * step for i in range(math.ceil(highest / step - 1e-9) + 1)]


def log_ticks(low: float, high: float, *, most: int = 7) -> list[float]:
    """Return 1-2-5 ticks within [low, high] of a logarithmic axis, thinned to at most `most`."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for multiples in ((1, 2, 5), (1, 3), (1,)):
        ticks = [
            m * 10.0**power
            for power in range(first, last + 1)
            for m in multiples
            if low * 0.999 <= m * 10.0**power <= high * 1.001
        ]
        if len(ticks) <= most:
            break
    if len(ticks) >= 2:
        return ticks
    # Less than an octave or so: linear steps are the round ones.
    steps = round_ticks(high, about=math.ceil(3 * high / (high - low)))
    return [tick for tick in steps if low <= tick <= high] or ticks


def thinned(values: Sequence[float], span_px: float, *, gap_px: float = 22) -> list[float]:
    """Return the tick values that fit on `span_px` without touching; the ends stay."""
    if len(values) < 2 or values[-1] == values[0]:
        return list(values)
    scale = span_px / (values[-1] - values[0])
    kept = [values[0]]
    for value in values[1:-1]:
        if (value - kept[-1]) * scale >= gap_px and (values[-1] - value) * scale >= gap_px:
            kept.append(value)
    return [*kept, values[-1]]


def spread_apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move label positions apart to at least `gap`, keeping order and staying in [low, high]."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = [0.0] * len(wanted)
    previous = -math.inf
    for i in order:
        placed[i] = previous = max(wanted[i], previous + gap, low)
    ceiling = high
    for i in reversed(order):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - gap
    return placed


def value_axis(axes: Axes, low: float, high: float) -> None:
    """Scale the vertical axis from zero, or as logarithms where the values span too much.

    Parameters
    ----------
    low, high
        The least and the greatest value to show, both positive.
    """
    if high / low > _LINEAR_RATIO:
        axes.set_yscale("log")
        bottom, top = low / 1.25, high * 1.4
        axes.set_ylim(bottom, top)
        ticks = log_ticks(bottom, top)
    else:
        ticks = round_ticks(high * 1.05)
        axes.set_ylim(0, ticks[-1])
    fixed_ticks(axes, "y", ticks, lambda value: f"{value:g}")


def label_ends(axes: Axes, ends: Sequence[tuple[str, float, str]], span_px: float) -> None:
    """Name lines (name, last value, colour) at their right end, where they leave the axes."""
    fractions = []
    for _, end, _ in ends:
        place = float(axes.transAxes.inverted().transform(axes.transData.transform((0, end)))[1])
        fractions.append(min(max(place, 0.02), 0.98))
    placed = spread_apart(fractions, (TEXT_PX + 3) / span_px, 0.02, 0.98)
    for (name, _, colour), place in zip(ends, placed, strict=True):
        axes.annotate(
            name, (1, place), xycoords="axes fraction", xytext=(5, 0),
            textcoords="offset points", va="center", color=colour, weight="bold",
        )  # fmt: skip


def shade_ranges(axes: Axes, xs: Sequence[float], flagged: Sequence[bool]) -> bool:
    """Shade the parts of the x axis around flagged values; tell whether there were any.

    A part reaches half way to the neighbouring value that is not flagged.
    """
    low, high = axes.get_xlim()
    for i, flag in enumerate(flagged):
        if flag:
            start = (xs[i - 1] + xs[i]) / 2 if i else low
            end = (xs[i] + xs[i + 1]) / 2 if i + 1 < len(xs) else high
            axes.axvspan(start, end, color=SHADE, linewidth=0, zorder=0)
    return any(flagged)


# --- figures as SVG that can stand inside a page --------------------------------------------------

# Matplotlib numbers its elements the same way in every figure and writes a style sheet that would
# apply to the whole page. `inline_svg` removes both, so that any number of figures share a page.


_REFERENCE = re.compile(r'(?:xlink:)?href="#([^"]+)"|url\(#([^)]+)\)')
_ID = re.compile(r'\s+id="([^"]*)"')


def svg_text(figure: Figure, *, outlines: bool = False) -> str:
    """Return a figure as an SVG file, which text is text in, or with `outlines` outlines."""
    buffer = io.StringIO()
    with house_style(), rc_context({"svg.fonttype": "path"} if outlines else {}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def inline_svg(figure: Figure, *, prefix: str, label: str) -> str:
    """Return `<svg>…</svg>` to put into an HTML page.

    Parameters
    ----------
    figure
        A figure from this package.
    prefix
        Starts every id in the result; two figures of one page need two prefixes.
    label
        What a screen reader says instead of the picture.

    Returns
    -------
    str
        Scales to the width of its container, holds text as text in the page's sans-serif font,
        refers to nothing outside itself, and takes its colours from the page's CSS variables.
    """
    text = svg_text(figure)
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.S)
    used = {a or b for a, b in _REFERENCE.findall(text)}
    text = _ID.sub(lambda m: f' id="{prefix}-{m[1]}"' if m[1] in used else "", text)
    text = _REFERENCE.sub(
        lambda m: f'href="#{prefix}-{m[1]}"' if m[1] else f"url(#{prefix}-{m[2]})", text
    )
    text = re.sub(r"font-family: [^;\"]*;?\s*", "", text)
    text = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", text)
    text = re.sub(r"(\d\.\d{2})\d+", r"\1", text)
    for colour, name in CSS_NAMES.items():
        text = text.replace(colour, f"var(--{name},{colour})")
    text = re.sub(r"[ \t]*\n\s*", "\n", text)
    text = re.sub(r"<g>\n</g>\n?", "", text)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    width, height = (size[1], size[2]) if size else ("100", "100")
    root = (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(label)}" '
        'stroke-linejoin="round" preserveAspectRatio="xMidYMid meet">'
    )
    return root + text[text.index(">") + 1 :].strip()
