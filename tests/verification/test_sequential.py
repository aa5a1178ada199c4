"""Replications stop when precise, wherever and in whatever order they run."""

import threading
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.sim.errors import InputError
from forecache.sim.streams import uniform
from tests.sim.test_executors import Shuffled, refuse_odd
from verification.queueing.sequential import ReplicationResult, in_order, run_replications


def noisy(replication: int) -> dict[str, float]:
    return {"mean": 10.0 + uniform(1, replication, 0, 0, 0), "other": float(replication)}


def slow_when_even(replication: int) -> dict[str, float]:
    time.sleep(0.004 if replication % 2 == 0 else 0.0)
    return noisy(replication)


def run(executor: Executor | None, in_flight: int = 4) -> ReplicationResult:
    return run_replications(
        slow_when_even,
        precision={"mean": 0.01},
        executor=executor,
        in_flight=in_flight,
    )


def test_the_result_does_not_depend_on_the_executor() -> None:
    alone = run(None)
    assert alone.precise
    assert 5 < alone.replications < 100
    with ThreadPoolExecutor(3) as threads:
        results = [run(threads, 1), run(threads, 4), run(threads, 50)]
    with ProcessPoolExecutor(1) as processes:
        results.append(run(processes))
    for result in results:
        assert result.estimates == alone.estimates
        assert result.replications == alone.replications
        np.testing.assert_array_equal(result.samples["other"], alone.samples["other"])


def test_samples_are_in_order_of_replications() -> None:
    result = run(None)
    np.testing.assert_array_equal(result.samples["other"], np.arange(result.replications))


def test_it_stops_at_the_maximum() -> None:
    result = run_replications(noisy, precision={"mean": 1e-9}, maximum=13)
    assert result.replications == 13
    assert not result.precise


def test_nothing_to_reach_means_the_minimum() -> None:
    result = run_replications(noisy, precision={})
    assert result.replications == 5
    assert result.precise


def test_a_bounded_number_is_in_flight() -> None:
    lock = threading.Lock()
    started = 0
    most_ahead = 0

    def simulate(replication: int) -> dict[str, float]:
        nonlocal started, most_ahead
        with lock:
            started += 1
        return noisy(replication)

    def progress(in_hand: int) -> None:
        nonlocal most_ahead
        time.sleep(0.002)
        with lock:
            most_ahead = max(most_ahead, started - in_hand)

    with ThreadPoolExecutor(8) as threads:
        run_replications(
            simulate,
            precision={"mean": 0.0},
            maximum=40,
            executor=threads,
            in_flight=3,
            progress=progress,
        )
    assert started == 40
    assert most_ahead <= 3


def test_an_error_reaches_the_caller() -> None:
    def broken(replication: int) -> dict[str, float]:
        if replication == 2:
            raise RuntimeError("replication 2 broke")
        return noisy(replication)

    with ThreadPoolExecutor(2) as threads:
        for executor in (None, threads):
            with pytest.raises(RuntimeError, match="replication 2 broke"):
                run_replications(broken, precision={}, executor=executor)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"minimum": 4}, "at least 5"),
        ({"minimum": 20, "maximum": 10}, "from 20 to 10"),
        ({"in_flight": 0}, "in flight"),
        ({"precision": {"speed": 0.1}}, "no output speed; there are mean, other"),
    ],
)
def test_nonsense_is_refused(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"precision": {}} | change
    with pytest.raises(ValueError, match=message):
        run_replications(noisy, **arguments)  # type: ignore[arg-type]


def square(number: int) -> int:
    return number * number


@given(
    arguments=st.lists(st.integers(0, 100), max_size=20),
    in_flight=st.none() | st.integers(1, 25),
    seed=st.integers(0, 2**32),
)
def test_results_come_in_the_order_of_arguments(
    arguments: list[int], in_flight: int | None, seed: int
) -> None:
    found = in_order(square, arguments, executor=Shuffled(seed), in_flight=in_flight)
    assert list(found) == [square(number) for number in arguments]


@given(arguments=st.lists(st.integers(0, 9), min_size=1), seed=st.integers(0, 2**32))
def test_the_error_is_the_one_a_loop_meets_first(arguments: list[int], seed: int) -> None:
    def outcome(executor: Executor | None) -> object:
        try:
            return list(in_order(refuse_odd, arguments, executor=executor))
        except InputError as error:
            return str(error)

    assert outcome(Shuffled(seed)) == outcome(None)


def test_what_has_not_begun_is_cancelled() -> None:
    begun: list[int] = []
    gate = threading.Event()

    def call(number: int) -> int:
        begun.append(number)
        if number:
            gate.wait(10)
        return number

    with ThreadPoolExecutor(1) as pool:
        results = in_order(call, range(50), executor=pool)
        assert next(results) == 0
        results.close()
        gate.set()
    assert len(begun) <= 2
