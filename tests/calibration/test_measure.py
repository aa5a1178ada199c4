import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evidence.live.load import process_cpu_ns
from forecache.calibration.drive.proc import core_times_ns, thread_usage
from forecache.calibration.drive.servers import EngineThread
from forecache.calibration.observe.measure import Watch, info_rates, measure_slices, plan_cores
from forecache.sim.errors import EngineError
from forecache.sim.histogram import LatencyHistogram

pytestmark = pytest.mark.alone


@pytest.mark.parametrize(
    ("cores", "io_threads", "generators", "main", "io", "generator", "oversubscribed"),
    [
        ([5], 1, 1, 5, {5}, {5}, True),
        ([0, 1], 1, 1, 0, {1}, {1}, False),
        ([0, 1], 2, 1, 0, {1}, {1}, True),
        ([0, 1], 1, 2, 0, {1}, {1}, True),
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
    rates = info_rates(before, after)
    assert rates["reads_per_request"] == 0.25
    assert rates["writes_per_request"] == 0.25
    assert rates["main_thread_user_fraction"] == 0.25
    assert rates["main_thread_active_time_ns_per_request"] == pytest.approx(5.0)
    # Redis 7.0 doesn't count event loops, and these engines have no I/O threads: absent, not zero.
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


def spin(cpu_s: float) -> None:
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        pass


def test_the_clock_of_this_process_is_exact() -> None:
    pid = os.getpid()
    for cpu_s in (0.0005, 0.003):
        before, own_before = process_cpu_ns(pid), time.process_time_ns()
        spin(cpu_s)
        own_after, after = time.process_time_ns(), process_cpu_ns(pid)
        assert cpu_s * 1e9 <= own_after - own_before <= after - before
        assert after - before < own_after - own_before + 0.4e6
    gone = 2**22 + 1  # beyond the largest process id
    with pytest.raises(EngineError, match=f"process {gone}"):
        process_cpu_ns(gone)


@pytest.fixture
def spinner() -> Iterator[int]:
    """Id of a process with one thread that never sleeps; it says at its end what it used."""
    code = "import sys; print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child.pid
        child.kill()


@pytest.mark.alone
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a CPU besides our own")
def test_a_look_at_a_busy_thread_is_at_most_a_tick_old(spinner: int) -> None:
    """What the kernel says at its end, exactly, is what looks said until then, but for a tick."""
    main = EngineThread(spinner, "test", "main")
    process: Any = SimpleNamespace(pid=spinner, threads=lambda: [main])
    control: Any = SimpleNamespace(info=lambda: "")
    plan = plan_cores(io_threads=1, generator_threads=1)
    watch = Watch(process, control, plan, origin_s=0.0)
    watch.begin()
    time.sleep(0.1)
    looked_ns, seen_ns = time.perf_counter_ns(), watch._look()[main].cpu_ns
    os.kill(spinner, signal.SIGSTOP)
    os.waitid(os.P_PID, spinner, os.WSTOPPED | os.WNOWAIT)
    on_ns, used_ns = time.perf_counter_ns() - looked_ns, watch._look()[main].cpu_ns
    assert used_ns - watch._before[main].cpu_ns > 50e6, "it had a CPU for most of the time"
    assert 0 <= used_ns - seen_ns <= on_ns + 11e6, "the longest ticks are of 10 ms"


class FakeLoad:
    """A load whose latencies in each slice after the first look are given, in ms."""

    def __init__(self, slices: list[list[float]]) -> None:
        self._slices = list(slices)
        self._histogram = LatencyHistogram()

    def latencies(self) -> LatencyHistogram:
        copy = LatencyHistogram(self._histogram.counts.copy())
        for latency_ms in self._slices.pop(0) if self._slices else []:
            self._histogram.record(round(latency_ms * 1e9))
        return copy


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which nothing but sleeping takes time."""
    now_s = [0.0]

    def sleep(duration_s: float) -> None:
        now_s[0] += duration_s

    fake = SimpleNamespace(sleep=sleep, monotonic=lambda: now_s[0])
    monkeypatch.setattr("forecache.calibration.observe.measure.time", fake)


@pytest.mark.usefixtures("clock")
def test_slices_in_which_the_host_took_a_core_away_are_left_out() -> None:
    slices = [[0.1, 0.2], [0.1, 5.0], [0.3] * 8, [1.2], []]
    found = measure_slices(FakeLoad(slices), 0.09)  # type: ignore[arg-type]
    assert found["stalled_share"] == pytest.approx(2 / 5)
    assert found["quiet_p50_ms"] == pytest.approx(0.3, rel=0.01)
    assert found["quiet_p99_ms"] == pytest.approx(0.3, rel=0.01)
    quiet = measure_slices(FakeLoad([[0.1], [0.2], [0.3], [0.4], [0.5]]), 0.09)  # type: ignore[arg-type]
    assert quiet["stalled_share"] == 0.0
    assert quiet["quiet_p50_ms"] == pytest.approx(0.3, rel=0.01)
    assert quiet["quiet_p90_ms"] == pytest.approx(0.5, rel=0.01)


@pytest.mark.usefixtures("clock")
def test_where_every_slice_stalled_nothing_is_known_of_the_others() -> None:
    found = measure_slices(FakeLoad([[2.0]] * 5), 0.09)  # type: ignore[arg-type]
    assert found["stalled_share"] == 1.0
    assert found["quiet_p50_ms"] is None
    assert found["quiet_p99_ms"] is None


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("stalled", range(6))
@pytest.mark.parametrize("empty", range(6))
def test_a_quiet_quantile_is_known_exactly_where_something_completed_in_a_quiet_slice(
    stalled: int, empty: int
) -> None:
    """Where none is empty, that is unless all have stalled."""
    slices = ([[2.0]] * stalled + [[]] * empty + [[0.1, 0.4]] * 5)[:5]
    quiet = 5 - min(5, stalled + empty)
    found = measure_slices(FakeLoad(slices), 0.09)  # type: ignore[arg-type]
    assert found["stalled_share"] == pytest.approx(min(5, stalled) / 5)
    for name in ("quiet_p50_ms", "quiet_p90_ms", "quiet_p99_ms"):
        assert (found[name] is None) == (quiet == 0)
    if empty == 0:
        assert (found["quiet_p50_ms"] is None) == (found["stalled_share"] == 1.0)
    if quiet:
        assert found["quiet_p99_ms"] == pytest.approx(0.4, rel=0.01)
        assert 0.0 < found["quiet_p50_ms"] <= found["quiet_p90_ms"] <= found["quiet_p99_ms"]  # type: ignore[operator]
