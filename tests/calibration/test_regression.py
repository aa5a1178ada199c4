"""The fit of factors: the analytic posterior where there is one, robustness, what is left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.fit.regression import (
    BEND,
    Posterior,
    Problem,
    derivatives,
    fit,
    leave_out,
    profile_cost,
)
from verification.ensemble import log_posterior

ERROR = 0.04


def linear(
    matrix: np.ndarray,
    observed: np.ndarray,
    *,
    prior_errors: np.ndarray | None = None,
    error: float = ERROR,
) -> Problem:
    """Logarithms that are sums of logarithms of factors: products of powers."""
    factors = matrix.shape[1]
    return Problem(
        names=[f"f{i}" for i in range(factors)],
        prior_errors=np.full(factors, 0.5) if prior_errors is None else prior_errors,
        predict=lambda logs: matrix @ logs,
        observed=observed,
        errors=np.full(len(observed), error),
    )


def costs(contributions: np.ndarray, factors: list[float], *, noise: float = 0.0) -> Problem:
    """Sums of costs, as a request's CPU time is."""
    random = np.random.default_rng(3)
    exact = np.log(contributions @ np.array(factors))
    return Problem(
        names=["fixed", "per_byte", "per_batch"][: len(factors)],
        prior_errors=np.full(len(factors), 0.5),
        predict=lambda logs: np.log(contributions @ np.exp(logs)),
        observed=exact + noise * random.standard_normal(len(exact)),
        errors=np.full(len(exact), ERROR),
    )


def contributions(points: int = 24) -> np.ndarray:
    """What vary against each other, as pipelines and sizes make them."""
    random = np.random.default_rng(1)
    return np.stack(
        [
            np.full(points, 400.0),
            random.choice([10.0, 200.0, 1500.0], points),
            3000.0 / random.choice([1.0, 4.0, 16.0], points),
        ],
        axis=1,
    )


TRUE = [1.4, 0.6, 1.2]


@given(
    seed=st.integers(0, 10_000),
    points=st.integers(1, 12),
    factors=st.integers(1, 4),
)
def test_exact_linear_data_have_the_analytic_posterior(
    seed: int, points: int, factors: int
) -> None:
    """Where nothing misfits, the loss is a square: the posterior of a linear Gaussian model."""
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(points, factors))
    prior_errors = random.uniform(0.1, 1.0, factors)
    posterior = fit(linear(matrix, np.zeros(points), prior_errors=prior_errors))
    information = matrix.T @ matrix / ERROR**2 + np.diag(prior_errors**-2.0)
    expected = np.linalg.inv(information)
    assert posterior.logs == pytest.approx(np.zeros(factors), abs=1e-8)
    assert posterior.covariance == pytest.approx(expected, rel=1e-5, abs=1e-9)
    assert posterior.prior_weight == pytest.approx(np.diag(expected) / prior_errors**2, rel=1e-5)
    assert posterior.cost == pytest.approx(0.0, abs=1e-12)


def test_small_misfits_have_the_analytic_mean() -> None:
    """Far inside the bend the loss is a square up to a part in a thousand."""
    random = np.random.default_rng(7)
    matrix = random.normal(size=(9, 3))
    observed = 0.03 * ERROR * random.standard_normal(9)
    prior_errors = np.array([0.2, 0.5, 1.0])
    posterior = fit(linear(matrix, observed, prior_errors=prior_errors))
    information = matrix.T @ matrix / ERROR**2 + np.diag(prior_errors**-2.0)
    expected = np.linalg.solve(information, matrix.T @ observed / ERROR**2)
    assert posterior.logs == pytest.approx(expected, rel=3e-3, abs=1e-7)


def test_the_loss_is_a_square_near_zero_and_a_straight_line_far_off() -> None:
    problem = linear(np.ones((1, 1)), np.zeros(1))

    def loss(misfit: float) -> float:
        return float(problem.residuals(np.array([misfit * ERROR]))[0] ** 2)

    assert loss(0.01) == pytest.approx(1e-4, rel=1e-4)
    assert loss(BEND) == pytest.approx(2 * BEND**2 * (np.sqrt(2) - 1))
    assert loss(201.0) - loss(200.0) == pytest.approx(2 * BEND, rel=1e-3)


def test_the_covariance_is_the_inverse_curvature_of_the_posterior_density() -> None:
    """Also where points misfit and the loss bends."""
    matrix = np.random.default_rng(2).normal(size=(8, 2))
    observed = ERROR * np.array([0.0, 1.0, -1.0, 2.5, 0.4, -6.0, 0.8, -0.3])
    posterior = fit(linear(matrix, observed))
    problem, step = posterior.problem, 1e-4

    def slope(logs: np.ndarray) -> np.ndarray:
        return derivatives(lambda at: np.array([log_posterior(problem, at)]), logs)[0]

    curvature = np.stack(
        [
            (slope(posterior.logs + shift) - slope(posterior.logs - shift)) / (2 * step)
            for shift in step * np.eye(2)
        ]
    )
    assert posterior.covariance == pytest.approx(np.linalg.inv(-curvature), rel=1e-3)


def test_exact_data_give_the_factors_of_a_sum_back() -> None:
    posterior = fit(costs(contributions(), TRUE))
    for name, factor in zip(posterior.names, TRUE, strict=True):
        assert posterior.factor(name) == pytest.approx(factor, rel=0.02)


def test_noisy_data_give_them_within_their_errors() -> None:
    posterior = fit(costs(contributions(), TRUE, noise=ERROR))
    for name, factor in zip(posterior.names, TRUE, strict=True):
        assert abs(np.log(posterior.factor(name) / factor)) < 3 * posterior.error(name)
        assert posterior.error(name) < 0.2


def test_one_disturbed_point_does_not_pull_the_fit() -> None:
    clean = costs(contributions(), TRUE, noise=0.01)
    observed = clean.observed.copy()
    observed[7] += 1.0
    disturbed = Problem(clean.names, clean.prior_errors, clean.predict, observed, clean.errors)
    before, after = fit(clean), fit(disturbed)
    for name in clean.names:
        assert after.factor(name) == pytest.approx(before.factor(name), rel=0.06)
    misfits = disturbed.misfits(after.logs)
    assert misfits[7] < -15
    assert np.abs(np.delete(misfits, 7)).max() < 3


def test_what_the_data_do_not_show_rests_on_its_prior() -> None:
    parts = np.column_stack([contributions()[:, :2], np.zeros(24)])
    posterior = fit(costs(parts, [1.4, 0.6, 3.0]))
    assert posterior.factor("per_batch") == pytest.approx(1.0)
    assert posterior.weight("per_batch") == pytest.approx(1.0)
    assert posterior.error("per_batch") == pytest.approx(0.5)
    assert posterior.weight("fixed") < 0.2


# --- profile likelihood -----------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-0.3, 0.05, 0.2])
def test_the_profile_cost_of_a_quadratic_is_offset_squared_over_variance(offset: float) -> None:
    matrix = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, -1.0]])
    # Errors so large that no misfit comes near the bend.
    problem = linear(matrix, np.zeros(2), prior_errors=np.array([0.3, 0.5, 0.8]), error=50.0)
    posterior = fit(problem)
    for name in problem.names:
        expected = offset**2 / posterior.error(name) ** 2
        assert profile_cost(posterior, name, offset) == pytest.approx(expected, rel=1e-3)


def test_the_profile_cost_fits_all_other_factors_again() -> None:
    """Two factors of which only the sum is known: holding one off moves the other."""
    matrix = np.ones((20, 2))
    posterior = fit(linear(matrix, np.zeros(20), prior_errors=np.array([0.5, 0.5])))
    alone = posterior.problem.residuals(np.array([0.2, 0.0]))
    assert profile_cost(posterior, "f0", 0.2) == pytest.approx(2 * 0.2**2 / 0.5**2, rel=0.01)
    assert float(np.sum(alone**2)) > 100


# --- leaving out ------------------------------------------------------------------------------


def test_a_left_out_group_is_predicted_by_a_fit_that_never_saw_it() -> None:
    """One factor, three groups: the analytic mean of the others and the prior."""
    observed = 0.05 * ERROR * np.array([1.0, 2.0, -1.0, 0.5, 3.0])
    groups: list[object] = ["a", "a", "b", "c", "c"]
    problem = linear(np.ones((5, 1)), observed)
    errors = leave_out(fit(problem), groups)
    for index, group in enumerate(groups):
        others = [o for o, g in zip(observed, groups, strict=True) if g != group]
        mean = sum(others) / ERROR**2 / (len(others) / ERROR**2 + 0.5**-2)
        assert errors[index] == pytest.approx(mean - observed[index], rel=0.02, abs=1e-6)


def test_all_of_a_group_is_left_out_together() -> None:
    """A group that alone shows a factor is predicted at the factor's prior."""
    matrix = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    truth = np.array([0.1, 0.4])
    posterior = fit(linear(matrix, matrix @ truth))
    errors = leave_out(posterior, ["plain", "plain", "shows", "shows"])
    assert errors[2:] == pytest.approx([-0.4, -0.4], rel=0.02)


def test_without_leaves_a_problem_of_the_rest() -> None:
    problem = costs(contributions(), TRUE, noise=ERROR)
    gone = np.arange(24) % 3 == 0
    rest = problem.without(gone)
    logs = np.array([0.1, -0.2, 0.3])
    assert rest.misfits(logs) == pytest.approx(problem.misfits(logs)[~gone])
    assert fit(rest).names == problem.names


def posterior_of(points: int) -> Posterior:
    return fit(costs(contributions(points), TRUE))


def test_more_points_narrow_the_intervals() -> None:
    few, many = posterior_of(8), posterior_of(200)
    for name in few.names:
        assert many.error(name) < 0.5 * few.error(name)
