"""Clusters that are a cache: what changes of the list, restarts and dead nodes cost."""

import math

import pytest

from forecache.models.over_time.cluster.cluster import Cluster
from forecache.models.over_time.cluster.run import run_to_the_end
from forecache.sim.errors import InputError
from tests.models.test_cluster import made, ran, scenario, series

__all__ = ["made"]
pytestmark = pytest.mark.usefixtures("made")

NODE_LIST = {"event": "node_list", "at_s": 20, "nodes": 5}


def cached(events=(), nodes=3, cache=None, **more):
    return scenario(
        **{
            "cluster": {"engine": "memcached", "shards": nodes},
            "demand": {"rate_rps": 900.0, "mix": {"get": 1.0}},
            "data": {"keys": 3000, "value_bytes": 500, "popularity": {"zipf": 0.9}},
            "clients": {"pods": 10, "workers_per_pod": 100, "retries": 0, "timeout_s": 0.5},
            "cache": {"database": {"capacity_qps": 5000, "latency_ms": 2}} | (cache or {}),
            "events": list(events),
        }
        | more
    )


def fact(run, name):
    [found] = [f for f in run.facts if f.name == name]
    return found.value


def changes(run):
    [table] = [t for t in run.tables if t.title.startswith("Changes")]
    names = [name for name, _ in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


@pytest.mark.parametrize(
    ("hashing", "before", "after", "moved"),
    [
        *(("modulo", 3, 5, 0.8), ("ketama", 3, 5, 0.4)),
        *(("modulo", 9, 10, 0.9), ("ketama", 9, 10, 0.1)),
    ],
)
def test_a_new_list_moves_keys_and_the_hit_rate_recovers(hashing, before, after, moved):
    edit = {"event": "node_list", "at_s": 20, "nodes": after}
    cluster, run = ran(cached([edit], nodes=before, cache={"hashing": hashing}))
    [change] = changes(run)
    assert change["keys moved"] == pytest.approx(moved, abs=0.03)
    assert change["hit rate before"] == pytest.approx(1.0)
    # This many of the first requests after it miss, fewer as popular keys are fetched.
    assert 1 - moved - 0.03 < change["lowest"] < 1 - 0.3 * moved
    assert 0 < change["recovered after"] < 30
    assert series(run, "hit rate")[-1] > 0.95
    asked = sum(cluster.nodes.state["answered"])
    names = ("found in the cache", "answered by the database")
    assert sum(fact(run, name) for name in names) == pytest.approx(asked, abs=2)
    # Traffic follows the list.
    assert (cluster.nodes.traffic > 0).sum() == after


def test_a_list_deployed_over_time_costs_less_at_a_time():
    at_once = ran(cached([NODE_LIST]))[1]
    slowly = ran(cached([NODE_LIST | {"over_s": 20}]))[1]
    assert changes(slowly)[0]["lowest"] > changes(at_once)[0]["lowest"]


def test_maintenance_empties_one_node_after_the_other():
    window = {"event": "maintenance", "at_s": 10, "window_s": 40, "down_s": 2}
    _, run = ran(cached([window]))
    assert [c["at"] for c in changes(run)] == pytest.approx([12, 31, 50], abs=0.5)
    assert all(c["lowest"] < 0.85 for c in changes(run))
    [last] = [m for m in run.marks if "over" in m.what]
    assert last.time_s == pytest.approx(50)


def test_a_restart_shorter_than_a_step_empties_a_node_too():
    window = {"event": "maintenance", "at_s": 10, "window_s": 30, "down_s": 0.01}
    assert len(changes(ran(cached([window]))[1])) == 3


@pytest.mark.parametrize("when_down", ["database", "error"])
def test_clients_ask_a_dead_node_until_the_list_is_edited(when_down):
    dies = {"event": "node_dies", "at_s": 10, "node": 1, "silent": False}
    edit = {"event": "node_list", "at_s": 40, "nodes": [0, 2]}
    cluster, run = ran(cached([dies, edit], cache={"when_down": when_down}))
    failed = series(run, "failed")
    times = run.times_s
    third = 900 * float(cluster.cache.contents.traffic(cluster.cache.contents.weights([1, 0]))[1])
    assert failed[(times > 12) & (times < 39)].mean() == pytest.approx(third, rel=0.05)
    assert failed[times > 41].sum() == 0
    straight = fact(run, "asked of the database for a node that failed")
    lost = cluster.nodes.state["failed"].sum()
    assert straight == (pytest.approx(lost, abs=2) if when_down == "database" else 0)


def test_a_silent_node_holds_workers_until_they_time_out():
    dies = {"event": "node_dies", "at_s": 10, "node": 1, "back_after_s": 30}
    few = {"pods": 1, "workers_per_pod": 100, "retries": 0, "timeout_s": 1.0}
    _, run = ran(cached([dies], clients=few))
    down = (run.times_s > 12) & (run.times_s < 39)
    # A hundred workers, each for a second at the dead node with every request that goes there.
    assert 40 < series(run, "timed out")[down].mean() < 110
    assert series(run, "turned away")[down].mean() > 400
    assert series(run, "turned away")[run.times_s > 45].sum() == 0


def test_who_waits_for_the_database_has_no_worker_free():
    slow = {"database": {"capacity_qps": 50, "timeout_s": 30}}
    _, run = ran(cached([NODE_LIST], cache=slow, duration_s=40.0))
    assert series(run, "turned away").max() > 100
    assert series(run, "database").max() == pytest.approx(1.0)
    assert math.isnan(changes(run)[0]["recovered after"])


def test_no_more_wait_for_the_database_than_there_are_workers():
    few = {"pods": 1, "workers_per_pod": 50, "retries": 0}
    slow = {"begins": "empty", "database": {"capacity_qps": 50, "timeout_s": 30}}
    held = []
    cluster = Cluster(cached(cache=slow, clients=few, duration_s=10.0), seed=1)
    cluster.after_step(lambda _step: held.append(cluster.cache.tier.database.waiting))
    run_to_the_end(cluster)
    assert 40 <= max(held) <= 1.05 * 50 + 1


def test_memory_limits_what_nodes_hold():
    data = {"keys": 300_000, "value_bytes": 500, "popularity": {"zipf": 0.9}}
    cluster, run = ran(cached(cache={"memory_mib": 8}, data=data, duration_s=20.0))
    # 1,747 chunks of 600 bytes in each of eight pages.
    assert cluster.cache.contents.keys_held() == pytest.approx([8 * 1747] * 3, rel=0.01)
    assert 0.2 < series(run, "hit rate").mean() < 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"demand": {"rate_rps": 1.0, "mix": {"get": 0.5, "set": 0.5}}}, "demand.mix"),
        ({"cluster": {"engine": "memcached", "replicas": 1}}, "cluster.replicas"),
        ({"cluster": {"engine": "valkey"}, "cache": {"memory_mib": 8}}, "cache.memory_mib"),
        ({"events": [NODE_LIST | {"nodes": [1, 1]}]}, "different nodes"),
        ({"events": [NODE_LIST | {"nodes": 0}]}, "different nodes"),
        ({"events": [{"event": "maintenance", "at_s": 0, "window_s": 1, "down_s": 2}]}, "down_s"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        cached(**change)


def test_an_edit_of_the_list_needs_a_cache():
    with pytest.raises(InputError, match="node_list"):
        scenario(events=[NODE_LIST])


def test_too_many_lists_are_refused_before_anything_runs():
    edits = [NODE_LIST | {"at_s": 5 + n, "nodes": n} for n in (7, 11, 13)]
    with pytest.raises(InputError, match="histories"):
        ran(cached(edits, cache={"hashing": "modulo"}))


@pytest.mark.parametrize(
    ("event", "more"),
    [
        ({"event": "node_dies", "node": 3}, {}),
        ({"event": "maintenance", "nodes": [0, 7]}, {"window_s": 30, "down_s": 1}),
    ],
)
def test_a_node_that_is_not_there_is_refused(event, more):
    with pytest.raises(InputError, match="valid is a node from 0 to 2"):
        ran(cached([event | {"at_s": 1, **more}]))
