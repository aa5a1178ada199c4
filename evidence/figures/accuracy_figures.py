"""The figures of the accuracy pages, from the committed results."""

from __future__ import annotations

import io
import json
from pathlib import Path

from matplotlib.figure import Figure

from forecache.reports.figures.canvas import house_style

from ..accuracy.accuracy_page import ladder_of
from ..accuracy.published_page import figure_file, results_of
from ..harness import Files
from .cache_misses import cache_misses
from .published import published

_DOTS_PER_PIXEL = 2.0


def figures(results: Path = Path("docs/accuracy"), out: Path = Path("docs/images")) -> Files:
    """A figure of all ladders of keys, and one of every published dataset."""
    ladders = {}
    for path in sorted(results.glob("live-*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        ladder = ladder_of(report)
        if ladder:
            ladders[f"{report['engine']['name']} {report['engine']['version']}"] = ladder
    drawn: dict[Path, bytes] = {}
    if ladders:
        drawn[out / "cache-misses.png"] = _png(cache_misses(ladders))
    for result in results_of(results):
        drawn[out / figure_file(result["dataset"]["id"])] = _png(published(result))
    return drawn


def _png(figure: Figure) -> bytes:
    """The same results give the same bytes: no date, no version."""
    drawn = io.BytesIO()
    with house_style():
        figure.savefig(
            drawn,
            format="png",
            dpi=figure.dpi * _DOTS_PER_PIXEL,
            facecolor="white",
            metadata={"Software": None},
        )
    return drawn.getvalue()
