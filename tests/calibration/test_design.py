import math

import pytest

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.loadgen import memory_bytes
from forecache.calibration.observe.design import (
    LADDER_KEYS,
    LADDER_PIPELINE,
    LADDER_VALUE_BYTES,
    TIMINGS,
    design_points,
    random_points,
)
from forecache.sim.errors import InputError


def split(name: str) -> tuple[list[Conditions], list[Conditions]]:
    points = [point for point in design_points(name) if point.io_threads == 1]
    fit = [point for point in points if point.role == "fit"]
    return fit, [point for point in points if point.role == "holdout"]


@pytest.mark.parametrize("name", ["quick", "full"])
def test_no_point_is_measured_twice(name: str) -> None:
    conditions = [point.model_copy(update={"role": "fit"}) for point in design_points(name)]
    assert len(set(conditions)) == len(conditions)


@pytest.mark.parametrize("name", ["quick", "full"])
def test_holdout_points_lie_between_and_beyond(name: str) -> None:
    fit, holdout = split(name)
    assert len(fit) >= 20
    assert len(holdout) >= 12
    for field in ("pipeline", "value_bytes", "keys", "clients"):
        fitted = {getattr(point, field) for point in fit}
        others = {getattr(point, field) for point in holdout} - fitted
        assert any(min(fitted) < value < max(fitted) for value in others), field
    assert max(p.keys for p in holdout) > max(p.keys for p in fit)
    # 16 KiB is where both end in `full`; what holds beyond it is not claimed.
    largest = max(p.value_bytes for p in fit)
    assert max(p.value_bytes for p in holdout) > largest or (name, largest) == ("full", 16_384)
    assert {point.command for point in fit} >= {"get", "set"}
    assert "mix" in {point.command for point in holdout}


def test_quick_is_part_of_full() -> None:
    assert set(design_points("quick")) < set(design_points("full"))


def test_random_points_fill_the_space_and_are_all_held_out() -> None:
    points = random_points()
    assert points == random_points()
    assert {point.role for point in points} == {"holdout"}
    assert len({point.data_set for point in points}) == len(points) / 4
    ranges = {"keys": (100, 5e6), "value_bytes": (8, 16_384), "pipeline": (1, 128)}
    for field, (low, high) in ranges.items():
        values = [getattr(point, field) for point in points]
        assert low <= min(values)
        assert max(values) <= high
        # Every quarter of the range, in the logarithm, has its share.
        quarters = [min(3, int(4 * math.log(v / low) / math.log(high / low))) for v in values]
        for quarter in range(4):
            assert quarters.count(quarter) >= len(points) / 10, (field, quarter)
    assert all(point.keys * point.value_bytes <= 2**31 for point in points)
    kinds = {(point.command, point.popularity.kind) for point in points}
    assert kinds == {(c, p) for c in ("get", "set", "mix") for p in ("zipf", "uniform")}
    assert {point.get_fraction for point in points} == {1.0, 0.0, 0.8}
    assert set(points) <= set(design_points("full"))


def test_the_ladder_changes_the_number_of_keys_alone() -> None:
    ladder = [
        point
        for point in design_points("full")
        if (point.value_bytes, point.pipeline) == (LADDER_VALUE_BYTES, LADDER_PIPELINE)
        and (point.command, point.clients) == ("get", 50)
    ]
    assert [point.keys for point in ladder] == list(LADDER_KEYS)
    assert len({point.model_copy(update={"keys": 1}) for point in ladder}) == 1
    assert {point.role for point in ladder} == {"holdout"}


def test_loaded_open_loops_stand_beside_what_they_are_a_share_of() -> None:
    points = design_points("full")
    loaded = [point for point in points if point.rate_share is not None]
    closed = [point for point in points if point.arrival == "closed_loop"]
    for point in loaded:
        assert point.rate_rps is None
        twins = [other for other in closed if other.closed_twin == point.closed_twin]
        assert len(twins) == 1
        assert twins[0].data_set == point.data_set
    by_workload: dict[Conditions, list[Conditions]] = {}
    for point in loaded:
        by_workload.setdefault(point.closed_twin, []).append(point)
    assert len(by_workload) == 2
    for group in by_workload.values():
        shares = [point.rate_share or 0.0 for point in group]
        assert len(set(shares)) == len(shares)
        assert min(shares) <= 0.2
        assert max(shares) > 1.0, "the verdict beyond saturation"
        assert {point.role for point in group} in ({"fit", "holdout"}, {"holdout"})
    # One workload says what waking costs, the other checks it.
    assert len({point.closed_twin for point in loaded if point.role == "fit"}) == 1
    assert all((point.rate_share or 0.0) < 1.0 for point in loaded if point.role == "fit")
    assert not any(point.rate_share for point in design_points("quick"))


@pytest.mark.parametrize(("name", "limit_s"), [("quick", 80), ("full", 620)])
def test_time(name: str, limit_s: float) -> None:
    """With the overheads and the time of loading (1.4 us a key) of a two-core machine."""
    timing = TIMINGS[name]
    points = design_points(name)
    overhead_s = 0.015
    total_s = loading_s = 0.0
    for point in points:
        warm_up_s = timing.warm_up_s if point.io_threads == 1 else timing.io_warm_up_s
        closed = point.arrival == "closed_loop"
        window_s = timing.window_s if closed else timing.loaded_window_s
        total_s += timing.repetitions * (warm_up_s + point.clients * 1e-4 + window_s + overhead_s)
    for data_set in {point.data_set: point for point in points}.values():
        loading_s += 0.2 + data_set.keys * 1.4e-6
    # A fifth more of measuring, should other work disturb every point.
    assert loading_s + 1.2 * total_s < limit_s


def test_memory_is_modest() -> None:
    for name, limit in (("quick", 2**30), ("full", 3 * 2**30)):
        assert max(memory_bytes(point) for point in design_points(name)) < limit


def test_unknown_design() -> None:
    with pytest.raises(InputError, match="found 'slow'; valid is quick or full"):
        design_points("slow")
