"""The work of commands in the shipped profiles is what was counted."""

from pathlib import Path

import numpy as np
import pytest

from evidence.counts.command_counts import artefact, counted
from evidence.harness import Asked
from forecache.calibration.bundle.profiles import CountedPoint, read_counts
from forecache.calibration.fit.command_work import command_leaves, kind_of
from forecache.calibration.observe.command_counts import SentCommand, points_of
from forecache.models.engines.commands import execute_instructions, work_terms
from forecache.models.engines.profile import load_engine
from forecache.models.scenario.command_table import COMMANDS
from forecache.sim.errors import InputError

NINE = ("mget", "mset", "zadd", "zrange", "hset", "hget", "hgetall")

COUNTS = Path(__file__).parents[3] / "evidence" / "counts" / "command_counts"


@pytest.mark.parametrize("profile_id", counted())
def test_shipped_numbers_are_those_counted(profile_id: str) -> None:
    counts = read_counts(COUNTS / counted()[profile_id].name)
    shipped, found = load_engine(profile_id).commands, command_leaves(counts, source="x")
    assert list(shipped) == list(found)
    for name, leaf in found.items():
        assert shipped[name].value == leaf.value, name


@pytest.mark.parametrize("profile_id", counted())
def test_commands_are_counted_on_the_build_that_was_observed(profile_id: str) -> None:
    counts = read_counts(COUNTS / counted()[profile_id].name)
    observed = load_engine(profile_id).observed
    assert observed is not None
    if profile_id == "redis-7.0":  # of two builds, whose counts differ by up to 2%
        assert counts.build is None
    else:
        assert f"build {counts.build}," in observed.build


def test_another_build_adds_nothing_to_a_file_of_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = tmp_path / "valkey-server"
    binary.write_text("#!/bin/sh\necho Valkey server v=9.1.2 sha=0:0 bits=64 build=beef\n")
    binary.chmod(0o755)
    monkeypatch.chdir(COUNTS.parents[2])
    with pytest.raises(InputError, match=r"'build': found '1536df31c0395150', and .* is 'beef'"):
        artefact(Asked((str(binary),)))


def test_the_lines_go_through_the_counts() -> None:
    counts = read_counts(COUNTS / "valkey-8.0.1.json")
    work = load_engine("valkey-8.0").engine_work().commands
    for row in counts.points:
        if row.command not in ("get", "set") and row.command in NINE:
            assert execute_instructions(kind_of(row), work) == pytest.approx(
                row.execute, rel=0.10
            ), row


def _counted(point: SentCommand) -> CountedPoint:
    return CountedPoint(**vars(point), parse=1.0, execute=1.0)


def test_counted_commands_are_as_long_as_their_kind_says() -> None:
    random = np.random.default_rng(1)
    for command in COMMANDS:
        for point in points_of(command):
            kind = kind_of(_counted(point))
            words = point.words(random, copy=3)
            assert len(words) == kind.arguments
            data = [len(f"${len(word)}\r\n{word}\r\n") for word in words]
            on_the_wire = len(f"*{len(words)}\r\n") + sum(data)
            # Numbers have one to eight digits, and are taken to have six.
            assert kind.request_bytes(16) == pytest.approx(on_the_wire, abs=8 * kind.arguments)


def test_points_tell_all_terms_of_a_row_apart() -> None:
    for command, row in COMMANDS.items():
        by_encoding: dict[str, list[list[int]]] = {}
        for point in points_of(command):
            kind = kind_of(_counted(point))
            by_encoding.setdefault(kind.encoding, []).append([*work_terms(kind).values()])
        assert by_encoding.keys() == (row.work.keys() or {"string"}), command
        for encoding, terms in row.work.items():
            assert np.linalg.matrix_rank(by_encoding[encoding]) == len(terms), (command, encoding)
