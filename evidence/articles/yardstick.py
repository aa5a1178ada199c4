"""When a prediction of a published claim holds: one rule for every page that compares them.

A claim is a value or a range, in its own unit. The error of a prediction is its distance from the
value, or from the nearer end of the range, relative to that number; 0 within the range. "Up to" a
value is that value, "at least" and "below" one are ranges open at one end. A prediction holds with
an error of at most `NEAR`.
"""

from __future__ import annotations

import math

NEAR = 0.15
"""The largest error with which a prediction holds."""

RULE = (
    "The error is the distance from the claimed value, or from the nearer end of the claimed range,"
    f" relative to that number; up to {NEAR:.0%} of it holds."
)
"""The rule in a sentence, for pages."""


def error_of(predicted: float, *, low: float | None, high: float | None) -> float:
    """Relative distance of a prediction from a range, signed; 0 within it.

    Parameters
    ----------
    low, high
        Ends of the range; None where it is open, equal for a single value.
    """
    if low is not None and predicted < low:
        return (predicted - low) / abs(low) if low else -math.inf
    if high is not None and predicted > high:
        return (predicted - high) / abs(high) if high else math.inf
    return 0.0


def holds(error: float) -> bool:
    """Whether a prediction with that error counts as one that holds."""
    return abs(error) <= NEAR
