"""What `observe` answers: the points of a bundle, each as the median of its repetitions."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from forecache.sim.plain import Result

from .bundle import Bundle, Manifest
from .points import Conditions

_MEDIANS = (
    "throughput_rps",
    "mean_ms",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "p999_ms",
    "server_cpu_ns_per_request",
    "main_thread_utilisation",
    "generator_utilisation",
)


@dataclass(frozen=True)
class ObservedMedians(Result):
    """Medians of a point over its repetitions; None of what a benchmark tool doesn't report."""

    given: Conditions
    throughput_rps: float | None
    mean_ms: float | None
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    server_cpu_ns_per_request: float | None
    main_thread_utilisation: float | None
    """From 0 to 1, as the next."""
    generator_utilisation: float | None
    repetitions: int
    flags: list[str]
    """What disturbed some of them."""


@dataclass(frozen=True)
class BundleSummary(Result):
    """What was run, and what was observed."""

    bundle: str
    """Its path."""
    manifest: Manifest
    """Engine, machine, method, depth and warnings."""
    points: list[ObservedMedians]


def bundle_summary(bundle: Bundle) -> BundleSummary:
    """What was run and the median of every point over its repetitions."""
    points = [
        ObservedMedians(
            given=point.given,
            **{name: _median(point.repetitions, name) for name in _MEDIANS},
            repetitions=len(point.repetitions),
            flags=sorted({flag for row in point.repetitions for flag in row.flags}),
        )
        for point in bundle.points
    ]
    return BundleSummary(str(bundle.path), bundle.manifest, points)


def _median(repetitions: Iterable[Any], name: str) -> float | None:
    """The median of what is known."""
    known = [value for row in repetitions if (value := getattr(row, name)) is not None]
    return statistics.median(known) if known else None
