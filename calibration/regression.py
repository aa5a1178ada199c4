"""Fit of non-negative factors to observed sums, on relative errors, with priors.

What is observed is a sum of contributions, each known up to a factor near one. The fit minimises

    sum over points ((sum_i factor_i * contribution_i - observed) / (observed * error))^2
    + sum_i ((factor_i - 1) / prior_i)^2

with a soft-L1 loss on the points, so that a few disturbed ones do not pull it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

LOWEST_FACTOR = 0.02
HIGHEST_FACTOR = 12.0


@dataclass(frozen=True)
class Fit:
    """Factors with their covariance.

    Attributes
    ----------
    names
        Of the factors.
    factors : (n,)
    covariance : (n, n)
        Of the factors (Laplace approximation; points count as the robust loss weights them, which
        makes it a little wide where their noise is Gaussian).
    prior_weight : (n,)
        Share of each factor's certainty that comes from its prior: near 1 the data say nothing.
    relative_errors : (points,)
        (fitted - observed) / observed.
    """

    names: list[str]
    factors: np.ndarray
    covariance: np.ndarray
    prior_weight: np.ndarray
    relative_errors: np.ndarray
    cost: float
    """The minimised sum: of robust squared residuals and of the prior's."""

    def factor(self, name: str) -> float:
        """The fitted factor; 1 for a name that was not fitted."""
        return float(self.factors[self.names.index(name)]) if name in self.names else 1.0

    def relative_error(self, name: str) -> float:
        """Standard error of a factor, relative to it."""
        index = self.names.index(name)
        return float(np.sqrt(self.covariance[index, index]) / self.factors[index])


def fit_factors(
    contributions: dict[str, np.ndarray],
    observed: np.ndarray,
    *,
    prior_errors: dict[str, float],
    point_error: float,
) -> Fit:
    """Fit one factor per contribution.

    Parameters
    ----------
    contributions : name to (points,)
        What each part adds at factor one.
    observed : (points,)
        All positive.
    prior_errors
        Standard error of each factor around one.
    point_error
        Relative standard error of an observed point.
    """
    names = list(contributions)
    matrix = np.stack([contributions[name] for name in names], axis=1)
    scaled = matrix / (observed[:, None] * point_error)
    target = np.full(len(observed), 1.0 / point_error)
    prior = np.array([prior_errors[name] for name in names])

    def residuals(factors: np.ndarray) -> np.ndarray:
        # soft-L1 on the points only: the residual whose square is the robust loss.
        raw = scaled @ factors - target
        robust = np.sqrt(2.0 * (np.sqrt(1.0 + raw**2) - 1.0)) * np.sign(raw)
        return np.concatenate([robust, (factors - 1.0) / prior])

    start = np.ones(len(names))
    solution = least_squares(
        residuals, start, bounds=(LOWEST_FACTOR, HIGHEST_FACTOR), x_scale=np.maximum(prior, 0.05)
    )
    factors = solution.x
    raw = scaled @ factors - target
    weights = 1.0 / np.sqrt(1.0 + raw**2)
    information = (scaled * weights[:, None]).T @ scaled
    total = information + np.diag(1.0 / prior**2)
    covariance = np.linalg.inv(total)
    prior_weight = np.diag(covariance) / prior**2
    relative = raw * point_error
    return Fit(names, factors, covariance, prior_weight, relative, 2.0 * float(solution.cost))
