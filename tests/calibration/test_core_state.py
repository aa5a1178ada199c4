"""Windows wait for the cores to be as far apart, and as fast, as when the host was profiled."""

import pytest

from forecache.calibration.bundle.points import ObservedPoint, Repetition
from forecache.calibration.observe import observe
from forecache.calibration.observe.measure import plan_cores
from forecache.calibration.observe.observe import CoreLook, CoreState
from forecache.hwprofiles import load_host
from tests.calibration.test_bundle import repetition

PLAN = plan_cores(io_threads=1, generator_threads=1, allowed={0, 1})
NEAR_NS, FAR_NS = 28.0, 125.0
FAST_NS, SLOW_NS = 18.5, 26.0


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What each look finds, in order; the last one again and again."""
    found: list[float] = []

    def distance_ns(*_: object) -> float:
        return found.pop(0) if len(found) > 1 else found[0]

    monkeypatch.setattr(observe, "pair_among", lambda _: (0, 1))
    monkeypatch.setattr(observe, "distance_ns", distance_ns)
    monkeypatch.setattr(observe.time, "sleep", lambda _: None)
    monkeypatch.setattr(observe, "core_answer_ns", lambda _: FAST_NS)
    return found


@pytest.fixture
def near() -> CoreState:
    """Of a host whose cores were near each other when it was profiled."""
    host = load_host("c7g.4xlarge")
    measured = host.core_to_core_ns.model_copy(update={"kind": "measured", "value": NEAR_NS})
    return CoreState(host.model_copy(update={"core_to_core_ns": measured}), patience_s=5.0)


def at(distance_ns: float | None, answer_ns: float = FAST_NS) -> CoreLook:
    return CoreLook(distance_ns, answer_ns)


def test_it_waits_until_the_cores_are_back(near: CoreState, looks: list[float]) -> None:
    looks += [FAR_NS, FAR_NS, NEAR_NS]
    assert near.wait(PLAN).distance_ns == NEAR_NS
    assert 0.0 < near.patience_s < 5.0


def test_its_patience_ends(near: CoreState, looks: list[float]) -> None:
    looks.append(FAR_NS)
    assert near.wait(PLAN).distance_ns == FAR_NS
    assert near.patience_s <= 0.0


@pytest.mark.parametrize(
    ("before_ns", "after_ns", "moved"),
    [(27.0, 31.0, False), (27.0, 124.0, True), (124.0, 27.0, True), (124.0, 126.0, True)],
)
def test_a_window_elsewhere_is_flagged_and_left_out(
    near: CoreState, before_ns: float, after_ns: float, moved: bool
) -> None:
    found = near.with_looks(repetition(5000.0), at(before_ns), at(after_ns))
    assert found.core_to_core_ns == (before_ns, after_ns)
    assert ("moved" in found.flags, found.quiet) == (moved, not moved)


def test_without_a_profile_a_window_must_only_end_where_it_began() -> None:
    anywhere = CoreState(None, patience_s=5.0)
    assert anywhere.with_looks(repetition(5000.0), at(FAR_NS), at(FAR_NS)).quiet
    assert not anywhere.with_looks(repetition(5000.0), at(FAR_NS), at(NEAR_NS)).quiet


def test_it_waits_until_no_core_is_slow(
    near: CoreState, looks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks.append(NEAR_NS)
    answers = [FAST_NS, FAST_NS, FAST_NS, SLOW_NS, SLOW_NS, FAST_NS, FAST_NS, 1.1 * FAST_NS]
    monkeypatch.setattr(observe, "core_answer_ns", lambda _: answers.pop(0))
    assert near.wait(PLAN).answer_ns == FAST_NS
    assert near.wait(PLAN).answer_ns == 1.1 * FAST_NS
    assert not answers
    assert near.patience_s == pytest.approx(4.5)


@pytest.mark.parametrize(("before_ns", "after_ns"), [(FAST_NS, SLOW_NS), (SLOW_NS, FAST_NS)])
def test_a_window_with_a_slow_core_is_flagged_and_left_out(
    near: CoreState, looks: list[float], before_ns: float, after_ns: float
) -> None:
    looks.append(NEAR_NS)
    near.look(PLAN)
    found = near.with_looks(repetition(5000.0), at(NEAR_NS, before_ns), at(NEAR_NS, after_ns))
    assert found.core_answer_ns == (before_ns, after_ns)
    assert (found.flags, found.quiet) == (["slowed"], False)


def test_the_slowest_core_counts() -> None:
    found = CoreState(None, patience_s=0.0).look(PLAN)
    assert 1.0 < found.answer_ns < 1000.0


def test_it_looks_where_the_profile_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    def distance_ns(pair: object, _: object) -> float:
        looked.append(pair)
        return NEAR_NS

    # CPUs 0 and 1 are hyperthreads of one core, and a profile knows its pair of two cores.
    monkeypatch.setattr(observe, "pair_among", {frozenset(range(4)): (0, 2)}.get)
    monkeypatch.setattr(observe, "distance_ns", distance_ns)
    monkeypatch.setattr(observe, "core_answer_ns", lambda _: FAST_NS)
    plan = plan_cores(io_threads=2, generator_threads=1, allowed=range(4))
    assert CoreState(None, patience_s=5.0).look(plan).distance_ns == NEAR_NS
    assert looked == [(0, 2)]


def test_one_core_has_no_distance(near: CoreState) -> None:
    alone = plan_cores(io_threads=1, generator_threads=1, allowed={0})
    assert near.wait(alone).distance_ns is None
    found: Repetition = near.with_looks(repetition(5000.0), at(None), at(None))
    assert (found.core_to_core_ns, found.quiet) == (None, True)


def test_medians_leave_moved_windows_out() -> None:
    windows = [repetition(5000.0), repetition(9000.0, flags=["moved"]), repetition(5200.0)]
    given = ObservedPoint.model_validate(
        {"given": {"command": "get"}, "repetitions": [w.model_dump() for w in windows]}
    )
    assert given.median("main_thread_cpu_ns_per_request") == pytest.approx(5100.0)
