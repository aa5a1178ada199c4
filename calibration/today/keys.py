"""Keys that are alike, and the populations of a memory footprint that they make.

They come from RDB files, or from what `--bigkeys` and `--memkeys` print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ..observe.readers.lines import Place, numbered, shown
from .rdb import KeySizes, Kind

MOST_GROUPS = 100
"""Populations that a plan weighs again and again; keys are told apart less finely if there are
more."""

_MOST_KEY_BYTES = _MOST_MEMBER_BYTES = 64 * 1024
_MOST_VALUE_BYTES = 512 * 2**20
_MOST_ELEMENTS = 10**10

_DIGITS = {2: 4, 4: 9, 8: 18}
"""Of a number that takes so many bytes in an array (`integer_bytes` of layouts)."""

_SCORE_DIGITS = 6

Lot = tuple[Any, ...]
"""What keys of one group have in common."""


@dataclass(frozen=True)
class KeyGroup:
    """Keys that are alike.

    Attributes
    ----------
    keys
        How many there are, and `expiring` of them with a time to live.
    key_bytes, elements, element_bytes, value_bytes
        Of all of them together, as `ValueSizes` has them. `element_bytes` is None where only
        elements were counted.
    """

    kind: Kind
    keys: float
    key_bytes: float
    elements: float
    element_bytes: float | None
    value_bytes: float = 0.0
    expiring: float = 0.0
    packed: bool = False
    integers: bool = False

    def times(self, factor: float) -> KeyGroup:
        """So many times as many keys of the same kind."""
        names = ("keys", "key_bytes", "elements", "value_bytes", "expiring")
        more = {name: factor * getattr(self, name) for name in names}
        known = self.element_bytes
        return replace(self, **more, element_bytes=None if known is None else factor * known)


@dataclass(frozen=True)
class Keyspace:
    """What some files tell of the keys of a cache.

    Attributes
    ----------
    groups
        All of them.
    how
        What told it, in a few words.
    largest
        The key with the most elements: what it is and how many.
    own_times
        Hashes whose fields have times to live of their own.
    """

    groups: Sequence[KeyGroup]
    how: str
    largest: tuple[Kind, int] | None = None
    own_times: int = 0

    @property
    def keys(self) -> float:
        """All keys."""
        return sum(group.keys for group in self.groups)

    def of(self, *kinds: Kind) -> list[KeyGroup]:
        """Those of some types."""
        return [group for group in self.groups if group.kind in kinds]


def group_keys(keys: Iterable[KeySizes], *, how: str) -> Keyspace:
    """Put keys into groups: as finely as `MOST_GROUPS` of them allow."""
    lots: dict[Lot, list[float]] = {}
    largest: tuple[Kind, int] | None = None
    own_times = 0
    for key_bytes, expires, value in keys:
        kind, elements, element_bytes, value_bytes, packed, integers, times = value
        lot = (
            (kind, packed, integers),
            _octave(elements),
            _quarter(element_bytes // max(1, elements)),
            _quarter(value_bytes // max(1, elements)),
            key_bytes // 8,
        )
        sums = lots.get(lot)
        if sums is None:
            sums = lots[lot] = [0.0] * 6
        sums[0] += 1
        sums[1] += key_bytes
        sums[2] += elements
        sums[3] += element_bytes
        sums[4] += value_bytes
        sums[5] += expires
        own_times += times
        if kind != "string" and (largest is None or elements > largest[1]):
            largest = kind, elements
    return Keyspace(_few(lots), how, largest, own_times)


def _few(lots: Mapping[Lot, list[float]]) -> list[KeyGroup]:
    """At most so many groups: their keys first count as alike, then their sizes."""
    for coarser in _COARSER:
        if len(lots) <= MOST_GROUPS:
            break
        joined: dict[Lot, list[float]] = {}
        for lot, sums in lots.items():
            into = joined.setdefault(coarser(lot), [0.0] * len(sums))
            for place, number in enumerate(sums):
                into[place] += number
        lots = joined
    return [
        KeyGroup(kind, keys, names, elements, element_bytes, values, expiring, packed, integers)
        for ((kind, packed, integers), *_), (
            keys, names, elements, element_bytes, values, expiring,
        ) in sorted(lots.items())
    ]  # fmt: skip


_COARSER = (
    lambda lot: (*lot[:4], 0),
    lambda lot: (lot[0], lot[1], lot[2] // 4, lot[3] // 4, 0),
    lambda lot: (lot[0], lot[1], lot[2] // 4, 0, 0),
    lambda lot: (lot[0], lot[1] // 2, lot[2] // 8, 0, 0),
    lambda lot: (lot[0], 0, 0, 0, 0),
)


@lru_cache(maxsize=2**16)
def _octave(number: int) -> int:
    """Powers of two, each the largest of its octave: 65 to 128 are one."""
    return max(0, number - 1).bit_length()


@lru_cache(maxsize=2**16)
def _quarter(number: int) -> int:
    """Quarters of octaves, as jemalloc's size classes."""
    octave = _octave(number)
    return 4 * octave + (max(0, number - 1) >> max(0, octave - 3)) % 4


def populations(groups: Iterable[KeyGroup], *, element_bytes: int = 16) -> list[dict[str, Any]]:
    """Populations of a footprint, as `kind: memory` has them.

    Parameters
    ----------
    element_bytes
        Of elements whose size isn't known, of fields and of their values.

    Streams and what belongs to modules are as strings of as many bytes.
    """
    return [_population(group, element_bytes) for group in groups if round(group.keys) > 0]


def _population(group: KeyGroup, unknown_bytes: int) -> dict[str, Any]:
    elements = min(_MOST_ELEMENTS, max(1, round(group.elements / group.keys)))
    known = group.element_bytes
    each = unknown_bytes if known is None else known / max(1.0, group.elements)
    values = unknown_bytes if known is None else group.value_bytes / max(1.0, group.elements)
    common: dict[str, Any] = {
        "keys": round(group.keys),
        "key_bytes": min(_MOST_KEY_BYTES, max(1, round(group.key_bytes / group.keys))),
        "ttl": min(1.0, float(f"{group.expiring / group.keys:.4g}")),
    }
    member_bytes = min(_MOST_MEMBER_BYTES, max(1, round(each)))
    match group.kind:
        case "set":
            members = {"members": elements, "member_bytes": member_bytes}
            if group.integers:
                width = next((each for each in _DIGITS if each >= values), 8)
                members |= {"member_bytes": _DIGITS[width], "integers": True}
            return {"type": "set", **common, **members}
        case "hash":
            return {
                "type": "hash", **common, "fields": elements, "field_bytes": member_bytes,
                "value_bytes": min(_MOST_VALUE_BYTES, round(values)),
            }  # fmt: skip
        case "sorted_set":
            digits = round(values) if group.packed else _SCORE_DIGITS
            return {
                "type": "sorted_set", **common, "members": elements, "member_bytes": member_bytes,
                "score_digits": min(18, max(1, digits)),
            }  # fmt: skip
        case "list":
            each_bytes = min(_MOST_VALUE_BYTES, max(1, round(each)))
            return {"type": "list", **common, "elements": elements, "element_bytes": each_bytes}
    total = unknown_bytes * elements if known is None else known / group.keys
    strings = {"type": "string", **common, "value_bytes": min(_MOST_VALUE_BYTES, round(total))}
    return strings | ({"integers": True} if group.integers else {})


def by_type(held: Keyspace) -> list[dict[str, Any]]:
    """Keys, elements and bytes of each type, in a few words."""
    found = []
    for kind in sorted({group.kind for group in held.groups}):
        groups = held.of(kind)
        keys = sum(group.keys for group in groups)
        row: dict[str, Any] = {"type": kind, "keys": round(keys)}
        if kind not in ("string", "module"):
            row["elements"] = float(f"{sum(group.elements for group in groups) / keys:.4g}")
        if all(group.element_bytes is not None for group in groups):
            total = sum(group.element_bytes or 0.0 for group in groups)
            if kind == "hash":  # whose values are text besides its fields' names
                total = sum((group.element_bytes or 0.0) + group.value_bytes for group in groups)
            row["bytes"] = float(f"{total / keys:.4g}")
        found.append(row)
    return found


# --- what `--bigkeys` and `--memkeys` print -------------------------------------------------------

# What `redis-cli` and `valkey-cli` print with `--bigkeys` or `--memkeys`: keys by type.
#
# Only the summary is read: `12 lists with 2103 items (07.23% of keys, avg size 175.25)`. With
# `--memkeys` all sizes are bytes of memory.


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


def group_scans(scans: Sequence[BigKeys]) -> Keyspace:
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
    return Keyspace(list(totals.values()), how)
