"""Whether a prediction meets the objective of its scenario, and how probable that is."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from ..prediction.predict import QUANTILE_BELOW, Metrics, Prediction
from ..prediction.uncertainty import Z95, Range, host_ranges

_NETWORK_LEAVES = {
    "packets": "network_packets_per_s",
    "bandwidth": "network_gbit_per_s",
    "one connection": "network_flow_gbit_per_s",
}
"""Leaf of a host that each limit of the network is (`NodeResult.network_limits`)."""

NETWORK_FULL = 0.98
"""Use of a limit from which it stops a load: requests that come by chance then wait for each other
for hundreds of packets."""

KNEE = 0.95
"""The knee is the first setting that reaches this share of the best throughput. Among settings that
meet the SLO with the probability asked for it is the one recommended: every further thread costs a
core for less than the model can tell apart. In an open loop all of them serve what is offered, and
it is the one with the fewest threads."""

LATENCIES = ("p50_ms", "p99_ms", "p999_ms")
"""Fields of an objective that bound a latency."""


def objective_bounds(prediction: Prediction) -> dict[str, float]:
    """The latencies that the scenario's objective bounds, in ms; empty without one."""
    slo = prediction.case.scenario.slo
    bounds = {} if slo is None else {name: getattr(slo, name) for name in LATENCIES}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def excess(prediction: Prediction) -> float:
    """Share by which the worst latency exceeds its bound at the nominal numbers; below 0 if none.

    Infinite where requests pile up.
    """
    if prediction.overloaded:
        return math.inf
    asked = objective_bounds(prediction).items()
    return max((prediction.mean(name) / bound - 1.0 for name, bound in asked), default=-1.0)


def meets(prediction: Prediction) -> bool:
    """Whether the objective is met, and the load served, at the nominal numbers."""
    return excess(prediction) <= 0.0


def probability(prediction: Prediction, *, capacity_rps: float) -> float | None:
    """Probability that the objective is met; None without one.

    Every draw of the uncertain numbers has a latency, with chance in it, and what no draw shows
    (`log_error`) makes that a log-normal; a draw fails if it is overloaded, or the model's error
    makes it so. The probability is the mean over the draws, times that of a network that carries
    the load (`network_limit_chances`).

    Parameters
    ----------
    capacity_rps
        Throughput of the setting when it is saturated, at the nominal numbers. That of a draw is
        taken to be in inverse proportion to the CPU time of a request.
    """
    if not objective_bounds(prediction):
        return None
    network = math.prod(limit.carries for limit in network_limit_chances(prediction))
    runs = prediction.drawn or prediction.nominal
    shares = [
        share
        for run in runs
        if (share := share_met(prediction, run, capacity_rps=capacity_rps)) is not None
    ]
    return network * float(np.mean(shares)) if shares else 0.0


def share_met(prediction: Prediction, run: Metrics, *, capacity_rps: float) -> float | None:
    """Probability that one draw meets the objective; None if its network stops it.

    How probable that is `network_limit_chances` says.
    """
    used = run.result.network_limits
    if any(used[name] >= NETWORK_FULL for name in _network_numbers(prediction)):
        return None
    if run.overloaded:
        return 0.0
    margins = log_margins(prediction, run, capacity_rps=capacity_rps)
    steps = [
        margin / log_error(prediction, name, upward=margin > 0.0)
        for name, margin in margins.items()
    ]
    return float(ndtr(min(steps)))


def log_margins(prediction: Prediction, run: Metrics, *, capacity_rps: float) -> dict[str, float]:
    """How far, on the log scale, a run stays below each latency bound and its capacity."""
    found = {
        name: math.log(bound / run.values[name])
        for name, bound in objective_bounds(prediction).items()
    }
    if prediction.open_loop:
        cpu_us = np.mean([m.result.server_useful_cpu_us_per_request for m in prediction.nominal])
        slower = run.result.server_useful_cpu_us_per_request / cpu_us
        spare = math.log(capacity_rps / prediction.mean("throughput_rps"))
        found["capacity"] = spare - math.log(slower)
    return found


def log_error(prediction: Prediction, name: str, *, upward: bool) -> float:
    """Standard error of a bounded quantity's logarithm beyond what the draws show.

    It is the model's own and that of windows, and of a closed loop's tail a turn more or less.
    """
    system = prediction.system
    error = math.hypot(system.discrepancy(prediction.case.scenario), system.variation)
    if name in QUANTILE_BELOW and not prediction.open_loop:
        shortest, longest = prediction.turn_range(name)
        end = longest if upward else shortest
        error = math.hypot(error, math.log(end / prediction.mean(name)) / Z95)
    return max(error, 1e-9)


class NetworkLimit(NamedTuple):
    """An uncertain limit of the network under an open loop's load.

    Attributes
    ----------
    leaf
        Of the host.
    needed
        What the load has to find, in the unit of the limit.
    low, high
        Between which the limit is believed to be.
    carries
        How probable it is that it is enough.
    """

    leaf: str
    needed: float
    low: float
    high: float
    carries: float


def network_limit_chances(prediction: Prediction) -> list[NetworkLimit]:
    """The uncertain limits of the network, and the probability that each carries the load.

    A limit is drawn by itself and a load takes a fixed part of it, so no simulation has to find out
    how often it is too low: the distribution it is drawn from says so exactly, and few draws would
    say it by luck.
    """
    found = []
    slower = prediction.offered_rps / prediction.mean("throughput_rps")
    for limit, leaf in _network_numbers(prediction).items():
        bounds = host_ranges(prediction.system.host)[leaf]
        needed = prediction.network_limits[limit] * bounds[1] * slower / NETWORK_FULL
        carries = float(ndtr(-steps_to(bounds, needed)))
        found.append(NetworkLimit(leaf, needed, bounds[0], bounds[2], carries))
    return found


def _network_numbers(prediction: Prediction) -> dict[str, str]:
    """Limits of the network that draws of an open loop vary by themselves, and their leaves."""
    system = prediction.system
    if not prediction.open_loop or system.observed_here:
        return {}
    used, ranges = prediction.network_limits, host_ranges(system.host)
    learned = system.learned.host
    return {
        limit: leaf
        for limit, leaf in _NETWORK_LEAVES.items()
        if leaf in ranges and leaf not in learned and used.get(limit, 0.0) > 0.0
    }


def steps_to(bounds: Range, value: float) -> float:
    """Standard errors from the best value to a given one: `moved`, inverted."""
    low, best, high = bounds
    if value == best:
        return 0.0
    spread = math.log(best / low) if value < best else math.log(high / best)
    if spread <= 0.0:
        return math.copysign(math.inf, value - best)
    return Z95 * math.log(value / best) / spread
