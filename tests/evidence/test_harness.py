"""Studies: listed, run in three steps, refused where something is missing."""

import json
import re
from pathlib import Path

import pytest

from evidence.__main__ import listed, main
from evidence.harness import (
    REASON,
    ROOT,
    TWO_CPUS,
    Asked,
    Files,
    Late,
    Study,
    missing,
    run,
    write_pages,
)
from evidence.markdown import table, with_section
from evidence.studies import STUDIES
from forecache.sim.errors import InputError


def test_a_study_measures_keeps_what_it_found_and_writes_its_page(tmp_path: Path) -> None:
    artefact, page = tmp_path / "found" / "x.json", tmp_path / "x.md"

    def measure(asked: Asked) -> Files:
        return {artefact: json.dumps(asked.of(["a", "b"]))}

    def pages() -> Files:
        return {page: " and ".join(json.loads(artefact.read_text()))}

    said: list[str] = []
    study = Study("x", "letters", measure=measure, pages=pages)
    run(study, Asked(progress=said.append))
    assert page.read_text() == "a and b"
    assert said == [f"wrote {artefact}", f"wrote {page}"]
    run(study, Asked(only=("c",), progress=said.append))
    assert page.read_text() == "c"
    page.write_text("edited by hand")
    said.clear()
    write_pages([study, study], said.append)
    assert (page.read_text(), said) == ("c", [f"wrote {page}"])


def test_a_study_says_what_is_missing_and_measures_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["memcached"]) == 2
    assert capsys.readouterr().err == (
        "evidence: error: memcached: needs memcached, which this machine lacks.\n"
    )


def test_the_reference_of_the_gate_is_replaced_for_a_reason_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(REASON, " ")
    assert main(["gate"]) == 2
    assert "gate: needs REASON" in capsys.readouterr().err
    monkeypatch.setenv(REASON, "a better fit")
    assert missing(STUDIES["gate"]) == []


def test_an_unknown_study_is_refused_with_those_that_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["footprnt"]) == 2
    message = capsys.readouterr().err
    assert "found study 'footprnt'" in message
    assert "footprint" in message


def test_every_study_is_listed_with_an_artefact_or_a_page_that_exists(checkout: Path) -> None:
    text = "\n".join(listed(list(STUDIES.values())))
    for study in STUDIES.values():
        assert f"{study.name}: {study.about}\n" in text
        assert (study.measure is None) == (study.artefact == "")
        assert (study.pages is None) == (study.page == "")
        places = [*study.artefact.split(", "), *study.page.split(", ")]
        assert all(list(checkout.glob(place)) for place in places if place), study.name
        assert all(" " not in need or need in (ROOT, TWO_CPUS) for need in study.needs)


def test_every_step_of_a_study_exists() -> None:
    steps = [step for study in STUDIES.values() for step in (study.measure, study.pages)]
    late = [step for step in steps if isinstance(step, Late)]
    assert len(late) > 25
    assert all(callable(step.function) for step in late)


def test_documents_name_studies_that_exist(checkout: Path) -> None:
    named: set[str] = set()
    for path in (*checkout.glob("*.md"), *checkout.glob("docs/*.md")):
        named |= set(re.findall(r"STUDY=([a-z-]{2,})", path.read_text(encoding="utf-8")))
    assert len(named) > 10
    assert named <= STUDIES.keys()


def test_a_table_has_as_many_cells_as_columns() -> None:
    assert table(("what", ">how much"), [("a", 1), ("", "2%")]) == [
        "| what | how much |",
        "|---|--:|",
        "| a | 1 |",
        "| | 2% |",
    ]
    with pytest.raises(ValueError, match="a row of 2 cells"):
        table(("what", ">how much"), [("a",)])


def test_a_section_is_replaced_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- x:begin -->\nold\n<!-- x:end -->\nafter\n")
    new = with_section(page, "x", ["new", "newer"])
    assert new == "before\n<!-- x:begin -->\nnew\nnewer\n<!-- x:end -->\nafter\n"
    with pytest.raises(InputError, match="found no section y"):
        with_section(page, "y", ["new"])
