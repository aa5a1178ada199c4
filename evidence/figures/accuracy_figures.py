"""The figures of the accuracy page, from the committed results.

python -m evidence.figures.accuracy_figures
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

from forecache.reports.figures.canvas import house_style

from ..accuracy.accuracy_page import ladder_of
from ..accuracy.published_page import figure_file, results_of
from .cache_misses import cache_misses
from .published import published

_DOTS_PER_PIXEL = 2.0


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m evidence.figures.accuracy_figures")
    parser.add_argument("--results", type=Path, default=Path("docs/accuracy"))
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    given = parser.parse_args(arguments)
    ladders = {}
    for path in sorted(given.results.glob("live-*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        ladder = ladder_of(report)
        if ladder:
            ladders[f"{report['engine']['name']} {report['engine']['version']}"] = ladder
    if not ladders:
        print(f"{given.results}: found no live-*.json with a ladder of keys", file=sys.stderr)
        return 2
    _save(cache_misses(ladders), given.out / "cache-misses.png")
    for result in results_of(given.results):
        _save(published(result), given.out / figure_file(result["dataset"]["id"]))
    return 0


def _save(figure: Figure, path: Path) -> None:
    """The same results give the same bytes: no date, no version."""
    with house_style():
        figure.savefig(
            path,
            dpi=figure.dpi * _DOTS_PER_PIXEL,
            facecolor="white",
            metadata={"Software": None},
        )


if __name__ == "__main__":
    sys.exit(main())
