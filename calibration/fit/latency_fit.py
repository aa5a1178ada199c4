"""What shapes latency without costing CPU time: fitted with the simulation in the loop.

How long a sleeper takes to run after it was woken shows in no thread's CPU time. It is fitted to
the median latency of points with role fit where a request mostly waits for a thread to wake: open
loops well below saturation, and closed loops of a handful of clients. All simulations share their
random streams, so that the medians are a smooth function of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from forecache.hwprofiles.quantity import Quantity
from forecache.hwprofiles.schema import HostProfile

from ..bundle.points import ObservedPoint
from .fit import Calibration
from .simulated import predict_points

Progress = Callable[[str], None]

MEDIAN_ERROR = 0.05
"""Relative standard error of an observed median latency."""

PRIOR_ERROR = 0.4
"""Standard error of the logarithm of the wake latency: the capture wakes one thread at a time,
after longer sleeps."""

FEW_CLIENTS = 4
"""Clients of a closed loop up to which both sides sleep between requests."""

HIGHEST_LOAD = 0.7
"""Share of saturation above which queues, not wake-ups, make the median."""


def fit_wake_latency(fitted: Calibration, *, progress: Progress | None = None) -> Calibration:
    """The calibration with the wake latency that fits the medians; unchanged where none tells."""
    points = [point for point in fitted.bundle.points if _tells(point)]
    if not points:
        return fitted
    if progress is not None:
        progress(f"fitting the wake latency to {len(points)} open loops")
    observed = np.log([_median_ms(point) for point in points])

    def cost(log: float) -> float:
        changed = replace(fitted, host=_with_wake_latency(fitted.host, math.exp(log)))
        predictions = predict_points(changed, points, draws=0)
        simulated = np.log([prediction.mean("p50_ms") for prediction in predictions])
        misfit = np.sum(((simulated - observed) / MEDIAN_ERROR) ** 2)
        return float(misfit) + (log / PRIOR_ERROR) ** 2

    best = minimize_scalar(cost, bounds=(-1.2, 1.2), method="bounded", options={"xatol": 0.01})
    host = _with_wake_latency(fitted.host, math.exp(float(best.x)))
    observed_on = fitted.profile.observed
    assert observed_on is not None  # a fitted profile says where
    speed = {**observed_on.speed, "wake_latency_ns": host.kernel.wake_latency_ns.best}
    update = {"observed": observed_on.model_copy(update={"speed": speed})}
    return replace(fitted, host=host, profile=fitted.profile.model_copy(update=update))


def quiet_ms(point: ObservedPoint, name: str) -> float:
    """Median over repetitions of a latency in slices in which the host kept still; nan if none."""
    values = [getattr(repetition, f"quiet_{name}_ms") for repetition in point.repetitions]
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else math.nan


def _median_ms(point: ObservedPoint) -> float:
    """Observed median latency; nan where there is none."""
    return quiet_ms(point, "p50") if point.given.rate_share else point.median("p50_ms")


def _tells(point: ObservedPoint) -> bool:
    """Whether a point's latency is mostly that of waking up."""
    given = point.given
    if given.role != "fit" or math.isnan(_median_ms(point)):
        return False
    if given.rate_share is not None:
        return given.rate_share <= HIGHEST_LOAD
    pauses = given.think_us > 0 or given.arrival == "open_loop"
    return given.pipeline == 1 and given.clients <= FEW_CLIENTS and not pauses


def _with_wake_latency(host: HostProfile, factor: float) -> HostProfile:
    old = host.kernel.wake_latency_ns
    leaf = Quantity(
        value=float(f"{old.best * factor:.4g}"),
        unit=old.unit,
        kind="fitted",
        source="bundle",
        method="fitted to median latencies of open loops, the simulation in the loop",
    )
    kernel = host.kernel.model_copy(update={"wake_latency_ns": leaf})
    return host.model_copy(update={"kernel": kernel})
