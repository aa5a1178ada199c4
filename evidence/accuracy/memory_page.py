"""The section of the accuracy page about memory, from `docs/accuracy/footprint.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..live.footprint_errors import TYPES
from ..markdown import table
from ..validation.memory import QUANTITY

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
    return [
        "## Memory",
        "",
        f"`used_memory` of live servers, last measured {report['date']}, compared with the"
        " footprint model (`make evidence STUDY=footprint`): populations of keys in a fresh server,"
        " after tables have moved. What a server holds without data was measured on them, too;"
        " layouts come from the engines' sources. With glibc a block may be 16 bytes larger than"
        " its class, if the rest of a free block is too small to be one.",
        "",
        *_engines(engines),
        "",
        *_coverage(engines, report["published"]),
        "",
        "<details>",
        "<summary>Every population</summary>",
        "",
        *_populations(engines),
        "",
        "</details>",
        "",
        *_published(report["published"]),
    ]


def _called(engine: Mapping[str, Any]) -> str:
    return f"{engine['name']} {engine['version']}"


def _engines(engines: Sequence[Mapping[str, Any]]) -> list[str]:
    return table(
        ["engine", "allocator", ">populations", ">median error", ">worst"]
        + [">in 95% interval", ">resident memory in its own"],
        [
            [
                _called(each["engine"]),
                each["engine"]["allocator"],
                each["summary"]["n"],
                f"{each['summary']['median_ape']:.2%}",
                f"{each['summary']['max_ape']:.2%}",
                sum(row["inside"] for row in each["rows"]),
                sum(row["resident_inside"] for row in each["rows"]),
            ]
            for each in engines
        ],
    )


def _coverage(
    engines: Sequence[Mapping[str, Any]], published: Sequence[Mapping[str, Any]]
) -> list[str]:
    """How many intervals hold, each from all other populations."""
    rows = [row for each in engines for row in each["rows"]]
    points = [point for result in published for point in result["points"]]

    def share(name: str, some: Sequence[Mapping[str, Any]]) -> str:
        return f"{sum(row[name] for row in some) / len(some):.0%}"

    inside = sum(_contains(point) for point in points)
    lines = [
        f"95% intervals hold {share('inside', rows)} of these {len(rows)} totals where each is"
        " predicted from the errors of all other populations (leave-one-out); of the data alone,"
        " without the range of what a server holds anyway, which was measured here,"
        f" {share('data_inside', rows)}. As if its version had never been measured, so with the"
        " errors that other versions had when they were predicted for the first time, they hold"
        f" {share('inside_if_unknown', rows)}. Of {len(points)} published totals they hold"
        f" {inside}. By type of data:",
        "",
    ]
    cells = []
    for type_ in TYPES:
        some = [row for row in rows if row["data"]["type"] == type_]
        first = [abs(row["first_residual"]) for row in some if row["first_residual"] is not None]
        worst = max(abs(row["residual"]) for row in some)
        cells.append(
            [
                type_.replace("_", " "),
                len(some),
                f"{worst:.1%}",
                share("data_inside", some),
                f"{max(first):.0%}" if max(first) > 0.05 else f"{max(first):.1%}",
                share("inside_if_unknown", some),
            ]
        )
    heads = ["type", ">populations", ">worst error of the data", ">in interval"]
    heads += [">worst at first sight", ">in interval of an unknown version"]
    return [*lines, *table(heads, cells)]


def _contains(point: Mapping[str, Any]) -> bool:
    predicted, measured = point["predicted"][QUANTITY], point["observed"][QUANTITY]
    return bool(predicted["low"] <= measured <= predicted["high"])


def _populations(engines: Sequence[Mapping[str, Any]]) -> list[str]:
    """A row for each population: its error in every engine."""
    known: dict[str, dict[int, str]] = {}
    for number, each in enumerate(engines):
        for row in each["rows"]:
            mark = "" if row["inside"] else " *"
            text = f"{row['measured_bytes'] / 1e6:.2f}: {row['relative_error']:+.2%}{mark}"
            known.setdefault(_population(row), {})[number] = text
    header = ["population", *(f">{_called(e['engine'])}" for e in engines)]
    cells = [
        [name, *(found.get(number, "–") for number in range(len(engines)))]
        for name, found in known.items()
    ]
    note = "Measured MB and error of the total; * outside of its interval. Columns as above."
    return [note, "", *table(header, cells)]


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
            ends = f"{predicted['low'] / 1e6:,.1f}–{predicted['high'] / 1e6:,.1f}"
            rows.append(
                [
                    f"`{result['dataset']['id']}`",
                    engine,
                    what,
                    f"{point['observed'][QUANTITY] / 1e6:,.1f}",
                    f"{predicted['value'] / 1e6:,.1f}",
                    f"{point['relative_error'][QUANTITY]:+.1%}",
                    ends,
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
        " shown as it is. The interval reaches up where a table that has just doubled may still be"
        " moving.",
        "",
        *table(
            ["dataset", "engine", "what", ">measured MB", ">predicted MB", ">error", ">95%, MB"],
            rows,
        ),
        "",
        "What the sources say, and don't:",
        "",
        *notes,
    ]
