"""`--report` of the verbs about a node: what page and paper say, and when they are written."""

import hashlib
import io
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader
from rich.console import Console

from forecache import cli
from forecache.models.advice import answers
from forecache.models.advice import compare as compare_module
from forecache.models.advice.compare import NodeComparison, Side
from forecache.models.advice.node_answers import (
    Explained,
    ExplainedPoint,
    NumberOrigin,
    Recommended,
    Shown,
    Simulated,
)
from forecache.models.advice.paired import PairedQuantity
from forecache.models.breakdown.latency import LatencyBreakdown, Station
from forecache.models.over_time import simulate_scenario
from forecache.models.plan import one_node
from forecache.models.results.points import POINT_QUANTITIES, Point, Unmet
from forecache.reports import paper as paper_module
from forecache.reports.builders.recommended import key_facts
from forecache.reports.builders.repeat import AUTHORS, TITLE
from forecache.reports.files import write_report
from forecache.reports.page import render_html
from forecache.reports.terminal import print_answer
from forecache.reports.text.points import unmet_of_chosen
from forecache.reports.text.repeat import Question, path_sha256
from forecache.reports.text.repeat import question as asked
from forecache.reports.tidy import point_cells
from forecache.sim.errors import InfeasibleError
from forecache.sim.installing import install_command
from forecache.sim.statistics import Estimate
from tests.made_points import PROVENANCE, SHORT_OF_MEMORY, made_point, made_sensitivity
from tests.reports.study_fixture import graviton_target, made_slo, recommendation
from tests.reports.test_report_html import Page
from tests.reports.test_thread_plan_text import PLAN

FIELDS: dict[str, Any] = {
    name: getattr(graviton_target(), name) for name in ("scenario", "host", "engine", "provenance")
}


def simulated() -> Simulated:
    return Simulated(**FIELDS, points=[made_point(1), made_point(4)])


def recommended(**changes: Any) -> Recommended:
    own = {"points": graviton_target().points, "recommendation": recommendation()}
    return Recommended(**FIELDS, **(own | changes))


def explained() -> Explained:
    stations = [Station("wait to be read", "main", True, 80.5), Station("read", "main", False, 9.5)]
    latency_breakdown = LatencyBreakdown(1959, 90.0, stations, 88.0)
    numbers = [NumberOrigin("host.clock_ghz", 2.6, "GHz", 2.5, 2.7, "published", "a page", None)]
    return Explained(
        **FIELDS,
        points=[ExplainedPoint(**vars(made_point(4)), latency_breakdown=latency_breakdown)],
        shown=Shown(0, recommended=True, closest=False),
        timeline=None,
        measure_next=recommendation().measure_next,
        sensitivity=made_sensitivity(),
        numbers=numbers,
    )


def compared() -> NodeComparison:
    about = {name: FIELDS[name] for name in ("scenario", "host", "engine")}
    one, two = (Side(**about, name=n, point=made_point(4)) for n in ("a.yaml", "b.yaml"))
    ratio = Estimate(1.38, 1.31, 1.45)
    first, second = Estimate(1e5, 9e4, 1.1e5), Estimate(1.38e5, 1.2e5, 1.5e5)
    rows = [PairedQuantity("throughput_rps", first, second, ratio, "higher")]
    return NodeComparison(one, two, rows, PROVENANCE)


MADE: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "simulate": (simulated, ["100 k/s (90–110)", "0.50 ms (0.45–0.55)", "±6.1%"]),
    "recommend": (recommended, ["Run io-threads 6", "82% less (80–84%)", "±21%"]),
    "explain": (
        explained,
        ["80.50", "all: 90.00", "2.5 – 2.7", "a page", "±21%", "60% (50–70)", "clients 160–2,600"],
    ),
    "compare": (compared, ["+38% (+31% to +45%)", "better"]),
}


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "quick start.yaml"
    file.write_text("host: graviton3-c7g.4xlarge\nio_threads: {sweep: [1, 4]}\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("verb", MADE)
def test_page_and_paper_tell_the_answer_and_how_to_repeat_it(
    verb: str, scenario: Path, tmp_path: Path
) -> None:
    make, told = MADE[verb]
    sources = [scenario, {"host": "graviton2"}] if verb == "compare" else [scenario]
    question = asked(verb, *sources, options={"--seed": 7, "--engine": None})
    html = render_html(make(), question)
    page = Page(html)
    assert page.nested
    assert page.open == []
    write_report(tmp_path / "x.pdf", make(), question)
    reader = PdfReader(tmp_path / "x.pdf")
    paper = " ".join(sheet.extract_text() for sheet in reader.pages)
    paper = re.sub(r"\s+", " ", paper.replace("\u200b", ""))
    second = " scenario2.yaml" if verb == "compare" else ""
    told = [*told, f"forecache {verb} 'quick start.yaml'{second} --seed 7", "sweep: [1, 4]"]
    for text in [*told, *question.hashes.values(), "@software{forecache"]:
        assert text in page.text
        assert text in paper
    assert list(reader.attachments) == [name for name, _ in question.scenarios]
    assert "nan" not in re.findall(r"\w+", page.text)


def test_every_rendering_shows_the_verdict_and_what_does_not_hold() -> None:
    """On the page, in a notebook, in a data frame, in JSON and on a terminal."""
    unfit = {"verdict": "UNFIT", "unmet": [SHORT_OF_MEMORY]}
    answer = Simulated(**FIELDS, points=[made_point(1), made_point(4, **unfit)])
    told = f"io-threads 4: {SHORT_OF_MEMORY.sentence}"
    page = Page(render_html(answer, asked("simulate", {"host": "x"}, options={}))).text
    notebook = answer._repr_html_()
    out = io.StringIO()
    print_answer(answer, Console(file=out, width=80))
    for text in (page, notebook, " ".join(out.getvalue().split())):
        assert "unfit" in text
        assert "stable" in text
        assert told in text
    frame = answer.to_frame(library="polars").to_dicts()
    assert [row["verdict"] for row in frame] == ["STABLE", "UNFIT"]
    assert [row["unmet"] for row in frame] == [None, SHORT_OF_MEMORY.sentence]
    [first, second] = answer.to_dict()["points"]
    assert first["unmet"] == []
    assert second["unmet"][0]["needed"] == 18.9
    row = point_cells(answer.points[1])
    assert (row["verdict"], row["unmet"]) == ("UNFIT", SHORT_OF_MEMORY.sentence)


def test_every_quantity_of_a_point_is_listed_once() -> None:
    listed = [quantity.name for quantity in POINT_QUANTITIES]
    assert len(set(listed)) == len(listed)
    parts = {"given", "network_limits", "memory_bandwidth", "stages", "uncertainty", "latency"}
    assert {field.name for field in fields(Point)} - parts <= set(listed)
    answer = replace(simulated(), points=[made_point(1), made_point(2)])
    frame = answer.to_frame(library="polars").columns
    assert frame[2:] == list(point_cells(answer.points[0]))


def test_a_recommendation_tells_what_does_not_hold_of_the_setting_to_run() -> None:
    """A saving child with CPUs of its own in the thread plan needs none of the server's."""
    cpus = Unmet("CPUs", 5.0, 4.0, "CPUs", "the saving child finds no CPU")
    stop = Unmet("stop", 4.0, 1.0, "s", "the fork stops the server", 1800)
    chosen = made_point(6, verdict="UNFIT", unmet=[cpus, stop])
    advice = recommendation()
    assert [each.what for each in unmet_of_chosen(advice, chosen)] == ["CPUs", "stop"]
    facts = dict(key_facts(advice, chosen))
    assert facts["Verdict"] == "unfit: CPUs, stop"
    apart = replace(PLAN, conf=["server-cpulist 0-5", "bgsave-cpulist 6-7"])
    planned = replace(advice, thread_plan=apart)
    assert dict(key_facts(planned, chosen))["Verdict"] == "unfit: stop"
    assert "Verdict" not in dict(key_facts(advice, made_point(6)))


def _answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verbs answer at once."""
    monkeypatch.setattr(simulate_scenario, "simulate", lambda *_, **__: simulated())
    monkeypatch.setattr(answers, "recommend", lambda *_, **__: recommended())
    monkeypatch.setattr(one_node, "recommend_machines", lambda *_, **__: None)
    monkeypatch.setattr(answers, "explain", lambda *_, **__: explained())
    monkeypatch.setattr(compare_module, "compare", lambda *_, **__: compared())


def _arguments(verb: str, scenario: Path) -> list[str]:
    other = scenario.with_name("other.yaml")
    other.write_text("host: graviton2\n", encoding="utf-8")
    return [verb, str(scenario), *([str(other)] if verb == "compare" else [])]


@pytest.mark.parametrize("verb", MADE)
def test_every_verb_writes_its_report_and_prints_its_answer(
    verb: str, scenario: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answering(monkeypatch)
    page = scenario.with_name("page.html")
    assert cli.main([*_arguments(verb, scenario), "--report", str(page)]) == 0
    printed = capsys.readouterr()
    assert f"wrote {page}" in printed.err
    assert printed.out
    text = Page(page.read_text(encoding="utf-8")).text
    assert all(each in text for each in MADE[verb][1])
    assert "--seed 1" in text


@pytest.mark.parametrize("verb", [*MADE, "plan"])
def test_a_report_is_refused_before_any_work(
    verb: str, scenario: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paper_module, "find_spec", lambda _: None)
    given = _arguments(verb, scenario)
    for file, said in (
        ("x.txt", "found the ending '.txt'; valid is .html or .pdf"),
        ("nowhere/x.html", "does not exist"),
        ("x.pdf", f"`{install_command('paper')}`"),
    ):
        assert cli.main([*given, "--report", str(scenario.parent / file)]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
        assert not (scenario.parent / file).exists()


def test_what_meets_no_objective_has_a_report_too(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    met = recommendation()
    slo = made_slo(0.5, met=False)
    advice = replace(met, slo=slo, closest=met.setting, setting=None)
    missed = recommended(recommendation=advice)

    def never(*_: Any, **__: Any) -> Any:
        raise InfeasibleError("no setting meets it", result=missed)

    _answering(monkeypatch)
    monkeypatch.setattr(answers, "recommend", never)
    page = scenario.with_name("page.html")
    assert cli.main(["recommend", str(scenario), "-q", "--report", str(page)]) == 3
    assert f"wrote {page}" in capsys.readouterr().err
    assert "No setting meets the objective" in page.read_text(encoding="utf-8")


def test_two_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    files = [tmp_path / folder / "x.yaml" for folder in ("one", "two")]
    for number, file in enumerate(files):
        file.parent.mkdir()
        file.write_text(f"host: h{number}\n", encoding="utf-8")
    question = asked("compare", *files, options={})
    assert question.command == "forecache compare x.yaml after-x.yaml"
    assert [text for _, text in question.scenarios] == ["host: h0\n", "host: h1\n"]
    for name, text in question.scenarios:
        assert question.hashes[name] == hashlib.sha256(text.encode()).hexdigest()
    assert {"x.yaml", "after-x.yaml"} < set(question.hashes)


def test_the_hash_of_a_folder_depends_on_every_file_below_it(tmp_path: Path) -> None:
    (tmp_path / "info").mkdir()
    for name in ("manifest.yaml", "info/before.txt"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    first = path_sha256(tmp_path)
    assert path_sha256(tmp_path) == first
    (tmp_path / "info" / "before.txt").write_text("other", encoding="utf-8")
    second = path_sha256(tmp_path)
    (tmp_path / "info" / "before.txt").rename(tmp_path / "info" / "after.txt")
    assert len({first, second, path_sha256(tmp_path)}) == 3


def test_the_citation_is_that_of_the_project(checkout: Path) -> None:
    cited = (checkout / "CITATION.cff").read_text(encoding="utf-8")
    assert f'title: "{TITLE}"' in cited
    assert f"name: {AUTHORS}" in cited
    assert Question("x", []).hashes == {}
