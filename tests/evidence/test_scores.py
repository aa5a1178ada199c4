"""What the page of scores says follows from points, intervals and series."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evidence.accuracy.compared import Compared, Place, live_rows
from evidence.accuracy.decisions import decisions, summary_of
from evidence.accuracy.errors import coverage_of, coverage_p_value, expected_median


def compared(error: float, half: float | None, level: float = 0.95) -> Compared:
    place = Place("x", "1", "throughput", "e", "h", "one thread", 1)
    if half is None:
        return Compared(place, 100.0, 100.0 * (1 + error))
    value = 100.0 * (1 + error)
    return Compared(place, 100.0, value, value * math.exp(-half), value * math.exp(half), level)


def test_intervals_expect_a_median_error() -> None:
    # Of one normal width: 0.6745 standard errors; at 90% an interval has 1.645 of them.
    assert expected_median([compared(0.0, 0.196)]) == pytest.approx(math.expm1(0.06745), rel=1e-3)
    narrow = [compared(0.0, 0.1645, level=0.9)]
    assert expected_median(narrow) == pytest.approx(math.expm1(0.06745), rel=1e-3)
    assert expected_median([compared(0.1, None)]) is None
    random = np.random.default_rng(1)
    widths = (0.02, 0.3, 0.3)
    drawn = [abs(random.standard_normal(100_000) * width / 1.95996) for width in widths]
    mixed = [compared(0.0, width) for width in widths]
    assert expected_median(mixed) == pytest.approx(np.expm1(np.median(drawn)), rel=0.02)


def test_coverage_counts_points_with_an_interval() -> None:
    points = [compared(0.05, 0.1), compared(0.2, 0.1, level=0.9), compared(0.5, None)]
    assert coverage_of(points) == {"points": 2, "inside": 0.5, "nominal": 0.925}
    assert coverage_of(points[2:]) is None


def test_coverage_is_compared_with_what_intervals_state() -> None:
    inside, outside = compared(0.05, 0.1), compared(0.2, 0.1)
    # 0.95 to the power of twenty is 36%, and no count is more probable.
    assert coverage_p_value([inside] * 19 + [outside]) == pytest.approx(1.0)
    assert coverage_p_value([inside] * 20) > 0.35
    assert coverage_p_value([inside] * 16 + [outside] * 4) < 0.05
    assert coverage_p_value([inside] * 200) < 0.05


def series(measured: list[float], predicted: list[float], **shared: Any) -> list[dict[str, Any]]:
    return [
        {
            "index": threads - 1,
            "given": {"io_threads": threads, **shared},
            "role": "validation",
            "observed": {"throughput_rps": m},
            "predicted": {"throughput_rps": {"value": p, "low": p, "high": p}},
        }
        for threads, m, p in zip(range(1, 10), measured, predicted, strict=False)
    ]


def test_decisions_are_judged_by_what_following_them_costs(tmp_path: Path) -> None:
    points = [
        *series([100, 200, 300, 310], [110, 210, 330, 320], command="get"),
        *series([100, 200, 300, 400], [110, 210, 216, 217], command="set"),
        *series([100, 200], [1, 2], command="few"),
    ]
    result = {"dataset": {"id": "made"}, "points": points}
    (tmp_path / "published-made.json").write_text(json.dumps(result))
    get, put = decisions(tmp_path)
    # 300 is within 5% of 310, so three threads do: predicted and measured agree.
    assert (get.best, get.wanted, get.recommended, get.as_measured, get.good) == (
        4,
        3,
        3,
        True,
        True,
    )
    assert get.cost == pytest.approx(10 / 310)
    assert (put.best, put.wanted, put.recommended, put.as_measured, put.good) == (
        4,
        4,
        2,
        False,
        False,
    )
    assert put.cost == pytest.approx(0.5)
    assert summary_of([get, put]) == {
        "series": 2, "best": 0, "as_measured": 1, "good": 1, "median_cost": 0.2661,
        "worst_cost": 0.5,
    }  # fmt: skip
    assert summary_of([]) == {"series": 0}


def test_live_rows_are_the_held_out_ones_with_their_pipeline() -> None:
    rows = [
        {"given": {"point": "a"}, "conditions": {"pipeline": 16}, "role": "holdout",
         "quantity": "cpu", "observed_ns": 10.0, "predicted_ns": 11.0, "low_ns": 9.0,
         "high_ns": 12.0},
        {"given": {"point": "a"}, "role": "holdout", "quantity": "throughput",
         "observed_rps": 5.0, "predicted_rps": 4.0},
        {"given": {"point": "b"}, "conditions": {}, "role": "fit", "quantity": "cpu",
         "observed_ns": 1.0, "predicted_ns": 1.0},
    ]  # fmt: skip
    cpu, throughput = live_rows(rows, engine="e", host="h")
    assert (cpu.place.pipeline, cpu.low, cpu.high, cpu.level) == (16, 9.0, 12.0, 0.9)
    assert (throughput.place.pipeline, throughput.low) == (16, None)
    assert throughput.error == pytest.approx(0.2)
