"""Processes of one's own that simulate beside each other, and end with the block that has them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from .errors import ForecacheError


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))


@contextmanager
def processes(count: int) -> Iterator[Executor | None]:
    """So many worker processes for as long as the block runs; None for fewer than two.

    They are forked, so that they have at once all that is imported and compiled. An error in the
    block, Ctrl-C included, ends them in the middle of what they do.

    Raises
    ------
    ForecacheError
        A process ended by itself, most likely for want of memory.
    """
    if count < 2:
        yield None
        return
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        count,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_leave_signals_to_the_parent,
    )
    try:
        yield pool
    except BaseException as error:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        pool.shutdown(cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise ForecacheError(
                f"one of {count} processes ended by itself, most likely for want of memory; "
                "a single one (--jobs 1) takes the least."
            ) from None
        raise
    pool.shutdown()


def _leave_signals_to_the_parent() -> None:
    """Ctrl-C reaches the whole group of processes; only the parent has something to say then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
