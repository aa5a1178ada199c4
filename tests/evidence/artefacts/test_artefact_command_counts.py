"""The work of commands in the shipped profiles is what was counted."""

import json
from pathlib import Path

import numpy as np
import pytest

from evidence.counts.command_counts import _kind_of, counted, leaves, points_of
from forecache.models.engines.commands import execute_instructions, work_terms
from forecache.models.engines.profile import load_engine
from forecache.models.scenario.command_table import COMMANDS

NINE = ("mget", "mset", "zadd", "zrange", "hset", "hget", "hgetall")

COUNTS = Path(__file__).parents[3] / "evidence" / "counts" / "command_counts"


@pytest.mark.parametrize("profile_id", counted())
def test_shipped_numbers_are_those_counted(profile_id: str) -> None:
    counts = json.loads((COUNTS / counted()[profile_id].name).read_text())
    shipped, found = load_engine(profile_id).commands, leaves(counts, source="x")
    assert list(shipped) == list(found)
    for name, leaf in found.items():
        assert shipped[name].value == leaf.value, name


def test_the_lines_go_through_the_counts() -> None:
    counts = json.loads((COUNTS / "valkey-8.0.1.json").read_text())
    work = load_engine("valkey-8.0").engine_work().commands
    for row in counts["points"]:
        if row["command"] not in ("get", "set") and row["command"] in NINE:
            assert execute_instructions(_kind_of(row), work) == pytest.approx(
                row["execute"], rel=0.10
            ), row


def test_counted_commands_are_as_long_as_their_kind_says() -> None:
    random = np.random.default_rng(1)
    for command in COMMANDS:
        for point in points_of(command):
            kind = _kind_of({**vars(point)})
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
            kind = _kind_of({**vars(point)})
            by_encoding.setdefault(kind.encoding, []).append([*work_terms(kind).values()])
        assert by_encoding.keys() == (row.work.keys() or {"string"}), command
        for encoding, terms in row.work.items():
            assert np.linalg.matrix_rank(by_encoding[encoding]) == len(terms), (command, encoding)
