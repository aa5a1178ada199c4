"""Counting what a program calls, and what counts as right."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evidence.live.turns import Counter, build_library, error

PROGRAM = """
import os, select, socket
one, other = socket.socketpair()
events = select.epoll()
events.register(other, select.EPOLLIN)
before = events.poll(0)
os.write(one.fileno(), b"x")
found = events.poll(0), events.poll(0)
assert (len(before), [len(each) for each in found]) == (0, [1, 1])
other.recv(10)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="epoll and preloading are Linux's")
def test_a_preloaded_library_counts_calls_of_the_event_loop(tmp_path: Path) -> None:
    counter = Counter(build_library(tmp_path), tmp_path / "counts")
    counter.restart()
    environment = {**os.environ, **counter.environment}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True)
    found = counter.read()
    assert (found["waits"], found["events"]) == (3, 2)
    assert found["reads"] >= 1
    assert found["writes"] >= 1
    counter.restart()
    assert set(counter.read().values()) == {0}


def test_counts_that_hardly_happen_are_right_if_they_are_predicted_so() -> None:
    row = {"sleeps": 0.002, "turns": 0.5, "predicted": {"sleeps": 0.009, "turns": 0.6}}
    assert error(row, "sleeps") == 0.0
    assert error(row, "turns") == pytest.approx(0.2)
