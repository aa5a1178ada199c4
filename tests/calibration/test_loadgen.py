"""The load generator against a real engine and against broken ones."""

import _thread
import itertools
import os
import signal
import socket
import threading
import time

import pytest

from evidence.live.load import run_load
from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.loadgen import LoadGenerator, preload
from forecache.calibration.drive.servers import EngineProcess
from forecache.calibration.observe.readers.info import info_fields
from forecache.sim.errors import EngineError
from tests.live_engine import FakeEngine


def stats(control: RespClient) -> dict[str, float]:
    fields = info_fields(control.info("stats"))
    return {
        name: float(fields[name])
        for name in ("keyspace_hits", "keyspace_misses", "total_commands_processed")
    }


@pytest.mark.parametrize("transport", ["tcp", "unix"])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_request_is_answered_once(
    engine: EngineProcess, transport: str, threads: int
) -> None:
    spec = Conditions(command="get", keys=500, clients=7, pipeline=13, generator_threads=threads)
    with engine.control() as control:
        control.command("FLUSHALL")
        preload(spec, engine.address(transport), control=control)
        before = stats(control)
        with LoadGenerator(spec, engine.address(transport), requests=20_011) as load:
            load.measure()
            load.join()
            counters = load.counters()
        after = stats(control)
    assert counters["requests"] == 20_011
    assert after["keyspace_hits"] - before["keyspace_hits"] == 20_011
    assert counters["misses"] == counters["errors"] == 0
    # Every batch is full but the last of each thread.
    assert counters["batches"] - -(-20_011 // 13) in range(threads)


def test_misses_and_errors_are_counted(engine: EngineProcess) -> None:
    with engine.control() as control:
        control.command("FLUSHALL")
        # Half of the 10 keys are lists, to which GET is an error; the others are missing.
        for number in range(5):
            control.command("RPUSH", f"key:{number:012d}", "x")
        before = stats(control)
        with LoadGenerator(
            Conditions(command="get", keys=10), engine.address("tcp"), requests=10_000
        ) as load:
            load.join()
            counters = load.counters()
        after = stats(control)
        control.command("FLUSHALL")
    assert counters["errors"] + counters["misses"] == 10_000
    assert counters["misses"] == after["keyspace_misses"] - before["keyspace_misses"]
    assert abs(counters["errors"] - 5000) < 250


@pytest.mark.alone
def test_closed_loop_obeys_littles_law(engine: EngineProcess) -> None:
    with engine.control() as control:
        spec = Conditions(command="get", keys=100, clients=20)
        preload(spec, engine.address("tcp"), control=control)
        result = run_load(spec, engine.address("tcp"), duration_s=0.4)
        control.command("FLUSHALL")
    assert result.mean_ms is not None
    assert result.histogram is not None
    in_flight = result.throughput_rps * result.mean_ms / 1e3
    # A window may begin and end with batches on their way: the longest by its share of the window.
    ends = result.histogram.max_ps / 1e12 / result.duration_s
    # A connection is without a request only while its batch is encoded and sent.
    assert (0.8 - ends) * 20 < in_flight <= (1.005 + ends) * 20
    assert abs(result.histogram.count - result.requests) <= 0.02 * result.requests
    assert 0 < result.generator_utilisation <= 1.05
    assert result.generator_sends_per_request == pytest.approx(1, abs=0.02)
    assert 0.0 < (result.p50_ms or 0.0) <= (result.p99_ms or 0.0) <= (result.p999_ms or 0.0)


@pytest.mark.alone
def test_think_time_bounds_the_throughput(engine: EngineProcess) -> None:
    with engine.control() as control:
        spec = Conditions(command="get", keys=100, clients=10, think_us=5000)
        preload(spec, engine.address("tcp"), control=control)
        with LoadGenerator(spec, engine.address("tcp")) as load:
            load.measure()
            looks = [load.snapshot()]
            for _ in range(10):
                time.sleep(0.04)
                looks.append(load.snapshot())
        result = load.result(looks[0], looks[-1])
        assert result.mean_ms is not None
        control.command("FLUSHALL")
    # Ten clients, each at most every 5 ms; slower by the latency.
    expected = 10 / (5e-3 + result.mean_ms / 1e3)
    assert result.throughput_rps <= 2000 * 1.03
    # On a busy machine the generator's thread waits as well, but not all the time.
    windows = [load.result(*window).throughput_rps for window in itertools.pairwise(looks)]
    assert 0.7 * expected <= max(windows)


@pytest.mark.alone
def test_open_loop_keeps_its_rate_and_counts_stalls(engine: EngineProcess) -> None:
    rate, stall_s = 4000.0, 0.1
    with engine.control() as control:
        spec = Conditions(
            command="get", keys=100, clients=5, rate_rps=rate, pipeline=2, arrival="open_loop"
        )
        preload(spec, engine.address("tcp"), control=control)
        with LoadGenerator(spec, engine.address("tcp")) as load:
            time.sleep(0.05)
            load.measure()
            before = load.snapshot()
            time.sleep(0.2)
            os.kill(engine.pid, signal.SIGSTOP)
            time.sleep(stall_s)
            os.kill(engine.pid, signal.SIGCONT)
            time.sleep(0.3)
            after = load.snapshot()
        result = load.result(before, after)
        assert result.mean_ms is not None
        assert result.histogram is not None
        control.command("FLUSHALL")
    # Poisson: five standard deviations of the 1200 batches.
    assert result.requests == pytest.approx(rate * result.duration_s, abs=2 * 5 * 35 + 40)
    # Latency counts from the intended start: about stall/2 on a sixth of the requests.
    stalled = rate * stall_s
    assert result.mean_ms / 1e3 * result.histogram.count > 0.7 * stalled * stall_s / 2
    assert result.latest_start_us > 0.7 * stall_s * 1e6


def test_batches_larger_than_the_socket_takes(engine: EngineProcess) -> None:
    spec = Conditions(command="mix", keys=20, clients=3, pipeline=200, value_bytes=60_000)
    with engine.control() as control:
        control.command("FLUSHALL")
        preload(spec, engine.address("tcp"), control=control)
        with LoadGenerator(spec, engine.address("tcp"), requests=1000) as load:
            load.join()
            counters = load.counters()
        assert control.command("STRLEN", "key:000000000007") == 60_000
        control.command("FLUSHALL")
    assert counters["requests"] == 1000
    assert counters["partial_sends"] > 0
    assert counters["errors"] == counters["misses"] == 0


def test_preload_says_when_the_engine_does_not_keep_the_keys(engine: EngineProcess) -> None:
    spec = Conditions(command="get", keys=2000, value_bytes=1000)
    with engine.control() as control:
        control.command("FLUSHALL")
        control.command("CONFIG", "SET", "maxmemory", "1500kb")
        with pytest.raises(EngineError, match="commands failed and"):
            preload(spec, engine.address("tcp"), control=control)
        control.command("CONFIG", "SET", "maxmemory", "0")
        control.command("FLUSHALL")


def run_against(address: object) -> None:
    with LoadGenerator(Conditions(command="get", keys=1, clients=1), address) as load:  # type: ignore[arg-type]
        load.join()


def test_an_engine_that_hangs_up(fake_engine: FakeEngine) -> None:
    address = fake_engine(lambda connection: connection.recv(10) and None)
    with pytest.raises(EngineError, match="closed a connection"):
        run_against(address)


def test_a_server_that_speaks_something_else(fake_engine: FakeEngine) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        time.sleep(0.2)

    with pytest.raises(EngineError, match="no reply to GET or SET"):
        run_against(fake_engine(serve))


def test_more_replies_than_requests(fake_engine: FakeEngine) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"+OK\r\n" * 3)
        time.sleep(0.2)

    with pytest.raises(EngineError, match="no reply to GET or SET"):
        run_against(fake_engine(serve))


def test_an_engine_that_never_answers(fake_engine: FakeEngine) -> None:
    address = fake_engine(lambda _connection: time.sleep(2))
    load = LoadGenerator(Conditions(command="get", keys=1, clients=1), address, longest_s=0.2)
    start = time.monotonic()
    with pytest.raises(EngineError, match="took too long"), load:
        load.join()
    assert time.monotonic() - start < 1.5


def test_nothing_is_left_running(engine: EngineProcess) -> None:
    threads = threading.active_count()
    with engine.control() as control:
        clients = info_fields(control.info("clients"))["connected_clients"]
        with (
            pytest.raises(KeyboardInterrupt),
            LoadGenerator(Conditions(command="get", keys=10, clients=5), engine.address("tcp")),
        ):
            raise KeyboardInterrupt
        assert threading.active_count() == threads
        for _ in range(100):
            if info_fields(control.info("clients"))["connected_clients"] == clients:
                break
            time.sleep(0.01)
        assert info_fields(control.info("clients"))["connected_clients"] == clients


def test_ctrl_c_while_a_thread_starts(
    engine: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, threads = threading.Thread.start, threading.active_count()

    def interrupted(thread: threading.Thread) -> None:
        def later() -> None:
            time.sleep(0.05)
            start(thread)

        _thread.start_new_thread(later, ())
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    spec = Conditions(command="get", keys=10, clients=5)
    with pytest.raises(KeyboardInterrupt), LoadGenerator(spec, engine.address("tcp")):
        pass
    for _ in range(100):
        if threading.active_count() == threads:
            break
        time.sleep(0.01)
    assert threading.active_count() == threads


def test_snapshots_only_grow(engine: EngineProcess) -> None:
    with LoadGenerator(
        Conditions(command="get", keys=10, clients=5), engine.address("tcp")
    ) as load:
        looks = []
        for _ in range(5):
            time.sleep(0.02)
            looks.append(load.snapshot())
    for earlier, later in itertools.pairwise(looks):
        assert later.time_ns > earlier.time_ns
        assert all(later.counters[name] >= count for name, count in earlier.counters.items())
        assert later.usage[0].cpu_ns >= earlier.usage[0].cpu_ns
        assert later.counters["requests"] > earlier.counters["requests"]
