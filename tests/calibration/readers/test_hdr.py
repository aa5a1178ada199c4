import base64
import math
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.observe.readers.hdr import (
    HdrHistogram,
    Interval,
    decode_histogram,
    encode_histogram,
    parse_hlog,
    read_hlog,
    write_hlog,
)
from forecache.calibration.observe.readers.hgrm import parse_hgrm, read_hgrm, write_hgrm
from forecache.calibration.observe.readers.lines import Place
from forecache.sim.errors import InputError
from forecache.sim.histogram import MAX_RELATIVE_ERROR

SAMPLES = Path(__file__).with_name("samples") / "hdr"
HERE = Place("x", 7)


@st.composite
def histograms(draw: st.DrawFn, *, min_size: int = 0) -> HdrHistogram:
    lowest = draw(st.integers(1, 10_000))
    highest = draw(st.integers(2 * lowest, 2**50))
    values = draw(
        st.dictionaries(
            st.integers(0, highest), st.integers(1, 2**40), min_size=min_size, max_size=30
        )
    )
    digits = draw(st.integers(0, 4))
    return HdrHistogram.of(values, lowest=lowest, highest=highest, digits=digits)


@given(histograms())
def test_encoding_round_trip(histogram: HdrHistogram) -> None:
    assert decode_histogram(encode_histogram(histogram), place=HERE) == histogram


@given(st.integers(0, 2**40), st.integers(1, 1000), st.integers(0, 5))
def test_a_bucket_holds_its_values_and_is_narrow(value: int, lowest: int, digits: int) -> None:
    histogram = HdrHistogram.of({value: 3}, lowest=lowest, highest=2**40, digits=digits)
    (bucket,) = histogram.buckets()
    assert bucket.low <= value <= bucket.high
    assert bucket.count == 3
    assert bucket.high - bucket.low < max(lowest, value / 10**digits)
    assert histogram.bucket_of(bucket.low) == histogram.bucket_of(bucket.high)
    assert histogram.bucket_of(bucket.high + 1) == histogram.bucket_of(value) + 1
    assert histogram.bucket_of(value) < histogram.n_buckets


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50), st.floats(0, 1))
def test_quantile_is_the_bucket_of_the_ranked_value(values: list[int], q: float) -> None:
    counts = {value: values.count(value) for value in values}
    histogram = HdrHistogram.of(counts, highest=10**6)
    ranked = sorted(values)[max(1, math.ceil(q * len(values))) - 1]
    assert histogram.quantile(q) == histogram.bucket(histogram.bucket_of(ranked)).high


def test_an_empty_histogram() -> None:
    histogram = HdrHistogram.of({})
    assert (histogram.count, histogram.max, histogram.mean) == (0, None, None)
    assert histogram.quantile(0.5) is None
    assert histogram.to_latencies(unit_ps=1000).count == 0


@given(histograms(min_size=1))
def test_as_latencies(histogram: HdrHistogram) -> None:
    latencies = histogram.to_latencies(unit_ps=1000)
    assert latencies.count == histogram.count
    assert histogram.mean is not None
    assert latencies.mean == pytest.approx(histogram.mean * 1000, rel=1e-9)
    for q in (0.0, 0.5, 0.99, 1.0):
        high = histogram.quantile(q)
        assert high is not None
        bucket = histogram.bucket(histogram.bucket_of(high))
        middle_ps = bucket.middle * 1000
        assert latencies.quantile(q) == pytest.approx(middle_ps, rel=MAX_RELATIVE_ERROR, abs=1)


def test_latencies_too_long() -> None:
    with pytest.raises(InputError, match=r"valid is less than 2\*\*61 ps"):
        HdrHistogram.of({2**51: 1}).to_latencies(unit_ps=1_000_000)


def test_a_real_log() -> None:
    intervals = read_hlog(SAMPLES / "jhiccup.hlog")
    assert len(intervals) == 62
    tag, start_s, length_s, histogram = intervals[9]
    assert (tag, start_s, length_s) == (None, 9.132, 1.751)
    # jHiccup shows the maximum in milliseconds and counts nanoseconds.
    assert histogram.max == pytest.approx(1551.892e6, rel=1e-6)
    assert sum(interval.histogram.count for interval in intervals) == 48761


@given(histograms(min_size=1), histograms(min_size=1))
def test_log_round_trip(
    tmp_path_factory: pytest.TempPathFactory, first: HdrHistogram, second: HdrHistogram
) -> None:
    path = tmp_path_factory.mktemp("hlog") / "a.hlog"
    intervals = [Interval(None, 0.0, 1.0, first), Interval("get", 1.0, 0.5, second)]
    write_hlog(path, intervals, values_per_unit=1)
    assert read_hlog(path) == intervals


def sealed(*, plain: bytes, cookie: int = 0x1C849314) -> str:
    packed = zlib.compress(plain)
    return base64.b64encode(struct.pack(">Ii", cookie, len(packed)) + packed).decode()


def plain(payload: bytes = b"\x02", *, cookie: int = 0x1C849313, ratio: float = 1.0) -> bytes:
    return struct.pack(">Iiiiqqd", cookie, len(payload), 0, 2, 1, 100, ratio) + payload


def test_a_sealed_histogram_is_read() -> None:
    assert decode_histogram(sealed(plain=plain()), place=HERE).counts == {0: 1}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "HISTFAAA",
        "HISTF*AAA",
        sealed(plain=plain(), cookie=0x1C849302),
        sealed(plain=plain(cookie=0x1C849301)),
        sealed(plain=plain(ratio=0.5)),
        sealed(plain=plain()[:30]),
        sealed(plain=plain() + b"\x02"),
        sealed(plain=plain(b"\x82")),
        sealed(plain=plain(b"\xff" * 9)),
        sealed(plain=plain(b"\xfe" * 18)),
        sealed(plain=plain(b"\x02" * 20_000)),
        sealed(plain=struct.pack(">Iiiiqqd", 0x1C849313, 0, 0, 9, 1, 100, 1.0)),
        sealed(plain=struct.pack(">Iiiiqqd", 0x1C849313, 0, 0, 2, 0, 100, 1.0)),
        sealed(plain=bytes(1 << 23)),
    ],
)
def test_damaged_histograms(text: str) -> None:
    with pytest.raises(InputError, match=r"^x, line 7: found .*; valid is "):
        decode_histogram(text, place=HERE)


def test_every_damaged_character_of_a_payload_is_noticed() -> None:
    histogram = HdrHistogram.of({5: 100, 700: 3, 701: 8}, highest=10**6)
    text = encode_histogram(histogram)
    for at in range(len(text.rstrip("=")) - 1):
        other = "A" if text[at] != "A" else "B"
        try:
            read = decode_histogram(text[:at] + other + text[at + 1 :], place=HERE)
        except InputError:
            continue
        assert read == histogram


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x: found no interval"),
        ("#[Histogram log format version 2.0]\n", "line 1: found the version '2.0]'"),
        ("\n0.1,1.0,2.0\n", "line 2: found '0.1,1.0,2.0'"),
        ("0.1,-1.0,2.0,HISTFAAAA\n", "line 1: found '-1.0' as the length"),
        (f"0,1,35.0,{sealed(plain=plain())}\n", "line 1: found '35.0' as the interval's maximum"),
    ],
)
def test_damaged_logs(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        parse_hlog(text, file="x")


def test_a_real_percentile_table() -> None:
    table = read_hgrm(SAMPLES / "percentiles.hgrm")
    assert (table.count, table.mean, len(table.rows)) == (475109, 25.048, 97)
    assert table.quantile(0.5) == 11.167
    assert table.quantile(1.0) == 9428.991


@given(histograms(min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_table_round_trip(
    tmp_path_factory: pytest.TempPathFactory, histogram: HdrHistogram, q: float
) -> None:
    path = tmp_path_factory.mktemp("hgrm") / "a.hgrm"
    write_hgrm(path, histogram, values_per_unit=1)
    table = read_hgrm(path)
    assert table.count == histogram.count
    assert table.mean == pytest.approx(histogram.mean, abs=0.001)
    exact = histogram.quantile(q)
    assert exact is not None
    assert table.quantile(q) >= exact
    if q in (0.0, 0.5, 1.0):  # rows of the table
        assert table.quantile(q) == exact


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("475109]", "475108]"),
        ("Mean    =       25.048", "Mean    =       95.048"),
        ("    0.980     0.100000", "    0.980     0.110000"),
        ("    3.609 ", "    0.609 "),
        ("       142539 ", "        42539 "),
        ("#[Mean", "[Mean"),
        ("#[Max ", ""),
        (" 1.11\n", "\n"),
        ("1/(1-Percentile)", ""),
    ],
)
def test_damaged_tables(old: str, new: str) -> None:
    text = (SAMPLES / "percentiles.hgrm").read_text()
    assert old in text
    with pytest.raises(InputError, match=r"^x(, line [0-9]+)?: found .*; valid is "):
        parse_hgrm(text.replace(old, new), file="x")
