from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forecache.calibration.observe.readers.benchmark import (
    BenchmarkResult,
    parse_benchmark,
)
from forecache.sim.errors import InputError

SAMPLES = Path(__file__).with_name("samples") / "benchmark"


def read_benchmark(path: Path) -> list[BenchmarkResult]:
    return parse_benchmark(path.read_text(), file=str(path))


def test_csv() -> None:
    results = read_benchmark(SAMPLES / "redis-7.0.csv")
    assert [result.test for result in results] == ["SET", "GET", "LPUSH", "MSET (10 keys)"]
    assert results[1].p99_ms == 1.991
    assert len(read_benchmark(SAMPLES / "valkey-8.0.csv")) == 4


def test_csv_before_6_2() -> None:
    results = read_benchmark(SAMPLES / "redis-5.csv")
    assert results[2] == BenchmarkResult(test="MSET (10 keys)", throughput_rps=41017.23)


def test_a_csv_row_with_latencies_and_without_header() -> None:
    line = '"SET","108026.36","0.851","0.224","0.879","1.247","1.551","14.343"\n'
    (result,) = parse_benchmark(line, file="x")
    assert (result.test, result.throughput_rps, result.max_ms) == ("SET", 108026.36, 14.343)


def test_csv_columns_we_do_not_know() -> None:
    text = '"test","rps","avg_latency_ms","bytes"\n"GET","10.0","0.5","7"\n'
    (result,) = parse_benchmark(text, file="x")
    assert result == BenchmarkResult(test="GET", throughput_rps=10.0, mean_ms=0.5)


def test_quotes_and_commas_in_a_csv_title() -> None:
    (result,) = read_benchmark(SAMPLES / "redis-7.0-command.csv")
    assert result.test == 'GET key,"a":__rand_int__'
    assert result.throughput_rps == 54200.54


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Could not connect\n",
        '"GET","-nan"\n',
        '"GET","0.00"\n',
        '"GET","1.0","2.0"\n',
        '"GET","74239.05\n',
        'GET","74239.05"\n"SET","1.0"\n',
        "GET: 62695.92 requests per second, p50=0.175 msec\n",
        '"GET","10.0","0.5","0.6","0.7","0.8","0.9","1.0"\n',
        '"test","rps","avg_latency_ms"\n"GET","1.0"\n',
        '"test","rps","rps"\n"GET","1.0","2.0"\n',
    ],
)
def test_no_result(text: str) -> None:
    with pytest.raises(InputError, match=r"^x(, line [0-9]+)?: found .*; valid is "):
        parse_benchmark(text, file="x")


@st.composite
def results(draw: st.DrawFn) -> BenchmarkResult:
    title = draw(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1))
    low, p50, p95, p99, high = sorted(draw(st.tuples(*[st.integers(1, 10**7)] * 5)))
    return BenchmarkResult(
        test=title,
        throughput_rps=draw(st.integers(1, 10**9)) / 100,
        mean_ms=draw(st.integers(low, high)) / 1000,
        min_ms=low / 1000,
        p50_ms=p50 / 1000,
        p95_ms=p95 / 1000,
        p99_ms=p99 / 1000,
        max_ms=high / 1000,
    )


@given(st.lists(results(), min_size=1, max_size=5), st.booleans())
def test_csv_round_trip(wanted: list[BenchmarkResult], has_header: bool) -> None:
    # A title that ends like a number in its own cell can't be told from one more column.
    assume(not any('"' in result.test for result in wanted))
    lines = [
        f'"{r.test}","{r.throughput_rps:.2f}","{r.mean_ms:.3f}","{r.min_ms:.3f}",'
        f'"{r.p50_ms:.3f}","{r.p95_ms:.3f}","{r.p99_ms:.3f}","{r.max_ms:.3f}"'
        for r in wanted
    ]
    header = (SAMPLES / "redis-7.0.csv").read_text().splitlines()[0]
    text = "\n".join([header, *lines] if has_header else lines)
    assert parse_benchmark(text, file="x") == wanted
