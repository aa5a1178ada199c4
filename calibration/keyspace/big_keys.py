"""What `redis-cli` and `valkey-cli` print with `--bigkeys` or `--memkeys`: keys by type.

Only the summary is read: `12 lists with 2103 items (07.23% of keys, avg size 175.25)`. With
`--memkeys` all sizes are bytes of memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..observe.readers.lines import Place, numbered, shown
from .groups import KeyGroup, KeysHeld
from .values import Kind

KINDS: dict[str, Kind] = {
    "string": "string", "list": "list", "set": "set", "hash": "hash", "zset": "sorted_set",
    "stream": "stream",
}  # fmt: skip

_SUMMARY = re.compile(r"-+ [Ss]ummary -+")
_SAMPLED = re.compile(r"Sampled (\S+) keys in the keyspace!")
_NAMES = re.compile(r"Total key length in bytes is (\S+) \(avg len \S+\)")
_TYPE = re.compile(r"(\S+) (\S{1,40})s with (\S+) (\S+) \((\S+)% of keys, avg size (\S+)\)")


@dataclass(frozen=True)
class TypeTotal:
    """Keys of a type, and their elements, or bytes, together."""

    kind: Kind
    keys: int
    total: int


@dataclass(frozen=True)
class BigKeys:
    """The summary of a scan of one node.

    Attributes
    ----------
    sampled
        Keys that were looked at.
    key_bytes
        Of their names.
    types
        Those that have keys.
    of_memory
        Whether sizes are bytes of memory (`--memkeys`). Where there are only strings, both print
        the same, and values are taken to be meant.
    """

    sampled: int
    key_bytes: int
    types: tuple[TypeTotal, ...]
    of_memory: bool


def is_big_keys(text: str) -> bool:
    """Whether a text is of such a scan."""
    return "# Scanning the entire keyspace" in text[:4096] or bool(_SAMPLED.search(text))


def parse_big_keys(text: str, *, file: str) -> BigKeys:
    """The summary of a scan."""
    lines = list(numbered(text, file=file))
    start = next((i for i, (_, line) in enumerate(lines) if _SUMMARY.fullmatch(line.strip())), None)
    if start is None:
        raise Place(file, 0).wrong(
            "no line '-------- summary -------'", valid="all that --bigkeys prints, to its end"
        )
    sampled = key_bytes = None
    types: list[TypeTotal] = []
    units: set[str] = set()
    for place, raw in lines[start + 1 :]:
        line = raw.strip()
        if match := _SAMPLED.fullmatch(line):
            sampled = place.count(match[1], "sampled keys", lowest=1, highest=10**12)
        elif match := _NAMES.fullmatch(line):
            key_bytes = place.count(match[1], "length of all keys", highest=10**17)
        elif match := _TYPE.fullmatch(line):
            keys = place.count(match[1], f"keys of type {match[2]}", highest=10**12)
            total = place.count(match[3], f"size of type {match[2]}", highest=10**17)
            kind = KINDS.get(match[2], "module")
            if keys:
                types.append(TypeTotal(kind, keys, total))
                units |= {match[4]} if kind not in ("string", "module") else set()
        elif " keys, avg size " in line or line.startswith("Sampled"):
            raise place.wrong(shown(line), valid="'12 lists with 340 items (5.00% of keys, ...)'")
    here = lines[start][0]
    if sampled is None or key_bytes is None:
        raise here.wrong("a summary without numbers of keys", valid="'Sampled 12 keys ...'")
    if sum(each.keys for each in types) != sampled:
        raise here.wrong(
            f"{sum(each.keys for each in types)} keys of all types and {sampled} sampled ones",
            valid="as many",
        )
    return BigKeys(sampled, key_bytes, tuple(types), units == {"bytes"})


def groups_of(found: BigKeys) -> list[KeyGroup]:
    """One group a type; of elements that were counted no bytes are known, but for strings.

    Where memory was counted, a key is taken to have one element.
    """
    name_bytes = found.key_bytes / found.sampled
    groups = []
    for each in found.types:
        known = each.kind == "string" and not found.of_memory
        elements = each.keys if known or found.of_memory else each.total
        groups.append(
            KeyGroup(
                each.kind, each.keys, each.keys * name_bytes, elements,
                each.total if known else None,
            )
        )  # fmt: skip
    return groups


def held_by(scans: Sequence[BigKeys]) -> KeysHeld:
    """What scans tell together, either all of elements or all of memory."""
    totals: dict[Kind, KeyGroup] = {}
    for group in (group for scan in scans for group in groups_of(scan)):
        before = totals.get(group.kind)
        if before is not None:
            known = None if group.element_bytes is None else group.element_bytes
            group = KeyGroup(
                group.kind,
                before.keys + group.keys,
                before.key_bytes + group.key_bytes,
                before.elements + group.elements,
                None if known is None else known + (before.element_bytes or 0.0),
            )
        totals[group.kind] = group
    how = "--memkeys" if scans[0].of_memory else "--bigkeys"
    return KeysHeld(list(totals.values()), how)
