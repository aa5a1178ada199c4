import os
import threading
import time
from pathlib import Path

import pytest

from forecache.calibration.measure import _info_rates, plan_cores
from forecache.calibration.proc import core_times_ns, thread_usage
from forecache.sim.errors import EngineError


@pytest.mark.parametrize(
    ("cores", "io_threads", "generators", "main", "io", "generator", "oversubscribed"),
    [
        ([5], 1, 1, 5, {5}, {5}, True),
        ([0, 1], 1, 1, 0, {0, 1}, {1}, False),
        ([0, 1], 2, 1, 0, {0, 1}, {1}, True),
        ([0, 1], 1, 2, 0, {0, 1}, {1}, True),
        ([0, 1, 2, 3], 3, 1, 0, {1, 2}, {3}, False),
        ([0, 1, 2, 3], 4, 1, 0, {1, 2}, {3}, True),
        ([2, 4, 6, 8], 2, 2, 2, {4}, {6, 8}, False),
    ],
)
def test_cores_are_dealt_out(
    cores: list[int],
    io_threads: int,
    generators: int,
    main: int,
    io: set[int],
    generator: set[int],
    oversubscribed: bool,
) -> None:
    plan = plan_cores(io_threads=io_threads, generator_threads=generators, allowed=cores)
    assert (plan.main, set(plan.io), set(plan.generator)) == (main, io, generator)
    assert plan.oversubscribed is oversubscribed


def test_rates_from_info_leave_out_its_own_command() -> None:
    before = {
        "total_commands_processed": "100",
        "total_reads_processed": "50",
        "total_writes_processed": "40",
        "used_cpu_user_main_thread": "1.0",
        "used_cpu_sys_main_thread": "2.0",
        "used_active_time_main_thread": "1.5",
    }
    after = {
        "total_commands_processed": "1101",
        "total_reads_processed": "301",
        "total_writes_processed": "291",
        "used_cpu_user_main_thread": "1.25",
        "used_cpu_sys_main_thread": "2.75",
        "used_active_time_main_thread": "1.500005",
    }
    rates = _info_rates(before, after)
    assert rates["reads_per_request"] == 0.25
    assert rates["writes_per_request"] == 0.25
    assert rates["main_thread_user_fraction"] == 0.25
    assert rates["main_thread_active_time_ns_per_request"] == pytest.approx(5.0)
    # Redis 7.0 doesn't count event loops, and nobody here has I/O threads: absent, not zero.
    assert rates["event_loops_per_request"] is None
    assert rates["io_threads_active_time_ns_per_request"] is None
    assert rates["prefetch_batches_per_request"] is None


def test_a_thread_that_works_and_sleeps() -> None:
    tids: list[int] = []
    go, worked, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        tids.append(threading.get_native_id())
        go.wait()
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        worked.set()
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    while not tids:
        time.sleep(0.001)
    before = thread_usage(os.getpid(), tids[0])
    go.set()
    worked.wait()
    time.sleep(0.05)
    used = thread_usage(os.getpid(), tids[0]).since(before)
    done.set()
    thread.join()
    assert 0.045e9 < used.cpu_ns < 0.08e9
    assert used.voluntary_switches >= 1
    while Path(f"/proc/self/task/{tids[0]}").exists():  # join returns a little early
        time.sleep(0.001)
    with pytest.raises(EngineError, match=f"thread {tids[0]}"):
        thread_usage(os.getpid(), tids[0])


def test_core_times_advance_with_the_clock() -> None:
    core = min(os.sched_getaffinity(0))
    start = time.monotonic()
    before = core_times_ns({core})
    time.sleep(0.2)
    after = core_times_ns({core})
    elapsed_ns = (time.monotonic() - start) * 1e9
    assert after[0] - before[0] == pytest.approx(elapsed_ns, abs=0.06e9)
    assert after[1] >= before[1]
    assert core_times_ns(set()) == (0, 0, 0)
