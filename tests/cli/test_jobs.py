"""Sweeps and replications in several processes from the command line."""

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forecache import cli
from forecache.hwprofiles.files import write_text_atomic

FLEET = """\
kind: overcommit
duration_s: 1200
step_s: {step}
hosts: {{count: 2, memory_gb: 64}}
machines: {{count: 30, unit_gb: 1}}
demand: {demand}
policies: {{placement: {{sweep: [random, unbalanced]}}}}
"""


NODE = """\
host: graviton3-c7g.4xlarge
engine: valkey
engine_version: "8.0"
io_threads: {threads}
workload: {{clients: {{sweep: {clients}}}, keys: 10000, value_bytes: 64}}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.yaml"
    write_text_atomic(path, FLEET.format(step=10, demand="{mean_gb: 2}"))
    return path


def test_the_number_of_jobs_changes_nothing(
    fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []
    for jobs in ("1", "2"):
        assert cli.main(["simulate", str(fleet), "--seeds", "3", "--jobs", jobs, "-q"]) == 0
        printed.append(capsys.readouterr())
    assert printed[0].out == printed[1].out
    assert (printed[0].err, printed[1].err) == ("", "")


def test_the_number_of_jobs_changes_nothing_about_a_node(tmp_path: Path, checkout: Path) -> None:
    path = tmp_path / "node.yaml"
    write_text_atomic(path, NODE.format(threads=4, clients=[10, 20]))
    printed = []
    for jobs in ("1", "2"):
        # In a process of its own, where one thread lets processes be forked.
        command = [sys.executable, "-m", "forecache", "simulate", path, "--jobs", jobs, "--json"]
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
        printed.append(json.loads(done.stdout))
        assert "simulated 1 of 2 points" in done.stderr
    for answer in printed:
        del answer["provenance"]["date"]
    assert printed[0] == printed[1]


def test_a_mistake_found_in_a_process_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fleet.yaml"
    write_text_atomic(path, FLEET.format(step=10, demand="{trace: no-such.csv}"))
    told = []
    for jobs in ("1", "2"):
        assert cli.main(["simulate", str(path), "--jobs", jobs, "-q"]) == 2
        told.append(capsys.readouterr().err)
    assert told[0] == told[1]
    assert told[0].count("\n") == 1
    assert told[0].startswith(f"forecache: error: {path}: ")
    assert "no-such.csv" in told[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("kind", ["fleet", "node"])
def test_processes_end_with_the_command(
    number: signal.Signals, kind: str, tmp_path: Path, checkout: Path
) -> None:
    path, seeds, first = tmp_path / "scenario.yaml", "300", ["600 runs", "simulated 1 of 600"]
    write_text_atomic(path, FLEET.format(step=2, demand="{mean_gb: 2}"))
    if kind == "node":
        seeds, first = "1", ["simulated 1 of 100 points"]
        write_text_atomic(path, NODE.format(threads=2, clients=list(range(200, 300))))
    process = subprocess.Popen(
        [sys.executable, "-m", "forecache", "simulate", path, "--seeds", seeds, "--jobs", "2"],
        cwd=checkout,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    for line in first:
        # An estimate may come before it, where the machine is slow.
        while line not in (read := process.stderr.readline()):
            assert read
    if number == signal.SIGKILL:
        process.kill()  # as the kernel does for want of memory, which tells no other process
    else:
        os.killpg(process.pid, number)  # as a terminal does
    # Ends when no process of them has standard error open any more.
    out, err = process.communicate(timeout=30)
    said = {signal.SIGINT: "forecache: interrupted", signal.SIGTERM: "forecache: terminated"}
    assert out == ""
    told = [line for line in err.splitlines() if " simulated " not in line]
    assert told == ([said[number]] if number in said else [])
    assert process.returncode == (128 + number if number in said else -number)


HALF_A_RESULT = """
import gc, os, struct, time
from multiprocessing.queues import SimpleQueue
from forecache.sim.processes import processes

def send_half(_argument):
    for found in gc.get_objects():
        if isinstance(found, SimpleQueue):
            os.write(found._writer.fileno(), struct.pack("!i", 1000) + b"a tenth")
    time.sleep(100)

try:
    with processes(2) as pool:
        pool.submit(send_half, None)
        time.sleep(0.5)
        raise KeyboardInterrupt
except KeyboardInterrupt:
    print("ended")
"""


def test_a_worker_ended_while_it_sends_a_result_is_not_waited_for(checkout: Path) -> None:
    command = [sys.executable, "-c", HALF_A_RESULT]
    done = subprocess.run(
        command, cwd=checkout, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout == "ended\n"
