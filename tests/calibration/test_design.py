import pytest

from forecache.calibration.design import TIMINGS, design_points
from forecache.calibration.points import Given
from forecache.calibration.preload import memory_bytes
from forecache.sim.errors import InputError


def split(name: str) -> tuple[list[Given], list[Given]]:
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
    assert max(p.value_bytes for p in holdout) > max(p.value_bytes for p in fit)
    assert {point.command for point in fit} >= {"get", "set"}
    assert "mix" in {point.command for point in holdout}


def test_quick_is_part_of_full() -> None:
    assert set(design_points("quick")) < set(design_points("full"))


@pytest.mark.parametrize(("name", "limit_s"), [("quick", 75), ("full", 300)])
def test_time(name: str, limit_s: float) -> None:
    """With the overheads and the time of loading (1.4 us a key) of a two-core machine."""
    timing = TIMINGS[name]
    points = design_points(name)
    overhead_s = 0.015
    total_s = loading_s = 0.0
    for point in points:
        warm_up_s = timing.warm_up_s if point.io_threads == 1 else timing.io_warm_up_s
        total_s += timing.repetitions * (
            warm_up_s + point.clients * 1e-4 + timing.window_s + overhead_s
        )
    for data_set in {point.data_set: point for point in points}.values():
        loading_s += 0.2 + data_set.keys * 1.4e-6
    # A fifth more of measuring, should other work disturb every point.
    assert loading_s + 1.2 * total_s < limit_s


def test_memory_is_modest() -> None:
    assert max(memory_bytes(point.load_spec()) for point in design_points("quick")) < 2**30


def test_unknown_design() -> None:
    with pytest.raises(InputError, match="found 'slow'; valid is quick or full"):
        design_points("slow")
