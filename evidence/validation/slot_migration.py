"""Published durations of slot migrations, predicted.

A dataset whose points observe `duration_s` for `method`, `shards_before`, `shards_after` and `load`
is predicted by `models/over_time/cluster/migration.py`. One factor a method is fitted to its
calibration points, if it has any: how fast the source's machines move keys, against the host that
the profiles were measured on. Round trips are those that the dataset states, and so is what one
fsync takes.

Where a dataset says who asks (`load: memtier`, with the rate before), `dip.py` predicts what is
left of the rate meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, Field
from scipy.optimize import brentq

from forecache.calibration.validate.comparison import (
    ComparedDataset,
    ComparedPoint,
    FittedFactor,
    summary_of,
)
from forecache.calibration.validate.dataset import Dataset, DatasetPoint
from forecache.hwprofiles.files import parse
from forecache.hwprofiles.record import Record
from forecache.models.advice.answers import load_cases
from forecache.models.over_time.cluster.migration import (
    FSYNC_MS,
    IDLE,
    KeyByKey,
    Link,
    MigrationProfile,
    MigrationWork,
    NodeLoad,
    atomic,
    key_by_key,
    load_migration_profile,
    saving,
)
from forecache.models.over_time.cluster.slots import SLOTS, Move, even_owners, rebalance
from forecache.models.prediction.predict import predict_cases
from forecache.sim.errors import InputError

from .answer import DatasetValidation, interval_over_cases
from .dip import ClosedLoopClients, rates

QUANTITY = "duration_s"

CLIENT_BYTES_PER_S = 23e9 / 8
"""Network of the one client machine: c4-standard-8 (Google Cloud, up to 23 Gbit/s)."""

FLOW_BYTES_PER_S = 10e9 / 8
"""One TCP connection between two such machines (assumed, 5 to 23 Gbit/s)."""

HEAVY = ClosedLoopClients(
    stand_in="m7i.2xlarge",
    client_threads=4,
    clients_per_thread=50,
    set_share=1.0 / 11.0,
    rate_rps=None,
)
"""memtier_benchmark 1:10 without options, each client connected to every shard; eight CPUs of the
generation before the source's (assumed for the time that a request takes)."""

_KEY_BYTES = 24
_REQUESTS = 4000
_FACTORS = (0.05, 20.0)


class Rebalance(Record):
    """One point: how, from how many shards to how many, with clients or without."""

    model_config = ConfigDict(extra="ignore")

    method: Literal["key_by_key", "atomic"]
    load: Literal["none", "heavy", "memtier"]
    shards_before: int = Field(gt=0, le=1000)
    shards_after: int = Field(gt=0, le=1000)
    dataset_bytes: float = Field(gt=0, le=1e14)
    value_bytes: float = Field(gt=0, le=512 * 2**20)
    rtt_us: float = Field(gt=0, le=1e7)
    fsync_ms: float = Field(default=FSYNC_MS, ge=0, le=1e5)
    replicas: int = Field(default=0, ge=0, le=10)
    engine: str = "valkey"
    engine_version: str = "9.0"
    clients: ClosedLoopClients | None = None
    """Who asks, where that is said; otherwise one machine as fast as its network."""
    service_scale: float = 1.0
    rtt_scale: float = 1.0

    @classmethod
    def of(cls, dataset: Dataset, point: DatasetPoint, where: str) -> Rebalance:
        """Read a point.

        Raises
        ------
        InputError
            A field is missing or has a value that is not known.
        """
        fields = {**dataset.scenario, **point.given}
        if fields.get("load") == "memtier":
            fields["clients"] = parse(ClosedLoopClients, fields, file=where)
        return parse(cls, fields, file=where)

    @property
    def keys_per_slot(self) -> int:
        """Keys of a slot, all alike."""
        return round(self.dataset_bytes / self.value_bytes / SLOTS)

    @property
    def rtt_s(self) -> float:
        """Between nodes, and between them and the operator."""
        return self.rtt_us * 1e-6 * self.rtt_scale


def is_migration(dataset: Dataset) -> bool:
    """Whether all its points are durations of migrations."""
    return all(QUANTITY in point.observed for point in dataset.points)


def validate_migrations(dataset: Dataset, file: str) -> DatasetValidation:
    """Fit the calibration points of each method, predict all points.

    Raises
    ------
    InputError
        A point is none that the model predicts, or a method of which another point is fitted has
        no calibration point.
    """
    cases = [
        Rebalance.of(dataset, point, f"{file}: points[{number}]")
        for number, point in enumerate(dataset.points)
    ]
    observed = [float(point.observed[QUANTITY] or np.nan) for point in dataset.points]
    methods: dict[str, list[int]] = {
        method: [
            number
            for number, point in enumerate(dataset.points)
            if point.role == "calibration" and cases[number].method == method
        ]
        for method in dict.fromkeys(case.method for case in cases)
    }
    fitted = any(methods.values())
    for method, rows in methods.items():
        if fitted and not rows:
            raise InputError(f"{file}: no calibration point of method {method}; valid is one.")
    nominal, factors = _predicted(cases, observed, methods, Doubt())
    others = [_predicted(cases, observed, methods, doubt)[0] for doubt in DOUBTS]
    points = []
    for number, point in enumerate(dataset.points):
        seen = {name: float(value) for name, value in point.observed.items() if value is not None}
        _check(seen, nominal[number], f"{file}: points[{number}]")
        predicted = {}
        for name in seen:
            own = _profile(cases[number]).error.half_width if name == QUANTITY else 0.0
            predicted[name] = interval_over_cases(
                nominal[number][name], [each[number][name] for each in others], error=own
            )
        points.append(
            ComparedPoint(
                index=number,
                given=point.given,
                role=point.role,
                observed=seen,
                predicted=predicted,
            )
        )
    names = dict.fromkeys(name for point in points for name in point.observed)
    note = "against the host that the work was measured on"
    return DatasetValidation(
        dataset=ComparedDataset(dataset.id, dataset.title, file),
        fitted=[
            FittedFactor(
                f"{method}: speed of the source's machines",
                *3 * (factors[method],),
                from_prior=0.0,
                points=rows,
                note=note,
            )
            for method, rows in methods.items()
            if rows
        ],
        points=points,
        summary=summary_of(points, list(names)),
    )


def _check(seen: Mapping[str, float], known: Mapping[str, float], where: str) -> None:
    for name in seen:
        if name not in known:
            raise InputError(
                f"{where}.observed: found {name!r}, which the model doesn't say; valid is "
                f"{', '.join(known)}."
            )


@dataclass(frozen=True)
class Doubt:
    """What an interval is over: factors on the stated round trip, on the time of a request, on
    fsync and on a client's draw of a key."""

    rtt: float = 1.0
    service: float = 1.0
    fsync: float = 1.0
    draw: float = 1.0


DOUBTS = tuple(
    Doubt(rtt, service, fsync, draw)
    for rtt in (0.5, 1.5)
    for service in (1.0, 2.0)
    for fsync, draw in ((0.43, 0.6), (2.6, 2.0))
)
"""Within a region round trips take 150 to 450 µs; a request of 16 KB over a real network may take
twice what the node model says of the stand-in; an fsync on a network disk 0.5 to 3 ms (all
assumed)."""


def _predicted(
    cases: Sequence[Rebalance],
    observed: Sequence[float],
    methods: Mapping[str, Sequence[int]],
    doubt: Doubt,
) -> tuple[list[dict[str, float]], dict[str, float]]:
    """What is predicted of all cases, with each method's factor fitted under that doubt."""
    doubtful = [
        case.model_copy(
            update={
                "rtt_scale": doubt.rtt,
                "service_scale": doubt.service,
                "fsync_ms": case.fsync_ms * doubt.fsync,
                "clients": case.clients
                and case.clients.model_copy(update={"draw_ns": case.clients.draw_ns * doubt.draw}),
            }
        )
        for case in cases
    ]
    factors = {
        method: _factor([doubtful[n] for n in rows], [observed[n] for n in rows]) if rows else 1.0
        for method, rows in methods.items()
    }
    return [_seen(case, factors[case.method]) for case in doubtful], factors


def _seen(case: Rebalance, factor: float) -> dict[str, float]:
    """Everything that is predicted of a case."""
    took_s = duration_s(case, factor)
    found = {QUANTITY: took_s}
    if case.clients is not None:
        slots = rebalance(even_owners(case.shards_before), range(case.shards_after))
        count = sum(len(move.slots) for move in slots)
        slot = _slot(case, factor, *_ends(case, slots[0]))
        found |= rates(
            case.clients,
            slot_s=took_s / count,
            save_s=slot.save_s,
            rtt_s=case.rtt_s,
            new_shards=max(0, case.shards_after - case.shards_before),
            shards=case.shards_before,
        )
    return found


def _ends(case: Rebalance, move: Move) -> tuple[NodeLoad, NodeLoad, NodeLoad]:
    owners = even_owners(case.shards_before)
    part = owners.copy()
    part[list(move.slots)] = move.target
    return _loads(case, owners, part, move)


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
    owners = even_owners(case.shards_before)
    total = 0.0
    for move in rebalance(owners, range(case.shards_after)):
        part = owners.copy()
        part[list(move.slots)] = move.target
        loads = _loads(case, owners, part, move)
        if case.method == "key_by_key":
            total += _slot(case, factor, *loads).slot_s * len(move.slots)
        else:
            total += _job_s(case, factor, move, owners, *loads[:2])
        owners = part
    return total


def _link(case: Rebalance) -> Link:
    return Link(operator_rtt_s=case.rtt_s, node_rtt_s=case.rtt_s, bytes_per_s=FLOW_BYTES_PER_S)


def _slot(
    case: Rebalance, factor: float, source: NodeLoad, target: NodeLoad, others: NodeLoad
) -> KeyByKey:
    """One slot of a move key by key."""
    return key_by_key(
        _work(case, factor), keys=case.keys_per_slot, value_bytes=case.value_bytes,
        link=_link(case), primaries=max(case.shards_before, case.shards_after),
        source=source, target=target, others=others,
        saves=saving(
            case.engine, case.engine_version, fsync_ms=case.fsync_ms, replicas=case.replicas
        ),
    )  # fmt: skip


def _job_s(
    case: Rebalance, factor: float, move: Move, owners: Any, source: NodeLoad, target: NodeLoad
) -> float:
    """One atomic move."""
    work, link = _work(case, factor), _link(case)
    owned = int((owners == move.source).sum())
    return atomic(
        work, keys=case.keys_per_slot * len(move.slots), value_bytes=case.value_bytes,
        moving_share=len(move.slots) / owned,
        data_bytes=owned * case.keys_per_slot * case.value_bytes,
        link=link, source=source, target=target, cores=8.0, buffer_limit_bytes=np.inf,
    ).duration_s  # fmt: skip


def _profile(case: Rebalance) -> MigrationProfile:
    return load_migration_profile(
        "redis-key-by-key" if case.method == "key_by_key" else "valkey-atomic"
    )


def _work(case: Rebalance, factor: float) -> MigrationWork:
    profile = _profile(case)
    return profile.on(float(profile.rate_per_ns.value or 1.0) * factor)


def _loads(
    case: Rebalance, before: Any, after: Any, move: Move
) -> tuple[NodeLoad, NodeLoad, NodeLoad]:
    """What clients ask of the two while slots go over, the mean of before and after, and of others.

    Requests go where slots are; their client's network limits them.
    """
    if case.load == "none":
        return IDLE, IDLE, IDLE
    clients = case.clients or HEAVY
    service_s = _service_s(clients, case.engine, case.engine_version, case.value_bytes)
    service_s *= case.service_scale
    rate = clients.rate_rps or CLIENT_BYTES_PER_S / (case.value_bytes + 100.0)

    def load(shard: int) -> NodeLoad:
        # An atomic move hands its slots over at its end, key by key they go one by one.
        counts = [int((each == shard).sum()) for each in (before, after)]
        slots = counts[0] if case.method == "atomic" else sum(counts) / 2
        asked = rate * slots / SLOTS
        return NodeLoad(
            busy=asked * service_s, waiting_s=clients.connections * service_s,
            writes_per_s=asked * clients.set_share, write_bytes=case.value_bytes,
        )  # fmt: skip

    third = next(
        (shard for shard in range(case.shards_before) if shard not in (move.source, move.target)),
        None,
    )
    return load(move.source), load(move.target), IDLE if third is None else load(third)


@lru_cache(maxsize=8)
def _service_s(clients: ClosedLoopClients, engine: str, version: str, value_bytes: float) -> float:
    """Time of a main thread for a request of memtier_benchmark."""
    scenario: Mapping[str, Any] = {
        "host": clients.stand_in, "engine": engine, "engine_version": version, "io_threads": 1,
        "workload": {
            "clients": clients.connections, "keys": 800_000, "key_bytes": _KEY_BYTES,
            "value_bytes": int(value_bytes),
            "mix": {"get": 1 - clients.set_share, "set": clients.set_share},
        },
        "load_generator": {"tool": "memtier_benchmark", "threads": clients.client_threads},
    }  # fmt: skip
    [prediction] = predict_cases(load_cases(scenario), draws=0, replications=2, requests=_REQUESTS)
    return prediction.utilisation["main thread"] / prediction.mean("throughput_rps")
