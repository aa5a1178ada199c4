"""A fit that begins with an earlier one: data add to it, or disagree with it and it says so."""

import math
from pathlib import Path

import numpy as np
import pytest

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.fit.calibrate import (
    ModelError,
    fit_discrepancy,
    known_before,
    known_error,
)
from forecache.calibration.fit.fit import Calibration, fit_bundle
from forecache.calibration.fit.prior import (
    Conflict,
    Prior,
    earlier_profile,
    find_conflict,
    prior_error,
    prior_from,
    priors,
)
from forecache.calibration.fit.regression import Posterior, Problem, fit
from forecache.calibration.fit.work_model import HOST_NAMES, INSTRUCTIONS, SCALES, WorkModel
from forecache.calibration.observe.design import design_points
from forecache.hwprofiles.schema import SOCKET_CALLS
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.prediction.system import System
from tests.calibration.known_engine import observed, written

WORK = [*INSTRUCTIONS, *SCALES]


def linear(matrix: np.ndarray, observed: np.ndarray, prior: np.ndarray, error: float) -> Problem:
    errors = np.sqrt(np.diag(prior))
    return Problem(
        names=[f"x{number}" for number in range(matrix.shape[1])],
        prior_errors=errors,
        predict=lambda logs: matrix @ logs,
        observed=observed,
        errors=np.full(len(observed), error),
        prior_correlation=prior / np.outer(errors, errors),
    )


# --- a prior with a covariance ------------------------------------------------------------------


def test_two_fits_one_after_the_other_are_one_fit_of_both() -> None:
    """Closed form: the posterior of the first data as the prior of the second."""
    random = np.random.default_rng(5)
    matrix = random.standard_normal((40, 3))
    truth = np.array([0.1, -0.2, 0.05])
    seen = matrix @ truth + 0.05 * random.standard_normal(40)
    prior = np.diag([0.3, 0.4, 0.5]) ** 2
    # An error so large that no point lies where the loss bends.
    both = fit(linear(matrix, seen, prior, 0.5))
    first = fit(linear(matrix[:20], seen[:20], prior, 0.5))
    shifted = seen[20:] - matrix[20:] @ first.logs
    second = fit(linear(matrix[20:], shifted, first.covariance, 0.5))
    assert first.logs + second.logs == pytest.approx(both.logs, abs=2e-3)
    assert second.covariance == pytest.approx(both.covariance, rel=0.02)


def compared(prior: np.ndarray, known: Posterior, data: Posterior) -> Conflict:
    return find_conflict(
        data.names,
        data.logs - known.logs,
        general=prior,
        data=data.covariance,
        known=known.covariance,
    )


def test_data_of_the_same_engine_agree_with_what_was_known() -> None:
    """Of 100 engines drawn from the prior, about 5% are told to disagree with an earlier fit."""
    random = np.random.default_rng(6)
    root = 0.2 * np.eye(4) + 0.05 * random.standard_normal((4, 4))
    prior = root @ root.T
    found, squares = 0, []
    for _ in range(100):
        truth = root @ random.standard_normal(4)
        fits = []
        for points in (12, 6):
            matrix = random.standard_normal((points, 4))
            seen = matrix @ truth + 0.5 * random.standard_normal(points)
            fits.append(fit(linear(matrix, seen, prior, 0.5)))
        conflict = compared(prior, *fits)
        found += conflict.disagree
        squares.append(conflict.chi_squared / max(1, conflict.degrees))
    assert 1 <= found <= 13
    assert np.mean(squares) == pytest.approx(1.0, abs=0.3)


def test_data_of_another_engine_disagree_and_name_what() -> None:
    prior = np.diag([0.5, 0.5, 0.5]) ** 2
    matrix = np.vstack([np.eye(3)] * 8)
    known = fit(linear(matrix, np.zeros(24), prior, 0.2))
    data = fit(linear(matrix, matrix @ np.array([0.0, 0.5, 0.0]), prior, 0.2))
    conflict = compared(prior, known, data)
    assert conflict.disagree
    assert conflict.chi_squared > conflict.bound
    assert [each.name for each in conflict.differences] == ["x1"]
    assert conflict.differences[0].factor > 1.4
    assert conflict.widening == pytest.approx(math.sqrt(conflict.chi_squared / 3))


# --- an engine ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    points = [observed(g) for g in design_points("quick") if g.role == "fit"]
    return written(tmp_path_factory.mktemp("known") / "bundle", points)


@pytest.fixture(scope="module")
def alone(bundle: Path) -> Calibration:
    return fit_bundle(Bundle.load(bundle))


def test_a_fit_of_what_it_began_with_narrows_every_range(bundle: Path, alone: Calibration) -> None:
    again = fit_bundle(Bundle.load(bundle), known=alone.profile)
    assert again.conflict is not None
    assert not again.conflict.disagree
    for name in WORK:
        before, after = prior_error(alone.profile.work[name]), prior_error(again.profile.work[name])
        assert after <= before * 1.001, name
    words = known_before(again)
    assert words is not None
    assert words.words == []


def moved(engine: EngineProfile, name: str, factor: float) -> EngineProfile:
    """The profile with one number of its work off by a factor, as sure of it as before."""
    leaf = engine.work[name]
    assert leaf.value is not None
    assert leaf.low is not None
    assert leaf.high is not None
    far = {"value": leaf.value, "low": leaf.low, "high": leaf.high}
    leaf = leaf.model_copy(update={key: factor * value for key, value in far.items()})
    return engine.model_copy(update={"work": {**engine.work, name: leaf}})


def test_a_fit_that_disagrees_says_so_and_begins_with_wider_ranges(
    bundle: Path, alone: Calibration
) -> None:
    known = moved(alone.profile, "get_instructions_per_byte", 4.0)
    other = fit_bundle(Bundle.load(bundle), known=known)
    told = known_before(other)
    assert told is not None
    assert told.widening > 1.0
    assert told.differences[0].name == "get_instructions_per_byte"
    [sentence] = told.words
    assert "get_instructions_per_byte, which alone it puts at 0.2" in sentence
    general = priors()
    of_engine = np.sqrt(np.diag(other.prior.of_engine))
    for name in WORK:
        wide = of_engine[WorkModel.names.index(name)]
        assert wide <= max(prior_error(general[name]), prior_error(known.work[name])) * 1.001


@pytest.mark.parametrize(
    ("scale", "leaf"), [("kernel_scale", "tcp_send_ns"), ("wake_scale", "block_ns")]
)
def test_what_a_host_costs_all_engines_stays_with_the_host(
    bundle: Path, alone: Calibration, scale: str, leaf: str
) -> None:
    """An engine known to pay 1/1.5 of what it pays here: the host takes the factor."""
    known = moved(alone.profile, scale, 1 / 1.5)
    again = fit_bundle(Bundle.load(bundle), known=known)
    before, after = known.work[scale], again.profile.work[scale]
    assert after.best == pytest.approx(before.best, rel=0.12)
    assert again.profile.observed is not None
    # On this host both together are what a fit of the bundle alone finds.
    here = after.best * again.profile.observed.speed[leaf]
    found = alone.profile.work[scale].best * getattr(alone.host.kernel, leaf).best
    assert here == pytest.approx(found, rel=2.0 * alone.posterior.error(scale))
    assert after.low is not None
    assert before.low is not None
    assert after.low / after.best <= before.low / before.best * 1.05, "as unsure as before"


def test_the_engines_part_of_a_fit_is_that_of_the_joint_posterior() -> None:
    """Closed form: condition (e, h) on observations of e + h by Bayes, in one go."""
    random = np.random.default_rng(7)
    size = len(WorkModel.names)
    root = 0.1 * np.eye(size) + 0.03 * random.standard_normal((size, size))
    own, mean = root @ root.T, 0.1 * random.standard_normal(size)
    prior = Prior(load_engine("valkey-9.1"), mean, own).on_another_host()
    host = np.diag(prior.host)
    rows, noise = random.standard_normal((12, size)), 0.04
    seen = rows @ (0.2 * random.standard_normal(size))
    both = np.block([[own, np.zeros_like(own)], [np.zeros_like(own), host]])
    stacked = np.hstack([rows, rows])
    gain = both @ stacked.T @ np.linalg.inv(stacked @ both @ stacked.T + noise**2 * np.eye(12))
    expected = np.concatenate([mean, np.zeros(size)]) + gain @ (seen - rows @ mean)
    left = both - gain @ stacked @ both
    precision = np.linalg.inv(prior.covariance) + rows.T @ rows / noise**2
    covariance = np.linalg.inv(precision)
    logs = covariance @ (np.linalg.solve(prior.covariance, mean) + rows.T @ seen / noise**2)
    problem = linear(rows, seen, prior.covariance, noise)
    found, spread = prior.engine_part(Posterior(problem, logs, covariance, np.ones(size), 0.0))
    assert found == pytest.approx(expected[:size], abs=1e-8)
    assert spread == pytest.approx(left[:size, :size], abs=1e-8)


def test_kinds_of_a_fresh_fit_say_what_its_data_add(alone: Calibration) -> None:
    for name in WORK:
        added = 1.0 - alone.posterior.weight(name)
        kind = alone.profile.work[name].kind
        assert kind == ("fitted" if added >= 0.1 else "prior"), f"{name}: {added:.1%}"
    assert {leaf.kind for leaf in alone.generator.work.values()} <= {"fitted", "prior", "assumed"}


def test_what_was_known_of_a_number_makes_it_fitted(bundle: Path) -> None:
    """Also where this bundle adds nothing: an earlier one did."""
    before = load_engine("valkey-9.1")
    observed = before.work["command_lookup_instructions"].model_copy(update={"source": "bundle"})
    known = before.model_copy(
        update={"work": {**before.work, "command_lookup_instructions": observed}}
    )
    again = fit_bundle(Bundle.load(bundle), known=known)
    leaf = again.profile.work["parse_instructions"]
    assert leaf.kind == "fitted"
    assert "what was known of valkey-9.1" in leaf.method
    lookup = again.profile.work["command_lookup_instructions"]
    assert lookup.source == "earlier-bundle"
    assert again.profile.sources["earlier-bundle"].file == "valkey-9.1"
    again.profile.model_validate(again.profile.model_dump(mode="json"))


# --- what is known --------------------------------------------------------------------------------


def test_a_bundle_is_not_held_against_the_profile_made_from_it(checkout: Path) -> None:
    own = Bundle.load(checkout / "evidence/bundles/valkey-9.1")
    assert earlier_profile(own) is None
    other = own.manifest.model_copy(update={"created": "2027-01-01T00:00:00+00:00"})
    known = earlier_profile(Bundle(**{**vars(own), "manifest": other}))
    assert known is not None
    assert known.id == "valkey-9.1"


def test_ranges_are_the_prior_where_there_is_no_covariance() -> None:
    reused = load_engine("valkey-9.0")
    prior = prior_from(reused)
    assert prior.correlation == pytest.approx(np.eye(len(WorkModel.names)))
    of_engine = np.sqrt(np.diag(prior.of_engine))
    for name, error in zip(WorkModel.names, of_engine, strict=True):
        if name not in HOST_NAMES:
            own, general = prior_error(reused.work[name]), prior_error(priors()[name])
            assert error == pytest.approx(min(own, general))


def test_the_models_error_is_pooled_with_what_was_known() -> None:
    known = ModelError(0.08, 0.3, 56)
    shares = np.zeros(28)
    random = np.random.default_rng(2)
    alike = 0.08 * random.standard_normal(28)
    pooled = fit_discrepancy(alike, shares, known=known)
    assert pooled.plain == pytest.approx(0.08, rel=0.15)
    assert pooled.points == 84
    assert not known.is_exceeded(alike, shares)
    assert known.is_exceeded(3.0 * alike, shares)
    assert known.plain < fit_discrepancy(3.0 * alike, shares, known=known).plain < 0.24
    assert not known.is_exceeded(np.array([]), np.array([]))


def test_an_engine_without_an_error_of_its_own_says_nothing() -> None:
    profile: EngineProfile = load_engine("valkey-9.0")
    assert known_error(profile) is None
    assert known_error(None) is None
    own = known_error(load_engine("valkey-9.1"))
    assert own is not None
    assert own.points == 56


def test_what_a_fit_finds_of_its_host_is_applied_once() -> None:
    folder = Path("evidence/generations/captured-intel-r-xeon-r-processor-6-167-2cpus/redis-6.2.11")
    bundle = Bundle.load(Path(__file__).parents[2] / folder / "calibration")
    assert bundle.host is not None
    assert bundle.host.peer_curve is not None
    fitted = fit_bundle(bundle, known=earlier_profile(bundle))
    found = System(bundle.host, fitted.profile, load_generator("forecache")).numbers().speed
    assert found.tcp_send_ns != bundle.host.speed().tcp_send_ns
    for name in (*SOCKET_CALLS, "wake_send_ns", "block_ns", "user_ipc"):
        assert getattr(found, name) == pytest.approx(getattr(fitted.host.speed(), name)), name
