"""`forecache sweep`: killed at any time, it goes on and ends with the same files."""

import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forecache.hwprofiles.files import write_text_atomic
from forecache.sim import dask_cluster
from forecache.sim.installing import install_command

from .conftest import Run

pytest.importorskip("pyarrow")

CLIENTS, BATCH = range(2, 32), 4
POINTS, FILES = 2 * len(CLIENTS), 15
NODE = f"""\
host: graviton3-c7g.4xlarge
engine: valkey
engine_version: "8.0"
workload:
  clients: {{sweep: {[*CLIENTS]}}}
  keys: 10000
  value_bytes: {{sweep: [32, 64]}}
"""


def command(path: Path, out: Path, *more: str) -> list[str]:
    sweep = [sys.executable, "-m", "forecache", "sweep", str(path), "--out", str(out)]
    return [*sweep, "--nominal", "--batch", str(BATCH), *more]


def parts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


@pytest.fixture
def start(checkout: Path) -> Callable[..., subprocess.Popen[str]]:
    def begin(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            arguments,
            cwd=checkout,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )

    return begin


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "node.yaml"
    write_text_atomic(path, NODE)
    return path


@pytest.fixture(scope="module")
def whole(scenario: Path, checkout: Path) -> dict[str, bytes]:
    out = scenario.parent / "whole"
    done = subprocess.run(
        command(scenario, out, "--json"), cwd=checkout, capture_output=True, text=True, check=True
    )
    answer = json.loads(done.stdout)
    assert (answer["points"], answer["answered"], answer["files"]) == (POINTS, POINTS, FILES)
    assert re.search(
        rf"\] answered \d+ of {POINTS} points, [\d.]+ a second, about .* left\n", done.stderr
    )
    return parts(out)


def test_killed_three_times_it_ends_with_the_same_files(
    scenario: Path,
    whole: dict[str, bytes],
    start: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    for number, files in ((signal.SIGKILL, 1), (signal.SIGKILL, 2), (signal.SIGTERM, 4)):
        process = start(*command(scenario, out, "-q"))
        while len(parts(out)) < files:
            assert process.poll() is None
            time.sleep(0.002)  # the workers need the cores
        process.send_signal(number)
        assert process.wait(timeout=30) in (-signal.SIGKILL, 143)
        process.communicate()
        assert len(parts(out)) < FILES
    process = start(*command(scenario, out))
    printed, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert re.search(rf"found \d+ of {POINTS} points in ", told)
    assert printed.startswith(f"{out}: {POINTS} points in {FILES} files, ")
    assert parts(out) == whole


def test_what_a_killed_worker_had_is_answered_by_another(
    scenario: Path,
    whole: dict[str, bytes],
    start: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    process = start(*command(scenario, out, "--jobs", "2"))
    assert process.stderr is not None
    while " answered " not in process.stderr.readline():
        assert process.poll() is None
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert parts(out) == whole


def test_a_dask_worker_that_is_killed_changes_nothing(
    scenario: Path,
    whole: dict[str, bytes],
    start: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    distributed = pytest.importorskip("distributed")
    out = tmp_path / "out"
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        process = start(*command(scenario, out, "--scheduler", cluster.scheduler_address))
        assert process.stderr is not None
        while " answered " not in process.stderr.readline():
            assert process.poll() is None
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert parts(out) == whole


def test_a_scheduler_that_does_not_answer(
    forecache: Run, scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 0.2)
    out = tmp_path / "out"
    done = forecache(*command(scenario, out)[3:], "--scheduler", "tcp://127.0.0.1:1", "-q")
    assert done.returncode == 5
    assert done.stderr.count("\n") == 1
    assert "error: scheduler tcp://127.0.0.1:1: does not answer" in done.stderr
    done = forecache(*command(scenario, out)[3:], "--scheduler", "localhost", "-q")
    assert done.returncode == 2
    assert "valid is an address such as tcp://10.0.0.1:8786" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("package", "extra", "more"),
    [("pyarrow", "parquet", []), ("distributed", "dask", ["--scheduler", "tcp://127.0.0.1:1"])],
)
def test_a_package_that_is_not_there_is_named(
    package: str,
    extra: str,
    more: list[str],
    forecache: Run,
    scenario: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    done = forecache(*command(scenario, tmp_path / "out")[3:], *more)
    assert done.returncode == 2
    assert f"`{install_command(extra)}`" in done.stderr
    assert not (tmp_path / "out").exists()


def test_options_that_do_not_go_together(forecache: Run, scenario: Path, tmp_path: Path) -> None:
    more = ["--jobs", "2", "--scheduler", "tcp://127.0.0.1:1"]
    done = forecache(*command(scenario, tmp_path / "out")[3:], *more)
    assert done.returncode == 2
    assert "--jobs is for this machine's cores" in done.stderr
