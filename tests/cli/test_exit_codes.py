"""Exit code 7: an answer is there, and a requirement is not met."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Run
from tests.models.conftest import short_runs as short_runs

pytestmark = pytest.mark.usefixtures("short_runs")

RATE = {"arrival": "open_loop", "rate_rps": 5_000, "clients": 50, "command": "get", "keys": 100_000}
NODE: dict[str, Any] = {"host": "r7g.large", "engine": "valkey", "engine_version": "8.0"}
HOLDS = NODE | {"io_threads": 1, "workload": RATE}
TOO_MUCH_DATA = HOLDS | {"workload": RATE | {"keys": 20_000_000, "value_bytes": 800}}
OVERLOADED = HOLDS | {"workload": RATE | {"rate_rps": 2_000_000}}
SAVES = HOLDS | {
    "host": "r7g.medium",
    "persistence": {"snapshot": {"every_s": 600, "child_s": 300}},
}
MISSES = HOLDS | {"slo": {"p99_ms": 0.01}}
SWEEP = HOLDS | {"workload": RATE | {"rate_rps": {"sweep": [5_000, 2_000_000]}}}


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(content: dict[str, Any], name: str = "scenario.yaml") -> str:
        path = tmp_path / name
        path.write_text(yaml.safe_dump(content))
        return str(path)

    return write


@pytest.mark.parametrize("verb", ["simulate", "explain"])
@pytest.mark.parametrize(
    ("scenario", "code", "told"),
    [
        (HOLDS, 0, ""),
        (NODE | {"workload": {"clients": 50}}, 0, ""),  # a closed loop is saturated, which holds
        (TOO_MUCH_DATA, 7, "which needs"),
        (OVERLOADED, 7, "the backlog grows by"),
        (SAVES, 7, "of 1 CPU"),
        (MISSES, 7, "met with a probability of <1%"),
        (SWEEP, 7, "2,000,000: overloaded"),
    ],
)
def test_any_point_that_does_not_hold(
    verb: str, scenario: dict[str, Any], code: int, told: str, file: Any, forecache: Run
) -> None:
    found = forecache(verb, file(scenario), "-q")
    assert found.returncode == code
    assert found.stdout
    assert found.stderr.count("\n") == (code == 7)
    if told:
        assert "scenario.yaml: not met: " in found.stderr
        assert told in found.stderr


def test_json_has_what_does_not_hold(file: Any, forecache: Run) -> None:
    found = forecache("simulate", file(TOO_MUCH_DATA), "-q", "--json")
    [point] = json.loads(found.stdout)["points"]
    [unmet] = point["unmet"]
    assert (found.returncode, point["verdict"], unmet["what"]) == (7, "UNFIT", "memory")
    assert unmet["needed"] > unmet["available"] == pytest.approx(14.4)


def test_recommend_looks_at_the_setting_to_run(file: Any, forecache: Run) -> None:
    """What no setting meets has a code of its own, and other settings may fail."""
    threads = {"io_threads": {"sweep": [1, 2]}}
    assert forecache("recommend", file(HOLDS | threads), "-q").returncode == 0
    assert forecache("recommend", file(SAVES | {"io_threads": 1}), "-q").returncode == 7
    assert forecache("recommend", file(TOO_MUCH_DATA | threads), "-q").returncode == 3
    assert forecache("recommend", file(MISSES | threads), "-q").returncode == 3
    needs_two = {"workload": RATE | {"rate_rps": 250_000, "clients": 400}, "host": "r7g.xlarge"}
    few = forecache("recommend", file(HOLDS | needs_two | {"io_threads": {"sweep": [1, 4]}}), "-q")
    assert few.returncode == 0
    assert "Run io-threads 4" in few.stdout


def test_compare_looks_at_both_sides(file: Any, forecache: Run) -> None:
    holds, fails = file(HOLDS, "holds.yaml"), file(TOO_MUCH_DATA, "fails.yaml")
    other = file(HOLDS | {"engine_version": "8.1"}, "other.yaml")
    assert forecache("compare", holds, other, "-q").returncode == 0
    found = forecache("compare", holds, fails, "-q")
    assert found.returncode == 7
    assert "fails.yaml: not met" in found.stderr
    assert forecache("compare", fails, holds, "-q").returncode == 7


def test_a_measurement_that_fits_a_prediction_that_does_not_hold(
    file: Any, tmp_path: Path, forecache: Run
) -> None:
    measured = tmp_path / "measured.yaml"
    measured.write_text("throughput_rps: 5000\n")
    assert forecache("check", file(HOLDS), str(measured), "-q").returncode == 0
    found = forecache("check", file(TOO_MUCH_DATA), str(measured), "-q")
    assert found.returncode == 7
    assert "unfit: r7g.large leaves" in found.stdout
    measured.write_text("throughput_rps: 500\n")
    assert forecache("check", file(TOO_MUCH_DATA), str(measured), "-q").returncode == 6


def test_one_point_of_a_large_sweep(file: Any, tmp_path: Path, forecache: Run) -> None:
    pytest.importorskip("pyarrow")
    folder = str(tmp_path / "swept")
    for _ in range(2):  # the second time all answers are there
        found = forecache("sweep", file(SWEEP), "--out", folder, "--nominal", "--jobs", "1", "-q")
        assert found.returncode == 7
        assert "1 of 2 points" in found.stderr
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(folder).to_pylist()
    assert [row["verdict"] for row in rows] == ["STABLE", "OVERLOADED"]
    assert rows[0]["unmet"] is None
    assert "the backlog grows" in rows[1]["unmet"]
    holds = forecache("sweep", file(HOLDS), "--out", str(tmp_path / "holds"), "--nominal", "-q")
    assert holds.returncode == 0


def test_memory_that_data_exceed(file: Any, forecache: Run) -> None:
    assert forecache("memory", file(HOLDS)).returncode == 0
    found = forecache("memory", file(TOO_MUCH_DATA))
    assert found.returncode == 7
    assert "the data do not fit" in found.stderr
