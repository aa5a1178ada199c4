"""Fit a bundle, then let the simulation predict every observed point and say how well it does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.profile import EngineProfile
from forecache.models.prediction.predict import SERVER_CPU, Prediction

from ..bundle.bundle import Bundle
from ..bundle.points import ObservedPoint
from .discrepancy import discrepancy_of, known_error
from .fit import Calibration, fit_bundle, usable
from .identifiability import identifiability_report
from .known import known_before
from .latency_fit import fit_wake_latency, quiet_ms
from .report import (
    CPU,
    LATENCIES,
    LIGHT_CPU,
    THROUGHPUT,
    CalibrationReport,
    FitErrors,
    FitPoint,
    FitSummary,
    FittedDiscrepancy,
    FittedNumber,
    LoadVerdict,
    ObservedEngine,
    ObservedHost,
)
from .simulated import predict_points
from .stage_check import stage_checks
from .thread_fit import with_threads
from .variation import window_errors

Progress = Callable[[str], None]

DRAWS = 12
LEVEL = 0.90
"""Of the intervals that the report checks."""

KEEPS_UP = 0.98
"""Share of what is offered that a server which isn't overloaded completes."""


def calibrate(
    bundle: Bundle,
    *,
    host: HostProfile | None = None,
    known: EngineProfile | None = None,
    same_host: bool = False,
    progress: Progress | None = None,
) -> tuple[EngineProfile, CalibrationReport]:
    """Fit an engine profile to a bundle and check it by simulation.

    The simulation is told the conditions of a point and the fitted work only; batches, turns of
    the loop, sleeps and wake-ups come out of it. What it misses by at fitted points, each predicted
    by a fit that left its data set out, becomes the profile's discrepancy. Points with I/O threads
    then say what handing over between threads costs.

    Parameters
    ----------
    known, same_host
        What an earlier fit left of the engine, which this one begins with, and whether it was made
        on this host, as in `fit_bundle`.

    Returns
    -------
    EngineProfile
        With covariance, discrepancy and the origin of each number.
    CalibrationReport
        How well it fits.

    Raises
    ------
    InputError
        The bundle can't be fitted.
    """
    fitted = fit_bundle(bundle, host=host, known=known, same_host=same_host, progress=progress)
    fitted = fit_wake_latency(fitted, progress=progress)
    fitted = with_discrepancy(fitted, progress=progress)
    fitted = with_threads(fitted, progress=progress)
    points = [point for point in fitted.bundle.points if usable(point)]
    predictions = predict_points(fitted, points, draws=DRAWS, progress=progress)
    return fitted.profile, report_of(fitted, points, predictions)


def with_discrepancy(fitted: Calibration, *, progress: Progress | None = None) -> Calibration:
    """The calibration with the model's own error in its profile.

    An error has two parts: what a fit that did not know the point's data set missed it by, and what
    the simulation, which is told no counts, adds to that.
    """
    predictions = predict_points(fitted, fitted.fitted, draws=0, progress=progress)
    simulated = np.log([1000.0 * p.mean(SERVER_CPU) for p in predictions])
    told = fitted.model.log_cpu_ns(fitted.posterior.logs)
    errors = fitted.left_out + (simulated - told)
    shares = np.array([prediction.memory_share for prediction in predictions])
    known = known_error(fitted.prior.known)
    noise = window_errors(fitted.fitted)
    found = discrepancy_of(errors, shares, noise=noise, known=known)
    worse = known is not None and known.is_exceeded(errors, shares, noise=noise)
    if known is not None and not worse:
        # Points that miss by no more than was known are no reason to trust the model less.
        found = found._replace(
            plain=min(found.plain, known.plain), memory=min(found.memory, known.memory)
        )
    profile = fitted.profile.model_copy(
        update={
            "discrepancy": round(found.plain, 4),
            "memory_discrepancy": round(found.memory, 4),
            "discrepancy_points": found.points,
        }
    )
    return replace(fitted, profile=profile, misses_more=worse)


def report_of(
    fitted: Calibration, points: list[ObservedPoint], predictions: list[Prediction]
) -> CalibrationReport:
    """What was fitted and how well the simulation predicts."""
    rows, verdicts = compared(points, predictions)
    by_quantity = {
        quantity: {
            role: errors
            for role in ("fit", "holdout")
            if (errors := _errors(rows, quantity, role)) is not None
        }
        for quantity in (CPU, LIGHT_CPU, THROUGHPUT, *LATENCIES.values())
    }
    manifest, profile = fitted.bundle.manifest, fitted.profile
    engine, taken_as = manifest.engine, profile.taken_as_words
    return CalibrationReport(
        engine=ObservedEngine(
            profile.id, engine.name, engine.version, engine.build, manifest.depth
        ),
        host=ObservedHost(fitted.host.id, fitted.host.title),
        points=rows,
        summary=FitSummary(by_quantity),
        stages=stage_checks(fitted),
        verdicts=verdicts,
        warnings=[] if taken_as is None else [taken_as],
        discrepancy=FittedDiscrepancy(profile.discrepancy, profile.memory_discrepancy),
        known=known_before(fitted),
        parameters=_parameters(fitted),
        identifiability=identifiability_report(fitted),
    )


def compared(
    points: Sequence[ObservedPoint], predictions: Sequence[Prediction]
) -> tuple[list[FitPoint], list[LoadVerdict]]:
    """Observed and predicted, side by side: `points` and `verdicts` of `report_of`."""
    rows: list[FitPoint] = []
    verdicts = []
    for point, prediction in zip(points, predictions, strict=True):
        rows += _rows(point, prediction)
        if point.given.rate_share is not None:
            verdicts.append(_verdict(point, prediction))
    return rows, verdicts


def _rows(point: ObservedPoint, prediction: Prediction) -> list[FitPoint]:
    """CPU time of a point, throughput of a closed loop, latencies of an open one that keeps up."""
    given, role = {"point": point.given.label()}, point.given.role
    observed_ns = point.ordinary("server_cpu_ns_per_request")
    cpu_us = prediction.interval(SERVER_CPU, level=LEVEL)
    predicted_ns = cpu_us.value * 1000.0
    rows = [
        FitPoint(
            given=given,
            conditions=prediction.case.given,
            role=role,
            quantity=CPU if saturated(point) else LIGHT_CPU,
            observed_ns=observed_ns,
            predicted_ns=predicted_ns,
            low_ns=cpu_us.low * 1000.0,
            high_ns=cpu_us.high * 1000.0,
            relative_error=predicted_ns / observed_ns - 1.0,
        )
    ]
    if point.given.arrival == "closed_loop":
        observed_rps = point.ordinary("throughput_rps")
        predicted_rps = prediction.nominal[0].result.throughput_rps
        throughput = prediction.interval("throughput_rps", level=LEVEL)
        rows.append(
            FitPoint(
                given=given,
                role=role,
                quantity=THROUGHPUT,
                observed_rps=observed_rps,
                predicted_rps=predicted_rps,
                low_rps=throughput.low,
                high_rps=throughput.high,
                relative_error=predicted_rps / observed_rps - 1.0,
            )
        )
    if point.given.rate_share is None or not kept_up(point):
        return rows
    for name, quantity in LATENCIES.items():
        observed_ms, predicted_ms = quiet_ms(point, name), prediction.mean(f"{name}_ms")
        if not math.isnan(observed_ms):
            rows.append(
                FitPoint(
                    given=given,
                    role=role,
                    quantity=quantity,
                    observed_ns=observed_ms * 1e6,
                    observed_all_ns=point.median(f"{name}_ms") * 1e6,
                    predicted_ns=predicted_ms * 1e6,
                    relative_error=predicted_ms / observed_ms - 1.0,
                )
            )
    return rows


def saturated(point: ObservedPoint) -> bool:
    """Whether the clients never pause, so that the server has as much to do as it can."""
    return point.given.arrival == "closed_loop" and point.given.think_us == 0


def kept_up(point: ObservedPoint) -> bool:
    """Whether an observed open loop completed what was offered."""
    return point.median("throughput_rps") >= KEEPS_UP * (point.given.rate_rps or math.nan)


def _verdict(point: ObservedPoint, prediction: Prediction) -> LoadVerdict:
    """Whether an open loop keeps up, observed and predicted."""
    return LoadVerdict(
        point=point.given.label(),
        role=point.given.role,
        observed="STABLE" if kept_up(point) else "OVERLOADED",
        predicted="OVERLOADED" if prediction.overloaded else "STABLE",
        stalled_share=point.median("stalled_share"),
    )


def _errors(rows: list[FitPoint], quantity: str, role: str) -> FitErrors | None:
    chosen = [row for row in rows if row.quantity == quantity and row.role == role]
    if not chosen:
        return None
    absolute = np.abs([row.relative_error for row in chosen])
    inside = [
        row.low_ns <= row.observed <= row.high_ns
        for row in chosen
        if row.low_ns is not None and row.high_ns is not None
    ]
    return FitErrors(
        median_ape=float(np.median(absolute)),
        p95_ape=float(np.quantile(absolute, 0.95)),
        max_ape=float(absolute.max()),
        rms=float(np.sqrt(np.mean(absolute**2))),
        n=len(chosen),
        coverage=float(np.mean(inside)) if inside else None,
    )


def _parameters(fitted: Calibration) -> list[FittedNumber]:
    work = {f"engine.{name}": leaf for name, leaf in fitted.profile.work.items()}
    work |= {f"generator.{name}": leaf for name, leaf in fitted.generator.work.items()}
    return [
        FittedNumber(name, leaf.value, leaf.unit, leaf.low, leaf.high, leaf.kind, leaf.method)
        for name, leaf in work.items()
    ]
