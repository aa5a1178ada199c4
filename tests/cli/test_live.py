"""With a real engine: what is stopped in the middle leaves nothing behind."""

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forecache import cli

pytestmark = pytest.mark.usefixtures("binary")


def children(pid: int) -> list[int]:
    """Processes a process has started and not yet waited for."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


OBSERVE_LITTLE = """
import sys
from forecache import cli
from forecache.calibration.bundle.points import Conditions
from forecache.calibration.observe import observe
observe.design_points = lambda _name: [Conditions(command="get", pipeline=n) for n in (1, 16)]
sys.exit(cli.main(sys.argv[1:]))
"""
"""The command line with a design that loads one small data set: what is loaded is stopped too."""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
@pytest.mark.parametrize(
    ("number", "code", "stage"),
    [
        (signal.SIGINT, 130, "measuring"),
        (signal.SIGTERM, 143, "loading"),
        (signal.SIGKILL, -signal.SIGKILL, "loading"),
    ],
    ids=["ctrl-c", "terminate", "kill"],
)
def test_observe_stopped_in_the_middle(
    number: signal.Signals, code: int, stage: str, tmp_path: Path, checkout: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", OBSERVE_LITTLE, "observe", "--out", str(tmp_path / "bundle")],
        cwd=checkout,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A runner in the background hands down an ignored SIGINT.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    servers: list[int] = []
    for line in process.stderr:
        if stage in line:
            # The one that is loaded may start only now.
            for _ in range(200):
                if servers := children(process.pid):
                    break
                signal.sigtimedwait([], 0.05)
            break
    assert servers, "no server was started"
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    assert out == ""
    assert "Traceback" not in err
    for _ in range(100):
        if not any(map(is_alive, servers)):
            break
        signal.sigtimedwait([], 0.05)
    assert not any(map(is_alive, servers))
    if number != signal.SIGKILL:
        # Killed outright, it cannot tidy up; the bundle still doesn't exist.
        assert list(tmp_path.iterdir()) == []
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("engine", ["/bin/false", "/nonexistent/valkey-server", "/etc/passwd"])
def test_an_engine_that_does_not_start(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "bundle")
    assert cli.main(["observe", "--engine", engine, "--out", out, "--quiet"]) in (2, 5)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("forecache: error: ")
    assert engine in said
    assert not (tmp_path / "bundle").exists()
