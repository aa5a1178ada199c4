"""What a simulation's output says and how sure it is.

Replications are independent, so every interval is a Student t interval across per-replication
values: the mean of each, or the quantile of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


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
        ends = (self.low * factor, self.high * factor)
        return Estimate(self.value * factor, min(ends), max(ends))

    def mapped(self, function: Callable[[float], float]) -> Estimate:
        """Value and ends through a monotonic function."""
        ends = (function(self.low), function(self.high))
        return Estimate(function(self.value), min(ends), max(ends))

    def to_dict(self) -> dict[str, float]:
        """`{"value": ..., "low": ..., "high": ...}`."""
        return {"value": self.value, "low": self.low, "high": self.high}
