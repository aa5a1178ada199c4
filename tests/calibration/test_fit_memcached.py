"""The work of Memcached's one thread, fitted to observations of an engine whose work is known."""

from pathlib import Path

import pytest

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions, ObservedPoint, Repetition
from forecache.calibration.bundle.profiles import Profile, StageWork, ThreadWork
from forecache.calibration.fit.calibrate import stage_checks
from forecache.calibration.fit.fit import Calibration, fit_bundle
from forecache.calibration.fit.prior import earlier_profile, engine_with_priors, prior_from, priors
from forecache.calibration.fit.simulated_fit import predict_points
from forecache.calibration.fit.work_model import instruction_rows, scenario_of
from forecache.hwprofiles.files import dump_yaml
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import SERVER_CPU
from forecache.models.prediction.simulation import run
from forecache.models.prediction.system import System
from tests.calibration.known_engine import HOST, written

TRUE = {
    "read_instructions": 1.5,
    "parse_instructions": 0.7,
    "get_instructions": 0.6,
    "set_instructions": 0.7,
    "value_instructions": 1.4,
    "kernel_scale": 1.2,
}

FITTED = [
    *(Conditions(command="get", pipeline=pipeline) for pipeline in (1, 4, 16)),
    *(Conditions(command="set", pipeline=pipeline) for pipeline in (1, 16)),
    Conditions(command="get", clients=1),
    Conditions(command="get", keys=1_000_000, pipeline=16),
    Conditions(command="set", keys=100_000, value_bytes=512, pipeline=16),
    Conditions(command="get", value_bytes=4_096, pipeline=4),
]
HELD_OUT = [
    Conditions(command="get", keys=300_000, value_bytes=100, pipeline=8, role="holdout"),
    Conditions(command="set", pipeline=8, role="holdout"),
    Conditions(command="mix", clients=10, role="holdout"),
]


def observed(given: Conditions) -> ObservedPoint:
    """As `observe` writes a point of Memcached, which doesn't count reads, writes and turns."""
    engine = engine_with_priors("memcached", "1.6.38")
    work = dict(engine.work)
    for name, factor in TRUE.items():
        work[name] = work[name].model_copy(update={"value": work[name].best * factor})
    system = System(HOST, engine.model_copy(update={"work": work}), load_generator("forecache"))
    scenario = scenario_of(given, engine="memcached", engine_version="1.6.38")
    result = run(system.inputs(scenario), requests=8_000, seed=1)

    def each(name: str) -> float:
        return result.counters[name] / result.completions

    repetition = Repetition(
        started_s=0.0,
        requests=result.completions,
        duration_s=result.window_s,
        throughput_rps=result.throughput_rps,
        main_thread_cpu_ns_per_request=result.server_cpu_us_per_request * 1000,
        main_thread_utilisation=result.main_thread_utilisation,
        main_voluntary_switches_per_request=each("blocks"),
        main_involuntary_switches_per_request=0.0,
        generator_cpu_ns_per_request=result.generator_cpu_us_per_request * 1000,
        generator_utilisation=result.load_generator_utilisation,
        generator_loops_per_request=each("generator_polls"),
        generator_events_per_request=1.0 / given.pipeline,
        generator_reads_per_request=each("writes"),
        generator_sends_per_request=1.0 / given.pipeline,
        generator_voluntary_switches_per_request=each("paid_wakes"),
    )
    return ObservedPoint(given=given, repetitions=[repetition])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    points = [observed(given) for given in (*FITTED, *HELD_OUT)]
    folder = tmp_path_factory.mktemp("memcached") / "bundle"
    return fit_bundle(Bundle.load(written(folder, points, name="memcached", version="1.6.38")))


def test_held_out_points_are_predicted(fitted: Calibration) -> None:
    points = [point for point in fitted.bundle.points if point.given.role == "holdout"]
    assert len(points) == len(HELD_OUT)
    for point, prediction in zip(points, predict_points(fitted, points, draws=0), strict=True):
        seen_us = point.ordinary("server_cpu_ns_per_request") / 1e3
        assert prediction.mean(SERVER_CPU) == pytest.approx(seen_us, rel=0.06), point.given.label()


def test_only_the_work_of_one_thread_is_fitted(fitted: Calibration) -> None:
    rules, work = load_engine("memcached", "1.6.38"), fitted.profile.work
    changed = {name for name in work if work[name].source == "bundle"}
    absent = "prefetch_instructions_per_key"
    assert changed == set(priors()) - {absent}
    for name in set(work) - changed:
        assert work[name] == rules.work[name]
    assert work[absent].best == 0.0


def test_the_fitted_profile_is_one_to_use(fitted: Calibration, tmp_path: Path) -> None:
    file = tmp_path / "memcached.yaml"
    file.write_text(dump_yaml(fitted.profile.model_dump(mode="json", by_alias=True)))
    loaded = load_engine(str(file))
    assert loaded.work == fitted.profile.work
    assert (loaded.version, loaded.policy) == ("1.6.38", "locked_threads")
    # And one to begin another fit with.
    assert prior_from(loaded).errors.max() < 2.0


def test_what_is_shipped_is_known_before_a_fit(fitted: Calibration) -> None:
    known = earlier_profile(fitted.bundle)
    shipped = load_engine("memcached", "1.6.38")
    assert (known is None) == (shipped.observed is None)


def test_instructions_count_as_a_whole() -> None:
    stages = [
        StageWork(stage=stage, instructions_per_request=count)
        for stage, count in (("loop", 2000.0), ("parse", 700.0), ("write", 10.0), ("other", 5e4))
    ]
    profile = Profile(
        profiler="callgrind",
        tool="valgrind",
        given=Conditions(command="get"),
        threads=[ThreadWork(thread="all", role="main", stages=stages)],
    )
    rows = instruction_rows([profile], engine_with_priors("memcached", "1.6.38"))
    assert rows.observed.tolist() == [2710.0]
    other = instruction_rows([profile], engine_with_priors("redis", "7.0"))
    assert sorted(other.observed.tolist()) == [700.0, 2000.0]


def test_stages_of_functions_without_names_are_not_compared(fitted: Calibration) -> None:
    assert stage_checks(fitted) == []
