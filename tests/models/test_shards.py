"""Shards of a cluster over time: resizing, failing, hot keys; where keys and requests go."""

from dataclasses import replace

import numpy as np
import pytest

from evidence.articles.used_memory import used_memory_bytes
from forecache.hwprofiles.files import parse
from forecache.models.footprint.schema import Strings
from forecache.models.over_time.cluster import cluster as cluster_module
from forecache.models.over_time.cluster.cluster import Cluster
from forecache.models.over_time.cluster.migration import load_migration_profile
from forecache.models.over_time.cluster.moving import LOOK_S
from forecache.models.over_time.cluster.nodes import ConnectionWork, NodeKind
from forecache.models.over_time.cluster.outage import failing_nodes
from forecache.models.over_time.cluster.run import run_to_the_end
from forecache.models.over_time.cluster.schema import ClusterScenario
from forecache.models.over_time.cluster.slots import SLOTS
from forecache.models.over_time.cluster.surrogate import QUANTILES, Surrogate
from forecache.models.over_time.simulate_scenario import simulate
from forecache.sim.errors import InputError

MADE = Surrogate(
    capacity_rps=100_000.0,
    main_ps=1e7,
    loads=(0.02, 0.98),
    latency_ms=((0.1,) * len(QUANTILES),) * 2,
    mean_ms=(0.1, 0.1),
    main_thread=(0.0, 0.02, 0.98, 1.0),
    io_threads=(0.0, 0.0, 0.0, 0.0),
    error=0.0,
)
"""A node that takes 10 µs for a command."""


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """Nodes of 100,000 commands a second that need no node model."""

    def node_kind(scenario, **_):
        nodes = scenario.cluster
        connection = ConnectionWork(50 * 10**6, 0, 10**7, 0, 10)
        kind = NodeKind("made", MADE, connection, nodes.maxclients, nodes.tcp_backlog)
        return kind, 4e9, 1000.0

    monkeypatch.setattr(cluster_module, "node_kind", node_kind)


def scenario(
    events, *, shards=3, replicas=1, rate_rps=20_000, duration_s=400, data=None, **clients
):
    return {
        "kind": "cluster",
        "duration_s": duration_s,
        "step_s": 0.5,
        "cluster": {
            "host": "m7i.large", "engine": "redis", "engine_version": "7.2", "shards": shards,
            "replicas": replicas, "maxclients": 64_000,
        },
        "data": {"keys": 3_000_000, "value_bytes": 1024} | (data or {}),
        "clients": {"pods": 40, "workers_per_pod": 25} | clients,
        "demand": {"rate_rps": rate_rps, "mix": {"get": 0.75, "set": 0.25}},
        "events": events,
    }  # fmt: skip


def ran(asked):
    cluster = Cluster(parse(ClusterScenario, asked, file="test"), seed=1)
    return cluster, run_to_the_end(cluster), cluster.slots


def fact(run, name):
    [found] = [each for each in run.facts if each.name == name]
    return found


@pytest.mark.parametrize("method", ["atomic", "key_by_key"])
@pytest.mark.parametrize(("before", "after"), [(3, 5), (5, 3), (2, 2)])
def test_after_a_resize_slots_keys_and_requests_are_spread_evenly(method, before, after):
    event = {"event": "resize", "at_s": 5, "shards": after, "method": method}
    cluster, run, slots = ran(scenario([event], shards=before))
    counts = np.bincount(slots.owners, minlength=max(before, after))
    assert counts.sum() == SLOTS
    assert np.all(counts[after:] == 0)
    assert counts[:after].max() - counts[:after].min() <= 1
    assert slots.keys.sum() == pytest.approx(3_000_000)
    assert cluster.nodes.traffic.sum() == pytest.approx(1.0)
    used = cluster.nodes.traffic[cluster.nodes.traffic > 0]
    assert len(used) == after
    assert used == pytest.approx(1 / after, rel=0.05)
    moved = fact(run, f"resize to {after} shards")
    share = abs(after - before) / max(after, before)
    assert moved.note == f"{int(moved.note.split()[0])} slots moved"
    assert int(moved.note.split()[0]) == pytest.approx(share * SLOTS, abs=5)
    assert moved.value > 0


def test_two_resizes_to_as_many_shards_are_two_series():
    again = [{"event": "resize", "at_s": at_s, "shards": 4, "method": "atomic"} for at_s in (5, 40)]
    _, run, _ = ran(scenario(again))
    moved = [series for series in run.series if series.name.startswith("slots moved")]
    assert [series.name for series in moved] == [
        "slots moved, resize to 4 shards",
        "slots moved, resize to 4 shards (2)",
    ]
    assert moved[0].values[-1] > 0
    assert moved[1].values[-1] == 0


def test_key_by_key_takes_longer_and_stands_still():
    def lasts(method):
        event = {"event": "resize", "at_s": 5, "shards": 4, "method": method}
        return ran(scenario([event]))[1]

    slow, fast = lasts("key_by_key"), lasts("atomic")
    assert fact(slow, "resize to 4 shards").value > 3 * fact(fast, "resize to 4 shards").value
    assert fact(slow, "longest standstill of a source").value > 0


@pytest.mark.parametrize("method", ["atomic", "key_by_key"])
def test_a_resize_has_an_interval_and_less_of_one_the_more_is_given(method):
    def resized(**more):
        event = {"event": "resize", "at_s": 5, "shards": 4, "method": method, **more}
        return fact(ran(scenario([event]))[1], "resize to 4 shards")

    usual = resized()
    assert 0 < usual.low < usual.value < usual.high
    given = resized(rtt_us=300.0, fsync_ms=1.15)
    assert given.value == usual.value
    if method == "key_by_key":
        # Most of a slot that is moved so is round trips and saves of nodes.conf.
        assert given.high / given.low < 0.9 * usual.high / usual.low
    else:
        # A network that is the limit doesn't depend on how fast threads are.
        slow = resized(network_gbit_per_s=0.05)
        own = load_migration_profile("valkey-atomic").error.half_width
        assert slow.value > 3 * usual.value
        # How long it looks at the load before is certain.
        moves = (slow.high - LOOK_S) / (slow.value - LOOK_S)
        assert moves == pytest.approx(np.exp(own), rel=0.02)


def test_clients_know_the_map_as_much_earlier_or_later_as_slots_move():
    event = {
        "event": "resize", "at_s": 5, "shards": 4, "method": "key_by_key", "clients_follow_s": 20,
    }  # fmt: skip
    _, run, _ = ran(scenario([event]))
    moved, known = fact(run, "resize to 4 shards"), fact(run, "19 of 20 clients know the new map")
    for end in ("low", "value", "high"):
        assert getattr(known, end) == pytest.approx(getattr(moved, end) + 60)
    stands = fact(run, "longest standstill of a source")
    assert 0 < stands.low < stands.value < stands.high


def managed(pods, rate_rps, before, after, duration_s):
    event = {
        "event": "resize", "at_s": 60, "shards": after, "method": "atomic", "provision_s": 60,
        "stream_mbyte_per_s": 14, "slots_per_job": 1100, "clients_follow_s": 300,
    }  # fmt: skip
    asked = scenario(
        [event], shards=before, rate_rps=rate_rps, duration_s=duration_s, pods=pods,
        commands_per_request=10, timeout_s=4, connect_timeout_s=4,
        data={"keys": 4_400_000, "value_bytes": 4096},
    )  # fmt: skip
    _, run, _ = ran(asked | {"step_s": 1.0})
    return run


@pytest.mark.parametrize(
    ("pods", "rate_rps", "before", "after"),
    [(4, 1, 3, 5), (4, 1, 5, 3), (134, 1500, 3, 5), (80, 1500, 5, 3)],
)
def test_a_managed_cluster_is_resized_in_five_minutes_up_to_a_moderate_load(
    pods, rate_rps, before, after
):
    """Without clients, and with 10,000 connections and 15,000 commands a second."""
    run = managed(pods, rate_rps, before, after, 500)
    assert 120 < fact(run, f"resize to {after} shards").value < 300


def test_it_never_finishes_under_a_high_load():
    """32,000 connections and 50,000 commands a second: not within two hours."""
    run = managed(427, 5000, 3, 5, 7400)
    found = fact(run, "resize to 5 shards")
    assert found.value is None
    assert "gave up after 7200 s" in found.note


@pytest.mark.parametrize(
    ("shards", "value_bytes", "fits"), [(3, 10_000, False), (6, 10_000, True), (3, 3_333, True)]
)
def test_twice_the_shards_or_a_third_of_the_bytes_make_data_fit(shards, value_bytes, fits):
    """redis-highmem-medium has 10.4 GB for data; 4 million values of 10 kB are an example."""
    data = [Strings(type="string", keys=4_000_000 // shards, key_bytes=24, value_bytes=value_bytes)]
    used = used_memory_bytes("redis", data, engine_version="7.2", slots=SLOTS // shards)
    assert (used < 10.4e9) == fits


def test_a_shard_is_back_once_its_replica_is_primary():
    event = {"event": "fail", "at_s": 10, "primaries": 1}
    cluster, run, slots = ran(scenario([event], shards=6, duration_s=90))
    back = fact(run, "last replica elected")
    # One clock for everything that happened: the run's.
    [mark] = [mark for mark in run.marks if mark.what == "shard 0 has a primary again"]
    assert back.value == pytest.approx(mark.time_s)
    assert 10 < fact(run, "first primary suspected").value < back.value
    after_s = back.value - 10
    assert f"{after_s:.3g} s after the failure" in back.note
    assert 15 < after_s < 28
    assert slots.primary[0] == 6
    assert cluster.nodes.traffic[0] == 0
    [failed] = [s for s in run.series if s.name == "failed"]
    assert failed.values[run.times_s < 10].sum() == 0
    assert failed.values[(run.times_s > 12) & (run.times_s < 10 + after_s)].sum() > 0
    assert failed.values[run.times_s > 15 + after_s].sum() == 0
    assert cluster.nodes.state["failed"].sum() > 0


def test_without_a_majority_or_a_replica_a_shard_stays_down():
    half = {"event": "fail", "at_s": 10, "primaries": 3}
    _, run, _ = ran(scenario([half], shards=6, duration_s=60))
    assert fact(run, "shards that never get a primary again").value == 3
    assert fact(run, "first node declared failed").value is None
    assert any("all nodes refuse commands" in mark.what for mark in run.marks)
    one = {"event": "fail", "at_s": 10, "primaries": 1}
    _, run, slots = ran(scenario([one], shards=6, replicas=0, duration_s=60))
    assert fact(run, "last replica elected").value is None
    assert fact(run, "clients are served again").value is None
    assert np.sum(slots.owners < 0) == pytest.approx(SLOTS / 6, abs=1)


def test_more_failures_than_primaries_are_refused():
    with pytest.raises(InputError, match=r"primaries': found 7; valid is at most the 6"):
        ran(scenario([{"event": "fail", "at_s": 1, "primaries": 7}], shards=6))


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        ({"primaries": [6]}, "primaries': found 6; valid is one of 0, 1, 2, 3, 4, 5"),
        ({"replicas": [1, 1]}, "replicas': found 1; valid is shards with a replica that runs"),
        ({"nodes": [12]}, "nodes': found 12"),
        ({"machines": 13}, "machines': found 13; valid is at most the 12 machines"),
        ({"zones": [3]}, "zones': found 3; valid is one of 0, 1, 2"),
        ({"primaries": 0}, "found 0; valid is 1 or more"),
        ({"machines": [-1]}, "valid is numbers from 0 on"),
    ],
)
def test_what_can_not_fail_is_refused(fails, says):
    with pytest.raises(InputError) as caught:
        ran(scenario([{"event": "fail", "at_s": 1} | fails], shards=6))
    assert says in str(caught.value)


def failed_nodes(run):
    [table] = [table for table in run.tables if table.title.startswith("Nodes that failed")]
    return {row[0]: row for row in table.rows}


def test_a_machine_takes_all_nodes_on_it():
    """Three machines, each with a primary and the replica of another shard."""
    event = {"event": "fail", "at_s": 10, "machines": [1], "silent": True, "node_timeout_s": 2}
    asked = scenario([event], shards=3, duration_s=40)
    asked["cluster"]["machines"] = 3
    cluster, run, slots = ran(asked)
    lost = failed_nodes(run)
    assert [row[1] for row in lost.values()] == ["primary", "replica"]
    assert {row[3] for row in lost.values()} == {1}
    primary, replica = lost
    assert slots.primary[primary] not in (primary, replica)
    assert run.marks[0].what == "1 of 3 primaries and 1 of 3 replicas fail (machines: 1)"
    # The shard whose replica is gone is served, but nobody could take over from its primary.
    assert slots.replicas(lost[replica][2]) == []
    assert cluster.nodes.traffic.sum() == pytest.approx(1.0)


def test_a_zone_takes_a_third_of_the_nodes_and_no_shard_with_it():
    event = {"event": "fail", "at_s": 10, "zones": 1, "random": True, "node_timeout_s": 2}
    cluster, run, slots = ran(scenario([event], shards=6, duration_s=40))
    assert len(failed_nodes(run)) == 4
    assert fact(run, "shards that never get a primary again").value == 0
    assert all(cluster.nodes.is_up(slots.primary[shard]) for shard in range(6))
    # What is drawn is drawn again by the same seed, and not by all others.
    again = Cluster(parse(ClusterScenario, scenario([event], shards=6), file="test"), seed=1)
    fail = again.scenario.events[0]
    assert sorted(failed_nodes(run)) == failing_nodes(fail, again)
    others = [Cluster(again.scenario, seed=seed) for seed in range(2, 8)]
    assert len({tuple(failing_nodes(fail, other)) for other in others}) > 1


def test_a_replica_that_failed_is_read_from_until_it_is_declared_failed():
    reads = {"event": "replica_reads", "at_s": 1, "share": 0.5}
    event = {"event": "fail", "at_s": 10, "replicas": [0], "node_timeout_s": 4}
    cluster, run, _ = ran(scenario([reads, event], duration_s=40, retries=0))
    declared_s = fact(run, "first node declared failed").value
    assert 14 < declared_s < 18.5
    assert fact(run, "clients are served again").value == declared_s
    failed = next(s.values for s in run.series if s.name == "failed")
    assert failed[(run.times_s > 11) & (run.times_s < declared_s)].min() > 0
    assert failed[run.times_s > declared_s + 1].sum() == 0
    # Half of a third of all commands went there; the primary serves them now.
    assert cluster.nodes.traffic[0] == pytest.approx(1 / 3, rel=0.05)
    assert cluster.nodes.traffic[3] == 0


def test_a_replica_that_failed_before_can_not_take_over():
    first = {"event": "fail", "at_s": 5, "replicas": [2], "node_timeout_s": 2}
    then = {"event": "fail", "at_s": 20, "primaries": [2], "node_timeout_s": 2}
    _, run, slots = ran(scenario([first, then], duration_s=60))
    assert fact(run, "shards that never get a primary again").value == 1
    assert not slots.replicas(2)
    # With another replica that one is elected.
    _, run, slots = ran(scenario([first, then], replicas=2, duration_s=60))
    assert fact(run, "shards that never get a primary again").value == 0
    assert slots.primary[2] == 8  # 3 primaries, then two replicas of each shard: 7 failed before


def test_primaries_that_failed_before_count_for_the_majority():
    alone = {"event": "fail", "at_s": 5, "primaries": [0, 1], "node_timeout_s": 2}
    then = {"event": "fail", "at_s": 30, "primaries": [2], "node_timeout_s": 2}
    _, run, _ = ran(scenario([alone, then], shards=5, replicas=0, duration_s=60))
    last = [each for each in run.facts if each.name == "first node declared failed"]
    # The first two are declared failed by three of five; then two are left.
    assert last[0].value is not None
    assert last[1].value is None


@pytest.mark.parametrize("covers", [True, False])
def test_all_nodes_refuse_commands_while_a_slot_has_no_primary(covers):
    event = {"event": "fail", "at_s": 10, "primaries": 1, "node_timeout_s": 4}
    asked = scenario([event], replicas=0, duration_s=60, retries=0)
    asked["cluster"]["require_full_coverage"] = covers
    cluster, run, _ = ran(asked)
    answered = next(s.values for s in run.series if s.name == "answered")
    after = answered[run.times_s > 30].mean() / 20_000
    assert after == pytest.approx(0.0 if covers else 2 / 3, abs=0.03)
    # Whoever asks for lost keys goes on asking.
    assert cluster.nodes.traffic.sum() == pytest.approx(1.0)


def test_nodes_that_are_back_follow_and_need_a_full_sync():
    event = {
        "event": "fail", "at_s": 10, "primaries": [0], "replicas": [1], "node_timeout_s": 2,
        "back_after_s": 20,
    }  # fmt: skip
    cluster, run, slots = ran(scenario([event], duration_s=200, data={"keys": 300_000}))
    back_s = fact(run, "all nodes are back").value
    assert back_s > 30 + 5  # its primary waits for 5 s before it begins
    assert slots.primary[0] == 3
    assert slots.replicas(0) == [0]
    assert slots.replicas(1) == [4]
    assert cluster.nodes.occupied.max() == 0.0


def test_a_primary_that_nobody_replaced_is_back_without_its_data():
    event = {"event": "fail", "at_s": 10, "primaries": [0], "back_after_s": 30}
    asked = scenario([event], replicas=0, duration_s=120, data={"keys": 300_000})
    _, run, slots = ran(asked)
    [mark] = [mark for mark in run.marks if "is the primary of shard 0 again" in mark.what]
    assert mark.what.endswith("without its data")
    # It is reachable from 40 s on, and counts as working two timeouts after FAIL.
    declared_s = fact(run, "first node declared failed").value
    assert mark.time_s == pytest.approx(declared_s + 30.0)
    assert fact(run, "clients are served again").value == pytest.approx(mark.time_s)
    assert np.all(slots.owners >= 0)
    [missing] = [series for series in run.series if series.name == "reads that miss"]
    assert missing.values[run.times_s > mark.time_s][0] > 0.3
    # One that is back before anybody noticed serves at once.
    soon = event | {"back_after_s": 5, "keeps_data": True}
    _, run, _ = ran(scenario([soon], replicas=0, duration_s=60))
    [mark] = [mark for mark in run.marks if "is the primary of shard 0 again" in mark.what]
    assert mark.time_s == pytest.approx(15.0)
    assert fact(run, "first node declared failed").value is None


def test_a_hot_key_fills_its_shard_and_replicas_relieve_it():
    hot = {"event": "hot_key", "at_s": 5, "share": 0.5}
    reads = {"event": "replica_reads", "at_s": 5, "share": 0.5}

    def run(shards, events):
        asked = scenario(events, shards=shards, rate_rps=300_000, duration_s=30, pods=4000)
        cluster, found, _ = ran(asked)
        answered, offered = (
            next(s.values for s in found.series if s.name == name)[found.times_s > 10].mean()
            for name in ("answered", "offered")
        )
        assert cluster.nodes.traffic.sum() == pytest.approx(1.0)
        return float(cluster.nodes.traffic.max()), answered / offered

    for shards in (4, 12):
        most, answered = run(shards, [hot])
        assert most == pytest.approx(0.5 + 0.5 / shards, rel=0.03)
        assert answered < 0.9  # 150,000 and more a second for a node of 100,000
    most, relieved = run(12, [hot, reads])
    assert most == pytest.approx(0.25 + 0.25 / 12, rel=0.03)
    assert relieved > answered


def test_a_hot_key_cools():
    hot = {"event": "hot_key", "at_s": 5, "share": 0.5, "lasts_s": 5}
    cluster, _, slots = ran(scenario([hot], duration_s=20))
    assert cluster.nodes.traffic[:3] == pytest.approx(1 / 3, rel=0.05)
    assert slots.shares.sum() == pytest.approx(1.0)


def test_memcached_has_no_slots():
    asked = scenario([{"event": "fail", "at_s": 5}], replicas=0, duration_s=20)
    asked["cluster"] |= {"engine": "memcached", "engine_version": "1.6"}
    with pytest.raises(InputError, match=r"cluster.engine: found 'memcached', which has no slots"):
        ran(asked)


def test_a_scenario_with_a_wrong_event_names_its_field():
    asked = scenario([{"event": "resize", "at_s": 5, "shards": 0}])
    with pytest.raises(InputError, match=r"shards"):
        simulate(asked)


def test_moving_the_hottest_slots_takes_load_from_a_shard():
    hot = {"event": "hot_key", "at_s": 1, "share": 0.3}
    cluster, _, slots = ran(scenario([hot], duration_s=20))
    source = int(slots.owners[int(np.argmax(slots.shares))])
    target = (source + 1) % 3
    event = {
        "event": "migrate", "at_s": 5, "source": source, "target": target, "slots": 1,
        "hottest": True,
    }  # fmt: skip
    cluster, run, slots = ran(scenario([hot, event], duration_s=60))
    assert slots.owners[int(np.argmax(slots.shares))] == target
    assert np.sum(slots.owners == target) == pytest.approx(SLOTS / 3 + 1, abs=1)
    assert cluster.nodes.traffic[target] == pytest.approx(0.3 + 0.7 / 3, rel=0.03)
    assert fact(run, f"1 slots to shard {target}").value > 0


@pytest.mark.parametrize(("source", "target"), [(1, 1), (0, 9)])
def test_slots_go_between_two_shards_that_there_are(source, target):
    event = {"event": "migrate", "at_s": 5, "source": source, "target": target, "slots": 1}
    with pytest.raises(InputError, match="target"):
        ran(scenario([event]))


def test_a_cluster_may_shrink_and_grow_again():
    events = [
        {"event": "resize", "at_s": 5, "shards": 2, "method": "atomic"},
        {"event": "resize", "at_s": 150, "shards": 4, "method": "atomic"},
    ]
    cluster, _, slots = ran(scenario(events))
    assert np.bincount(slots.owners, minlength=5).tolist() == [4096, 4096, 0, 4096, 4096]
    assert cluster.nodes.traffic.sum() == pytest.approx(1.0)


def test_replicas_that_are_read_from_execute_their_primaries_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = cluster_module.node_kind
    write_s = 2e-5

    def node_kind(*given: object, **named: object):
        kind, *sizes = made(*given, **named)
        return replace(kind, replicated_write_s=write_s), *sizes

    monkeypatch.setattr(cluster_module, "node_kind", node_kind)
    reads = [{"event": "replica_reads", "at_s": 5, "share": 0.6}]
    cluster, _, _ = ran(scenario(reads, duration_s=60))
    primaries, replicas = cluster.nodes.occupied[:3], cluster.nodes.occupied[3:]
    assert np.all(primaries == 0.0)
    # A quarter of 20,000 commands a second are writes, of three shards.
    assert replicas == pytest.approx(write_s * 0.25 * 20_000 / 3, rel=0.1)
    again = [*reads, {**reads[0], "at_s": 20, "share": 0.0}, {**reads[0], "at_s": 40}]
    cluster, _, _ = ran(scenario(again, duration_s=60))
    assert cluster.nodes.occupied[3:] == pytest.approx(replicas, rel=0.1)
    ended = [*reads, {"event": "replica_reads", "at_s": 30, "share": 0}]
    cluster, _, _ = ran(scenario(ended, duration_s=60))
    assert cluster.nodes.occupied == pytest.approx(0.0)


def test_no_more_is_read_from_replicas_than_is_read():
    reads = {"event": "replica_reads", "at_s": 5, "share": 0.8}
    with pytest.raises(InputError, match=r"events\[0\]\.share': found 0\.8; valid is 0 to 0\.75"):
        ran(scenario([reads]))


def test_where_nothing_is_written_reads_of_replicas_are_not_old():
    reads = [{"event": "replica_reads", "at_s": 5, "share": 0.6}]
    asked = scenario(reads, duration_s=30)
    assert fact(ran(asked)[1], "reads of replicas are old by")
    _, run, _ = ran(asked | {"demand": asked["demand"] | {"mix": {"get": 1}}})
    assert "reads of replicas are old by" not in [each.name for each in run.facts]
