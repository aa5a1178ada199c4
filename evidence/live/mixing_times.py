"""What commands take longer in turn than each of them alone, measured beside what is predicted.

Mixes are drawn as in the study mixes; after each, its commands come alone, in pipelines as long, on
the same kinds of keys. What a mix takes beyond the mean of its commands, by how often each comes,
is what mixing costs: code and data that others push out of the caches, branches that are predicted
worse. Errors of single commands cancel out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from forecache.models.engines.commands import counted_on

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import mixes, rounds
from .mixes import PAIRS, Row

FOLDER = Path("evidence/mixing_times")
"""A folder per host, as of mixes."""
ARTEFACT = Path("docs/accuracy/mixing-times.json")
MIXES = 3
"""An engine."""
_MOST_OF = 0.8
"""Of the commands of a mix, by how often they come, that must have been measured alone."""
_MOST_ITEMS, _SHORTER = 100, 4
"""A command with so many items comes in pipelines that are so many times shorter alone."""


def alone(mix: Row) -> Iterator[Row]:
    """Each command of a mix by itself; pairs stay together."""
    total = sum(repeats for *_, repeats in mix["commands"])
    by_name = {command: (items, repeats) for command, items, repeats in mix["commands"]}
    for command, (items, repeats) in by_name.items():
        if command in PAIRS.values():
            continue
        names = [command, *([PAIRS[command]] if command in PAIRS else [])]
        times = max(2, total // (_SHORTER if items >= _MOST_ITEMS else 1) // len(names))
        share = repeats * len(names) / total
        yield {**mix, "commands": [[name, items, times] for name in names], "share": share}


def measure(asked: Asked) -> Files:
    """Measure on this host; `ENGINES` and `SEED` are as in the study generations."""
    seed = rounds.seed()

    def drawn(id_: str) -> list[Row]:
        random = np.random.default_rng([seed, *id_.encode()])
        known = counted_on(rounds.shipped(id_).commands)
        found = []
        for number in range(MIXES):
            mix = mixes.draw(random, known)
            found += [{**row, "mix": number} for row in (mix, *alone(mix))]
        return found

    mixes.measured(FOLDER, drawn, asked, seed=seed)
    return predict(asked)


def predict(asked: Asked) -> Files:
    """What was measured, beside what is predicted of the shipped engines."""
    return {ARTEFACT: json_text(mixes.predicted(FOLDER, asked))}


def extras(points: Sequence[Row]) -> list[Row]:
    """Of each mix, most of whose commands were measured: us a command in turn, and alone."""
    found = []
    for engine, number in dict.fromkeys((row["engine"], row["mix"]) for row in points):
        own = [row for row in points if (row["engine"], row["mix"]) == (engine, number)]
        single = [row for row in own if "share" in row]
        together = [row for row in own if "share" not in row]
        known = sum(row["share"] for row in single)
        if not together or known < _MOST_OF:
            continue
        weights = [row["share"] / known for row in single]

        def mean(of: Sequence[float], weights: Sequence[float] = weights) -> float:
            return float(np.dot(of, weights))

        found.append(
            {
                "engine": engine,
                "commands": len(together[0]["commands"]),
                "turn_us": float(np.median(together[0]["cpu_us"])),
                "alone_us": mean([float(np.median(row["cpu_us"])) for row in single]),
                "predicted_turn_us": together[0]["predicted_us"],
                "predicted_alone_us": mean([row["predicted_us"] for row in single]),
            }
        )
    return found


def section() -> list[str]:
    """Its part of docs/generations.md."""
    text = [
        "## Commands in turn and alone",
        "",
        "CPU time of a command in mixes that are drawn as those below, beside the mean of the same"
        " commands alone, each in pipelines as long; medians over mixes. The difference is what"
        " mixing costs. Windows on a core that another machine shares are left out, and mixes of"
        f" which less than {_MOST_OF:.0%} is then left. The errors alone are of all single"
        " commands. No number is fitted to these. `make evidence STUDY=mixing-times`.",
    ]
    for host in json.loads(ARTEFACT.read_text(encoding="utf-8")):
        points = host["points"]
        text += ["", f"### {host['title']}, {host['date']}: in turn and alone", ""]
        engines = dict.fromkeys(row["engine"] for row in points)
        text += table(_HEADER, [_line(engine, points) for engine in engines])
    return text


_HEADER = (
    *("engine", ">commands", ">error alone", ">mixes", ">alone, us", ">in turn, us"),
    *(">difference", ">predicted", ">error in turn"),
)


def _line(engine: str, points: Sequence[Row]) -> list[str]:
    own = [row for row in points if row["engine"] == engine]
    errors = [row["predicted_us"] / np.median(row["cpu_us"]) - 1 for row in own if "share" in row]
    mixed = extras(own)
    cells = [engine, str(len(errors)), f"{np.median(errors):+.1%}", str(len(mixed))]
    if not mixed:
        return [*cells, *["–"] * 5]

    def median(name: str, less: str = "") -> float:
        return float(np.median([row[name] - (row[less] if less else 0.0) for row in mixed]))

    error = np.median([row["predicted_turn_us"] / row["turn_us"] - 1 for row in mixed])
    return [
        *cells,
        f"{median('alone_us'):.2f}",
        f"{median('turn_us'):.2f}",
        f"{median('turn_us', 'alone_us'):+.2f}",
        f"{median('predicted_turn_us', 'predicted_alone_us'):+.2f}",
        f"{error:+.1%}",
    ]
