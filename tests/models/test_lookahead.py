"""Commands of a pipeline parsed ahead, and their keys fetched together (Redis 8.4 on)."""

from pathlib import Path
from typing import Any

import pytest

from forecache.models.advice.answers import load_cases
from forecache.models.memory.contents import command_structures
from forecache.models.prediction.predict import SERVER_CPU, predict_cases


def cpu_us(version: str, workload: dict[str, Any] | None = None, **fields: Any) -> float:
    """CPU time per request of a saturated server with one thread; Redis, unless told."""
    asked = {
        "clients": 50,
        "pipeline": 64,
        "mix": {"get": 1.0},
        "keys": 1_000_000,
        "value_bytes": 512,
    } | (workload or {})
    place = {"host": "graviton3", "engine": "redis", "engine_version": version}
    case, system = load_cases({**place, **fields, "workload": asked})[0]
    [found] = predict_cases([(case, system)], seed=1, draws=0, replications=1, requests=8000)
    return found.mean(SERVER_CPU)


def test_waits_for_memory_of_a_pipeline_overlap_with_one_thread() -> None:
    # 8.2 keeps keys and values in the same way, and prepares no command ahead.
    assert cpu_us("8.6") < 0.85 * cpu_us("8.2")


@pytest.mark.parametrize("fields", [{"pipeline": 1}, {"keys": 1000}])
def test_without_a_pipeline_or_waits_there_is_little_to_gain(fields: dict[str, Any]) -> None:
    # A shorter way to the object, and the work of preparing commands ahead: 8.6.3 retires up to
    # 44% more instructions than 8.0.6, counted in valgrind.
    assert 0.9 * cpu_us("8.2", fields) < cpu_us("8.6", fields) < 1.44 * cpu_us("8.2", fields)


@pytest.mark.parametrize(
    ("engine", "version", "io_threads", "fetched"),
    [
        ("redis", "8.6", 1, True),
        ("redis", "8.6", 4, True),
        ("valkey", "9.1", 1, False),  # walks to the entries only
        ("valkey", "9.1", 4, True),
    ],
)
def test_whether_values_are_fetched_with_their_keys(
    engine: str, version: str, io_threads: int, fetched: bool
) -> None:
    fields = {"engine": engine, "engine_version": version, "io_threads": io_threads}
    case, system = load_cases(
        {"host": "graviton3", **fields, "workload": {"mix": {"get": 1.0}, "value_bytes": 512}}
    )[0]
    inputs = system.inputs(case.scenario)
    [kind] = inputs.kinds
    found = command_structures(kind, case.scenario, system.engine, inputs.work)
    assert {s.name: s.prefetched for s in found}["value"] is fetched


def test_what_the_documentation_says_of_it(checkout: Path) -> None:
    """docs/models.md, Redis 8: on the host that Valkey 8.0 was observed on."""
    found = {
        (engine, version): cpu_us(
            version,
            host=str(checkout / "evidence/bundles/valkey-8.0/host.yaml"),
            engine=engine,
            load_generator={"tool": "valkey-benchmark", "same_host": True, "threads": 1},
        )
        for engine, version in (("redis", "8.6"), ("valkey", "8.0"))
    }
    assert found["redis", "8.6"] / found["valkey", "8.0"] == pytest.approx(0.58, abs=0.02)
