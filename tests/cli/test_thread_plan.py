"""`recommend --emit`: the plan on a terminal of 80 columns, in JSON, and in a folder."""

import json
import os
from pathlib import Path

import pytest

from forecache import cli

SCENARIO = """
host: m7i.xlarge
engine: {engine}
io_threads: {{sweep: [1, 2]}}
transport: unix_socket
load_generator: {{threads: 1}}
workload: {{clients: 20, keys: 10_000, value_bytes: 64}}
"""


def scenario_file(folder: Path, engine: str = "redis") -> Path:
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO.format(engine=engine))
    return path


def test_json_has_the_plan_and_the_folder_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = scenario_file(tmp_path), tmp_path / "install"
    assert cli.main(["recommend", str(path), "--emit", str(out), "--json", "-q"]) == 0
    told = capsys.readouterr()
    assert told.err == f"wrote {out}\n"
    plan = json.loads(told.out)["recommendation"]["thread_plan"]
    assert plan["cpus"] == 4
    assert plan["files"]["redis.conf"].splitlines()[-4:] == plan["conf"]
    assert plan["gain"]["verdict"] == "no clear difference"
    assert {each["quantity"] for each in plan["gain"]["differences"]} == {
        "throughput_rps",
        "p99_ms",
    }
    written = {str(f.relative_to(out)): f.read_text() for f in out.rglob("*") if f.is_file()}
    assert written == plan["files"]
    assert os.access(out / "start.sh", os.X_OK)
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("engine", "host", "said"),
    [
        ("elasticache-redis", None, "has no thread plan, since a service runs it"),
        ("redis", "{sweep: [m7i.large, m7i.xlarge]}", "field 'host': found a list"),
        ("redis", "nowhere", "nowhere"),
    ],
)
def test_what_has_no_plan_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str, host: str | None, said: str
) -> None:
    path, out = scenario_file(tmp_path, engine), tmp_path / "install"
    if host is not None:
        path.write_text(path.read_text().replace("m7i.xlarge", host))
    assert cli.main(["recommend", str(path), "--emit", str(out), "-q"]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_a_folder_that_holds_something_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = scenario_file(tmp_path)
    assert cli.main(["recommend", str(path), "--emit", str(tmp_path), "-q"]) == 2
    assert "not empty" in capsys.readouterr().err
