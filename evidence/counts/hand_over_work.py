"""What handing over between threads takes, from the counts of `hand_over_counts`.

The study `hand-over-work` writes these numbers into the shipped engine profiles. Which functions a
number is made of stands in `RULES`, by engine profile: docs/models.md says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .hand_over_counts import TOTAL, Spent

RANGE = 1.25
"""Half width of the range of a count as a factor, for another compiler and another architecture: C
code compiled for arm64 and for x86-64 takes numbers of instructions that differ by up to a fifth.
Counts that differ by more from load to load have a range as wide as that."""

Functions = Mapping[str, Spent]


@dataclass(frozen=True)
class Part:
    """What some functions take, per call of others.

    Attributes
    ----------
    thread
        Whose calls count.
    of, without
        Functions whose instructions, with all that they call, count, and functions that these call
        whose instructions don't.
    per
        Functions whose calls are counted; those of `of` if left out.
    share
        Part of the instructions that counts, or how often they are spent.
    loads
        The loads that tell, as `(pipeline, clients)`; all of them if empty.
    """

    thread: Literal["main", "io"]
    of: tuple[str, ...]
    without: tuple[str, ...] = ()
    per: tuple[str, ...] = ()
    share: float = 1.0
    loads: tuple[tuple[int, int], ...] = ()

    def instructions(self, functions: Functions) -> float:
        """Per call, under one load."""
        nothing = Spent(0.0, 0.0)
        spent = sum(functions.get(name, nothing).instructions for name in self.of)
        spent -= sum(functions.get(name, nothing).instructions for name in self.without)
        calls = sum(functions.get(name, nothing).calls for name in self.per or self.of)
        return self.share * spent / calls if calls else math.nan
