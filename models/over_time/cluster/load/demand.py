"""How many users' requests begin in each step of the load."""

from __future__ import annotations

import math

import numpy as np

from forecache.sim.streams import uniform

from ....scenario.arrivals import Arrivals
from ..schema import Demand

_BURST_DRAWS = 7001
"""Stream of the lengths of calm and burst."""


def expected_requests(
    demand: Demand, *, steps: int, step_s: float, seed: int
) -> tuple[np.ndarray, bool]:
    """(steps,) how many begin in each step, and whether that is a mean to draw around.

    A trace is repeated as it is; of everything else the number is the mean of a Poisson
    distribution.
    """
    ends_s = step_s * np.arange(steps + 1)
    if demand.rate_rps is not None:
        return np.full(steps, demand.rate_rps * step_s), True
    varying = demand.varying
    if varying.trace is not None:
        due_ps = varying.trace.due_ps
        cycles, within_ps = np.divmod(
            np.rint(ends_s * 1e12).astype(np.int64), varying.trace.period_ps
        )
        begun = np.searchsorted(due_ps, within_ps) + len(due_ps) * cycles
        return np.diff(begun.astype(float)), False
    durations, rates = _pieces(varying, until_s=float(ends_s[-1]), seed=seed)
    times = np.concatenate([[0.0], np.cumsum(durations)])
    begun = np.concatenate([[0.0], np.cumsum(durations * rates)])
    cycles, within = np.divmod(ends_s, times[-1])
    total = cycles * begun[-1] + np.interp(within, times, begun)
    return np.maximum(0.0, np.diff(total)), True


def _pieces(varying: Arrivals, *, until_s: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """How long each rate lasts, and the rates."""
    if varying.profile is not None:
        found = [(piece.duration_s, piece.rate_rps) for piece in varying.profile]
    else:
        assert varying.bursts is not None
        b, found, at_s = varying.bursts, [], 0.0
        while at_s < until_s:
            calm = len(found) % 2 == 0
            unit = uniform(seed, 0, _BURST_DRAWS, 0, len(found))
            lasts_s = -math.log(unit) * (b.calm_s if calm else b.burst_s)
            found.append((lasts_s, b.calm_rps if calm else b.burst_rps))
            at_s += lasts_s
    durations, rates = np.array(found).T
    return durations, rates
