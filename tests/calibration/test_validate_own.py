"""Validation of the file a user writes first: own measurements, and nothing to fit to."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from forecache.calibration.validate import node_dataset as module
from forecache.calibration.validate.validate import validate
from forecache.hwprofiles import load_host
from forecache.sim.errors import InputError

GET = {"given": {"command": "get"}, "observed": {"throughput_rps": 2e5}, "role": "validation"}


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUESTS", 2000)
    monkeypatch.setattr(module, "FIT_REQUESTS", 2000)
    monkeypatch.setattr(module, "DRAWS", 4)


def written(folder: Path, *points: dict[str, Any], host: str | None = "graviton3") -> Path:
    scenario = {
        "host": host,
        "engine": "valkey",
        "engine_version": "8.0",
        "workload": {"clients": 20},
    }
    data = {"id": "mine", "title": "mine", "sources": [], "scenario": scenario}
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**data, "points": list(points)}), encoding="utf-8")
    return path


def width(result: dict[str, Any]) -> float:
    predicted = result["points"][0]["predicted"]["throughput_rps"]
    assert predicted["low"] < predicted["value"] < predicted["high"]
    return float(predicted["high"] / predicted["low"])


def test_own_measurements_are_predicted_with_nothing_fitted(tmp_path: Path) -> None:
    result = validate(written(tmp_path, GET)).to_dict()
    assert result["fitted"] == []
    assert result["provenance"]["calibration_points"] == []
    assert result["warnings"] == []
    assert result["summary"]["throughput_rps"]["n"] == 1
    assert width(result) > 1.0


def test_a_host_from_a_file_is_known(tmp_path: Path) -> None:
    file = tmp_path / "host.yaml"
    file.write_text(load_host("graviton4").to_yaml(), encoding="utf-8")
    named = validate(written(tmp_path, GET, host=str(file))).to_dict()
    assert (named["host"]["id"], named["host"]["named"]) == ("graviton4", True)
    given = validate(written(tmp_path, GET, host=None), host=file).to_dict()
    assert (given["host"]["id"], given["host"]["named"]) == ("graviton4", True)
    assert given["warnings"] == []
    assert given["points"] == named["points"]


def test_an_unknown_host_widens_the_interval_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Four draws say too little about a width.
    monkeypatch.setattr(module, "DRAWS", 24)
    known = validate(written(tmp_path, GET)).to_dict()
    unknown = validate(written(tmp_path, GET, host=None)).to_dict()
    assert unknown["host"]["named"] is False
    [warning] = unknown["warnings"]
    assert "speed of the host is unknown" in warning
    assert "--host" in warning
    # A factor of which 95% lie within exp(±1.96 * 0.25), besides.
    assert width(unknown) > 1.2 * width(known)


def test_points_without_throughput_are_predicted_and_not_fitted(tmp_path: Path) -> None:
    latency = {"observed": {"p99_ms": 0.4}}
    result = validate(
        written(tmp_path, GET | latency, GET | latency | {"role": "calibration"})
    ).to_dict()
    assert result["fitted"] == []
    assert set(result["summary"]) == {"p99_ms"}
    assert any("no point with role calibration has throughput_rps" in w for w in result["warnings"])


def test_points_that_may_all_be_fitted_are_told(tmp_path: Path) -> None:
    result = validate(written(tmp_path, GET | {"role": "calibration"})).to_dict()
    assert [factor["name"] for factor in result["fitted"]] == ["kernel", "wake", "user"]
    assert result["summary"] == {}
    assert any("no point has role validation" in warning for warning in result["warnings"])


def test_an_unknown_host_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="graviton33"):
        validate(written(tmp_path, GET, host="graviton33"))
