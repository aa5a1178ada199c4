"""Random points of real engines, and what their page says of measured against predicted."""

from typing import Any

import pytest

from evidence.live.generations import DATA_SETS, POINTS, random_points
from evidence.live.generations_page import _ratios
from evidence.live.rounds import MOST_BYTES, repeat


def test_random_points_are_those_of_their_seed_and_lie_in_the_space() -> None:
    points = random_points(5)
    assert points == random_points(5) != random_points(6)
    assert len(points) == POINTS
    assert len({point.data_set for point in points}) == DATA_SETS
    for point in points:
        assert point.role == "holdout"
        assert 1 <= point.pipeline <= 64
        assert 1 <= point.clients <= 200
        assert 8 <= point.value_bytes <= 4096
        assert point.keys * point.value_bytes <= MOST_BYTES


def row(engine: str, cpu_us: tuple[float, ...], predicted_us: float, point: str) -> dict[str, Any]:
    return {
        "engine": engine,
        "tool": "valkey-benchmark",
        "point": point,
        "cpu_us": cpu_us,
        "predicted_us": predicted_us,
    }


@pytest.mark.parametrize(
    ("cpu_us", "predicted_us", "clear", "wrong"),
    [
        ((12.0, 12.2), 11.0, 1, 0),  # 21% more, predicted 10% more
        ((12.0, 12.2), 9.0, 1, 1),  # and 10% less
        ((10.1, 10.3), 9.0, 0, 0),  # 2% is no step
        ((9.0, 15.0), 9.0, 0, 0),  # nor is what two windows differ by
    ],
)
def test_signs_count_where_the_measured_step_is_clear(
    cpu_us: tuple[float, ...], predicted_us: float, clear: int, wrong: int
) -> None:
    rows = [
        row("valkey-8.0.1", (10.0, 10.0), 10.0, "get"),
        row("redis-7.0.15", cpu_us, predicted_us, "get"),
        row("redis-7.0.15", (50.0, 50.0), 1.0, "of another point"),
    ]
    table = _ratios(rows)
    cells = [cell.strip() for cell in table[-1].strip("|").split("|")]
    assert cells[0] == "redis-7.0.15"
    assert (int(cells[2]), int(cells[3])) == (clear, wrong)
    assert repeat(rows[0]["cpu_us"]) == 0.0


def test_without_the_reference_there_are_no_ratios() -> None:
    assert _ratios([row("redis-7.0.15", (10.0, 10.0), 10.0, "get")]) == []
