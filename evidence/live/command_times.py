"""CPU time of each command alone, in pipelines of 16, measured as mixes are.

Pairs that need each other take turns, and walks through hundreds of members come four at a time. No
number is fitted to these, but rules of `models/memory/contents.py` were chosen with them in
view (docs/models.md), and none with mixes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path

from forecache.models.engines.commands import counted_on
from forecache.models.scenario.command_table import COMMANDS, DataType

from ..counts.shipped import json_text
from ..harness import Asked, Files
from . import mixes, rounds
from .mixes import LEFT_OUT, PAIRS, Row

FOLDER = Path("evidence/command_times")
"""A folder per host, as of mixes."""
ARTEFACT = Path("docs/accuracy/command-times.json")
SIZES: Mapping[DataType, tuple[int, ...]] = {
    "string": (0,),
    "hash": (40, 600),
    "list": (200,),
    "set": (60, 600),
    "sorted_set": (60, 600),
    "stream": (100,),
}
"""Of collections: packed, where they can be, and as tables."""
ITEMS, VALUE_BYTES = (1, 30), 16
REPEATS = 16
_MOST_ITEMS = 100
"""From here on a command comes in pipelines of 4."""


def loads(known: frozenset[str]) -> list[Row]:
    """Each command of those known that leaves its data as they were, those of a type together."""
    found = []
    for of_type, sizes in SIZES.items():
        of_this = [c for c in COMMANDS if c in known and COMMANDS[c].type == of_type]
        of_this = [c for c in of_this if c not in LEFT_OUT and c not in PAIRS.values()]
        for size, command in product(sizes, of_this):
            row = COMMANDS[command]
            counts: tuple[int, ...] = (1,)
            if row.items == "all":
                counts = (size,)
            elif row.items != "one" and command not in PAIRS:
                counts = ITEMS
            for items in counts:
                repeats = REPEATS if items < _MOST_ITEMS else REPEATS // 4
                names = [command, *([PAIRS[command]] if command in PAIRS else [])]
                found.append(
                    {
                        "commands": [[name, items, repeats] for name in names],
                        "sizes": {of_type: size},
                        "value_bytes": VALUE_BYTES,
                    }
                )
    return found


def measure(asked: Asked) -> Files:
    """Measure on this host; `ENGINES` is as in the study generations."""

    def of_engine(id_: str) -> list[Row]:
        return loads(frozenset(counted_on(rounds.shipped(id_).commands)))

    mixes.measured(FOLDER, of_engine, asked)
    return predict(asked)


def section() -> list[str]:
    """Its part of docs/generations.md."""
    text = [
        "## Each command alone",
        "",
        f"CPU time of a command that comes alone, in pipelines of {REPEATS}, with one and with"
        f" {ITEMS[-1]} items, on collections that are packed and on tables; sent and predicted as"
        " mixes are. Rules for walks and ranges were chosen with these in view"
        " ([models.md](models.md#what-was-decided-with-the-results-in-view)), so they are no test"
        " of them. `make evidence STUDY=command-times`.",
    ]
    for host in json.loads(ARTEFACT.read_text(encoding="utf-8")):
        text += ["", f"### {host['title']}, {host['date']}: commands alone", ""]
        text += mixes.scores(host["points"])
    return text


def predict(asked: Asked) -> Files:
    """What was measured, beside what is predicted of the shipped engines."""
    return {ARTEFACT: json_text(mixes.predicted(FOLDER, asked))}
