"""`--figures`, `--data` and `--csv` of the verbs that answer with points."""

import csv
import io
import json
from pathlib import Path

import pytest

from forecache import cli
from forecache.commands import WITH_POINTS, command
from forecache.reports import files

from .conftest import Run

SWEEP = """
kind: memory
engine: valkey
engine_version: {sweep: ["8.0", "9.1"]}
data:
  - {type: string, keys: {sweep: [1_000_000, 2_000_000]}, key_bytes: 16, value_bytes: 512}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEP, encoding="utf-8")
    return path


def test_csv_has_the_points_of_json(forecache: Run, scenario: Path) -> None:
    done = forecache("memory", scenario, "--csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    points = json.loads(forecache("memory", scenario, "--json").stdout)["points"]
    assert [float(row["used_memory_bytes"]) for row in rows] == [
        point["used_memory_bytes"]["value"] for point in points
    ]
    assert [row["engine_version"] for row in rows] == ["8.0", "8.0", "9.1", "9.1"]


def test_without_typst_figures_are_all_but_pdf(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "find_spec", lambda _: None)
    assert cli.main(["memory", str(scenario), "--figures", str(tmp_path / "figures")]) == 0
    assert {file.suffix for file in (tmp_path / "figures").iterdir()} == {".svg", ".png"}


def test_figures_and_tables_are_files(forecache: Run, scenario: Path, tmp_path: Path) -> None:
    figures, data = tmp_path / "figures", tmp_path / "data"
    done = forecache("memory", scenario, "--figures", figures, "--data", data)
    assert done.returncode == 0, done.stderr
    assert {"used-memory-bytes.pdf", "used-memory-bytes.svg", "used-memory-bytes.png"} == {
        file.name for file in figures.iterdir()
    }
    assert {"points.csv", "populations.csv"} <= {file.name for file in data.iterdir()}
    assert f"wrote {figures}" in done.stderr
    assert f"wrote {data}" in done.stderr
    printed = forecache("memory", scenario, "--csv").stdout
    assert (data / "points.csv").read_text(encoding="utf-8") == printed


def test_an_answer_without_figures_says_so(forecache: Run, tmp_path: Path) -> None:
    done = forecache("memory", "examples/quickstart.yaml", "--figures", tmp_path / "figures")
    assert done.returncode == 0
    assert "this answer has no figure" in done.stderr
    assert not (tmp_path / "figures").exists()


def test_what_can_not_be_written_is_refused_first(
    forecache: Run, scenario: Path, tmp_path: Path
) -> None:
    assert "give either --csv or --json" in forecache("memory", scenario, "--csv", "--json").stderr
    refused = forecache("memory", scenario, "--data", tmp_path / "nowhere" / "data")
    assert refused.returncode == 2
    assert "does not exist" in refused.stderr


def test_one_declaration_serves_all_verbs_with_points() -> None:
    for verb in WITH_POINTS:
        options = {name for each in command(verb).params for name in each.opts}
        assert {"--figures", "--data", "--csv"} <= options
