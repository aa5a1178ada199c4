"""Processes of one's own that simulate beside each other, and end with the block that has them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from .errors import ForecacheError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_ENDINGS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))


@contextmanager
def processes(count: int) -> Iterator[Executor | None]:
    """A pool of worker processes while the block runs; None for fewer than two.

    They are forked, so that they have at once all that is imported and compiled. An error in the
    block, Ctrl-C included, ends them in the middle of what they do.

    Raises
    ------
    ForecacheError
        A process ended by itself, most likely because memory ran out.
    """
    if count < 2:
        yield None
        return
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        count,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_follow,
        initargs=(os.getpid(),),
    )
    try:
        _fork(pool)
        yield pool
    except BaseException as error:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        _expect_no_more(pool)
        pool.shutdown(cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise ForecacheError(
                f"one of {count} processes ended by itself, most likely because memory ran out; "
                "a single one (--jobs 1) takes the least."
            ) from None
        raise
    pool.shutdown()


def _fork(pool: ProcessPoolExecutor) -> None:
    """Start the processes; a signal that meets one before `_follow` waits until then.

    The parent's handlers, which a new process has as well, would unwind a copy of the parent.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
    try:
        pool.submit(usable_cores)  # with the first call all are forked, by this thread
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _expect_no_more(pool: ProcessPoolExecutor) -> None:
    """Close our copy of the pipe's end that ended processes wrote their results to.

    One that was ended while it sent a result leaves half a message, and the pool reads until the
    rest has come. With no writer left the pipe ends instead. Python has no public way to say so.
    """
    results = getattr(pool, "_result_queue", None)
    if results is not None:
        results._writer.close()


def _follow(parent: int) -> None:
    """Leave Ctrl-C, which reaches the whole group of processes, to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
