"""The study of live MGETs: its points, and what a key waits."""

import pytest

from evidence.live.mget import LONE_PIPELINE, Point, of_key, points_of


def test_points_are_all_loads_of_every_data_set() -> None:
    points = points_of("redis-8.0.6")
    assert len(points) == len(set(points)) == 3 * 2 * 7
    lone = [point for point in points if point.pipeline > 1]
    assert {(point.asked, point.pipeline) for point in lone} == {(1, LONE_PIPELINE)}


def test_waits_are_what_keys_take_beyond_those_in_the_caches() -> None:
    def cpu_us(point: Point) -> float:
        wait = {1_000: 0.0, 1_000_000: 0.5, 4_000_000: 0.8}[point.keys]
        if point.pipeline > 1:
            return 1.0 + wait
        return 10.0 + wait + (point.asked - 1) * (0.2 + wait / 2)

    found = of_key(
        {(p.keys, p.value_bytes, p.asked, p.pipeline): cpu_us(p) for p in points_of("redis-8.0.6")}
    )
    assert found[1_000_000, "one"] == pytest.approx(0.5)
    assert found[4_000_000, "further"] == pytest.approx(0.4)
