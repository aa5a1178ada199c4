"""Tests marked `alone` run while no other test does, however many workers there are.

Every worker holds a lock of the room while it runs a test: a shared one, or for a test that is
marked `alone` one that nobody shares.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_TURNS = pytest.StashKey["Turns"]()
_FOLDER = pytest.StashKey["tempfile.TemporaryDirectory[str]"]()


class Turns:
    """Locks on two files that all workers of a run open."""

    def __init__(self, folder: Path) -> None:
        self._door = os.open(folder / "door", os.O_CREAT | os.O_RDWR)
        self._room = os.open(folder / "room", os.O_CREAT | os.O_RDWR)

    @contextmanager
    def turn(self, *, alone: bool) -> Iterator[None]:
        """Wait until a test may run, and hold its place while it does."""
        # Who waits to be alone keeps the door shut, so that nobody enters while others leave.
        fcntl.flock(self._door, fcntl.LOCK_EX)
        fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(self._door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._room, fcntl.LOCK_UN)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "alone: measures, or depends on free cores: no other test runs meanwhile"
    )
    told: dict[str, Any] | None = getattr(config, "workerinput", None)
    if told is not None:
        config.stash[_TURNS] = Turns(Path(told["turns"]))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """The parent of the workers tells each where the locks are."""
    stash = node.config.stash
    if _FOLDER not in stash:
        stash[_FOLDER] = tempfile.TemporaryDirectory(prefix="forecache-tests-")
        node.config.add_cleanup(stash[_FOLDER].cleanup)
    node.workerinput["turns"] = stash[_FOLDER].name


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that run alone come last: the others keep all workers busy until then."""
    items.sort(key=_is_alone)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Fixtures belong to a test's turn."""
    turns = item.config.stash.get(_TURNS, None)
    if turns is None:  # one process runs all tests
        return (yield)
    with turns.turn(alone=_is_alone(item)):
        return (yield)


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None
