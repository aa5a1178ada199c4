"""Sobol indices and elementary effects of any function of jointly normal numbers.

Each number is varied while all others stay. The numbers are made of independent ones, x = R u with
the symmetric root R of their covariance: to vary some of them is to move u within a subspace, where
it is as normal and independent as anywhere. So what is drawn again is drawn from the distribution
that it has once the others are known, and a total-order index is E[Var(y | others)] / Var(y)
whatever the correlations (S. Kucherenko, S. Tarantola, P. Annoni, Estimation of global sensitivity
indices for models with dependent variables, Computer Physics Communications 183(4), 2012). Without
correlations it is the usual design: one column taken from a second matrix.

SciPy's statistics take a while to import: only the functions that need them do so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from forecache.sim.statistics import Estimate

STEP = 1.5
"""Standard errors by which an elementary effect moves a number, towards the other side of its
distribution: that of the usual four levels, quantiles 1/8, 3/8, 5/8 and 7/8, is 1.47."""

Evaluate = Callable[[np.ndarray, Sequence[int]], np.ndarray]
"""(rows,) values by (rows, numbers) steps, and which random numbers each row's run has."""

_LEAST_EIGENVALUE = 1e-6
_RESAMPLES = 500
_TAILS = (2.5, 97.5)


@dataclass(frozen=True)
class Design:
    """Two independent samples of all numbers, and the subspaces in which groups of them move.

    Attributes
    ----------
    root : (numbers, numbers)
        Symmetric root of their covariance.
    first, second : (rows, numbers)
        Independent standard normal numbers: the matrices A and B of Saltelli and others.
    """

    root: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @staticmethod
    def of(covariance: np.ndarray, *, rows: int, seed: int) -> Design:
        """Scrambled Sobol points.

        Parameters
        ----------
        covariance : (numbers, numbers)
        rows
            A power of two.
        """
        from scipy.stats import qmc

        count = len(covariance)
        values, vectors = np.linalg.eigh(covariance)
        values = np.maximum(values, _LEAST_EIGENVALUE * values.max(initial=0.0))
        root = vectors * np.sqrt(values) @ vectors.T
        points = qmc.Sobol(2 * count, seed=seed).random(rows)
        # A point on the edge has no normal number.
        normals = ndtri(np.clip(points, 1e-9, 1.0 - 1e-9))
        return Design(root, normals[:, :count], normals[:, count:])

    def steps(self, normals: np.ndarray) -> np.ndarray:
        """(rows, numbers) the numbers x that independent ones make."""
        return np.asarray(normals @ self.root)

    def redrawn(self, group: Sequence[int]) -> np.ndarray:
        """(rows, numbers) the first sample, some numbers drawn again given all others.

        It is the matrix AB of Saltelli and others.
        """
        basis = self._basis(group)
        return self.steps(self.first + (self.second - self.first) @ basis @ basis.T)

    def stepped(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(rows, numbers) the first sample, one number moved by `STEP` of its standard error.

        That error is the one it has once all others are known. Also (rows,) the signs of the moves.
        """
        along = self._basis([number])[:, 0]
        # The vector points to where the number grows.
        along = along if (self.root @ along)[number] > 0 else -along
        signs = np.where(self.first @ along > 0.0, -1.0, 1.0)
        return self.steps(self.first + STEP * signs[:, None] * along), signs

    def _basis(self, group: Sequence[int]) -> np.ndarray:
        """(numbers, group) orthonormal directions in which only numbers of the group change."""
        return np.asarray(np.linalg.qr(np.linalg.inv(self.root)[:, list(group)])[0])


@dataclass(frozen=True)
class Evaluations:
    """A quantity at the points of a design.

    Attributes
    ----------
    steps : (2 * rows, numbers)
        The points of the two independent samples, one after the other.
    first, second : (rows,)
        The quantity there; a power of two of them.
    redrawn : (groups, rows)
        At the first sample with a group of numbers drawn again; at least two groups. Where a value
        has chance in it, the last group is the random numbers of the run.
    """

    steps: np.ndarray
    first: np.ndarray
    second: np.ndarray
    redrawn: np.ndarray

    @property
    def independent(self) -> np.ndarray:
        """(2 * rows,) values of the two samples."""
        return np.concatenate([self.first, self.second])

    @property
    def finite(self) -> bool:
        """Whether all values are."""
        return bool(np.isfinite(self.independent).all() and np.isfinite(self.redrawn).all())

    def ranked(self) -> Evaluations:
        """Ranks in place of values."""
        first, second, redrawn = ranks(self.first, self.second, self.redrawn)
        return Evaluations(self.steps, first, second, redrawn)

    def without_chance(self) -> Evaluations:
        """Values that do not depend on chance, with a last group that says so."""
        return replace(self, redrawn=np.vstack([self.redrawn, self.first]))

    def totals(self) -> np.ndarray:
        """(groups,) total-order indices as SciPy computes them.

        Jansen's estimator, in A. Saltelli and others, Variance based sensitivity analysis of model
        output, Computer Physics Communications 181(2), 2010.
        """
        from scipy.stats import sobol_indices

        values = {"f_A": self.first[None], "f_B": self.second[None], "f_AB": self.redrawn[:, None]}
        return np.asarray(sobol_indices(func=values, n=len(self.first)).total_order)

    def resampled(self, rows: np.ndarray) -> np.ndarray:
        """(groups, resamples) the same of resampled rows: SciPy's bootstrap takes no seed."""
        drawn = np.concatenate([self.first[rows], self.second[rows]], axis=1)
        variances = np.maximum(np.var(drawn, axis=1), np.finfo(float).tiny)
        squares = (self.first - self.redrawn) ** 2 / 2.0
        return np.array([square[rows].mean(axis=1) for square in squares]) / variances


def evaluate_design(
    design: Design, groups: Sequence[Sequence[int]], evaluate: Evaluate, *, chance: bool
) -> Evaluations:
    """Evaluate a design, with the same random numbers at all points of a row.

    So chance is no part of the difference that a number makes, but for what it changes in the
    effect of that number.

    Parameters
    ----------
    groups
        Numbers that are drawn again together.
    chance
        Whether values depend on random numbers: then these are one more group, the last.
    """
    count = len(design.first)
    rows, others = range(count), range(count, 2 * count)
    first, second = design.steps(design.first), design.steps(design.second)
    redrawn = [evaluate(design.redrawn(group), rows) for group in groups]
    steps = np.concatenate([first, second])
    values = evaluate(first, rows), evaluate(second, rows)
    if chance:
        redrawn.append(evaluate(first, others))
    return Evaluations(steps, *values, np.array(redrawn).reshape(-1, count))


class ControlVariate(NamedTuple):
    """Something cheap that resembles what was simulated.

    Attributes
    ----------
    values
        Of it at the same points.
    totals : (groups,)
        Its indices, of many rows.
    """

    values: Evaluations
    totals: np.ndarray


def total_order(
    values: Evaluations, *, seed: int, control: ControlVariate | None = None
) -> list[Estimate]:
    """Total-order indices with 95% intervals, by a bootstrap over the rows of the design.

    A control variate may help: what it says of these few rows is compared with what it says of
    many, and the indices are corrected by as much, times the slope at which both go together over
    the resamples. However poor it is, the indices are those of `values`. (Of variances: E. Qian and
    others, Multifidelity Monte Carlo Estimation of Variance and Sensitivity Indices, SIAM/ASA
    Journal on Uncertainty Quantification 6(2), 2018.)

    Parameters
    ----------
    seed
        Of the bootstrap.
    """
    random = np.random.Generator(np.random.Philox(seed))
    rows = random.integers(len(values.first), size=(_RESAMPLES, len(values.first)))
    totals, resampled = values.totals(), values.resampled(rows)
    if control is not None:
        others, resampled_others = control.values.totals(), control.values.resampled(rows)
        slopes = _slopes(resampled, resampled_others)
        totals = totals - slopes * (others - control.totals)
        resampled = resampled - slopes[:, None] * (resampled_others - control.totals[:, None])
    low, high = np.maximum(0.0, np.percentile(resampled, _TAILS, axis=1))
    totals = np.maximum(0.0, totals)
    ends = zip(totals, np.minimum(low, totals), np.maximum(high, totals), strict=True)
    return [Estimate(*map(float, each)) for each in ends]


def _slopes(resampled: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(groups,) by how much the first goes with the second, from none to all of it."""
    off = others - others.mean(axis=1, keepdims=True)
    together = (resampled * off).mean(axis=1)
    return np.clip(together / np.maximum(np.finfo(float).tiny, np.mean(off**2, axis=1)), 0.0, 1.0)


def ranks(*values: np.ndarray) -> list[np.ndarray]:
    """Values as shares of all values that are lower, ties alike; infinite ones the highest.

    A. Saltelli, I. M. Sobol', About the use of rank transformation in sensitivity analysis of model
    output, Reliability Engineering & System Safety 50(3), 1995.
    """
    from scipy.stats import rankdata

    found = rankdata(np.concatenate([each.ravel() for each in values]))
    ends = np.cumsum([each.size for each in values])[:-1]
    parts = np.split(found / len(found), ends)
    return [part.reshape(each.shape) for part, each in zip(parts, values, strict=True)]


def elementary_effects(design: Design, evaluate: Evaluate) -> np.ndarray:
    """(numbers, rows) what one standard error of each number does, at many places.

    M. D. Morris, Factorial Sampling Plans for Preliminary Computational Experiments, Technometrics
    33(2), 1991. Their mean size ranks numbers: F. Campolongo, J. Cariboni, A. Saltelli, An
    effective screening design for sensitivity analysis of large models, Environmental Modelling &
    Software 22(10), 2007. Where some value is infinite, effects are those on ranks.
    """
    rows, count = len(design.first), len(design.root)
    moved = [design.stepped(number) for number in range(count)]
    steps = [design.steps(design.first), *(each for each, _ in moved)]
    values = evaluate(np.concatenate(steps), [*range(rows)] * (count + 1))
    if not np.isfinite(values).all():
        [values] = ranks(values)
    base, *stepped = values.reshape(count + 1, rows)
    signs = np.array([each for _, each in moved])
    return np.asarray((np.array(stepped) - base) * signs / STEP)
