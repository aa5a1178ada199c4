"""Processes of one's own that simulate beside each other, and end with the block that has them.

Threads would do where compiled code takes most of the time, as it releases the interpreter's lock;
what surrounds a run of a node takes as long as the run.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess

from .errors import ForecacheError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_SOON_S = 2.0
"""A pool whose processes have ended has told all that waited for them by then."""
_ENDINGS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))


@contextmanager
def workers(executor: Executor | None = None, *, count: int | None = None) -> Iterator[Executor]:
    """Where to run: the executor that is given, else workers of one's own while the block runs.

    They are processes where there are several and this process can be forked, else threads. It can
    be while it has one thread only: a lock that another thread holds would stay locked in a copy.

    Parameters
    ----------
    count
        How many; as many as cores if left out.

    Raises
    ------
    ForecacheError
        A process ended by itself.
    """
    count = count or usable_cores()
    if executor is not None:
        yield executor
    elif count > 1 and threading.active_count() == 1:
        with processes(count) as pool:
            assert pool is not None
            yield pool
    else:
        with ThreadPoolExecutor(count) as threads:
            yield threads


class OwnProcesses(ProcessPoolExecutor):
    """Processes that end with the block that has them; an error takes back what they were asked."""

    def end_now(self, children: Iterable[BaseProcess]) -> None:
        """End the pool's processes in the middle of what they do."""
        manager = getattr(self, "_executor_manager_thread", None)
        results = getattr(self, "_result_queue", None)
        calls = getattr(self, "_call_queue", None)
        # The pool cannot tell a cancelled call that its process is gone, so they are taken out.
        self.shutdown(wait=False, cancel_futures=True)
        for process in children:
            process.terminate()
        # One that was ended while it sent a result leaves half a message, and the pool reads until
        # the rest has come. With our copy of the pipe's end that they wrote to closed, nobody has
        # it any more, and the pipe ends instead. Python has no public way to say so.
        if results is not None:
            results._writer.close()
        if manager is not None:
            manager.join(_SOON_S)
            # A call that was being written when its readers ended is written for ever, likewise
            # (https://github.com/python/cpython/issues/94777, mended in later Pythons).
            if manager.is_alive() and calls is not None:
                calls._reader.close()
            manager.join()


@contextmanager
def processes(count: int) -> Iterator[OwnProcesses | None]:
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
    pool = OwnProcesses(
        count,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_follow,
        initargs=(os.getpid(),),
    )
    try:
        _fork(pool)
        yield pool
    except BaseException as error:
        pool.end_now(set(multiprocessing.active_children()) - others)
        if isinstance(error, BrokenProcessPool):
            raise ForecacheError(
                f"one of {count} processes ended by itself, most likely because memory ran out; "
                "fewer at a time (--jobs of simulate) take less."
            ) from None
        raise
    pool.shutdown()


def _fork(pool: ProcessPoolExecutor) -> None:
    """Start the processes; a signal that meets one before `_follow` waits until then.

    The parent's handlers, which a new process has as well, would unwind a copy of the parent.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
    try:
        pool.submit(os.getpid)  # with the first call all are forked, by this thread
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _follow(parent: int) -> None:
    """Leave Ctrl-C, which reaches the whole group of processes, to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
