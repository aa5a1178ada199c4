"""Run a profiler's program and say in one sentence why it can't be."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from forecache.sim.errors import EngineError

_SHOWN_CHARACTERS = 160


def run_program(
    command: Sequence[str], *, timeout_s: float, cores: Collection[int] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, without input, on some of the cores."""
    name = os.path.basename(command[0])  # noqa: PTH119
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, cores),
        )
    except subprocess.TimeoutExpired:
        raise EngineError(f"{name} took longer than {timeout_s:.0f} s.") from None
    except OSError as error:
        raise EngineError(f"{name} can't be started: {error.strerror}.") from None
    if done.returncode != 0:
        raise EngineError(f"{name} failed (status {done.returncode}): {first_words(done)}")
    return done


def first_words(done: subprocess.CompletedProcess[str]) -> str:
    """The first line of what a program complained about."""
    lines = [line.strip(" .") for line in (done.stderr or done.stdout).splitlines()]
    telling = [line for line in lines if line and set(line) != {"="}] or ["it printed nothing"]
    words = [line for line in telling if line.rstrip(":").lower() != "error"] or telling
    return words[0][:_SHOWN_CHARACTERS] + "."


def missing(*names: str) -> str | None:
    """Which program is not on PATH, in words, or None when all are."""
    absent = [name for name in names if shutil.which(name) is None]
    return f"{' and '.join(absent)} not on PATH" if absent else None


def refusal(command: Sequence[str], *, timeout_s: float = 30.0) -> str | None:
    """Why a trial run fails, in words, or None when it doesn't."""
    try:
        run_program(command, timeout_s=timeout_s)
    except EngineError as error:
        return str(error).rstrip(".")
    return None


def record_refusal(event: str, *, of_all: bool = False) -> str | None:
    """Why perf can't sample an event here, or None when it can.

    `of_all`: of whatever runs on a core.

    The trial asks for the kernel alone: where that is forbidden, perf would silently leave the
    kernel out of a sampling that asks for both.
    """
    with tempfile.TemporaryDirectory(prefix="forecache-perf-") as folder:
        data = str(Path(folder) / "perf.data")
        whose = ["-a"] if of_all else []
        command = ["perf", "record", "-q", *whose, "-e", f"{event}:k", "-o", data, "--", "true"]
        return refusal(command)


def version_of(command: Sequence[str]) -> str:
    """The first line of what a program says to a question for its version."""
    done = run_program(command, timeout_s=30.0)
    return (done.stdout or done.stderr).strip().splitlines()[0].strip()
