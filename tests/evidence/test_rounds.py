"""What studies of live engines share: how they are asked, and columns of errors."""

from pathlib import Path

import pytest

from evidence.live import rounds
from evidence.live.engines import Engine
from forecache.sim.errors import InputError


def test_errors_repeats_and_windows_inside_are_of_the_medians() -> None:
    row = {
        "cpu_us": [10.0] * 3 + [12.0] * 3,
        "throughput_rps": [100_000.0] * 6,
        "predicted_us": 9.9,
        "low_us": 9.0,
        "high_us": 11.0,
        "predicted_rps": 110_000.0,
    }
    assert rounds.error_cells([row]) == ["10.0%", "10.0%", "-10.0%", "20.0%", "50%", "10.0%"]


def test_an_engine_that_is_not_there_is_named_with_those_that_are() -> None:
    engines = [Engine("redis", "7.0.15", Path("redis-7.0.15"))]
    assert rounds.engine_of(engines, "redis-7.0.15") is engines[0]
    with pytest.raises(InputError, match=r"no valkey-8\.0\.1 \(redis-7\.0\.15\)"):
        rounds.tool_of(engines, "valkey-benchmark")


def test_seeds_are_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEED", "7")
    assert rounds.seed() == 7
    monkeypatch.setenv("SEED", "x")
    with pytest.raises(InputError, match="SEED: found 'x'"):
        rounds.seed()


def test_seeds_of_a_host_are_those_of_its_engines(tmp_path: Path) -> None:
    for engine, seed in (("redis-7.0.15", 5), ("valkey-8.0.1", 4), ("valkey-9.1.2", 5)):
        (tmp_path / engine).mkdir()
        rounds.keep_seed(tmp_path / engine, seed)
    assert rounds.seeds_of(tmp_path) == [4, 5]
