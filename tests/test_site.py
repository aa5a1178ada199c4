"""The site: every page is in it, every link leads somewhere, nothing is loaded from elsewhere."""

import re
import shutil
from pathlib import Path

import pytest

from evidence.documents.site import (
    LIST,
    build,
    lay_out,
    loads_from_elsewhere,
    navigation,
    pages,
    unlisted,
)
from forecache.sim.errors import InputError

pytest.importorskip("zensical", reason="needs the extra docs")


def test_every_page_is_listed() -> None:
    assert unlisted() == [], f"{LIST} lists every page, and says for whom it is"


def test_the_list_names_whom_each_page_is_for(checkout: Path) -> None:
    text = (checkout / LIST).read_text(encoding="utf-8")
    entries = re.findall(r"^- \[.*?(?=^- |^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(entries) > 25
    assert [entry for entry in entries if not re.search(r"For\s", entry)] == []


@pytest.mark.parametrize("page", pages(), ids=str)
def test_a_list_follows_an_empty_line(page: Path, checkout: Path) -> None:
    """A forge takes it for a list either way, the site does not."""
    fenced, before, wrong = False, "", []
    for line in (checkout / page).read_text(encoding="utf-8").splitlines():
        fenced ^= line.lstrip().startswith("```")
        begins = re.match(r"([-*]|\d+\.) ", line)
        if begins and not fenced and before.strip():
            if not re.match(r"\s*([-*]|\d+\.) |\s{2,}|<!--", before):
                wrong.append(line)
        before = line
    assert wrong == []


@pytest.mark.long
def test_the_whole_site(tmp_path: Path) -> None:
    site = tmp_path / "site"
    build(site, tmp_path / "source")
    missing = [
        page
        for page in pages()
        if not (site / page).with_suffix(".html").is_file() and page.name != "README.md"
    ]
    assert missing == []
    assert loads_from_elsewhere(site) == []
    verbs = (site / "docs/api.html").read_text(encoding="utf-8")
    assert 'id="forecache.verbs.recommend"' in verbs
    assert "the regret of every other setting" in verbs
    answers = (site / "docs/api-answers.html").read_text(encoding="utf-8")
    assert 'id="forecache.models.results.points.Point.throughput_rps"' in answers
    accuracy = (site / "docs/accuracy.html").read_text(encoding="utf-8")
    folded = re.findall(r"<details.*?</details>", accuracy, re.DOTALL)
    assert folded
    assert all("<table>" in block for block in folded)
    assert "Held-out point" in (site / "search.js").read_text(encoding="utf-8")
    assert (site / "models/node/reference.py").is_file()
    assert (site / "docs/schema/simulate.json").is_file()
    assert "https://unpkg.com" not in (site / "index.html").read_text(encoding="utf-8")


@pytest.fixture
def small(tmp_path: Path, checkout: Path) -> Path:
    """A checkout with two pages, which link to each other and to a folder."""
    made = tmp_path / "checkout"
    for folder in ("docs", "forecache", "sim", "hwprofiles", "models", "calibration", "reports"):
        (made / folder).mkdir(parents=True)
    shutil.copytree(checkout / "docs/site", made / "docs/site")
    shutil.copy(checkout / "mkdocs.yml", made / "mkdocs.yml")
    (made / "examples").mkdir()
    (made / "examples/one.yaml").write_text("# One of them.\nhost: x\n", encoding="utf-8")
    (made / "README.md").write_text("# First\n\n[list](docs/README.md)\n", encoding="utf-8")
    text = "# All\n\n## Start\n\n- [Home](../README.md): all. For everyone.\n"
    (made / LIST).write_text(text, encoding="utf-8")
    text = "# A\n\n## Part\n\n[up](#part), [examples](../examples)\n"
    (made / "docs/a.md").write_text(text, encoding="utf-8")
    return made


def test_a_page_that_is_not_listed_comes_last(small: Path) -> None:
    assert navigation(small) == [
        {"Start": [{"Home": "README.md"}, {"All pages": "docs/README.md"}]},
        {"More": ["docs/a.md"]},
    ]
    assert unlisted(small) == ["docs/a.md"]


def test_a_folder_that_is_linked_to_is_listed(small: Path, tmp_path: Path) -> None:
    to = lay_out(tmp_path / "source", small)
    assert "](../examples/index.md)" in (to / "docs/a.md").read_text(encoding="utf-8")
    listed = (to / "examples/index.md").read_text(encoding="utf-8")
    assert "- [one.yaml](one.yaml): One of them." in listed
    assert (to / "examples/one.yaml").read_text(encoding="utf-8").endswith("host: x\n")


def test_data_of_a_page_come_as_a_script(small: Path, tmp_path: Path) -> None:
    (small / "docs/accuracy.json").write_text('{"cells": []}\n', encoding="utf-8")
    to = lay_out(tmp_path / "source", small)
    script = (to / "docs/accuracy.js").read_text(encoding="utf-8")
    assert script == 'window.accuracy = {"cells": []}\n'


@pytest.mark.parametrize("link", ["b.md", "#nowhere", "../README.md#nowhere"])
def test_a_link_that_leads_nowhere_stops_the_build(link: str, small: Path, tmp_path: Path) -> None:
    (small / "docs/a.md").write_text(f"# A\n\n[x]({link})\n", encoding="utf-8")
    with pytest.raises(InputError, match="the site was not built"):
        build(tmp_path / "site", tmp_path / "source", small)


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ('<script src="https://cdn.example/x.js"></script>', True),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', True),
        ("<style>a { background: url(https://x.example/y.png) }</style>", True),
        ('<a href="https://x.example/">x</a> <script src="x.js"></script>', False),
        ('<link rel="canonical" href="https://x.example/">', False),
    ],
)
def test_what_a_page_would_load_from_elsewhere(text: str, loads: bool, tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text(text, encoding="utf-8")
    assert bool(loads_from_elsewhere(tmp_path)) == loads
