"""Published durations of slot migrations, predicted.

A dataset whose points observe `duration_s` for `method`, `shards_before`, `shards_after` and `load`
is predicted by `models/cluster/migration.py`. One factor a method is fitted to its calibration
points: how fast the source's machines move keys, against the host that the profiles were measured
on. Round trips are those that the dataset states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from forecache.models.answers import load_cases
from forecache.models.cluster.migration import IDLE, Link, NodeLoad, atomic, key_by_key
from forecache.models.cluster.migration_work import MigrationWork, load_migration_profile
from forecache.models.cluster.slots import SLOTS, Move, even_owners, rebalance
from forecache.models.predict import predict_cases
from forecache.sim.errors import InputError

from .dataset import Dataset, DatasetPoint

QUANTITY = "duration_s"

CLIENT_BYTES_PER_S = 23e9 / 8
"""Network of the one client machine: c4-standard-8 (Google Cloud, up to 23 Gbit/s)."""

FLOW_BYTES_PER_S = 10e9 / 8
"""One TCP connection between two such machines (assumed, 5 to 23 Gbit/s)."""

CONNECTIONS = 200
"""memtier_benchmark without options: 4 threads × 50 clients, each connected to every shard."""

STAND_IN = "m7i.2xlarge"
"""Eight CPUs of the generation before the source's (assumed for the time that a request takes)."""

_KEY_BYTES = 24
_REQUESTS = 4000
_FACTORS = (0.05, 20.0)


@dataclass(frozen=True)
class Rebalance:
    """One point: how, from how many shards to how many, with clients or without."""

    method: str
    before: int
    after: int
    loaded: bool
    keys_per_slot: int
    value_bytes: float
    rtt_s: float
    service_scale: float = 1.0

    @classmethod
    def of(cls, dataset: Dataset, point: DatasetPoint, where: str) -> Rebalance:
        """Read a point.

        Raises
        ------
        InputError
            A field is missing or has a value that is not known.
        """
        all_fields = {**dataset.scenario, **point.given}
        for name, valid in (
            ("method", ("key_by_key", "atomic")),
            ("load", ("none", "heavy")),
        ):
            if all_fields.get(name) not in valid:
                raise InputError(
                    f"{where}: field {name}: found {all_fields.get(name)!r}; "
                    f"valid is {' or '.join(valid)}."
                )
        numbers = {}
        for name in ("shards_before", "shards_after", "dataset_bytes", "value_bytes", "rtt_us"):
            found = all_fields.get(name)
            if not isinstance(found, int | float) or isinstance(found, bool) or found <= 0:
                raise InputError(f"{where}: field {name}: found {found!r}; valid is above 0.")
            numbers[name] = float(found)
        return cls(
            method=all_fields["method"],
            before=int(numbers["shards_before"]),
            after=int(numbers["shards_after"]),
            loaded=all_fields["load"] == "heavy",
            keys_per_slot=round(numbers["dataset_bytes"] / numbers["value_bytes"] / SLOTS),
            value_bytes=numbers["value_bytes"],
            rtt_s=numbers["rtt_us"] * 1e-6,
        )


def is_migration(dataset: Dataset) -> bool:
    """Whether all its points are durations of migrations."""
    return all(set(point.observed) == {QUANTITY} for point in dataset.points)


def validate_migrations(dataset: Dataset, file: str) -> dict[str, Any]:
    """Fit the calibration points of each method, predict all points.

    Returns
    -------
    dict
        As `validate`, with `duration_s` for the metric and without what only nodes have.

    Raises
    ------
    InputError
        A point is none that the model predicts, or a method has no calibration point.
    """
    cases = [
        Rebalance.of(dataset, point, f"{file}: points[{number}]")
        for number, point in enumerate(dataset.points)
    ]
    observed = [float(point.observed[QUANTITY] or np.nan) for point in dataset.points]
    methods = {
        method: [
            number
            for number, point in enumerate(dataset.points)
            if point.role == "calibration" and cases[number].method == method
        ]
        for method in dict.fromkeys(case.method for case in cases)
    }
    for method, rows in methods.items():
        if not rows:
            raise InputError(f"{file}: no calibration point of method {method}; valid is one.")
    nominal, factors = _predicted(cases, observed, methods, Doubt())
    others = [_predicted(cases, observed, methods, doubt)[0] for doubt in DOUBTS]
    points: list[dict[str, Any]] = []
    for number, point in enumerate(dataset.points):
        values = [nominal[number], *(each[number] for each in others)]
        predicted = {"value": nominal[number], "low": min(values), "high": max(values)}
        points.append({
            "index": number, "given": point.given, "role": point.role,
            "observed": {QUANTITY: observed[number]}, "predicted": {QUANTITY: predicted},
            "relative_error": {QUANTITY: nominal[number] / observed[number] - 1.0},
        })  # fmt: skip
    held_out = [point for point in points if point["role"] == "validation"]
    errors = [abs(point["relative_error"][QUANTITY]) for point in held_out]
    inside = [
        p["predicted"][QUANTITY]["low"]
        <= p["observed"][QUANTITY]
        <= p["predicted"][QUANTITY]["high"]
        for p in held_out
    ]
    return {
        "dataset": {"id": dataset.id, "title": dataset.title, "file": file},
        "host": {}, "engine": {},
        "fitted": [
            {
                "name": f"{method}: speed of the source's machines", "factor": factors[method],
                "low": factors[method], "high": factors[method], "from_prior": 0.0,
                "points": rows, "note": "against the host that the work was measured on",
            }
            for method, rows in methods.items()
        ],
        "provenance": {}, "warnings": [], "counters": [], "knee": {},
        "points": points,
        "summary": {QUANTITY: {
            "median_ape": float(np.median(errors)), "max_ape": max(errors),
            "coverage": float(np.mean(inside)), "n": len(errors), "by_band": {},
        }},
    }  # fmt: skip


@dataclass(frozen=True)
class Doubt:
    """What an interval is over: factors on the stated round trip and on the time of a request."""

    rtt: float = 1.0
    service: float = 1.0


DOUBTS = tuple(Doubt(rtt, service) for rtt in (0.5, 1.5) for service in (1.0, 2.0))
"""Within a region round trips take 150 to 450 µs; a request of 16 KB over a real network may take
twice what the node model says of the stand-in (both assumed)."""


def _predicted(
    cases: Sequence[Rebalance],
    observed: Sequence[float],
    methods: Mapping[str, Sequence[int]],
    doubt: Doubt,
) -> tuple[list[float], dict[str, float]]:
    """Durations of all cases, with each method's factor fitted under that doubt."""
    doubtful = [
        replace(case, rtt_s=case.rtt_s * doubt.rtt, service_scale=doubt.service) for case in cases
    ]
    factors = {
        method: _factor([doubtful[n] for n in rows], [observed[n] for n in rows])
        for method, rows in methods.items()
    }
    return [duration_s(case, factors[case.method]) for case in doubtful], factors


def _factor(cases: Sequence[Rebalance], observed: Sequence[float]) -> float:
    """The speed at which the logarithms of durations agree in the mean."""

    def off(log_factor: float) -> float:
        errors = [
            np.log(duration_s(case, float(np.exp(log_factor))) / seen)
            for case, seen in zip(cases, observed, strict=True)
        ]
        return float(np.mean(errors))

    low, high = np.log(_FACTORS)
    if off(low) < 0 or off(high) > 0:
        return float(_FACTORS[0] if off(low) < 0 else _FACTORS[1])
    return float(np.exp(brentq(off, low, high, xtol=1e-4)))


def duration_s(case: Rebalance, factor: float) -> float:
    """All moves of a rebalancing, one pair of shards after the other, as valkey-cli does them."""
    shards = max(case.before, case.after)
    owners = even_owners(case.before)
    total = 0.0
    for move in rebalance(owners, range(case.after)):
        part = owners.copy()
        part[list(move.slots)] = move.target
        source, target = _loads(case, owners, part, move)
        total += _move_s(case, factor, move, owners, shards, source, target)
        owners = part
    return total


def _move_s(
    case: Rebalance, factor: float, move: Move, owners: Any, shards: int,
    source: NodeLoad, target: NodeLoad,
) -> float:  # fmt: skip
    link = Link(operator_rtt_s=case.rtt_s, node_rtt_s=case.rtt_s, bytes_per_s=FLOW_BYTES_PER_S)
    work = _work(case.method, factor)
    if case.method == "key_by_key":
        slot = key_by_key(
            work, keys=case.keys_per_slot, value_bytes=case.value_bytes, link=link,
            primaries=shards, source=source, target=target,
        )  # fmt: skip
        return slot.slot_s * len(move.slots)
    owned = int((owners == move.source).sum())
    return atomic(
        work, keys=case.keys_per_slot * len(move.slots), value_bytes=case.value_bytes,
        moving_share=len(move.slots) / owned,
        data_bytes=owned * case.keys_per_slot * case.value_bytes,
        link=link, source=source, target=target, cores=8.0, buffer_limit_bytes=np.inf,
    ).duration_s  # fmt: skip


def _work(method: str, factor: float) -> MigrationWork:
    name = "redis-key-by-key" if method == "key_by_key" else "valkey-atomic"
    profile = load_migration_profile(name)
    return profile.on(float(profile.rate_per_ns.value or 1.0) * factor)


def _loads(case: Rebalance, before: Any, after: Any, move: Move) -> tuple[NodeLoad, NodeLoad]:
    """What clients ask of the two while slots go over: the mean of before and after.

    Requests go where slots are; their client's network limits them.
    """
    if not case.loaded:
        return IDLE, IDLE
    rate, service_s, set_share = _clients(case.value_bytes)
    service_s *= case.service_scale

    def load(shard: int) -> NodeLoad:
        # An atomic move hands its slots over at its end, key by key they go one by one.
        counts = [int((each == shard).sum()) for each in (before, after)]
        slots = counts[0] if case.method == "atomic" else sum(counts) / 2
        asked = rate * slots / SLOTS
        return NodeLoad(
            busy=asked * service_s, waiting_s=CONNECTIONS * service_s,
            writes_per_s=asked * set_share, write_bytes=case.value_bytes,
        )  # fmt: skip

    return load(move.source), load(move.target)


@lru_cache(maxsize=4)
def _clients(value_bytes: float) -> tuple[float, float, float]:
    """Requests a second of memtier_benchmark 1:10, time of a main thread for one, share of SETs."""
    set_share = 1.0 / 11.0
    scenario: Mapping[str, Any] = {
        "host": STAND_IN, "engine": "valkey", "engine_version": "9.0", "io_threads": 1,
        "workload": {
            "clients": CONNECTIONS, "keys": 800_000, "key_bytes": _KEY_BYTES,
            "value_bytes": int(value_bytes), "mix": {"get": 1 - set_share, "set": set_share},
        },
        "load_generator": {"tool": "memtier_benchmark", "threads": 4},
    }  # fmt: skip
    [prediction] = predict_cases(load_cases(scenario), draws=0, replications=2, requests=_REQUESTS)
    found = prediction.mean("throughput_rps")
    service_s = prediction.utilisation["main thread"] / found
    return CLIENT_BYTES_PER_S / (value_bytes + 100.0), service_s, set_share
