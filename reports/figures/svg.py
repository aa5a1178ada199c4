"""Figures as SVG that can stand inside a page.

Matplotlib numbers its elements the same way in every figure and writes a style sheet that would
apply to the whole page. `inline_svg` removes both, so that any number of figures share a page.
"""

import html
import io
import re
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from forecache.hwprofiles.files import write_text_atomic

from .canvas import CSS_NAMES, house_style

_REFERENCE = re.compile(r'(?:xlink:)?href="#([^"]+)"|url\(#([^)]+)\)')
_ID = re.compile(r'\s+id="([^"]*)"')


def svg_text(figure: Figure, *, outlines: bool = False) -> str:
    """Return a figure as an SVG file, which text is text in, or with `outlines` outlines."""
    buffer = io.StringIO()
    with house_style(), rc_context({"svg.fonttype": "path"} if outlines else {}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def write_svg(figure: Figure, path: Path) -> None:
    """Write a figure as a file of its own, in the colours of a light page."""
    write_text_atomic(path, svg_text(figure))


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
