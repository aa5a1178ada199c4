"""Connections and autoscaled clients as an engineer reported them, and new TLS connections.

The reports are claims A038 to A043 of a talk on Memorystore for Redis Cluster by WFS (2024), and
valkey PR 1338. Which number fixes which constant stands at each test.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles.files import read_yaml
from forecache.models.over_time.cluster.load.clients import desired_pods
from forecache.models.over_time.cluster.nodes import ConnectionWork
from forecache.models.over_time.cluster.schema import Autoscaler
from forecache.models.over_time.simulate_scenario import simulate
from forecache.models.results.series import RunPoint

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def points(name: str, **changes: Any) -> Sequence[RunPoint]:
    """The points of an example."""
    return simulate({**read_yaml(EXAMPLES / name), **changes}).points


def fact(point: RunPoint, name: str) -> Any:
    return {fact.name: fact.value for fact in point.run.facts}[name]


TURNED_AWAY = "turned away: no free worker"


def lost(point: RunPoint) -> Any:
    """Commands without an answer: clients count them alike."""
    return fact(point, "failed") + fact(point, TURNED_AWAY)


def last_lost_s(point: RunPoint) -> float:
    found = {fact.name: fact.value for fact in point.run.facts}
    return max(found.get("last failure", 0.0), found.get("last turned away", 0.0))


def series(point: RunPoint, name: str) -> np.ndarray:
    return {series.name: series.values for series in point.run.series}[name]


def test_persistent_connections_fail_never_and_those_per_request_with_tls() -> None:
    # A038, A039. Nothing is fixed by them. A040 fixes 1.2 connections of a worker and 14 commands.
    found = {
        (str(p.given["cluster.tls"]), p.given["clients.connections"]): p
        for p in points("connections.yaml", duration_s=15, report_s=1)
    }
    assert len(found) == 6
    for (tls, connections), point in found.items():
        share = lost(point) / (fact(point, "answered") + lost(point))
        if connections == "persistent":
            assert share == 0.0
            assert fact(point, "most connections on a node") == 30_000
        elif tls == "False":
            # 5,000 new connections a second at each node take a tenth of its main thread.
            assert share == 0.0
            assert fact(point, "most new connections") == pytest.approx(15_000, rel=0.05)
        else:
            assert share > 0.1
    accepted = fact(found[("{'certificate': 'rsa-2048'}", "per_request")], "most new connections")
    # 1,000 a second were reported: a handshake takes 1.1 ms here and would have to take 3.
    assert 1_000 < accepted < 3_000


def test_more_workers_than_a_node_takes_connections_are_refused() -> None:
    # A041, A042: 500 pods of 25 workers and a fifth more, which A040 fixes, are 15,000.
    few, enough = points("maxclients.yaml", duration_s=10)
    assert fact(few, "most connections on a node") == 10_000
    assert lost(few) > 0
    assert fact(enough, "most connections on a node") == 15_000
    assert lost(enough) == 0


def test_twice_the_cpu_target_halves_pods_and_connections() -> None:
    # A043: 5 requests a second of a pod at a target of 25% fix the CPU time of a request (50 ms);
    # pods and connections at either target follow.
    low, high = points("autoscaler.yaml", duration_s=600, step_s=0.5, report_s=2)
    assert series(low, "pods")[-1] == pytest.approx(800, rel=0.01)
    assert fact(low, "connections at the end") == pytest.approx(20_000, rel=0.01)
    assert series(high, "pods")[-1] == pytest.approx(400, rel=0.01)
    assert fact(high, "connections at the end") == pytest.approx(10_000, rel=0.01)
    # Pods are removed only after the stabilisation window.
    times = high.run.times_s
    assert series(high, "pods")[times < 299].min() == 500


def test_a_storm_lasts_where_a_turn_accepts_a_thousand_connections() -> None:
    few_2, few_60, many_2, many_60 = points("connection-storm.yaml", duration_s=160, report_s=1)
    for point in (few_2, few_60):
        assert 65 < last_lost_s(point) < 80
    # The standstill ends at 65 s. Hardly anybody has been answered since.
    times = many_2.run.times_s
    assert series(many_2, "answered")[times > 75].mean() < 0.05 * 20_000
    assert series(many_2, "main thread, busiest")[times > 75].min() > 0.99
    # Neither does a finer step let it end.
    asked = read_yaml(EXAMPLES / "connection-storm.yaml")
    asked["cluster"]["accepts_per_cycle"], asked["clients"]["backoff"]["cap_s"] = 1000, 2
    [finer] = simulate({**asked, "duration_s": 100, "step_s": 0.1}).points
    times = finer.run.times_s
    assert series(finer, "answered")[times > 75].mean() < 0.05 * 20_000
    # Clients are closed loops: the longer they wait, the fewer handshakes.
    assert 120 < last_lost_s(many_60) < 155
    assert series(many_60, "answered")[-10:].min() > 19_000


@pytest.mark.parametrize(
    ("accepted_per_s", "published_rps"),
    [
        (477, 670_000),  # handshakes on the main thread
        (1_757, 990_000),  # on I/O threads
    ],
)
def test_new_connections_take_their_share_of_the_main_thread(
    accepted_per_s: int, published_rps: int
) -> None:
    # valkey PR 1338: what a node accepts at most fixes a connection's time; 160 a second beside
    # 1,050,000 SETs a second are predicted.
    work = ConnectionWork(round(1e12 / accepted_per_s), 0, 0, 0, 1)
    predicted_rps = 1_050_000 * (1.0 - 160 * work.main_ps / 1e12)
    assert predicted_rps == pytest.approx(published_rps, rel=0.045)


def test_the_autoscaler_follows_the_rule_of_kubernetes() -> None:
    rule = Autoscaler(cpu_target=0.5, cpu_s_per_request=1.0, min_pods=2, max_pods=1000)
    assert desired_pods(10, 7.5, rule) == 15
    assert desired_pods(10, 5.4, rule) == 10  # within a tenth
    assert desired_pods(10, 4.4, rule) == 9
    assert desired_pods(10, 0.0, rule) == 2
    assert desired_pods(10, 100.0, rule) == 20  # at most twice as many
    assert desired_pods(2, 100.0, rule) == 6  # or four more
    assert desired_pods(900, 900.0, rule) == 1000
