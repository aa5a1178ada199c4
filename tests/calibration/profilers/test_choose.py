"""Which profilers a name stands for, and what is said where they can't be used."""

import stat
from pathlib import Path

import pytest

from forecache.calibration.observe.profilers.choose import NAMES, choose
from forecache.sim.errors import InputError


def program(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is all of PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("fake_programs")
def test_auto_takes_vtune_first() -> None:
    chosen = choose("auto")
    assert [profiler.name for profiler in chosen.profilers] == ["vtune"]
    assert chosen.reason == "auto took vtune."


def test_auto_takes_counters_where_vtune_is_missing(path: Path) -> None:
    program(path, "perf", 'if [ "$1" = stat ]; then echo "5;;cycles;9;100.00;;" >&2; fi')
    chosen = choose("auto")
    assert [profiler.name for profiler in chosen.profilers] == ["perf"]
    assert "vtune not on PATH" in chosen.reason


def test_auto_takes_callgrind_and_clock_without_counters(path: Path) -> None:
    program(
        path, "perf", 'if [ "$1" = stat ]; then echo "<not supported>;;cycles;0;100.00;;" >&2; fi'
    )
    for name in ("valgrind", "vgdb"):
        program(path, name, "exit 0")
    chosen = choose("auto")
    assert [profiler.name for profiler in chosen.profilers] == ["callgrind", "clock"]
    assert "perf says cycles are <not supported>" in chosen.reason


def test_auto_takes_what_is_left(path: Path) -> None:
    refuses = 'echo "Error:" >&2; echo "Access to performance monitoring is limited." >&2; exit 255'
    program(path, "perf", refuses)
    chosen = choose("auto")
    assert chosen.profilers == ()
    assert "clock: perf failed (status 255): Access to performance monitoring" in chosen.reason
    assert chosen.reason.endswith(").")
    assert "\n" not in chosen.reason


def test_a_perf_that_may_not_see_the_kernel_is_refused(path: Path) -> None:
    # perf itself would leave the kernel out without a word, and all system calls with it.
    program(
        path,
        "perf",
        'case "$*" in *:k*) echo "Error:" >&2; echo "Access is limited." >&2; exit 255 ;; esac',
    )
    with pytest.raises(InputError, match=r"clock can't be used here \(.*Access is limited\)"):
        choose("clock")


@pytest.mark.parametrize("name", ["clock", "callgrind", "perf", "vtune"])
def test_what_was_asked_for_and_is_missing_is_an_error(name: str, path: Path) -> None:
    assert not list(path.iterdir())
    with pytest.raises(InputError, match=rf"profiler: {name} can't be used here \(.*not on PATH"):
        choose(name)


def test_an_unknown_profiler_is_refused() -> None:
    with pytest.raises(InputError, match="found 'gprof'; valid is none, auto"):
        choose("gprof")
    assert choose("none").profilers == ()
    assert set(NAMES) == {"none", "auto", "clock", "callgrind", "perf", "vtune"}
