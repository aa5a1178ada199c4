"""The section of the accuracy page about memory, from `docs/accuracy/footprint.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forecache.calibration.validate.memory_dataset import QUANTITY

_WORDS = {
    "keys": "{:,} keys",
    "value_bytes": "values {:,} B",
    "members": "{:,} members",
    "member_bytes": "of {:,} B",
    "fields": "{:,} fields",
    "field_bytes": "of {:,} B",
    "elements": "{:,} elements",
    "element_bytes": "of {:,} B",
    "key_bytes": "keys of {:,} B",
}


def memory_section(out: Path) -> list[str]:
    """Lines of the section; none where nothing was measured."""
    path = out / "footprint.json"
    if not path.exists():
        return []
    report = json.loads(path.read_text(encoding="utf-8"))
    engines = report["engines"]
    names = [f"{each['engine']['name']} {each['engine']['version']}" for each in engines]
    lines = [
        "## Memory",
        "",
        f"`used_memory` of live servers, {report['date']}, against the footprint model"
        " (`make evidence STUDY=footprint`): populations of keys in a fresh"
        " server, when tables have moved. What the server holds without data is included; it was"
        " measured on the same three, nothing else was. With glibc a block may be 16 bytes larger"
        " than its class, when what would be left of a free one is too small to be one.",
        "",
        "| engine | allocator | populations | median error | worst | resident for used, median |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for name, each in zip(names, engines, strict=True):
        summary = each["summary"]
        lines.append(
            f"| {name} | {each['engine']['allocator']} | {summary['n']} "
            f"| {summary['median_ape']:.2%} | {summary['max_ape']:.2%} "
            f"| {summary['resident_ratio']:.2f} |"
        )
    lines += ["", "<details>", "<summary>Every population</summary>", ""]
    lines += [
        f"| population | {' | '.join(f'{name}: MB | error' for name in names)} |",
        f"|---|{'--:|--:|' * len(names)}",
    ]
    for row in zip(*(each["rows"] for each in engines), strict=True):
        cells = [f"{one['measured_bytes'] / 1e6:.2f} | {one['relative_error']:+.2%}" for one in row]
        lines.append(f"| {_population(row[0])} | {' | '.join(cells)} |")
    lines += ["", "</details>", "", *_published(report["published"])]
    return lines


def _population(row: Mapping[str, Any]) -> str:
    data = row["data"]
    parts = [words.format(data[name]) for name, words in _WORDS.items() if name in data]
    parts += ["whole numbers"] if data.get("integers") else []
    parts += [f"{data['ttl']:.0%} with a time to live"] if data.get("ttl") else []
    parts += ["cluster mode"] if row["cluster"] else []
    return f"{data['type'].replace('_', ' ')}: {', '.join(parts)}"


def _published(results: list[Mapping[str, Any]]) -> list[str]:
    lines = [
        "Published totals; nothing of the model is fitted to them. A managed engine is taken for"
        " the open one it comes from: what it adds to each key isn't public, and its gap stands as"
        " it is. *Moving* is what the model says while a table that was just doubled moves.",
        "",
        "| dataset | engine | what | measured MB | predicted MB | error | moving MB |",
        "|---|---|---|--:|--:|--:|--:|",
    ]
    for result in results:
        for point in result["points"]:
            given, predicted = point["given"], point["predicted"][QUANTITY]
            what = ", ".join(
                f"{name.replace('_', ' ')} {value:,}"
                for name, value in given.items()
                if name not in ("engine", "engine_version")
            )
            engine = f"{point['engine']} {given['engine_version']}"
            lines.append(
                f"| `{result['dataset']['id']}` | {engine} | {what} "
                f"| {point['observed'][QUANTITY] / 1e6:,.1f} | {predicted['value'] / 1e6:,.1f} "
                f"| {point['relative_error'][QUANTITY]:+.1%} | {predicted['high'] / 1e6:,.1f} |"
            )
    lines += ["", "What the sources say, and don't:", ""]
    lines += [
        f"- `{result['dataset']['id']}`: {note}."
        for result in results
        for note in result["dataset"]["notes"]
    ]
    return lines
