"""Whether a prediction meets the objective of its scenario, and how probable that is."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from ..prediction.predict import Prediction

LATENCIES = ("p50_ms", "p99_ms", "p999_ms")
"""Fields of an objective that bound a latency."""


def asked_of(prediction: Prediction) -> dict[str, float]:
    """The latencies that the scenario's objective bounds, in ms; empty without one."""
    slo = prediction.case.scenario.slo
    bounds = {} if slo is None else {name: getattr(slo, name) for name in LATENCIES}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def excess(prediction: Prediction) -> float:
    """By which share the worst latency exceeds its bound at the nominal numbers; below 0 if none.

    Infinite where requests pile up.
    """
    if prediction.overloaded:
        return math.inf
    asked = asked_of(prediction).items()
    return max((prediction.mean(name) / bound - 1.0 for name, bound in asked), default=-1.0)


def meets(prediction: Prediction) -> bool:
    """Whether the objective is met, and the load served, at the nominal numbers."""
    return excess(prediction) <= 0.0


def probability(prediction: Prediction, *, capacity_rps: float) -> float | None:
    """How probable it is that the objective is met; None without one.

    Every draw of the uncertain numbers has a latency, with chance in it, and the model's own error
    makes that a log-normal; a draw fails if it is overloaded, or the model's error makes it so. The
    probability is the mean over the draws.

    Parameters
    ----------
    capacity_rps
        Throughput of the setting when it is saturated, at the nominal numbers. That of a draw is
        taken to be in inverse proportion to the CPU time of a request.
    """
    asked = asked_of(prediction)
    if not asked:
        return None
    runs = prediction.drawn or prediction.nominal
    scenario, system = prediction.case.scenario, prediction.system
    error = max(math.hypot(system.discrepancy(scenario), system.variation), 1e-9)
    open_loop = scenario.workload.arrival == "open_loop"
    spare = math.log(capacity_rps / prediction.mean("throughput_rps")) if open_loop else math.inf
    cpu_us = np.mean([m.result.server_useful_cpu_us_per_request for m in prediction.nominal])
    shares = []
    for run in runs:
        if run.overloaded:
            shares.append(0.0)
            continue
        margins = [math.log(bound / run.values[name]) for name, bound in asked.items()]
        if open_loop:
            slower = run.result.server_useful_cpu_us_per_request / cpu_us
            margins.append(spare - math.log(slower))
        shares.append(float(ndtr(min(margins) / error)))
    return float(np.mean(shares))
