"""Two nodes side by side: pairs of the same random numbers, and what they share cancels."""

import math
from pathlib import Path
from typing import Any

import pytest

from forecache.models.advice.answers import load_cases
from forecache.models.advice.compare import NodeComparison, compare
from forecache.models.advice.paired import SHARED_ERROR, PairedQuantity, shared_error
from forecache.models.prediction.predict import Prediction
from forecache.sim.errors import InputError

BASE: dict[str, Any] = {
    "host": "graviton3-c7g.4xlarge",
    "engine": "valkey",
    "engine_version": "8.0",
    "io_threads": 1,
    "workload": {"clients": 50, "keys": 100_000, "value_bytes": 64},
}


def by_name(answer: NodeComparison) -> dict[str, PairedQuantity]:
    return {each.quantity: each for each in answer.differences}


def test_a_node_against_itself_is_the_same() -> None:
    found = by_name(compare(BASE, dict(BASE)))
    for each in found.values():
        assert each.ratio is not None
        assert (each.ratio.low, each.ratio.value, each.ratio.high) == (1.0, 1.0, 1.0), each.quantity
        assert each.verdict == "the same"


def test_the_other_way_round_is_the_reciprocal() -> None:
    threads = {**BASE, "io_threads": 4}
    forth, back = by_name(compare(BASE, threads)), by_name(compare(threads, BASE))
    for name, difference in forth.items():
        one, other = difference.ratio, back[name].ratio
        assert one is not None
        assert other is not None
        assert one.value == pytest.approx(1.0 / other.value)
        assert one.low == pytest.approx(1.0 / other.high)
    assert forth["throughput_rps"].verdict == "higher"
    assert back["throughput_rps"].verdict == "lower"
    assert forth["usd_per_million_requests"].verdict == "lower"


def test_what_both_share_cancels() -> None:
    """The same server with larger values: its ratio is known better than either throughput."""
    larger = {**BASE, "workload": {**BASE["workload"], "value_bytes": 256}}
    found = by_name(compare(BASE, larger))["throughput_rps"]
    assert found.first is not None
    assert found.second is not None
    assert found.ratio is not None
    widths = [math.log(e.high / e.low) for e in (found.first, found.second, found.ratio)]
    assert widths[2] < 0.8 * math.hypot(widths[0], widths[1])
    assert by_name(compare(BASE, larger))["used_memory_bytes"].verdict == "higher"


def test_a_sweep_of_threads_stands_for_the_recommended_one() -> None:
    answer = compare(BASE, {**BASE, "io_threads": {"sweep": [1, 4]}})
    assert answer.second.point.given == {"io_threads": 4}
    assert [answer.first.name, answer.second.name] == ["first", "second"]


def test_a_latency_beyond_capacity_has_no_ratio() -> None:
    load = {**BASE["workload"], "arrival": "open_loop", "rate_rps": 10_000_000}
    found = by_name(compare(BASE, {**BASE, "workload": load}))["p99_ms"]
    assert found.second is None
    assert found.ratio is None
    assert found.verdict == "undecided"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"io_threads": 4}, SHARED_ERROR["all but threads"]),
        ({"engine": "redis", "engine_version": "7.0"}, SHARED_ERROR["host"]),
        ({"workload": {"clients": 20}}, SHARED_ERROR["host"]),
        ({"host": "graviton4-c8g.4xlarge"}, 0.0),
    ],
)
def test_errors_have_less_in_common_the_more_differs(
    change: dict[str, Any], expected: float
) -> None:
    one, other = (
        Prediction(case, system, [], [])
        for [(case, system)] in (load_cases(BASE), load_cases({**BASE, **change}))
    )
    assert shared_error(one, other) == expected


def test_only_threads_may_be_swept(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("host: graviton3-c7g.4xlarge\nengine: valkey\n", encoding="utf-8")
    with pytest.raises(InputError, match="same file twice"):
        compare(file, file)
    workload = {**BASE["workload"], "clients": {"sweep": [10, 50]}}
    with pytest.raises(InputError, match=r"clients"):
        compare(file, {**BASE, "workload": workload})
