"""The work of commands in the shipped profiles is what was counted."""

import json
from pathlib import Path

import numpy as np
import pytest

from evidence.counts.command_counts import COUNTED, Point, leaves
from forecache.models.engines.commands import COMMAND_WORK, CommandKind, execute_instructions
from forecache.models.engines.profile import load_engine

COUNTS = Path(__file__).parents[3] / "evidence" / "counts" / "command_counts"


@pytest.mark.parametrize("profile_id", COUNTED)
def test_shipped_numbers_are_those_counted(profile_id: str) -> None:
    counts = json.loads((COUNTS / f"{COUNTED[profile_id]}.json").read_text())
    shipped = load_engine(profile_id).commands
    assert tuple(shipped) == COMMAND_WORK
    for name, leaf in leaves(counts, source="x").items():
        assert shipped[name].value == leaf.value, name


def test_the_lines_go_through_the_counts() -> None:
    counts = json.loads((COUNTS / "valkey-8.0.1.json").read_text())
    work = load_engine("valkey-8.0").engine_work().commands
    for row in counts["points"]:
        if row["command"] in ("get", "set"):
            continue
        value_bytes = 0 if row["command"].startswith("z") else 16
        kind = CommandKind(row["command"], value_bytes, 1.0, row["items"], row["size"], 16)
        assert execute_instructions(kind, work) == pytest.approx(row["execute"], rel=0.10), row


def test_counted_commands_are_as_long_as_their_kind_says() -> None:
    random = np.random.default_rng(1)
    for point in (Point("mget", 4), Point("mset", 3), Point("zadd", 2, 100), Point("hset", 2, 9)):
        kind = CommandKind(point.command, 16, 1.0, point.items, point.size, 16)
        assert len(point.words(random)) == kind.arguments
