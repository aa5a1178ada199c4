"""Running the command line the way a user does."""

import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from forecache import cli

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture(autouse=True)
def _process_state() -> Iterator[None]:
    """`main` changes what is the process's own; a test must not change it for the others."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    with warnings.catch_warnings():
        yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def forecache(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run `forecache ARGUMENTS` from the root of the checkout, in this process.

    A process of its own imports for a second before it does what a test is about; tests of
    signals and of closed pipes start one.
    """
    monkeypatch.chdir(checkout)

    def run(*arguments: str | Path, **environment: str) -> CompletedProcess[str]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        given = list(map(str, arguments))
        code = cli.main(given)
        printed = capsys.readouterr()
        return CompletedProcess(given, code, printed.out, printed.err)

    return run
