"""`recommend` over lists of hosts and versions: the plan of one node that it is."""

from copy import deepcopy
from typing import Any

import pytest

import forecache
from forecache.models.advice.cases import machine_lists
from forecache.models.plan.one_node import one_node_plan
from forecache.models.plan.results import PlanAnswer
from forecache.models.plan.schema import PlanScenario
from forecache.sim.errors import InputError

NODE: dict[str, Any] = {
    "host": {"sweep": ["r7g.large", "r7g.xlarge"]},
    "engine": "valkey",
    "engine_version": {"sweep": ["8.1", "9.1"]},
    "workload": {
        "arrival": "open_loop", "rate_rps": 30_000, "clients": 40, "keys": 100_000,
        "mix": {"get": 0.9, "mget": {"share": 0.1, "keys": 5}},
    },
    "slo": {"p99_ms": 1.0, "probability": 0.9},
}  # fmt: skip


def changed(**fields: Any) -> dict[str, Any]:
    """The node with other fields, named by path."""
    data = deepcopy(NODE)
    for path, value in fields.items():
        place, *names = data, *path.split("__")
        for name in names[:-1]:
            place = place[name]
        if value is None:
            place.pop(names[-1])
        else:
            place[names[-1]] = value
    return data


def test_a_node_with_lists_is_a_plan_of_one_shard() -> None:
    plan = PlanScenario(**one_node_plan(NODE, file="x"))
    assert plan.choices.instances == ["r7g.large", "r7g.xlarge"]
    assert [each.versions for each in plan.choices.engines] == [["8.1", "9.1"]]
    assert (plan.choices.shards.least, plan.choices.shards.most) == (1, 1)
    assert plan.choices.io_threads == "automatic"
    assert plan.demand.operations.a_second == 30_000
    assert plan.demand.operations.mget is not None
    assert (plan.demand.operations.mget.a_second, plan.demand.operations.mget.keys) == (3_000, 5)


def test_lists_are_only_of_hosts_engines_and_versions() -> None:
    assert machine_lists(NODE) == ["host", "engine_version"]
    assert machine_lists({**NODE, "host": "r7g.large", "engine_version": "9.1"}) == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"workload__arrival": "closed_loop", "workload__rate_rps": None}, "without a rate"),
        ({"slo": None}, "without a rate to serve and an slo"),
        ({"irq_cores": 1}, "field 'irq_cores'"),
        ({"workload__value_bytes": {"sweep": [10, 20]}}, "field 'workload.value_bytes'"),
        ({"workload__key_pattern": "sequential"}, "field 'workload.key_pattern'"),
        ({"host": {"sweep": ["r7g.larg", "r7g.large"]}}, "did you mean 'r7g.large'"),
    ],
)
def test_what_a_plan_has_nothing_like_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        one_node_plan(changed(**fields), file="x")


@pytest.mark.usefixtures("short_runs")
def test_the_cheapest_node_that_meets_the_slo() -> None:
    answer = forecache.recommend(NODE)
    assert isinstance(answer, PlanAnswer)
    best = answer.plans[0]
    assert (best.setting.instance, best.setting.nodes) == ("r7g.large", 1)
    assert all(plan.usd_per_month >= best.usd_per_month for plan in answer.plans)
    assert {each.setting.engine_version for each in answer.plans} == {"8.1", "9.1"}
