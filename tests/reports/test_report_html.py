"""The page: complete, self-contained, escaped, and unimpressed by missing parts."""

import copy
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from forecache.reports.html import render_html
from tests.reports.study_fixture import graviton_target, study

Json = dict[str, Any]

VOID = {"meta", "br", "wbr", "hr", "img", "input", "link", "col"}


class Page(HTMLParser):
    """Collects what the tests ask about, and checks that tags nest."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.open: list[str] = []
        self.nested = True
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.nested = False

    def handle_data(self, data: str) -> None:
        if not (self.open and self.open[-1] == "style"):
            self.text += data


@pytest.fixture(scope="module")
def html() -> str:
    return render_html(study())


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_page_is_complete_and_its_tags_nest(html: str, page: Page) -> None:
    assert html.lower().startswith("<!doctype html>")
    assert page.nested
    assert page.open == []
    assert page.tags["h1"] == 1


def test_page_loads_nothing_and_runs_nothing(html: str, page: Page) -> None:
    for tag in ("script", "link", "iframe", "object", "embed", "img", "image", "video"):
        assert page.tags[tag] == 0, tag
    assert "@import" not in html
    assert not re.search(r"https?://", html)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    for tag, name, value in page.attributes:
        if name in ("href", "src", "xlink:href"):
            assert value.startswith("#"), (tag, name, value)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", html))


def test_ids_are_unique_and_every_reference_has_its_target(html: str, page: Page) -> None:
    ids = Counter(value for _, name, value in page.attributes if name == "id")
    assert [name for name, times in ids.items() if times > 1] == []
    references = {v[1:] for _, name, v in page.attributes if name == "href" and v != "#"}
    references |= set(re.findall(r"url\(#([^)]*)\)", html))
    assert references - set(ids) == set()
    assert len([name for name in ids if name.startswith("f")]) > 20


def test_every_figure_is_there_twice_and_labelled(page: Page) -> None:
    labels = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    # Four figures for each of two targets, two of the calibration, one of the host; wide, narrow.
    assert len(labels) == 2 * (4 * 2 + 2 + 1)
    assert all(len(label) > 20 for label in labels)
    roles = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "role")]
    assert roles == ["img"] * len(labels)


def test_figures_scale_and_hold_text(html: str) -> None:
    for svg in re.findall(r"<svg .*?</svg>", html, flags=re.S):
        head = svg[: svg.index(">")]
        assert "viewBox" in head
        assert not re.search(r'\s(width|height)="', head)
        assert "<text" in svg
        assert "font-family" not in svg


def test_every_number_of_the_recommendation_is_on_the_page(page: Page) -> None:
    text = page.text
    assert "Run io-threads 6" in text
    assert "1.18 M requests/s (1.05–1.31)" in text
    assert "p99 0.93 ms" in text
    assert "limited by the main thread" in text
    for loss in ("82% less (80–84%)", "78% less (75–80%)", "58% less (53–62%)"):
        assert loss in text
    assert "37% less (31–43%)" in text
    assert "no clear difference (−0.6% to +3.1%)" in text
    assert "21% less (12–31%)" in text
    assert "load generator at 1.90 M/s" in text
    assert "p99 ≤ 1.00 ms: met" in text
    assert "120 k/s" in text
    assert "$0.000137 per million requests (on demand, us-east-1, 2026-07-20)" in text
    recommendation = graviton_target()["recommendation"]
    assert "profile graviton4 itself (throughput at io-threads 6: ±30% would become ±21%)" in text
    assert "without that host, observe valkey 9.1 on any machine (±26%)" in text
    assert recommendation["conf"].strip() in text
    assert recommendation["benchmark_command"] in text
    for row in recommendation["regret"]:
        assert row["why_not"] in text


def test_the_page_says_what_the_data_can_not_tell(page: Page) -> None:
    assert "The data determine 10 of 18 independent combinations" in page.text
    for sentence in study()["calibration"]["identifiability"]["words"]:
        assert sentence in page.text


def test_warnings_stand_before_the_figures_they_qualify(html: str) -> None:
    warning = html.index("7 of its values are assumed ranges")
    target = html.index('id="target-2"')
    assert target < warning < html.index("<svg", target)
    assert "io-threads 12, 16: io-threads is outside the range 1–9" in html


def test_accuracy_parameters_and_provenance_are_on_the_page(page: Page) -> None:
    assert "server CPU time per request, held out" in page.text
    assert "instructions per command" in page.text
    assert "rests on its prior" in page.text
    assert "forecache study examples/quickstart.yaml" in page.text
    assert "201.4 s" in page.text
    assert "20260115" in page.text


def test_strings_from_outside_are_escaped_everywhere() -> None:
    hostile = "<script>alert(1)</script> & \"quoted\" 'single' $x^2$ --> ]]>"

    def poison(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: poison(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [poison(inner) for inner in value]
        return hostile if isinstance(value, str) else value

    page = Page(render_html(poison(study())))
    assert page.tags["script"] == 0
    assert page.nested
    assert page.open == []
    # In headings, table cells, configuration, provenance, and as text inside figures.
    assert page.text.count("<script>alert(1)</script>") > 30
    assert page.text.count("$x^2$") > 30


def test_hostile_keys_are_escaped_too() -> None:
    made = study()
    made["provenance"] = {"<script>": "x"}
    made["targets"][0]["scenario"] = {"<img src=x>": 3}
    page = Page(render_html(made))
    assert page.tags["script"] == 0
    assert page.tags["img"] == 0


def test_same_study_renders_to_the_same_page(html: str) -> None:
    assert render_html(study()) == html


def _only_target(made: Json) -> None:
    made["targets"] = made["targets"][1:]


def _no_targets(made: Json) -> None:
    made["targets"] = []


def _one_point(made: Json) -> None:
    target = made["targets"][1]
    target["points"] = [p for p in target["points"] if p["given"]["io_threads"] == 6]
    target["recommendation"]["regret"] = []


def _no_load_curve(made: Json) -> None:
    for target in made["targets"]:
        target["load_curve"] = []


def _no_latency(made: Json) -> None:
    for target in made["targets"]:
        for point in target["points"] + target["load_curve"]:
            for key in list(point):
                if key.endswith("_ms"):
                    point[key] = None


def _no_calibration(made: Json) -> None:
    made["calibration"] = None
    del made["host_profile"]


def _empty_calibration(made: Json) -> None:
    made["calibration"] = {"engine": {"id": "valkey"}, "points": [], "summary": {}}


def _nulls(made: Json) -> None:
    def blank(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: blank(inner) for key, inner in value.items()}
        return [blank(inner) for inner in value] if isinstance(value, list) else None

    made.update(blank(made))


def _not_a_number(made: Json) -> None:
    def spoil(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: spoil(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [spoil(inner) for inner in value]
        return float("nan") if isinstance(value, float) else value

    made.update(spoil(made))


def _zeros(made: Json) -> None:
    def spoil(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: spoil(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [spoil(inner) for inner in value]
        return value * 0 if isinstance(value, float) else value

    made.update(spoil(made))


def _plain_numbers(made: Json) -> None:
    for target in made["targets"]:
        for point in target["points"] + target["load_curve"]:
            for key in list(point):
                if key.endswith(("_ms", "_rps")) and isinstance(point[key], dict):
                    point[key] = point[key]["value"]


def _all_overloaded(made: Json) -> None:
    for target in made["targets"]:
        for point in target["load_curve"]:
            point["verdict"] = "OVERLOADED"


def _long_warnings(made: Json) -> None:
    made["targets"][1]["warnings"] = [f"w{i} " + "verylongword" * 60 for i in range(30)]


def _no_recommendation(made: Json) -> None:
    for target in made["targets"]:
        target["recommendation"] = None


def _other_sweep(made: Json) -> None:
    for target in made["targets"]:
        target["recommendation"] = None
        for i, point in enumerate(target["points"]):
            point["given"] = {"transport": "tcp" if i % 2 else "unix"}


@pytest.mark.parametrize(
    "change",
    [
        _only_target,
        _no_targets,
        _one_point,
        _no_load_curve,
        _no_latency,
        _no_calibration,
        _empty_calibration,
        _nulls,
        _not_a_number,
        _zeros,
        _plain_numbers,
        _all_overloaded,
        _long_warnings,
        _no_recommendation,
        _other_sweep,
    ],
)
def test_incomplete_studies_render(change: Callable[[Json], None]) -> None:
    made = copy.deepcopy(study())
    change(made)
    html = render_html(made)
    page = Page(html)
    assert page.nested
    assert page.open == []
    words = re.findall(r"[\w.]+", page.text)
    for leaked in ("nan", "inf", "None", "undefined", "Undefined"):
        assert leaked not in words
    assert "{{" not in page.text
    assert "Markup(" not in page.text


def test_a_single_target_needs_no_comparison_table() -> None:
    made = study()
    _only_target(made)
    html = render_html(made)
    assert 'class="answers"' not in html
    assert "Run io-threads 6" in html


def test_an_empty_study_says_so() -> None:
    assert "nothing to recommend" in render_html({})


def test_no_warning_gets_lost() -> None:
    made = study()
    _long_warnings(made)
    text = Page(render_html(made)).text
    assert all(f"w{i} verylongword" in text for i in range(30))


def test_a_missed_objective_is_said() -> None:
    made = study()
    advice = made["targets"][1]["recommendation"]
    advice["slo"] = {"p99_ms": 0.5, "met": False}
    advice["closest"], advice["setting"] = advice["setting"], None
    text = Page(render_html(made)).text
    assert "p99 ≤ 0.50 ms: not met" in text
    [closest] = advice["closest"].values()
    assert f"No setting meets the objective; io-threads {closest} comes closest" in text
    assert "At the closest setting" in text
    assert f"Run io-threads {closest}" not in text


def test_what_stands_between_backticks_is_code() -> None:
    warning = "115 of 157 repetitions are flagged `disturbed` <i>, a ` alone"
    page = render_html(study() | {"warnings": [warning]})
    assert "flagged <code>disturbed</code> &lt;i&gt;, a ` alone" in page
