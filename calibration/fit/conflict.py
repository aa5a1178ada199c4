"""Whether observations disagree with what was known before them.

Both are fits that began with the same wide prior, one to the new data alone. If both are of one
engine, the difference of their means is normal around zero. With P, D and K the covariances of the
prior, of the data's fit and of the known one, its covariance is D + K - D P^-1 K - K P^-1 D: that
of two independent estimates, less what both only have from the prior. The mean of a fit that begins
with what was known tells less: it is pulled there, and points that disagree count as disturbed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from .report import Difference

LEVEL = 0.95
"""Data that are further from what was known than this share of data would be disagree with it."""

_TELLS = 0.1
"""Least share that data add to what is known of a direction, or of a number, to speak of it."""

_RANK = 1e-6

_Z95 = 1.959963984540054


@dataclass(frozen=True)
class Conflict:
    """How far data are from what was known.

    Attributes
    ----------
    chi_squared, degrees
        Squared distance in standard errors, and in how many directions the data tell anything.
    differences
        The numbers furthest off first; those within their 95% are left out.
    """

    chi_squared: float
    degrees: int
    differences: list[Difference]

    @property
    def bound(self) -> float:
        """What the squared distance stays below with `LEVEL`."""
        return float(chi2.ppf(LEVEL, self.degrees)) if self.degrees else 0.0

    @property
    def disagree(self) -> bool:
        """Whether the data are further off than chance explains."""
        return self.chi_squared > self.bound

    @property
    def widening(self) -> float:
        """By how much all errors of the prior have to grow to explain the distance; at least 1.

        R. T. Birge, The calculation of errors by the method of least squares, 1932.
        """
        if not self.disagree:
            return 1.0
        return math.sqrt(max(1.0, self.chi_squared / self.degrees))


def conflict_of(
    names: Sequence[str],
    difference: np.ndarray,
    *,
    general: np.ndarray,
    data: np.ndarray,
    known: np.ndarray,
) -> Conflict:
    """Compare what data say alone with what was known.

    Parameters
    ----------
    names
        Of the numbers.
    difference : (numbers,)
        Logarithms of what the data say, less those of what was known.
    general, data, known : (numbers, numbers)
        Covariances of the logarithms: of the wide prior, of the data's fit that began with it, and
        of what was known.
    """
    root = np.linalg.cholesky(general)

    def whitened(matrix: np.ndarray) -> np.ndarray:
        scaled = np.linalg.solve(root, np.linalg.solve(root, matrix).T)
        return np.asarray((scaled + scaled.T) / 2.0)

    left, before = whitened(data), whitened(known)
    # Of a direction of which the data tell nothing both have the prior.
    rests, directions = np.linalg.eigh(left)
    told = directions[:, rests < 1.0 - _TELLS]
    variance = left + before - left @ before - before @ left
    values, axes = np.linalg.eigh(told.T @ variance @ told)
    kept = values > _RANK
    along = axes[:, kept].T @ told.T @ np.linalg.solve(root, difference)
    squared = float(np.sum(along**2 / values[kept]))

    errors = np.sqrt(np.maximum(np.diag(root @ variance @ root.T), _RANK))
    shares = 1.0 - np.diag(data) / np.diag(general)
    differences = [
        Difference(name, math.exp(log), abs(float(log)) / error)
        for name, log, error, share in zip(names, difference, errors, shares, strict=True)
        if share >= _TELLS and abs(log) > _Z95 * error
    ]
    differences.sort(key=lambda each: -each.standard_errors)
    return Conflict(squared, int(kept.sum()), differences)
