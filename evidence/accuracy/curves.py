"""Published curves over io-threads, held to what was asked of them: errors, knees, regret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forecache.calibration.validate.comparison import label

from ..markdown import table
from .decisions import knee

Points = Sequence[Mapping[str, Any]]
"""Points of the artefact of `learned-hosts`."""

MEDIAN, WORST, ABOVE, REGRET = 0.06, 0.12, 0.1, 0.03
"""Wanted of a curve: its median error; its largest, but for a share `ABOVE` of its points, whose
error is less than two uncertainties then; what a knee that is more than a thread off gives up."""
MEMCACHED = 0.10, 0.25
REGRETS = 0.01, 0.05
"""Wanted of Memcached's error, and of the regret of all curves: median, worst."""

_CURVES_ON = "graviton4"
_LEAST_SETTINGS = 3


@dataclass(frozen=True)
class Curve:
    """Settings of one load that differ in io-threads only, from few threads to many."""

    dataset: str
    load: str
    members: Points

    def rates(self, kind: str) -> tuple[list[float], list[float]]:
        """Predicted and measured requests a second."""
        predicted = [point["predicted"][kind]["rps"] for point in self.members]
        return predicted, [point["observed_rps"] for point in self.members]

    def knees(self, kind: str) -> tuple[int, int]:
        """Fewest threads within 5% of the most throughput: as predicted, and as measured."""
        threads = [int(point["given"]["io_threads"]) for point in self.members]
        predicted, measured = (knee(rates) for rates in self.rates(kind))
        return threads[predicted], threads[measured]

    def regret(self, kind: str) -> float:
        """Share of the measured best that the recommended setting gives up."""
        predicted, measured = self.rates(kind)
        return 1.0 - measured[knee(predicted)] / max(measured)


def curves_of(points: Points) -> list[Curve]:
    """All curves with settings to choose from."""
    members: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for point in points:
        given = {k: v for k, v in point["given"].items() if k != "io_threads"}
        if "io_threads" in point["given"]:
            members.setdefault((point["dataset"], label(given)), []).append(point)
    return [
        Curve(*key, sorted(own, key=lambda point: int(point["given"]["io_threads"])))
        for key, own in members.items()
        if len(own) >= _LEAST_SETTINGS
    ]


def curves_section(points: Points) -> list[str]:
    """Each dataset with curves on Graviton4, and each curve, beside what was asked of it."""
    names = dict.fromkeys(p["dataset"] for p in points if p["host"] == _CURVES_ON)
    datasets = [[p for p in points if p["dataset"] == name] for name in names]
    curves = curves_of(points)
    with_curves = {curve.dataset for curve in curves}
    rows = [_dataset_row(own) for own in datasets if own[0]["dataset"] in with_curves]
    costs = [curve.regret("fit") for curve in curves]
    return [
        f"Curves on Graviton4 beside what is asked of them: a median error of at most"
        f" {MEDIAN:.0%} and none above {WORST:.0%}, but for one point in ten whose error is less"
        f" than two *u*; of Memcached, {MEMCACHED[0]:.0%} and {MEMCACHED[1]:.0%}.",
        "",
        *table(
            ["dataset", ">points", ">median", ">worst", f">above {WORST:.0%}"]
            + [">of these below 2 u", "holds"],
            rows,
        ),
        "",
        f"Knees are the fewest threads within 5% of the most throughput. Asked: within a thread, or"
        f" a regret of at most {REGRET:.0%}; over all curves a regret of {REGRETS[0]:.0%} in the"
        f" median and {REGRETS[1]:.0%} at worst, where it is {np.median(costs):.1%} and"
        f" {max(costs):.1%}.",
        "",
        *table(
            ["dataset", "load", ">knee measured", ">predicted", ">regret", "holds"],
            [_curve_row(curve) for curve in curves],
        ),
    ]


def _dataset_row(own: Points) -> list[str]:
    found = [point["predicted"]["fit"] for point in own]
    errors = np.abs([each["error"] for each in found])
    ratios = errors / np.array([each["uncertainty"] for each in found])
    above = errors > WORST
    excused = np.count_nonzero(above & (ratios < 2))
    if own[0]["engine"].startswith("memcached"):
        holds = np.median(errors) <= MEMCACHED[0] and errors.max() <= MEMCACHED[1]
    else:
        few = np.mean(above) <= ABOVE and excused == np.count_nonzero(above)
        holds = np.median(errors) <= MEDIAN and few
    return [
        f"`{own[0]['dataset']}`",
        str(len(own)),
        f"{np.median(errors):.1%}",
        f"{errors.max():.1%}",
        str(np.count_nonzero(above)),
        str(excused),
        "yes" if holds else "no",
    ]


def _curve_row(curve: Curve) -> list[str]:
    predicted, measured = curve.knees("fit")
    regret = curve.regret("fit")
    holds = abs(predicted - measured) <= 1 or regret <= REGRET
    return [
        f"`{curve.dataset}`",
        curve.load,
        str(measured),
        str(predicted),
        f"{regret:.1%}",
        "yes" if holds else "no",
    ]
