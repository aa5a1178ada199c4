"""Points chosen for what they tell: more than a fixed design does in the same time."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.servers import engine_version
from forecache.calibration.fit.fit import POINT_ERROR
from forecache.calibration.fit.identifiability import candidate_rows, updated_covariance
from forecache.calibration.fit.prior import engine_with_priors, prior_errors
from forecache.calibration.observe import design
from forecache.calibration.observe.design import (
    TIMINGS,
    auto_points,
    design_points,
    design_s,
    loading_s,
    optimal_points,
)
from forecache.calibration.observe.observe import observe
from forecache.hwprofiles import load_host
from forecache.models.engines.profile import EngineProfile
from forecache.sim.errors import EngineError, InputError

TIMING = TIMINGS["quick"]
HOST = load_host("graviton3-c7g.4xlarge")
VALKEY = engine_with_priors("valkey", "8.0")


@cache
def auto() -> list[Conditions]:
    """A design for a minute."""
    return optimal_points(VALKEY, HOST, timing=TIMING, budget_s=60.0)


def split(points: list[Conditions]) -> tuple[list[Conditions], list[Conditions]]:
    fit = [point for point in points if point.role == "fit"]
    return fit, [point for point in points if point.role == "holdout"]


def covariance(points: list[Conditions], engine: EngineProfile) -> np.ndarray:
    errors = prior_errors()
    known = np.diag(errors**2)
    for row in candidate_rows(points, engine, HOST, np.zeros(len(errors))):
        known = updated_covariance(known, row, POINT_ERROR)
    return known


def test_tells_more_than_the_quick_design_in_the_same_time() -> None:
    assert_tells_more(VALKEY)


def test_does_so_for_another_engine_and_without_data_sets_of_a_middle_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = [p for p in design.candidate_points() if p.keys not in (10_000, 100_000)]
    monkeypatch.setattr(design, "candidate_points", lambda: few)
    assert_tells_more(engine_with_priors("valkey", "9.1"))


def assert_tells_more(engine: EngineProfile) -> None:
    # What partly loaded points tell is not known beforehand: they are no part of the comparison.
    quick = [point for point in split(design_points("quick"))[0] if point.think_us == 0.0]
    budget_s = design_s(quick, TIMING)
    auto, _ = split(optimal_points(engine, HOST, timing=TIMING, budget_s=budget_s / 0.8))
    assert design_s(auto, TIMING) <= budget_s
    quick_known, auto_known = covariance(quick, engine), covariance(auto, engine)
    assert np.linalg.slogdet(auto_known)[1] < np.linalg.slogdet(quick_known)[1] - 1.0
    identified = np.diag(quick_known) < 0.5 * prior_errors() ** 2
    assert identified.sum() >= 5
    assert np.all(np.diag(auto_known)[identified] < 0.5 * prior_errors()[identified] ** 2)


@pytest.mark.parametrize("budget_s", [12.0, 60.0, 1000.0])
def test_a_fifth_of_the_budget_is_for_held_out_points(budget_s: float) -> None:
    points = optimal_points(VALKEY, HOST, timing=TIMING, budget_s=budget_s)
    fit, held_out = split(points)
    assert design_s(points, TIMING) <= budget_s
    assert design_s(fit, TIMING) <= 0.8 * budget_s
    assert held_out
    conditions = [point.model_copy(update={"role": "fit"}) for point in points]
    assert len(set(conditions)) == len(points)


def test_the_budget_is_used() -> None:
    assert design_s(auto(), TIMING) > 0.9 * 60.0


def test_the_same_every_time() -> None:
    assert optimal_points(VALKEY, HOST, timing=TIMING, budget_s=60.0) == auto()


def test_a_larger_budget_adds_points_to_fit() -> None:
    more, _ = split(optimal_points(VALKEY, HOST, timing=TIMING, budget_s=90.0))
    fewer, _ = split(auto())
    assert len(more) > len(fewer)


def test_loading_a_data_set_counts_once() -> None:
    one = Conditions(command="get", keys=1_000_000)
    other = one.model_copy(update={"pipeline": 16})
    alone = design_s([one], TIMING)
    assert design_s([one, other], TIMING) == pytest.approx(2 * alone - loading_s(one))


def test_too_small_a_budget_is_told() -> None:
    with pytest.raises(InputError, match=r"budget: found 3 s.*at least 4"):
        optimal_points(VALKEY, HOST, timing=TIMING, budget_s=3.0)


def server(path: Path, says: str) -> Path:
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_the_engine_that_will_be_observed_is_asked_for_its_version(tmp_path: Path) -> None:
    binary = server(tmp_path / "server", "Valkey server v=8.0.1 sha=00000000:0 malloc=libc bits=64")
    assert engine_version(binary) == ("valkey", "8.0.1")
    points = auto_points(binary, HOST, timing=TIMING, budget_s=60.0)
    assert points == auto()


@pytest.mark.parametrize("says", ["", "Valkey server", "memcached"])
def test_a_server_that_does_not_say_its_version(tmp_path: Path, says: str) -> None:
    with pytest.raises(EngineError, match="--version: found"):
        engine_version(server(tmp_path / "server", says))


def test_observing_needs_a_host(tmp_path: Path) -> None:
    binary = server(tmp_path / "server", "Redis server v=7.0.15 sha=00000000:0 malloc=libc bits=64")
    with pytest.raises(
        InputError, match=r"design auto: found no host; valid is.*forecache profile"
    ):
        observe(engine=binary, design="auto", out=tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()
