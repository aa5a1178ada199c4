"""What the counts of `save_counts` say, as the numbers that `models/footprint/saving.py` reads.

The study `save-work` writes `models/footprint/saving.yaml`. Every number is the difference of two
cases, but for checksums, which are a fit by least squares over all that were counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from forecache.hwprofiles.files import dump_yaml
from forecache.models.footprint.saving import SavingNumbers, Written, written
from forecache.models.footprint.schema import (
    Hashes,
    Lists,
    Population,
    Sets,
    SortedSets,
    Streams,
    Strings,
)
from forecache.models.layouts.generations import Generation, generation
from forecache.models.scenario.versions import minor_version

from ..harness import Asked, Files
from .save_counts import FOLDER, Case

FILE = Path("models/footprint/saving.yaml")

GENERATIONS = {
    "redis-2.8.19": ("redis 2.6", "redis 2.6.16", "redis 2.8", "redis 3.0"),
    "redis-3.2.6": ("redis 3.2",),
    "redis-5.0.6": ("redis 4.0", "redis 5.0"),
    "redis-6.2.11": ("redis 6.2",),
    "redis-7.0.15": ("redis 7.0", "redis 7.2", "redis 7.4", "valkey 7.2"),
    "redis-8.0.6": ("redis 8.0", "redis 8.2"),
    "redis-8.6.3": ("redis 8.6",),
    "valkey-8.0.1": ("valkey 8.0-dict-per-slot", "valkey 8.0"),
    "valkey-8.1.1": ("valkey 8.1", "valkey 9.0"),
    "valkey-9.1.2": ("valkey 9.1",),
}
"""Versions that are taken to have the numbers of the one that was counted."""


def read(path: Path) -> dict[str, Any]:
    """What was counted on one version."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def cases(found: Mapping[str, Any]) -> Iterator[tuple[Case, Mapping[str, Any]]]:
    """Every case with its row."""
    names = [each.name for each in fields(Case)]
    for row in found["cases"]:
        yield Case(**{name: row[name] for name in names}), row


def of_save(
    row: Mapping[str, Any], *, compression: bool = False, checksum: bool = False
) -> Mapping[str, float] | None:
    """Instructions and bytes a key of a save with these settings; None if there was none."""
    asked = {"compression": compression, "checksum": checksum}
    return next((each for each in row["saves"] if asked.items() <= each.items()), None)


def population(case: Case) -> Population:
    """A case as the models describe it."""
    each: dict[str, Any] = {"keys": 1, "key_bytes": case.key_bytes, "ttl": float(case.ttl)}
    size, more = case.item_bytes, case.value_bytes
    match case.type:
        case "string":
            return Strings(type="string", value_bytes=size, integers=case.integers, **each)
        case "set":
            return Sets(
                type="set",
                members=case.items,
                member_bytes=size,
                integers=case.integers,
                **each,
            )
        case "hash":
            return Hashes(
                type="hash", fields=case.items, field_bytes=size, value_bytes=more, **each
            )
        case "sorted_set":
            return SortedSets(type="sorted_set", members=case.items, member_bytes=size, **each)
        case "list":
            return Lists(type="list", elements=case.items, element_bytes=size, **each)
    return Streams(type="stream", entries=case.items, field_bytes=5, value_bytes=size, **each)


def numbers(found: Mapping[str, Any], *, source: str) -> SavingNumbers:
    """The numbers of one version."""
    g = generation(found["engine"], minor_version(found["version"]))
    rows = dict(cases(found))

    def count(case: Case, *, compression: bool = False) -> float:
        save = of_save(rows[case], compression=compression)
        assert save is not None
        return save["instructions"]

    def string(size: int, content: Any = "random") -> Case:
        return Case(type="string", item_bytes=size, content=content)

    short = Case(type="string")
    byte = (count(string(10_000)) - count(string(1_000))) / 9_000

    def own(case: Case) -> tuple[float, Written]:
        """Instructions of a case without the bytes of its value."""
        each = written(g, population(case))
        return count(case) - byte * (each.bytes - case.key_bytes), each

    # Few keys fill their table by chance: a mean over cases.
    strings = [case for case in rows if case.type == "string" and not case.integers]
    near = [case for case in strings if case.item_bytes <= 100 and not case.ttl]
    key = {
        "string": float(np.mean([own(case)[0] for case in near])),
        "integer": count(Case(type="string", item_bytes=8, integers=True)),
    }
    item = {}
    for name, few, many in (
        ("set", Case(type="set", items=100, item_bytes=8, integers=True), 1_000),
        ("hash", Case(type="hash", items=10), 1_000),
        ("sorted_set", Case(type="sorted_set", items=20), 1_000),
        ("list", Case(type="list", items=20), 2_000),
    ):
        small, one = own(few)
        large, other = own(Case(type=few.type, items=many))
        item[name] = (large - small) / (other.items - one.items)
        key[name] = small - one.items * item[name]
    if (stream := Case(type="stream", items=100)) in rows:
        key["stream"] = own(stream)[0]

    def tried(size: int, content: Any = "random") -> float:
        case = string(size, content)
        return count(case, compression=True) - count(case)

    literal = (tried(10_000) - tried(100)) / 9_900
    start = max(0.0, tried(100) - 100 * literal)
    same = of_save(rows[string(10_000, "same")], compression=True)
    assert same is not None
    left = (same["file_bytes"] - 20.0) / 10_000
    matched = ((tried(10_000, "same") - start) / 10_000 - left * literal) / (1.0 - left)
    checked = [
        (written(g, population(case)), before, after)
        for case, row in rows.items()
        if (after := of_save(row, checksum=True)) and (before := of_save(row))
    ]
    more = np.array(
        [after["instructions"] - before["instructions"] for _, before, after in checked]
    )
    work = np.array(
        [
            (each.writes, after["file_bytes"] - each.long_bytes, each.long_bytes)
            for each, _, after in checked
        ]
    )
    (write, check, long), *_ = np.linalg.lstsq(work / more[:, None], np.ones(len(more)), rcond=None)
    return SavingNumbers(
        generations=GENERATIONS[source],
        source=source,
        key=_rounded(key),
        item=_rounded(item),
        expiry=round(count(Case(type="string", ttl=True)) - count(short), 1),
        byte=round(byte, 4),
        tried=round(start, 1),
        literal_byte=round(literal, 2),
        matched_byte=round(matched, 2),
        checked_write=round(float(write), 1),
        checked_byte=round(float(check), 3),
        checked_long_byte=round(float(long), 3),
    )


def _rounded(found: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in found.items()}


def again(
    g: Generation, known: SavingNumbers, case: Case, save: Mapping[str, Any], *, left: float
) -> float:
    """What the numbers say of a case that was counted."""
    return written(g, population(case)).instructions(
        known, compression=save["compression"], checksum=save["checksum"], left=left
    )


def profiles(_asked: Asked) -> Files:
    """The shipped file, from all that was counted."""
    sources, versions = {}, []
    for name in GENERATIONS:
        path = FOLDER / f"{name}.json"
        found = read(path)
        sources[name] = {
            "title": f"forecache: instructions of SAVE on {name}, in valgrind",
            "file": str(path),
            "accessed": found["date"],
        }
        versions.append(numbers(found, source=name).model_dump(mode="json"))
    return {FILE: dump_yaml({"sources": sources, "versions": versions})}
