"""Numbers and sentences as an engineer writes them."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from forecache.models.advice.next_measurement import Gain, MeasureNext
from forecache.models.advice.recommend import Regret
from forecache.reports.builders import recommended as wording
from forecache.reports.builders.explained import measurements_section
from forecache.reports.document import TextTable
from forecache.reports.text import formats, points
from forecache.reports.text.formats import UNKNOWN
from forecache.reports.text.settings import engine_name
from forecache.sim.statistics import Estimate
from tests.made_points import made_point
from tests.reports.study_fixture import graviton_target, recommendation


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
    assert formats.rate_with_bounds(Estimate(1.02e6, 0.97e6, 1.07e6)) == "1.02 M/s (0.97–1.07)"
    assert formats.time_with_bounds(Estimate(0.93, 0.85, 1.07)) == "0.93 ms (0.85–1.07)"
    assert formats.time_with_bounds(Estimate(0.93, 0.85, math.inf)) == "0.93 ms (0.85 or more)"
    assert formats.rate_with_bounds(None) == UNKNOWN
    assert formats.rate_with_margin(Estimate(1e6, 0.9e6, 1.1e6)) == "1.00 M/s ±10%"


def test_sizes_counts_and_dollars() -> None:
    assert formats.byte_size(512) == "512 B"
    assert formats.byte_size(32 * 2**20) == "32 MiB"
    assert formats.byte_size(1280 * 1024) == "1.25 MiB"
    assert formats.count(3_000_000) == "3,000,000"
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
    advice, point = recommendation(), points.chosen_point(graviton_target())
    assert wording.action(advice) == "Run io-threads 6"
    facts = ["1.18 M requests/s (1.05–1.31)", "p99 0.93 ms", "limited by the main thread"]
    assert wording.headline_facts(advice, point) == facts
    used = {"bandwidth": 0.5, "packets": 0.99, "one connection": 0.1}
    network = replace(advice, bottleneck="network", network_limits=used)
    assert wording.headline_facts(network, point)[-1] == "limited by the network (packets)"
    missed = replace(advice, setting=None, closest=advice.setting)
    assert wording.action(missed) == "No setting meets the objective; io-threads 6 comes closest"


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((0.21, 0.12, 0.31), "21% less (12–31%)"),
        ((-0.02, -0.03, -0.01), "2.0% more (1.0–3.0%)"),
        ((0.01, -0.01, 0.03), "no clear difference (−3.0% to +1.0%)"),
        ((0.27, -0.024, 0.48), "no clear difference (−48% to +2.4%)"),
        ((0.001, -0.001, 0.002), "no clear difference"),
        ((0.001, 0.001, 0.001), "no clear difference"),
        ((0.008, 0.001, 0.02), "no clear difference (−2.0% to −0.1%)"),
    ],
)
def test_loss_phrase(row: tuple[float, float, float], text: str) -> None:
    assert wording.loss_phrase(Regret(4, *row, why_not="")) == text


def test_warnings_of_points_say_where_and_appear_once() -> None:
    made = [made_point(n, warnings=["everywhere", *(["odd"] if n % 2 else [])]) for n in (1, 2, 3)]
    target = graviton_target(points=made, load_curve=[], warnings=["general", "general"])
    assert points.target_warnings(target) == ["general", "everywhere", "io-threads 1, 3: odd"]


def test_points_are_found_in_the_order_of_their_threads() -> None:
    made = [made_point(n) for n in (8, 2, 4)]
    assert [x for x, _ in points.by_threads(graviton_target(points=made))] == [2, 4, 8]


def test_nothing_saturated_is_said_in_words() -> None:
    idle = replace(recommendation(), bottleneck="none", next_bottleneck=None)
    point = made_point(6)
    assert wording.headline_facts(idle, point)[-1] == "nothing is saturated"
    assert ("Limited by", "nothing, no station is saturated") in wording.key_facts(idle, point)
    assert "Next limit" not in dict(wording.key_facts(idle, point))


def test_a_measurement_that_changes_nothing_is_not_advised() -> None:
    gain = Gain("observe valkey once more", [], needs_host=False, share=0.1, margin=0.158)
    answer = MeasureNext("throughput at io-threads 2", 0.161, 0.15, [gain])
    [phrase] = points.tightening_phrases(answer)
    assert phrase == "no measurement would noticeably narrow throughput at io-threads 2 (±16%)"
    [phrase] = points.tightening_phrases(replace(answer, margin=0.3))
    assert phrase == "observe valkey once more (throughput at io-threads 2: ±30% would become ±16%)"
    assert points.tightening_phrases(replace(answer, measurements=[])) == []
    assert points.narrowing(answer) == []
    assert points.known_phrase(answer).endswith("; no measurement would noticeably narrow that")
    better = replace(gain, margin=0.152)
    both = replace(answer, measurements=[better, gain])
    assert points.narrowing(both) == [better]
    [table] = [part for part in measurements_section(both).parts if isinstance(part, TextTable)]
    assert list(table.columns[0].cells) == [better.what]
    assert "no measurement" not in points.known_phrase(both)


@pytest.mark.parametrize(
    ("engine_id", "version", "name"),
    [
        ("valkey-9.1", "9.1", "valkey 9.1"),
        ("valkey-9.1", "9.1.2", "valkey 9.1.2"),
        ("valkey-9.1", "9.10", "valkey-9.1 9.10"),
        ("redis-8.0", "8.2", "redis-8.0 8.2"),
        ("mine", "9.1", "mine 9.1"),
        ("elasticache-redis-7.1", "7.1", "elasticache-redis 7.1"),
        ("valkey-9.1-captured-x", "9.1.2", "valkey 9.1.2 as observed on captured-x"),
    ],
)
def test_an_engine_has_its_version_once(engine_id: str, version: str, name: str) -> None:
    assert engine_name(SimpleNamespace(id=engine_id, version=version)) == name
