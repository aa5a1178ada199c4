"""By how much ordinary windows of one point, and starts of one server, differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..bundle.bundle import Bundle
from ..bundle.points import ObservedPoint

DISTURBED_ERROR = 0.13
"""Relative error of CPU time in a disturbed window: root mean square of the difference between the
flagged and the quiet windows of a point, over the 31 points in `evidence/bundles/` and
`evidence/generations/` that have both."""

_LEAST = 1e-3
_MEDIAN = math.sqrt(math.pi / 2.0)


def observed_variation(bundle: Bundle) -> dict[str, Any]:
    """The fields of `Observed` that say so; what a bundle doesn't tell is left out."""
    points = [p for p in bundle.points if p.given.io_threads == 1 and p.given.rate_share is None]
    found = {"window": between_windows(points), "start": between_starts(bundle.manifest.starts)}
    undisturbed = float(np.median([point.undisturbed for point in points]))
    return {
        "variation": {name: float(f"{v:.3g}") for name, v in found.items() if v is not None},
        "undisturbed": float(f"{undisturbed:.4g}"),
    }


def between_windows(points: Sequence[ObservedPoint]) -> float | None:
    """Standard deviation of the logarithm of CPU time within points; None without repetitions."""
    variances = [
        np.log([r.server_cpu_ns_per_request for r in point.quiet_repetitions()]).var(ddof=1)
        for point in points
        if len(point.quiet_repetitions()) > 1
    ]
    return max(_LEAST, math.sqrt(float(np.mean(variances)))) if variances else None


def window_errors(points: Sequence[ObservedPoint]) -> np.ndarray:
    """(points,) standard error of the logarithm of each point's median, from all points' windows.

    That of a median is 1.25 times that of a mean.
    """
    window = between_windows(points) or 0.0
    windows = np.array([len(point.quiet_repetitions()) for point in points])
    return np.asarray(_MEDIAN * window / np.sqrt(windows))


def disturbance_errors(points: Sequence[ObservedPoint]) -> np.ndarray:
    """(points,) standard error of the logarithm of CPU time from whatever else ran on the host.

    Where some windows of a point were disturbed, so may be those in which nothing was noticed.
    """
    shares = [np.mean([not r.quiet for r in point.repetitions]) for point in points]
    return DISTURBED_ERROR * np.asarray(shares)


def between_starts(starts: Sequence[Sequence[float]]) -> float | None:
    """Standard deviation of the logarithm of CPU time between starts, that of windows apart.

    Parameters
    ----------
    starts
        CPU time of each window by start, as in a manifest; None is found in fewer than two.
    """
    logs = [np.log(windows) for windows in starts if len(windows)]
    if len(logs) < 2:
        return None
    within = [group.var(ddof=1) / len(group) for group in logs if len(group) > 1]
    between = float(np.var([group.mean() for group in logs], ddof=1))
    return max(_LEAST, math.sqrt(max(0.0, between - (float(np.mean(within)) if within else 0.0))))
