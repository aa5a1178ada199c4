"""The section of the accuracy page about memory, from `docs/accuracy/footprint.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forecache.calibration.validate.memory_dataset import QUANTITY

from ..markdown import table

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
        f"`used_memory` of live servers, {report['date']}, compared with the footprint model"
        " (`make evidence STUDY=footprint`): populations of keys in a fresh"
        " server, after tables have moved. The total includes what the server holds without data,"
        " the only part that was measured on the same three servers. With glibc a block may be 16"
        " bytes larger than its class, if the rest of a free block is too small to be one.",
        "",
        *table(
            ["engine", "allocator", ">populations", ">median error", ">worst"]
            + [">resident / used, median"],
            [
                [
                    name,
                    each["engine"]["allocator"],
                    each["summary"]["n"],
                    f"{each['summary']['median_ape']:.2%}",
                    f"{each['summary']['max_ape']:.2%}",
                    f"{each['summary']['resident_ratio']:.2f}",
                ]
                for name, each in zip(names, engines, strict=True)
            ],
        ),
        "",
        "<details>",
        "<summary>Every population</summary>",
        "",
    ]
    header = ["population"]
    for name in names:
        header += [f">{name}: MB", ">error"]
    rows = []
    for row in zip(*(each["rows"] for each in engines), strict=True):
        cells = [_population(row[0])]
        for one in row:
            cells += [f"{one['measured_bytes'] / 1e6:.2f}", f"{one['relative_error']:+.2%}"]
        rows.append(cells)
    return [*lines, *table(header, rows), "", "</details>", "", *_published(report["published"])]


def _population(row: Mapping[str, Any]) -> str:
    data = row["data"]
    parts = [words.format(data[name]) for name, words in _WORDS.items() if name in data]
    parts += ["whole numbers"] if data.get("integers") else []
    parts += [f"{data['ttl']:.0%} with a time to live"] if data.get("ttl") else []
    parts += ["cluster mode"] if row["cluster"] else []
    return f"{data['type'].replace('_', ' ')}: {', '.join(parts)}"


def _published(results: list[Mapping[str, Any]]) -> list[str]:
    rows = []
    for result in results:
        for point in result["points"]:
            given, predicted = point["given"], point["predicted"][QUANTITY]
            what = ", ".join(
                f"{name.replace('_', ' ')} {value:,}"
                for name, value in given.items()
                if name not in ("engine", "engine_version")
            )
            engine = f"{point['engine']} {given['engine_version']}"
            rows.append(
                [
                    f"`{result['dataset']['id']}`",
                    engine,
                    what,
                    f"{point['observed'][QUANTITY] / 1e6:,.1f}",
                    f"{predicted['value'] / 1e6:,.1f}",
                    f"{point['relative_error'][QUANTITY]:+.1%}",
                    f"{predicted['high'] / 1e6:,.1f}",
                ]
            )
    notes = [
        f"- `{result['dataset']['id']}`: {note}."
        for result in results
        for note in result["dataset"]["notes"]
    ]
    return [
        "Published totals; nothing of the model is fitted to them. A managed engine counts as the"
        " open-source one that it comes from: what it adds to each key isn't public, and its gap is"
        " shown as it is. *Moving* is the prediction while a table that has just doubled moves.",
        "",
        *table(
            ["dataset", "engine", "what", ">measured MB", ">predicted MB", ">error", ">moving MB"],
            rows,
        ),
        "",
        "What the sources say, and don't:",
        "",
        *notes,
    ]
