"""Keys that are alike, and the populations of a memory footprint that they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from .rdb import KeySizes
from .values import Kind

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
class KeysHeld:
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


def held_in(keys: Iterable[KeySizes], *, how: str) -> KeysHeld:
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
    return KeysHeld(_few(lots), how, largest, own_times)


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


def by_type(held: KeysHeld) -> list[dict[str, Any]]:
    """Keys, elements and bytes of each type, in a few words."""
    found = []
    for kind in sorted({group.kind for group in held.groups}):
        groups = held.of(kind)
        keys = sum(group.keys for group in groups)
        row: dict[str, Any] = {"type": kind, "keys": round(keys)}
        if kind not in ("string", "module"):
            row["elements"] = float(f"{sum(group.elements for group in groups) / keys:.4g}")
        if all(group.element_bytes is not None for group in groups):
            total = sum((g.element_bytes or 0.0) + _text_bytes(g) for g in groups)
            row["bytes"] = float(f"{total / keys:.4g}")
        found.append(row)
    return found


def _text_bytes(group: KeyGroup) -> float:
    """Bytes of a hash's values, which are text besides its fields' names."""
    return group.value_bytes if group.kind == "hash" else 0.0
