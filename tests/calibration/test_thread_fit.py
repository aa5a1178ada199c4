"""Costs between threads: what a point says of them, and what a fit finds of an engine it knows."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from forecache.calibration.bundle.points import Conditions, ObservedPoint
from forecache.calibration.fit import simulated_fit
from forecache.calibration.fit.fit import Calibration
from forecache.calibration.fit.simulated_fit import BESIDE, ThreadModel, fit_threads, usable_threads
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.prediction.system import System

from .known_engine import HOST, plain

CORES = 2


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_fit, "REQUESTS", 2_000)


def threaded(main_us: float, io_us: float, *, waiting: bool = True, **given: Any) -> ObservedPoint:
    """A point whose threads compute that, and wait as long again where they spin."""
    point = plain(io_threads=2, **given)
    share = 0.5 if waiting else 0.0
    change: dict[str, Any] = {
        "main_thread_cpu_ns_per_request": main_us * 1e3 / (1.0 - share),
        "io_thread_cpu_ns_per_request": [io_us * 1e3 / (1.0 - share)],
    }
    if waiting:
        change |= {"main_thread_waiting_share": share, "io_threads_waiting_shares": [share]}
    return point.model_copy(
        update={"repetitions": [point.repetitions[0].model_copy(update=change)]}
    )


def points_of(engine: EngineProfile, **true: float) -> list[ObservedPoint]:
    """What would be observed of an engine with these factors on its costs."""
    given = [
        {"command": command, "pipeline": pipeline, "value_bytes": value_bytes}
        for command in ("get", "set")
        for pipeline, value_bytes in ((1, 16), (4, 16), (16, 16), (16, 1024))
    ]
    blank = [threaded(1.0, 1.0, **each) for each in given]
    model = ThreadModel(blank, System(HOST, engine, load_generator("forecache")), cores=CORES)
    logs = np.log([true.get(name, 1.0) for name in model.names])
    return [
        threaded(main, io, waiting=not engine.threading.threads_sleep, **each)
        for each, (main, io) in zip(given, model.computing(logs), strict=True)
    ]


def calibrated(engine: EngineProfile, points: list[ObservedPoint]) -> Calibration:
    """As far as a fit of threads looks at it."""
    machine = SimpleNamespace(cores_available=CORES, main_thread_core=0, io_thread_cores=[1])
    of = SimpleNamespace(name=engine.engine, version="9.1.2")
    manifest = SimpleNamespace(machine=machine, engine=of, created="2026-11-25T00:00:00")
    bundle = SimpleNamespace(points=points, manifest=manifest, path=Path("made-up"))
    return cast(
        "Calibration",
        SimpleNamespace(
            bundle=bundle, profile=engine, host=HOST, generator=load_generator("forecache")
        ),
    )


@pytest.mark.parametrize(("name", "version"), [("valkey", "8.1"), ("redis", "8.6")])
def test_a_fit_finds_what_decides(name: str, version: str) -> None:
    engine = load_engine(name, version)
    true = {BESIDE: 0.7, "execute_lines": 1.8}
    found = fit_threads(calibrated(engine, points_of(engine, **true)))
    assert found is not None
    assert found.placement[BESIDE] == pytest.approx(0.7, rel=0.2)
    again = fit_threads(calibrated(engine, points_of(engine)))
    assert again is not None
    before, after = (fit.posterior.factor("execute_lines") for fit in (again, found))
    assert after > 1.2 * before
    leaf = found.profile.work["execute_lines"]
    assert leaf.kind in ("fitted", "prior")
    assert leaf.source == "threads"
    assert "between CPUs" in found.profile.sources["threads"].title


def test_what_was_assumed_explains_what_it_predicts() -> None:
    engine = load_engine("valkey", "9.1")
    found = fit_threads(calibrated(engine, points_of(engine)))
    assert found is not None
    assert max(abs(found.posterior.logs)) < math.log(1.1)


def test_points_that_say_nothing_of_threads_are_left_out() -> None:
    engine = load_engine("valkey", "8.1")
    assert not usable_threads(plain())
    assert fit_threads(calibrated(engine, [plain()])) is None
    # Spinning can't be told apart.
    spinning = threaded(1.0, 1.0, waiting=False, command="get")
    assert fit_threads(calibrated(engine, [spinning])) is None
    assert not usable_threads(
        spinning.model_copy(
            update={
                "repetitions": [spinning.repetitions[0].model_copy(update={"flags": ["errors"]})]
            }
        )
    )


def test_windows_that_saw_a_thread_only_wait_do_no_harm() -> None:
    engine = load_engine("valkey", "8.1")
    points = points_of(engine)

    def lazy(point: ObservedPoint, windows: int) -> ObservedPoint:
        """With that many windows more, in which nobody was seen working."""
        (seen,) = point.repetitions
        only = {"main_thread_waiting_share": 1.0, "io_threads_waiting_shares": [1.0]}
        return point.model_copy(
            update={"repetitions": [seen, seen] + [seen.model_copy(update=only)] * windows}
        )

    found = fit_threads(calibrated(engine, [lazy(points[0], 1), lazy(points[1], 3), *points[2:]]))
    assert found is not None
    assert found.points == [lazy(points[0], 1), *points[2:]]
    assert np.isfinite(found.posterior.logs).all()


def test_active_time_of_info_stands_for_the_main_thread() -> None:
    point = threaded(1.0, 2.0, command="get")
    (repetition,) = point.repetitions
    assert repetition.main_thread_computing_ns_per_request == pytest.approx(1000.0)
    assert repetition.io_threads_computing_ns_per_request == pytest.approx(2000.0)
    assert repetition.waiting_ns_per_request == pytest.approx(3000.0)
    said = repetition.model_copy(update={"main_thread_active_time_ns_per_request": 700.0})
    assert said.main_thread_computing_ns_per_request == 700.0
    more = repetition.model_copy(update={"main_thread_active_time_ns_per_request": 1e6})
    assert more.main_thread_computing_ns_per_request == 2000.0, "at most its CPU time"
    assert Conditions(command="get", io_threads=2).label().endswith("io2")
