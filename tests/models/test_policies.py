"""A threading policy is a record: one that is added here runs, and every answer takes it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forecache.hwprofiles.files import dump_yaml, read_yaml
from forecache.models.advice.answers import explain, recommend
from forecache.models.engines.profile import load_engine
from forecache.models.node.policies import POLICIES, SINGLE_THREAD
from forecache.sim.errors import InputError
from tests.models.test_node_twin import compared
from verification.nodes.sample_node import sample_setup

# The example of docs/architecture.md: I/O threads that an engine starts and never uses.
IDLE_HELPERS = replace(
    SINGLE_THREAD,
    name="test_helpers",
    configuration="helpers {io_threads}\n{settings}{tls}",
    caveat="{engine} is an example: its I/O threads have nothing to do",
)
SETTING: dict[str, Any] = {"io_threads": 3, "warmup_ps": 10**8, "end_ps": 10**9}


@pytest.fixture
def added() -> Iterator[str]:
    """The example among the policies, for one test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(POLICIES, IDLE_HELPERS.name, IDLE_HELPERS)
        yield IDLE_HELPERS.name
    assert IDLE_HELPERS.name not in POLICIES


@pytest.fixture
def engine(tmp_path: Path, checkout: Path) -> str:
    """An engine's file that names the example."""
    file = checkout / "models" / "engines" / "valkey-8.0.yaml"
    profile = read_yaml(file)
    path = tmp_path / "example.yaml"
    path.write_text(dump_yaml({**profile, "id": "example", "policy": IDLE_HELPERS.name}))
    return str(path)


def scenario(engine: str, io_threads: object) -> dict[str, Any]:
    workload = {"clients": 50, "keys": 100_000, "mix": {"get": 0.8, "set": 0.2}}
    host = "graviton3-c7g.4xlarge"
    return {"host": host, "engine": engine, "io_threads": io_threads, "workload": workload}


def test_both_executions_of_an_added_policy_agree(added: str) -> None:
    node = compared(added, {}, sample_setup(**SETTING))
    assert node.latency().count > 100


@pytest.mark.parametrize("quota_ps", [0, 5 * 10**7])
def test_they_agree_where_its_threads_share_a_core(added: str, quota_ps: int) -> None:
    """A thread that is never used must not run the steps of another when it gets a core."""
    shared = {"server_cores": 1, "quota_ps": quota_ps, "quota_period_ps": 10**8}
    node = compared(added, {}, sample_setup(**SETTING, **shared))
    assert node.latency().count > 50


@pytest.mark.usefixtures("added")
def test_an_added_policy_is_recommended_with_its_own_words(engine: str) -> None:
    answer = recommend(scenario(engine, {"sweep": [1, 3]}))
    # Threads that do nothing are worth nothing.
    assert answer.recommendation.setting == {"io_threads": 1}
    assert answer.recommendation.conf == "helpers 1\n"
    assert "example is an example: its I/O threads have nothing to do" in answer.points[1].warnings
    assert sum(answer.points[1].io_thread_utilisation) == 0


@pytest.mark.usefixtures("added", "short_runs")
def test_an_added_policy_is_explained(engine: str) -> None:
    [point] = explain(scenario(engine, 3)).points
    rows = point.stages
    total_us = sum(row.us_per_request for row in rows)
    assert total_us == pytest.approx(point.server_cpu_us_per_request.value)
    assert {row.thread for row in rows if row.stage in ("read", "execute")} == {"main"}


def test_a_policy_that_nobody_added_is_refused(engine: str) -> None:
    with pytest.raises(InputError, match=r"'test_helpers'; valid is 'single_thread', .* or '"):
        load_engine(engine)


def test_names_of_policies_are_those_of_their_records() -> None:
    assert all(name == policy.name for name, policy in POLICIES.items())
