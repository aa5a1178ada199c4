"""Append-only file, replicas and snapshots: what they cost, and who waits for them."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.node import layout as at
from forecache.models.node.policies import under_policy
from forecache.models.node.setup import DRAWS
from forecache.models.node.simulate import run_compiled
from forecache.models.prediction.simulation import run, times_of
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import expand
from forecache.models.step_times.inputs import (
    DISK_RANGES,
    FILE_BYTE_NS,
    DiskTimes,
    NodeInputs,
)
from forecache.models.step_times.persistence import (
    check_persistence,
    copied_pages_per_write,
    stalls_of,
)
from forecache.sim.errors import InputError
from verification.nodes.sample_node import SET, sample_setup, sample_times

SPEED = load_host("graviton3-c7g.4xlarge").speed()
LOG = 100_000
FLUSH_PS = 400_000_000
KEEPS_REPLIES = ["single_thread", "fork_join", "asynchronous", "shared_queues"]


def scenario(persistence: Any = "none", replicas: int = 0, **other: Any) -> Scenario:
    data = {"host": "graviton3", "engine": "valkey", "persistence": persistence}
    workload = {"clients": 50, "keys": 1_000_000, **other.pop("workload", {})}
    [case] = expand(
        {**data, "replicas": replicas, "workload": workload, **other}, file="test", schema=Scenario
    )
    return case.scenario


def inputs(case: Scenario, engine_id: str = "valkey-8.0") -> NodeInputs:
    engine = load_engine(engine_id)
    generator = load_generator("memtier-benchmark").generator_work()
    return NodeInputs(case, engine, engine.engine_work(), SPEED, generator, SPEED)


def node_of(policy: str, **changes: Any) -> at.Node:
    times = sample_times(
        code_by_draw=np.full(DRAWS, SET, np.int64),
        logged_bytes_by_code=np.array([0, 100]),
        flush_ps=FLUSH_PS,
    )
    setup = sample_setup(
        **{
            "io_threads": 1 if policy == "single_thread" else 3,
            "clients": 30,
            "events_per_io_thread": 0,
            "end_ps": 50 * 10**9,
            "initial_active": 3 if policy == "shared_queues" else 1,
            **changes,
        }
    )
    node = at.new_node(times, under_policy(policy, setup), log_completions=LOG)
    run_compiled(policy, node)
    return node


@pytest.mark.parametrize("policy", KEEPS_REPLIES)
def test_one_flush_serves_all_writes_of_a_turn(policy: str) -> None:
    node = node_of(policy, fsync_always=1)
    flushes, done = node.counter("flushes"), node.counter("completions")
    # Flushes follow each other closely, and clients gather meanwhile: a group commit.
    assert flushes * FLUSH_PS == pytest.approx(50 * 10**9, rel=0.1)
    assert done > 5 * flushes


@pytest.mark.parametrize("policy", KEEPS_REPLIES)
def test_no_reply_overtakes_the_file(policy: str) -> None:
    node = node_of(policy, fsync_always=1, clients=1, generators=1)
    assert node.counter("completions") == pytest.approx(node.counter("flushes"), abs=2)
    assert node.latency().quantile(0.0) >= FLUSH_PS * 0.99


def test_with_everysec_replies_overtake_it() -> None:
    # I/O threads send them while the main thread is still writing to the file.
    always, everysec = (
        node_of("asynchronous", fsync_always=f, clients=8, generators=1) for f in (1, 0)
    )
    assert everysec.latency().quantile(0.5) < always.latency().quantile(0.5)


def test_writes_of_replicas_take_bandwidth() -> None:
    def sent(replicas: int) -> float:
        node = node_of("single_thread", replicas=replicas)
        return node.counter("wire_bytes_out") / node.counter("completions")

    assert sent(3) - sent(0) == pytest.approx(300, rel=0.02)


def test_reads_are_not_logged() -> None:
    workload = {"mix": {"get": 0.5, "set": 0.5}}
    plain = times_of(inputs(scenario(workload=workload)))
    kept = times_of(inputs(scenario({"aof": "everysec"}, 2, workload=workload)))
    added = kept.execute_by_code_ps - plain.execute_by_code_ps
    assert added[0] == 0 < added[1]
    assert kept.logged_bytes_by_code.tolist() == [0, plain.request_bytes_by_code[1]]
    assert plain.flush_ps == 0 < kept.flush_ps


def test_an_fsync_that_is_waited_for_limits_throughput() -> None:
    workload = {"command": "set", "clients": 1}
    rates = {
        fsync_ms: run(
            inputs(scenario({"aof": "always", "fsync_ms": fsync_ms}, workload=workload)),
            requests=2000,
            seed=1,
        ).throughput_rps
        for fsync_ms in (1.0, 2.0)
    }
    # One request at a time: a millisecond more each.
    assert 1000 / rates[2.0] - 1000 / rates[1.0] == pytest.approx(1.0, rel=0.02)


def test_replicas_cost_the_main_thread_less_where_io_threads_write_to_them() -> None:
    def flush_ps(engine_id: str, io_threads: int) -> int:
        case = scenario(replicas=2, io_threads=io_threads)
        return times_of(inputs(case, engine_id)).flush_ps

    assert flush_ps("valkey-8.1", 4) < flush_ps("valkey-8.0", 4) / 3
    assert flush_ps("valkey-8.1", 1) > flush_ps("valkey-8.1", 4)


def test_a_fork_stops_the_main_thread_for_its_page_tables() -> None:
    case = scenario({"snapshot": {"every_s": 60, "child_s": 10}})
    kept = inputs(case)
    [stall] = stalls_of(kept)
    # 13 ms a GiB on a physical machine, 19 were published for a Graviton3.
    assert 13.0 < stall.duration_ms / (kept.resident_bytes / 2**30) < 24.0
    slow = replace(kept, speed=replace(kept.speed, dram_ns=4.0 * kept.speed.dram_ns))
    [longer] = stalls_of(slow)
    assert 3.0 < longer.duration_ms / stall.duration_ms <= 4.0
    assert stalls_of(inputs(scenario())) == []
    times = times_of(kept)
    assert times.rare_below_by_code[-1] > 0


def test_each_page_is_copied_once_at_most() -> None:
    found = [
        copied_pages_per_write(2**30, writes_per_s=rate, child_s=10.0, every_s=100.0)
        for rate in (10.0, 1e4, 1e7)
    ]
    # Few writes copy a page each time, in a tenth of the time; many copy all pages in the end.
    assert found[0] == pytest.approx(3.0 * 0.1, rel=0.01)
    assert found[2] == pytest.approx(2**30 / 4096 / (1e7 * 100.0), rel=0.01)
    assert found[0] > found[1] > found[2]
    # Simulated writes to random pages.
    pages, writes = 2000, 1500
    drawn = np.random.default_rng(1).integers(0, pages, 3 * writes)
    copied = copied_pages_per_write(pages * 4096, writes_per_s=writes, child_s=1.0, every_s=1.0)
    assert copied * writes == pytest.approx(len(set(drawn.tolist())), rel=0.02)
    assert copied_pages_per_write(0.0, writes_per_s=1.0, child_s=1.0, every_s=1.0) == 0.0
    assert math.isfinite(found[1])


@pytest.mark.parametrize(
    ("persistence", "words"),
    [
        ("sometimes", ["none"]),
        ({}, ["aof, snapshot or both"]),
        ({"aof": "always"}, ["fsync_ms with aof always"]),
        ({"aof": "everysec", "fsync_ms": 1.0}, ["fsync_ms with aof always"]),
        ({"aof": "weekly"}, ["aof", "weekly"]),
        ({"snapshot": {"every_s": 10, "child_s": 20}}, ["child_s not above every_s"]),
    ],
)
def test_mistakes_are_named(persistence: Any, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        scenario(persistence)
    assert all(word in str(error.value) for word in ["persistence", *words]), error.value


def test_what_is_not_modelled_is_refused() -> None:
    redis, uncounted = load_engine("elasticache-redis-7.1"), load_engine("valkey-8.1")
    uncounted = uncounted.model_copy(update={"commands": {}})
    always = scenario({"aof": "always", "fsync_ms": 1.0}, io_threads=4)
    with pytest.raises(InputError, match="persistence"):
        check_persistence(always, redis)
    with pytest.raises(InputError, match=r"'replicas': found 1; .* was not counted"):
        check_persistence(scenario(replicas=1), uncounted)
    with pytest.raises(InputError, match=r"'persistence\.aof': found 'everysec'; valid with"):
        check_persistence(scenario({"aof": "everysec"}), uncounted)
    check_persistence(scenario({"snapshot": {"every_s": 60, "child_s": 10}}), uncounted)


def test_what_is_assumed_of_the_disk_is_drawn_and_nothing_else_moves_with_it() -> None:
    system = System(
        load_host("graviton3-c7g.4xlarge"),
        load_engine("valkey-8.0"),
        load_generator("memtier-benchmark"),
    )
    kept = scenario({"aof": "everysec", "snapshot": {"every_s": 60, "child_s": 10}})
    assert system.inputs(kept).disk == DiskTimes()
    drawn = [system.inputs(kept, draw=draw) for draw in range(200)]
    for name, (low, value, high) in DISK_RANGES.items():
        found = np.array([getattr(each.disk, name) for each in drawn])
        assert np.median(found) == pytest.approx(value, rel=0.15)
        assert 0.89 <= np.mean((found > low) & (found < high)) <= 0.99
    # The same numbers as without a file.
    assert replace(drawn[3], scenario=scenario()) == system.inputs(scenario(), draw=3)


def test_bytes_of_the_file_take_time_of_their_own() -> None:
    """What a kilobyte takes beyond a small value: in the file, and beside it."""
    without, kept = (
        [times_of(inputs(scenario(kept, workload={"value_bytes": size}))) for size in (24, 1024)]
        for kept in ("none", {"aof": "everysec"})
    )
    added_ps = [
        int(after.execute_by_code_ps[1] - before.execute_by_code_ps[1])
        for before, after in zip(without, kept, strict=True)
    ]
    assert 1.0 <= (added_ps[1] - added_ps[0]) / (1000 * FILE_BYTE_NS * 1000) < 1.5


def test_a_dearer_disk_costs_more_of_each_kind() -> None:
    kept = inputs(scenario({"aof": "everysec", "snapshot": {"every_s": 60, "child_s": 10}}))
    dear = replace(kept, disk=DiskTimes(4000.0, 1.0, 3000.0, 5.0))
    [fork], [longer] = stalls_of(kept), stalls_of(dear)
    assert longer.duration_ms == pytest.approx(2.0 * fork.duration_ms)
    before, after = times_of(kept), times_of(dear)
    assert after.flush_ps - before.flush_ps == 3_550_000
    assert after.execute_by_code_ps[1] > before.execute_by_code_ps[1]
    assert after.execute_by_code_ps[0] == before.execute_by_code_ps[0]
