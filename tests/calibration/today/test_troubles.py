"""What a node's files show to be wrong: found where it is so, and nothing on healthy nodes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forecache.calibration.today.findings import troubles_of
from forecache.calibration.today.nodes import nodes_of, own_times_of
from forecache.models.plan.results import Trouble

HEALTHY = {
    "redis_version": "7.2.4",
    "run_id": "a",
    "uptime_in_seconds": "10000",
    "server_time_usec": "1700000000000000",
    "connected_clients": "40",
    "blocked_clients": "0",
    "maxclients": "10000",
    "used_memory": str(2 * 2**30),
    "used_memory_rss": str(int(2.1 * 2**30)),
    "maxmemory": "0",
    "maxmemory_policy": "noeviction",
    "rdb_saves": "2",
    "rdb_last_bgsave_time_sec": "9",
    "rdb_last_cow_size": "3000000",
    "total_connections_received": "60",
    "total_commands_processed": "50000000",
    "total_reads_processed": "49000000",
    "keyspace_hits": "39000000",
    "keyspace_misses": "1000000",
    "evicted_keys": "0",
    "rejected_connections": "0",
    "latest_fork_usec": "12000",
    "total_forks": "2",
    "client_output_buffer_limit_disconnections": "0",
    "eventloop_duration_sum": "150000000",
    "role": "master",
    "connected_slaves": "1",
    "sync_full": "1",
    "sync_partial_ok": "0",
    "repl_backlog_size": str(64 * 2**20),
    "master_repl_offset": "900000000",
    "instantaneous_output_repl_kbps": "88",
    "used_cpu_user_main_thread": "100",
    "used_cpu_sys_main_thread": "50",
    "cmdstat_get": "calls=40000000,usec=20000000",
    "cmdstat_set": "calls=10000000,usec=8000000",
    "cmdstat_info": "calls=100,usec=10000",
    "db0": "keys=1000000,expires=900000,avg_ttl=5",
}

Find = Callable[..., list[Trouble]]


@pytest.fixture
def find(tmp_path: Path) -> Find:
    """The troubles of a healthy node with some fields changed, in one look or between two."""

    def finds(*looks: dict[str, str]) -> list[Trouble]:
        files = []
        for number, fields in enumerate(looks or ({},)):
            text = "\n".join(f"{name}:{value}" for name, value in (HEALTHY | fields).items())
            files.append(tmp_path / f"look-{number}.txt")
            files[-1].write_text(text)
        return troubles_of(nodes_of(files))

    return finds


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"connected_slaves": "0", "sync_full": "0", "rdb_last_bgsave_time_sec": "-1"},
        {"redis_version": "5.0.6", "eventloop_duration_sum": "0", "total_forks": "0"},
        {"maxmemory": str(8 * 2**30), "maxmemory_policy": "allkeys-lru"},
        {"total_commands_processed": "3", "keyspace_hits": "0", "keyspace_misses": "1"},
    ],
)
def test_a_healthy_node_has_none(find: Find, fields: dict[str, str]) -> None:
    assert find(fields) == []


@pytest.mark.parametrize(
    ("fields", "kind", "says"),
    [
        ({"used_memory_rss": str(2 * 2**30 - 300 * 2**20)}, "swapped", "300 MiB"),
        ({"sync_full": "40"}, "full syncs", "40 full syncs (every 4.17 minutes)"),
        ({"repl_backlog_size": "1048576"}, "full syncs", "holds 11.7 s"),
        ({"client_output_buffer_limit_disconnections": "7"}, "cut off", "7 clients"),
        ({"latest_fork_usec": "400000"}, "forks", "400 ms every 83.3 minutes (200 ms a GiB)"),
        ({"rdb_saves": "100", "rdb_last_bgsave_time_sec": "60"}, "saves", "60% of the time"),
        ({"rdb_last_cow_size": "1000000000"}, "huge pages", "954 MiB"),
        (
            {"used_cpu_user_main_thread": "40", "used_cpu_sys_main_thread": "20",
             "eventloop_duration_sum": "900000000"},
            "kept waiting", "9% of the time",
        ),
        ({"evicted_keys": "500"}, "memory", "500 keys were evicted"),
        ({"maxmemory": str(2 * 2**30)}, "memory", "noeviction"),
        (
            {"maxmemory": str(3 * 2**30), "maxmemory_policy": "volatile-lru",
             "db0": "keys=1000000,expires=10,avg_ttl=5"},
            "memory", "10 of 1,000,000 keys",
        ),
        ({"rejected_connections": "3"}, "connections", "3 connections were refused"),
        ({"total_connections_received": "5000000"}, "connections", "each for 10 commands"),
        ({"keyspace_misses": "39000000"}, "hits", "50% of the look-ups"),
        ({"cmdstat_info": "calls=10000,usec=1540000"}, "monitoring", "takes 154 µs"),
    ],
)  # fmt: skip
def test_each_trouble_is_found_with_its_number(
    find: Find, fields: dict[str, str], kind: str, says: str
) -> None:
    [trouble] = find(fields)
    assert trouble.kind == kind
    assert says in trouble.what
    assert trouble.costs
    assert trouble.remedy


def test_one_connection_is_a_trouble_of_the_time_between_looks(find: Find) -> None:
    then = {
        "uptime_in_seconds": "10010",
        "server_time_usec": "1700000010000000",
        "connected_clients": "1",
        "total_commands_processed": "50150000",
        "total_reads_processed": "49150000",
    }
    [trouble] = find({"connected_clients": "1"}, then)
    assert trouble.kind == "connections"
    assert "15,000 commands a second, 1 commands a read" in trouble.what


def test_what_happened_before_the_first_look_is_no_trouble_between_two(find: Find) -> None:
    before = {"evicted_keys": "500", "rejected_connections": "3", "sync_full": "40"}
    then = before | {"uptime_in_seconds": "10010", "server_time_usec": "1700000010000000"}
    assert [each.kind for each in find(before, then)] == []


@pytest.mark.parametrize(("scripts", "a_read"), [(0, 3.0), (2_000_000, 1.0)])
def test_what_scripts_call_is_no_pipeline(tmp_path: Path, scripts: int, a_read: float) -> None:
    called = {"total_commands_processed": "147000000", "cmdstat_evalsha": f"calls={scripts},usec=9"}
    file = tmp_path / "node.txt"
    file.write_text("\n".join(f"{n}:{value}" for n, value in (HEALTHY | called).items()))
    [node] = nodes_of([file])
    own = own_times_of(node, io_threads=1)
    assert own is not None
    assert own.commands_a_read == pytest.approx(a_read)
    assert own.busy == pytest.approx(0.015)
    assert own.inside == pytest.approx(28 / 10_000)
