"""The study of live MGETs: its points, which windows it keeps, and what a key waits."""

import pytest

from evidence.live import mget
from evidence.live.mget import LONE_PIPELINE, Window, of_key, points_of


def test_points_are_all_loads_of_every_data_set() -> None:
    points = points_of("redis-8.0.6")
    assert len(points) == len(set(points)) == 3 * 2 * 7
    lone = [point for point in points if point.pipeline > 1]
    assert {(point.asked, point.pipeline) for point in lone} == {(1, LONE_PIPELINE)}


@pytest.mark.parametrize(
    ("others", "kept"), [([0.3, 0.04, 0.0], 0.04), ([0.5, 0.3, 0.2, 0.6, 0.4, 0.0], 0.2)]
)
def test_a_disturbed_window_is_tried_again_and_the_calmest_kept(
    monkeypatch: pytest.MonkeyPatch, others: list[float], kept: float
) -> None:
    tries = iter(Window(cpu_us=1.0, rps=1.0, others=share) for share in others)
    monkeypatch.setattr(mget, "_tried", lambda *_: next(tries))
    assert mget._window(1, 2, None).others == kept  # type: ignore[arg-type]


def test_waits_are_what_keys_take_beyond_those_in_the_caches() -> None:
    def cpu_us(point: mget.Point) -> float:
        wait = {1_000: 0.0, 1_000_000: 0.5, 4_000_000: 0.8}[point.keys]
        if point.pipeline > 1:
            return 1.0 + wait
        return 10.0 + wait + (point.asked - 1) * (0.2 + wait / 2)

    found = of_key(
        {(p.keys, p.value_bytes, p.asked, p.pipeline): cpu_us(p) for p in points_of("redis-8.0.6")}
    )
    assert found[1_000_000, "one"] == pytest.approx(0.5)
    assert found[4_000_000, "further"] == pytest.approx(0.4)
