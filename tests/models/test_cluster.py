"""Runs of a cluster: conservation, closed forms of overload and retries, what events do."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from forecache.hwprofiles.files import parse
from forecache.models.over_time.cluster import cluster as cluster_module
from forecache.models.over_time.cluster.cluster import Cluster
from forecache.models.over_time.cluster.events import KINDS
from forecache.models.over_time.cluster.nodes import (
    ConnectionWork,
    NodeKind,
)
from forecache.models.over_time.cluster.run import ACTIONS, run_to_the_end
from forecache.models.over_time.cluster.schema import ClusterScenario
from forecache.models.over_time.cluster.surrogate import QUANTILES, Surrogate
from forecache.sim.errors import InputError

MADE = Surrogate(
    capacity_rps=1000.0,
    main_ps=1e9,
    loads=(0.02, 0.98),
    latency_ms=((1.0,) * len(QUANTILES),) * 2,
    mean_ms=(1.0, 1.0),
    main_thread=(0.0, 0.02, 0.98, 1.0),
    io_threads=(0.0, 0.0, 0.0, 0.0),
    error=0.0,
)
"""A node that takes a millisecond for a command."""


@pytest.fixture
def made(monkeypatch):
    """Nodes of 1,000 commands a second that need no node model; connections take 2 ms."""

    def node_kind(scenario, **_):
        nodes = scenario.cluster
        connection = ConnectionWork(2 * 10**9, 0, 10**8, 0, nodes.accepts_per_cycle or 10)
        kind = NodeKind("made", MADE, connection, nodes.maxclients, nodes.tcp_backlog)
        return kind, 1e6, 1000.0

    monkeypatch.setattr(cluster_module, "node_kind", node_kind)


def test_every_event_does_something():
    assert ACTIONS.keys() == set(KINDS)


def scenario(duration_s=60.0, rate_rps=500.0, cluster=None, clients=None, **more):
    data = {
        "kind": "cluster",
        "duration_s": duration_s,
        "cluster": {"host": "made", "engine": "valkey", "maxclients": 10**6} | (cluster or {}),
        "clients": {"pods": 100, "workers_per_pod": 100} | (clients or {}),
        "demand": {"rate_rps": rate_rps},
    }
    return parse(ClusterScenario, data | more, file="test")


def ran(asked, seed=1):
    cluster = Cluster(asked, seed=seed)
    return cluster, run_to_the_end(cluster)


def series(run, name):
    [found] = [s for s in run.series if s.name == name]
    return found.values


@pytest.mark.usefixtures("made")
def test_what_a_node_can_do_is_answered():
    cluster, run = ran(scenario())
    assert series(run, "answered") == pytest.approx(series(run, "offered"))
    assert cluster.nodes.state[0]["answered"] == pytest.approx(500 * 60, rel=0.02)
    assert series(run, "main thread, mean").mean() == pytest.approx(0.5, rel=0.02)
    assert np.nanmax(series(run, "p99")) == pytest.approx(1.0)


@pytest.mark.usefixtures("made")
def test_an_overload_is_answered_at_capacity():
    patient = {"timeout_s": 3600, "connect_timeout_s": 3600, "pods": 10**4}
    cluster, _ = ran(scenario(rate_rps=1500, clients=patient, step_s=0.5))
    assert cluster.nodes.state[0]["answered"] == pytest.approx(1000 * 60, abs=2)
    assert cluster.nodes.request_queue.waiting[0] == pytest.approx(500 * 60, rel=0.05)


def few_workers(step_s, workers=100, duration_s=60):
    """1.5 times the capacity is asked, by fewer workers than are served in a step of 0.25 s."""
    clients = {"pods": 1, "workers_per_pod": workers, "retries": 0}
    return scenario(duration_s, rate_rps=1500, clients=clients, step_s=step_s)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("workers", [50, 100, 200])
def test_a_node_that_is_asked_for_more_than_it_can_do_is_busy_all_the_time(workers):
    cluster, run = ran(few_workers(0.25, workers))
    assert cluster.nodes.state[0]["answered"] == pytest.approx(1000 * 60, rel=0.01)
    assert series(run, "main thread, busiest").mean() == pytest.approx(1.0, abs=0.01)
    # They are turned away, and no request that began fails.
    facts = {fact.name: fact.value for fact in run.facts}
    assert facts["failed"] == 0
    assert facts["turned away: no free worker"] == pytest.approx(500 * 60, rel=0.05)
    assert "first failure" not in facts
    assert facts["last turned away"] == 60


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("step_s", [0.25, 0.05])
def test_half_the_step_answers_as_much(step_s):
    whole, _ = ran(few_workers(step_s, duration_s=20))
    half, _ = ran(few_workers(step_s / 2, duration_s=20))
    answered = whole.nodes.state[0]["answered"]
    assert half.nodes.state[0]["answered"] == pytest.approx(answered, rel=0.02)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_retries_of_a_node_that_is_down_multiply_the_attempts(retries):
    down = {"at_s": 0, "event": "node_moves", "node": 0, "down_s": 3600}
    clients = {"retries": retries, "backoff": {"base_s": 0.5, "cap_s": 0.5}, "pods": 10**4}
    cluster, _ = ran(scenario(rate_rps=200, clients=clients, events=[down]))
    state = cluster.nodes.state[0]
    assert state["answered"] == 0
    # All but those of the last seconds have been tried 1 + N times.
    assert state["attempts"] / state["offered"] == pytest.approx(1 + retries, rel=0.05)
    assert state["failed"] == pytest.approx(state["offered"], rel=0.06)


@pytest.mark.usefixtures("made")
def test_backoff_does_not_help_in_a_long_overload():
    def goodput(base_s):
        clients = {
            "retries": 3,
            "pods": 10**4,
            "backoff": {"base_s": base_s, "cap_s": 10 * base_s},
        }
        cluster, _ = ran(scenario(duration_s=120, rate_rps=1500, clients=clients))
        return cluster.nodes.state[0]["answered"]

    # Clients that time out are served all the same: hardly anything is answered in time.
    assert goodput(0.1) < 0.1 * 1000 * 120
    assert goodput(2.0) < 0.1 * 1000 * 120


@pytest.mark.usefixtures("made")
def test_a_worker_backs_off_for_the_time_it_is_told():
    # Without jitter four attempts at a node that refuses hold a worker 0.1 + 0.2 + 0.4 s: 20
    # workers make 20 / 0.7 s requests a second.
    down = {"at_s": 0, "event": "node_moves", "node": 0, "down_s": 3600}
    clients = {"pods": 1, "workers_per_pod": 20, "backoff": {"jitter": "none"}}
    cluster, _ = ran(scenario(rate_rps=200, clients=clients, events=[down]))
    assert cluster.nodes.state[0]["offered"] == pytest.approx(60 * 20 / 0.7, rel=0.1)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("duration_s", "base_s", "retries", "step_s", "warned"),
    [
        (60, 0.1, 3, 0.05, False),
        (60, 0.1, 0, 0.25, False),
        (60, 2.0, 3, 0.25, False),
        (60, 0.0, 3, 0.01, True),
        (86_400, 0.1, 3, 0.25, True),
    ],
)
def test_the_step_follows_the_first_backoff(duration_s, base_s, retries, step_s, warned):
    clients = {"retries": retries, "backoff": {"base_s": base_s}}
    asked = scenario(duration_s, clients=clients)
    assert asked.step == pytest.approx(step_s)
    warnings = Cluster(asked, seed=1).record.warnings
    assert any("first backoff" in warning for warning in warnings) == warned


def test_a_coarser_step_than_half_the_first_backoff_is_warned_of():
    assert scenario(step_s=0.25).backoff_rounded is not None
    assert scenario(step_s=0.05).backoff_rounded is None


@pytest.mark.usefixtures("made")
def test_an_event_may_change_the_demand():
    cluster = Cluster(scenario(duration_s=20, rate_rps=500), seed=1)

    def doubled():
        yield cluster.env.timeout(10)
        cluster.load.demand_factor = 1.6

    cluster.env.process(doubled())
    run = run_to_the_end(cluster)
    assert series(run, "offered")[run.times_s <= 10].mean() == pytest.approx(500, rel=0.05)
    assert series(run, "offered")[run.times_s > 10.1].mean() == pytest.approx(800, rel=0.05)


@pytest.mark.usefixtures("made")
def test_a_retry_budget_bounds_the_attempts():
    down = {"at_s": 0, "event": "node_moves", "node": 0, "down_s": 3600}
    clients = {"retries": 3, "retry_budget": {"most": 50}, "pods": 10**4}
    cluster, _ = ran(scenario(rate_rps=200, clients=clients, events=[down]))
    state = cluster.nodes.state[0]
    assert state["attempts"] - state["offered"] == 50


@pytest.mark.usefixtures("made")
def test_a_token_bucket_keeps_the_attempts_near_a_tenth_more():
    # M. Brooker, "Fixing retries with token buckets and circuit breakers" (2022): a tenth of a
    # token for each success, one for each retry.
    impatient = {"retries": 3, "pods": 10**4, "timeout_s": 0.5, "connect_timeout_s": 0.5}

    def attempts(more):
        cluster, _ = ran(scenario(rate_rps=1100, clients=impatient | more))
        state = cluster.nodes.state[0]
        return state["attempts"], state["offered"], state["answered"]

    tried, offered, answered = attempts({"retry_budget": {"per_success": 0.1, "most": 10}})
    assert tried - offered <= 10 + 0.1 * answered
    assert tried <= 1.1 * offered + 10
    tried, offered, _ = attempts({})
    assert tried > 1.5 * offered


@pytest.mark.usefixtures("made")
def test_time_outs_leave_wasted_work():
    clients = {"retries": 0, "pods": 10**4, "timeout_s": 0.5, "connect_timeout_s": 0.5}
    cluster, _ = ran(scenario(rate_rps=1500, clients=clients))
    state = cluster.nodes.state[0]
    assert state["wasted"] > state["answered"]
    assert state["timed_out"] > 0


@pytest.mark.usefixtures("made")
def test_connections_beyond_maxclients_are_refused():
    few = {"maxclients": 300}
    clients = {"pods": 10, "workers_per_pod": 40, "initially_connected": False}
    cluster, run = ran(scenario(cluster=few, clients=clients))
    assert series(run, "connections, most on a node").max() == 300
    assert cluster.nodes.state[0]["too_many"] > 0
    enough, _ = ran(scenario(cluster={"maxclients": 400}, clients=clients))
    assert enough.nodes.state[0]["too_many"] == 0
    assert enough.nodes.state[0]["failed"] == 0
    assert enough.nodes.connections[0] == 400


@pytest.mark.usefixtures("made")
def test_connections_per_request_take_the_main_thread():
    # A request takes 1 ms and its connection 2 ms: a third of the capacity is left.
    clients = {"connections": "per_request", "retries": 0}
    cluster, _ = ran(scenario(rate_rps=300, clients=clients))
    assert cluster.nodes.state[0]["failed"] == 0
    cluster, run = ran(scenario(rate_rps=500, clients=clients))
    assert cluster.nodes.state[0]["failed"] > 0
    assert np.median(series(run, "answered")) < 1000 / 3 + 10


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("step_s", [0.05, 0.5])
def test_connections_that_close_within_a_step_are_not_too_many(step_s):
    """15 workers with a connection for each request never have more than 15 at a time."""
    clients = {"pods": 1, "workers_per_pod": 15, "connections": "per_request", "retries": 1}
    cluster, _ = ran(
        scenario(rate_rps=200, cluster={"maxclients": 20}, clients=clients, step_s=step_s)
    )
    assert cluster.nodes.state[0]["answered"] > 190 * 60
    assert cluster.nodes.state[0]["too_many"] == 0


@pytest.mark.usefixtures("made")
def test_a_request_keeps_its_commands_when_its_node_gets_another_share():
    clients = {"pods": 10, "workers_per_pod": 100, "commands_per_request": 5, "retries": 1}
    cluster = Cluster(scenario(rate_rps=500, cluster={"shards": 2}, clients=clients), seed=1)

    def change(step):
        if step.number == 60:  # in an overload, so that requests wait
            cluster.nodes.traffic[:] = 0.9, 0.1
        if step.number == 120:  # so that nothing is on its way in the end
            cluster.load.demand_factor = 0.0

    cluster.after_step(change)
    run = run_to_the_end(cluster)
    intervals_s = np.diff(run.times_s, prepend=0.0)
    asked, away, answered, failed = (
        float(series(run, name) @ intervals_s)
        for name in ("offered", "turned away", "answered", "failed")
    )
    assert answered + failed == pytest.approx(asked - away, rel=1e-9)


@pytest.mark.usefixtures("made")
def test_workers_open_persistent_connections_when_they_need_them():
    clients = {"pods": 1, "workers_per_pod": 200, "initially_connected": False}
    _, run = ran(scenario(rate_rps=100, clients=clients, duration_s=10, report_s=1.0))
    # After t seconds a worker has had no request with probability exp(-100 t / 200).
    expected = 200 * (1 - np.exp(-0.5 * run.times_s))
    assert series(run, "connections, most on a node") == pytest.approx(expected, rel=0.12)


@pytest.mark.usefixtures("made")
def test_connections_to_where_a_node_was_fail_once():
    moved = {"at_s": 10, "event": "node_moves", "node": 0}
    clients = {"pods": 1, "workers_per_pod": 50, "retries": 1}
    cluster, _ = ran(scenario(rate_rps=200, clients=clients, events=[moved]))
    assert cluster.nodes.state[0]["refused"] == 50
    assert cluster.nodes.state[0]["failed"] == 0
    assert cluster.nodes.connections[0] == 50
    without, _ = ran(scenario(rate_rps=200, clients={**clients, "retries": 0}, events=[moved]))
    assert without.nodes.state[0]["failed"] == 50


@pytest.mark.usefixtures("made")
def test_a_deploy_opens_every_connection_anew_and_nothing_fails():
    deploy = {"at_s": 10, "event": "deploy", "lasts_s": 60, "surge": 0.2}
    clients = {"pods": 10, "workers_per_pod": 100}
    cluster, run = ran(scenario(duration_s=120, clients=clients, events=[deploy]))
    assert cluster.nodes.state[0]["failed"] == 0
    assert cluster.clients.pods == 10
    # Every pod is replaced once, and a fifth of them are there twice.
    assert cluster.nodes.state[0]["connected"] == pytest.approx(1000, rel=0.05)
    assert 1000 < series(run, "connections, most on a node").max() <= 1200
    assert series(run, "connections, most on a node")[-1] == 1000


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("event", "message"),
    [
        (
            {"event": "node_dies", "node": 7},
            "field 'events[1].node': found 7; valid is a node from",
        ),
        ({"event": "fail", "primaries": 9}, "field 'events[1].primaries': found 9; valid is at mo"),
        ({"event": "background", "lasts_s": 1, "share": 0.5, "nodes": [4]}, "'events[1].nodes': f"),
        ({"event": "fail", "at_s": 60.0}, "field 'events[1].at_s': found 60.0; valid is a time be"),
        ({"event": "fial"}, "field 'events[1].event': found 'fial'; did you mean 'fail'?"),
    ],
)
def test_a_mistake_names_the_event_and_its_field(event, message):
    first = {"event": "hot_key", "at_s": 0.0, "share": 0.1}
    with pytest.raises(InputError) as caught:
        ran(scenario(events=[first, {"at_s": 1.0, **event}]))
    assert message in str(caught.value)


@pytest.mark.usefixtures("made")
def test_background_work_takes_capacity_and_gives_it_back():
    taken = {"at_s": 20, "event": "background", "share": 0.8, "lasts_s": 10}
    _, run = ran(scenario(events=[taken], clients={"pods": 10**4, "timeout_s": 60}, report_s=1.0))
    during = (run.times_s > 22) & (run.times_s <= 30)
    assert series(run, "answered")[during] == pytest.approx(200, rel=0.02)
    # What waited is served at capacity: 3,000 requests at what 500 a second leave of 1,000.
    assert series(run, "answered")[(run.times_s > 31) & (run.times_s < 35)].min() > 950
    assert series(run, "answered")[run.times_s > 40] == pytest.approx(500, rel=0.2)


@pytest.mark.usefixtures("made")
def test_the_same_seed_gives_the_same_run_and_a_change_leaves_other_draws():
    one, _ = ran(scenario(cluster={"shards": 3}))
    two, _ = ran(scenario(cluster={"shards": 3}))
    assert (one.nodes.state == two.nodes.state).all()
    slower, _ = ran(scenario(cluster={"shards": 3, "maxclients": 20_000}))
    assert (slower.nodes.state["offered"] == one.nodes.state["offered"]).all()


@settings(max_examples=settings.default.max_examples // 10, phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_no_request_is_lost_whatever_happens(data):
    draw = data.draw
    events = [
        {
            "at_s": draw(st.floats(0, 11)),
            "event": "node_moves",
            "node": draw(st.integers(0, 2)),
            "down_s": draw(st.sampled_from([0.0, 0.3, 4.0])),
            "silent": draw(st.booleans()),
        }
        for _ in range(draw(st.integers(0, 3)))
    ]
    if draw(st.booleans()):
        stall = {"at_s": draw(st.floats(0, 11)), "event": "background"}
        events.append({**stall, "stall_s": draw(st.sampled_from([0.2, 3.0]))})
    clients = {
        "pods": draw(st.sampled_from([1, 5, 50])),
        "workers_per_pod": draw(st.sampled_from([3, 100])),
        "connections": draw(st.sampled_from(["persistent", "per_request"])),
        "retries": draw(st.integers(0, 3)),
        "timeout_s": draw(st.sampled_from([0.2, 1.0])),
        "connect_timeout_s": draw(st.sampled_from([0.3, 2.0])),
        "commands_per_request": draw(st.sampled_from([1, 7])),
        "retry_budget": draw(st.sampled_from([None, {"most": 30}])),
        "initially_connected": draw(st.booleans()),
    }
    nodes = {
        "shards": 3,
        "maxclients": draw(st.sampled_from([20, 10_000])),
        "tcp_backlog": draw(st.sampled_from([5, 511])),
    }
    rate_rps = draw(st.sampled_from([20.0, 900.0, 5000.0]))
    with pytest.MonkeyPatch.context() as patch:
        connection = ConnectionWork(2 * 10**9, 0, 10**8, 0, 10)
        kind = NodeKind("made", MADE, connection, nodes["maxclients"], nodes["tcp_backlog"])
        patch.setattr(cluster_module, "node_kind", lambda *_, **__: (kind, 1e6, 1e3))
        # `run` raises where a count is off.
        asked = scenario(12, rate_rps, cluster=nodes, clients=clients, events=events)
        cluster, _ = ran(asked, seed=draw(st.integers(1, 1000)))
    wanted = cluster.clients.wanted_connections
    if clients["connections"] == "persistent":
        assert (cluster.nodes.connections <= wanted).all()
    assert (cluster.nodes.connections <= nodes["maxclients"]).all()


@pytest.mark.usefixtures("made")
def test_who_waits_to_be_accepted_waits_for_those_before():
    # 1,000 workers come at once: 2 ms each before any request, 511 of them fit the backlog.
    clients = {"pods": 10, "workers_per_pod": 100, "initially_connected": False}
    many = {"accepts_per_cycle": 10_000}
    _, run = ran(
        scenario(rate_rps=5000, duration_s=10, cluster=many, clients=clients, report_s=0.25)
    )
    first = run.times_s <= 1.5  # those after them wait for requests besides
    waited_ms = series(run, "p99 until accepted")[first]
    assert waited_ms.max() == pytest.approx(511 * 2, rel=0.1)


@pytest.mark.usefixtures("made")
def test_no_more_requests_are_on_their_way_than_there_are_workers():
    """Also where every request connects anew, which takes time from those that lie ready."""
    clients = {"pods": 1, "workers_per_pod": 60, "connections": "per_request", "retries": 0}
    cluster = Cluster(scenario(duration_s=20.0, rate_rps=2000.0, clients=clients), seed=1)
    waiting = []

    def look(_step):
        nodes = cluster.nodes
        waiting.append(int((nodes.connect_queue.waiting + nodes.request_queue.waiting).sum()))

    cluster.after_step(look)
    run_to_the_end(cluster)
    assert 0 < max(waiting) <= 1.05 * 60 + 1
