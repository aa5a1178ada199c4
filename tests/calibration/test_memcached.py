"""Memcached as an engine to drive and observe: a program that behaves as if, and the real one."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.loadgen import LoadGenerator, preload
from forecache.calibration.drive.servers import (
    EngineProcess,
    MemcachedClient,
    MemcachedProcess,
    check_ready,
    engine_version,
    find_engine,
    server_kind,
)
from forecache.calibration.observe.design import Timing
from forecache.calibration.observe.observe import observe
from forecache.calibration.observe.readers.info import (
    commands_served,
    engine_of,
    info_fields,
    memory_used,
)
from forecache.sim.errors import EngineError, InputError
from tests.live_engine import FakeEngine, need

SHORT = Timing(warm_up_s=0.02, window_s=0.1, repetitions=1, starts=1, patience_s=0.0)


@pytest.fixture
def server(memcached: Path) -> Iterator[MemcachedProcess]:
    with MemcachedProcess(memcached) as process:
        yield process


def test_it_answers_and_is_stopped(memcached: Path) -> None:
    core = min(os.sched_getaffinity(0))
    with MemcachedProcess(memcached, cores={core}) as process:
        pid = process.pid
        roles = [thread.role for thread in process.threads()]
        assert roles[0] == "main"
        assert roles.count("main") == 1
        assert process.threads()[0].name == "mc-worker"
        # The worker serves; the thread that listens is the first of the process.
        assert process.threads()[0].tid != pid
        assert os.sched_getaffinity(pid) == {core}
        with process.control() as control:
            assert control.is_ready()
            assert control.keys_held() == 0
            assert control.config()["reqs_per_event"] == "20"
            fields = info_fields(control.info())
        assert engine_of(fields) == engine_version(memcached)
        assert commands_served(fields) == 0
        assert memory_used(fields) == 0
    assert not Path(f"/proc/{pid}").exists()


def test_workers_beyond_the_first_are_io_threads() -> None:
    need("memcached")
    with MemcachedProcess(find_engine("memcached"), io_threads=3) as process:
        roles = [thread.role for thread in process.threads()]
    assert (roles.count("main"), roles.count("io")) == (1, 2)


def test_the_kind_follows_from_what_a_program_says(memcached: Path, tmp_path: Path) -> None:
    assert server_kind(memcached) is MemcachedProcess
    assert check_ready(memcached).id == "memcached-1.6"
    other = tmp_path / "memcached"
    other.write_text("#!/bin/sh\necho 'Valkey server v=8.0.1 sha=0'\n")
    other.chmod(0o755)
    assert server_kind(other) is EngineProcess


@pytest.mark.parametrize("threads", [1, 2])
def test_every_request_is_answered_once(server: MemcachedProcess, threads: int) -> None:
    spec = Conditions(
        command="get",
        keys=500,
        clients=7,
        pipeline=13,
        generator_threads=threads,
        value_sizes=((0, 1.0), (700, 1.0)),
    )
    address = server.address("tcp")
    with server.control() as control:
        preload(spec, address, control=control)
        before = control.stats()
        with LoadGenerator(spec, address, requests=5_011) as load:
            load.measure()
            load.join()
            counters = load.counters()
        after = control.stats()
        assert control.keys_held() == 500
    assert counters["requests"] == 5_011
    assert counters["misses"] == counters["errors"] == 0
    assert int(after["cmd_get"]) - int(before["cmd_get"]) == 5_011
    assert int(before["cmd_set"]) == 500
    assert int(after["get_misses"]) == 0


def test_misses_are_counted(server: MemcachedProcess) -> None:
    spec = Conditions(command="get", keys=10)
    with server.control() as control:
        preload(Conditions(command="get", keys=5), server.address("tcp"), control=control)
        before = control.stats()
        with LoadGenerator(spec, server.address("tcp"), requests=4_000) as load:
            load.join()
            counters = load.counters()
        after = control.stats()
    assert counters["errors"] == 0
    assert counters["misses"] == int(after["get_misses"]) - int(before["get_misses"])
    assert abs(counters["misses"] - 2000) < 160


def test_errors_are_counted(server: MemcachedProcess) -> None:
    spec = Conditions(command="set", keys=3, clients=2, value_bytes=1 << 21)
    with LoadGenerator(spec, server.address("tcp"), requests=20) as load:
        load.join()
        counters = load.counters()
    assert (counters["requests"], counters["errors"]) == (20, 20)
    with (
        server.control() as control,
        pytest.raises(EngineError, match="3 commands failed and 0 keys"),
    ):
        preload(spec, server.address("tcp"), control=control)


def test_preload_says_when_keys_are_not_kept() -> None:
    need("memcached")
    spec = Conditions(command="get", keys=9000, value_bytes=1000)
    with (
        MemcachedProcess(find_engine("memcached"), config={"-m": "4"}) as process,
        process.control() as control,
        pytest.raises(EngineError, match="keys were missing afterwards"),
    ):
        preload(spec, process.address("tcp"), control=control)


def answering(fake_engine: FakeEngine, answer: bytes) -> MemcachedClient:
    def serve(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(answer)

    return MemcachedClient(fake_engine(serve))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"ERROR\r\n", "refused stats: ERROR"),
        (b"STAT curr_items 1\r\n", "the engine closed it"),
        (b"STAT curr", "no line of a reply but"),
        (b"END\r\n", "no curr_items"),
    ],
)
def test_a_broken_answer_is_told(fake_engine: FakeEngine, answer: bytes, says: str) -> None:
    with answering(fake_engine, answer) as client, pytest.raises(EngineError, match=says):
        client.keys_held()


def test_another_server_is_not_ready(fake_engine: FakeEngine) -> None:
    with answering(fake_engine, b"-ERR unknown command 'version'\r\n") as client:
        assert not client.is_ready()


def test_an_observation_names_what_it_left_out(memcached: Path, tmp_path: Path) -> None:
    made = [
        Conditions(command="get", clients=4, keys=100),
        Conditions(command="set", clients=4, keys=100, pipeline=8, value_bytes=600),
        Conditions(command="mix", clients=4, keys=100, role="holdout"),
    ]
    design = [
        *made,
        Conditions(command="get", transport="unix"),
        Conditions(command="get", key_bytes=251),
        Conditions(command="set", keys=2, value_bytes=1 << 20),
    ]
    bundle = observe(engine=memcached, design=design, out=tmp_path / "bundle", timing=SHORT)
    assert [point.given for point in bundle.points] == made
    manifest = bundle.manifest
    assert (manifest.engine.name, manifest.engine.version) == engine_version(memcached)
    assert manifest.engine.allocator == "slabs"
    assert [reason.rpartition(": ")[2] for reason in sorted(manifest.left_out)] == [
        "Memcached is driven over TCP only",
        "Memcached's keys have at most 250 bytes",
        "Memcached's items have at most 1 MiB",
    ]
    for point in bundle.points:
        said = bundle.info_text(point)
        assert said is not None
        assert "curr_items" in info_fields(said)
        for repetition in point.repetitions:
            assert repetition.misses == repetition.errors == 0
            busy = repetition.main_thread_cpu_ns_per_request * repetition.throughput_rps / 1e9
            assert busy == pytest.approx(repetition.main_thread_utilisation, rel=1e-6)
            assert repetition.main_thread_cpu_ns_per_request > 100.0
            assert repetition.reads_per_request is None
            assert repetition.used_memory_bytes is not None
            assert repetition.used_memory_bytes > 100 * point.given.value_bytes
    assert len(manifest.starts) == 1


def test_a_tool_of_redis_is_refused(memcached: Path, tmp_path: Path) -> None:
    tool = tmp_path / "valkey-benchmark"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    with pytest.raises(InputError, match="valid for memcached is forecache"):
        observe(engine=memcached, out=tmp_path / "bundle", tool=str(tool))
