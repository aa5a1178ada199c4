"""`profiles.jsonl`: what is written is read back, and damage is named."""

from pathlib import Path

import pytest

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.bundle.profiles import (
    CounterValue,
    Profile,
    StageWork,
    ThreadWork,
    read_profiles,
    write_profiles,
)
from forecache.sim.errors import InputError

PROFILES = [
    Profile(
        profiler="clock",
        tool="perf version 6.1",
        given=Conditions(command="get", pipeline=4),
        requests=1000,
        samples=100,
        unattributed=0.02,
        reads_per_request=0.25,
        threads=[
            ThreadWork(
                thread="server",
                role="main",
                samples=100,
                share=1.0,
                stages=[StageWork(stage="read", share=0.4, standard_error=0.05, kernel_share=0.3)],
            )
        ],
    ),
    Profile(
        profiler="perf",
        tool="perf version 6.1",
        given=Conditions(command="set"),
        counters=[CounterValue(event="cycles", per_request=None)],
        metrics={"instructions_per_cycle": 1.5},
    ),
]


def test_round_trip(tmp_path: Path) -> None:
    file = tmp_path / "profiles.jsonl"
    write_profiles(file, PROFILES)
    assert read_profiles(file, expected=2) == PROFILES
    assert "null" not in file.read_text()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:-1], "line 3: the file ends after 2 profiles"),
        (lambda text: text[: text.index("\n") + 1], "announces 2"),
        (lambda text: text[:-20] + "\n", "line 2: no JSON"),
        (lambda text: text.replace('"share":0.4', '"share":4'), "line 1: field 'threads"),
        (lambda text: text.replace('"stage":"read"', '"stage":"dig"'), "line 1: field 'threads"),
        (lambda text: text.replace('"profiler":"perf"', '"profiler":"gprof"'), "line 2: field"),
        (lambda _text: "[" * 100_000 + "\n", "line 1: "),
        (lambda _text: "\x00\n", "line 1: no JSON"),
    ],
)
def test_damage_is_named(damage: object, message: str, tmp_path: Path) -> None:
    file = tmp_path / "profiles.jsonl"
    write_profiles(file, PROFILES)
    file.write_text(damage(file.read_text()))  # type: ignore[operator]
    with pytest.raises(InputError, match=r"profiles\.jsonl, ") as caught:
        read_profiles(file, expected=2)
    assert message in str(caught.value)
