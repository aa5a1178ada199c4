"""What calibrate makes of a fit: the model's own error, wake-ups, and a report."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions, ObservedPoint
from forecache.calibration.fit import calibrate as module
from forecache.calibration.fit import identifiability, simulated_fit
from forecache.calibration.fit.calibrate import calibrate, fit_discrepancy, with_discrepancy
from forecache.calibration.fit.fit import Calibration, fit_bundle
from forecache.calibration.fit.identifiability import candidate_points
from forecache.calibration.fit.report import CPU
from forecache.calibration.fit.simulated_fit import fit_wake_latency, quiet_ms
from forecache.calibration.observe.design import design_points
from forecache.hwprofiles.schema import HostProfile
from forecache.models.prediction import predict
from tests.calibration.known_engine import (
    TRUE_HOST,
    known_engine,
    observed,
    plain,
    simulated,
    written,
)


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the known engine without measurement noise."""
    points = [observed(given) for given in design_points("quick")]
    return written(tmp_path_factory.mktemp("calibrate") / "bundle", points)


@pytest.fixture
def short_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the draws, and shorter ones, tell the intervals; advice is a test of its own."""
    monkeypatch.setattr(module, "DRAWS", 6)
    monkeypatch.setattr(predict, "DRAW_REQUESTS", 2_000)
    monkeypatch.setattr(identifiability, "candidate_points", lambda: candidate_points()[::20])


@pytest.mark.usefixtures("short_report")
def test_calibrate_reports_errors_of_fitted_and_held_out_points(exact: Path) -> None:
    profile, typed = calibrate(Bundle.load(exact))
    report = typed.to_dict()
    summary = report["summary"]
    for role in ("fit", "holdout"):
        assert summary[role]["n"] > 10
        assert summary[role]["median_ape"] < 0.02
        assert summary[role]["median_ape"] <= summary[role]["p95_ape"] <= summary[role]["max_ape"]
        assert summary[role]["max_ape"] < 0.10
        assert summary[role]["rms"] <= summary[role]["max_ape"]
        assert summary[role]["coverage"] > 0.9
    assert {row["role"] for row in report["points"]} == {"fit", "holdout"}
    for row in report["points"]:
        if row["quantity"] == "server CPU time per request":
            assert row["low_ns"] < row["predicted_ns"] < row["high_ns"]
            assert row["relative_error"] == pytest.approx(
                row["predicted_ns"] / row["observed_ns"] - 1
            )
    throughput = report["summary"]["by_quantity"]["throughput"]["holdout"]
    assert throughput["median_ape"] < 0.05
    assert profile.discrepancy == report["discrepancy"]["all"]
    assert profile.memory_discrepancy == report["discrepancy"]["memory"]
    assert {row["name"].split(".")[0] for row in report["parameters"]} == {"engine", "generator"}


@pytest.mark.usefixtures("short_report")
def test_a_newer_version_is_calibrated_by_the_rules_of_the_newest_known(
    exact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DRAWS", 2)
    monkeypatch.setattr(simulated_fit, "REQUESTS", 2_000)
    bundle = Bundle.load(exact)
    engine = bundle.manifest.engine.model_copy(update={"version": "9.7.1"})
    manifest = bundle.manifest.model_copy(update={"engine": engine})
    profile, report = calibrate(replace(bundle, manifest=manifest))
    assert (profile.version, profile.taken_as, profile.reuse) == ("9.7.1", "9.1", None)
    assert report.warnings == [profile.taken_as_words]
    assert report.summary.by_quantity[CPU]["holdout"].n > 10


def test_the_discrepancy_is_small_where_the_model_is_right(exact: Path) -> None:
    fitted = fit_bundle(Bundle.load(exact))
    right = with_discrepancy(fitted).profile
    assert right.discrepancy is not None
    assert right.discrepancy < 0.04
    # And as large as what the left-out points were missed by.
    wrong = replace(
        fitted, left_out=fitted.left_out + 0.2 * (-1.0) ** np.arange(len(fitted.fitted))
    )
    found = with_discrepancy(wrong).profile
    assert found.discrepancy is not None
    assert found.memory_discrepancy is not None
    assert 0.12 < found.discrepancy + found.memory_discrepancy * 0.2 < 0.3


@pytest.mark.parametrize(("plain_error", "memory_error"), [(0.03, 0.2), (0.10, 0.3), (0.05, 0.05)])
def test_the_models_own_error_comes_back(plain_error: float, memory_error: float) -> None:
    random = np.random.default_rng(3)
    shares = random.uniform(0.0, 0.9, 4000)
    spread = np.hypot(plain_error, memory_error * shares)
    found = fit_discrepancy(spread * random.standard_normal(4000), shares)
    assert found[0] == pytest.approx(plain_error, rel=0.08)
    assert found[1] == pytest.approx(memory_error, rel=0.12)


def test_a_handful_of_points_cannot_claim_to_know_the_models_error() -> None:
    nothing = fit_discrepancy(np.array([]), np.array([]))
    assert nothing[:2] == pytest.approx((0.05, 0.10), rel=0.01)
    assert nothing.points == 0
    lucky = fit_discrepancy(np.zeros(2), np.zeros(2))
    assert 0.005 < lucky[0] < 0.05
    assert lucky[1] == pytest.approx(0.10, rel=0.02), "no point waited for memory"
    assert fit_discrepancy(np.zeros(40), np.zeros(40))[0] < lucky[0]


def loaded(given: Conditions, host: HostProfile) -> ObservedPoint:
    """An open loop of the known engine on a host, as `observe` would write it."""
    result = simulated(given, known_engine(), host)
    latency = result.latency
    known = plain(**given.model_dump(exclude={"command", "get_fraction"}))
    [repetition] = known.repetitions
    numbers = {
        "throughput_rps": result.throughput_rps,
        "main_thread_cpu_ns_per_request": result.server_cpu_us_per_request * 1000.0,
        "quiet_p50_ms": latency.quantile(0.5) / 1e9,
        "quiet_p99_ms": latency.quantile(0.99) / 1e9,
    }
    return ObservedPoint(given=given, repetitions=[repetition.model_copy(update=numbers)])


def test_the_wake_latency_comes_back_from_medians_of_open_loops(exact: Path) -> None:
    fitted = fit_bundle(Bundle.load(exact))
    assert fit_wake_latency(fitted) is fitted, "no open loop tells"
    old = TRUE_HOST.kernel.wake_latency_ns
    slow = old.model_copy(update={"value": old.best * 1.5, "low": None, "high": None})
    kernel = TRUE_HOST.kernel.model_copy(
        update={
            "wake_latency_ns": slow,
        }
    )
    host = TRUE_HOST.model_copy(update={"kernel": kernel})
    points = [
        loaded(
            Conditions(
                command="get", arrival="open_loop", rate_share=share, rate_rps=share * 150_000
            ),
            host,
        )
        for share in (0.2, 0.4)
    ]

    def with_points(role: str) -> Calibration:
        told = [
            point.model_copy(update={"given": point.given.model_copy(update={"role": role})})
            for point in points
        ]
        bundle = replace(fitted.bundle, points=[*fitted.bundle.points, *told])
        return replace(fitted, bundle=bundle)

    held_out = with_points("holdout")
    assert fit_wake_latency(held_out) is held_out
    found = fit_wake_latency(with_points("fit")).host.kernel.wake_latency_ns
    assert found.kind == "fitted"
    assert found.best == pytest.approx(old.best * 1.5, rel=0.12)


def test_quiet_latencies_are_the_median_of_those_that_are_known() -> None:
    [repetition] = plain().repetitions
    values = [0.2, None, 0.4, 0.9]
    point = ObservedPoint(
        given=Conditions(command="get"),
        repetitions=[repetition.model_copy(update={"quiet_p50_ms": value}) for value in values],
    )
    assert quiet_ms(point, "p50") == 0.4
    assert np.isnan(quiet_ms(point, "p99"))
