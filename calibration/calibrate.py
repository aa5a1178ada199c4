"""Fit a bundle, then let the simulation predict every observed point and say how well it does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from forecache.hwprofiles.schema import HostProfile
from forecache.models.engine import EngineProfile
from forecache.models.predict import Prediction, System, predict_cases
from forecache.models.scenario import Case

from .fit import Calibration, fit_bundle, usable
from .points import ObservedPoint
from .scenarios import scenario_of

Progress = Callable[[str], None]

REQUESTS = 20_000
CPU = "server CPU time per request"
THROUGHPUT = "throughput"


def calibrate(
    bundle: str | Path, *, host: HostProfile | None = None, progress: Progress | None = None
) -> tuple[EngineProfile, dict[str, Any]]:
    """Fit an engine profile to a bundle and check it by simulation.

    The simulation is told the conditions of a point and the fitted work only; batches, turns of
    the loop, sleeps and wake-ups come out of it. What it misses by at points that were not fitted
    becomes the profile's discrepancy.

    Returns
    -------
    EngineProfile
        With covariance, discrepancy and the origin of each number.
    dict
        The report: engine, points, summary, parameters; see `report_of`.

    Raises
    ------
    InputError
        The bundle can't be fitted.
    """
    fitted = fit_bundle(bundle, host=host, progress=progress)
    points = [point for point in fitted.bundle.points if usable(point)]
    predictions = predict_points(fitted, points, progress=progress)
    report = report_of(fitted, points, predictions)
    held_out = report["summary"]["by_quantity"][CPU].get("holdout")
    if held_out is not None:
        profile = fitted.profile.model_copy(update={"discrepancy": held_out["rms"]})
    else:
        profile = fitted.profile
    return profile, report


def predict_points(
    fitted: Calibration, points: list[ObservedPoint], *, progress: Progress | None = None
) -> list[Prediction]:
    """Simulate observed points with the fitted engine and load generator, nominal numbers only."""
    system = System(fitted.host, fitted.profile, fitted.generator)
    engine = fitted.profile
    cases = [
        (
            Case(
                given=point.given.model_dump(mode="json", exclude_defaults=True),
                scenario=scenario_of(
                    point.given, engine=engine.engine, engine_version=engine.version
                ),
            ),
            system,
        )
        for point in points
    ]
    return predict_cases(cases, draws=0, replications=1, requests=REQUESTS, progress=progress)


def report_of(
    fitted: Calibration, points: list[ObservedPoint], predictions: list[Prediction]
) -> dict[str, Any]:
    """What was fitted and how well the simulation predicts, as a plain dictionary.

    Returns
    -------
    dict
        engine; points (given, conditions, role, quantity, observed_ns or observed_rps,
        predicted_…, relative_error); summary with fit and holdout (median_ape, max_ape, rms, n) of
        server CPU time and `by_quantity` for all; parameters (name, value, unit, low, high,
        kind, note).
    """
    rows = []
    for point, prediction in zip(points, predictions, strict=True):
        result = prediction.nominal[0].result
        given = {"point": point.given.label()}
        observed_ns = point.least_disturbed("server_cpu_ns_per_request")
        predicted_ns = result.server_cpu_us_per_request * 1000.0
        rows.append(
            {
                "given": given,
                "conditions": prediction.case.given,
                "role": point.given.role,
                "quantity": CPU,
                "observed_ns": observed_ns,
                "predicted_ns": predicted_ns,
                "relative_error": predicted_ns / observed_ns - 1.0,
            }
        )
        if point.given.arrival == "closed_loop":
            observed_rps = point.least_disturbed("throughput_rps")
            rows.append(
                {
                    "given": given,
                    "role": point.given.role,
                    "quantity": THROUGHPUT,
                    "observed_rps": observed_rps,
                    "predicted_rps": result.throughput_rps,
                    "relative_error": result.throughput_rps / observed_rps - 1.0,
                }
            )
    by_quantity = {
        quantity: {
            role: summary
            for role in ("fit", "holdout")
            if (summary := _summary(rows, quantity, role)) is not None
        }
        for quantity in (CPU, THROUGHPUT)
    }
    manifest = fitted.bundle.manifest
    return {
        "engine": {
            "id": fitted.profile.id,
            "name": manifest.engine.name,
            "version": manifest.engine.version,
            "build": manifest.engine.build,
            "depth": manifest.depth,
        },
        "host": {"id": fitted.host.id, "title": fitted.host.title},
        "points": rows,
        "summary": {**by_quantity[CPU], "by_quantity": by_quantity},
        "parameters": _parameters(fitted),
    }


def _summary(rows: list[dict[str, Any]], quantity: str, role: str) -> dict[str, Any] | None:
    errors = [
        row["relative_error"] for row in rows if row["quantity"] == quantity and row["role"] == role
    ]
    if not errors:
        return None
    absolute = np.abs(errors)
    return {
        "median_ape": float(np.median(absolute)),
        "max_ape": float(absolute.max()),
        "rms": float(np.sqrt(np.mean(absolute**2))),
        "n": len(errors),
    }


def _parameters(fitted: Calibration) -> list[dict[str, Any]]:
    rows = []
    for prefix, work in (("engine", fitted.profile.work), ("generator", fitted.generator.work)):
        for name, leaf in work.items():
            rows.append(
                {
                    "name": f"{prefix}.{name}",
                    "value": leaf.value,
                    "unit": leaf.unit,
                    "low": leaf.low,
                    "high": leaf.high,
                    "kind": leaf.kind,
                    "note": leaf.method,
                }
            )
    return rows
