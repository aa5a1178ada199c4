"""What a simulation's output says and how sure it is.

Replications are independent, so every interval is a Student t interval across per-replication
values: the mean of each, or the quantile of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

MSER_BATCH = 5
"""Observations a batch in MSER-5."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and the interval around it, in the unit of the value."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2.0

    @property
    def relative_half_width(self) -> float:
        """Half width over the size of the value; infinite for a value of zero or nan."""
        if self.value == 0.0 or not math.isfinite(self.value):
            return 0.0 if self.half_width == 0.0 else math.inf
        return self.half_width / abs(self.value)

    def contains(self, truth: float) -> bool:
        """Whether the interval holds a number."""
        return self.low <= truth <= self.high

    def scaled(self, factor: float) -> Estimate:
        """The same estimate in another unit."""
        return self.mapped(lambda number: number * factor)

    def mapped(self, function: Callable[[float], float]) -> Estimate:
        """Value and ends through a monotonic function."""
        ends = (function(self.low), function(self.high))
        return Estimate(function(self.value), min(ends), max(ends))

    def to_dict(self) -> dict[str, float]:
        """`{"value": ..., "low": ..., "high": ...}`."""
        return {"value": self.value, "low": self.low, "high": self.high}


class HasQuantiles(Protocol):
    """Anything that knows its quantiles, such as a `LatencyHistogram`."""

    def quantile(self, q: float) -> float:
        """The q-quantile."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """How much of a series to throw away.

    Attributes
    ----------
    cut : int
        Number of observations to drop from the start.
    accepted : bool
        False if the best cut lies beyond half of the series: it's too short to tell.
    """

    cut: int
    accepted: bool


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """First minus second, under common random numbers.

    Attributes
    ----------
    difference : Estimate
        Mean of the paired differences, in the unit of the samples.
    variance_reduction : float
        Variance that independent samples would give the difference, over the variance it has.
        Above 1 the common random numbers helped.
    """

    difference: Estimate
    variance_reduction: float


def student_t(confidence: float, degrees_of_freedom: int) -> float:
    """The factor that makes a standard error the half width of a two-sided interval."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence lies between 0 and 1, not {confidence}")
    return float(stdtrit(degrees_of_freedom, 0.5 + confidence / 2.0))


def mean_interval(samples: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Mean of independent samples with its Student t interval.

    Parameters
    ----------
    samples : array_like
        One number a replication, at least two.
    confidence : float
        Probability that the interval holds the mean.

    Raises
    ------
    ValueError
        With fewer than two samples, which say nothing about their spread.
    """
    values = np.asarray(samples, dtype=float)
    if values.ndim != 1 or values.size < 2:
        raise ValueError(f"an interval needs at least two samples, got {values.size}")
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    half_width = student_t(confidence, values.size - 1) * error
    return Estimate(mean, mean - half_width, mean + half_width)


def quantile_interval(
    replications: Sequence[ArrayLike | HasQuantiles], q: float, confidence: float = 0.95
) -> Estimate:
    """The q-quantile with its interval: the quantile of each replication, Student t across them.

    Parameters
    ----------
    replications : sequence of array_like or of objects with a `quantile` method
        The observations of each replication, warm-up removed.
    q : float
        0.99 for the 99th percentile.
    confidence : float
        Probability that the interval holds the quantile.
    """
    quantiles = [
        replication.quantile(q)
        if hasattr(replication, "quantile")
        else float(np.quantile(np.asarray(replication, dtype=float), q))
        for replication in replications
    ]
    return mean_interval(quantiles, confidence)


def paired_difference(
    first: ArrayLike, second: ArrayLike, confidence: float = 0.95
) -> PairedDifference:
    """How much two alternatives differ when replication i of both saw the same random numbers.

    Parameters
    ----------
    first, second : array_like
        One number a replication, in the same order.
    confidence : float
        Probability that the interval holds the difference.

    Raises
    ------
    ValueError
        If the two don't have the same number of samples.
    """
    one = np.asarray(first, dtype=float)
    two = np.asarray(second, dtype=float)
    if one.shape != two.shape:
        raise ValueError(
            f"pairs need as many of one as of the other, got {one.size} and {two.size}"
        )
    difference = mean_interval(one - two, confidence)
    independent = float(one.var(ddof=1) + two.var(ddof=1))
    paired = float((one - two).var(ddof=1))
    if paired == 0.0:
        return PairedDifference(difference, 1.0 if independent == 0.0 else math.inf)
    return PairedDifference(difference, independent / paired)


def mser5(series: ArrayLike) -> WarmUp:
    """Where the warm-up of a series ends, by MSER-5.

    The series is averaged in batches of five; the cut is the one that minimises the squared
    standard error of what is left. Cuts that leave fewer than five batches are not considered,
    because a handful of batches can look steady by accident. For several replications use
    `mser5_across`.

    Sources: K. P. White, "An effective truncation heuristic for bias reduction in simulation
    output", Simulation 69(6), 1997; K. P. White, M. J. Cobb, S. C. Spratt, "A comparison of five
    steady-state truncation heuristics for simulation", WSC 2000 (batches of five).

    Parameters
    ----------
    series : array_like
        Observations in order of time, at least 50.

    Returns
    -------
    WarmUp
        `accepted` is False if the best cut drops more than half of the series.

    Raises
    ------
    ValueError
        If the series is shorter than ten batches.
    """
    values = np.asarray(series, dtype=float)
    n_batches = values.size // MSER_BATCH
    if n_batches < 10:
        raise ValueError(f"MSER-5 needs at least 50 observations, got {values.size}")
    batches = values[: n_batches * MSER_BATCH].reshape(n_batches, MSER_BATCH).mean(axis=1)
    # Sums over the batches from each cut to the end. Centred first: squares of a large mean would
    # drown the differences.
    batches = batches - batches.mean()
    left = np.arange(n_batches, 0, -1, dtype=float)
    sums = np.cumsum(batches[::-1])[::-1]
    squares = np.cumsum(batches[::-1] ** 2)[::-1]
    criterion = np.maximum(squares - sums**2 / left, 0.0) / left**2
    cut = int(np.argmin(criterion[: n_batches - 4]))
    return WarmUp(cut=cut * MSER_BATCH, accepted=cut <= n_batches // 2)


def mser5_across(replications: Sequence[ArrayLike]) -> WarmUp:
    """One warm-up for all replications: MSER-5 on their average, observation by observation.

    Prefer this to a cut for each replication. In a correlated series (a queue at high load) the
    best cut tends to fall before a stretch that is low by chance, and dropping what came before
    biases every replication the same way. Averaging takes these stretches out and leaves the
    transient, which all replications share (P. D. Welch 1983 averages for the same reason).

    Parameters
    ----------
    replications : sequence of array_like
        The series of each replication; the shortest decides how far they are averaged.

    Raises
    ------
    ValueError
        If there is no replication, or the shortest is too short for `mser5`.
    """
    if len(replications) == 0:
        raise ValueError("a warm-up across replications needs at least one")
    series = [np.asarray(replication, dtype=float) for replication in replications]
    shortest = min(values.size for values in series)
    return mser5(np.mean([values[:shortest] for values in series], axis=0))
