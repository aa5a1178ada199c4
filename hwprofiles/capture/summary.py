"""From repetitions to a leaf of a profile."""

import statistics
from collections.abc import Sequence

from ..quantity import Quantity

SOURCE = "capture"


def rounded(value: float, digits: int = 4) -> float:
    """The value to some significant digits: more would be noise."""
    return float(f"{value:.{digits}g}")


def spread(samples: Sequence[float]) -> tuple[float, float, float]:
    """(lower quartile, median, upper quartile); a single sample is all three.

    Quartiles, because on a shared machine the worst repetitions measure the neighbours.
    """
    if len(samples) < 2:
        return samples[0], samples[0], samples[0]
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, middle, high


_FEW = 6
"""Quartiles of fewer samples than these say little: their range is all of them."""


def measured(samples: Sequence[float], unit: str, method: str) -> Quantity:
    """Median of the samples, its range their middle half; of fewer than `_FEW` all of them."""
    low, middle, high = (rounded(value) for value in spread(samples))
    whole = "the middle half"
    if len(samples) < _FEW:
        low, high, whole = rounded(min(samples)), rounded(max(samples)), "all of them"
    return Quantity(
        value=middle,
        unit=unit,
        source=SOURCE,
        kind="measured",
        method=f"{method}; median of {len(samples)}, range is {whole}",
        low=low,
        high=high,
    )


def at_least(samples: Sequence[float], unit: str, method: str) -> Quantity:
    """Lower quartile of the samples: of what other work on the machine can only lengthen."""
    low, _, high = (rounded(value) for value in spread(samples))
    return Quantity(
        value=low,
        unit=unit,
        source=SOURCE,
        kind="measured",
        method=f"{method}; lower quartile of {len(samples)}, up to the upper one",
        low=rounded(min(samples)),
        high=high,
    )


def extra(samples: Sequence[float], base: float, unit: str, method: str) -> Quantity:
    """What the samples have beyond `base`, as `measured`; at least 1, so that it stays a cost."""
    return measured([max(1.0, sample - base) for sample in samples], unit, method)


def reported(value: float, unit: str, method: str) -> Quantity:
    """What the kernel reports."""
    return Quantity(value=value, unit=unit, source=SOURCE, kind="published", method=method)


def assumed(value: float | None, unit: str, method: str, *, low: float, high: float) -> Quantity:
    """What could not be measured here."""
    return Quantity(value=value, unit=unit, kind="assumed", method=method, low=low, high=high)
