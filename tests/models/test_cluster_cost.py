"""What the nodes of a cluster cost over a run."""

from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles.files import parse
from forecache.models.over_time.cluster import cluster as cluster_module
from forecache.models.over_time.cluster.cluster import Cluster
from forecache.models.over_time.cluster.cost import node_price
from forecache.models.over_time.cluster.nodes import NodeKind
from forecache.models.over_time.cluster.run import run_to_the_end
from forecache.models.over_time.cluster.schema import ClusterNodes, ClusterScenario, NodeCost
from forecache.models.results.series import Run
from forecache.sim.errors import InputError
from tests.models.test_cluster import MADE, ConnectionWork


def nodes(host: str = "r7g.xlarge", engine: str = "valkey", **more: Any) -> ClusterNodes:
    return ClusterNodes.model_validate({"host": host, "engine": engine} | more)


@pytest.fixture(autouse=True)
def _made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of 1,000 commands a second that need no node model."""

    def node_kind(_: ClusterScenario, **_more: Any) -> tuple[NodeKind, float, float]:
        connection = ConnectionWork(2 * 10**9, 0, 10**8, 0, 10)
        return NodeKind("made", MADE, connection, 10**6, 511), 1e6, 1000.0

    monkeypatch.setattr(cluster_module, "node_kind", node_kind)


def run(cost: dict[str, Any] | None, **changes: Any) -> Run:
    data = {
        "kind": "cluster",
        "duration_s": 360.0,
        "cluster": {"host": "r7g.xlarge", "engine": "valkey", "shards": 2, "replicas": 1},
        "clients": {"pods": 10, "workers_per_pod": 100, "retries": 0},
        "demand": {"rate_rps": 500.0},
        "cost": cost,
    }
    return run_to_the_end(Cluster(parse(ClusterScenario, data | changes, file="test"), seed=1))


def facts(found: Run) -> dict[str, Any]:
    return {fact.name: fact.value for fact in found.facts}


def test_a_run_costs_its_nodes_as_long_as_it_lasts() -> None:
    found = run({"usd_per_month": 73.0})
    told = facts(found)
    # Ten cents an hour for each of four nodes, for a tenth of an hour.
    assert told["a node costs"] == pytest.approx(0.1)
    assert told["the run costs"] == pytest.approx(0.04)
    assert told["nodes cost at the end"] == pytest.approx(0.4)
    assert told["a month of that"] == pytest.approx(292.0)
    each = told["a million answered commands cost"]
    assert each == pytest.approx(0.04 / told["answered"] * 1e6)
    assert each == pytest.approx(0.04 / (500 * 360) * 1e6, rel=0.01)
    so_far = next(s for s in found.series if s.panel == "cost so far")
    assert so_far.unit == "USD"
    assert so_far.values == pytest.approx(0.4 * found.times_s / 3600.0)


def test_without_a_price_nothing_is_said() -> None:
    found = run(None)
    assert "the run costs" not in facts(found)
    assert not any(s.unit == "USD" for s in found.series)


def test_nodes_are_paid_from_when_they_are_there_until_a_resize_takes_them_away() -> None:
    events = [{"event": "resize", "at_s": 180, "shards": 3, "provision_s": 60}]
    more = run({"usd_per_month": 73.0}, events=events)
    assert facts(more)["nodes cost at the end"] == pytest.approx(0.6)
    # Six nodes instead of four in the last two minutes, give or take a step.
    assert facts(more)["the run costs"] == pytest.approx(0.04 + 0.02 / 3, rel=1e-2)
    fewer = run({"usd_per_month": 73.0}, events=[events[0] | {"shards": 1}])
    assert facts(fewer)["nodes cost at the end"] == pytest.approx(0.2)
    assert 0.03 < facts(fewer)["the run costs"] < 0.04


def test_a_node_that_is_down_is_paid() -> None:
    events = [{"event": "node_dies", "at_s": 60, "node": 0}]
    found = run({"usd_per_month": 73.0}, events=events)
    assert facts(found)["the run costs"] == pytest.approx(0.04)


def test_nothing_answered_has_no_price() -> None:
    found = run({"usd_per_month": 73.0}, demand={"rate_rps": 0.0}, duration_s=60.0)
    assert facts(found)["a million answered commands cost"] is None


def test_an_instance_costs_its_price_on_demand() -> None:
    # 4 vCPUs at 3.4272 / 64 USD an hour.
    price = node_price(NodeCost(), nodes("r7g.xlarge"))
    assert price.usd_per_hour == pytest.approx(4 * 3.4272 / 64, rel=1e-4)
    assert price.note == "r7g.xlarge on demand, us-east-1, 2026-01-19"


@pytest.mark.parametrize(("engine", "share"), [("redis", 1.0), ("memcached", 1.0), ("valkey", 0.8)])
def test_a_managed_node_costs_what_the_table_says_for_its_engine(engine: str, share: float) -> None:
    price = node_price(NodeCost(node_type="cache.m7g.xlarge"), nodes(engine=engine))
    assert price.usd_per_hour == pytest.approx(0.315 * share, abs=1e-4)
    assert engine in price.note
    assert "elasticache-us-east-1" in price.note


@pytest.mark.parametrize(
    ("cost", "host", "message"),
    [
        ({}, "graviton3", "cost.node_type: found none, and graviton3 has no price"),
        ({"payment": "reserved_1_year"}, "r7g.xlarge", "cost.payment"),
        ({"node_type": "cache.m7g.huge"}, "r7g.xlarge", "cost.node_type"),
        (
            {"node_type": "cache.m7g.16xlarge", "payment": "reserved_3_years"},
            "r7g.xlarge",
            "cost.usd_per_month",
        ),
        ({"node_type": "cache.m7g.xlarge", "prices": "nowhere"}, "r7g.xlarge", "prices"),
    ],
)
def test_an_unknown_price_is_refused(cost: dict[str, Any], host: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        node_price(NodeCost.model_validate(cost), nodes(host))


def test_cost_never_falls() -> None:
    events = [{"event": "resize", "at_s": 60, "shards": 1}]
    found = run({"usd_per_month": 73.0}, events=events)
    so_far = next(s for s in found.series if s.panel == "cost so far")
    assert (np.diff(so_far.values) > 0).all()
