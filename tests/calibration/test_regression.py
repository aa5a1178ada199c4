"""The fit of factors: it finds known ones, says how sure it is, and survives a bad point."""

import numpy as np
import pytest

from forecache.calibration.regression import HIGHEST_FACTOR, Fit, fit_factors

PRIORS = {"fixed": 0.5, "per_byte": 0.5, "per_batch": 0.5}
ERROR = 0.04


def parts(points: int = 24, seed: int = 1) -> dict[str, np.ndarray]:
    """Contributions that vary against each other, as pipelines and sizes make them."""
    random = np.random.default_rng(seed)
    return {
        "fixed": np.full(points, 400.0),
        "per_byte": random.choice([10.0, 200.0, 1500.0], points),
        "per_batch": 3000.0 / random.choice([1.0, 4.0, 16.0], points),
    }


def fitted(
    factors: dict[str, float],
    *,
    noise: np.ndarray | float = 0.0,
    contributions: dict[str, np.ndarray] | None = None,
    priors: dict[str, float] = PRIORS,
) -> Fit:
    contributions = contributions or parts()
    exact = sum(factors[name] * part for name, part in contributions.items())
    observed = exact * (1.0 + noise)
    return fit_factors(
        contributions,
        np.asarray(observed),
        prior_errors=priors,
        point_error=ERROR,
    )


TRUE = {"fixed": 1.4, "per_byte": 0.6, "per_batch": 1.2}


def test_exact_data_give_the_factors_back() -> None:
    loose = dict.fromkeys(PRIORS, 1e3)
    fit = fitted(TRUE, priors=loose)
    for name, factor in TRUE.items():
        assert fit.factor(name) == pytest.approx(factor, rel=1e-4)
    assert np.abs(fit.relative_errors).max() < 1e-4
    assert fit.factor("something else") == 1.0


def test_noisy_data_give_them_within_their_errors() -> None:
    noise = ERROR * np.random.default_rng(3).standard_normal(24)
    fit = fitted(TRUE, noise=noise)
    for name, factor in TRUE.items():
        error = fit.relative_error(name) * fit.factor(name)
        assert abs(fit.factor(name) - factor) < 3 * error
        assert error < 0.2
    assert np.std(fit.relative_errors) == pytest.approx(ERROR, rel=0.35)


def test_intervals_cover_what_they_should() -> None:
    """With truths drawn from the prior, about 95% of them lie within 1.96 standard errors.

    The robust loss gives up some information that Gaussian noise would hold, so a little more.
    """
    random = np.random.default_rng(11)
    contributions = parts(points=12, seed=2)
    inside = []
    for _ in range(250):
        truth = {name: max(0.05, 1.0 + 0.4 * random.standard_normal()) for name in PRIORS}
        fit = fitted(
            truth,
            noise=ERROR * random.standard_normal(12),
            contributions=contributions,
            priors=dict.fromkeys(PRIORS, 0.4),
        )
        errors = np.sqrt(np.diag(fit.covariance))
        inside += list(np.abs(fit.factors - list(truth.values())) <= 1.96 * errors)
    assert 0.93 <= np.mean(inside) <= 0.995


def test_one_disturbed_point_does_not_pull_the_fit() -> None:
    noise = 0.01 * np.random.default_rng(5).standard_normal(24)
    clean = fitted(TRUE, noise=noise)
    noise[7] += 1.5
    disturbed = fitted(TRUE, noise=noise)
    for name in TRUE:
        assert disturbed.factor(name) == pytest.approx(clean.factor(name), rel=0.06)
    assert disturbed.relative_errors[7] < -0.4
    assert np.abs(np.delete(disturbed.relative_errors, 7)).max() < 0.1


def test_what_the_data_do_not_show_rests_on_its_prior() -> None:
    contributions = {**parts(), "unseen": np.zeros(24)}
    fit = fitted(
        {**TRUE, "unseen": 3.0}, contributions=contributions, priors={**PRIORS, "unseen": 0.3}
    )
    index = fit.names.index("unseen")
    assert fit.factor("unseen") == pytest.approx(1.0)
    assert fit.prior_weight[index] == pytest.approx(1.0)
    assert fit.relative_error("unseen") == pytest.approx(0.3)
    others = [i for i in range(len(fit.names)) if i != index]
    assert (fit.prior_weight[others] < 0.2).all()


def test_two_parts_that_move_together_are_known_by_their_sum() -> None:
    """Their factors move against each other, and only their sum is sure."""
    half = {"a": parts()["fixed"], "b": parts()["fixed"], "per_batch": parts()["per_batch"]}
    priors = {"a": 0.5, "b": 0.5, "per_batch": 0.5}
    fit = fitted({"a": 1.3, "b": 0.9, "per_batch": 1.0}, contributions=half, priors=priors)
    a, b = fit.names.index("a"), fit.names.index("b")
    assert fit.factor("a") + fit.factor("b") == pytest.approx(2.2, rel=0.02)
    correlation = fit.covariance[a, b] / np.sqrt(fit.covariance[a, a] * fit.covariance[b, b])
    assert correlation < -0.9
    variance_of_sum = fit.covariance[np.ix_([a, b], [a, b])].sum()
    assert variance_of_sum < 0.1 * fit.covariance[a, a]


def test_more_points_make_surer() -> None:
    few = fitted(TRUE, contributions=parts(points=8))
    many = fitted(TRUE, contributions=parts(points=200))
    for name in TRUE:
        assert many.relative_error(name) < 0.5 * few.relative_error(name)


def test_no_factor_is_negative_or_absurd() -> None:
    fit = fitted({"fixed": 40.0, "per_byte": -1.0, "per_batch": 1.0})
    assert (fit.factors > 0).all()
    assert (fit.factors <= HIGHEST_FACTOR).all()
