"""The model's own error: what it misses observed points by, besides what its numbers leave open."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.stats import f

from forecache.models.engines.profile import EngineProfile

from .conflict import LEVEL

USUAL = (0.05, 0.10)
"""What is believed of an engine before a model of it was held against anything."""


class ModelError(NamedTuple):
    """Standard error of the model: of all of it, and of waits for memory by their share.

    Attributes
    ----------
    plain, memory
        The error of a point is normal with variance plain^2 + (memory share)^2.
    points
        How many points that is known from.
    """

    plain: float
    memory: float
    points: int

    def is_exceeded(
        self, errors: np.ndarray, memory_shares: np.ndarray, *, noise: np.ndarray | float = 0.0
    ) -> bool:
        """Whether points are missed by more than chance explains; shapes as in `discrepancy_of`.

        Their squares in standard errors are compared, as those of a variance known from `points`
        others: an F test, the points being few.
        """
        if not len(errors):
            return False
        variance = self.plain**2 + (self.memory * memory_shares) ** 2 + noise**2
        ratio = float(np.mean(errors**2 / variance))
        return ratio > float(f.ppf(LEVEL, len(errors), self.points))


def known_error(profile: EngineProfile | None) -> ModelError | None:
    """What an earlier fit says of the model's error; None if it does not."""
    if profile is None or profile.discrepancy is None or not profile.discrepancy_points:
        return None
    memory = profile.memory_discrepancy or USUAL[1]
    return ModelError(profile.discrepancy, memory, profile.discrepancy_points)


def discrepancy_of(
    errors: np.ndarray,
    memory_shares: np.ndarray,
    *,
    noise: np.ndarray | float = 0.0,
    known: ModelError | None = None,
) -> ModelError:
    """The most likely error of the model.

    Parameters
    ----------
    errors : (points,)
        Of logarithms.
    memory_shares : (points,)
        Share of each point's time that it waits for memory.
    noise : (points,)
        Standard error of what was measured at each, which is no error of the model.
    known
        From an earlier fit, which counts as much as its points; without one a weak prior around
        `USUAL` keeps a handful of points from claiming to know it.
    """
    middle = np.log(USUAL if known is None else known[:2])
    # The standard error of the logarithm of a standard deviation from these values (half as many
    # for each of two).
    width = 1.0 if known is None else 1.0 / math.sqrt(known.points)

    def unlikely(logs: np.ndarray) -> float:
        a, b = np.exp(logs)
        variance = a**2 + (b * memory_shares) ** 2 + noise**2
        prior = ((logs - middle) / width) ** 2
        return float(np.sum(errors**2 / variance + np.log(variance)) + prior.sum())

    best = minimize(unlikely, middle, method="Nelder-Mead")
    points = len(errors) + (0 if known is None else known.points)
    return ModelError(float(np.exp(best.x[0])), float(np.exp(best.x[1])), points)
