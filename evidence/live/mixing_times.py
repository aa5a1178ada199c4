"""What commands take longer in turn than each of them alone, measured beside what is predicted.

Mixes are drawn as in the study mixes; after each, its commands come alone, in pipelines as long, on
the same kinds of keys. What a mix takes beyond the mean of its commands, by how often each comes, is
what mixing costs: code and data that others push out of the caches, branches that are predicted
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
MIXES = 4
"""An engine."""
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
    """Of each mix whose commands were all measured: us a command in turn, and alone on average."""
    found = []
    for engine, number in dict.fromkeys((row["engine"], row["mix"]) for row in points):
        own = [row for row in points if (row["engine"], row["mix"]) == (engine, number)]
        single = [row for row in own if "share" in row]
        together = [row for row in own if "share" not in row]
        if not together or sum(row["share"] for row in single) < 1.0 - 1e-9:
            continue
        weights = [row["share"] for row in single]

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
        " mixing costs. No number is fitted to these. `make evidence STUDY=mixing-times`.",
    ]
    for host in json.loads(ARTEFACT.read_text(encoding="utf-8")):
        rows = extras(host["points"])
        text += ["", f"### {host['title']}, {host['date']}: in turn and alone", ""]
        text += table(_HEADER, [_line(e, rows) for e in dict.fromkeys(r["engine"] for r in rows)])
    return text


_HEADER = (
    *("engine", ">mixes", ">alone, us", ">predicted", ">in turn less alone, us", ">predicted"),
    *(">error alone", ">error in turn"),
)


def _line(engine: str, rows: Sequence[Row]) -> list[str]:
    own = [row for row in rows if row["engine"] == engine]

    def median(of: Sequence[float]) -> float:
        return float(np.median(of))

    return [
        engine,
        str(len(own)),
        f"{median([r['alone_us'] for r in own]):.2f}",
        f"{median([r['predicted_alone_us'] for r in own]):.2f}",
        f"{median([r['turn_us'] - r['alone_us'] for r in own]):+.2f}",
        f"{median([r['predicted_turn_us'] - r['predicted_alone_us'] for r in own]):+.2f}",
        f"{median([r['predicted_alone_us'] / r['alone_us'] - 1 for r in own]):+.1%}",
        f"{median([r['predicted_turn_us'] / r['turn_us'] - 1 for r in own]):+.1%}",
    ]
