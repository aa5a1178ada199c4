"""Populations of keys that were measured in live servers."""

import json
from pathlib import Path
from typing import Any

import pytest

from evidence.accuracy.memory_page import memory_section
from evidence.harness import Asked
from evidence.live.footprint_check import CLUSTER, POPULATIONS, again, profiles
from evidence.live.footprint_errors import errors_of


@pytest.fixture(scope="module")
def report(checkout: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((checkout / "docs/accuracy/footprint.json").read_text())
    return found


def test_the_page_has_a_row_for_every_population(checkout: Path, tmp_path: Path) -> None:
    lines = memory_section(checkout / "docs" / "accuracy")
    rows = [line for line in lines if line.startswith(("| string: ", "| set: ", "| hash: "))]
    assert len(rows) == sum(p.type in ("string", "set", "hash") for p in (*POPULATIONS, *CLUSTER))
    assert memory_section(tmp_path) == []


def test_intervals_hold(report: dict[str, Any]) -> None:
    """Each from all other populations; published totals from all live ones."""
    rows = [row for each in report["engines"] for row in each["rows"]]
    assert len(rows) >= 390
    for name in ("inside", "data_inside", "inside_if_unknown", "resident_inside"):
        assert sum(row[name] for row in rows) >= 0.93 * len(rows), name
    # Of the data alone they are no wider than they have to be.
    assert sum(row["data_inside"] for row in rows) <= 0.99 * len(rows)
    for result in report["published"]:
        for point in result["points"]:
            predicted = point["predicted"]["used_memory_bytes"]
            measured = point["observed"]["used_memory_bytes"]
            assert predicted["low"] <= measured <= predicted["high"], point["given"]


def test_the_model_reads_what_was_measured_last(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    for path, text in profiles(Asked()).items():
        assert path.read_text(encoding="utf-8") == text


def test_the_artefact_is_that_of_the_model_as_it_is(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    for path, text in again(Asked()).items():
        assert json.loads(path.read_text(encoding="utf-8")) == json.loads(str(text))


def test_a_population_does_not_tell_its_own_interval(report: dict[str, Any]) -> None:
    engines = report["engines"]
    worst = max(engines[0]["rows"], key=lambda row: abs(row["residual"]))
    type_ = worst["data"]["type"]
    whole, without = (
        next(e for e in errors_of(engines, without=row).versions if e.version == "2.8")
        for row in (None, worst)
    )
    assert without.types[type_].points == whole.types[type_].points - 1
    assert without.types[type_].error != whole.types[type_].error
    unknown = errors_of(engines, without_version=("redis", "2.8"))
    assert all((each.engine, each.version) != ("redis", "2.8") for each in unknown.versions)
    assert unknown.others["hash"].points == errors_of(engines).others["hash"].points - 1
