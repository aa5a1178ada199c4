"""The fit of an engine: observations made by a known engine give that engine back."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecache.calibration.bundle.bundle import COMMANDS_FILE, Bundle
from forecache.calibration.bundle.points import Conditions, ObservedPoint, Popularity
from forecache.calibration.bundle.profiles import Profile, StageWork, ThreadWork
from forecache.calibration.fit.fit import Calibration, fit_bundle, is_usable, work_problem
from forecache.calibration.fit.prior import Prior, prior_errors, priors
from forecache.calibration.fit.regression import fit
from forecache.calibration.fit.work_model import (
    HOST_NAMES,
    PointCounts,
    WorkModel,
    counts_of,
    scenario_of,
    wake_times,
)
from forecache.calibration.observe.design import design_points
from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.commands import counted_on
from forecache.models.engines.profile import EngineProfile
from forecache.sim.effort import VARIABLE
from forecache.sim.errors import InputError
from tests.calibration.known_engine import (
    CATALOGUE_HOST,
    HOST,
    PRIOR,
    TRUE,
    TRUE_FILLS,
    TRUE_HOST,
    TRUE_IPC,
    known_engine,
    observed,
    plain,
    simulated,
    written,
)

CPU = "server_cpu_ns_per_request"


COUNTS = Path(__file__).parents[2] / "evidence/counts/command_counts/valkey-9.1.2.json"


def observe_known(noise: float = 0.0, seed: int = 1) -> list[ObservedPoint]:
    random = np.random.default_rng(seed)
    return [
        observed(given, noise=noise * float(random.standard_normal()))
        for given in design_points("quick")
    ]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    """The fit to a bundle of the known engine without measurement noise."""
    return fit_bundle(
        Bundle.load(written(tmp_path_factory.mktemp("fit") / "bundle", observe_known()))
    )


def test_the_fit_explains_every_point_of_a_known_engine(fitted: Calibration) -> None:
    times = np.log([point.ordinary(CPU) for point in fitted.fitted])
    errors = fitted.model.log_cpu_ns(fitted.posterior.logs) - times
    assert np.abs(errors).max() < 0.03
    assert np.sqrt(np.mean(errors**2)) < 0.012
    assert len(errors) == len([g for g in design_points("quick") if g.role == "fit"])


def test_the_parts_of_a_point_add_up_to_it(fitted: Calibration) -> None:
    parts = fitted.model.parts(fitted.posterior.logs)
    assert sum(parts.values()) == pytest.approx(
        np.exp(fitted.model.log_cpu_ns(fitted.posterior.logs))
    )
    assert all((part >= 0).all() for part in parts.values())


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("kernel_scale", 0.05), ("get_instructions_per_byte", 0.3), ("stream_scale", 0.25)],
)
def test_identified_numbers_come_back(fitted: Calibration, name: str, tolerance: float) -> None:
    true = PRIOR.work[name].best * TRUE[name]
    assert fitted.profile.work[name].value == pytest.approx(true, rel=tolerance)


def test_what_only_a_sum_identifies_comes_back_as_a_sum(fitted: Calibration) -> None:
    """CPU time knows instructions of all of a command together, at the rate they retire."""

    def total_cycles(work: dict[str, Any], host: HostProfile, *names: str) -> float:
        return sum(work[name].best for name in names) / host.user_ipc.best

    known = known_engine().work
    for names in (
        ("parse_instructions", "get_instructions"),
        ("parse_instructions", "set_instructions", "value_instructions"),
    ):
        found = total_cycles(fitted.profile.work, fitted.host, *names)
        assert found == pytest.approx(total_cycles(known, TRUE_HOST, *names), rel=0.05)


def test_true_numbers_lie_in_the_ranges_of_the_fitted_ones(tmp_path: Path) -> None:
    """With measurement noise as assumed, nearly all 95% ranges hold what is true."""
    held = []
    for seed in (1, 2, 3):
        calibration = fit_bundle(
            Bundle.load(written(tmp_path / str(seed), observe_known(0.05, seed)))
        )
        for name, factor in TRUE.items():
            leaf = calibration.profile.work[name]
            assert leaf.low is not None
            assert leaf.high is not None
            held.append(leaf.low <= PRIOR.work[name].best * factor <= leaf.high)
        ranges = calibration.host.uncertain()
        for name, factor in (("user_ipc", TRUE_IPC), ("l3_fills_per_us", TRUE_FILLS)):
            low, _, high = ranges[name]
            held.append(low <= HOST.uncertain()[name][1] * factor <= high)
    assert np.mean(held) >= 0.9


HELD_OUT = [
    Conditions(command="get", pipeline=3, value_bytes=300, keys=40_000),
    Conditions(command="set", pipeline=24, value_bytes=64, keys=2_000_000),
    Conditions(command="mix", get_fraction=0.7, value_bytes=1000, keys=500_000, clients=120),
    Conditions(command="get", keys=10_000_000, pipeline=4, popularity=Popularity(kind="zipf")),
]


@pytest.mark.parametrize("given", HELD_OUT, ids=lambda given: given.label())
def test_the_fitted_engine_predicts_points_it_never_saw(
    fitted: Calibration, given: Conditions
) -> None:
    true = simulated(given, known_engine(), TRUE_HOST, seed=2)
    found = simulated(given, fitted.profile, fitted.host, seed=2)
    before = simulated(given, PRIOR, HOST, seed=2)
    cpu = true.server_cpu_us_per_request
    assert found.server_cpu_us_per_request == pytest.approx(cpu, rel=0.04)
    assert abs(before.server_cpu_us_per_request / cpu - 1) > 0.05, "the prior is elsewhere"


def test_the_load_generators_work_is_counted_at_the_rate_the_host_was_found_to_have(
    fitted: Calibration,
) -> None:
    """It was right from the start: a slow host is not to be blamed on it."""
    posterior = fitted.generator_posterior
    rate = fitted.host.user_ipc.best / TRUE_HOST.user_ipc.best
    assert posterior.factor("request") / rate == pytest.approx(1.0, abs=0.06)
    assert posterior.factor("kernel") == pytest.approx(1.0, abs=0.06)


def test_a_fitted_profile_says_where_it_comes_from(fitted: Calibration) -> None:
    profile = fitted.profile
    assert profile.version == "9.1.2"
    assert profile.observed is not None
    assert (profile.observed.host, profile.observed.version) == (HOST.id, "9.1.2")
    assert profile.work["kernel_scale"].kind == "fitted"
    assert profile.work["kernel_scale"].source in profile.sources
    assert "of what is known of it" in profile.work["prefetch_instructions_per_key"].method
    assert "of what is known of it" not in profile.work["kernel_scale"].method
    # What CPU time of one thread can't show keeps its prior.
    assert profile.work["push_instructions"] == PRIOR.work["push_instructions"]
    assert profile.covariance is not None
    assert not set(HOST_NAMES) & set(profile.covariance)
    names = list(profile.covariance)
    matrix = np.array([[profile.covariance[a][b] for b in names] for a in names])
    assert matrix == pytest.approx(matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > -1e-3
    EngineProfile.model_validate(profile.model_dump(mode="json", exclude_none=True))


def test_covariance_and_ranges_tell_the_host_known_from_the_host_unknown(
    fitted: Calibration,
) -> None:
    """On the host of the fit instructions are known better: its rate is part of the fit."""
    profile = fitted.profile
    assert profile.covariance is not None
    for name in ("get_instructions", "kernel_scale"):
        leaf = profile.work[name]
        assert leaf.low is not None
        assert leaf.high is not None
        wide = np.log(leaf.high / leaf.low) / (2 * 1.95996)
        assert wide == pytest.approx(fitted.posterior.error(name), rel=0.01)
        assert np.sqrt(profile.covariance[name][name]) <= wide * 1.001
    get = np.sqrt(profile.covariance["get_instructions"]["get_instructions"])
    assert get < 0.95 * fitted.posterior.error("get_instructions")


def test_the_fitted_host_is_the_one_the_engine_met(fitted: Calibration) -> None:
    host = fitted.host
    assert host.id == HOST.id
    for name in HOST_NAMES:
        leaf = dict(host.quantities())[name]
        assert (leaf.kind, leaf.source) == ("fitted", "bundle")
        assert leaf.value == pytest.approx(
            HOST.uncertain()[name][1] * fitted.posterior.factor(name), rel=1e-3
        )
    assert "bundle" in host.sources
    # Nothing else of it is touched.
    changed = {"user_ipc", "l3_fills_per_us", "sources"}
    assert host.model_dump(exclude=changed) == HOST.model_dump(exclude=changed)
    HostProfile.model_validate(host.model_dump(mode="json", exclude_none=True))


def test_a_sleep_counts_by_its_length() -> None:
    speed = HOST.speed()
    long, short = (
        PointCounts(
            *(1.0, 1.0, 1.0, 1.0),
            generator_wakes=0.5,
            server_sleeps=0.25,
            generator_sleep_ns=lasts_ns,
            server_sleep_ns=lasts_ns,
        )
        for lasts_ns in (math.inf, 0.0)
    )
    share = speed.short_sleep_share

    def price_ns(of_generator: bool, block_ns: float) -> float:
        wakes, sleeps = (0.25, 0.5) if of_generator else (0.5, 0.25)
        return wakes * speed.wake_send_ns + sleeps * block_ns

    for of_generator in (False, True):
        # Only a core that idles for a while stops its tick.
        whole_ns = price_ns(of_generator, speed.whole_block_ns)
        least_ns = share * price_ns(of_generator, speed.block_ns)
        assert wake_times(long, speed, of_generator=of_generator) == pytest.approx((whole_ns, 0.0))
        found = wake_times(short, speed, of_generator=of_generator)
        assert found == pytest.approx((0.0, least_ns))


# --- counted instructions ---------------------------------------------------------------------


def counted(command: str, pipeline: int) -> Profile:
    """What callgrind would count of the known engine, stage by stage."""
    given = Conditions(command=command, pipeline=pipeline)  # type: ignore[arg-type]
    repetition = observed(given).repetitions[0]
    work = known_engine().engine_work()
    reads = repetition.reads_per_request or 0.0
    writes = repetition.writes_per_request or 0.0
    loops = repetition.event_loops_per_request or 0.0
    stages = {
        "loop": 0.9 * loops * work.loop_instructions,
        "poll": 0.1 * loops * work.loop_instructions,
        "read": reads * work.read_instructions,
        "write": writes * work.write_instructions,
        "parse": work.parse_instructions,
        "execute": work.get_instructions if command == "get" else work.set_instructions,
        "memory": 0.0 if command == "get" else work.value_instructions,
        "lookup": work.prefetch_instructions_per_key if pipeline > 1 else 0.0,
    }
    costs = [
        StageWork(stage=stage, instructions_per_request=count)  # type: ignore[arg-type]
        for stage, count in stages.items()
    ]
    return Profile(
        profiler="callgrind",
        tool="made up",
        given=given,
        reads_per_request=reads,
        writes_per_request=writes,
        event_loops_per_request=loops,
        threads=[ThreadWork(thread="server", role="main", stages=costs)],
    )


def test_counted_instructions_tell_work_from_the_rate_it_retires_at(
    fitted: Calibration, tmp_path: Path
) -> None:
    profiles = tuple(counted(command, n) for command in ("get", "set") for n in (1, 16))
    told = fit_bundle(Bundle.load(written(tmp_path / "told", observe_known(), profiles=profiles)))
    before, after = fitted.posterior, told.posterior
    assert after.factor("user_ipc") == pytest.approx(TRUE_IPC, rel=0.06)
    assert after.error("user_ipc") < 0.5 * before.error("user_ipc")
    # Parsing and execution, which CPU time can't tell apart, and SET's share of either.
    for name in ("parse_instructions", "get_instructions", "read_instructions"):
        assert after.factor(name) == pytest.approx(TRUE[name], rel=0.08), name
        assert after.error(name) < 0.5 * before.error(name)
    # Instructions alone say nothing of times.
    assert after.factor("kernel_scale") == pytest.approx(TRUE["kernel_scale"], rel=0.05)
    assert len(told.left_out) == len(told.fitted)


# --- left out ---------------------------------------------------------------------------------


def test_a_point_left_out_is_predicted_by_a_fit_without_its_data_set(fitted: Calibration) -> None:
    data_sets = {point.given.data_set for point in fitted.fitted}
    assert len(data_sets) >= 5
    for data_set in sorted(data_sets)[:2]:
        inside = np.array([point.given.data_set == data_set for point in fitted.fitted])
        others = [p for p, own in zip(fitted.fitted, inside, strict=True) if not own]
        spread = prior_errors()
        prior = Prior(PRIOR, np.zeros(len(spread)), np.diag(spread**2))
        problem, _ = work_problem(others, prior, HOST.speed())
        known = fit(problem)
        times = np.log([point.ordinary(CPU) for point in fitted.fitted])
        errors = fitted.model.log_cpu_ns(known.logs) - times
        assert fitted.left_out[inside] == pytest.approx(errors[inside], abs=2e-3)
    told = fitted.model.log_cpu_ns(fitted.posterior.logs) - times
    assert np.sqrt(np.mean(fitted.left_out**2)) > np.sqrt(np.mean(told**2))


# --- what can't be fitted ---------------------------------------------------------------------


def test_every_factor_has_a_prior_with_a_range() -> None:
    known = priors()
    assert set(WorkModel.names) == set(known) | set(HOST_NAMES)
    for leaf in known.values():
        assert leaf.low is not None
        assert leaf.high is not None
        assert leaf.low < leaf.best < leaf.high
        assert leaf.kind == "assumed"


@pytest.mark.parametrize(
    ("point", "fits"),
    [
        (plain(), True),
        (plain(flags=["generator"]), True),
        (plain(flags=["errors"]), False),
        (plain(flags=["misses"]), False),
        (plain(io_threads=2), False),
    ],
)
def test_which_points_can_be_fitted(point: ObservedPoint, fits: bool) -> None:
    assert is_usable(point) == fits


def test_a_bundle_needs_a_host_and_enough_points(tmp_path: Path) -> None:
    points = [plain(pipeline=n) for n in (1, 2, 3, 4)]
    without_host = written(tmp_path / "a", points, host=None)
    with pytest.raises(InputError, match=r"no host\.yaml.*--host"):
        fit_bundle(Bundle.load(without_host))
    few = written(tmp_path / "b", [*points[:3], plain(role="holdout")])
    with pytest.raises(InputError, match=r"found 3 points.*at least 4"):
        fit_bundle(Bundle.load(few))


def test_a_fit_that_takes_too_long_is_refused_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = written(tmp_path / "a", [plain(pipeline=n) for n in (1, 2, 3, 4)])
    monkeypatch.setenv(VARIABLE, "0.05")
    with pytest.raises(InputError, match=rf"fitting 4 points of .*on one core.*{VARIABLE}"):
        fit_bundle(Bundle.load(bundle))


def test_a_host_can_be_given_beside_the_bundle(tmp_path: Path) -> None:
    """One from the catalogue says nothing of neighbours; the fit does."""
    points = [plain(pipeline=n) for n in (1, 2, 3, 4)]
    calibration = fit_bundle(
        Bundle.load(written(tmp_path / "a", points, host=None)), host=CATALOGUE_HOST
    )
    assert calibration.host.id == CATALOGUE_HOST.id
    assert CATALOGUE_HOST.l3_fills_per_us is None
    assert calibration.host.l3_fills_per_us is not None


def test_an_unmodelled_engine_is_reported(tmp_path: Path) -> None:
    points = [plain(pipeline=n) for n in (1, 2, 3, 4)]
    path = written(tmp_path / "a", points, name="valkey", version="7.1.5")
    with pytest.raises(InputError, match=r"'7\.1\.5'.*8\.0"):
        fit_bundle(Bundle.load(path))


def test_conditions_without_a_model_are_told() -> None:
    given = Conditions(command="get", arrival="open_loop", rate_rps=1e4, pipeline=4)
    with pytest.raises(InputError, match=r"observed point get P4.*open_loop"):
        scenario_of(given, engine="valkey", engine_version="9.1")


def test_an_engine_whose_replies_wait_turns_twice_for_a_read_where_it_counts_none() -> None:
    point = observed(Conditions(command="get", pipeline=4))
    uncounted = point.model_copy(
        update={
            "repetitions": [
                each.model_copy(update={"event_loops_per_request": None})
                for each in point.repetitions
            ]
        }
    )
    once, twice = (counts_of(uncounted, turns_per_round=turns) for turns in (1, 2))
    assert twice.turns == 2 * once.turns > 0.0
    # What an engine counts needs no rule.
    assert counts_of(point, turns_per_round=2) == counts_of(point)


def test_an_engine_with_counts_of_its_own_has_them_in_its_profile(tmp_path: Path) -> None:
    folder = written(tmp_path / "bundle", observe_known())
    shipped = fit_bundle(Bundle.load(folder)).profile
    data = json.loads(COUNTS.read_text())
    # A fork whose ZADD takes twice as long, and which has no GEOADD.
    data["points"] = [point for point in data["points"] if point["command"] != "geoadd"]
    for point in data["points"]:
        point["execute"] *= 2.0 if point["command"] == "zadd" else 1.0
    data["logged"] = data["logged"][:2]
    (folder / COMMANDS_FILE).write_text(json.dumps(data))
    found = fit_bundle(Bundle.load(folder)).profile
    assert {*counted_on(shipped.commands)} - {*counted_on(found.commands)} == {"geoadd"}
    name = "zadd_table_instructions"
    assert found.commands[name].best == pytest.approx(2 * shipped.commands[name].best, rel=0.01)
    assert found.commands["incr_instructions"].best == shipped.commands["incr_instructions"].best
    assert found.commands[name].source in found.sources
