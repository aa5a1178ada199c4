"""Whether the median error of any partition has worsened, beyond what the simulation's chance does.

Predictions with several seeds are draws of chance. Where factors were fitted to a dataset, chance
in them moves all its points together: its predictions are one vector, whose mean has a t
distribution with the seeds' own covariance. Points of a live engine, whose profile is fixed, are
such a vector each. Medians of errors are computed from draws of these, before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..accuracy.compared import Partition, partitions
from .recompute import Predicted

ALLOWED = 0.1
"""Share by which a partition's median error may be larger than the reference's."""

LEVEL = 0.95
"""Of the interval of a change of a median; two-sided."""

_DRAWS = 2000


@dataclass(frozen=True)
class Change:
    """The median error of a partition before and now.

    Attributes
    ----------
    excess
        By how much the median now exceeds what is allowed, with its interval: low and high.
    """

    partition: Partition
    points: int
    before: float
    now: float
    excess: tuple[float, float]

    @property
    def worsened(self) -> bool:
        """Whether it exceeds what is allowed, by more than chance explains."""
        return self.now > (1.0 + ALLOWED) * self.before and self.excess[0] > 0.0

    def words(self) -> str:
        """One line."""
        low, high = (100.0 * end for end in self.excess)
        return (
            f"{self.partition.words()}: median error of {self.points} points"
            f" {self.before:.2%} -> {self.now:.2%}"
            f" (beyond {1 + ALLOWED:g} times: {low:+.2f} to {high:+.2f} points)"
        )


@dataclass(frozen=True)
class Judgement:
    """What the gate says: partitions, and points that can't be compared."""

    changes: list[Change]
    problems: list[str]

    @property
    def failures(self) -> list[str]:
        """Why the gate is shut; none if it is open."""
        return [*self.problems, *(c.words() for c in self.changes if c.worsened)]


def judge(before: Sequence[Predicted], now: Sequence[Predicted]) -> Judgement:
    """Compare predictions with the reference's, partition by partition.

    Points that the reference doesn't have are left out; points that only it has are a problem, and
    so is a measured number that changed.
    """
    old, new = ({each.place.key: each for each in side} for side in (before, now))
    problems = [
        f"{' / '.join(key)}: in the reference, but no longer predicted" for key in old.keys() - new
    ]
    shared = sorted(old.keys() & new)
    problems += [
        f"{' / '.join(key)}: measured {new[key].measured:g}, in the reference {old[key].measured:g}"
        for key in shared
        if not np.isclose(old[key].measured, new[key].measured, rtol=1e-4)
    ]
    if not shared:
        return Judgement([], sorted(problems))
    sides = [[side[key] for key in shared] for side in (old, new)]
    # Streams of their own: the two sides are independent as far as chance is concerned.
    drawn = [_drawn_errors(side, seed) for seed, side in enumerate(sides)]
    means = [np.array([point.error for point in side]) for side in sides]
    changes = []
    ends = (0.5 - LEVEL / 2.0, 0.5 + LEVEL / 2.0)
    for partition, own in partitions([each.place for each in sides[1]]).items():
        medians = [np.median(errors[:, own], axis=1) for errors in drawn]
        low, high = np.quantile(medians[1] - (1.0 + ALLOWED) * medians[0], ends)
        changes.append(
            Change(
                partition,
                len(own),
                float(np.median(means[0][own])),
                float(np.median(means[1][own])),
                (float(low), float(high)),
            )
        )
    return Judgement(changes, sorted(problems))


def _drawn_errors(points: Sequence[Predicted], seed: int) -> np.ndarray:
    """(draws, points) absolute relative errors of the mean over the seeds."""
    random = np.random.default_rng([seed, 16])
    errors = np.empty((_DRAWS, len(points)))
    vectors: dict[tuple[str, ...], list[int]] = {}
    for number, point in enumerate(points):
        vector = (point.place.source,) if point.together else point.place.key
        vectors.setdefault(vector, []).append(number)
    for own in vectors.values():
        logs = np.log([points[number].runs for number in own]).T  # (seeds, points)
        count = len(logs)
        degrees = max(1, count - 1)
        weights = random.standard_normal((_DRAWS, count)) / np.sqrt(count * degrees)
        weights *= np.sqrt(degrees / random.chisquare(degrees, (_DRAWS, 1)))
        # A tail of t reaches far with few seeds; a factor of e is more than any chance here.
        shifts = np.clip(weights @ (logs - logs.mean(axis=0)), -1.0, 1.0)
        ratios = np.array([points[number].mean / points[number].measured for number in own])
        errors[:, own] = np.abs(ratios * np.exp(shifts) - 1.0)
    return errors
