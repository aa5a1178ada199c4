import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.connection import Address
from forecache.calibration.observe.design import Timing
from forecache.calibration.observe.observe import observe
from forecache.calibration.observe.tools import (
    find_tool,
    parse_benchmark_csv,
    parse_memtier_json,
    run_tool,
    tool_command,
    why_unsupported,
)
from forecache.sim.errors import EngineError, InputError
from tests.live_engine import need

HEADER = (
    '"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms",'
    '"p99_latency_ms","max_latency_ms"\n'
)


def test_benchmark_csv() -> None:
    line = '"SET","108026.36","0.851","0.224","0.879","1.247","1.551","14.343"\n'
    result = parse_benchmark_csv(HEADER + line, requests=100, source="x")
    assert result.throughput_rps == 108026.36
    assert (result.mean_ms, result.p50_ms, result.p99_ms) == (0.851, 0.879, 1.551)
    assert (result.p90_ms, result.p999_ms) == (None, None)
    assert result.requests == 100


def test_benchmark_csv_before_6_2() -> None:
    result = parse_benchmark_csv('"SET","74239.05"\n', requests=100, source="x")
    assert result.throughput_rps == 74239.05
    assert result.mean_ms is None


@pytest.mark.parametrize(
    "text", ["", HEADER, "Could not connect\n", HEADER + '"GET","-nan?","1"\n', '"GET","fast"\n']
)
def test_damaged_benchmark_csv(text: str) -> None:
    with pytest.raises(InputError, match=r"^x(, line [0-9]+)?: found"):
        parse_benchmark_csv(text, requests=100, source="x")


def memtier() -> dict[str, Any]:
    """The parts of a memtier_benchmark 1.4 result that are read, in its layout."""
    return {
        "configuration": {"pipeline": 1},
        "ALL STATS": {
            "Runtime": {"Total duration": 2000, "Time unit": "MILLISECONDS"},
            "Sets": {"Count": 1000, "Ops/sec": 500.0},
            "Gets": {"Count": 9000, "Ops/sec": 4500.0, "Misses/sec": 1.5},
            "Totals": {
                "Ops/sec": 5000.0,
                "Latency": 0.36,
                "Average Latency": 0.361,
                "Percentile Latencies": {"p50.00": 0.2, "p90.00": 0.5, "p99.00": 1.4},
            },
        },
    }


def test_memtier_json() -> None:
    result = parse_memtier_json(json.dumps(memtier()), source="x")
    assert (result.requests, result.throughput_rps) == (10_000, 5000.0)
    assert (result.mean_ms, result.p50_ms, result.p90_ms) == (0.361, 0.2, 0.5)
    assert (result.p99_ms, result.p999_ms) == (1.4, None)
    assert result.misses == 3
    assert result.duration_s == 2.0


def test_damaged_memtier_json() -> None:
    text = json.dumps(memtier(), indent=1)
    with pytest.raises(InputError, match=r"^x, line [0-9]+: no JSON"):
        parse_memtier_json(text[: len(text) // 2], source="x")
    data = memtier()
    del data["ALL STATS"]["Totals"]["Ops/sec"]
    with pytest.raises(InputError, match=r"^x, Totals: the field 'Ops/sec' is missing"):
        parse_memtier_json(json.dumps(data), source="x")
    with pytest.raises(InputError, match=r"^x: "):
        parse_memtier_json("[1, 2]", source="x")


def test_what_a_tool_can_not_do() -> None:
    benchmark, memtier = Path("redis-benchmark"), Path("memtier_benchmark")
    assert why_unsupported(benchmark, Conditions(command="get")) is None
    assert "mix of GET and SET" in str(why_unsupported(benchmark, Conditions(command="mix")))
    assert why_unsupported(memtier, Conditions(command="mix")) is None
    assert "think time" in str(why_unsupported(memtier, Conditions(command="get", think_us=5)))
    open_loop = Conditions(command="get", arrival="open_loop", rate_rps=10)
    assert "open loop" in str(why_unsupported(benchmark, open_loop))


def test_memtier_command_names_the_keys_we_load() -> None:
    words = tool_command(
        Path("memtier_benchmark"),
        Conditions(
            command="mix", get_fraction=0.8, keys=1000, clients=10, pipeline=4, value_bytes=64
        ),
        Address(port=7000),
        requests=5000,
        json_file=Path("out.json"),
    )
    pairs = dict(itertools.pairwise(words))
    assert (pairs["-s"], pairs["-p"]) == ("127.0.0.1", "7000")
    assert (pairs["--key-minimum"], pairs["--key-maximum"]) == ("100000000000", "100000000999")
    assert (pairs["--ratio"], pairs["--requests"], pairs["--data-size"]) == ("20:80", "500", "64")


def test_a_tool_that_fails(tmp_path: Path) -> None:
    tool = tmp_path / "redis-benchmark"
    tool.write_text("#!/bin/sh\necho some progress\necho 'no such host' >&2\nexit 3\n")
    tool.chmod(0o755)
    with pytest.raises(EngineError, match=r"redis-benchmark failed \(status 3\): no such host"):
        run_tool(tool, Conditions(command="get"), Address(), requests=10)
    tool.write_text("#!/bin/sh\necho nothing of use\n")
    with pytest.raises(EngineError, match="no result that can be read"):
        run_tool(tool, Conditions(command="get"), Address(), requests=10)


def test_unknown_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tool: found 'wrk'"):
        find_tool("wrk")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="redis-benchmark is not on PATH"):
        find_tool("redis-benchmark")


@pytest.mark.alone
@pytest.mark.parametrize("tool", ["redis-benchmark", "valkey-benchmark", "memtier_benchmark"])
def test_observing_with_a_real_tool(tool: str, binary: Path, tmp_path: Path) -> None:
    need(tool)
    bundle = observe(
        engine=binary,
        design=[Conditions(command="get", pipeline=8), Conditions(command="get", think_us=100.0)],
        out=tmp_path / "bundle",
        timing=Timing(warm_up_s=0.0, window_s=0.2, repetitions=1, patience_s=0.0),
        tool=tool,
    )
    assert bundle.manifest.method.tool == tool
    (point,) = bundle.points
    assert len(bundle.manifest.left_out) == 1
    repetition = point.repetitions[0]
    assert repetition.reads_per_request == pytest.approx(1 / 8, rel=0.05)
    assert repetition.main_thread_cpu_ns_per_request > 100
    assert repetition.generator_cpu_ns_per_request > 100
    assert repetition.histogram is None
    # The keys it names are the keys we loaded.
    info = bundle.info_text(point)
    assert info is not None
    assert "keyspace_misses:0\r" in info or "keyspace_misses:0\n" in info
