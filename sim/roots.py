"""The root of a function of one number, by Brent's method.

R. P. Brent, *Algorithms for Minimization without Derivatives*, 1973, ch. 4. Step for step it is
`scipy.optimize.brentq`, with the same result to the last bit: importing `scipy.optimize` takes
longer than everything a prediction asks of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_RELATIVE_TOLERANCE = 4 * 2.0**-52
_MOST_STEPS = 100

Point = tuple[float, float]
"""A number and the function's value there."""


def root(function: Callable[[float], float], low: float, high: float, *, tolerance: float) -> float:
    """Where a continuous function crosses zero between two numbers.

    Parameters
    ----------
    low, high
        The function has different signs there.
    tolerance
        How far the result may lie from the root.

    Raises
    ------
    ValueError
        The signs are the same, or the function is not a number somewhere.
    RuntimeError
        The root is not found in 100 steps.
    """
    before, here = _at(function, float(low)), _at(function, float(high))
    for number, value in (before, here):
        if value == 0.0:
            return number
    if (before[1] < 0.0) == (here[1] < 0.0):
        raise ValueError(f"no change of sign between {low:g} and {high:g}")
    # The root lies between `here`, the best point so far, and `other`.
    other, step, step_before = before, 0.0, 0.0
    for _ in range(_MOST_STEPS):
        if before[1] != 0.0 and (before[1] < 0.0) != (here[1] < 0.0):
            other = before
            step = step_before = here[0] - before[0]
        if abs(other[1]) < abs(here[1]):
            before, here, other = here, other, here
        least = (tolerance + _RELATIVE_TOLERANCE * abs(here[0])) / 2.0
        half = (other[0] - here[0]) / 2.0
        if here[1] == 0.0 or abs(half) < least:
            return here[0]
        # As far as a curve through the points says, unless half of the way is nearer or steps
        # don't get shorter.
        tried = math.inf
        if abs(step_before) > least and abs(here[1]) < abs(before[1]):
            tried = _interpolated(before, here, other)
        if 2.0 * abs(tried) < min(abs(step_before), 3.0 * abs(half) - least):
            step_before, step = step, tried
        else:
            step_before = step = half
        before = here
        moved = step if abs(step) > least else math.copysign(least, half)
        here = _at(function, here[0] + moved)
    raise RuntimeError(f"no root found in {_MOST_STEPS} steps")


def _at(function: Callable[[float], float], number: float) -> Point:
    value = float(function(number))
    if math.isnan(value):
        raise ValueError(f"the function has no value at {number:g}")
    return number, value


def _interpolated(before: Point, here: Point, other: Point) -> float:
    """The step from here to where a line through two points, or a curve through three, is zero.

    Infinite where there is none.
    """
    (x_before, f_before), (x_here, f_here), (x_other, f_other) = before, here, other
    if x_before == x_other:
        return -f_here * (x_here - x_before) / (f_here - f_before)
    d_before = (f_before - f_here) / (x_before - x_here)
    d_other = (f_other - f_here) / (x_other - x_here)
    divisor = d_other * d_before * (f_other - f_before)
    if divisor == 0.0:
        return math.inf
    return -f_here * (f_other * d_other - f_before * d_before) / divisor
