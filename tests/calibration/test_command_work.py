"""Counted commands: their file, and the profile that is fitted to a bundle that has one."""

import json
from pathlib import Path

import pytest

from forecache.calibration.bundle.profiles import read_counts
from forecache.calibration.fit.command_work import command_leaves
from forecache.calibration.observe.command_counts import check_counting
from forecache.models.engines.commands import CALLING
from forecache.models.engines.profile import load_engine
from forecache.sim.errors import InputError

COUNTS = Path(__file__).parents[2] / "evidence" / "counts" / "command_counts"


@pytest.mark.parametrize("file", sorted(COUNTS.glob("*.json")), ids=lambda file: file.stem)
def test_counts_are_read_as_they_are_written(file: Path, tmp_path: Path) -> None:
    counts = read_counts(file)
    assert json.loads(counts.text()) == json.loads(file.read_text())
    copy = tmp_path / "copy.json"
    copy.write_text(counts.text())
    assert read_counts(copy) == counts


def test_calling_is_what_remains_beside_the_commands() -> None:
    counts = read_counts(COUNTS / "valkey-9.1.2.json")
    leaves = command_leaves(counts, source="x")
    get = next(point.execute for point in counts.points if point.command == "get")
    for each in counts.calling:
        once, more = (leaves[name].best for name in CALLING[each.how])
        # A script makes words again for what it calls, which counts as parsing.
        counted = each.execute + (each.parse if each.how == "script" else 0.0)
        expected = once + each.calls * (more + get)
        assert 0.7 * counted < expected < 1.05 * counted, each


@pytest.mark.parametrize("engine", ["redis-2.8", "redis-7.0", "redis-8.6", "valkey-9.1"])
def test_a_script_takes_more_than_a_transaction_to_begin(engine: str) -> None:
    commands = load_engine(engine).commands
    assert commands["script_instructions"].best > commands["transaction_instructions"].best


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"points": []}, ["points of get and mget among others: get is missing"]),
        ({"calling": [{"how": "lambda", "calls": 1}]}, ["calling[0].how", "'script'"]),
        ({"tool": 3}, ["tool"]),
    ],
)
def test_mistakes_in_a_file_of_counts_are_named(
    change: dict[str, object], words: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "commands.json"
    file.write_text(json.dumps(json.loads((COUNTS / "redis-7.0.15.json").read_text()) | change))
    with pytest.raises(InputError) as error:
        read_counts(file)
    assert all(word in str(error.value) for word in [str(file), *words]), error.value


def test_what_is_no_json_or_names_no_command_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "commands.json"
    file.write_text("{")
    with pytest.raises(InputError, match="found no JSON"):
        read_counts(file)
    data = json.loads((COUNTS / "redis-7.0.15.json").read_text())
    data["points"][0]["command"] = "gett"
    file.write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"points\[0\].command': found 'gett'.*of the table"):
        read_counts(file)


def test_commands_of_memcached_are_not_counted(tmp_path: Path) -> None:
    binary = tmp_path / "memcached"
    binary.write_text("#!/bin/sh\necho memcached 1.6.38\n")
    binary.chmod(0o755)
    with pytest.raises(InputError, match="valid is a server of Redis or Valkey"):
        check_counting(binary)
