"""Ending compiled loops that other threads are in.

Compiled code releases the interpreter's lock, and no exception reaches it. Who waits for such a
thread and wants no more of it, after Ctrl-C or an error elsewhere, has the loop's own end moved.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_HERE = threading.local()


class Stopped(Exception):
    """A run was ended before its time; its results say nothing."""


class Stop:
    """What may be ended together."""

    def __init__(self) -> None:
        self._ends: dict[int, Callable[[], None]] = {}
        self.wanted = False

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in this thread so that `end` reaches the loops that it enters."""
        before = getattr(_HERE, "stop", None)
        _HERE.stop = self
        try:
            return function(*arguments)
        finally:
            _HERE.stop = before

    def end(self) -> None:
        """End all loops; those that begin later end at once."""
        self.wanted = True
        for end in list(self._ends.values()):
            end()


@contextmanager
def stoppable(end: Callable[[], None]) -> Iterator[None]:
    """Run the block's loop so that `end`, called from another thread, moves its end to now.

    Raises
    ------
    Stopped
        It was ended.
    """
    stop: Stop | None = getattr(_HERE, "stop", None)
    if stop is None:
        yield
        return
    key = id(end)
    stop._ends[key] = end
    try:
        if stop.wanted:
            raise Stopped
        yield
        if stop.wanted:
            raise Stopped
    finally:
        del stop._ends[key]
