"""A study as PDF, figures and data: they say what the page says."""

import csv
import io
import json
import re
import shlex
import struct
from html import unescape
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pypdf import PdfReader
from pypdf.generic import DictionaryObject

from forecache import cli, verbs
from forecache.reports import paper as paper_module
from forecache.reports.builders import document
from forecache.reports.builders.calibration import without_common_note
from forecache.reports.document import Code, Column, Document, Part, Section, Text, TextTable
from forecache.reports.files import COLUMN_INCHES, PNG_DPI
from forecache.reports.page import Drawer, render_html
from forecache.reports.paper import TypstWriter, pdf_of, pdf_of_sections
from forecache.reports.study_answer import Study, load_study
from forecache.sim.errors import InputError
from forecache.sim.installing import install_command
from tests.reports.study_fixture import graviton_target, study

_NUMBER = re.compile(r"[\d.]*\d")
SCENARIO = {"host": "graviton3-c7g.4xlarge", "workload": {"clients": 650}}


def written() -> Study:
    return study(scenario=SCENARIO, hashes={"host.yaml": "ab" * 32})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `forecache study` leaves."""
    made = tmp_path_factory.mktemp("study")
    (made / "study.json").write_text(json.dumps(written().to_dict()), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def page() -> str:
    return render_html(written())


@pytest.fixture(scope="module")
def paper(folder: Path) -> PdfReader:
    file = folder / "study.pdf"
    verbs.report(folder, pdf=file)
    return PdfReader(file)


def words(reader: PdfReader) -> str:
    """All text, without breaks of lines and pages, and as text before ligatures."""
    text = " ".join(page.extract_text() for page in reader.pages)
    return re.sub(r"\s+", " ", text.replace("\u200b", "")).replace("ﬁ", "fi").replace("ﬂ", "fl")


def texts(page: str) -> str:
    """All text of a page but that of figures, that of two cells apart."""
    page = re.sub(r"<(svg|style).*?</\1>", " ", page[page.index("<main") :], flags=re.S)
    return unescape(re.sub(r"<[^>]+>", " ", page.replace("<wbr>", "")))


def test_a_study_is_read_as_it_was_written(folder: Path, page: str) -> None:
    found = load_study(folder)
    assert found.to_dict() == written().to_dict()
    assert load_study(folder / "study.json") == found
    assert render_html(found) == page


def test_the_paper_holds_every_number_that_the_page_holds(paper: PdfReader, page: str) -> None:
    on_page = set(_NUMBER.findall(texts(page)))
    in_paper = set(_NUMBER.findall(words(paper)))
    assert len(on_page) > 150
    assert on_page - in_paper == set()


def test_the_paper_has_its_parts_in_order(paper: PdfReader) -> None:
    text = words(paper)
    parts = [
        *("How many I/O threads should valkey 9.1.2 run", "Recommendations", "Sensitivity"),
        *("How far to trust it", "Method", "Threats to validity", "Parameters and where they"),
        *("How to repeat it", "How to cite it", "@software{forecache"),
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "one click" not in text


def test_fonts_are_embedded_and_figures_are_vectors_with_text(paper: PdfReader) -> None:
    fonts, images = {}, 0
    for page in paper.pages:
        images += len(page.images)
        resources = page["/Resources"].get_object()
        for name, font in resources.get("/Font", {}).items():
            fonts[name] = font.get_object()
    assert fonts
    for font in fonts.values():
        [inner] = font["/DescendantFonts"].get_object()
        descriptor: DictionaryObject = inner.get_object()["/FontDescriptor"].get_object()
        assert {"/FontFile2", "/FontFile3"} & set(descriptor)
    assert images == 0
    assert "DejaVuSans" in " ".join(str(font["/BaseFont"]) for font in fonts.values())
    assert "offered load, M requests/s" in words(paper)


def test_the_scenario_is_inside_the_paper(paper: PdfReader) -> None:
    [content] = paper.attachments["test fixture"]
    assert content.decode().startswith("host: graviton3-c7g.4xlarge")
    assert "workload: {clients: 650}" in words(paper)
    assert "ab" * 32 in words(paper)
    assert paper.metadata is not None
    assert paper.metadata.title == written().title


def test_the_same_study_makes_the_same_paper(folder: Path, paper: PdfReader) -> None:
    del paper
    again = folder / "again.pdf"
    verbs.report(folder, pdf=again)
    assert again.read_bytes() == (folder / "study.pdf").read_bytes()


def test_texts_from_outside_are_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Drawer, "draw", lambda *_, **__: None)
    hostile = '#panic("x") $x^2$ *b* \\ " `c` @ref <label> // /* é 日'
    made = study(title=hostile, warnings=[hostile], targets=[graviton_target()])
    reader = PdfReader(io.BytesIO(pdf_of(made)))
    assert reader.metadata is not None
    assert reader.metadata.title == hostile
    assert '#panic("x") $x^2$ *b*' in words(reader)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 40])
def test_no_page_has_a_lonely_row_of_a_table(count: int) -> None:
    table = TextTable([Column("", list(map(str, range(count)))), Column("", ["x"] * count)])
    kept = [int(n) for n in re.findall(r"^keep\((\d+)\)", _source_of(table), re.M)]
    assert sum(kept) == count
    assert min(kept[0], kept[-1]) >= min(3, count)
    assert set(kept[1:-1]) <= {1}


def test_a_group_s_name_stays_with_its_first_row() -> None:
    columns = [Column("", ["a"] * 8), Column("", ["b"] * 8)]
    source = _source_of(TextTable(columns, groups={4: "group"}))
    assert [int(n) for n in re.findall(r"^keep\((\d+)\)", source, re.M)] == [3, 1, 2, 3]


def test_a_command_goes_on_in_a_line_of_its_own_and_can_be_copied() -> None:
    command = "valkey-benchmark " + " ".join(f"--option-{n} {n}" for n in range(12))
    source = _source_of(Code(command, shell=True), Code(command))
    shell, plain = (json.loads(each) for each in re.findall(r'#listing\((".*")\)', source))
    assert plain == command
    lines = shell.split("\n")
    assert len(lines) > 1
    assert all(len(line) <= 100 for line in lines)
    assert shlex.split(shell.replace("\\\n", "")) == shlex.split(command)


def test_what_introduces_a_block_stays_with_it() -> None:
    source = _source_of(Text("before"), Code("x"), Text("alone"), Text("last"))
    assert re.findall(r'#lead\[#par\[#"(\w+)"\]', source) == ["before"]
    # Heading, facts and listing need more room than is left on the page: all of them move.
    filled = [Text("line")] * 38
    listing = Code("x\n" * 20)
    below = Section("Head", [Text("fact", "strong"), Text("sub", "muted"), listing])
    made = Document(about="t", headline="t", sections=[Section("", filled), below])
    pdf = pdf_of_sections(made, made.sections, date="2026-01-15")
    first, second = PdfReader(io.BytesIO(pdf)).pages
    assert "Head" not in first.extract_text()
    assert all(each in second.extract_text() for each in ("Head", "fact", "sub", "x"))


def test_what_many_notes_share_is_said_once() -> None:
    notes = ["fitted to A", "fitted to A; these data tell 3% of it", "fitted to A", "fitted to B"]
    rows = [{"name": str(n), "kind": "fitted", "note": note} for n, note in enumerate(notes)]
    shorter, about = without_common_note(rows)
    assert [row["note"] for row in shorter] == ["", "these data tell 3% of it", "", "fitted to B"]
    assert about == "Fitted and prior numbers whose note names no other data were fitted to A."
    assert without_common_note(rows[:2]) == (rows[:2], "")


def _source_of(*parts: Part) -> str:
    """Parts of a document as Typst has them."""
    return TypstWriter().blocks(parts)


def test_figures_are_as_wide_as_a_column(tmp_path: Path) -> None:
    one = tmp_path / "study.json"
    one.write_text(json.dumps(study(targets=[graviton_target()]).to_dict()), encoding="utf-8")
    verbs.report(one, figures=tmp_path / "figures")
    files = sorted((tmp_path / "figures").iterdir())
    stems = {file.stem for file in files}
    assert {"graviton3-c7g.4xlarge-throughput", "host-memory-latency"} < stems
    assert len(files) == 3 * len(stems) == 21
    for file in files:
        content = file.read_bytes()
        if file.suffix == ".pdf":
            [page] = PdfReader(file).pages
            assert float(page.mediabox.width) == pytest.approx(72 * COLUMN_INCHES, abs=0.1)
            assert page["/Resources"].get_object()["/Font"]
        elif file.suffix == ".svg":
            assert f'width="{COLUMN_INCHES}in"' in content.decode()
            assert "<text" not in content.decode()
        else:
            width_px = struct.unpack(">I", content[16:20])[0]
            assert width_px == pytest.approx(PNG_DPI * COLUMN_INCHES, abs=1)


def test_data_have_units_in_their_names_and_both_formats_agree(
    folder: Path, tmp_path: Path
) -> None:
    verbs.report(folder, data=tmp_path)
    names = {file.stem for file in tmp_path.iterdir()}
    tables = {name: make() for name, make in document(written()).tables.items()}
    assert names == {name for name, table in tables.items() if table.rows}
    with (tmp_path / "points.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == sum(len(target.points) for target in written().targets)
    for column in ("io_threads", "throughput_rps_low", "p99_ms", "server_cpu_us_per_request"):
        assert column in rows[0]
    [best] = [r for r in rows if r["target"] == "graviton3-c7g.4xlarge" and r["io_threads"] == "6"]
    assert float(best["throughput_rps"]) == 1.18e6
    for name in names:
        with (tmp_path / f"{name}.csv").open(encoding="utf-8") as stream:
            reader = csv.reader(stream)
            header, number = next(reader), sum(1 for _ in reader)
        table = pq.read_table(tmp_path / f"{name}.parquet")
        assert table.column_names == header
        assert table.num_rows == number > 0


def test_without_pyarrow_there_is_csv_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forecache.reports import files

    monkeypatch.setattr(files, "find_spec", lambda _: None)
    verbs.report(folder, data=tmp_path)
    assert {file.suffix for file in tmp_path.iterdir()} == {".csv"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "the top level"),
        ("{}", "field 'title': field required"),
        (json.dumps({**study().to_dict(), "targets": [{"name": 3}]}), "field 'targets.0"),
    ],
)
def test_what_is_no_study_gets_one_sentence(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "study.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_study(tmp_path)
    assert said in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_what_can_not_be_written_is_refused_first(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refused(*arguments: str | Path) -> str:
        assert cli.main(["report", str(folder), *map(str, arguments)]) == 2
        return capsys.readouterr().err

    assert "nothing to write" in refused()
    assert "valid is .pdf" in refused("--pdf", tmp_path / "x.html")
    assert "does not exist" in refused("--pdf", tmp_path / "nowhere" / "x.pdf")
    (tmp_path / "file").write_text("")
    assert "this is a file" in refused("--figures", tmp_path / "file")
    monkeypatch.setattr(paper_module, "find_spec", lambda _: None)
    assert f"`{install_command('paper')}`" in refused("--pdf", tmp_path / "x.pdf")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
