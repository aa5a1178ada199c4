"""Real profilers on a real redis-server; each skips where it can't be used."""

from pathlib import Path

import pytest

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions
from forecache.calibration.bundle.profiles import StageWork
from forecache.calibration.drive.servers import find_engine
from forecache.calibration.observe.design import Timing
from forecache.calibration.observe.observe import observe
from forecache.calibration.observe.profilers.callgrind import Callgrind, geometry_of
from forecache.calibration.observe.profilers.choose import ProfilerChoice
from forecache.calibration.observe.profilers.perf import Clock
from forecache.calibration.observe.profilers.session import ProfileEvidence, Profiler
from forecache.hwprofiles import load_host
from forecache.sim.errors import EngineError, InputError
from tests.live_engine import need, not_live

ONE = Conditions(command="get", clients=20)
DEEP = Conditions(command="get", pipeline=16, clients=20)


@pytest.fixture(scope="module")
def redis() -> Path:
    need("redis-server")
    return find_engine("redis-server")


def usable(profiler: Profiler) -> None:
    reason = profiler.refusal()
    if reason is not None:
        not_live(f"{profiler.name} can't be used here: {reason}")


def stages(found: ProfileEvidence) -> dict[str, StageWork]:
    return {cost.stage: cost for cost in found.profile.threads[0].stages}


@pytest.mark.alone
def test_the_clock_sees_where_time_goes(redis: Path) -> None:
    clock = Clock(window_s=0.4)
    usable(clock)
    one, deep = clock.profile(redis, [ONE, DEEP])
    for found in (one, deep):
        profile = found.profile
        assert profile.samples is not None
        assert profile.samples > 50
        assert profile.unattributed is not None
        assert profile.unattributed < 0.3
        main = profile.threads[0]
        assert main.role == "main"
        assert sum(cost.share or 0 for cost in main.stages) == pytest.approx(1)
        write = stages(found)["write"]
        assert write.share is not None
        assert write.kernel_share is not None
        assert 0.05 < write.kernel_share <= write.share
    # A pipeline spreads the system calls over its requests.
    assert one.profile.reads_per_request == pytest.approx(1, rel=0.02)
    assert deep.profile.reads_per_request == pytest.approx(1 / 16, rel=0.02)
    calls = [sum(cost.kernel_share or 0 for cost in stages(f).values()) for f in (one, deep)]
    assert calls[0] > calls[1]


@pytest.fixture(scope="module")
def counted(redis: Path) -> tuple[ProfileEvidence, ProfileEvidence]:
    callgrind = Callgrind(geometry=geometry_of(load_host("graviton3")))
    usable(callgrind)
    one, deep = callgrind.profile(redis, [ONE, DEEP])
    return one, deep


def test_instructions_do_not_depend_on_the_machine(
    counted: tuple[ProfileEvidence, ProfileEvidence],
) -> None:
    one, deep = (stages(found) for found in counted)
    for stage in ("parse", "execute", "lookup", "reply"):
        a, b = (costs[stage].instructions_per_request or 0 for costs in (one, deep))
        assert 100 < a < 5000, stage
        assert b == pytest.approx(a, rel=0.3), stage
    # Reading and writing is done once for the whole pipeline.
    for stage in ("read", "write"):
        a, b = (costs[stage].instructions_per_request or 0 for costs in (one, deep))
        assert b < 0.4 * a, stage
    for found in counted:
        assert found.profile.unattributed == pytest.approx(0, abs=0.02)
        assert len(found.evidence) > 500
    assert counted[0].profile.reads_per_request == pytest.approx(1.0, abs=0.01)
    assert counted[1].profile.reads_per_request == pytest.approx(1 / 16, abs=0.01)


def test_misses_are_few_and_references_many(
    counted: tuple[ProfileEvidence, ProfileEvidence],
) -> None:
    for found in counted:
        for cost in found.profile.threads[0].stages:
            if cost.stage == "other":
                continue
            numbers = (
                cost.instructions_per_request,
                cost.data_references_per_request,
                cost.d1_misses_per_request,
                cost.ll_misses_per_request,
            )
            assert None not in numbers
            instructions, references, d1, ll = (number or 0.0 for number in numbers)
            assert 0.15 * instructions - 20 < references < 0.8 * instructions + 20
            assert d1 < 0.2 * abs(references) + 10
            assert ll <= d1 + 1


def test_a_bundle_keeps_profiles(
    redis: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(window_s=0.2)
    usable(clock)
    monkeypatch.setattr(Clock, "points", lambda _self: [ONE])
    timing = Timing(warm_up_s=0.03, window_s=0.1, repetitions=1, patience_s=0.0)
    bundle = observe(
        engine=redis, design=[ONE], out=tmp_path / "bundle", timing=timing, profiler="clock"
    )
    assert bundle.manifest.profiling == "clock was asked for."
    assert bundle.manifest.depth == "clock"
    (profile,) = bundle.profiles
    assert profile.given == ONE
    assert profile.evidence == "profiles/001.txt.gz"
    assert (bundle.path / profile.evidence).is_file()
    file = bundle.path / "profiles.jsonl"
    file.write_text(file.read_text()[:-10])
    with pytest.raises(InputError, match=r"profiles\.jsonl, line 1: no JSON"):
        Bundle.load(bundle.path)


class Broken:
    """A profiler whose program fails half-way."""

    name = "perf"
    depth = "counters"

    def refusal(self) -> None:
        return None

    def points(self) -> list[Conditions]:
        return [ONE]

    def profile(self, _binary: Path, _points: list[Conditions]) -> list[ProfileEvidence]:
        raise EngineError("perf failed (status 1): no more counters.")


def test_a_failing_profiler_does_not_cost_the_observation(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = ProfilerChoice((Broken(),), "perf was asked for.")  # type: ignore[arg-type]
    monkeypatch.setattr("forecache.calibration.observe.observe.choose", lambda *_a, **_k: chosen)
    bundle = observe(
        engine=binary,
        design=[ONE],
        out=tmp_path / "bundle",
        timing=Timing(warm_up_s=0.03, window_s=0.1, repetitions=1, patience_s=0.0),
        profiler="perf",
    )
    assert (bundle.manifest.depth, bundle.profiles) == ("clock", [])
    reason = "perf was asked for. perf stopped: perf failed (status 1): no more counters."
    assert bundle.manifest.profiling == reason
