"""What `forecache study` leaves in its folder, once all is measured."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from forecache.reports import study as study_module
from forecache.reports.page import Drawer
from forecache.reports.study_answer import load_study
from tests.reports.study_fixture import calibration, graviton_target, host_profile


def test_a_study_keeps_its_question_and_the_hashes_of_what_it_rests_on(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def observe(*, out: Path, **_: Any) -> Any:
        (out / "info").mkdir(parents=True)
        (out / "info" / "before.txt").write_text("INFO", encoding="utf-8")
        return SimpleNamespace(manifest=SimpleNamespace(warnings=[], left_out=[]))

    profile = SimpleNamespace(
        id="valkey-9.1",
        engine="valkey",
        version="9.1",
        taken_as_words="",
        model_dump=lambda **_: {"id": "valkey-9.1"},
    )
    note = "waking a thread could not be measured in 4.0 s (a CPU was held); ranges are assumed"
    host = SimpleNamespace(id="measured", to_yaml=lambda: "id: measured\n", notes=[note])
    replaced = {
        "check_ready": lambda _: None,
        "_check_workload": lambda *_, **__: None,
        "capture_host": lambda **_: host,
        "_points": lambda *_: [],
        "observe": observe,
        "earlier_profile": lambda _: None,
        "calibrate": lambda *_, **__: (profile, calibration()),
        "_here": lambda *_: [],
        "_with_engine": lambda case, _: case,
        "System": lambda *_: None,
        "_target": lambda name, *_, **__: graviton_target(name=name),
        "_host_numbers": lambda _: host_profile(),
    }
    for name, made in replaced.items():
        monkeypatch.setattr(study_module, name, made)
    monkeypatch.setattr(Drawer, "draw", lambda *_, **__: None)
    scenario = checkout / "examples" / "quickstart.yaml"
    out = tmp_path / "study"
    made = study_module.study(scenario, out=out, seed=7)
    found = load_study(out)
    assert found == replace(made, report=None)
    assert found.scenario is not None
    assert found.scenario["workload"]["clients"] == 650
    assert found.hashes is not None
    assert {"quickstart.yaml", "host.yaml", "engine.yaml", "bundle"} < set(found.hashes)
    assert f"This host: {note}" in found.warnings
    page = (out / "report.html").read_text(encoding="utf-8")
    assert note in page
    assert "forecache study quickstart.yaml --design quick --seed 7 --out study" in page
    assert found.hashes["bundle"] in page
