"""Random numbers of scenarios: the same from the same seed, kind and number."""

import math
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """The draws of one scenario."""

    def __init__(self, seed: int, kind: str, number: int) -> None:
        self._random = random.Random(f"{seed} {kind} {number}")

    def one_of(self, choices: Sequence[T]) -> T:
        """Any of these."""
        return self._random.choice(choices)

    def chance(self, share: float) -> bool:
        """True in this share of the cases."""
        return self._random.random() < share

    def between(self, low: float, high: float) -> float:
        """A number with three digits, evenly spread."""
        return _digits(self._random.uniform(low, high))

    def size(self, low: float, high: float) -> float:
        """A number with three digits whose logarithm is evenly spread."""
        return _digits(math.exp(self._random.uniform(math.log(low), math.log(high))))

    def count(self, low: int, high: int) -> int:
        """A whole number whose logarithm is evenly spread."""
        return min(high, max(low, round(self.size(low, high))))

    def some(self, choices: Sequence[T]) -> list[T]:
        """Any number of these, in their order."""
        return [choice for choice in choices if self.chance(0.5)]


def _digits(value: float) -> float:
    return float(f"{value:.3g}")
