"""What today's nodes tell: read right, or refused in one sentence."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.today.answer import todays_failover
from forecache.calibration.today.commands import operation_counts
from forecache.calibration.today.data import Traffic, size_in_memory, sizes_of, used_by
from forecache.calibration.today.demand import read_today
from forecache.calibration.today.nodes import look_of, nodes_of, replies_of
from forecache.models.footprint.schema import MemoryScenario
from forecache.models.footprint.weigh import beside_of, node_of, weigh
from forecache.models.plan.results import FromInfo
from forecache.models.plan.schema import PlanDemand
from forecache.sim.errors import InputError
from verification.inputs.damage import damaged_text

SAMPLES = Path(__file__).with_name("samples")
VALKEY, REDIS = SAMPLES / "valkey-8.1.1.txt", SAMPLES / "redis-8.6.3.txt"
DAMAGES = 150

INFO = """\
# Server
redis_version:7.2.4
valkey_version:8.1.1
run_id:a
uptime_in_seconds:{uptime}
# Clients
connected_clients:12
# Memory
used_memory:90000000
# Stats
total_commands_processed:{total}
instantaneous_ops_per_sec:900
total_net_input_bytes:1000
total_net_output_bytes:1000
keyspace_hits:10
keyspace_misses:0
# Replication
role:{role}
connected_slaves:2
# Commandstats
cmdstat_get:calls={gets},usec={gets},usec_per_call=1.00
cmdstat_set:calls=100,usec=100,usec_per_call=1.00
cmdstat_ping:calls=5000,usec=100,usec_per_call=0.02
# Cluster
cluster_enabled:0
# Keyspace
db0:keys=1000,expires=250,avg_ttl=5
"""


def info(*, uptime: int = 100, gets: int = 900, role: str = "master") -> str:
    return INFO.format(uptime=uptime, gets=gets, total=gets + 5100, role=role)


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., FromInfo]:
    """What some texts tell, each a file."""

    def reads(*texts: str) -> FromInfo:
        files = []
        for number, text in enumerate(texts, start=1):
            files.append(tmp_path / f"node-{number}.txt")
            files[-1].write_text(text)
        return read_today(files)

    return reads


# --- real bundles ---------------------------------------------------------------------------------


def test_a_real_bundle_of_valkey() -> None:
    found = read_today([VALKEY])
    demand, today = found.demand, found.today
    # valkey-benchmark sent 40,000 SETs of 300 bytes and 60,000 GETs to keys of 16 bytes; the server
    # was 6 s old.
    assert demand["operations"]["get"] == pytest.approx(60_000 / 6, rel=1e-3)
    assert demand["operations"]["set"] == pytest.approx(40_001 / 6, rel=1e-3)
    assert demand["operations"].keys() == {"get", "set"}  # one MGET is too rare
    assert demand["value_bytes"] == pytest.approx(300, rel=0.05)
    assert demand["keys"] == 17_198
    assert "slow_command" not in demand  # two KEYS of 1.7 ms
    assert demand["persistence"] == "none"
    assert "tls" not in demand
    assert today == {
        "engine": "valkey", "engine_version": "8.1.1", "shards": 1, "replicas": 0, "io_threads": 1,
    }  # fmt: skip
    words = " ".join(found.unknown)
    assert "keys take from other commands: 0.06% of the time" in words
    assert "14% of the look-ups find nothing" in words
    not_used = " ".join(found.not_used)
    assert "High total RSS" in not_used
    assert "get ran 4.1 ms" in not_used


@pytest.mark.parametrize("file", [VALKEY, REDIS], ids=lambda file: file.stem)
def test_the_memory_of_a_real_bundle_is_that_of_its_data(file: Path) -> None:
    found = read_today([file])
    data = found.demand["data"]
    scenario = MemoryScenario(
        engine=found.today["engine"], engine_version=found.today["engine_version"], data=data
    )
    node = node_of(scenario)
    used = weigh(node, scenario.data, beside=beside_of(scenario, node)).used_bytes
    # Histograms of nine commands, of which the scenario has two, are a twentieth of it.
    assert used == pytest.approx(found.nodes[0].used_memory_bytes, rel=0.06)
    # What is told twice is told alike: Redis 8 tells powers of two, and memory says where between.
    [values] = [each["value_bytes"] for each in data if each["keys"] > 100]
    assert values == pytest.approx(found.demand["value_bytes"], rel=0.05 if file == VALKEY else 0.2)


def test_every_field_that_is_filled_in_says_how_it_is_known() -> None:
    found = read_today([VALKEY])
    told = {each.field for each in found.known} | {"demand.key_bytes", "demand.value_bytes"}
    assert {f"demand.{name}" for name in found.demand} <= told
    assert {f"today.{name}" for name in found.today} <= told
    assert all(each.how for each in found.known)


# --- rates ----------------------------------------------------------------------------------------


def test_one_look_tells_the_mean_since_the_start(read: Callable[..., FromInfo]) -> None:
    found = read(info())
    assert found.demand["operations"] == {"get": 9.0, "set": 1.0}  # PING is no demand
    assert found.demand["peak_to_mean"] == 90.0
    assert found.demand["data"][0]["ttl"] == 0.25
    assert found.today["replicas"] == 2


def test_two_looks_tell_the_rate_between_them(read: Callable[..., FromInfo]) -> None:
    found = read(info(), info(uptime=110, gets=10_900))
    assert found.demand["operations"] == {"get": 1000.0}
    assert len(found.nodes) == 1
    # In any order, and in one file.
    both = info(uptime=110, gets=10_900) + "> INFO ALL\n" + info()
    assert read(both).demand["operations"] == {"get": 1000.0}


def test_commands_that_run_long_are_the_slow_command(read: Callable[..., FromInfo]) -> None:
    slow = "cmdstat_smembers:calls=10,usec=500000,usec_per_call=50000\n"
    found = read(info().replace("# Cluster\n", slow + "# Cluster\n"))
    assert found.demand["slow_command"] == {"duration_ms": 50.0, "every_s": 10.0}
    assert found.demand["operations"] == {"get": 9.0, "set": 1.0}


def test_primaries_add_up_and_replicas_do_not(read: Callable[..., FromInfo]) -> None:
    other = info().replace("run_id:a", "run_id:b")
    replica = info(role="slave").replace("run_id:a", "run_id:c")
    found = read(info(), other, replica)
    assert found.demand["operations"] == {"get": 18.0, "set": 2.0}
    assert found.demand["keys"] == 2000
    assert found.today["shards"] == 2
    assert [node.role for node in found.nodes] == ["primary", "primary", "replica"]
    assert any("reads a second of 1 replicas" in each for each in found.unknown)


def test_the_rest_of_a_cluster_is_like_the_nodes_that_were_asked(
    read: Callable[..., FromInfo],
) -> None:
    found = read(info() + "> CLUSTER INFO\ncluster_state:ok\ncluster_size:6\n")
    assert found.today["shards"] == 6
    assert found.demand["operations"]["get"] == 54.0
    assert found.demand["keys"] == 6000
    assert any("other 5 primaries" in each for each in found.unknown)


def test_what_is_read_makes_a_demand(read: Callable[..., FromInfo]) -> None:
    for found in (read(info()), read_today([VALKEY]), read_today([REDIS])):
        demand = PlanDemand.model_validate(found.demand)
        assert demand.operations.a_second > 0


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        "io-threads\n4\ntls-port\n6379\nport\n0\nappendonly\nyes\nappendfsync\neverysec\nsave\n\n",
        '1) "io-threads"\n2) "4"\n3) "tls-port"\n4) "6379"\n5) "port"\n6) "0"\n7) "appendonly"\n'
        '8) "yes"\n9) "appendfsync"\n10) "everysec"\n11) "save"\n12) ""\n',
        '1# "io-threads" => "4"\n2# "tls-port" => "6379"\n3# "port" => "0"\n'
        '4# "appendonly" => "yes"\n5# "appendfsync" => "everysec"\n6# "save" => ""\n',
    ],
    ids=["to a file", "to a terminal", "to a terminal as a map"],
)
def test_settings_however_they_were_printed(config: str, read: Callable[..., FromInfo]) -> None:
    found = read(f"{info()}\n10.0.0.1:6379> config get *\n{config}")
    assert found.today["io_threads"] == 4
    assert found.demand["tls"] is True
    assert found.demand["persistence"] == {"aof": "everysec"}


def test_settings_that_a_service_does_not_tell(read: Callable[..., FromInfo]) -> None:
    found = read(info() + "> CONFIG GET *\n(error) ERR unknown command 'CONFIG'\n")
    assert found.today["io_threads"] == 1
    words = " ".join(found.unknown)
    assert "io-threads: CONFIG GET is missing or refused; 1 is taken" in words
    assert "refused to tell: CONFIG GET *" in words


def test_snapshots_by_their_number(read: Callable[..., FromInfo]) -> None:
    saved = "rdb_saves:4\nrdb_last_bgsave_time_sec:3\n"
    found = read(saved + info(uptime=1000) + "> CONFIG GET save\nsave\n60 1\n")
    assert found.demand["persistence"] == {"snapshot": {"every_s": 250.0, "child_s": 3.0}}


def test_the_slow_log_with_line_breaks_in_arguments(tmp_path: Path) -> None:
    log = "\n".join(
        ["2", "1795597847", "900", "EVAL", "return 1", "7", "8", "1.2.3.4:5", ""]
        + ["1", "1795597840", "2737", "keys", "*", "1.2.3.4:5", "", "0", "1795597830", "5", "GET"]
        + ["k", "1.2.3.4:5", ""]
    )
    file = tmp_path / "a.txt"
    file.write_text(f"{info()}> SLOWLOG GET 10\n{log}\n")
    [node] = nodes_of([file])
    assert [(each.command, each.time_us) for each in node.slow] == [
        ("eval", 900.0), ("keys", 2737.0), ("get", 5.0),
    ]  # fmt: skip


def test_statistics_of_slots(tmp_path: Path) -> None:
    stats = "\n".join(
        f"{slot}\nkey-count\n{cpu}\ncpu-usec\n{cpu}\nnetwork-bytes-in\n9"
        for slot, cpu in ((12, 600), (13, 300))
    )
    file = tmp_path / "a.txt"
    file.write_text(f"{info()}> CLUSTER SLOT-STATS ORDERBY CPU-USEC\n{stats}\n")
    assert nodes_of([file])[0].slots == {12: 600.0, 13: 300.0}
    # GETs and SETs took 1,000 us since the start.
    assert read_today([file]).demand["hot_slot"] == 0.6


@pytest.mark.parametrize(
    ("shards", "replicas", "instance", "failover"),
    [
        (3, 1, "r7g.large", "automatic"),
        (2, 1, "r7g.large", "by_hand"),  # what runs today can't either
        (6, 0, "r7g.large", "by_hand"),
        (1, 1, "cache.r7g.large", "automatic"),
        (1, 0, "cache.r7g.large", "by_hand"),
    ],
)
def test_a_plan_has_to_fail_over_by_itself_if_todays_nodes_do(
    shards: int, replicas: int, instance: str, failover: str
) -> None:
    assert todays_failover({"shards": shards, "replicas": replicas}, instance) == failover


def test_commands_find_their_place() -> None:
    counts = {
        "get": (10.0, 10.0), "setex": (5.0, 10.0), "incr": (4.0, 4.0), "lrange": (3.0, 30.0),
        "smembers": (2.0, 9000.0), "config|get": (7.0, 7.0), "hello": (9.0, 9.0),
    }  # fmt: skip
    found = operation_counts(counts)
    assert found.calls == {"get": 13.0, "set": 9.0}
    assert (found.alike, found.unknown) == ({"incr": 4.0}, {"lrange": 3.0})
    assert found.slow == {"smembers": (2.0, 9000.0)}
    assert (found.known_us, found.time_us) == (20.0, 9054.0)


# --- sizes ----------------------------------------------------------------------------------------


@given(
    key_bytes=st.integers(1, 300),
    value_bytes=st.integers(0, 100_000),
    gets=st.integers(3_000, 10**9),
    sets=st.integers(0, 10**9),
    keys=st.integers(1, 100),
    mgets=st.integers(0, 10**6),
    found=st.floats(0.5, 1.0),
)
def test_sizes_come_back_from_the_bytes_they_make(
    key_bytes: int, value_bytes: int, gets: int, sets: int, keys: int, mgets: int, found: float
) -> None:
    calls = {"get": float(gets), "set": float(sets), "mget": float(mgets)}
    made = Traffic(calls, {"mget": keys}, found, 0.0, 0.0)
    told = Traffic(
        calls,
        {"mget": keys},
        found,
        made.asked_bytes(key_bytes, value_bytes),
        made.replied_bytes(value_bytes),
    )
    sizes = sizes_of(told)
    assert (sizes.key_bytes, sizes.value_bytes) == (key_bytes, value_bytes)


@given(
    keys=st.integers(10_000, 10**9),
    key_bytes=st.integers(1, 100),
    value_bytes=st.integers(0, 10**6),
    ttl=st.sampled_from([0.0, 0.3, 1.0]),
    engine=st.sampled_from([("valkey", "8.1"), ("redis", "7.0"), ("valkey", "9.1")]),
)
def test_values_take_the_memory_that_they_were_told_by(
    keys: int, key_bytes: int, value_bytes: int, ttl: float, engine: tuple[str, str]
) -> None:
    node = {"engine": engine[0], "engine_version": engine[1]}

    def strings(size: int) -> list[dict[str, Any]]:
        strings = {"type": "string", "keys": keys, "key_bytes": key_bytes, "ttl": ttl}
        return [strings | {"value_bytes": size}]

    used = used_by(node, strings(value_bytes))
    assert used is not None
    found = size_in_memory(node, strings, used)
    assert found is not None
    # Allocators round up: sizes of one class take the same.
    assert used_by(node, strings(found)) == pytest.approx(used, rel=1e-9)


def check_sentence(error: InputError, *, file: str) -> None:
    """Check that an error is one sentence about a file."""
    assert file in str(error)
    assert "\n" not in str(error)


# --- bad files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "found no INFO; valid is a file with the text of INFO ALL"),
        ("hello\n", "line 1: found 'hello'; valid is name:value"),
        ("a:1\n", "field 'redis_version' is missing; valid is the text of INFO ALL"),
        ("redis_version:fast\n", "line 1: found 'fast' as redis_version; valid is a version"),
        ("redis_version:7.0\n", "field 'uptime_in_seconds' is missing"),
        (info().replace("uptime_in_seconds:100", "uptime_in_seconds:-3"), "line 5: found '-3'"),
        (info().replace("calls=900", "calls=many"), "found 'many' as calls of cmdstat_get; valid"),
        (info().replace("calls=900,", "calls,"), "found 'calls' in cmdstat_get; valid is name="),
        (info().replace("keys=1000", "keys=1e3"), "found '1e3' as keys of db0"),
        (info().replace("expires=250", "expires=2500"), "an integer from 0 to 1000"),
        (info().replace("used_memory:90000000", ""), "field 'used_memory' is missing"),
        (info(role="slave"), "found role slave in all files"),
        (info() + "> CONFIG GET *\nio-threads\n4\nport", "found 'port' without a value"),
        (info() + "> CONFIG GET *\n* a\n4\n", "found '* a' as the name of a setting"),
        (info() + "> INFO\n" + info().replace("run_id:a", "run_id:b"), "another run_id"),
        (info() + "> INFO\n" + info(uptime=200, gets=3), "calls of get 3, less than 900"),
        (info().replace("calls=900", "calls=0").replace("calls=100", "calls=0"), "no command of"),
    ],
)
def test_a_bad_file_is_one_sentence(text: str, says: str, read: Callable[..., FromInfo]) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    message = str(caught.value)
    assert says in message
    assert "node-1.txt" in message
    assert message.count("valid") == 1


def test_a_damaged_bundle_is_refused_or_read(tmp_path: Path) -> None:
    draw = random.Random(20261125)
    file = tmp_path / "node.txt"
    outcomes = {"read": 0, "refused": 0}
    for number in range(DAMAGES):
        sample = (VALKEY, REDIS)[number % 2].read_text()
        file.write_text(damaged_text(sample, draw), encoding="utf-8")
        try:
            found = read_today([file])
        except InputError as error:
            outcomes["refused"] += 1
            check_sentence(error, file="node.txt")
        else:
            outcomes["read"] += 1
            assert all(math.isfinite(node.rate_rps) for node in found.nodes)
    assert min(outcomes.values()) > 0


_LINES = st.lists(
    st.one_of(
        st.sampled_from(info().splitlines()),
        st.sampled_from(["> INFO ALL", "> CONFIG GET *", "> SLOWLOG GET", "> CLUSTER SLOT-STATS"]),
        st.sampled_from(["> CLUSTER INFO", "> MEMORY DOCTOR", "cpu-usec", "key-count", "7", ""]),
        st.text(max_size=40),
    ),
    max_size=40,
)


@given(lines=_LINES)
def test_any_lines_are_refused_or_read(lines: list[str]) -> None:
    text = "\n".join(lines)
    for reply in replies_of(text, file="node"):
        assert reply.place.line >= 1
        try:
            look_of(reply)
        except InputError as error:
            check_sentence(error, file="node, line ")


@given(whole=st.booleans(), lines=_LINES)
def test_any_file_is_refused_in_one_sentence_or_read(
    whole: bool, lines: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.txt"
    text = (info() if whole else "") + "\n".join(lines)
    file.write_text(text, encoding="utf-8", errors="replace")
    try:
        found = read_today([file])
    except InputError as error:
        check_sentence(error, file="any.txt")
    else:
        PlanDemand.model_validate(found.demand)
