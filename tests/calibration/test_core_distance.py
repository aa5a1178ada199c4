"""Windows wait for the cores to be as far apart as when the host was profiled."""

import pytest

from forecache.calibration.bundle.points import ObservedPoint, Repetition
from forecache.calibration.observe import core_distance
from forecache.calibration.observe.core_distance import CoreDistance
from forecache.calibration.observe.measure import plan_cores
from forecache.hwprofiles import load_host
from tests.calibration.test_bundle import repetition

PLAN = plan_cores(io_threads=1, generator_threads=1, allowed={0, 1})
NEAR_NS, FAR_NS = 28.0, 125.0


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What each look finds, in order; the last one again and again."""
    found: list[float] = []

    def distance_ns(*_: object) -> float:
        return found.pop(0) if len(found) > 1 else found[0]

    monkeypatch.setattr(core_distance, "pair_among", lambda _: (0, 1))
    monkeypatch.setattr(core_distance, "distance_ns", distance_ns)
    monkeypatch.setattr(core_distance.time, "sleep", lambda _: None)
    return found


@pytest.fixture
def near() -> CoreDistance:
    """Of a host whose cores were near each other when it was profiled."""
    host = load_host("c7g.4xlarge")
    measured = host.core_to_core_ns.model_copy(update={"kind": "measured", "value": NEAR_NS})
    return CoreDistance(host.model_copy(update={"core_to_core_ns": measured}), patience_s=5.0)


def test_it_waits_until_the_cores_are_back(near: CoreDistance, looks: list[float]) -> None:
    looks += [FAR_NS, FAR_NS, NEAR_NS]
    assert near.wait(PLAN) == NEAR_NS
    assert 0.0 < near.patience_s < 5.0


def test_its_patience_ends(near: CoreDistance, looks: list[float]) -> None:
    looks.append(FAR_NS)
    assert near.wait(PLAN) == FAR_NS
    assert near.patience_s <= 0.0


@pytest.mark.parametrize(
    ("before_ns", "after_ns", "moved"),
    [(27.0, 31.0, False), (27.0, 124.0, True), (124.0, 27.0, True), (124.0, 126.0, True)],
)
def test_a_window_elsewhere_is_flagged_and_left_out(
    near: CoreDistance, before_ns: float, after_ns: float, moved: bool
) -> None:
    found = near.noted(repetition(5000.0), before_ns, after_ns)
    assert found.core_to_core_ns == (before_ns, after_ns)
    assert ("moved" in found.flags, found.quiet) == (moved, not moved)


def test_without_a_profile_a_window_must_only_end_where_it_began() -> None:
    anywhere = CoreDistance(None, patience_s=5.0)
    assert anywhere.noted(repetition(5000.0), FAR_NS, FAR_NS).quiet
    assert not anywhere.noted(repetition(5000.0), FAR_NS, NEAR_NS).quiet


def test_it_looks_where_the_profile_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    def distance_ns(pair: object, _: object) -> float:
        looked.append(pair)
        return NEAR_NS

    # CPUs 0 and 1 are hyperthreads of one core, and a profile knows its pair of two cores.
    monkeypatch.setattr(core_distance, "pair_among", {frozenset(range(4)): (0, 2)}.get)
    monkeypatch.setattr(core_distance, "distance_ns", distance_ns)
    plan = plan_cores(io_threads=2, generator_threads=1, allowed=range(4))
    assert CoreDistance(None, patience_s=5.0).of(plan) == NEAR_NS
    assert looked == [(0, 2)]


def test_one_core_has_no_distance(near: CoreDistance) -> None:
    alone = plan_cores(io_threads=1, generator_threads=1, allowed={0})
    assert near.wait(alone) is None
    whole: Repetition = repetition(5000.0)
    assert near.noted(whole, None, None) == whole


def test_medians_leave_moved_windows_out() -> None:
    windows = [repetition(5000.0), repetition(9000.0, flags=["moved"]), repetition(5200.0)]
    given = ObservedPoint.model_validate(
        {"given": {"command": "get"}, "repetitions": [w.model_dump() for w in windows]}
    )
    assert given.median("main_thread_cpu_ns_per_request") == pytest.approx(5100.0)
