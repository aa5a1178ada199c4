"""Results over time: what terminal and page show of them, and that they lose nothing."""

import io
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rich.console import Console

from forecache import cli
from forecache.models.over_time import simulate_scenario
from forecache.models.results.series import Table
from forecache.reports.figures.over_time import thinned_line, time_ticks
from forecache.reports.page import render_html
from forecache.reports.sparklines import sparkline
from forecache.reports.terminal import print_answer
from forecache.reports.text.formats import quantity
from forecache.reports.text.runs import Moment, cell_texts, comparison, moment_times, panels_of
from tests.reports.series_fixture import as_result, as_run, point, result, sweep
from tests.reports.test_report_html import Page

Json = dict[str, Any]


def printed(found: Json, width: int = 80) -> str:
    buffer = io.StringIO()
    print_answer(as_result(found), Console(file=buffer, width=width, force_terminal=False))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1_180_000.0, "1/s", "1.18 M/s"),
        (281.0, "s", "281 s"),
        (905.0, "s", "15.1 min"),
        (30_000.0, "s", "8.33 h"),
        (0.0021, "s", "2.10 ms"),
        (0.4, "share", "40%"),
        (0.0213, "share", "2.1%"),
        (16384, "", "16,384"),
        (3, "nodes", "3 nodes"),
        (5.4e9, "bytes", "5.03 GiB"),
        (0.0, "ms", "0 ms"),
        (None, "s", "–"),
        (float("nan"), "s", "–"),
        ("main thread", "", "main thread"),
        (True, "", "yes"),
        (147e6, "1/min", "147 M/min"),
        (12.5, "1/h", "12 /h"),
        (147e6, "ECPU/min", "147 M ECPU/min"),
        (30_000.0, "ECPU/s", "30,000 ECPU/s"),
        (336e6, "ECPU", "336 M ECPU"),
        (1.7136, "USD/h", "$1.71/h"),
        (0.0175, "USD/GB/h", "$0.0175/GB/h"),
        (2_501_856.0, "USD/month", "$2,501,856/month"),
        (-141.2, "USD", "−$141.20"),
        (0.0, "USD", "$0.00"),
    ],
)
def test_a_value_is_written_in_its_unit(value: object, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=1e-9, max_value=1e15))
def test_a_positive_value_is_never_written_as_nothing(value: float) -> None:
    for unit in ("1/s", "1/min", "ms", "s", "bytes", "share", "keys", "USD/h"):
        digits = re.sub(r"e[-−+]\d+", "", quantity(value, unit))
        assert re.search("[1-9]", digits), (unit, value)


@pytest.mark.parametrize("found", [result(), sweep()], ids=["one", "sweep"])
def test_terminal_fits_80_columns_without_cutting_anything(found: Json) -> None:
    for line in printed(found).splitlines():
        assert len(line) <= 80, line
        assert "…" not in line


def test_terminal_tells_facts_tables_lines_and_what_happened() -> None:
    text = printed(result())
    assert "three shards to five · cluster" in text
    assert re.search(r"resize finished +300 s +after it began", text)
    assert "owns its slots" in text
    assert re.search(r"answered +19\.\d k/s +47\.\d k/s +51\.\d k/s +█", text)
    assert re.search(r"connections +0 +6,119 +10,000", text)
    assert re.search(r"2 +200 s +shard 4 stops answering", text)


def test_points_of_a_sweep_are_compared_by_what_varies() -> None:
    text = printed(sweep())
    head = text[: text.index("The same at all")]
    assert re.search(r"150,000 +2,010", head)
    assert "resize finished" not in head
    assert text.count("resize finished") == 1
    assert comparison(as_result(result()).points) is None


@given(
    arrays(np.float64, st.integers(2, 300), elements=st.floats(0, 1e6)),
    st.integers(12, 60),
)
def test_sparkline_is_as_wide_as_asked_and_grows_with_values(
    values: np.ndarray, width: int
) -> None:
    times_s = np.arange(values.size, dtype=float)
    drawn = sparkline(times_s, values, width)
    assert len(drawn) == width
    # A constant line at its own greatest value is full, one of zeros empty.
    assert sparkline(times_s, np.full(values.size, 3.0), width) == "█" * width
    assert sparkline(times_s, np.zeros(values.size), width) == "▁" * width
    rising = sparkline(times_s, times_s, width)
    assert all(a <= b for a, b in pairwise(rising))


def test_sparkline_leaves_gaps_where_there_is_no_value() -> None:
    values = np.array([1.0, 1.0, np.nan, np.nan, 1.0, 1.0])
    assert sparkline(np.arange(6.0), values, 6) == "██  ██"


@given(
    arrays(np.float64, st.integers(50, 3000), elements=st.floats(-1e6, 1e6)),
    st.integers(20, 400),
)
def test_a_thinned_line_keeps_ends_extremes_and_order(values: np.ndarray, most: int) -> None:
    times_s = np.arange(values.size, dtype=float)
    xs, ys = thinned_line(times_s, values, most)
    assert xs.size <= max(most, 8) + 4
    assert (np.diff(xs) > 0).all()
    assert (xs[0], xs[-1]) == (0.0, times_s[-1])
    assert (ys.min(), ys.max()) == (values.min(), values.max())
    assert np.array_equal(values[xs.astype(int)], ys)


def test_a_thinned_line_keeps_a_gap() -> None:
    values = np.ones(1000)
    values[500:503] = np.nan
    assert np.isnan(thinned_line(np.arange(1000.0), values, 100)[1]).any()


@given(st.floats(0.01, 1e6), st.integers(4, 12))
def test_time_ticks_are_few_and_inside(span_s: float, about: int) -> None:
    ticks, _, _ = time_ticks(0.0, span_s, about=about)
    assert 2 <= len(ticks) <= about + 1
    assert ticks[0] == 0
    assert ticks[-1] <= span_s * 1.000001


def test_times_of_moments_share_a_unit() -> None:
    def moments(*times_s: float) -> list[Moment]:
        return [Moment(i, time_s, "") for i, time_s in enumerate(times_s, 1)]

    assert moment_times(moments(60.0, 215.0)) == ["60 s", "215 s"]
    assert moment_times(moments(60.0, 215.25)) == ["60.0 s", "215.2 s"]
    assert moment_times(moments(60.0, 3600.0)) == ["1 min", "60 min"]
    assert moment_times(moments(600.0, 11_340.0)) == ["0:10 h", "3:09 h"]
    assert moment_times([]) == []


def test_series_of_one_panel_in_other_units_are_drawn_apart() -> None:
    found = result()["points"][0]
    found["series"]["columns"][5]["panel"] = "throughput"
    panels = [(p.name, p.unit, [line.name for line in p.lines]) for p in panels_of(as_run(found))]
    assert panels[:2] == [
        ("throughput", "1/s", ["offered", "answered"]),
        ("throughput", "", ["connections"]),
    ]
    assert panels[2:] == [
        ("errors", "1/s", ["timeouts"]),
        ("latency", "ms", ["p50", "p99"]),
        ("progress", "share", ["slots moved"]),
    ]


def test_lines_that_are_zero_all_the_time_are_named_only() -> None:
    found = point({})
    found["series"]["columns"][4]["values"] = [0.0] * 600
    assert "always 0: timeouts" in printed(result(found))
    html = render_html(as_result(result(found)))
    assert "Always 0: timeouts" in html
    assert "Errors" not in html


def test_page_is_whole_loads_nothing_and_tells_what_the_plots_show() -> None:
    html = render_html(as_result(sweep()))
    page = Page(html)
    assert page.nested
    assert page.open == []
    assert page.tags["script"] == page.tags["img"] == page.tags["link"] == 0
    assert not re.search(r"https?://", html)
    assert all(v.startswith("#") for _, name, v in page.attributes if name == "href")
    labels = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    # Five panels of three points and what differs between these, wide and narrow.
    assert len(labels) == (5 * 3 + 1) * 2
    assert "Latency against time: p50 from 0.24 ms to 14.7 ms" in " ".join(labels)
    # What was asked for stands on the page, as a file would say it.
    assert "name: three shards to five" in page.text
    for text in ("resize finished", "300 s", "shard 4 stops answering", "owns its slots"):
        assert text in page.text
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_page_numbers_moments_in_plot_and_list() -> None:
    found = point({})
    found["marks"] = [{"time_s": float(t), "what": f"key {t}"} for t in range(100, 125)]
    html = render_html(as_result(result(found)))
    # Too near each other for a number each.
    assert ">1–" in html
    assert "5 more" in html
    assert "key 124" in html


def test_page_treats_names_as_text() -> None:
    found = point({})
    found["facts"][0]["note"] = found["marks"][0]["what"] = "<script>alert(1)</script>"
    found["series"]["columns"][0]["name"] = "<b>$x$</b>"
    html = render_html(as_result(result(found)))
    assert "<script" not in html
    assert "<b>" not in html


def test_series_without_values_are_no_plot() -> None:
    found = point({})
    for column in found["series"]["columns"]:
        column["values"] = [None] * len(column["values"])
    assert "<svg" not in render_html(as_result(result(found)))
    assert "–" in printed(result(found))


def test_report_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> Json:
        raise AssertionError("simulated")

    monkeypatch.setattr(simulate_scenario, "simulate", never)
    scenario = tmp_path / "node.yaml"
    scenario.write_text("host: graviton3\n")
    assert cli.main(["simulate", str(scenario), "--report", str(tmp_path)]) == 2
    assert "--report" in capsys.readouterr().err
    missing = tmp_path / "nowhere" / "x.html"
    assert cli.main(["simulate", str(scenario), "--report", str(missing)]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert not missing.exists()


def test_report_is_written_and_the_answer_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate_scenario, "simulate", lambda *_, **__: as_result(result()))
    page = tmp_path / "page.html"
    assert cli.main(["simulate", "x.yaml", "--report", str(page)]) == 0
    told = capsys.readouterr()
    assert f"wrote {page}" in told.err
    assert "shard 4 stops answering" in told.out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_times_in_a_table_are_told_like_those_of_what_happened() -> None:
    table = Table("", [("at", "s"), ("lasts", "s")], [[660.0, 660.0], [7000.0, 1.0]])
    assert cell_texts(table, last_s=7200.0) == [["0:11 h", "11.0 min"], ["1:57 h", "1.00 s"]]
    assert cell_texts(table, last_s=0.0)[0][0] == "11.0 min"


def test_a_table_of_a_run_keeps_its_columns() -> None:
    found = result()
    names = [f"column {n}" for n in range(9)]
    rows = [[f"node {n}", *range(8)] for n in range(5)]
    columns = [{"name": name, "unit": ""} for name in names]
    found["points"][0]["tables"] = [{"title": "nodes", "columns": columns, "rows": rows}]
    html = render_html(as_result(found))
    assert all(f">{name}</th>" in html for name in names)
