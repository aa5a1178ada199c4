import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.observe.readers.benchmark import MemtierResult, parse_memtier
from forecache.sim.errors import InputError

SAMPLES = Path(__file__).with_name("samples") / "memtier"


def read_memtier(path: Path) -> MemtierResult:
    return parse_memtier(path.read_text(), file=str(path))


def data() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SAMPLES / "format2.json").read_text())
    return loaded


def test_a_real_run() -> None:
    result = read_memtier(SAMPLES / "format2.json")
    assert result.duration_s == 799.002
    assert list(result.commands) == ["Sets", "Gets", "Waits"]
    gets, waits = result.commands["Gets"], result.commands["Waits"]
    assert (gets.requests, gets.throughput_rps, gets.misses_per_s) == (64732139, 81016.28, 64715.58)
    assert (gets.mean_ms, gets.min_ms, gets.max_ms) == (0.354, 0.04, 23.935)
    assert gets.percentiles_ms == {50: 0.231, 90: 0.759, 95: 0.951, 99: 1.415, 99.9: 2.575}
    assert (waits.requests, waits.mean_ms, waits.percentiles_ms) == (0, None, {})


def test_the_layout_of_version_2() -> None:
    result = read_memtier(SAMPLES / "version2.json")
    assert list(result.commands) == ["Sets", "Gets"]
    assert result.totals.requests == 2700
    assert result.totals.percentiles_ms == {50.0: 0.103, 99.0: 0.503, 99.9: 2.911}


def test_percentiles_with_three_decimals() -> None:
    text = (SAMPLES / "format2.json").read_text().replace('"p99.90"', '"p99.900"')
    assert parse_memtier(text, file="x").totals.percentiles_ms[99.9] == 2.575


def test_the_average_of_several_runs() -> None:
    runs = data()
    runs["RUN #1 RESULTS"] = {}
    runs["AGGREGATED AVERAGE RESULTS (2 runs)"] = runs.pop("ALL STATS")
    assert parse_memtier(json.dumps(runs), file="x") == read_memtier(SAMPLES / "format2.json")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"Count": 7192475', '"Count": 8192475', "Ops/sec"),
        ('"Ops/sec": 9001.83', '"Ops/sec": 19001.83', "Ops/sec"),
        (
            '"Ops/sec": 90018.1',
            '"Ops/sec": null',
            "field 'Ops/sec': found nothing; valid is a number",
        ),
        ('"Ops/sec": 90018.1', '"Ops/sec": NaN', "no JSON"),
        (
            '"Ops/sec": 90018.1',
            '"Ops/sec": 1e999',
            "field 'Ops/sec': found inf; valid is a finite number",
        ),
        ('"Ops/sec": 90018.1', '"Ops": 90018.1', "the field 'Ops/sec' is missing"),
        ('"Count": 71924614', '"Count": 7.5', "field 'Count': found 7.5; valid is an integer"),
        ('"Count": 71924614', '"Count": true', "field 'Count': found True; valid is an integer"),
        (
            '"MILLISECONDS"',
            '"SECONDS"',
            "field 'Time unit': found 'SECONDS'; valid is 'MILLISECONDS'",
        ),
        ('"p50.00": 0.231', '"p50.00": 1.231', "out of order"),
        ('"p50.00": 0.231', '"p90.00": 0.231', "given twice"),
        ('"Totals": {', '"Totals": [', "no JSON"),
        ('"ALL STATS"', '"STATS"', "no result; valid is ALL STATS"),
    ],
)
def test_damaged_json(old: str, new: str, message: str) -> None:
    text = (SAMPLES / "format2.json").read_text()
    assert old in text
    with pytest.raises(InputError, match=f"^x.*{message}"):
        parse_memtier(text.replace(old, new), file="x")


@pytest.mark.parametrize(
    "text", ["", "Totals 90018.10", "[" * 100_000, "[1, 2]", "{}", '{"ALL STATS": 3}', "0"]
)
def test_no_result(text: str) -> None:
    with pytest.raises(InputError, match=r"^x.*valid is "):
        parse_memtier(text, file="x")


@given(
    st.dictionaries(st.sampled_from(["Sets", "Gets", "Hsets"]), st.integers(1, 10**9), min_size=1),
    st.integers(1, 10**6),
)
def test_json_round_trip(counts: dict[str, int], duration_ms: int) -> None:
    def stats(count: int) -> dict[str, object]:
        return {"Count": count, "Ops/sec": round(count / duration_ms * 1e3, 2), "Latency": 0.5}

    parts: dict[str, object] = {name: stats(count) for name, count in counts.items()}
    everything = parts | {
        "Runtime": {"Total duration": duration_ms, "Time unit": "MILLISECONDS"},
        "Totals": stats(sum(counts.values())),
    }
    result = parse_memtier(json.dumps({"ALL STATS": everything}), file="x")
    assert {name: command.requests for name, command in result.commands.items()} == counts
    assert result.totals.requests == sum(counts.values())
    assert result.duration_s == duration_ms / 1e3
