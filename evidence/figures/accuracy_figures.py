"""The figures of the accuracy pages, from the committed results."""

from __future__ import annotations

import io
import json
from pathlib import Path

from matplotlib.figure import Figure

from forecache.calibration.fit.report import THROUGHPUT
from forecache.reports.figures.canvas import house_style

from ..accuracy.accuracy_page import ladder_of
from ..accuracy.checked import checked_points
from ..accuracy.compared import CATALOGUE, TIERS
from ..accuracy.published_page import figure_file, results_of
from ..harness import Files
from .cache_misses import cache_misses
from .errors_and_repeats import errors_and_repeats
from .published import published

_DOTS_PER_PIXEL = 2.0


def figures(results: Path = Path("docs/accuracy"), out: Path = Path("docs/images")) -> Files:
    """Figures of errors by tier, of all ladders of keys, and of every published dataset."""
    ladders = {}
    for path in sorted(results.glob("live-*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        ladder = ladder_of(report)
        if ladder:
            ladders[f"{report['engine']['name']} {report['engine']['version']}"] = ladder
    drawn: dict[Path, bytes] = {}
    if ladders:
        drawn[out / "cache-misses.png"] = _png(cache_misses(ladders))
    tiers: dict[str, tuple[list[float], list[float]]] = {}
    for point in checked_points(results):
        if point.place.quantity == THROUGHPUT:
            errors, repeats = tiers.setdefault(point.tier, ([], []))
            errors.append(point.error)
            # What sources state is one number for all of their points.
            if point.repeat is not None and point.tier != CATALOGUE:
                repeats.append(point.repeat)
    in_order = {tier: tiers[tier] for tier in TIERS if tier in tiers}
    drawn[out / "accuracy.png"] = _png(errors_and_repeats(in_order))
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
