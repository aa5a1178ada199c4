"""Sweeps and replications in several processes from the command line."""

import functools
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
def test_processes_end_with_the_command(
    number: signal.Signals, fleet: Path, checkout: Path
) -> None:
    write_text_atomic(fleet, FLEET.format(step=2, demand="{mean_gb: 2}"))
    process = subprocess.Popen(
        [sys.executable, "-m", "forecache", "simulate", fleet, "--seeds", "300", "--jobs", "2"],
        cwd=checkout,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    assert "600 runs" in process.stderr.readline()
    assert "simulated 1 of 600" in process.stderr.readline()
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
