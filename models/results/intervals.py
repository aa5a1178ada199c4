"""95% intervals of what a closed form says: from draws of its numbers, and from measured errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from pydantic import Field

from forecache.hwprofiles.record import Record
from forecache.sim.statistics import Estimate, exactly, student_t


class RelativeError(Record):
    """How far off a model was where it was compared with measurements.

    Attributes
    ----------
    error
        Relative standard error: the root mean square of the logarithms of predicted over measured.
    points
        How many comparisons it is known from; a weak prior counts as one.
    """

    error: float = Field(ge=0)
    points: int = Field(ge=1)

    @property
    def half_width(self) -> float:
        """Half width of the 95% interval of the logarithm."""
        return student_factor(self.points) * self.error


def relative_error(logs: Sequence[float]) -> RelativeError:
    """The error of some comparisons, by the logarithms of predicted over measured."""
    mean_square = sum(log**2 for log in logs) / len(logs)
    return RelativeError(error=float(f"{math.sqrt(mean_square):.4g}"), points=len(logs))


@lru_cache(maxsize=256)
def student_factor(points: int) -> float:
    """Half width of a 95% interval over a standard error that is known from so many points."""
    return student_t(0.95, points)


def interval_over_draws(value: float, drawn: Sequence[float], *, error: float = 0.0) -> Estimate:
    """A number of at least zero with its 95% interval: log-normal, split at the value.

    Parameters
    ----------
    value
        At the nominal numbers.
    drawn
        At draws of all numbers that are uncertain, at least two; infinite where it has no bound
        with them. Then `high` is infinite.
    error
        Half width of the 95% interval of the model's own error, of the logarithm.
    """
    if value <= 0.0 or not math.isfinite(value):
        return exactly(value)
    logs = np.log(np.maximum(drawn, 1e-300) / value)
    bounded = bool(np.isfinite(logs).all())
    # Ranges are uneven, and so is what they leave on either side, of which half the draws tell.
    factor = student_factor(max(1, len(logs) // 2))
    below, above = (
        math.hypot(error, factor * math.sqrt(2.0 * float(np.mean(side**2))))
        for side in (np.minimum(logs, 0.0), np.maximum(logs, 0.0) if bounded else np.zeros(1))
    )
    high = value * math.exp(above) if bounded else math.inf
    return Estimate(value, value * math.exp(-below), high)
