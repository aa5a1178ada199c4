"""The joint fit of hosts and engines: what points say of numbers, alone and together."""

import math
from dataclasses import replace

import numpy as np
import pytest

from evidence.joint.descent import Slope, Walk
from evidence.joint.fit import fit_jointly, likely_discrepancy, posterior
from evidence.joint.left_out import Predicted, Scored, honest_discrepancies
from evidence.joint.points import JointPoint, joint_points
from evidence.joint.prior import error_covariance, prior_covariance

NAMES = ["graviton4.user_ipc", "asynchronous.execute_lines"]


@pytest.fixture(scope="module")
def points() -> list[JointPoint]:
    """One thread, one command: two campaigns, three points of the first."""
    found = joint_points(role="calibration")
    first = [p for p in found if p.dataset == "valkey-8.1.1-c8g-unix-p1" and p.command == "get"]
    other = [p for p in found if p.dataset == "redis-8.0.2-c8g-unix-p1" and p.command == "get"]
    return [*first[:2], *other[:1]]


def test_only_calibration_points_of_named_hosts_are_fitted(points: list[JointPoint]) -> None:
    every = joint_points()
    assert {p.case.role for p in every} == {"calibration", "validation"}
    assert all(p.case.scenario.host is not None for p in every)
    held_out = next(p for p in every if p.case.role == "validation")
    with pytest.raises(ValueError, match="calibration only"):
        fit_jointly([points[0], held_out])


def test_one_point_and_one_number_are_the_textbook_case(points: list[JointPoint]) -> None:
    slope, difference, error = 0.2, 0.3, 0.1
    [[variance]] = error_covariance(points[:1], error)
    noise = points[0].case.noise.standard_error
    assert variance == pytest.approx(noise**2 + error**2)
    mean, covariance = posterior(
        NAMES[:1], points[:1], np.array([[slope]]), np.array([difference]), error
    )
    gained = slope**2 / (slope**2 + variance)
    assert mean == pytest.approx([difference / slope * gained])
    assert covariance == pytest.approx(np.array([[1.0 - gained]]))


def test_without_points_numbers_are_as_known_before() -> None:
    mean, covariance = posterior(NAMES, [], np.zeros((0, 2)), np.zeros(0), 0.1)
    assert not mean.any()
    assert covariance == pytest.approx(prior_covariance(NAMES))


def test_what_two_numbers_may_both_explain_is_shared_and_known_of_their_sum(
    points: list[JointPoint],
) -> None:
    slopes = np.array([[0.5, 0.5]])
    mean, covariance = posterior(NAMES, points[:1], slopes, np.array([0.4]), 0.01)
    assert mean[0] == pytest.approx(mean[1])
    assert covariance[0, 1] < -0.4
    together = slopes[0] @ covariance @ slopes[0]
    assert together < 0.01 < covariance[0, 0] * 0.25


def test_points_of_one_machine_say_less_together_than_those_of_two(
    points: list[JointPoint],
) -> None:
    slopes = np.full((2, 1), 0.2)
    seen = np.full(2, 0.1)

    def left(own: list[JointPoint]) -> float:
        _, covariance = posterior(NAMES[:1], own, slopes, seen, 0.08)
        return float(covariance[0, 0])

    assert left([points[0], points[1]]) > 1.1 * left([points[0], points[2]])


def test_prior_covariances_are_ones_and_share_what_was_assumed_together() -> None:
    names = [f"{host}.{name}" for host in ("a", "b") for name in ("tcp_send_ns", "block_ns")]
    matrix = prior_covariance([*names, "a.user_ipc", "b.user_ipc", "a.dram_ns"])
    assert np.diag(matrix) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(matrix).min() > 0
    assert matrix[0, 1] == matrix[0, 2] == 0.25  # a host's calls, and one call on two hosts
    assert matrix[0, 3] == 0.0
    assert matrix[4, 5] == 0.5
    assert not matrix[6, :6].any()


def test_the_models_error_is_found_from_what_no_number_explains() -> None:
    [point, *_] = joint_points(role="calibration")
    quiet = point.case.noise.model_copy(update={"within_series": 0.01, "between_series": 0.0})
    many = [
        replace(point, dataset=f"d{n}", campaign=f"d{n}", case=replace(point.case, noise=quiet))
        for n in range(400)
    ]
    errors = np.random.default_rng(5).normal(0.0, 0.12, len(many))
    found = likely_discrepancy(NAMES, many, np.zeros((len(many), 2)), errors)
    assert found == pytest.approx(math.sqrt(0.12**2 - 0.01**2), rel=0.1)


def test_a_number_at_its_place_is_the_prior_and_a_slope_is_of_its_own_kind(
    points: list[JointPoint],
) -> None:
    point = points[0]
    assert point.inputs({}).speed == point.system.inputs(point.case.scenario).speed
    assert point.inputs({}).work == point.system.inputs(point.case.scenario).work
    slopes = point.slopes(["graviton4.user_ipc", "graviton3.user_ipc"], {}, 1.0)
    # More instructions a cycle make a host faster, and no other.
    assert set(slopes) == {"graviton4.user_ipc"}
    assert 0.005 < slopes["graviton4.user_ipc"] < 0.2


def test_engines_that_come_from_redis_share_what_is_uncertain_of_their_code() -> None:
    owners = ("asynchronous", "shared_queues", "locked_threads", "commands")
    names = [f"{owner}.parse_instructions" for owner in owners]
    matrix = prior_covariance([*names, "shared_queues.get_instructions"])
    assert matrix[0, 1] == pytest.approx(0.5)
    assert np.allclose(np.delete(np.delete(matrix, 0, 0), 0, 1), np.eye(4)), "nothing else"


def test_from_either_side_a_walk_goes_down_to_the_same_end(points: list[JointPoint]) -> None:
    names, observed = (
        ["graviton4.user_ipc"],
        np.log([p.case.observed["throughput_rps"] for p in points]),
    )
    slope = Slope(names, points, observed)
    walks = [
        Walk(f"{place.mean[0]:+g}", slope, place, place)
        for place in slope.places([np.array([z]) for z in (-2.0, 2.5)])
    ]
    for walk in walks:
        walk.go(8)
        assert walk.ended
        assert walk.place.objective <= walk.first.objective - 1.0
    low, high = (walk.place for walk in walks)
    assert low.objective == pytest.approx(high.objective, abs=1.0)
    assert low.mean == pytest.approx(high.mean, abs=0.8)


def test_errors_of_mget_say_nothing_of_single_keys() -> None:
    every = joint_points(role="calibration")
    plain = next(p for p in every if p.only_get_and_set)
    mget = next(p for p in every if not p.only_get_and_set)

    def off(point: JointPoint, error: float) -> Scored:
        return Scored(point, 0.0, {"dataset": Predicted(error, 0.0)})

    scored = [off(plain, 0.08), off(plain, -0.08), off(mget, 0.4)]
    found = honest_discrepancies(scored, 0.02)
    known = scored[0].uncertainty("dataset"), scored[2].uncertainty("dataset")
    assert np.hypot(found, known) == pytest.approx([0.08, 0.4], abs=0.002)
    assert honest_discrepancies(scored, 0.3) == (0.3, pytest.approx(found[1]))
