"""Numbers and sentences as an engineer writes them."""

import math

import numpy as np
import pytest

from forecache.reports import formats, shapes, wording
from forecache.reports.formats import UNKNOWN, Interval
from tests.reports.study_fixture import graviton_target


@pytest.mark.parametrize(
    ("value_rps", "text"),
    [
        (1_184_000.0, "1.18 M/s"),
        (11_840_000.0, "11.8 M/s"),
        (999_600.0, "1.00 M/s"),
        (999_400.0, "999 k/s"),
        (142_000, "142 k/s"),
        (14_230.0, "14.2 k/s"),
        (1_423.0, "1.42 k/s"),
        (950.0, "950 /s"),
        (0, "0 /s"),
        (None, UNKNOWN),
        (math.nan, UNKNOWN),
        (math.inf, UNKNOWN),
    ],
)
def test_rate(value_rps: float | None, text: str) -> None:
    assert formats.rate(value_rps) == text


@pytest.mark.parametrize(
    ("value_ms", "text"),
    [
        (0.9312, "0.93 ms"),
        (0.0841, "84 µs"),
        (0.0012, "1.20 µs"),
        (12.34, "12.3 ms"),
        (123.4, "123 ms"),
        (12_000.0, "12.0 s"),
        (None, UNKNOWN),
    ],
)
def test_milliseconds(value_ms: float | None, text: str) -> None:
    assert formats.milliseconds(value_ms) == text


@pytest.mark.parametrize(
    ("value_ns", "text"), [(412.0, "412 ns"), (41.2, "41.2 ns"), (2314.0, "2.31 µs")]
)
def test_nanoseconds(value_ns: float, text: str) -> None:
    assert formats.nanoseconds(value_ns) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.123, "12%"), (0.0123, "1.2%"), (-0.05, "−5.0%"), (0.0, "0%"), (None, UNKNOWN)],
)
def test_percent(fraction: float | None, text: str) -> None:
    assert formats.percent(fraction) == text


def test_percent_with_sign() -> None:
    assert formats.percent(0.021, signed=True) == "+2.1%"
    assert formats.percent(-0.021, signed=True) == "−2.1%"


def test_bounds_share_the_unit_of_the_value() -> None:
    assert formats.rate_with_bounds(Interval(1.02e6, 0.97e6, 1.07e6)) == "1.02 M/s (0.97–1.07)"
    assert formats.time_with_bounds(Interval(0.93, 0.85, 1.07)) == "0.93 ms (0.85–1.07)"
    assert formats.rate_with_bounds(Interval(1.02e6)) == "1.02 M/s"
    assert formats.rate_with_bounds(None) == UNKNOWN
    assert formats.rate_with_margin(Interval(1e6, 0.9e6, 1.1e6)) == "1.00 M/s ±10%"


def test_estimates_are_read_from_every_form() -> None:
    assert formats.interval({"value": 2, "low": 1, "high": 3}) == Interval(2.0, 1.0, 3.0)
    assert formats.interval(np.float64(2.5)) == Interval(2.5)
    assert formats.interval({"x": 4}, "x") == Interval(4.0)
    assert formats.interval({"x": None}, "x") is None
    assert formats.interval({"value": math.nan, "low": 1, "high": 2}) is None
    assert formats.interval({"value": 1.0, "low": None, "high": math.inf}) == Interval(1.0)
    assert formats.interval(True) is None


def test_sizes_counts_and_dollars() -> None:
    assert formats.byte_size(512) == "512 B"
    assert formats.byte_size(32 * 2**20) == "32 MiB"
    assert formats.byte_size(1280 * 1024) == "1.25 MiB"
    assert formats.count(3_000_000).replace("\N{NARROW NO-BREAK SPACE}", " ") == "3 000 000"
    assert formats.dollars(0.000137) == "$0.000137"
    assert formats.dollars(1234.5) == "$1,234.50"
    assert formats.dollars(None) == UNKNOWN


def test_plain_hides_what_is_unknown() -> None:
    assert formats.plain(None) == UNKNOWN
    assert formats.plain(math.nan) == UNKNOWN
    assert formats.plain({"a": 1, "b": None}) == f"a 1, b {UNKNOWN}"
    assert formats.plain([1, 2.5]) == "1, 2.5"
    assert formats.plain(True) == "yes"


def test_headline() -> None:
    target = graviton_target()
    point = shapes.chosen_point(target)
    assert wording.headline(target["recommendation"], point) == (
        "Run io-threads 6: 1.18 M requests/s (1.05–1.31), p99 0.93 ms; limited by the main thread"
    )
    used = {"bandwidth": 0.5, "packets": 0.99, "one connection": 0.1}
    network = {**target["recommendation"], "bottleneck": "network", "network_limits": used}
    assert wording.headline(network, point).endswith("; limited by the network (packets)")
    advice = target["recommendation"]
    missed = {**advice, "setting": None, "closest": advice["setting"]}
    told = wording.headline(missed, point)
    assert told.startswith("No setting meets the objective; io-threads 6 comes closest: 1.18 M")
    assert wording.headline({}, {}) == "No setting recommended"
    assert wording.headline({"setting": {"io_threads": 2}}, {}) == "Run io-threads 2"


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"throughput_loss": 0.21, "low": 0.12, "high": 0.31}, "21% less (12–31%)"),
        ({"throughput_loss": -0.02, "low": -0.03, "high": -0.01}, "2.0% more (1.0–3.0%)"),
        (
            {"throughput_loss": 0.01, "low": -0.01, "high": 0.03},
            "no clear difference (−3.0% to +1.0%)",
        ),
        (
            {"throughput_loss": 0.27, "low": -0.024, "high": 0.48},
            "probably 27% less (−48% to +2.4%)",
        ),
        ({"throughput_loss": 0.001, "low": -0.001, "high": 0.002}, "no difference"),
        ({"throughput_loss": 0.21}, "21% less"),
        ({"throughput_loss": 0.001}, "no difference"),
        ({"throughput_loss": None}, "not predicted"),
    ],
)
def test_loss_phrase(row: dict[str, float | None], text: str) -> None:
    assert wording.loss_phrase(row) == text


def test_candidates_hold_the_recommendation_in_sweep_order() -> None:
    found = wording.ordered_candidates(graviton_target())
    assert [x for x, _, _ in found] == [1, 2, 3, 4, 6, 8, 9, 12, 16]
    assert [x for x, _, chosen in found if chosen] == [6]


def test_warnings_of_points_say_where_and_appear_once() -> None:
    target = {
        "warnings": ["general", "general"],
        "points": [
            {"given": {"io_threads": n}, "warnings": ["everywhere", *(["odd"] if n % 2 else [])]}
            for n in (1, 2, 3)
        ],
    }
    assert shapes.all_warnings(target) == ["general", "everywhere", "io-threads 1, 3: odd"]


def test_a_sweep_of_something_else_is_found() -> None:
    target = {"points": [{"given": {"clients": n}} for n in (100, 50)]}
    assert shapes.swept_key(target) == "clients"
    assert [x for x, _ in shapes.swept_points(target)] == [50, 100]


def test_nothing_saturated_is_said_in_words() -> None:
    idle = {
        "setting": {"io_threads": 1},
        "bottleneck": "none",
        "next_bottleneck": {"name": "none", "at_rps": None},
    }
    assert wording.headline(idle, {}) == "Run io-threads 1; nothing is saturated"
    assert wording.key_facts(idle, {}) == [("Limited by", "nothing, no station is saturated")]


def test_a_measurement_that_changes_nothing_is_not_advised() -> None:
    row = {"what": "observe valkey once more", "needs_host": False, "margin": 0.158}
    answer = {"quantity": "throughput at io-threads 2", "margin": 0.161, "measurements": [row]}
    [phrase] = wording.tightening_phrases(answer)
    assert phrase == "no measurement would noticeably narrow throughput at io-threads 2 (±16%)"
    [phrase] = wording.tightening_phrases({**answer, "margin": 0.3})
    assert phrase == "observe valkey once more (throughput at io-threads 2: ±30% would become ±16%)"
    assert wording.tightening_phrases({**answer, "measurements": []}) == []
