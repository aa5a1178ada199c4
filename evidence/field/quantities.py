"""What can be read from the answers of `simulate` and `memory`, as plain data, by quantity."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Answer = Mapping[str, Any]
"""An answer of a verb, as `to_dict` gives it."""
Point = Mapping[str, Any]
Found = Mapping[str, Any]
"""`value`, and where there is an interval `low` and `high`; or `text`."""

_HOLDS = ("STABLE", "SATURATED")


class Quantity(NamedTuple):
    """How to read a quantity.

    Attributes
    ----------
    unit
        Of its values.
    read
        From one point of an answer, or from all of them where `of_all`; None where the answer does
        not say.
    of_machine
        Whether it depends on how fast the machine is.
    """

    unit: str
    read: Callable[[Any], Found | None]
    of_machine: bool = True
    of_all: bool = False


def _estimate(found: Any, scale: float = 1.0) -> Found | None:
    """A number with or without an interval."""
    if found is None:
        return None
    if not isinstance(found, Mapping):
        return {"value": scale * found}
    known = {key: scale * found[key] for key in ("value", "low", "high") if found[key] is not None}
    return known or None


def _field(name: str, scale: float = 1.0) -> Callable[[Point], Found | None]:
    return lambda point: _estimate(point.get(name), scale)


def _unanswered(_: Any) -> None:
    """No verb says it."""


def _p99_over_mean(point: Point) -> Found | None:
    return {"value": point["p99_ms"]["value"] / point["mean_ms"]["value"]}


def _verdict(point: Point) -> Found:
    if point["verdict"] in _HOLDS:
        return {"text": "stable"}
    if point["verdict"] == "OVERLOADED":
        return {"text": f"overloaded by the {point['bottleneck']}"}
    unmet = ", ".join(each["what"] for each in point.get("unmet", ()))
    return {"text": f"{point['verdict'].lower()}: {unmet}"}


def _fork_ms(point: Point) -> Found | None:
    """How long a fork stops the server, where the answer says that this does not hold."""
    stops = [each for each in point.get("unmet", ()) if each["what"] == "stop"]
    return (
        {"value": stops[0]["needed"] * {"s": 1e3, "ms": 1.0}[stops[0]["unit"]]} if stops else None
    )


def _fact(point: Point, pattern: str) -> Mapping[str, Any] | None:
    return next((fact for fact in point["facts"] if re.search(pattern, fact["name"])), None)


def _fact_value(pattern: str, scale: float = 1.0) -> Callable[[Point], Found | None]:
    def read(point: Point) -> Found | None:
        fact = _fact(point, pattern)
        return None if fact is None else _estimate(fact["value"], scale)

    return read


def _until_fail_s(point: Point) -> Found | None:
    """From the failure, whose time the answer says with the first suspicion, to FAIL."""
    suspected, failed = _fact(point, "first primary suspected"), _fact(point, r"\bFAIL\b|declared")
    if suspected is None or failed is None:
        return None
    after_s = float(re.match(r"[\d.]+", suspected["note"])[0])  # type: ignore[index]
    return {"value": failed["value"] - (suspected["value"] - after_s)}


def _sync_s(point: Point) -> Found | None:
    """How long a full sync lasts, of the table of an upgrade's steps."""
    for table in point["tables"]:
        columns = [column["name"] for column in table["columns"]]
        for row in table["rows"]:
            step = dict(zip(columns, row, strict=True))
            if step.get("step") == "full sync" and "shortest" in step:
                return {"value": (step["shortest"] + step["longest"]) / 2}
    return None


def _ends(point: Point) -> Found:
    fact = _fact(point, "upgrade lasts")
    return {"text": "no" if fact is None or fact["value"] is None else "yes"}


def _slots_moved(point: Point) -> Found | None:
    fact = _fact(point, "resize to")
    moved = None if fact is None else re.search(r"(\d+) slots moved", fact["note"])
    return {"value": float(moved[1])} if moved else None


def _copied(scale: float) -> Callable[[Point], Found | None]:
    """Memory that a child makes the server copy: what it needs beyond resident memory."""

    def read(point: Point) -> Found | None:
        resident = (_estimate(point["resident_bytes"]) or {}).get("value", 0.0)
        forked = _estimate(point["forked_bytes"])
        return forked and {key: scale * (each - resident) for key, each in forked.items()}

    return read


def _members(point: Point) -> float:
    return float(sum(each["keys"] * each["what"]["members"] for each in point["populations"]))


def _bytes_a_member(point: Point) -> Found | None:
    """Used memory without what the server holds beside the data, over members."""
    used, beside = _estimate(point["used_memory_bytes"]), sum(point["beside"].values())
    return used and {key: (each - beside) / _members(point) for key, each in used.items()}


def _by_version(points: Sequence[Point]) -> list[tuple[Point, Point]]:
    """Points of the older and the newer of two versions, which are alike otherwise."""
    versions = list(dict.fromkeys(point["given"]["engine_version"] for point in points))
    older, newer = (
        [point for point in points if point["given"]["engine_version"] == version]
        for version in versions
    )
    return list(zip(older, newer, strict=True))


def _saved_bytes(which: Callable[[list[float]], float]) -> Callable[[Sequence[Point]], Found]:
    """Bytes a member that the newer version needs less, over all swept lengths."""

    def read(points: Sequence[Point]) -> Found:
        used = [
            [point["used_memory_bytes"]["value"] / _members(point) for point in pair]
            for pair in _by_version(points)
        ]
        return {"value": which([older - newer for older, newer in used])}

    return read


def _overhead(point: Point) -> float:
    """Bytes a key beyond key and value."""
    [strings] = point["populations"]
    used = point["used_memory_bytes"]["value"] / strings["keys"]
    return float(used - strings["what"]["key_bytes"] - strings["what"]["value_bytes"])


def _saved_overhead(which: Callable[[list[float]], float]) -> Callable[[Sequence[Point]], Found]:
    """Share of that which the newer version saves, over all swept lengths."""

    def read(points: Sequence[Point]) -> Found:
        shares = [1.0 - _overhead(newer) / _overhead(older) for older, newer in _by_version(points)]
        return {"value": which(shares)}

    return read


def _trouble_above_rps(point: Point) -> Found | None:
    return _estimate(point.get("limit_rps"))


_MIB, _GIB = 2.0**-20, 2.0**-30

QUANTITIES: dict[str, Quantity] = {
    "throughput_rps": Quantity("1/s", _field("throughput_rps")),
    "mean_ms": Quantity("ms", _field("mean_ms")),
    "p50_ms": Quantity("ms", _field("p50_ms")),
    "p99_ms": Quantity("ms", _field("p99_ms")),
    "p99_over_mean": Quantity("", _p99_over_mean, of_machine=False),
    "server_cpu_us": Quantity("µs", _field("server_cpu_us_per_request")),
    "trouble_above_rps": Quantity("1/s", _trouble_above_rps),
    "verdict": Quantity("", _verdict, of_machine=False),
    "fork_ms": Quantity("ms", _fork_ms),
    "blocks_ms": Quantity("ms", _fact_value("longest time other clients wait", 1e3)),
    "sync_s": Quantity("s", _sync_s),
    "ends": Quantity("", _ends, of_machine=False),
    "until_fail_s": Quantity("s", _until_fail_s, of_machine=False),
    "without_a_primary_s": Quantity(
        "s", _fact_value("longest time without a primary"), of_machine=False
    ),
    "slots_moved": Quantity("slots", _slots_moved, of_machine=False),
    "child_s": Quantity("s", _unanswered),
    "expiry_share_of_a_core": Quantity("", _unanswered),
    "used_memory_mb": Quantity("MB", _field("used_memory_bytes", 1e-6), of_machine=False),
    "used_memory_gb": Quantity("GB", _field("used_memory_bytes", 1e-9), of_machine=False),
    "used_memory_mib": Quantity("MiB", _field("used_memory_bytes", _MIB), of_machine=False),
    "used_memory_gib": Quantity("GiB", _field("used_memory_bytes", _GIB), of_machine=False),
    "resident_mb": Quantity("MB", _field("resident_bytes", 1e-6), of_machine=False),
    "copied_mb": Quantity("MB", _copied(1e-6), of_machine=False),
    "copied_gb": Quantity("GB", _copied(1e-9), of_machine=False),
    "bytes_a_member": Quantity("B", _bytes_a_member, of_machine=False),
    "least_saved_bytes_a_member": Quantity("B", _saved_bytes(min), of_machine=False, of_all=True),
    "most_saved_bytes_a_member": Quantity("B", _saved_bytes(max), of_machine=False, of_all=True),
    "least_overhead_saved": Quantity("", _saved_overhead(min), of_machine=False, of_all=True),
    "mean_overhead_saved": Quantity(
        "", _saved_overhead(statistics.fmean), of_machine=False, of_all=True
    ),
    "most_overhead_saved": Quantity("", _saved_overhead(max), of_machine=False, of_all=True),
}
