"""What a benchmark tool's work takes on a host, fitted to its CPU time at points it drove there.

Instructions and calls of a tool are counted and hold everywhere. How much longer than a host's
micro-benchmarks say its user code and its system calls take is known from few hosts; a tool that
drove one thread on a core of its own tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from forecache.calibration.bundle.points import ObservedPoint
from forecache.calibration.fit.regression import Problem, fit
from forecache.calibration.fit.work_model import scenario_of
from forecache.hwprofiles.quantity import Quantity
from forecache.models.engines.generator import GeneratorProfile
from forecache.models.prediction.predict import predict_cases
from forecache.models.prediction.system import System
from forecache.models.scenario.sweeps import Case

SCALES = ("user_scale", "kernel_scale")
POINT_ERROR = 0.05
"""Relative standard error of a point: what windows of a tool on a quiet host differ by."""
REQUESTS = 20_000
"""Simulated of each point."""
_MORE = 1.25
"""By which a scale is raised to see what depends on it."""
_UNKNOWN_ERROR = 0.3
"""Standard error of the logarithm of a scale without a range."""
_Z95 = 1.959963984540054


def fitted_tool(points: Sequence[ObservedPoint], system: System) -> GeneratorProfile:
    """The system's load generator with its two scales as observed on the system's host.

    Parameters
    ----------
    points
        Closed loops that the tool drove against one server thread, each on a core of its own.
    """
    tool = system.generator
    base = _cpu_us(points, system)
    parts = [
        (_cpu_us(points, replace(system, generator=_scaled(tool, {name: _MORE}))) - base)
        / (_MORE - 1.0)
        for name in SCALES
    ]
    rest = base - sum(parts)
    matrix = np.maximum(np.column_stack(parts), 1e-6)
    observed = [point.median("generator_cpu_ns_per_request") / 1e3 for point in points]
    errors = [_error(tool.work[name]) for name in SCALES]
    posterior = fit(
        Problem(
            names=list(SCALES),
            prior_errors=np.array(errors),
            predict=lambda logs: np.log(np.maximum(rest + matrix @ np.exp(logs), 1e-6)),
            observed=np.log(observed),
            errors=np.full(len(points), POINT_ERROR),
        )
    )
    return _scaled(tool, {name: posterior.factor(name) for name in SCALES})


def _error(scale: Quantity) -> float:
    """Standard error of a scale's logarithm, by its range."""
    if scale.low is None or scale.high is None:
        return _UNKNOWN_ERROR
    return math.log(scale.high / scale.low) / 2.0 / _Z95


def _scaled(tool: GeneratorProfile, factors: dict[str, float]) -> GeneratorProfile:
    work = dict(tool.work)
    for name, factor in factors.items():
        old = work[name]
        ends: dict[str, Any] = {
            end: getattr(old, end) * factor
            for end in ("value", "low", "high")
            if getattr(old, end) is not None
        }
        work[name] = old.model_copy(update=ends)
    return tool.model_copy(update={"work": work})


def _cpu_us(points: Sequence[ObservedPoint], system: System) -> np.ndarray:
    """CPU time of the load generator per request, in us, by point."""
    engine = system.engine
    cases = [
        (
            Case[Any](
                given={},
                scenario=scenario_of(
                    point.given, engine=engine.engine, engine_version=engine.version
                ),
            ),
            system,
        )
        for point in points
    ]
    predictions = predict_cases(cases, draws=0, replications=1, requests=REQUESTS)
    return np.array([p.nominal[0].result.generator_cpu_us_per_request for p in predictions])
