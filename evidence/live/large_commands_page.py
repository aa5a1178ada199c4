"""The measured and predicted durations of large commands, as a section of `docs/fleet.md`.

The study `set-operations` predicts the published set operations; the section is written from that
and from what `large_commands_check` measured last.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from forecache.models.results.intervals import relative_error

from ..counts.large_command_counts import log_error
from ..harness import Asked, Files
from ..markdown import table, with_section
from ..validation import validate
from .large_commands_check import kept

DATASET = "redis-2.8-set-operations"
PUBLISHED = Path("docs/accuracy/set-operations.json")
PAGE = Path("docs/fleet.md")

_LIMIT = 0.20
_QUANTITIES = ("main_thread_ms", "lasts_ms")


def section(published: dict[str, Any], live: list[dict[str, Any]]) -> list[str]:
    """Both tables."""
    return [*_published(published), "", *_live(live)]


def _published(found: dict[str, Any]) -> list[str]:
    fitted = {row["name"]: row["factor"] for row in found["fitted"]}
    rows = []
    for point in found["points"]:
        parts = point["parts_s"]
        name = _name(point["given"]) + (", *fitted*" if point["role"] == "calibration" else "")
        # A bulk load executes while it is read.
        blocks = 0.0 if point["given"]["command"] == "import" else parts["blocks"]
        numbers = (blocks, parts["server"], parts["network"], parts["client"], parts["prints"])
        rows.append(
            [
                name,
                f"{point['observed']['lasts_s']:g} s",
                _predicted(point["predicted"]["lasts_s"]),
                f"{point['relative_error']['lasts_s']:+.0%}",
                *(f"{value:.1f}" for value in numbers),
                point["bound_by"],
            ]
        )
    return [
        "Redis 2.8.6 on cache.r3.xlarge with redis-cli on m1.large, ten sets of ten million"
        f" members of 64 bytes ([dataset](../calibration/validate/datasets/{DATASET}.yaml))."
        " The columns after the error give the seconds of each part. Fitted to the two points"
        f" marked *fitted*: waits for memory × {fitted['touch_scale']:.2f}, and"
        f" {fitted['copied_page_ns'] / 1e3:.1f} µs for the client to move a page.",
        "",
        *table(
            ["command", ">measured", ">predicted (95%)", ">error", ">blocks", ">sends", ">network"]
            + [">client reads", ">prints", "bound by"],
            rows,
        ),
    ]


def _predicted(found: dict[str, float]) -> str:
    return f"{found['value']:.3g} s ({found['low']:.3g}–{found['high']:.3g})"


def _name(given: dict[str, Any]) -> str:
    words = {"flushdb": "FLUSHDB", "import": "import, 100 M lines"}
    name = words.get(given["command"], str(given["command"]).upper())
    if given.get("same_key"):
        return f"{name} A A"
    return f"{name} A B" if "overlap" in given else name


def _live(found: list[dict[str, Any]]) -> list[str]:
    summary, rows = [], []
    for of in found:
        errors = sorted(_errors(of))
        near = sum(error <= _LIMIT for error in errors)
        middle, worst = f"{statistics.median(errors):.0%}", f"{errors[-1]:.0%}"
        cells = [of["engine"], of["host"], _sets(of), len(errors), near, middle, worst]
        summary.append([*cells, inside_others(of, found)])
        for row in of["rows"]:
            cells = [of["engine"], _sets(of), row["command"]]
            for name in _QUANTITIES:
                one = row[name]
                cells += [f"{one['measured']:.1f} ms", f"{one['predicted']:.1f} ms"]
                cells.append(f"{one['error']:+.0%}")
            rows.append(cells)
    return [
        "A hundredth of that on live engines, and a tenth on Redis 2.8.19, with redis-cli 7.0 on"
        " the same machine: ten sets (B shares no member with A, A' all of them), as many keys for"
        " KEYS, a value of 8 MiB. Nothing is fitted to these. What the model's own error is of an"
        " engine's commands follows from them (`make evidence STUDY=large-command-work`); the last"
        " column counts the numbers that lie in the 95% interval which the other commands of that"
        " engine give, without what is uncertain of hosts.",
        "",
        *table(
            ["engine", "host", "sets of", ">numbers", ">within 20%", ">median error", ">worst"]
            + [">in interval"],
            summary,
        ),
        "",
        *table(
            ["engine", "sets of", "command", ">main thread: measured", ">predicted", ">error"]
            + [">lasts: measured", ">predicted", ">error"],
            rows,
        ),
    ]


def inside_others(of: dict[str, Any], found: list[dict[str, Any]]) -> int:
    """How many numbers of a run lie in the interval that all others of its engine give."""
    count = 0
    engine = [each for each in found if each["engine"] == of["engine"]]
    for name in _QUANTITIES:
        for row in of["rows"]:
            others = [log_error(r[name]) for each in engine for r in each["rows"] if r is not row]
            count += abs(log_error(row[name])) <= relative_error(others).half_width
    return count


def _errors(of: dict[str, Any]) -> list[float]:
    return [abs(row[name]["error"]) for row in of["rows"] for name in _QUANTITIES]


def _sets(of: dict[str, Any]) -> str:
    return f"{of['members']:,} × {of['member_bytes']} B"


def artefact(_asked: Asked) -> Files:
    """The published set operations, predicted."""
    found = validate(DATASET).to_dict()
    shown = {name: found[name] for name in ("dataset", "fitted", "points", "summary")}
    return {PUBLISHED: json.dumps(shown, indent=1) + "\n"}


def pages() -> Files:
    """The page with this section."""
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    return {PAGE: with_section(PAGE, "large-commands", section(published, kept()))}
