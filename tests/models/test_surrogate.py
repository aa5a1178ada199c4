"""Capacity and latency of a node: agreement with the node model, and what is kept on disk."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.models.advice.answers import load_cases
from forecache.models.over_time.cluster import surrogate as module
from forecache.models.over_time.cluster.run import run_cluster
from forecache.models.over_time.cluster.schema import ClusterScenario
from forecache.models.over_time.cluster.surrogate import (
    QUANTILES,
    Surrogate,
    between,
    requests_at,
    surrogate_of,
)
from forecache.models.prediction.predict import WORKERS, predict_cases
from forecache.sim.cache_folders import cache_folder
from forecache.sim.errors import InputError

NODE: dict[str, Any] = {
    "host": "graviton3-m7g.xlarge",
    "engine": "valkey",
    "engine_version": "8.1",
    "workload": {"keys": 1_000_000, "value_bytes": 512},
}


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """A cache of its own, in memory and on disk."""
    monkeypatch.setattr(module, "_SURROGATES", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return monkeypatch


def _made() -> Surrogate:
    row = (1.0,) * len(QUANTILES)
    return Surrogate(1.0, 1.0, (0.5,), (row,), (1.0,), (0.0, 0.6, 1.0), (0.0, 0.0, 0.0), 0.0)


@pytest.mark.usefixtures("fresh")
def test_a_surrogate_agrees_with_the_node_model_in_between() -> None:
    surrogate, _, _ = surrogate_of(NODE)
    assert surrogate.error < 0.15
    assert 1e5 < surrogate.capacity_rps < 1e6
    # One thread: at capacity it has no time left.
    assert surrogate.main_ps == pytest.approx(1e12 / surrogate.capacity_rps, rel=0.02)
    grid = np.linspace(0.0, 1.2, 50)
    for quantile in (0.5, 0.99):
        latency = [surrogate.latency(load, quantile) for load in grid]
        assert min(np.diff(latency)) >= -0.03 * latency[0]
    assert surrogate.latency(0.5, 0.99) > surrogate.latency(0.5, 0.5)


STEADY = {
    "one thread": {"engine": "valkey", "engine_version": "7.2"},
    "I/O threads and TLS": {
        "engine": "valkey",
        "engine_version": "8.1",
        "io_threads": 6,
        "tls": {},
    },
    "clients spread over threads": {"engine": "redis", "engine_version": "8.2", "io_threads": 4},
    "threads that are all alike": {"engine": "memcached", "io_threads": 4},
}
"""Nodes by their threading policy."""


@pytest.mark.parametrize("policy", STEADY)
def test_a_shard_and_a_node_agree_under_the_same_steady_load(policy: str) -> None:
    nodes = {"host": "graviton3-m7g.2xlarge", **STEADY[policy]}
    data = {"keys": 1_000_000, "value_bytes": 512}
    mix = {"get": 0.8, "set": 0.2}
    surrogate, _, _ = surrogate_of({**nodes, "workload": {**data, "mix": mix}})
    for share in (0.1, 0.5, 0.97):
        rate_rps = share * surrogate.capacity_rps
        workload = {
            **data, "mix": mix, "arrival": "open_loop", "rate_rps": rate_rps, "clients": 400,
        }  # fmt: skip
        one = {**nodes, "workload": workload, "load_generator": {"threads": 64}}
        # As long as the surrogate's own runs and with the same streams: what differs isn't chance.
        requests = requests_at(share)
        [node] = predict_cases(load_cases(one), draws=0, replications=1, requests=requests)
        run = run_cluster(
            ClusterScenario.model_validate({
                "kind": "cluster", "duration_s": 5, "cluster": {"shards": 1, **nodes},
                "data": data, "clients": {"pods": 1, "workers_per_pod": 400},
                "demand": {"rate_rps": rate_rps, "mix": mix},
            }),
            1,
            lambda _line: None,
        )  # fmt: skip
        seen = {series.name: float(np.mean(series.values)) for series in run.series}
        main = node.utilisation.get("main thread", node.utilisation.get(WORKERS, 0.0))
        assert seen["main thread, mean"] == pytest.approx(main, abs=0.015)
        if surrogate.io_threads[-1] > 0:
            helpers = node.utilisation["I/O threads"]
            assert seen["busiest I/O thread, mean"] == pytest.approx(helpers, abs=0.02)
        assert seen["p50"] == pytest.approx(node.mean("p50_ms"), rel=0.03)
        # Close to saturation p99 also depends on which clients' turn it is.
        assert seen["p99"] == pytest.approx(node.mean("p99_ms"), rel=0.05 if share < 0.9 else 0.1)


def test_short_steps_leave_latency_alone() -> None:
    # Chance between steps is not added to that within the node model's latencies.
    def p99(step_s: float) -> float:
        run = run_cluster(
            ClusterScenario.model_validate({
                "kind": "cluster", "duration_s": 10, "step_s": step_s, "data": {"keys": 1_000_000},
                "cluster": {"shards": 1, "host": "graviton3-m7g.xlarge", "engine": "valkey",
                            "engine_version": "8.1"},
                "clients": {"pods": 1, "workers_per_pod": 400},
                "demand": {"rate_rps": 0.9 * capacity_rps, "mix": {"get": 1.0}},
            }),
            1,
            lambda _line: None,
        )  # fmt: skip
        [found] = [series.values for series in run.series if series.name == "p99"]
        return float(np.mean(found))

    capacity_rps = surrogate_of({
        "host": "graviton3-m7g.xlarge", "engine": "valkey", "engine_version": "8.1",
        "workload": {"keys": 1_000_000, "mix": {"get": 1.0}},
    })[0].capacity_rps  # fmt: skip
    assert p99(0.02) == pytest.approx(p99(0.25), rel=0.02)


def test_latency_between_loads_is_that_of_a_queue() -> None:
    # Waiting in M/D/1 is u/(2(1 - u)) services.
    loads = [0.85, 0.91, 0.95, 0.98]
    waits = [u / (2 * (1 - u)) for u in loads]
    for u in (0.88, 0.93, 0.965):
        assert between(u, loads, waits) == pytest.approx(u / (2 * (1 - u)), rel=0.03)
    assert between(1.5, loads, waits) == pytest.approx(waits[-1])


@given(st.lists(st.floats(0.01, 100.0), min_size=2, max_size=8))
def test_what_lies_between_stays_between(values: list[float]) -> None:
    loads = np.linspace(0.1, 0.98, len(values))
    asked = np.linspace(0.0, 1.0, 101)
    found = between(asked, tuple(loads), values)
    assert min(values) * 0.999 <= found.min() <= found.max() <= max(values) * 1.001
    assert between(loads, tuple(loads), values) == pytest.approx(values)
    if sorted(values) == values:
        assert np.all(np.diff(found) >= -1e-9 * max(values))


def _surrogates() -> list[Path]:
    folder = cache_folder("surrogates")
    assert folder is not None
    return list(folder.iterdir())


def test_what_was_simulated_once_is_kept(fresh: pytest.MonkeyPatch) -> None:
    first, _, _ = surrogate_of(NODE)
    [kept] = _surrogates()
    fresh.setattr(module, "_SURROGATES", {})

    def refuse(*_: object, **__: object) -> Surrogate:
        raise AssertionError("simulated again")

    fresh.setattr(module, "simulated", refuse)
    again, _, _ = surrogate_of(NODE)
    assert again == first
    # Another workload is another surrogate.
    with pytest.raises(AssertionError):
        surrogate_of({**NODE, "workload": {"keys": 1_000_000, "value_bytes": 513}})
    # So is what a changed model makes of it.
    fresh.setattr(module, "_SURROGATES", {})
    fresh.setattr(module, "source_digest", lambda: "another")
    with pytest.raises(AssertionError):
        surrogate_of(NODE)
    assert kept.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"key": 3}',
        "\x00\x01",
        json.dumps({"key": "KEY", "capacity_rps": 1.0}),
        json.dumps(
            {
                "key": "KEY",
                "capacity_rps": 1.0,
                "main_ps": 1.0,
                "loads": [0.1],
                "latency_ms": [[1.0, 2.0]],
                "mean_ms": [1.0],
                "main_thread": [0.0, 0.1, 1.0],
                "io_threads": [0.0, 0.0, 0.0],
                "error": 0.0,
            }
        ),
    ],
)
def test_a_damaged_or_foreign_file_is_ignored(fresh: pytest.MonkeyPatch, text: str) -> None:
    made = _made()
    fresh.setattr(module, "simulated", lambda *_, **__: made)
    surrogate_of(NODE)
    [kept] = _surrogates()
    kept.write_text(text.replace("KEY", kept.stem))
    fresh.setattr(module, "_SURROGATES", {})
    found, _, _ = surrogate_of(NODE)
    assert found == made


def test_a_folder_that_can_not_be_written_to_does_no_harm(
    fresh: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    made = _made()
    fresh.setattr(module, "simulated", lambda *_, **__: made)
    (tmp_path / "forecache").write_text("a file, not a folder")
    assert surrogate_of(NODE)[0] == made


def test_an_unknown_host_is_refused() -> None:
    with pytest.raises(InputError, match="no host"):
        surrogate_of({**NODE, "host": "nowhere"})
