"""A reader repeats a study with nothing but its PDF: its last pages, and what is attached to it."""

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pypdf import PdfReader

from forecache import cli, verbs
from forecache.hwprofiles.catalogue import load_host
from forecache.hwprofiles.files import read_yaml
from forecache.models.engines.profile import load_engine
from forecache.reports import study as study_module
from forecache.reports.builders.repeat import install_lines, wheel_name
from forecache.reports.page import Drawer
from forecache.reports.study_answer import Study
from forecache.reports.text.repeat import path_sha256
from tests.models.conftest import short_runs as short_runs
from tests.reports.study_fixture import calibration

SCENARIO = """\
# Remarks belong to the file: its hash is of them, too.
host: c7g.large
engine: valkey
engine_version: "8.0"
irq_cores: 1
workload: {arrival: closed_loop, clients: 20, keys: 100_000}
slo: {p99_ms: 20.0}
"""


@pytest.fixture
def unmeasured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_runs: None) -> None:
    """Studies measure nothing: their host and engine are those of the catalogue."""
    del short_runs
    file = tmp_path / "measured.yaml"
    file.write_text(load_host("zen3-milan").to_yaml(), encoding="utf-8")
    host, engine = load_host(file), load_engine("valkey-8.1")

    def observe(*, out: Path, **_: Any) -> Any:
        out.mkdir()
        return SimpleNamespace(manifest=SimpleNamespace(warnings=[], left_out=[]))

    replaced = {
        "check_ready": lambda _: engine,
        "capture_host": lambda **_: host,
        "_points": lambda *_: [],
        "observe": observe,
        "earlier_profile": lambda _: None,
        "calibrate": lambda *_, **__: (engine, calibration()),
    }
    for name, made in replaced.items():
        monkeypatch.setattr(study_module, name, made)
    monkeypatch.setattr(Drawer, "draw", lambda *_, **__: None)


@pytest.fixture
def studied(tmp_path: Path, unmeasured: None) -> Study:
    """A study of which nothing is measured."""
    del unmeasured
    return study_of(SCENARIO, tmp_path)


def study_of(text: str, folder: Path) -> Study:
    """A study of a scenario, where `unmeasured` has replaced what measures."""
    scenario = folder / "asked.yaml"
    scenario.write_text(text, encoding="utf-8")
    return study_module.study(scenario, out=folder / "study", seed=3)


def page_of(reader: PdfReader) -> str:
    """What stands from the page that says how to repeat it, without breaks within words."""
    pages = [each.extract_text().replace("\u200b", "") for each in reader.pages]
    [first] = [
        n for n, text in enumerate(pages) if re.search(r"^\d+ How to repeat it$", text, re.M)
    ]
    return "\n".join(pages[first:])


def test_the_last_pages_and_the_attachments_give_the_same_numbers(
    studied: Study,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    verbs.report(tmp_path / "study", pdf=tmp_path / "study.pdf")
    reader = PdfReader(tmp_path / "study.pdf")
    page = page_of(reader)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    for name, [content] in reader.attachments.items():
        Path(name).write_bytes(content)
    assert set(reader.attachments) == {
        *("asked.yaml", "host.yaml", "engine.yaml", "this-host.yaml", "c7g.large.yaml")
    }
    assert studied.hashes is not None
    for name in reader.attachments:
        assert f"SHA-256of{name}{path_sha256(Path(name))}" in re.sub(r"\s", "", page)
    for name in ("asked.yaml", "host.yaml", "engine.yaml"):
        assert path_sha256(Path(name)) == studied.hashes[name]
    wheel = wheel_name(studied.provenance.forecache_version, studied.provenance.machine)
    assert wheel in page.replace("\n", "")
    for line in install_lines(wheel, extra="engine").splitlines():
        assert line in page
    commands = re.findall(r"^forecache recommend .*$", page, re.M)
    assert len(commands) == len(studied.targets) == 2
    for command, target in zip(commands, studied.targets, strict=True):
        capsys.readouterr()
        assert cli.main([*shlex.split(command)[1:], "--json", "-q"]) in (0, 3)
        again = json.loads(capsys.readouterr().out)
        told = json.loads(json.dumps(target.to_dict()))
        assert again["points"] == told["points"]
        for name in (
            "setting",
            "closest",
            "throughput_rps",
            "regret",
            "measure_next",
            "thread_plan",
        ):
            assert again["recommendation"][name] == told["recommendation"][name]


def test_the_last_pages_says_how_to_measure_again(studied: Study, tmp_path: Path) -> None:
    del studied
    verbs.report(tmp_path / "study", pdf=tmp_path / "study.pdf")
    reader = PdfReader(tmp_path / "study.pdf")
    page = page_of(reader)
    assert "forecache study asked.yaml --design quick --seed 3 --out study\n" in page
    assert "# Remarks belong to the file" in page
    assert "@software{forecache" in "".join(each.extract_text() for each in reader.pages)


@pytest.mark.usefixtures("unmeasured")
def test_a_study_has_what_its_scenario_names_wherever_it_is_taken(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hosts = tmp_path / "hosts"
    hosts.mkdir()
    (hosts / "host.yaml").write_text(load_host("graviton3").to_yaml(), encoding="utf-8")
    study = study_of(SCENARIO.replace("c7g.large", "hosts/host.yaml"), tmp_path)
    assert [target.name for target in study.targets] == ["this host", "host"]
    verbs.report(tmp_path / "study", pdf=tmp_path / "study.pdf")
    elsewhere = tmp_path / "taken" / "along"
    elsewhere.parent.mkdir()
    (tmp_path / "study").rename(elsewhere)
    (hosts / "host.yaml").unlink()
    again = read_yaml(elsewhere / "on-host.yaml")
    # The host of the study has its name already.
    assert (again["host"], again["engine"]) == ("host-2.yaml", "engine.yaml")
    attached = tmp_path / "attached"
    attached.mkdir()
    for name, [content] in PdfReader(tmp_path / "study.pdf").attachments.items():
        (attached / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    for folder in (elsewhere, attached):
        for name, target in zip(("this-host", "on-host"), study.targets, strict=True):
            capsys.readouterr()
            file = str(folder / f"{name}.yaml")
            assert cli.main(["recommend", file, "--seed", "3", "--json", "-q"]) in (0, 3)
            found = json.loads(capsys.readouterr().out)
            assert found["points"] == json.loads(json.dumps(target.to_dict()))["points"]
    assert "host: host-2.yaml" in (attached / "asked.yaml").read_text()
