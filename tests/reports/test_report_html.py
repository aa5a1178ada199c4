"""The page: complete, self-contained, escaped, and whole where parts are missing."""

import math
import re
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from typing import Any

import pytest

from forecache.models.prediction.predict import LATENCIES
from forecache.models.results.points import LoadPoint
from forecache.reports.page import Drawer, render_html
from forecache.reports.study_answer import Study
from tests.reports.study_fixture import (
    calibration,
    graviton_target,
    made_slo,
    recommendation,
    study,
)

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


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without its figures, which take nearly all of the time, for tests of its words."""
    monkeypatch.setattr(Drawer, "draw", lambda *_, **__: None)


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
    recommendation = graviton_target().recommendation
    assert "Profile graviton4 itself (throughput at io-threads 6: ±30% would become ±21%)" in text
    assert "Without that host, observe valkey 9.1 on any machine (±26%)" in text
    assert recommendation.conf.strip() in text
    assert recommendation.benchmark_command in text
    for row in recommendation.regret:
        assert row.why_not in text


def test_the_page_says_what_the_data_can_not_tell(page: Page) -> None:
    assert "The data determine 10 of 18 independent combinations" in page.text
    for sentence in study().calibration.identifiability.words:
        assert f"{sentence[0].upper()}{sentence[1:]}." in page.text


def test_warnings_stand_before_the_figures_they_qualify(html: str) -> None:
    warning = html.index("7 of its values are assumed ranges")
    target = html.index('id="target-2"')
    assert target < warning < html.index("<svg", target)
    assert "io-threads 12, 16: io-threads is outside the range 1–9" in html


def test_accuracy_parameters_and_provenance_are_on_the_page(page: Page) -> None:
    assert "server CPU time per request, held out" in page.text
    assert "instructions per command" in page.text
    assert "these data tell 12% of what is known of it" in page.text
    assert "forecache study examples/quickstart.yaml" in page.text
    assert "201.4 s" in page.text
    assert "20260115" in page.text


def test_strings_from_outside_are_escaped_everywhere() -> None:
    hostile = "<script>alert(1)</script> & \"quoted\" 'single' $x^2$ --> ]]>"

    def poison(value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            named = {field.name: getattr(value, field.name) for field in fields(value)}
            return replace(value, **{name: poison(inner) for name, inner in named.items()})
        if isinstance(value, dict):
            return {key: poison(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [poison(inner) for inner in value]
        return hostile if isinstance(value, str) else value

    page = Page(render_html(replace(poison(study()), created=study().created)))
    assert page.tags["script"] == 0
    assert page.nested
    assert page.open == []
    # In headings, table cells, configuration, provenance, and as text inside figures.
    assert page.text.count("<script>alert(1)</script>") > 30
    assert page.text.count("$x^2$") > 30


def test_hostile_keys_are_escaped_too() -> None:
    page = Page(render_html(study(targets=[graviton_target(scenario={"<img src=x>": 3})])))
    assert page.tags["script"] == 0
    assert page.tags["img"] == 0


def test_same_study_renders_to_the_same_page(html: str) -> None:
    assert render_html(study()) == html


def only_graviton(**changes: Any) -> Study:
    return study(targets=[graviton_target(**changes)])


def one_point() -> Study:
    points = [point for point in graviton_target().points if point.given["io_threads"] == 6]
    return only_graviton(points=points, recommendation=replace(recommendation(), regret=[]))


def no_latency() -> Study:
    none: dict[str, Any] = dict.fromkeys(LATENCIES)
    target = graviton_target()
    return only_graviton(
        points=[replace(point, **none) for point in target.points],
        load_curve=[replace(point, **none) for point in target.load_curve],
    )


def unbounded_latency() -> Study:
    def unbounded(point: LoadPoint) -> LoadPoint:
        assert point.p99_ms is not None
        return replace(point, p99_ms=replace(point.p99_ms, high=math.inf))

    return only_graviton(load_curve=[unbounded(point) for point in graviton_target().load_curve])


def all_overloaded() -> Study:
    curve = graviton_target().load_curve
    return only_graviton(load_curve=[replace(point, verdict="OVERLOADED") for point in curve])


def empty_calibration() -> Study:
    return study(calibration=replace(calibration(), points=[], parameters=[]))


def no_threads() -> Study:
    alone = [replace(p, io_thread_utilisation=[], stages=[]) for p in graviton_target().points]
    return only_graviton(points=alone, load_curve=[])


LONG_WARNINGS = [f"w{i} " + "verylongword" * 60 for i in range(30)]


@pytest.mark.parametrize(
    "made",
    [
        only_graviton(),
        one_point(),
        no_latency(),
        unbounded_latency(),
        all_overloaded(),
        empty_calibration(),
        no_threads(),
        only_graviton(warnings=LONG_WARNINGS),
    ],
)
def test_studies_with_parts_missing_render(made: Study) -> None:
    html = render_html(made)
    page = Page(html)
    assert page.nested
    assert page.open == []
    words = re.findall(r"[\w.]+", page.text)
    for leaked in ("nan", "inf", "None", "undefined", "Undefined"):
        assert leaked not in words
    assert "{{ " not in page.text
    assert "Markup(" not in page.text


@pytest.mark.usefixtures("no_figures")
def test_a_single_target_needs_no_comparison_table() -> None:
    html = render_html(only_graviton())
    assert 'class="answers"' not in html
    assert "Run io-threads 6" in html


@pytest.mark.usefixtures("no_figures")
def test_no_warning_gets_lost() -> None:
    text = Page(render_html(only_graviton(warnings=LONG_WARNINGS))).text
    assert all(f"w{i} verylongword" in text for i in range(30))


@pytest.mark.usefixtures("no_figures")
def test_a_missed_objective_is_said() -> None:
    met = recommendation()
    slo = made_slo(0.5, met=False)
    missed = replace(met, slo=slo, closest=met.setting, setting=None)
    text = Page(render_html(only_graviton(recommendation=missed))).text
    assert "p99 ≤ 0.50 ms: met with a probability of only 20%, not 95%" in text
    assert "No setting meets the objective; io-threads 6 comes closest" in text
    assert "At the closest setting" in text
    assert "Run io-threads 6" not in text


@pytest.mark.usefixtures("no_figures")
def test_what_stands_between_backticks_is_code() -> None:
    warning = "115 of 157 repetitions are flagged `disturbed` <i>, a ` alone"
    page = render_html(study(warnings=[warning]))
    assert "flagged <code>disturbed</code> &lt;i&gt;, a ` alone" in page
