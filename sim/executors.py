"""Many calls through any `concurrent.futures.Executor`: threads, processes, workers of a cluster.

Whichever call ends first, of several errors the one that a loop would have met first is raised. A
function whose result depends on its argument alone therefore gives the same with every executor.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar

from .processes import OwnProcesses
from .stopping import Stop

ArgumentT = TypeVar("ArgumentT")
ResultT = TypeVar("ResultT")


def as_they_end(
    function: Callable[[ArgumentT], ResultT],
    arguments: Sequence[ArgumentT],
    *,
    executor: Executor,
) -> Generator[tuple[int, ResultT], None, None]:
    """Call a function once for each argument; yield indices and results as they are there.

    Calls whose worker was killed are left out, with those that had no other worker to go to. Of
    several errors the one of the earliest argument is raised, once all earlier calls have ended.
    """
    index_of: dict[Future[ResultT], int] = {}
    with suppress(BrokenExecutor):
        for number, argument in enumerate(arguments):
            index_of[executor.submit(function, argument)] = number
    waiting = set(index_of)
    failed: Future[ResultT] | None = None
    # Not `concurrent.futures.wait`: it takes the locks of all futures at once, and Ctrl-C in the
    # middle leaves them taken, so that the executor waits for them for ever.
    ended: SimpleQueue[Future[ResultT]] = SimpleQueue()
    try:
        for future in index_of:
            future.add_done_callback(ended.put)
        while waiting:
            future = ended.get()
            if future not in waiting:
                continue
            waiting.discard(future)
            error = None if future.cancelled() else future.exception()
            if error is None and not future.cancelled():
                yield index_of[future], future.result()
            elif error is not None and not _worker_lost(error):
                if failed is None or index_of[future] < index_of[failed]:
                    failed = future
                for later in [f for f in waiting if index_of[f] > index_of[failed]]:
                    waiting.discard(later)
                    later.cancel()
        if failed is not None:
            failed.result()
    except BaseException as error:
        _cancel(index_of, executor, error)
        raise


def _worker_lost(error: object) -> bool:
    """Whether a call has no result because its worker is gone.

    `dask.distributed` says `KilledWorker` once several workers have gone with a call; it is told by
    its name because the package need not be there. Where a worker goes while its result is fetched,
    it takes that result for an error (`cfexecutor.py`), which is none.
    """
    known = isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"
    return known or not isinstance(error, BaseException)


class InThisThread(Executor):
    """Calls at once what is submitted: for work that is itself one call of many."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of a call that has ended."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def _cancel(
    futures: Iterable[Future[Any]], executor: Executor, error: BaseException | None
) -> None:
    """Cancel what was not begun, after an error or without one.

    A pool whose processes are gone gives all calls an error, which it can't give to cancelled ones;
    it cancels them itself when it is shut. Whoever interrupts may have ended the processes too, and
    an error ends those of `processes`.
    """
    ended = isinstance(executor, OwnProcesses) or not isinstance(error, Exception)
    if error is not None and ended and isinstance(executor, ProcessPoolExecutor):
        return
    for future in futures:
        future.cancel()


_LOOK_AGAIN_S = 0.05


class Submitted:
    """Calls of one block; when it is left, those that were not begun are cancelled.

    Those that threads are in are ended, if what they run can be (`stopping.py`): after Ctrl-C or an
    error their results are not needed, and the executor would wait for them.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._stop = Stop() if isinstance(executor, ThreadPoolExecutor) else None
        self._futures: list[Future[Any]] = []

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """As `Executor.submit`."""
        if self._stop is None:
            future = self._executor.submit(function, *arguments)
        else:
            future = self._executor.submit(self._stop.call, function, *arguments)
        self._futures.append(future)
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _cancel(self._futures, self._executor, error)
        while self._stop is not None and (busy := [f for f in self._futures if f.running()]):
            self._stop.end()
            wait(busy, timeout=_LOOK_AGAIN_S)
