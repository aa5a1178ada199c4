"""Student t intervals of independent samples: one number from each replication.

A quantile is such a number too, so its interval is that of the mean of the replications' quantiles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from .plain import Result


@dataclass(frozen=True, slots=True)
class Estimate(Result):
    """A value and the interval around it, in the unit of the value; an end may be infinite."""

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


def exactly(value: float) -> Estimate:
    """A number of which nothing is uncertain."""
    return Estimate(value, value, value)


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


def paired_difference(first: ArrayLike, second: ArrayLike) -> Estimate:
    """First minus second in the mean, with a 95% interval.

    Replication i of both saw the same random numbers.

    Parameters
    ----------
    first, second : array_like
        One number a replication, in the same order.

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
    return mean_interval(one - two)
