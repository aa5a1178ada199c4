"""Capacity and latency of a node: agreement with the node model, and what is kept on disk."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecache.models.cluster import surface as module
from forecache.models.cluster.surface import (
    QUANTILES,
    Surface,
    between,
    surface_of,
)
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
    monkeypatch.setattr(module, "_SURFACES", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return monkeypatch


@pytest.mark.usefixtures("fresh")
def test_a_surface_agrees_with_the_node_model_in_between() -> None:
    surface, _, _ = surface_of(NODE)
    assert surface.error < 0.15
    assert 1e5 < surface.capacity_rps < 1e6
    # One thread: at capacity it has no time left.
    assert surface.main_ps == pytest.approx(1e12 / surface.capacity_rps, rel=0.02)
    grid = np.linspace(0.0, 1.2, 50)
    for quantile in (0.5, 0.99):
        latency = [surface.latency(load, quantile) for load in grid]
        assert min(np.diff(latency)) >= -0.03 * latency[0]
    assert surface.latency(0.5, 0.99) > surface.latency(0.5, 0.5)


def test_latency_between_loads_is_that_of_a_queue() -> None:
    # Waiting in M/D/1 is u/(2(1 - u)) services.
    loads = [0.85, 0.91, 0.95, 0.98]
    waits = [u / (2 * (1 - u)) for u in loads]
    for u in (0.88, 0.93, 0.965):
        assert between(u, loads, waits) == pytest.approx(u / (2 * (1 - u)), rel=0.03)
    assert between(1.5, loads, waits) == pytest.approx(waits[-1])


def _surfaces() -> list[Path]:
    folder = cache_folder("surfaces")
    assert folder is not None
    return list(folder.iterdir())


def test_what_was_simulated_once_is_kept(fresh: pytest.MonkeyPatch) -> None:
    first, _, _ = surface_of(NODE)
    [kept] = _surfaces()
    fresh.setattr(module, "_SURFACES", {})

    def refuse(*_: object, **__: object) -> Surface:
        raise AssertionError("simulated again")

    fresh.setattr(module, "simulated", refuse)
    again, _, _ = surface_of(NODE)
    assert again == first
    # Another workload is another surface.
    with pytest.raises(AssertionError):
        surface_of({**NODE, "workload": {"keys": 1_000_000, "value_bytes": 513}})
    # So is what a changed model makes of it.
    fresh.setattr(module, "_SURFACES", {})
    fresh.setattr(module, "_model_digest", lambda: "another")
    with pytest.raises(AssertionError):
        surface_of(NODE)
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
                "error": 0.0,
            }
        ),
    ],
)
def test_a_damaged_or_foreign_file_is_ignored(fresh: pytest.MonkeyPatch, text: str) -> None:
    made = Surface(1.0, 1.0, (0.5,), ((1.0,) * len(QUANTILES),), (1.0,), 0.0)
    fresh.setattr(module, "simulated", lambda *_, **__: made)
    surface_of(NODE)
    [kept] = _surfaces()
    kept.write_text(text.replace("KEY", kept.stem))
    fresh.setattr(module, "_SURFACES", {})
    found, _, _ = surface_of(NODE)
    assert found == made


def test_a_folder_that_can_not_be_written_to_does_no_harm(
    fresh: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    made = Surface(1.0, 1.0, (0.5,), ((1.0,) * len(QUANTILES),), (1.0,), 0.0)
    fresh.setattr(module, "simulated", lambda *_, **__: made)
    (tmp_path / "forecache").write_text("a file, not a folder")
    assert surface_of(NODE)[0] == made


def test_a_host_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match="no host"):
        surface_of({**NODE, "host": "nowhere"})
