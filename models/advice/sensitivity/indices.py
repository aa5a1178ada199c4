"""Sobol indices and elementary effects from evaluations of a design."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata, sobol_indices

from forecache.sim.statistics import Estimate

from .design import STEP

_RESAMPLES = 500
_TAILS = (2.5, 97.5)


@dataclass(frozen=True)
class Values:
    """A quantity at the points of a design.

    Attributes
    ----------
    first, second : (rows,)
        At the two independent samples; a power of two of them.
    anew : (groups, rows)
        At the first sample with a group of numbers drawn anew; at least two groups.
    """

    first: np.ndarray
    second: np.ndarray
    anew: np.ndarray

    def totals(self) -> np.ndarray:
        """(groups,) total-order indices as SciPy computes them.

        Jansen's estimator, in A. Saltelli and others, Variance based sensitivity analysis of model
        output, Computer Physics Communications 181(2), 2010.
        """
        values = {"f_A": self.first[None], "f_B": self.second[None], "f_AB": self.anew[:, None]}
        return np.asarray(sobol_indices(func=values, n=len(self.first)).total_order)

    def resampled(self, rows: np.ndarray) -> np.ndarray:
        """(groups, resamples) the same of resampled rows: SciPy's bootstrap takes no seed."""
        drawn = np.concatenate([self.first[rows], self.second[rows]], axis=1)
        variances = np.maximum(np.var(drawn, axis=1), np.finfo(float).tiny)
        squares = (self.first - self.anew) ** 2 / 2.0
        return np.array([square[rows].mean(axis=1) for square in squares]) / variances


def total_order(
    values: Values, *, seed: int, stand_in: Values | None = None, known: np.ndarray | None = None
) -> list[Estimate]:
    """Total-order indices with 95% intervals, by a bootstrap over the rows of the design.

    Something cheap that resembles what was simulated may help as a control variate: what it says of
    these few rows is compared with what it says of many, and the indices are corrected by as much,
    times the slope at which both go together over the resamples. However poor it is, the indices
    are those of `values`. (Of variances: E. Qian and others, Multifidelity Monte Carlo Estimation
    of Variance and Sensitivity Indices, SIAM/ASA Journal on Uncertainty Quantification 6(2), 2018.)

    Parameters
    ----------
    seed
        Of the bootstrap.
    stand_in
        The cheap one at the same points.
    known : (groups,)
        Its indices, of many rows.
    """
    random = np.random.Generator(np.random.Philox(seed))
    rows = random.integers(len(values.first), size=(_RESAMPLES, len(values.first)))
    totals, resampled = values.totals(), values.resampled(rows)
    if stand_in is not None and known is not None:
        others, resampled_others = stand_in.totals(), stand_in.resampled(rows)
        slopes = _slopes(resampled, resampled_others)
        totals = totals - slopes * (others - known)
        resampled = resampled - slopes[:, None] * (resampled_others - known[:, None])
    low, high = np.maximum(0.0, np.percentile(resampled, _TAILS, axis=1))
    totals = np.maximum(0.0, totals)
    ends = zip(totals, np.minimum(low, totals), np.maximum(high, totals), strict=True)
    return [Estimate(*map(float, each)) for each in ends]


def _slopes(resampled: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(groups,) by how much the first goes with the second, from none to all of it."""
    off = others - others.mean(axis=1, keepdims=True)
    together = (resampled * off).mean(axis=1)
    return np.clip(together / np.maximum(np.finfo(float).tiny, np.mean(off**2, axis=1)), 0.0, 1.0)


def ranked(*values: np.ndarray) -> list[np.ndarray]:
    """Values as shares of all values that are lower, ties alike; infinite ones the highest.

    A. Saltelli, I. M. Sobol', About the use of rank transformation in sensitivity analysis of model
    output, Reliability Engineering & System Safety 50(3), 1995.
    """
    ranks = rankdata(np.concatenate([each.ravel() for each in values]))
    ends = np.cumsum([each.size for each in values])[:-1]
    parts = np.split(ranks / len(ranks), ends)
    return [part.reshape(each.shape) for part, each in zip(parts, values, strict=True)]


def elementary_effects(base: np.ndarray, stepped: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """(numbers, rows) what one standard error of each number does, at many places.

    M. D. Morris, Factorial Sampling Plans for Preliminary Computational Experiments, Technometrics
    33(2), 1991. Their mean size ranks numbers: F. Campolongo, J. Cariboni, A. Saltelli, An
    effective screening design for sensitivity analysis of large models, Environmental Modelling &
    Software 22(10), 2007.

    Parameters
    ----------
    base : (rows,)
        Values at the first sample.
    stepped, signs : (numbers, rows)
        Values with one number moved by `STEP`, and the signs of these moves.
    """
    return np.asarray((stepped - base) * signs / STEP)
