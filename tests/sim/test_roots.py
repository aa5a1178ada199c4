"""Roots by Brent's method: those of scipy, bit for bit."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy.optimize import brentq

from forecache.sim.roots import root

Function = Callable[[float], float]


def functions(random: np.random.Generator) -> Iterator[Function]:
    """Functions of one number that change sign between -20 and 20, of many shapes."""
    a, b, c = random.uniform(0.1, 3.0, 3)
    zero = random.uniform(-15.0, 15.0)
    yield lambda x: a * (x - zero)
    yield lambda x: (x - zero) ** 3 + b * (x - zero)
    yield lambda x: math.tanh(a * (x - zero)) + 0.3 * math.tanh(b * (x - zero - 1.0))
    yield lambda x: -math.expm1(-math.exp(x)) - c / 4.0
    yield lambda x: math.copysign(a, x - zero)
    yield lambda x: float(np.interp(x, [-20.0, zero, zero + 2.0, 20.0], [-a, -0.01, b, c]))
    yield lambda x: math.exp(a * x) - math.exp(a * zero)
    yield lambda x: math.floor(x - zero) + 0.5


class Noted:
    """A function, and where it was asked."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.asked: list[float] = []

    def __call__(self, number: float) -> float:
        self.asked.append(number)
        return self.function(number)


@pytest.mark.parametrize("tolerance", [1e-6, 1e-9, 2e-12])
def test_roots_are_those_of_scipy_bit_for_bit(tolerance: float) -> None:
    random = np.random.default_rng(1)
    for _ in range(200):
        for function in functions(random):
            ours, theirs = Noted(function), Noted(function)
            found = root(ours, -20.0, 20.0, tolerance=tolerance)
            assert found == brentq(theirs, -20.0, 20.0, xtol=tolerance)
            assert ours.asked == theirs.asked


def test_an_end_may_be_the_root() -> None:
    assert root(lambda x: x, 0.0, 1.0, tolerance=1e-9) == 0.0
    assert root(lambda x: x - 1.0, 0.0, 1.0, tolerance=1e-9) == 1.0


def test_without_a_change_of_sign_there_is_no_root() -> None:
    with pytest.raises(ValueError, match="no change of sign between 1 and 2"):
        root(lambda x: x, 1.0, 2.0, tolerance=1e-9)


def test_a_search_that_does_not_end_is_given_up() -> None:
    steps = iter([1.0, *[-1.0] * 200])
    with pytest.raises(RuntimeError, match="no root found in 100 steps"):
        root(lambda _: next(steps), 0.0, 1e300, tolerance=0.0)


def test_a_function_without_a_value_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the function has no value at 0\.5"):
        root(lambda x: math.nan if x == 0.5 else x - 0.5, 0.0, 1.0, tolerance=1e-9)
