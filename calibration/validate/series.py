"""What the points of a dataset are called, and which of them form a curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .comparison import ComparedPoint

CURVE_POINTS = 4
"""Fewer points than this in any number of threads make no curve, and have no knee."""

_NAMES = {"io_threads": "io-threads", "engine_version": "version"}


def varying(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Conditions that are not the same at all points, the command first, threads last."""
    names = dict.fromkeys(name for given in points for name in given)
    missing = object()

    def changes(name: str) -> bool:
        first = points[0].get(name, missing)
        return any(given.get(name, missing) != first for given in points)

    order = {"command": -1, "io_threads": 1}
    return sorted((name for name in names if changes(name)), key=lambda name: order.get(name, 0))


def label(given: Mapping[str, Any], names: Sequence[str] | None = None) -> str:
    """Conditions in words: `SET, 3M keys, pipeline 10, io-threads 9`.

    Parameters
    ----------
    names
        Which conditions; None for all.
    """
    parts = []
    for name in given if names is None else names:
        if name not in given:
            continue
        value = given[name]
        if name == "command":
            parts.append(str(value).upper())
        elif name == "keys":
            parts.append(f"{_count(value)} key{'' if value == 1 else 's'}")
        elif name == "engine_version" and "engine" in given:
            parts.append(f"{given['engine']} {value}")
        elif name == "engine" and "engine_version" in given:
            continue
        elif name == "prefetch_batch" and value == 0:
            parts.append("no prefetch")
        elif name == "mix":
            parts.append(_mix(value))
        elif name == "popularity" and isinstance(value, Mapping):
            parts.append(_popularity(value))
        else:
            parts.append(f"{_NAMES.get(name, name.replace('_', ' '))} {value}")
    return ", ".join(parts)


def _mix(mix: Mapping[str, Any]) -> str:
    """Commands of a mix: `MGET of 20 keys`, `80% GET, 20% SET`."""
    parts = []
    for command, what in mix.items():
        fields = what if isinstance(what, Mapping) else {"share": what}
        share, keys = fields.get("share", 1.0), fields.get("keys")
        of_keys = "" if keys is None else f" of {_count(keys)} keys"
        part = "" if share == 1.0 else f"{100 * share:g}% "
        parts.append(f"{part}{command.upper()}{of_keys}")
    return ", ".join(parts)


def _popularity(popularity: Mapping[str, Any]) -> str:
    """Which keys are asked for: `hot set 0.05%`, of the keys, or `zipf exponent 0.99`."""
    [(kind, fields)] = popularity.items()
    if kind == "hot_set":
        return f"hot set {100 * fields['keys']:g}%"
    return " ".join([kind, *(f"{name} {value:g}" for name, value in fields.items())])


def _count(value: int) -> str:
    for size, symbol in ((1_000_000, "M"), (1_000, "k")):
        if value >= size and value % (size // 10) == 0:
            return f"{value / size:g}{symbol}"
    return str(value)


def series_of(points: Sequence[ComparedPoint]) -> dict[str, list[ComparedPoint]]:
    """Points that differ in io_threads only, by what they share, in order of threads.

    Those with a throughput count; a single series has the name `all points`.
    """
    series: dict[str, list[ComparedPoint]] = {}
    for point in points:
        if "io_threads" in point.given and "throughput_rps" in point.observed:
            shared = {k: v for k, v in point.given.items() if k != "io_threads"}
            series.setdefault(label(shared) or "all points", []).append(point)
    return {
        name: sorted(members, key=lambda point: int(point.given["io_threads"]))
        for name, members in series.items()
    }


def curves_of(points: Sequence[ComparedPoint]) -> dict[str, list[ComparedPoint]]:
    """The series long enough to be curves."""
    return {name: own for name, own in series_of(points).items() if len(own) >= CURVE_POINTS}
