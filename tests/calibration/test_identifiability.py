"""What data can't tell is named, and what is advised does help."""

import json
import math
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.fit import identifiability
from forecache.calibration.fit.fit import POINT_ERROR, Calibration
from forecache.calibration.fit.identifiability import (
    Identifiability,
    candidate_points,
    candidate_rows,
    expected_counts,
    identifiability_of,
    identifiability_report,
    profiled_rows,
    updated_covariance,
)
from forecache.calibration.fit.prior import engine_with_priors, prior_errors
from forecache.calibration.fit.regression import Posterior, Problem, fit
from forecache.calibration.fit.work_model import (
    HOST_NAMES,
    INSTRUCTIONS,
    IPC,
    WorkModel,
    work_model,
)
from forecache.hwprofiles import load_host
from forecache.models.engines.profile import EngineProfile

HOST = load_host("graviton3-c7g.4xlarge")
NAMES = list(WorkModel.names)
PRIORS = np.zeros(len(NAMES))


def linear(rows: list[list[float]], names: list[str], *, error: float = POINT_ERROR) -> Posterior:
    """Exact observations of weighted sums of logarithms, with priors of 0.4."""
    matrix = np.array(rows)
    return fit(
        Problem(
            names=names,
            prior_errors=np.full(len(names), 0.4),
            predict=lambda logs: matrix @ logs,
            observed=np.zeros(len(rows)),
            errors=np.full(len(rows), error),
        )
    )


# --- closed forms -----------------------------------------------------------------------------


def test_a_singular_value_says_how_much_better_data_know_than_priors() -> None:
    found = identifiability_of(linear([[1.0, 0.0], [0.0, 0.01]], ["a", "b"]))
    assert found.singular_values == pytest.approx([0.4 / 0.05, 0.004 / 0.05])
    assert found.determined == 1
    assert [direction.names for direction in found.directions] == [["b"]]
    assert found.words == ["these data say little of b: its value is mostly what was known before"]


def test_singular_values_and_prior_weights_agree() -> None:
    """The variance left of a direction is 1 / (1 + its singular value squared) of the prior's."""
    posterior = linear([[1.0, 0.3, 0.0], [0.2, 0.0, 1.0]], ["a", "b", "c"])
    found = identifiability_of(posterior)
    left = np.sum(1.0 / (1.0 + found.singular_values**2))
    assert sum(known.prior_weight for known in found.parameters) == pytest.approx(left)
    assert found.singular_values[-1] == 0.0


def test_intervals_of_a_normal_posterior_agree() -> None:
    """Data so weak that no misfit comes near the bend: Laplace and profile are both exact."""
    posterior = linear([[1.0, 0.5]], ["a", "b"], error=5.0)
    for known in identifiability_of(posterior).parameters:
        half = 1.96 * posterior.error(known.name)
        laplace = (known.low, known.high)
        assert laplace == pytest.approx((math.exp(-half), math.exp(half)), rel=1e-3)
        assert (known.profile_low, known.profile_high) == pytest.approx(laplace, rel=0.02)


def test_a_profile_interval_sees_the_lopsidedness_that_laplace_does_not() -> None:
    """A small cost beside a large one: it may vanish, but can't be much larger."""
    problem = Problem(
        names=["large", "small"],
        prior_errors=np.array([0.02, 2.0]),
        predict=lambda logs: np.log([100.0 * np.exp(logs[0]) + 10.0 * np.exp(logs[1])]),
        observed=np.log([110.0]),
        errors=np.array([0.05]),
    )
    small = identifiability_of(fit(problem)).parameters[1]
    above, below = math.log(small.profile_high), -math.log(small.profile_low)
    assert below > 1.5 * above


# --- words ------------------------------------------------------------------------------------


def test_a_sum_of_instructions_is_called_a_sum() -> None:
    posterior = linear([[1.0, 1.0]] * 5, ["parse_instructions", "get_instructions"])
    [sentence] = identifiability_of(posterior).words
    assert sentence in (
        "these data can't separate parse_instructions from get_instructions: only their sum is "
        "known",
        "these data can't separate get_instructions from parse_instructions: only their sum is "
        "known",
    )


def test_a_rate_and_what_it_divides_are_called_a_ratio() -> None:
    posterior = linear([[1.0, -1.0]] * 5, ["get_instructions", IPC])
    [sentence] = identifiability_of(posterior).words
    assert "speed of user code (user_ipc)" in sentence
    assert sentence.endswith("only their ratio is known")


def test_misses_and_their_price_are_told_apart_by_the_point_that_shows_one_alone() -> None:
    posterior = linear([[1.0, 1.0]] * 5, ["l3_fills_per_us", "touch_scale"])
    candidates = {
        "get P1 v16 k1000000 c50": np.array([1.0, 1.0]),
        "get P1 v16 k1000 c50": np.array([0.0, 0.5]),
        "get P4 v16 k1000 c50": np.array([0.0, 0.2]),
    }
    [sentence] = identifiability_of(posterior, candidates=candidates).words
    for part in ("miss rate (l3_fills_per_us)", "miss penalty (touch_scale)"):
        assert part in sentence
    assert "only the sum of their times is known" in sentence
    assert "observe get P1 v16 k1000 c50 as well, which narrows it by" in sentence


def test_unknown_directions_that_share_nothing_are_said_apart() -> None:
    names = ["a", "b", "c", "d", "e"]
    posterior = linear([[1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0, 0.0]], names)
    found = identifiability_of(posterior)
    assert found.determined == 2
    assert {frozenset(direction.names) for direction in found.directions} == {
        frozenset("ab"),
        frozenset("cd"),
        frozenset("e"),
    }
    for one in found.directions:
        assert np.linalg.norm(one.shares) == pytest.approx(1.0)


def test_a_correlated_pair_is_named_though_every_direction_is_determined() -> None:
    posterior = linear([[1.0, 1.0]] * 50 + [[0.2, -0.2]] * 5, ["a", "b"])
    found = identifiability_of(posterior)
    assert found.determined == 2
    assert [set(direction.names) for direction in found.directions] == [{"a", "b"}]


def test_factors_that_data_say_little_of_share_a_sentence() -> None:
    posterior = linear([[1.0, 0.0, 0.0]], ["a", "b", "c"])
    [sentence] = identifiability_of(posterior).words
    assert sentence in (
        "these data say little of b and c: their values are mostly what was known before",
        "these data say little of c and b: their values are mostly what was known before",
    )


def test_where_everything_is_known_nothing_is_said() -> None:
    found = identifiability_of(linear(np.eye(3).tolist(), ["a", "b", "c"]))
    assert found.determined == 3
    assert found.words == []


def test_what_nothing_depends_on_is_said_so() -> None:
    posterior = linear([[1.0, 0.0]], ["a", "b"])
    [sentence] = identifiability_of(posterior, candidates={"x": np.array([1.0, 0.0])}).words
    assert sentence.endswith("nothing that could be observed depends on it")


# --- candidates -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine() -> EngineProfile:
    return engine_with_priors("valkey", "8.0")


@pytest.fixture(scope="module")
def few() -> list[Conditions]:
    """A small part of the grid, to keep the test short."""
    return candidate_points()[::6]


@pytest.fixture(scope="module")
def rows(engine: EngineProfile, few: list[Conditions]) -> np.ndarray:
    return candidate_rows(few, engine, HOST, PRIORS)


def test_candidates_are_different_points_to_fit() -> None:
    candidates = candidate_points()
    assert len(set(candidates)) == len(candidates)
    assert {given.role for given in candidates} == {"fit"}
    assert {given.command for given in candidates} == {"get", "set"}
    assert max(given.keys * given.value_bytes for given in candidates) < 2**30


@pytest.mark.parametrize(
    ("given", "reads", "writes", "turns"),
    [
        (Conditions(command="get"), 1.0, 1.0, 0.03),
        (Conditions(command="get", clients=1), 1.0, 1.0, 1.0),
        (Conditions(command="get", pipeline=16), 1 / 16, 1 / 16, 0.03 / 16),
        (Conditions(command="set", pipeline=16, value_bytes=4096), 4 / 16, 4 / 16, 0.12 / 16),
        (Conditions(command="get", pipeline=64, value_bytes=4096), 1 / 64, 4 / 64, 0.03 / 64),
    ],
    ids=lambda value: value.label() if isinstance(value, Conditions) else "",
)
def test_expected_counts(given: Conditions, reads: float, writes: float, turns: float) -> None:
    counts = expected_counts(given)
    assert (counts.reads, counts.writes) == pytest.approx((reads, writes))
    assert counts.turns == pytest.approx(turns)
    assert counts.segments >= counts.writes
    assert counts.server_sleeps == (counts.turns if given.clients == 1 else 0.0)


def test_rows_are_shares_of_cpu_time(rows: np.ndarray) -> None:
    """A factor on a cost moves CPU time by that cost's share; `user_ipc` divides user work."""
    at = {name: rows[:, NAMES.index(name)] for name in NAMES}
    user = sum(at[name] for name in INSTRUCTIONS)
    assert at[IPC] == pytest.approx(-user, abs=1e-6)
    costs = [name for name in NAMES if name not in HOST_NAMES]
    assert all((at[name] > -1e-9).all() for name in costs)
    assert (sum(at[name] for name in costs) < 1.0 + 1e-6).all()


def test_an_update_is_what_a_fit_with_one_more_point_says() -> None:
    before = linear([[1.0, 0.4, 0.0], [0.0, 1.0, 1.0]], ["a", "b", "c"])
    row = [0.3, 0.0, 1.0]
    after = linear([[1.0, 0.4, 0.0], [0.0, 1.0, 1.0], row], ["a", "b", "c"])
    found = updated_covariance(before.covariance, np.array(row), POINT_ERROR)
    assert found == pytest.approx(after.covariance, rel=1e-4, abs=1e-9)


def fitted_to(points: list[Conditions], engine: EngineProfile) -> Posterior:
    """A fit to points at which every factor is as believed."""
    counted = [(given, expected_counts(given)) for given in points]
    model = work_model(counted, engine, HOST.speed())
    return fit(
        Problem(
            names=NAMES,
            prior_errors=prior_errors(),
            predict=model.log_cpu_ns,
            observed=model.log_cpu_ns(PRIORS),
            errors=np.full(len(points), POINT_ERROR),
        )
    )


@pytest.fixture(scope="module")
def hurried(engine: EngineProfile, few: list[Conditions], rows: np.ndarray) -> Identifiability:
    """What GETs of one small data set say."""
    points = [Conditions(command="get", pipeline=pipeline) for pipeline in (1, 4, 16, 64)]
    return identifiability_of(
        fitted_to(points, engine),
        candidates={given.label(): row for given, row in zip(few, rows, strict=True)},
        profiled=profiled_rows(engine, PRIORS),
    )


def test_gets_of_a_small_data_set_tell_little(hurried: Identifiability) -> None:
    assert hurried.determined <= 4
    about = {known.name: known for known in hurried.parameters}
    assert about["get_instructions"].prior_weight < about["set_instructions"].prior_weight
    assert about["set_instructions"].prior_weight > 0.99
    assert about["touch_scale"].prior_weight > 0.99


def test_a_split_of_instructions_is_left_to_a_profiler(hurried: Identifiability) -> None:
    advice = {d.names[0]: d.words for d in hurried.directions if len(d.names) == 1}
    for name in ("read_instructions", "loop_instructions"):
        assert advice[name].endswith("add instruction counts (observe --profiler callgrind)")


def test_the_advised_point_helps(engine: EngineProfile, few: list[Conditions]) -> None:
    """The point named for the wake-up's cost narrows it by what is said, when it is observed."""
    points = [Conditions(command="get", pipeline=pipeline) for pipeline in (4, 16, 64)]
    alone = Conditions(command="get", clients=1)
    rows = candidate_rows([*few, alone], engine, HOST, PRIORS)
    before = fitted_to(points, engine)
    found = identifiability_of(
        before,
        candidates={g.words(): row for g, row in zip([*few, alone], rows, strict=True)},
    )
    [sentence] = [d.words for d in found.directions if d.names == ["wake_scale"]]
    assert f"observe {alone.words()} as well, which narrows it by" in sentence
    promised = float(sentence.rpartition("by ")[2].removesuffix("%")) / 100
    after = fitted_to([*points, alone], engine)
    gained = 1 - after.error("wake_scale") / before.error("wake_scale")
    assert gained == pytest.approx(promised, abs=0.02)


def test_the_report_is_plain_and_takes_advice_from_the_grid(
    engine: EngineProfile, few: list[Conditions], monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = [*few, Conditions(command="get", clients=1)]
    assert set(grid) <= set(candidate_points())
    monkeypatch.setattr(identifiability, "candidate_points", lambda: grid)
    points = [Conditions(command="get", pipeline=pipeline) for pipeline in (4, 16, 64)]
    fitted = SimpleNamespace(
        prior=SimpleNamespace(engine=engine),
        posterior=fitted_to(points, engine),
        host=HOST,
    )
    report = identifiability_report(cast(Calibration, fitted)).to_dict()
    assert json.loads(json.dumps(report)) == report
    directions = report["directions"]
    assert directions["total"] == len(NAMES) == len(directions["singular_values"])
    assert directions["determined"] == sum(v > 1 for v in directions["singular_values"])
    assert [row["name"] for row in report["parameters"]] == NAMES
    for row in report["parameters"]:
        assert row["low"] < row["high"]
        assert row["profile_low"] < row["profile_high"]
    [sentence] = [words for words in report["words"] if "wake_scale" in words]
    words = "observe GET of 16 B values, 1,000 keys, pipeline 1, 1 connection as well"
    assert words in sentence
