"""What nodes execute that is not modelled: how much is told, and that no number is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache import cli
from forecache.calibration.today import answer as module
from forecache.calibration.today.answer import today
from forecache.calibration.today.commands import operation_counts
from forecache.calibration.today.data import Notes, _tell_of_types
from forecache.calibration.today.demand import read_today
from forecache.calibration.today.keys import KeyGroup, Keyspace
from forecache.models.engines.commands import command_kinds
from forecache.models.plan.results import CapacityLimit, FromInfo, NodeHeadroom, TodayAnswer
from forecache.models.plan.schema import PlanDemand
from forecache.models.scenario.schema import Scenario
from forecache.sim.errors import NotKnownError
from forecache.sim.statistics import Estimate
from tests.models.conftest import short_runs as short_runs

ROOT = Path(__file__).parents[3]
BILL = ROOT / "examples" / "bill"

INFO = """\
# Server
redis_version:6.2.11
run_id:{run_id}
uptime_in_seconds:100
# Clients
connected_clients:12
# Memory
used_memory:90000000
# Stats
total_commands_processed:10000
instantaneous_ops_per_sec:90
total_net_input_bytes:1000000
total_net_output_bytes:1000000
keyspace_hits:5000
keyspace_misses:0
# Replication
role:master
connected_slaves:0
# Commandstats
{commands}
# Cluster
cluster_enabled:0
# Keyspace
db0:keys=1000,expires=0,avg_ttl=0
"""

Reads = Callable[..., FromInfo]


def info(run_id: str = "a", **commands: tuple[int, int]) -> str:
    """INFO of a node that ran each command so often, for so many microseconds in all."""
    lines = [f"cmdstat_{n}:calls={calls},usec={us}" for n, (calls, us) in commands.items()]
    return INFO.format(run_id=run_id, commands="\n".join(lines))


@pytest.fixture
def read(tmp_path: Path) -> Reads:
    def reads(*texts: str) -> FromInfo:
        files = []
        for number, text in enumerate(texts, start=1):
            files.append(tmp_path / f"node-{number}.txt")
            files[-1].write_text(text)
        return read_today(files)

    return reads


def share(found: FromInfo) -> float:
    return sum(found.not_modelled.values())


GETS = (1000, 2000)


# --- how much is not modelled ---------------------------------------------------------------------


def test_commands_that_count_as_get_are_not_modelled(read: Reads) -> None:
    found = read(info(get=GETS, sort=(500, 6000), sunion=(100, 2000), config=(9, 10**6)))
    assert found.not_modelled == {"sort": 0.6, "sunion": 0.2}  # CONFIG is no demand
    said = found.needed["demand.operations"]
    assert "80% of the execution time is not modelled (SORT 60%, SUNION 20%)" in said
    assert "demand.operations" in said


def test_a_fifth_is_not_too_much(read: Reads) -> None:
    assert not read(info(get=(1000, 8000), sort=(10, 2000))).needed
    assert read(info(get=(1000, 8000), sort=(10, 2001))).needed


@given(get_us=st.integers(1, 100), each_us=st.integers(1, 900), calls=st.integers(1, 10**6))
def test_what_takes_as_long_as_a_set_is_modelled_as_one(
    get_us: int, each_us: int, calls: int
) -> None:
    counts = {"set": (1000.0, 1000.0 * get_us), "copy": (float(calls), float(calls * each_us))}
    beyond = operation_counts(counts).not_modelled_us.get("copy", 0.0)
    assert beyond == pytest.approx(calls * max(0, each_us - get_us))


def test_without_a_get_or_set_nothing_tells_what_one_takes(read: Reads) -> None:
    assert share(read(info(copy=(5000, 5000)))) == 1.0
    # One call is too few.
    assert share(read(info(copy=(5000, 5000), get=(1, 30)))) > 0.99
    assert share(read(info(copy=(5000, 5000), get=(200, 400)))) == 0.0


def test_keys_of_an_mget_that_are_assumed(read: Reads) -> None:
    # Only GET and MGET: hits tell the keys. Beside much else 10 are taken, 20 us of GETs.
    known = read(info(get=GETS, mget=(100, 90_000)))
    assert known.demand["operations"]["mget"]["keys"] == 40
    assert share(known) == 0.0
    others = read(info(get=GETS, mget=(100, 90_000), copy=(1000, 2000)))
    assert others.demand["operations"]["mget"]["keys"] == 10
    assert others.not_modelled["mget"] == pytest.approx((90_000 - 100 * 10 * 2) / 94_000)


def test_what_is_too_rare_or_left_out_is_not_modelled(read: Reads) -> None:
    rare = read(info(get=(100_000, 100_000), mset=(10, 9_000)))
    assert "mset" not in rare.demand["operations"]
    assert rare.not_modelled["mset"] == pytest.approx(9 / 109)
    slow = read(info(get=(10, 20), keys=(10, 20_000)))
    assert "slow_command" not in slow.demand  # 0.02% of the time: no p99 sees it
    assert slow.needed


def test_a_slow_command_is_modelled(read: Reads) -> None:
    found = read(info(get=GETS, sunion=(100, 3 * 10**6)))
    assert found.demand["slow_command"]["duration_ms"] == 30.0
    assert not found.needed


def test_a_server_that_counts_no_time_tells_calls(read: Reads) -> None:
    found = read(info(get=(700, 0), sort=(300, 0)))
    assert found.not_modelled == {"sort": 0.3}
    assert "30% of the commands is not modelled" in found.needed["demand.operations"]


def test_the_primary_with_most_of_it_decides(read: Reads) -> None:
    usual = [info(run_id, get=(100_000, 200_000)) for run_id in "abcd"]
    found = read(*usual, info("e", get=GETS, sort=(500, 8000)))
    assert found.not_modelled == {"sort": 0.8}
    assert "node-5" in found.needed["demand.operations"]


def test_items_of_ranges_are_those_with_which_replies_are_what_was_sent(read: Reads) -> None:
    text = info(get=GETS, lrange=(500, 6000), smembers=(100, 2000))
    text = text.replace("used_memory:90000000", "used_memory:2000000")
    text = text.replace("output_bytes:1000000", "output_bytes:3000000")
    found = read(text)
    assert not found.not_modelled
    demand = PlanDemand.model_validate(found.demand)
    elements = found.demand["operations"]["lrange"]["elements"]
    assert demand.sets is not None
    assert demand.sets.members == elements
    # Keys are as many of all as operations are on them.
    assert (demand.lists and demand.lists.keys, demand.sets.keys) == (312, 62)
    kinds = command_kinds(
        Scenario(host="c7g.large", engine="redis", workload=demand.workload(rate_rps=100))
    )
    sent = sum(kind.share * kind.reply_bytes for kind in kinds) * 1600
    assert sent == pytest.approx(3_000_000, rel=0.01)
    assert any("how many items LRANGE, SMEMBERS return" in each for each in found.unknown)


# --- no number is made of it ----------------------------------------------------------------------

UNKNOWN = info(get=GETS, sort=(500, 38_000))


@pytest.mark.usefixtures("short_runs")
def test_neither_ceiling_nor_export_and_exit_code_eight(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node, exported = tmp_path / "node.txt", tmp_path / "ceiling.prom"
    node.write_text(UNKNOWN)
    exported.write_text("forecache_node_headroom_ratio 0.99\n")  # of an earlier time
    arguments = ["plan", "--from-info", str(node), "--host", "r7g.large", "-q"]
    assert cli.main([*arguments, "--no-search", "--ceiling", str(exported)]) == 8
    said = capsys.readouterr()
    assert "left" not in said.out
    assert "A node meets" not in said.out
    assert "Not modelled, of the execution time: SORT 95%" in said.out
    assert "95% of the execution time is not modelled" in said.err
    assert not exported.exists()
    # Nor a plan, though nothing says what the nodes run on.
    assert cli.main(["plan", "--from-info", str(node), "-q", "--json"]) == 8
    answer = json.loads(capsys.readouterr().out)
    assert "plans" not in answer
    assert answer["ceiling"] is None
    assert answer["from_info"]["not_modelled"] == {"sort": 0.95}


def test_a_scenario_that_says_the_operations_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "node.txt"
    node.write_text(UNKNOWN)
    monkeypatch.setattr(module, "_ceiling", lambda *_, **__: (None, None))
    asked = {"kind": "plan", "demand": {"operations": {"get": 10, "set": 5}}}
    answer = today([node], asked, search=False)
    assert isinstance(answer, TodayAnswer)
    assert not answer.from_info.needed
    with pytest.raises(NotKnownError) as caught:
        today([node], {"kind": "plan", "demand": {"growth_per_year": 0.5}}, search=False)
    assert isinstance(caught.value.result, TodayAnswer)


@pytest.mark.usefixtures("short_runs")
def test_what_nodes_measured_stands_for_what_is_not_modelled(tmp_path: Path) -> None:
    node = tmp_path / "node.txt"
    # A thousand times as much in the same time: enough for its times to tell what they take.
    node.write_text(info(get=(1000 * GETS[0], 1000 * GETS[1]), sort=(500_000, 38_000_000)))
    answer = today([node], host="r7g.large", search=False)
    assert isinstance(answer, TodayAnswer)
    assert answer.ceiling is not None
    assert answer.ceiling.corrected
    assert not answer.from_info.needed
    assert "SORT" in answer.from_info.unknown[-1]


# --- relatives: metrics and memory ----------------------------------------------------------------


def metrics(tmp_path: Path, *, busy: float | None) -> Path:
    """The example's metrics with an EngineCPUUtilization that is so many times as high."""
    rows = [line.split(",") for line in (BILL / "metrics.csv").read_text().splitlines()]
    at = next(i for i, name in enumerate(rows[0]) if name.startswith("EngineCPUUtilization"))
    for row in rows:
        if busy is None:
            del row[at]
        elif row is not rows[0]:
            row[at] = str(float(row[at]) * busy)
    file = tmp_path / "metrics.csv"
    file.write_text("\n".join(map(",".join, rows)) + "\n")
    return file


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is predicted to be 25% busy, 35% at most, with 52,000 operations a second."""

    def ceiling(*_: object, **__: object) -> tuple[CapacityLimit, None]:
        nodes = [NodeHeadroom(name, 52_000.0, 0.9) for name in ("a", "b")]
        found = CapacityLimit(
            *("r6g.xlarge", "elasticache-redis", "7.1", 4, {"p99_ms": 1.0}),
            *(Estimate(5e5, 4e5, 6e5), 5e5, "main thread", nodes, []),
            main_thread_busy=Estimate(0.25, 0.18, 0.35),
        )
        return found, None

    monkeypatch.setattr(module, "_ceiling", ceiling)


@pytest.mark.usefixtures("predicted")
def test_a_thread_that_is_far_busier_than_gets_and_sets_make_it(tmp_path: Path) -> None:
    export = BILL / "export.csv"
    usual = today([], bill=[export, metrics(tmp_path, busy=1.0)], search=False)
    assert isinstance(usual, TodayAnswer)
    assert usual.ceiling is not None
    assert usual.from_info.nodes[0].main_thread_busy == pytest.approx(0.29, abs=0.01)
    with pytest.raises(NotKnownError, match="of which GET and SET explain 36% at most"):
        today([], bill=[export, metrics(tmp_path, busy=2.5)], search=False)


@pytest.mark.usefixtures("predicted")
def test_metrics_without_the_threads_load_tell_no_capacity(tmp_path: Path) -> None:
    with pytest.raises(NotKnownError, match="found no EngineCPUUtilization of orders-0001-001"):
        today([], bill=[BILL / "export.csv", metrics(tmp_path, busy=None)], search=False)


@pytest.mark.parametrize(("modules", "needed"), [(10.0, False), (600.0, True)])
def test_memory_of_modules_is_not_made_up(modules: float, needed: bool) -> None:
    notes = Notes()
    groups = [
        KeyGroup("string", 1000, 16_000, 1000, 1_000_000),
        KeyGroup("module", modules, 0, modules, 1000 * modules),
    ]
    _tell_of_types(Keyspace(groups, "RDB"), notes)
    assert ("demand.data" in notes.needed) == needed
