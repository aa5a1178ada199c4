"""Upgrades of a cluster: what is down for how long, what is lost, and what a full sync takes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.hwprofiles.files import parse
from forecache.models.engines.profile import load_engine
from forecache.models.footprint.saving import SOME_WRITER
from forecache.models.footprint.schema import Strings
from forecache.models.layouts.generations import generation
from forecache.models.over_time.cluster import cluster as cluster_module
from forecache.models.over_time.cluster.cluster import Cluster
from forecache.models.over_time.cluster.failover import FailoverRules, hand_over_s
from forecache.models.over_time.cluster.migration import COMMAND_BYTES, NodeLoad
from forecache.models.over_time.cluster.nodes import ConnectionWork, NodeKind
from forecache.models.over_time.cluster.replacement import backlog_bytes, diskless, unreadable
from forecache.models.over_time.cluster.run import run_to_the_end
from forecache.models.over_time.cluster.schema import ClusterScenario
from forecache.models.over_time.cluster.surrogate import QUANTILES, CapacityError, Surrogate
from forecache.models.over_time.cluster.sync import (
    NodeContent,
    full_sync,
    load_sync_profile,
)
from forecache.models.prediction.uncertainty import Steps
from forecache.sim.errors import InputError

CAPACITY = {"6.2": 100_000.0, "9.1": 200_000.0, "1.6": 100_000.0}
"""Commands a second of a node by version: the new one is twice as fast."""

EXACT = CapacityError(0.8, 1.25, (0.8, 1.0, 1.25), 1e-3)
VALUE_BYTES, KEYS = 1000, 300_000


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """Nodes that need no node model."""

    def node_kind(scenario, *, described=None, **_):
        nodes = described or scenario.cluster
        rps = CAPACITY[nodes.engine_version]
        made = Surrogate(
            capacity_rps=rps,
            main_ps=1e12 / rps,
            loads=(0.02, 0.98),
            latency_ms=((0.1,) * len(QUANTILES),) * 2,
            mean_ms=(0.1, 0.1),
            main_thread=(0.0, 0.02, 0.98, 1.0),
            io_threads=(0.0, 0.0, 0.0, 0.0),
            error=0.0,
        )
        connection = ConnectionWork(50 * 10**6, 0, 10**7, 0, 10)
        kind = NodeKind(nodes.engine_version, made, connection, nodes.maxclients, 511)
        return kind, 1.2e9 if nodes.engine_version == "6.2" else 1e9, 1000.0

    monkeypatch.setattr(cluster_module, "node_kind", node_kind)
    monkeypatch.setattr(cluster_module, "node_capacity_error", lambda *_, **__: EXACT)


def upgraded(
    *, shards=3, replicas=1, rate_rps=60_000, sets=0.01, duration_s=150, cost=None, cache=None,
    nodes=None, clients=None, more=(), **event,
):  # fmt: skip
    mix = {"get": 1 - sets} | ({"set": sets} if sets else {})
    asked = {
        "kind": "cluster",
        "duration_s": duration_s,
        "step_s": 0.25,
        "report_s": 1,
        "cluster": {
            "host": "m7i.large", "engine": "redis", "engine_version": "6.2", "shards": shards,
            "replicas": replicas, "maxclients": 64_000,
        } | (nodes or {}),
        "data": {"keys": KEYS, "value_bytes": VALUE_BYTES},
        "clients": {"pods": 400, "workers_per_pod": 25, "backoff": {"base_s": 0.5}}
        | (clients or {}),
        "demand": {"rate_rps": rate_rps, "mix": mix},
        "events": [
            {
                "event": "upgrade", "at_s": 10, "to": {"engine": "valkey", "engine_version": "9.1"},
                **event,
            },
            *more,
        ],
    }  # fmt: skip
    asked |= {
        name: value for name, value in (("cost", cost), ("cache", cache)) if value is not None
    }
    cluster = Cluster(parse(ClusterScenario, asked, file="test"), seed=1)
    return cluster, run_to_the_end(cluster)


def fact(run, name):
    [found] = [each for each in run.facts if each.name == name]
    return found.value


def series(run, name):
    [found] = [each for each in run.series if each.name == name]
    return found.values


def steps(run):
    [table] = [each for each in run.tables if each.title.startswith("Upgrade: step by step")]
    return [dict(zip([name for name, _ in table.columns], row, strict=True)) for row in table.rows]


def file_bytes(shards=3):
    return KEYS / shards * (16 + VALUE_BYTES + 1 + 1 + 2)


def conserved(cluster):
    state = cluster.nodes.state
    queues = cluster.nodes.connect_queue.waiting + cluster.nodes.request_queue.waiting
    ended = state["answered"] + state["failed"] + state["backing_off"] + queues
    assert np.array_equal(state["offered"], ended)


@pytest.mark.parametrize("method", ["rolling", "blue_green", "in_place"])
@pytest.mark.parametrize("replicas", [0, 1, 2])
@pytest.mark.parametrize("persistence", ["none", "snapshot", "append_only"])
def test_every_way_ends_with_all_nodes_upgraded_and_no_request_lost_or_made_up(
    method, replicas, persistence
):
    cluster, run = upgraded(
        method=method, replicas=replicas, persistence=persistence, shards_at_once=3
    )
    conserved(cluster)
    assert fact(run, "upgrade lasts") > 0
    nodes = cluster.nodes
    serving = nodes.paid & np.array([nodes.is_up(node) for node in range(nodes.count)])
    assert serving.sum() == 3 * (1 + replicas)
    assert {nodes.kind_of(int(node)).name for node in np.flatnonzero(serving)} == {"9.1"}
    assert nodes.traffic[serving].sum() == pytest.approx(1.0)
    assert nodes.traffic[~serving].sum() == 0
    # What versions need for the same data differs.
    assert nodes.data_bytes[serving].sum() == pytest.approx(3e9 * (1 + replicas), rel=0.01)
    full = 3 * CAPACITY["9.1"]
    assert np.nanmax(series(run, "all nodes that serve")) <= full * (1 + 1e-9)
    assert series(run, "all nodes that serve")[-1] == pytest.approx(full)
    assert nodes.occupied == pytest.approx(np.zeros(nodes.count), abs=1e-12)


def test_rolling_takes_one_primary_away_at_a_time_and_for_no_longer_than_it_hands_over():
    cluster, run = upgraded(method="rolling")
    rules = FailoverRules(primaries=3)
    slowest = max(hand_over_s(rules, seed=1 + shard) for shard in range(3))
    assert fact(run, "longest time without a primary") == pytest.approx(slowest)
    assert slowest < 0.15
    assert fact(run, "upgrade without loss") == "yes"
    assert fact(run, "failed") == 0
    handed = [each for each in steps(run) if each["step"] == "hand over"]
    assert len(handed) == 3
    ends = [each["from"] + each["lasts"] for each in handed]
    assert all(a <= b["from"] for a, b in zip(ends, handed[1:], strict=False))
    # Replicas come first: no primary is ever older than one that follows it.
    order = [each["node"] for each in steps(run) if each["step"] == "restart"]
    assert order == [3, 0, 4, 1, 5, 2]
    assert [cluster.slots.primary[shard] for shard in range(3)] == [3, 4, 5]


def test_a_failover_that_others_have_to_find_out_takes_a_node_timeout_and_loses_requests():
    _, run = upgraded(
        method="rolling", failover="on_failure", node_timeout_s=5,
        clients={"retries": 0},
    )  # fmt: skip
    gap_s = fact(run, "longest time without a primary")
    assert 5 < gap_s < 12
    assert fact(run, "upgrade without loss") == "no"
    # Only one shard is away at a time: a third of the requests, three times as long.
    failed = fact(run, "failed during the upgrade") + fact(run, "turned away during the upgrade")
    assert failed <= 3 * gap_s * 60_000 / 3 * 1.1
    assert np.nanmax(series(run, "shards without a primary")) == 1
    lowest = np.nanmin(series(run, "all nodes that serve"))
    assert lowest >= 2 * CAPACITY["6.2"] * 0.5


@pytest.mark.parametrize("persistence", ["snapshot", "append_only"])
def test_in_place_without_a_replica_a_shard_is_down_while_it_saves_restarts_and_loads(persistence):
    rate = 5.0
    _, run = upgraded(
        method="in_place", replicas=0, restart_s=7, persistence=persistence, load_mbyte_per_s=rate,
        disk_mbyte_per_s=10, shards=1, rate_rps=20_000,
    )  # fmt: skip
    loads_s = file_bytes(1) / (rate * 1e6)
    if persistence == "snapshot":
        # Values are compressed, keys of 16 B too short for that.
        saves_s = KEYS * (16 + 0.65 * VALUE_BYTES + 1 + 1 + 2) / 10e6
    else:
        saves_s, loads_s = 0.0, loads_s + 0.5 * KEYS / CAPACITY["9.1"]
    assert fact(run, "longest time without a primary") == pytest.approx(saves_s + 7 + loads_s)
    assert fact(run, "upgrade lasts") == pytest.approx(saves_s + 7 + loads_s)
    assert not [each for each in run.facts if each.name == "keys lost"]
    assert fact(run, "least capacity") == 0


def test_without_persistence_a_node_alone_comes_back_empty_and_reads_miss_until_it_is_filled():
    _, run = upgraded(method="in_place", replicas=0, restart_s=2, sets=0.02)
    assert fact(run, "keys lost") == pytest.approx(KEYS, rel=1e-6)
    assert "persistence is off" in next(
        each.note for each in run.facts if each.name == "upgrade without loss"
    )
    missing = series(run, "reads that miss")
    assert missing[8] in (0.0,) or math.isnan(missing[8])
    assert np.nanmax(missing) > 0.9
    # A shard is filled again from when it is back; the keys are written at random.
    back_s = [12.0, 14.0, 16.0]
    left = [math.exp(-(40.0 - back) * 1200 / KEYS) for back in back_s]
    at = int(np.searchsorted(run.times_s, 40.0))
    assert missing[at] == pytest.approx(np.mean(left), rel=0.02)


def test_a_primary_that_is_back_empty_before_its_replica_takes_over_takes_the_data_with_it():
    soon = upgraded(method="in_place", restart_s=2)[1]
    late = upgraded(method="in_place", restart_s=60, node_timeout_s=5, shards_at_once=3)[1]
    kept = upgraded(method="in_place", restart_s=2, persistence="snapshot")[1]
    assert fact(soon, "keys lost") == KEYS
    for run in (late, kept):
        assert not [each for each in run.facts if each.name == "keys lost"]
    assert fact(late, "longest time without a primary") < 15
    assert [each["step"] for each in steps(late)].count("failover") == 6


@pytest.mark.parametrize("replicas", [0, 1])
def test_blue_green_loses_no_capacity_but_at_the_switch_and_costs_twice_as_much(replicas):
    cluster, run = upgraded(
        method="blue_green", replicas=replicas, switch_s=0.5, keep_s=30, provision_s=10,
        cost={"usd_per_month": 730}, rate_rps=15_000,
    )  # fmt: skip
    can = series(run, "all nodes that serve")
    if replicas:
        assert np.nanmin(can) == pytest.approx(3 * CAPACITY["6.2"])
    assert fact(run, "longest time without a primary") == pytest.approx(0.5)
    assert fact(run, "upgrade without loss") == "yes"
    lasts_s = fact(run, "upgrade lasts")
    count = 3 * (1 + replicas)
    extra_s = lasts_s - 10
    assert fact(run, "nodes beside the old ones") == count
    assert fact(run, "the run costs") == pytest.approx((150 + extra_s) * count / 3600, rel=0.01)
    # Workers open connections to the new nodes.
    assert cluster.nodes.state["connected"][count:].sum() > 10_000
    assert not np.any(cluster.nodes.connections[:count])


def test_the_verdict_is_that_of_the_node_that_is_nearest_to_its_limit():
    quiet, full = (upgraded(rate_rps=rate)[1] for rate in (60_000, 297_000))
    assert fact(quiet, "what remains holds the load") == "yes"
    # A full sync takes main-thread time, which a shard that is 99% busy doesn't have.
    assert fact(full, "what remains holds the load") == "no"
    assert fact(full, "most asked of a node") > 1
    assert 0.2 < fact(quiet, "most asked of a node") < 0.8
    assert EXACT.holds(0.5) == pytest.approx(1.0)
    assert EXACT.holds(2.0) == pytest.approx(0.0)
    assert EXACT.holds(1.1) == pytest.approx(1 / 3, abs=0.01)


def test_too_many_changes_overrun_the_buffer_and_the_upgrade_is_given_up():
    _, run = upgraded(sets=0.5, rate_rps=150_000, buffer_mbyte=1, give_up_s=60, method="rolling")
    assert fact(run, "upgrade lasts") is None
    assert fact(run, "upgrade without loss") == "no"
    overrun = [each for each in steps(run) if each["step"] == "full sync: buffer overrun"]
    assert len(overrun) > 3
    assert any("given up" in mark.what for mark in run.marks)
    # All primaries are still there.
    assert fact(run, "longest time without a primary") == 0


def test_a_replica_that_missed_little_needs_no_full_sync():
    _, run = upgraded(persistence="snapshot", backlog_mbyte=100_000)
    assert {"partial sync"} == {each["step"] for each in steps(run) if "sync" in each["step"]}
    _, run = upgraded(persistence="snapshot", backlog_mbyte=0)
    assert {"full sync"} == {each["step"] for each in steps(run) if "sync" in each["step"]}


def test_memcached_restarts_node_by_node_and_the_database_gets_what_was_lost():
    cache = {"database": {"capacity_qps": 1e6}, "hashing": "ketama"}
    nodes = {"engine": "memcached", "engine_version": "1.6"}
    _, run = upgraded(
        nodes=nodes, to={"engine_version": "1.6"}, replicas=0, sets=0.0, cache=cache, restart_s=2,
        rate_rps=3000, duration_s=60,
    )  # fmt: skip
    assert fact(run, "upgrade lasts") == pytest.approx(6.0)
    assert fact(run, "keys lost") == pytest.approx(KEYS, rel=1e-5)
    hits = series(run, "hit rate")
    assert hits[5] == pytest.approx(1.0, abs=0.02)
    assert np.nanmin(hits[17:20]) < 0.2


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({"to": {"engine": "memcached", "engine_version": "1.6"}}, "to.engine"),
        ({"to": {"engine": "valky"}}, "did you mean 'valkey"),
        ({"to": {}}, "engine, engine_version or io_threads"),
        ({"shards_at_once": 0}, "shards_at_once"),
        ({"method": "swap"}, "method"),
    ],
)
def test_what_does_not_fit_is_refused(event, says):
    with pytest.raises(InputError, match=says):
        upgraded(**event)


def test_versions_that_do_not_read_each_others_files():
    def reads(old, new):
        return unreadable(load_engine(*old), load_engine(*new)) is None

    assert reads(("redis", "6.2"), ("valkey", "9.1"))
    assert reads(("redis", "7.2"), ("valkey", "7.2"))
    assert reads(("valkey", "8.1"), ("valkey", "7.2"))
    assert reads(("redis", "7.4"), ("redis", "8.6"))
    assert not reads(("redis", "7.4"), ("valkey", "9.1"))
    assert not reads(("redis", "8.6"), ("redis", "7.4"))
    assert not reads(("redis", "7.2"), ("redis", "6.2"))
    assert not reads(("valkey", "9.0"), ("valkey", "8.1"))
    assert not reads(("valkey", "9.0"), ("redis", "8.6"))
    assert diskless(load_engine("redis", "7.0"))
    assert not diskless(load_engine("redis", "6.2"))
    assert backlog_bytes(load_engine("valkey", "8.0")) == 10 * backlog_bytes(
        load_engine("redis", "7.2")
    )


WORK = load_sync_profile("valkey").on(15.4)


def held(keys, value_bytes):
    strings = Strings(type="string", keys=0, key_bytes=16, value_bytes=value_bytes)
    return NodeContent(keys=keys, strings=strings)


def saving_s(content):
    return content.save_s(generation("valkey", "9.1"), data_bytes=1e9, writer=SOME_WRITER)


@settings(max_examples=60, deadline=None)
@given(
    keys=st.floats(1, 1e8), size=st.floats(1, 1e5), busy=st.floats(0, 1),
    writes=st.floats(0, 1e5), bytes_per_s=st.floats(1e6, 1e10), straight=st.booleans(),
)  # fmt: skip
def test_a_full_sync_takes_no_less_than_its_parts(keys, size, busy, writes, bytes_per_s, straight):
    content = held(keys, round(size))
    source = NodeLoad(busy=busy, waiting_s=0.01, writes_per_s=writes, write_bytes=size)
    asked = {
        "content": content, "data_bytes": keys * size, "bytes_per_s": bytes_per_s,
        "diskless": straight, "apply_s": 5e-6, "saving_s": saving_s(content),
    }  # fmt: skip
    sync = full_sync(WORK, source=source, **asked)
    assert sync.snapshot_s * bytes_per_s >= content.file_bytes * (1 - 1e-9)
    assert sync.snapshot_s >= saving_s(content) * (1 - 1e-9)
    assert sync.load_s == pytest.approx(WORK.load_s(content))
    assert 0 <= sync.source_share <= 1
    assert sync.duration_s >= sync.fork_s + sync.snapshot_s + sync.load_s + sync.changes_s - 1e-6
    assert math.isfinite(sync.duration_s) == (sync.outcome == "synchronised")
    busier = full_sync(WORK, source=replace(source, busy=1.0), **asked)
    assert busier.snapshot_s >= sync.snapshot_s * (1 - 1e-9)
    # Written first and sent then takes at least as long.
    other = full_sync(WORK, source=source, **{**asked, "diskless": False})
    assert other.snapshot_s >= sync.snapshot_s * (1 - 1e-9)


def test_the_soft_limit_of_the_buffer_counts_for_a_minute():
    content = held(1e7, 1000)
    asked = {
        "content": content, "data_bytes": 1e10, "bytes_per_s": 1e8, "diskless": True,
        "apply_s": 1e-6, "saving_s": saving_s(content),
    }  # fmt: skip
    held_s = full_sync(WORK, **asked).duration_s - 5.0
    # As many as fill 64 MiB a minute before the end.
    most = (64 << 20) / (held_s - 60.0) / (1000 + COMMAND_BYTES)
    for factor, outcome in ((0.97, "synchronised"), (1.1, "buffer overrun")):
        source = NodeLoad(writes_per_s=most * factor, write_bytes=1000.0)
        assert full_sync(WORK, source=source, **asked).outcome == outcome


# --- intervals ---------------------------------------------------------------------------------


def estimate(run, name):
    [found] = [each for each in run.facts if each.name == name]
    return found


def test_an_upgrade_is_as_uncertain_as_its_full_syncs():
    _, run = upgraded(method="rolling", sync_delay_s=0.0, restart_s=5.0)
    lasts = estimate(run, "upgrade lasts")
    [table] = [each for each in run.tables if each.title.endswith("how long its steps last")]
    rows = {row[0]: row[-3:] for row in table.rows}
    assert rows["restart"][1:] == [None, None]
    together, low, high = rows["full sync"]
    assert low < together < high
    # One shard after the other, so that nothing else goes on meanwhile.
    assert lasts.value - lasts.low == pytest.approx(together - low, rel=0.01)
    assert lasts.high - lasts.value == pytest.approx(high - together, rel=0.01)


def test_a_restart_without_data_is_not_uncertain():
    _, run = upgraded(method="in_place", replicas=0, persistence="none")
    gap = estimate(run, "longest time without a primary")
    assert gap.low == gap.value == gap.high


def test_a_time_without_a_primary_is_as_uncertain_as_what_it_loads():
    _, run = upgraded(method="in_place", replicas=0, persistence="snapshot", shards_at_once=3)
    gap = estimate(run, "longest time without a primary")
    own = [each for each in steps(run) if each["shard"] == 0]
    uncertain = sum(each["lasts"] for each in own if each["step"] in ("save", "load"))
    assert 0 < gap.value - gap.low < uncertain
    # Where the rate of a load was measured, a save is all that is uncertain.
    _, known = upgraded(
        method="in_place", replicas=0, persistence="snapshot", shards_at_once=3,
        load_mbyte_per_s=200.0,
    )  # fmt: skip
    [table] = [each for each in known.tables if each.title.endswith("how long its steps last")]
    rows = {row[0]: row[-2:] for row in table.rows}
    assert rows["load"] == [None, None]
    assert rows["save"][0] < rows["save"][1]


def test_capacity_has_the_interval_of_the_node_that_is_asked_for_most():
    _, run = upgraded(method="rolling")
    least, asked = estimate(run, "least capacity"), estimate(run, "most asked of a node")
    assert (least.low / least.value, least.high / least.value) == pytest.approx((0.8, 1.25))
    assert (asked.low / asked.value, asked.high / asked.value) == pytest.approx((0.8, 1.25))


def test_a_sync_that_may_overrun_its_buffer_leaves_an_upgrade_without_a_bound():
    def with_buffer(mbyte):
        _, run = upgraded(
            method="rolling", sets=0.1, rate_rps=30_000, buffer_mbyte=mbyte, sync_delay_s=0.0,
            give_up_s=60.0,
        )  # fmt: skip
        told = [each for each in run.warnings if "draws" in each]
        return estimate(run, "upgrade lasts"), told

    enough, nothing_told = with_buffer(256.0)
    assert math.isfinite(enough.high)
    assert nothing_told == []
    scarce, [told] = with_buffer(2.0)
    assert scarce.value == enough.value
    assert scarce.high == math.inf
    assert scarce.to_dict()["high"] is None
    assert "a full sync does not end with up to" in told
    given_up, [told] = with_buffer(1.5)
    assert given_up.value is given_up.low is None
    assert "a full sync that failed here ends with up to" in told


def test_work_that_is_off_by_nothing_is_the_nominal_one():
    for engine in ("redis", "valkey"):
        profile = load_sync_profile(engine)
        assert vars(profile.on(9.0, draw=Steps())) == pytest.approx(vars(profile.on(9.0)))


def test_a_draw_of_the_measured_hosts_rate_moves_all_cpu_times_and_no_wait():
    profile = load_sync_profile("redis")
    usual, faster = (profile.on(9.0, draw=Steps({"measured host.rate": z})) for z in (0.0, 1.96))
    # What a faster host took for the same takes longer elsewhere.
    factor = profile.rate_per_ns.high / profile.rate_per_ns.best
    assert faster.relay_ns_per_byte == pytest.approx(factor * usual.relay_ns_per_byte, rel=1e-3)
    assert faster.load_key_ns == pytest.approx(factor * usual.load_key_ns, rel=1e-3)
    assert faster.wait_ms == usual.wait_ms
