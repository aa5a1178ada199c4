"""The node as WebAssembly answers as the shared library does, to the bit."""

import os
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evidence.calculator.module import COUNTERS, WEB_POLICIES, build_module, numbers_of_run
from forecache.models.advice.cases import load_cases
from forecache.models.node.layout import SOURCES, new_node
from forecache.models.node.policies import POLICIES, running, under_policy
from forecache.models.node.setup import NodeSetup, NodeTimes
from forecache.models.node.simulate import run_compiled
from forecache.models.prediction.node_setup import node_setup
from forecache.models.prediction.simulation import times_of

wasmtime = pytest.importorskip("wasmtime", reason="no wasmtime")
if find_spec("ziglang") is None:
    pytest.skip("no ziglang", allow_module_level=True)

ENGINES = ("valkey 9.1", "valkey 8.1", "redis 8.6", "redis 7.2", "elasticache-redis 7.1")
HOSTS = ("c7g.4xlarge", "c8g.4xlarge", "c7a.8xlarge")
RUNS = 40
MS = 10**9

Run = Callable[[str, NodeTimes, NodeSetup], dict[str, Any]]


@pytest.fixture(scope="module")
def in_module(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs in the module, one after the other in the same memory."""
    path = tmp_path_factory.mktemp("web") / "node.wasm"
    build_module(path)
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    module = wasmtime.Module.from_file(engine, os.fspath(path))
    assert list(module.imports) == []
    called = wasmtime.Instance(store, module, []).exports(store)

    def words(at: int, count: int) -> np.ndarray:
        raw = called["memory"].read(store, at, at + 8 * count)
        return np.frombuffer(bytes(raw), np.int64)

    def run(policy: str, times: NodeTimes, setup: NodeSetup) -> dict[str, Any]:
        row = numbers_of_run(times, setup)
        at = called["input"](store, len(row))
        called["memory"].write(store, row.tobytes(), at)
        codes, ahead = len(times.parse_by_code_ps), len(times.prefetch_by_keys_ps)
        events = called["simulate"](store, WEB_POLICIES.index(policy), codes, ahead)
        entries = max(1, -(-setup.end_ps // setup.series_ps))
        threads = setup.io_threads + setup.generators
        return {
            "events": events,
            "counters": dict(
                zip(COUNTERS, words(called["counters"](store), len(COUNTERS)), strict=True)
            ),
            "latencies": words(called["latencies"](store), 63 * 128 + 4),
            "series": words(called["series"](store), 3 * entries),
            "busy": words(called["busy"](store), threads),
            "backlog": called["backlog"](store),
        }

    return run


def runs(seed: int) -> tuple[str, NodeTimes, NodeSetup]:
    """A policy with durations and rules, of a random scenario."""
    rng = np.random.default_rng(seed)
    engine, version = ENGINES[rng.integers(len(ENGINES))].split()
    clients = int(rng.integers(1, 120))
    workload: dict[str, Any] = {
        "clients": clients,
        "pipeline": int(rng.choice([1, 1, 4, 20])),
        "mix": {"get": 0.7, "set": 0.3} if rng.random() < 0.7 else {"set": 1.0},
        "value_bytes": int(rng.choice([16, 200, 3000, 40_000])),
        "keys": 1_000_000,
    }
    if rng.random() < 0.4:
        workload |= {
            "arrival": "open_loop",
            "rate_rps": float(rng.uniform(1e4, 3e5)),
            "pipeline": 1,
        }
    scenario = {
        "host": str(rng.choice(HOSTS)),
        "engine": engine,
        "engine_version": version,
        "io_threads": int(rng.integers(1, 9)),
        "workload": workload,
    }
    [(case, system)] = load_cases(scenario)
    inputs = system.inputs(case.scenario, draw=int(rng.integers(3)))
    end_ps = int(rng.integers(4, 30)) * MS
    setup = node_setup(
        inputs, warmup_ps=end_ps // 4, end_ps=end_ps, seed=seed, replication=int(rng.integers(9))
    )
    policy = running(inputs.engine.policy, io_threads=inputs.scenario.io_threads).name
    return policy, times_of(inputs), under_policy(policy, setup)


def test_every_policy_that_has_a_page_is_compiled() -> None:
    source = (SOURCES / "web" / "web.c").read_text()
    listed = re.search(r"policies\[\] = \{([^}]*)\}", source)
    assert listed is not None
    expected = [f"run_{POLICIES[name].compiled}" for name in WEB_POLICIES]
    assert [name.strip() for name in listed[1].split(",")] == expected


@pytest.mark.long
@pytest.mark.parametrize("seed", range(RUNS))
def test_runs_are_those_of_the_shared_library(in_module: Run, seed: int) -> None:
    policy, times, setup = runs(seed)
    found = in_module(policy, times, setup)
    node = new_node(times, setup)
    assert found["events"] == run_compiled(policy, node)
    expected = {name: node.counter(name) for name in COUNTERS}
    assert found["counters"] == expected
    assert found["counters"]["completions"] > 0
    np.testing.assert_array_equal(found["latencies"], node.histogram)
    np.testing.assert_array_equal(found["series"], node.series().ravel())
    np.testing.assert_array_equal(found["busy"], node.threads["busy_ps"])
    assert found["backlog"] == node.backlog_at_start()


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(OSError, match="pip install ziglang"):
        build_module(tmp_path / "node.wasm")
