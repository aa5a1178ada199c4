"""At which inputs to evaluate a function of normal numbers, to tell what each of them does.

The numbers may depend on each other. They are made of independent ones, x = R u with the symmetric
root R of their covariance. To vary some of them while all others stay is to move u within a
subspace, where it is as normal and independent as anywhere. So what is drawn anew is drawn from the
distribution that it has once the others are known, and a total-order index is E[Var(y | others)] /
Var(y) whatever the correlations (S. Kucherenko, S. Tarantola, P. Annoni, Estimation of global
sensitivity indices for models with dependent variables, Computer Physics Communications 183(4),
2012). Without correlations it is the usual design: one column taken from a second matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, qmc

STEP = 1.5
"""Standard errors by which an elementary effect moves a number, towards the other side of its
distribution: that of the usual four levels, quantiles 1/8, 3/8, 5/8 and 7/8, is 1.47."""

_LEAST_EIGENVALUE = 1e-6


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
        count = len(covariance)
        values, vectors = np.linalg.eigh(covariance)
        values = np.maximum(values, _LEAST_EIGENVALUE * values.max(initial=0.0))
        root = vectors * np.sqrt(values) @ vectors.T
        points = qmc.Sobol(2 * count, seed=seed).random(rows)
        # A point on the edge has no normal number.
        normals = norm.ppf(np.clip(points, 1e-9, 1.0 - 1e-9))
        return Design(root, normals[:, :count], normals[:, count:])

    def steps(self, normals: np.ndarray) -> np.ndarray:
        """(rows, numbers) the numbers x that independent ones make."""
        return np.asarray(normals @ self.root)

    def drawn_anew(self, group: Sequence[int]) -> np.ndarray:
        """(rows, numbers) the first sample, some numbers drawn anew given all others.

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
