"""Many calls through any executor, with their results in order.

Whatever a `concurrent.futures.Executor` runs in, threads, processes or the workers of a cluster,
and whichever call ends first: results come in the order of the arguments, and of several errors
the one that a loop would have met first is raised. A function whose result depends on its argument
alone therefore gives the same with every executor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future
from typing import TypeVar

ArgumentT = TypeVar("ArgumentT")
ResultT = TypeVar("ResultT")


def in_order(
    function: Callable[[ArgumentT], ResultT],
    arguments: Iterable[ArgumentT],
    *,
    executor: Executor | None = None,
    in_flight: int | None = None,
) -> Generator[ResultT, None, None]:
    """Call a function once for each argument; yield its results in the order of the arguments.

    Calls that were not begun when the iterator is closed, or when one raises, are cancelled.

    Parameters
    ----------
    function
        For an executor of processes it, its arguments and its results must be picklable.
    executor
        Where to call; here, one at a time as results are asked for, if left out.
    in_flight
        How many calls may be submitted and not yet yielded, at least 1; all of them if left out.
    """
    if executor is None:
        yield from map(function, arguments)
        return
    waiting: deque[Future[ResultT]] = deque()
    try:
        for argument in arguments:
            waiting.append(executor.submit(function, argument))
            if len(waiting) == in_flight:
                result = waiting[0].result()
                waiting.popleft()
                yield result
        while waiting:
            result = waiting[0].result()
            waiting.popleft()
            yield result
    finally:
        for future in waiting:
            future.cancel()
