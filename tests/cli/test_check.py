"""`forecache check`: exit codes, output at 80 columns, JSON, and a live run that is stopped."""

import functools
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from forecache.calibration.drive.servers import EngineProcess
from tests.live_engine import need

from .conftest import Run

SCENARIO = """\
host: graviton3-c7g.4xlarge
engine: valkey
engine_version: "8.0"
workload: {clients: 8, pipeline: 4, keys: 1000, command: get}
load_generator: {tool: redis-benchmark, threads: 1, same_host: true}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO)
    return file


def test_the_example_does_not_hold(forecache: Run) -> None:
    done = forecache("check", "examples/check.yaml", "examples/check/measured.yaml", COLUMNS="80")
    assert done.returncode == 6
    assert done.stderr.splitlines()[-1] == (
        "forecache: error: examples/check.yaml: found throughput_rps, mean_ms, p50_ms outside the "
        "predicted interval."
    )
    text = done.stdout
    assert "The prediction does not hold" in text
    assert "network: The network is at its limit: 2.97 Gbit/s" in " ".join(text.split())
    assert "Ruled out" in text
    assert "Updated prediction" in text
    for line in text.splitlines():
        assert len(line) <= 80, line
        assert "…" not in line


def test_json_of_the_example(forecache: Run) -> None:
    done = forecache(
        *("check", "examples/check.yaml", "examples/check/measured.yaml", "--json", "-q"),
        *("--only", "server_cpu_us"),
    )
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer["holds"] is True
    [row] = answer["quantities"]
    assert row["inside"] is True
    assert row["predicted"]["low"] < row["measured"] < row["predicted"]["high"]
    assert list(answer["updated"][0]["quantities"]) == ["server_cpu_us"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "found no measurement"),
        (["missing.csv"], 2, "missing.csv: no such file"),
        (["--at", "keys"], 2, "valid is FIELD=VALUE"),
        (["--write"], 2, "--tool and --write are for --run"),
        (["--info-before", "a"], 2, "give both --info-before and --info-after, or neither"),
        (["--only", "p42_ms", "x"], 2, "p42_ms"),
        (["--run", "127.0.0.1"], 2, "valid is HOST:PORT"),
        (["--run", "/tmp/x.sock"], 2, "found a Unix socket"),
        (["--run", "127.0.0.1:6379", "x.csv"], 2, "valid is one or the other"),
        (["--run", "127.0.0.1:1"], 5, "no engine answers at 127.0.0.1:1"),
    ],
)
def test_what_is_wrong_ends_in_a_line_and_a_code(
    arguments: list[str], code: int, says: str, scenario: Path, forecache: Run
) -> None:
    done = forecache("check", scenario, *arguments, "-q")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("forecache: error: ")
    assert says in done.stderr


def a_tool(folder: Path, script: str) -> Path:
    """A benchmark tool that does what it is told."""
    tool = folder / "redis-benchmark"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return tool


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo no luck >&2; exit 3", "redis-benchmark failed (status 3): no luck"),
        ("echo nothing", "printed no result that can be read"),
    ],
)
def test_a_tool_that_fails(
    script: str, says: str, scenario: Path, engine: EngineProcess, tmp_path: Path, forecache: Run
) -> None:
    tool = a_tool(tmp_path, script)
    where = f"127.0.0.1:{engine.port}"
    done = forecache("check", scenario, "--run", where, "--tool", tool, "-q")
    assert (done.returncode, done.stdout) == (5, "")
    assert says in done.stderr


MEMTIER = """\
import json, pathlib, socket, sys
given = dict(zip(sys.argv[1:], sys.argv[2:]))
[out] = [word.split("=")[1] for word in sys.argv if word.startswith("--json-out-file=")]
assert "--test-time=2" in sys.argv, sys.argv
with socket.create_connection((given["-s"], int(given["-p"]))) as connection:
    for _ in range(int(COUNT)):
        connection.sendall(b"GET key:1\\r\\n" * 1000)
        received = b""
        while received.count(b"$-1") < 1000:
            received += connection.recv(65536)
text = pathlib.Path("SAMPLE").read_text()
pathlib.Path(out).write_text(text)
"""


@pytest.mark.parametrize(("count", "code"), [(20, 6), (0, 5)])
def test_memtier_is_timed_and_its_json_is_read(
    count: int,
    code: int,
    scenario: Path,
    engine: EngineProcess,
    tmp_path: Path,
    checkout: Path,
    forecache: Run,
) -> None:
    samples = checkout / "tests" / "calibration" / "readers" / "samples"
    script = MEMTIER.replace("COUNT", str(count))
    script = script.replace("SAMPLE", str(samples / "memtier" / "version2.json"))
    tool = tmp_path / "memtier_benchmark"
    tool.write_text(f"#!{sys.executable}\n{script}")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    scenario.write_text(SCENARIO.replace("redis-benchmark", "memtier-benchmark"))
    done = forecache(
        *("check", scenario, "--run", f"127.0.0.1:{engine.port}", "--tool", tool, "-q", "--json"),
        *("--seconds", "2", "--repetitions", "2"),
    )
    assert done.returncode == code, done.stderr
    if count == 0:
        assert "found no command since INFO before" in done.stderr
        return
    answer = json.loads(done.stdout)
    rows = {row["quantity"]: row for row in answer["quantities"]}
    assert rows["throughput_rps"]["measured"] == pytest.approx(2160)
    assert rows["server_cpu_us"]["repetitions"] == 2
    fields = {each["field"]: each for each in answer["differs"]}
    assert fields["workload.clients"]["measured"] == 32
    assert "load_generator.tool" not in fields
    assert any("100% of the GETs" in line for line in answer["warnings"])


def test_sets_need_leave(scenario: Path, engine: EngineProcess, forecache: Run) -> None:
    scenario.write_text(SCENARIO.replace("command: get", "command: set"))
    done = forecache("check", scenario, "--run", f"127.0.0.1:{engine.port}", "-q")
    assert done.returncode == 2
    assert "--write" in done.stderr


def test_a_real_server_is_measured(scenario: Path, engine: EngineProcess, forecache: Run) -> None:
    need("redis-benchmark")
    done = forecache(
        *("check", scenario, "--run", f"127.0.0.1:{engine.port}", "--write", "--json", "-q"),
        *("--tool", "redis-benchmark", "--seconds", "0.5", "--repetitions", "2"),
    )
    # The embedded engine is of another version, so it confirms nothing, however fast it is.
    assert done.returncode == 6, done.stderr
    answer = json.loads(done.stdout)
    rows = {row["quantity"]: row for row in answer["quantities"]}
    assert {"throughput_rps", "p50_ms", "p99_ms", "server_cpu_us"} <= set(rows)
    assert all(row["repetitions"] == 2 for row in rows.values())
    cores = rows["server_cpu_us"]["measured"] * rows["throughput_rps"]["measured"] / 1e6
    assert 0.01 < cores < 1.2
    [differs] = [each for each in answer["differs"] if each["field"] == "engine"]
    assert differs["scenario"] == "valkey 8.0"
    assert any(cause["station"] == "conditions" for cause in answer["causes"])
    with engine.control() as control:
        assert 900 < int(str(control.command("DBSIZE"))) <= 1000
        control.command("FLUSHALL")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_tool_is_stopped_with_the_check(
    number: signal.Signals,
    code: int,
    scenario: Path,
    engine: EngineProcess,
    tmp_path: Path,
    checkout: Path,
) -> None:
    mark = tmp_path / "pid"
    tool = a_tool(tmp_path, f"echo $$ > {mark}.part; mv {mark}.part {mark}; exec sleep 600")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "forecache", "check", str(scenario), "-q"),
            *("--run", f"127.0.0.1:{engine.port}", "--tool", str(tool)),
        ],
        cwd=checkout,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    for _ in range(1200):
        if mark.exists():
            break
        signal.sigtimedwait([], 0.1)
    child = int(mark.read_text())
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in err
    for _ in range(50):
        if not Path(f"/proc/{child}").exists():
            break
        signal.sigtimedwait([], 0.1)
    assert not Path(f"/proc/{child}").exists()
