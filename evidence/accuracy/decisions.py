"""Decision accuracy: how often the recommended number of threads is the measured best."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecache.calibration.validate.comparison import series_of
from forecache.models.advice.objective import KNEE

from .published_page import points_of, results_of

LEAST_SETTINGS = 3
"""Fewer settings are hardly a choice."""


@dataclass(frozen=True)
class Decision:
    """One measured series of settings that differ in io-threads only.

    Attributes
    ----------
    best
        The setting with the most throughput, as measured.
    wanted, recommended
        The fewest threads within 5% of the most throughput, which is the rule of `recommend`: by
        what was measured, and by what was predicted.
    cost
        Share of the measured best throughput that is given up at the recommended setting.
    """

    dataset: str
    series: str
    settings: int
    best: int
    wanted: int
    recommended: int
    cost: float

    @property
    def as_measured(self) -> bool:
        """Whether measurements would have chosen the same."""
        return self.wanted == self.recommended

    @property
    def good(self) -> bool:
        """Whether the setting is one of the best: within the tolerance of the rule itself."""
        return self.cost <= 1.0 - KNEE


def decisions(out: Path) -> list[Decision]:
    """All series of `published-*.json` with settings to choose from."""
    found = []
    for result in results_of(out):
        for name, members in series_of(points_of(result)).items():
            threads = [int(point.given["io_threads"]) for point in members]
            if len(members) < LEAST_SETTINGS:
                continue
            measured = [point.observed["throughput_rps"] for point in members]
            predicted = [point.predicted["throughput_rps"].value for point in members]
            chosen = knee(predicted)
            found.append(
                Decision(
                    result["dataset"]["id"],
                    name,
                    len(members),
                    threads[measured.index(max(measured))],
                    threads[knee(measured)],
                    threads[chosen],
                    1.0 - measured[chosen] / max(measured),
                )
            )
    return found


def knee(throughput: Sequence[float]) -> int:
    """Position of the first setting close enough to the best."""
    return next(i for i, rate in enumerate(throughput) if rate >= KNEE * max(throughput))


def summary_of(made: list[Decision]) -> dict[str, Any]:
    """How many were right, and what following all of them costs."""
    if not made:
        return {"series": 0}
    costs = [each.cost for each in made]
    return {
        "series": len(made),
        "best": sum(each.best == each.recommended for each in made),
        "as_measured": sum(each.as_measured for each in made),
        "good": sum(each.good for each in made),
        "median_cost": float(f"{statistics.median(costs):.4g}"),
        "worst_cost": float(f"{max(costs):.4g}"),
    }
