"""What nodes say beside counters, and files of keys beside INFO: used, or said not to be."""

from pathlib import Path
from typing import Any

import pytest

from forecache.calibration.today.answer import today
from forecache.calibration.today.demand import read_today
from forecache.models.footprint.schema import MemoryScenario
from forecache.models.footprint.weigh import beside_of, node_of, weigh
from forecache.models.plan.results import FromInfo, TodayAnswer
from forecache.models.plan.schema import PlanDemand
from forecache.sim.errors import InputError

KEYS = Path(__file__).parents[1] / "keyspace" / "samples"

INFO = """\
# Server
valkey_version:9.1.2
run_id:{run}
server_time_usec:1000001000000000
uptime_in_seconds:1000
# Clients
connected_clients:12
# Memory
used_memory:{used}
maxmemory:{maxmemory}
maxmemory_policy:allkeys-lru
# Stats
total_commands_processed:10000
instantaneous_ops_per_sec:9
evicted_keys:0
keyspace_hits:10
keyspace_misses:0
# Replication
role:master
connected_slaves:0
# Commandstats
cmdstat_get:calls={gets},usec={gets},usec_per_call=1.00
cmdstat_hget:calls=3000,usec=6000,usec_per_call=2.00
cmdstat_hset:calls=500,usec=6000,usec_per_call=2.00
cmdstat_zrevrange:calls=500,usec=6000,usec_per_call=2.00
cmdstat_config|get:calls=9,usec=9,usec_per_call=1.00
# Latencystats
latency_percentiles_usec_get:p50=1.003,p99={p99},p99.9=30.1
latency_percentiles_usec_hget:p50=2.003,p99=9.5,p99.9=30.1
latency_percentiles_usec_config|get:p50=2.003,p99=900.5,p99.9=930.1
# Cluster
cluster_enabled:0
# Keyspace
db0:keys=310,expires=90,avg_ttl=5
"""


def info(**fields: Any) -> str:
    known = {"run": "a", "used": 2_000_000, "maxmemory": 0, "gets": 6000, "p99": 4.5}
    return INFO.format(**known | fields)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    file = tmp_path / "node.txt"
    file.write_text(info())
    return file


def told(tmp_path: Path, *texts: str) -> FromInfo:
    files = []
    for number, text in enumerate(texts, start=1):
        files.append(tmp_path / f"node-{number}.txt")
        files[-1].write_text(text)
    return read_today(files)


# --- keys by type ---------------------------------------------------------------------------------


def test_types_of_an_rdb_file_count_for_the_keys_of_info(node: Path) -> None:
    demand = read_today([node, KEYS / "valkey-9.1.2.rdb"]).demand
    # The file has 33 keys, INFO 310; both types of operations work on what the file has.
    assert sum(each["keys"] for each in demand["data"]) == pytest.approx(310, abs=15)
    operations = dict(demand["operations"])
    ranges = operations.pop("zrevrange")
    assert operations == {"get": 6.0, "hget": 3.0, "hset": 0.5}
    assert (ranges["a_second"], ranges.keys()) == (0.5, {"a_second", "members"})
    hashes = [each for each in demand["data"] if each["type"] == "hash"]
    assert demand["hashes"]["keys"] == sum(each["keys"] for each in hashes)
    assert demand["hashes"]["fields"] == round((8 + 9 + 6 + 6) / 4)
    assert demand["sorted_sets"]["members"] == 14
    PlanDemand.model_validate(demand)


def test_types_of_a_scan_have_their_sizes_from_the_memory_in_use(node: Path) -> None:
    scan = KEYS / "valkey-9.1.2-bigkeys.txt"
    found = read_today([node, scan])
    [size] = [each.value for each in found.known if each.field == "demand.data.element_bytes"]
    data = found.demand["data"]
    assert {each["element_bytes"] for each in data if each["type"] == "list"} == {size}
    assert {each["type"] for each in data} == {"string", "list", "set", "hash", "sorted_set"}
    assert all(each["ttl"] == pytest.approx(90 / 310, rel=1e-3) for each in data)
    words = " ".join(found.unknown)
    assert "what 9 streams take beside their entries" in words
    assert "--bigkeys tells of 33 and INFO of 310" in words
    # With --memkeys each type has a size of its own.
    found = read_today([node, scan, KEYS / "valkey-9.1.2-memkeys.txt"])
    data = found.demand["data"]
    scenario = MemoryScenario(engine="valkey", engine_version="9.1", data=data)
    weight = weigh(where := node_of(scenario), scenario.data, beside=beside_of(scenario, where))
    means = {"list": (80_184 + 16_640 + 368) / 3, "sorted_set": 1000}
    for population, each in zip(scenario.data, weight.per_key, strict=True):
        if population.type == "list":
            assert each.settled == pytest.approx(means["list"], rel=0.2)


def test_without_info_keys_are_known_and_operations_have_to_be_said() -> None:
    dump = KEYS / "redis-7.0.15.rdb"
    found = read_today([dump])
    assert found.nodes == []
    assert found.today == {"engine": "redis", "engine_version": "7.0.15"}
    assert "operations" not in found.demand
    alone = today([dump], search=False)
    assert isinstance(alone, TodayAnswer)
    assert alone.from_info.demand["keys"] == 18
    with pytest.raises(InputError, match="found no demand"):
        today([dump])
    demand = {"operations": {"get": 10}}
    with pytest.raises(InputError, match="found no host of today's nodes"):
        today([dump], {"kind": "plan", "demand": demand}, asked_ceiling=True, host="r7g.large")


def test_an_rdb_file_without_keys_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.rdb"
    empty.write_bytes(b"REDIS0011\xff" + bytes(8))
    with pytest.raises(InputError, match="found no key; valid is an RDB file with keys"):
        read_today([empty])


# --- latencies, slots, slow log -------------------------------------------------------------------


def test_latencies_are_those_of_the_slowest_node(tmp_path: Path) -> None:
    found = told(tmp_path, info(), info(run="b", p99=70.5))
    assert [(each.command, each.node, each.quantiles_ms["p99"]) for each in found.latencies] == [
        ("get", "node-2", 0.0705), ("hget", "node-1", 0.0095),
    ]  # fmt: skip


def slots(**times: int) -> str:
    lines = [
        line
        for slot, cpu in times.items()
        for line in (slot[1:], "key-count", "5", "cpu-usec", str(cpu), "network-bytes-in", "9")
    ]
    return "> CLUSTER SLOT-STATS ORDERBY CPU-USEC LIMIT 9\n" + "\n".join(lines) + "\n"


def test_a_hot_slot_is_a_share_of_all_execution_time(tmp_path: Path) -> None:
    # Both nodes executed for 24,000 us each, of which the slots that are listed are a part.
    found = told(tmp_path, info() + slots(_7=6000, _8=30), info(run="b") + slots(_9000=50))
    assert found.demand["hot_slot"] == 0.125
    assert PlanDemand.model_validate(found.demand).hot_slot == 0.125
    even = told(tmp_path, info() + slots(_7=72, _8=30))
    assert "hot_slot" not in even.demand
    assert any("no slot has more than 0.3%" in each for each in even.not_used)


def test_uneven_primaries_are_told_of(tmp_path: Path) -> None:
    found = told(tmp_path, info(gets=60_000), info(run="b"))
    assert any("node-1 has 1.7 times the operations" in each for each in found.unknown)


def slow_log(*entries: tuple[int, int, str]) -> str:
    lines = ["> SLOWLOG GET 128"]
    for place, (at_s, time_us, command) in enumerate(entries):
        number = len(entries) - place - 1
        lines += [str(number), str(at_s), str(time_us), command, "key", "1.2.3.4:5", ""]
    return "\n".join(lines) + "\n"


def test_long_exceptions_of_the_slow_log_are_slow_commands(tmp_path: Path) -> None:
    end = 1_000_001_000
    log = slow_log(
        (end - 1, 30_000, "HGETALL"), (end - 2, 50_000, "HGETALL"), (end - 5, 9_000, "GET"),
        (end - 10, 20_000, "LRANGE"),
    )  # fmt: skip
    found = told(tmp_path, info() + log)
    # Two of 40 ms in 10 s; one LRANGE tells no rate, and a long GET is the machine's pause.
    assert found.demand["slow_command"] == pytest.approx({"duration_ms": 40.0, "every_s": 5.0})
    assert any("hgetall ran 50 ms" in each for each in found.not_used)


# --- settings -------------------------------------------------------------------------------------


def test_settings_that_a_plan_does_not_take_up_are_named(tmp_path: Path) -> None:
    config = "> CONFIG GET *\nhash-max-listpack-entries\n1024\nzset-max-ziplist-entries\n128\n"
    config += "io-threads\n4\ntimeout\n0\n> LATENCY LATEST\n\n> MEMORY STATS\npeak.allocated\n7\n"
    found = told(tmp_path, info(used=4_200_000, maxmemory=2**22) + config)
    assert found.today["io_threads"] == 4
    words = " | ".join(found.not_used)
    assert "maxmemory 4 MiB with allkeys-lru" in words
    assert "unlike defaults: hash-max-listpack-entries 1024" in words
    assert "zset-max" not in words
    assert "3 other settings of CONFIG GET" in words
    assert "replies to MEMORY STATS" in words
    assert any("which it has reached" in each for each in found.unknown)
