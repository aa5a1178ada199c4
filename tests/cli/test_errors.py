"""What goes wrong ends in one line on standard error and a defined exit code."""

import functools
import io
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from forecache import cli, verbs
from forecache.reports.terminal import console
from forecache.sim.errors import (
    EngineError,
    ForecacheError,
    InfeasibleError,
    InputError,
    OutsideError,
)


def raising(error: BaseException) -> Any:
    def verb(*_: Any, **__: Any) -> None:
        raise error

    return verb


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("a.yaml: field 'keys': found -3; valid is a positive number."), 2),
        (InfeasibleError("no setting meets p99 0.1 ms"), 3),
        (EngineError("valkey-server did not start"), 5),
        (OutsideError("a.yaml: found p99_ms outside the predicted interval."), 6),
        (ForecacheError("something else"), 1),
        (FileNotFoundError(2, "No such file or directory", "x.yaml"), 2),
        (KeyboardInterrupt(), 130),
        (cli.Terminated(), 143),
    ],
)
def test_errors_become_one_line_and_a_code(
    error: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(verbs, "simulate", raising(error))
    assert cli.main(["simulate", "x.yaml"]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("forecache: ")
    assert "Traceback" not in printed.err
    if isinstance(error, ForecacheError):
        assert printed.err == f"forecache: error: {error}\n"


def test_ctrl_c_says_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verbs, "simulate", raising(KeyboardInterrupt()))
    cli.main(["simulate", "x.yaml"])
    assert capsys.readouterr().err == "forecache: interrupted\n"


def test_a_bug_is_called_a_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FORECACHE_TRACEBACK", raising=False)
    monkeypatch.setattr(verbs, "simulate", raising(ZeroDivisionError("division by zero")))
    assert cli.main(["simulate", "x.yaml"]) == 1
    message = capsys.readouterr().err
    assert "bug" in message
    assert "ZeroDivisionError" in message
    assert "FORECACHE_TRACEBACK=1" in message
    assert "Traceback" not in message


def test_the_traceback_of_a_bug_can_be_had(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORECACHE_TRACEBACK", "1")
    monkeypatch.setattr(verbs, "simulate", raising(ZeroDivisionError("division by zero")))
    assert cli.main(["simulate", "x.yaml"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nope"], "No such command 'nope'"),
        (["simulate"], "Missing argument 'SCENARIO'"),
        (["simulate", "--sed", "3", "x.yaml"], "--seed"),
        (["simulate", "--seed", "-1", "x.yaml"], "-1"),
        (["observe", "--out", "x", "--design", "huge"], "'quick', 'full', 'threads', 'auto'"),
        (["observe", "--out", "x", "--budget", "9"], "--budget is for --design auto"),
        (["observe", "--out", "x", "--design", "auto", "--budget", "0"], "--budget"),
        (["simulate", "a.yaml", "b.yaml"], "unexpected extra argument"),
    ],
)
def test_a_wrong_command_line_says_where_to_look(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("forecache: error: ")
    assert message.count("\n") == 1
    assert expected in message
    assert "--help`" in message


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--engine", "valkey-server"], "--host and --engine need --tool or --anchor."),
        (["--anchor", "--tool", "valkey-benchmark"], "give one of them."),
    ],
)
def test_a_profile_is_of_a_host_or_of_a_tool(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["profile", *arguments]) == 2
    assert capsys.readouterr().err.endswith(f"{expected}\n")


@pytest.mark.parametrize(
    "arguments",
    [["profile"], ["observe"], ["calibrate", "bundle"], ["study", "scenario.yaml"]],
    ids=lambda arguments: arguments[0],
)
def test_out_is_checked_before_any_work(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(verbs, arguments[0], raising(AssertionError("work was begun")))
    target = tmp_path / "missing" / "out"
    assert cli.main([*arguments, "--out", str(target)]) == 2
    message = capsys.readouterr().err
    assert f"the folder {tmp_path / 'missing'} does not exist" in message
    assert not target.parent.exists()


def test_observe_does_not_touch_a_folder_with_something_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verbs, "observe", raising(AssertionError("work was begun")))
    (tmp_path / "notes.txt").write_text("mine")
    assert cli.main(["observe", "--out", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_where_a_folder_is_needed_and_the_other_way_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert cli.main(["observe", "--out", str(file)]) == 2
    assert "this is a file" in capsys.readouterr().err
    assert cli.main(["profile", "--out", str(tmp_path)]) == 2
    assert "this is a folder" in capsys.readouterr().err
    assert cli.main(["profile", "--out", str(file / "x")]) == 2
    assert "is a file, not a folder" in capsys.readouterr().err


def test_warnings_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def verb(*_: Any, **__: Any) -> dict[str, Any]:
        warnings.warn("the clock is coarse", RuntimeWarning, stacklevel=1)
        warnings.warn("gone in version 9", DeprecationWarning, stacklevel=1)
        return {}

    monkeypatch.setattr(verbs, "simulate", verb)
    monkeypatch.setattr(sys, "warnoptions", [])
    assert cli.main(["simulate", "x.yaml", "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "forecache: warning: the clock is coarse\n"
    assert printed.out == "{}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["catalog"],
        ["catalog", "--json"],
        ["catalog", "c7g.4xlarge"],
        ["memory", "examples/memory.yaml"],
        ["cost", "examples/cost.yaml"],
    ],
    ids=" ".join,
)
def test_a_closed_pipe_is_no_error(arguments: list[str], checkout: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "forecache", *arguments],
        cwd=checkout,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(timeout=120) == 141
    process.stderr.close()


def test_every_table_leaves_a_closed_pipe_to_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All verbs print through `console`; rich itself would leave with 1."""

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            del text
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):
        console().print("a line")


WAITING = """
import sys, time
from forecache import cli, verbs
def simulate(*args, **kwargs):
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("cleaned up", flush=True)
verbs.simulate = simulate
sys.exit(cli.main(["simulate", "x.yaml"]))
"""


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGINT, 130, "forecache: interrupted\n"),
        (signal.SIGTERM, 143, "forecache: terminated\n"),
        (signal.SIGHUP, 143, "forecache: terminated\n"),
    ],
)
def test_signals_let_the_work_clean_up(
    number: signal.Signals, code: int, message: str, checkout: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING],
        cwd=checkout,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A runner in the background hands down an ignored SIGINT, one under nohup SIGHUP.
        preexec_fn=functools.partial(signal.signal, number, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.05)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (code, "cleaned up\n", message)
