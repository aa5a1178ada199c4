"""Calls through any executor: results in order, errors as in a loop, nothing left behind."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

from forecache.sim.errors import ForecacheError, InputError
from forecache.sim.executors import InThisThread, as_they_end
from forecache.sim.processes import processes, workers


class Shuffled(Executor):
    """Calls nothing until a result is asked for, then what is waiting, in a random order."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._waiting: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self.called: list[Any] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = _Awaited(self._call_all)

        def call() -> None:
            if future.set_running_or_notify_cancel():
                self.called.append(args)
                try:
                    future.set_result(fn(*args, **kwargs))
                except Exception as error:
                    future.set_exception(error)

        with self._lock:
            self._waiting.append(call)
        return future

    def _call_all(self) -> None:
        while (call := self._take()) is not None:
            call()

    def _take(self) -> Callable[[], None] | None:
        """What to call next; several threads may ask, and what is called may submit more."""
        with self._lock:
            if not self._waiting:
                return None
            return self._waiting.pop(self._random.randrange(len(self._waiting)))


class _Awaited(Future[Any]):
    def __init__(self, before: Callable[[], None]) -> None:
        super().__init__()
        self._before = before

    def result(self, timeout: float | None = None) -> Any:
        self._before()
        return super().result(timeout)


def refuse_odd(number: int) -> int:
    if number % 2:
        raise InputError(f"found {number}")
    return number


def pid_of(number: int) -> int:
    time.sleep(0.01)
    return os.getpid() if number >= 0 else 0


def kill_itself(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_threads_that_call_what_waits_call_it_once_each() -> None:
    """A timer may begin while another thread already waits for a result."""
    executor = Shuffled(1)
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for _ in range(50):
                futures = [executor.submit(refuse_odd, 2 * n) for n in range(40)]
                assert list(threads.map(_Awaited.result, futures)) == list(range(0, 80, 2))
    finally:
        sys.setswitchinterval(interval_s)
    assert len(executor.called) == 50 * 40


class KilledWorker(Exception):
    """As a scheduler of Dask says it: the package need not be there."""


def lose_odd(number: int) -> int:
    if number % 2:
        raise KilledWorker
    return number


def test_calls_whose_worker_a_cluster_lost_are_left_out() -> None:
    assert list(as_they_end(lose_odd, range(5), executor=InThisThread())) == [
        (0, 0),
        (2, 2),
        (4, 4),
    ]
    with pytest.raises(InputError, match="found 1"):
        list(as_they_end(refuse_odd, range(5), executor=InThisThread()))


def test_processes_of_its_own_end_with_the_block() -> None:
    # Other tests of this process may have some of their own.
    before = multiprocessing.active_children()
    with processes(2) as pool:
        assert pool is not None
        pids = set(pool.map(pid_of, range(8)))
    assert os.getpid() not in pids
    assert set(multiprocessing.active_children()) <= set(before)
    with processes(1) as none:
        assert none is None


def test_an_error_does_not_wait_for_what_runs() -> None:
    def interrupted() -> None:
        with processes(2) as pool:
            assert pool is not None
            futures = [pool.submit(time.sleep, 60) for _ in range(4)]
            while not futures[0].running():
                time.sleep(0.01)
            raise KeyboardInterrupt

    began_s, before = time.monotonic(), multiprocessing.active_children()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - began_s < 30
    assert set(multiprocessing.active_children()) <= set(before)


ENDED_WHILE_THEY_START = """
import signal
import subprocess
import sys
from forecache.sim.processes import processes

def terminated(number, frame):
    raise SystemExit("a process went on as its parent would")

signal.signal(signal.SIGTERM, terminated)
for _ in range(20):
    try:
        with processes(2) as pool:
            pool.submit(int)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
"""


def test_processes_ended_while_they_start_do_not_run_their_parents_handlers() -> None:
    command = [sys.executable, "-c", ENDED_WHILE_THEY_START]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


ENDED_WHILE_CALLS_ARE_WRITTEN = """
import time
from forecache.sim.processes import processes

def slowly(data):
    time.sleep(0.05)

for number in range(5):
    try:
        with processes(2) as pool:
            for _ in range(60):
                pool.submit(slowly, bytes(3_000_000))
            time.sleep(0.07 + 0.03 * number)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        print("ended")
"""


def test_processes_end_while_a_large_call_is_written_to_them() -> None:
    """Nobody reads the rest of it then: Python 3.11.2 waits for ever to be rid of it."""
    command = [sys.executable, "-c", ENDED_WHILE_CALLS_ARE_WRITTEN]
    done = subprocess.run(command, timeout=60, capture_output=True, text=True, check=False)
    assert done.stdout == "ended\n" * 5


def test_a_process_that_dies_is_told_in_words() -> None:
    with (
        pytest.raises(ForecacheError, match="one of 2 processes ended by itself"),
        processes(2) as pool,
    ):
        list(pool.map(kill_itself, range(3)))


WITH_AN_ERROR = """
import time
from forecache.sim.errors import InputError
from forecache.sim.executors import Submitted
from forecache.sim.processes import workers

def refuse_seven(number):
    if number == 7:
        raise InputError("found 7")
    return bytes(200_000)  # more than a pipe holds

for error in (InputError, KeyboardInterrupt):
    try:
        with workers(count=2) as pool, Submitted(pool) as calls:
            futures = [calls.submit(refuse_seven, number) for number in range(1000)]
            if error is KeyboardInterrupt:
                futures[3].result()
                raise KeyboardInterrupt
            for future in futures:
                future.result()
    except error as found:
        print(type(pool).__name__, type(found).__name__)
"""


def test_calls_that_an_error_ends_are_not_told_of() -> None:
    command = [sys.executable, "-c", WITH_AN_ERROR]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "OwnProcesses InputError\nOwnProcesses KeyboardInterrupt\n"


def test_workers_are_processes_only_where_there_is_one_thread() -> None:
    with ThreadPoolExecutor(1) as other:
        other.submit(int).result()
        with workers(count=2) as pool:
            assert isinstance(pool, ThreadPoolExecutor)
        with workers(other, count=2) as given:
            assert given is other
    with workers(count=1) as pool:
        assert isinstance(pool, ThreadPoolExecutor)


def test_errors_of_a_user_pass_between_processes() -> None:
    with ProcessPoolExecutor(1) as pool, pytest.raises(InputError, match=r"^found 3$"):
        list(pool.map(refuse_odd, [2, 3, 4, 5]))


class _TakesResultsForErrors(Executor):
    """As Dask does where a worker is lost while its result is fetched."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        found = fn(*args, **kwargs)
        if found == 4:
            future.set_exception([found])  # type: ignore[arg-type]
        else:
            future.set_result(found)
        return future


def test_a_result_that_is_taken_for_an_error_is_left_out() -> None:
    found = as_they_end(lambda n: n * n, [1, 2, 3], executor=_TakesResultsForErrors())
    assert sorted(found) == [(0, 1), (2, 9)]
