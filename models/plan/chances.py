"""How probable it is that an objective is met, and how well the draws know it.

A probability that is a mean over draws has their error: of twenty draws in which nothing is missed,
one in ten may be missed all the same. While the interval of such a mean holds the probability that
is asked for, more draws are made, up to `MOST_DRAWS`. What they still can't tell apart differs by a
few points; it is decided by the mean, and told as open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from ..advice.objective import (
    asked_of,
    error_of,
    margins_of,
    network_limits_under,
    share_met,
)
from ..prediction.predict import Metrics, Prediction, drawn_runs
from ..prediction.uncertainty import Z95, title_of

MOST_DRAWS = 160
"""Draws after which a decision may stay open: then 90% is known to 5 points, 95% to 4."""

_SURE = 0.99
"""A probability from which nobody asks what makes draws miss."""

_LEAST_RUNS = 4
"""Runs whose spread says something about those that were not made."""

_CHANCE_OF_ANY = 0.01
"""That chance alone lets some number look as if it explained the draws that miss."""


@dataclass(frozen=True)
class Chance:
    """The probability that an objective is met, with what so many draws leave open of it.

    Attributes
    ----------
    low, high
        Of the 95% interval of `value`, from the number of draws alone.
    cause
        The uncertain number that makes draws miss, in words; empty if none stands out.
    """

    value: float
    low: float
    high: float
    draws: int
    cause: str = ""

    def misses(self, asked: float) -> bool:
        """Whether the draws tell that it is less than `asked`."""
        return self.high < asked

    def is_open(self, asked: float) -> bool:
        """Whether they can't tell it from `asked`."""
        return self.low < asked <= self.high


def chance_of(
    prediction: Prediction,
    *,
    capacity_rps: float,
    asked: float,
    seed: int,
    most_draws: int = MOST_DRAWS,
) -> Chance:
    """The probability that a prediction meets its objective, with more draws where it is near.

    Parameters
    ----------
    capacity_rps
        What the node serves in saturation, as in `objective.probability`.
    asked
        The probability that decides.
    seed
        Of the prediction.
    """
    runs = list(prediction.drawn)
    found = _chance(prediction, runs, capacity_rps)
    while found.is_open(asked) and len(runs) < most_draws:
        more = range(len(runs), min(most_draws, 2 * len(runs)))
        runs += drawn_runs(prediction, more, seed=seed)
        found = _chance(prediction, runs, capacity_rps)
    if found.value >= _SURE:
        return found
    return replace(found, cause=_cause(prediction, runs, capacity_rps, seed))


def _chance(prediction: Prediction, runs: Sequence[Metrics], capacity_rps: float) -> Chance:
    """The probability by these runs: that the network carries the load, times what runs say."""
    network = math.prod(limit.carries for limit in network_limits_under(prediction))
    shares = [share_met(prediction, run, capacity_rps=capacity_rps) for run in runs]
    carried = [n for n, share in enumerate(shares) if share is not None]
    if not carried:
        return Chance(0.0, 0.0, network, len(runs))
    mean = float(np.mean([shares[n] for n in carried]))
    low, high = proportion_interval(mean, len(carried))
    some = [runs[n] for n in carried]
    low = max(low, min(mean, 1.0 - _most_that_miss(prediction, some, capacity_rps)))
    return Chance(network * mean, network * low, network * high, len(runs))


def proportion_interval(share: float, count: int, *, z: float = Z95) -> tuple[float, float]:
    """The interval of a proportion of which `count` draws gave a share (E. B. Wilson, 1927).

    It does not collapse where all draws agree, as that of the normal approximation does.
    """
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    spread = math.sqrt(share * (1.0 - share) / count + z**2 / (4 * count**2))
    half = z * spread / (1 + z**2 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def _most_that_miss(prediction: Prediction, runs: Sequence[Metrics], capacity_rps: float) -> float:
    """The share that misses at most, by how far all runs stay from each bound; 1 if some don't.

    Where every run is many of their standard deviations away from a bound, so are those that were
    not made. Distances are taken to be normal on the log scale, as the numbers are that are drawn,
    and to be the less known the fewer runs there are.
    """
    if len(runs) < _LEAST_RUNS or any(run.overloaded for run in runs):
        return 1.0
    rows = [_distances(prediction, run, capacity_rps) for run in runs]
    if min(min(row.values()) for row in rows) <= 0.0:
        return 1.0
    own = {*asked_of(prediction), "capacity"}
    total = 0.0
    for name in rows[0]:
        logs = np.array([row[name] for row in rows])
        error = error_of(prediction, name, upward=True) if name in own else 0.0
        spread = math.hypot(float(np.std(logs, ddof=1)), error, 1e-9)
        steps = float(np.mean(logs)) / spread
        steps -= Z95 * math.sqrt(1.0 / len(logs) + steps**2 / (2 * len(logs)))
        total += float(ndtr(-steps))
    return min(1.0, total)


def _distances(prediction: Prediction, run: Metrics, capacity_rps: float) -> dict[str, float]:
    """How far a run is from each bound, on the log scale: of latencies and of stations."""
    result = run.result
    stations = {
        "load generator": result.load_generator_utilisation,
        "interrupts": result.interrupt_utilisation,
        "cores": result.core_utilisation,
        "CPU quota": result.quota_utilisation,
    }
    used = {name: -math.log(share) for name, share in stations.items() if share > 0.0}
    return margins_of(prediction, run, capacity_rps=capacity_rps) | used


def _cause(prediction: Prediction, runs: Sequence[Metrics], capacity_rps: float, seed: int) -> str:
    """The number that makes draws miss: a limit of the network, or the one that goes with it."""
    shares = [share_met(prediction, run, capacity_rps=capacity_rps) for run in runs]
    misses = np.array([0.0 if share is None else 1.0 - share for share in shares])
    limits = network_limits_under(prediction)
    tightest = min(limits, key=lambda limit: limit.carries, default=None)
    if tightest is None or 1.0 - tightest.carries <= float(np.mean(misses)):
        return _correlated(prediction, misses, seed)
    needed, low, high = map(_rounded, (tightest.needed, tightest.low, tightest.high))
    limit = _LIMITS[tightest.leaf]
    return f"missed if {limit} is below {needed}; {low} to {high} is what is known of it (95%)"


_LIMITS = {
    "network_packets_per_s": "what the network carries in packets a second",
    "network_gbit_per_s": "what the network carries in Gbit/s",
    "network_flow_gbit_per_s": "what one connection carries in Gbit/s",
}
"""Limits of the network, in words."""


def _rounded(value: float) -> str:
    """A number with three digits: `1,700,000`, `0.52`."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"


def _correlated(prediction: Prediction, misses: np.ndarray, seed: int) -> str:
    """The number whose draws go with misses most, if that is no chance; else nothing."""
    count = len(misses)
    if count < 10 or np.ptp(misses) < 0.5:
        return ""
    names, steps = prediction.system.drawn_steps(range(count), seed=seed)
    steps = (steps - steps.mean(axis=0)) / np.maximum(steps.std(axis=0), 1e-12)
    standard = (misses - misses.mean()) / misses.std()
    correlation = steps.T @ standard / count
    best = int(np.argmax(np.abs(correlation)))
    found = float(correlation[best])
    t = abs(found) * math.sqrt((count - 2) / max(1e-9, 1.0 - found**2))
    if 2.0 * float(ndtr(-t)) * len(names) > _CHANCE_OF_ANY:
        return ""
    side = "high" if found > 0 else "low"
    return f"missed above all where {title_of(names[best])} is {side}"
