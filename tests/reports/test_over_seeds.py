"""Several seeds in terminal and page: means with intervals, differences to the first point."""

import io
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from forecache.reports.page import render_html
from forecache.reports.terminal import print_answer
from forecache.reports.text.formats import estimate_text
from tests.reports.series_fixture import as_result, sweep
from tests.reports.test_report_html import Page

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("value", "low", "high", "unit", "text"),
    [
        (264.2, 240.1, 288.3, "", "264 (240–288)"),
        (23996.4, 23164.0, 24829.0, "", "23,996 (23,164–24,829)"),
        (2.0, 1.2, 2.8, "nodes", "2.00 nodes (1.20–2.80)"),
        (0.125, -0.17, 0.42, "", "0.12 (−0.17 to 0.42)"),
        (1.42, 1.28, 1.56, "s", "1.42 s (1.28–1.56)"),
        (0.0821, 0.071, 0.0932, "share", "8.2% (7.1–9.3)"),
        (39.9958, 39.986, 40.0057, "", "40.00 (39.99–40.01)"),
        (12.31, 11.4, 13.22, "USD/h", "$12.31/h ($11.40–$13.22)"),
        (6.4e-5, 3.3e-5, 57.9, "s", "64 µs (33 µs–57.9 s)"),
        (199.0, 104.0, math.inf, "s", "199 s (104 s or more)"),
        (199.0, 104.0, None, "s", "199 s (104 s or more)"),
        (7.0, 7.0, 7.0, "", "7"),
        (7.0, None, None, "s", "7.00 s"),
        (None, None, None, "s", "–"),
        ("network (2), server (1)", None, None, "", "network (2), server (1)"),
    ],
)
def test_an_estimate_has_the_digits_its_interval_leaves(
    value: Any, low: Any, high: Any, unit: str, text: str
) -> None:
    assert estimate_text(value, low, high, unit) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "unit", "text"),
    [
        (-18.2, -29.3, -7.1, "", "−18 (−29 to −7)"),
        (0.04, -0.13, 0.21, "s", "+40 ms (−130 to +210)"),
        (0.0, 0.0, 0.0, "", "0"),
        (-3, -3, -3, "per machine-day", "−3 per machine-day"),
        (3, 3, 3, "", "+3"),
        (-0.001, -0.5, 0.498, "", "0.00 (−0.50 to +0.50)"),
    ],
)
def test_a_difference_has_a_sign(
    value: float, low: float, high: float, unit: str, text: str
) -> None:
    assert estimate_text(value, low, high, unit, signed=True) == text


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12), st.sampled_from(["", "s", "share", "nodes"]))
def test_the_interval_is_written_around_the_value(value: float, half: float, unit: str) -> None:
    if value - half == value + half:
        return
    text = estimate_text(value, value - half, value + half, unit, signed=True)
    assert re.fullmatch(r"[−+]?[\d,.]+ ?[^\d]*\([−+]?[\d,.]+ to [−+]?[\d,.]+\)", text)


def over_seeds() -> Json:
    """A sweep of three points with eight seeds; of one fact all differ, of another none."""
    result = sweep() | {"seeds": 8}
    result["provenance"] = {"seed": 3}
    result["points"] = result["points"][:2]
    for index, point in enumerate(result["points"]):
        moved = {"name": "moved", "value": 40.5 + index, "unit": "s per machine-day", "note": "n"}
        moved |= {"low": 38.0 + index, "high": 43.0 + index}
        if index:
            moved["against_first"] = {"value": 1.0, "low": 0.5, "high": 1.5}
        same = {"name": "same", "value": 4.0, "unit": "s", "note": "", "low": 3.0, "high": 5.0}
        point["facts"] = [moved, same]
    return result


def printed(found: Json, width: int) -> str:
    buffer = io.StringIO()
    print_answer(as_result(found), Console(file=buffer, width=width, force_terminal=False))
    return buffer.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_terminal_has_a_row_for_each_point_under_its_fact(width: int) -> None:
    text = printed(over_seeds(), width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "Means over seeds 3 to 10 with 95% intervals" in text
    block = text.split("moved, s per machine-day")[1].split("The same at all")[0]
    head, first, second = [line for line in block.splitlines() if line.strip()]
    assert "difference to" in head
    assert first.rstrip().endswith("40.5 (38.0–43.0)")
    assert re.search(r"41\.5 \(39\.0–44\.0\) +\+1\.00 \(\+0\.50 to \+1\.50\)$", second.rstrip())
    assert re.search(r"same +4\.0 s \(3\.0–5\.0\)", text)


@pytest.mark.parametrize(
    ("against", "text"),
    [
        ({"value": 1.0, "low": -0.5, "high": 2.5}, "no clear difference (−0.5 to +2.5)"),
        ({"value": 0.3, "low": 0.1, "high": 0.5}, "no clear difference (+0.10 to +0.50)"),
        ({"value": 0.0, "low": 0.0, "high": 0.0}, "no clear difference"),
    ],
)
def test_a_difference_that_may_be_none_or_is_under_a_hundredth_is_not_clear(
    against: dict[str, float], text: str
) -> None:
    result = over_seeds()
    result["points"][1]["facts"][0]["against_first"] = against
    assert re.search(rf" {re.escape(text)} *$", printed(result, 120), re.MULTILINE)


def test_one_point_has_intervals_and_nothing_to_compare_with() -> None:
    result = over_seeds()
    result["points"] = result["points"][:1]
    text = printed(result, 80)
    assert re.search(r"moved +40\.5 s per machine-day \(38\.0–43\.0\)", text)
    assert "difference" not in text


def test_the_page_says_the_same() -> None:
    result = over_seeds()
    html = render_html(as_result(result))
    page = Page(html)
    assert "Means over seeds 3 to 10" in page.text
    assert "+1.00 (+0.50 to +1.50)" in page.text
    assert "moved, s per machine-day" in page.text
    del result["seeds"]
    assert "Means over seeds" not in render_html(as_result(result))
