"""Predictions of claims, by name; each is made once and only when it is asked for."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from forecache.models.advice.answers import load_cases
from forecache.models.cost.answer import cost
from forecache.models.cost.bill import ecpu_of_get, ecpu_of_transfer
from forecache.models.footprint.schema import Sets, Strings
from forecache.models.layouts.allocator import Allocator
from forecache.models.over_time.simulate_scenario import simulate_over_time
from forecache.models.prediction.predict import predict_cases
from forecache.sim.plain import plain

from ..serverless.published_tests import ramps, tests
from ..validation import validate
from .claims import ENGINE, study
from .used_memory import used_memory_bytes

PREDICTORS: dict[str, Callable[[Predictors], float]] = {}

COMMANDS: dict[str, str] = {}
"""What shows how a prediction comes about."""

Made = Callable[["Predictors"], float]

MONTH: dict[str, Any] = {
    "kind": "cost",
    "engine": "redis",
    "hours_per_month": 720,
    "data_gb": 0.1,
    "requests": [
        {"command": "get", "per_day": 118_551_620, "value_bytes": 500},
        {"command": "set", "per_day": 536_575_444, "value_bytes": 500},
    ],
    "nodes": {
        "type": "cache.m6g.large",
        "shards": 2,
        "replicas": 1,
        "payment": "reserved_1_year",
    },
}
"""The article's example; prices are its own."""


def _predictor(command: str) -> Callable[[Made], Made]:
    """Enter a function under its name; `command` shows how its prediction comes about."""

    def enter(function: Made) -> Made:
        name = function.__name__.lstrip("_")
        PREDICTORS[name], COMMANDS[name] = function, command
        return function

    return enter


@dataclass(frozen=True)
class Found:
    """What a run answered: facts by name, values of series by name."""

    facts: Mapping[str, Any]
    series: Mapping[str, Sequence[float | None]]


class Predictors:
    """Makes predictions, and what several of them share, once each."""

    def __init__(self, progress: Callable[[str], None] = lambda _line: None) -> None:
        self._progress = progress
        self._made: dict[str, float] = {}
        self._runs: dict[str, Found] = {}

    def __call__(self, name: str) -> float:
        """The prediction of that name, in the unit of its claim."""
        if name not in self._made:
            self._made[name] = PREDICTORS[name](self)
        return self._made[name]

    @cached_property
    def elasticache(self) -> dict[str, Any]:
        """ElastiCache for Redis 7.0 and 7.1 on six sizes of r6g and r7g."""
        self._progress("predicting ElastiCache for Redis on twelve instances, half a minute")
        return study()

    def sizes(self, *but: str) -> list[dict[str, Any]]:
        """Rows of all sizes without some."""
        return [row["assumed"] for row in self.elasticache["sizes"] if row["size"] not in but]

    @cached_property
    def month(self) -> dict[str, Any]:
        """The bill of the article's example."""
        [point] = cost(MONTH).points
        return point.to_dict()

    @cached_property
    def ramps(self) -> dict[str, dict[str, float | None]]:
        """Ramps of serverless caches by version."""
        return ramps(self._progress)

    @cached_property
    def serverless(self) -> dict[str, dict[str, float]]:
        """Tests of a serverless cache by name."""
        return tests(self._progress)

    @cached_property
    def set_operations(self) -> dict[tuple[str, str], float]:
        """Seconds by command and the sets it has: `equal`, `different`, or all data."""
        self._progress("predicting set operations on ten million members")
        found = {}
        for point in validate("redis-2.8-set-operations").points:
            given = point.given
            same = "equal" if given.get("same_key") else "different" if "overlap" in given else ""
            found[given["command"], same] = point.predicted["lasts_s"].value
        return found

    def run(self, scenario: Mapping[str, Any], **changes: Any) -> Found:
        """Facts and series of one cluster scenario with some fields replaced, made once."""
        data = {**scenario, **changes}
        key = repr(data)
        if key not in self._runs:
            self._progress(f"simulating {data['name']}")
            [point] = simulate_over_time(data).points
            self._runs[key] = Found(
                {fact.name: fact.value for fact in point.run.facts},
                {series.name: plain(series.values) for series in point.run.series},
            )
        return self._runs[key]


# --- memory footprint -----------------------------------------------------------------------------

_WEIGHS = "forecache memory"
_SLOTS = 16_384

_MANAGED_ALLOCATOR: Allocator = "system_jemalloc"
"""Size classes every 16 bytes, jemalloc's own choice on aarch64, where the open-source engines ask
for every 8: of the allocators that any of these engines has, only this one turns what 8.0 leaves
out of a key into the article's 32 B (A008); with classes every 8 bytes it is 24."""


def _used(version: str, keys: int, *, cluster: bool = True) -> float:
    data = [Strings(type="string", keys=keys, key_bytes=16, value_bytes=100)]
    return used_memory_bytes(
        "valkey",
        data,
        engine_version=version,
        allocator=_MANAGED_ALLOCATOR,
        slots=_SLOTS if cluster else None,
    )


@_predictor(_WEIGHS)
def _footprint_72(_: Predictors) -> float:
    return _used("7.2", 6_322_820)


@_predictor(_WEIGHS)
def _footprint_80(_: Predictors) -> float:
    return _used("8.0", 6_319_345)


@_predictor(_WEIGHS)
def _footprint_saving(made: Predictors) -> float:
    return 100.0 * (1.0 - made("footprint_80") / made("footprint_72"))


@_predictor(_WEIGHS)
def _saved_a_key(_: Predictors) -> float:
    # Between two doublings of either table, without what a node has anyway.
    many, few = 6_000_000, 5_000_000
    old, new = (_used(version, many) - _used(version, few) for version in ("7.2", "8.0"))
    return (old - new) / (many - few)


@_predictor(_WEIGHS)
def _saved_a_member(_: Predictors) -> float:
    # Against Redis OSS 7.1, the engine with which the sentence before compares; it is laid out as
    # 7.0. Valkey 7.2 lays out its sets as 8.0 does.
    members = 1_000_000
    data = [Sets(type="set", keys=10, key_bytes=16, members=members, member_bytes=16)]
    old, new = (
        used_memory_bytes(
            engine, data, engine_version=version, allocator=_MANAGED_ALLOCATOR, slots=_SLOTS
        )
        for engine, version in (("redis", "7.0"), ("valkey", "8.0"))
    )
    return (old - new) / (10 * members)


@_predictor(_WEIGHS)
def _footprint_sets(_: Predictors) -> float:
    data = [Sets(type="set", keys=10, key_bytes=16, members=10_000_000, member_bytes=64)]
    return used_memory_bytes("redis", data, engine_version="2.8") / 2**30


@_predictor("10 M (1 - 1/e)")
def _distinct_keys(_: Predictors) -> float:
    draws = 10_000_000
    return draws * -math.expm1(-draws / draws)


# --- nodes ----------------------------------------------------------------------------------------

_CLAIMS = "make evidence STUDY=claims"


@_predictor("forecache simulate examples/quickstart.yaml")
def _valkey_8_node(_: Predictors) -> float:
    cases = load_cases(
        {
            "host": "c7g.4xlarge",
            "engine": "valkey",
            "engine_version": "8.0",
            "io_threads": 9,
            "workload": {"clients": 650, "keys": 3_000_000, "value_bytes": 512},
        }
    )
    [prediction] = predict_cases(cases, draws=0, replications=3, requests=40_000)
    return prediction.mean("throughput_rps") / 1e6


def _typical(made: Predictors, version: str, metric: str) -> float:
    """Graviton3 against Graviton2: the median over sizes, in percent."""
    changes = [
        row["graviton3 against graviton2"][version][metric]["value"] for row in made.sizes("xlarge")
    ]
    return 100.0 * statistics.median(changes)


def _gain(made: Predictors, metric: str) -> list[float]:
    """7.1 against 7.0 by size, in percent."""
    rows = made.sizes("xlarge")
    return [100.0 * row["7.1 against 7.0"][metric]["value"] for row in rows]


def _enter_graviton3(version: str, metric: str) -> None:
    def made(predictors: Predictors) -> float:
        return _typical(predictors, version, metric)

    made.__name__ = f"graviton3_{metric}_{version.replace('.', '')}"
    _predictor(_CLAIMS)(made)


for _engine_version in ("7.0", "7.1"):
    for _metric in ("throughput", "p99"):
        _enter_graviton3(_engine_version, _metric)


@_predictor(_CLAIMS)
def _gain_71_throughput(made: Predictors) -> float:
    return statistics.median(_gain(made, "throughput"))


@_predictor(_CLAIMS)
def _gain_71_p99(made: Predictors) -> float:
    return statistics.median(_gain(made, "p99"))


@_predictor(_CLAIMS)
def _gain_71_worst(made: Predictors) -> float:
    return min(_gain(made, "throughput"))


@_predictor(_CLAIMS)
def _gain_71_xlarge(made: Predictors) -> float:
    [row] = [row["assumed"] for row in made.elasticache["sizes"] if row["size"] == "xlarge"]
    return float(100.0 * row["7.1 against 7.0"]["throughput"]["value"])


@_predictor(_CLAIMS)
def _node_71(made: Predictors) -> float:
    rows = made.sizes("xlarge", "2xlarge")
    return float(min(row["7.1"]["throughput_rps"]["value"] for row in rows) / 1e6)


@_predictor(_CLAIMS)
def _p99_71(made: Predictors) -> float:
    return float(max(row["7.1"]["p99_ms"]["value"] for row in made.sizes("xlarge")))


@_predictor(_CLAIMS)
def _amortised_lookup(made: Predictors) -> float:
    three = made.elasticache["look_up"][0]
    assert three["keys"] == 3, ENGINE
    return float(100.0 * three["change"]["value"])


# --- what it costs --------------------------------------------------------------------------------

_COST = "forecache cost"
_HALF_AN_HOUR_S = 1_800


@_predictor(_COST)
def _ecpu_100(_: Predictors) -> float:
    return 136_101.33 * _HALF_AN_HOUR_S * ecpu_of_transfer(100) / 1e6


@_predictor(_COST)
def _ecpu_3200(_: Predictors) -> float:
    sets, hits, misses = 13_994, 2_057, 137_890
    gets = (hits + misses) * ecpu_of_get(3_200, hit_rate=hits / (hits + misses))
    return _HALF_AN_HOUR_S * (sets * ecpu_of_transfer(3_200) + gets) / 1e6


@_predictor(_COST)
def _bill_requests(made: Predictors) -> float:
    return float(made.month["serverless"]["lines"][0]["usd"])


@_predictor(_COST)
def _bill_data(made: Predictors) -> float:
    return float(made.month["serverless"]["lines"][1]["usd"])


@_predictor(_COST)
def _bill_total(made: Predictors) -> float:
    return float(made.month["serverless"]["usd"])


@_predictor(_COST)
def _bill_nodes(made: Predictors) -> float:
    return float(made.month["nodes"]["usd"])


@_predictor(_COST)
def _bill_saving(made: Predictors) -> float:
    return 100.0 * (1.0 - made("bill_total") / made("bill_nodes"))


@_predictor(_COST)
def _bill_on_demand(_: Predictors) -> float:
    nodes = MONTH["nodes"] | {"payment": "on_demand"}
    [point] = cost(MONTH | {"hours_per_month": 730, "nodes": nodes}).points
    assert point.nodes is not None
    return point.nodes.usd


@_predictor(_COST)
def _bill_break_even(made: Predictors) -> float:
    return float(made.month["break_even"]["ecpu_per_s"] / 1e3)


# --- large commands -------------------------------------------------------------------------------

_SETS = "python -m evidence.validation redis-2.8-set-operations"


def _enter_set_operation(name: str, command: str, sets: str) -> None:
    def seconds(made: Predictors) -> float:
        return made.set_operations[command, sets]

    PREDICTORS[name], COMMANDS[name] = seconds, _SETS


for _name, _command, _sets in (
    ("bulk_import", "import", ""),
    ("sinter_different", "sinter", "different"),
    ("sunion_equal", "sunion", "equal"),
    ("sunion_different", "sunion", "different"),
    ("sdiff_different", "sdiff", "different"),
    ("flushdb", "flushdb", ""),
):
    _enter_set_operation(_name, _command, _sets)


# --- clusters -------------------------------------------------------------------------------------

_CONNECTIONS: dict[str, Any] = {
    "kind": "cluster",
    "name": "connections of 25,000 workers",
    "duration_s": 60,
    "cluster": {
        "host": "m7i.large",
        "engine": "redis",
        "engine_version": "7.2",
        "shards": 3,
        "replicas": 1,
        "maxclients": 64_000,
        "tls": {"certificate": "rsa-2048"},
    },
    "data": {"keys": 3_000_000, "key_bytes": 32, "value_bytes": 1000},
    "clients": {
        "pods": 1000,
        "workers_per_pod": 25,
        "connections_per_worker": 1.2,
        "commands_per_request": 14,
        "request_ms": 100,
    },
    "demand": {"rate_rps": 5000},
}
"""The talk's load test; 1.2 connections and 14 commands follow from it (A040)."""

_AUTOSCALED: dict[str, Any] = {
    "kind": "cluster",
    "name": "pods at a CPU target of 50%",
    "duration_s": 900,
    "cluster": _CONNECTIONS["cluster"] | {"tls": False, "replicas": 0},
    "clients": {
        "pods": 500,
        "workers_per_pod": 25,
        "commands_per_request": 14,
        "request_ms": 100,
        "autoscaler": {"cpu_target": 0.5, "cpu_s_per_request": 0.05},
    },
    "demand": {"rate_rps": 4000},
}
"""5 requests/s of a pod at a target of 25% (A043) are 50 ms of CPU time each."""


def _failed(made: Predictors, connections: str, **changes: Any) -> float:
    clients = _CONNECTIONS["clients"] | {"connections": connections}
    facts = made.run(_CONNECTIONS, clients=clients, **changes).facts
    return float(facts["failed"] + facts.get("turned away: no free worker", 0))


@_predictor("forecache simulate examples/connections.yaml")
def _per_request_failed(made: Predictors) -> float:
    # Each users' request opens a connection to each of three shards: 1,000 a second.
    return _failed(made, "per_request", demand={"rate_rps": 1_000 / 3})


@_predictor("forecache simulate examples/connections.yaml")
def _persistent_failed(made: Predictors) -> float:
    return _failed(made, "persistent")


@_predictor("forecache simulate examples/autoscaler.yaml")
def _pods_at_half(made: Predictors) -> float:
    return float(made.run(_AUTOSCALED).series["pods"][-1] or 0.0)


@_predictor("forecache simulate examples/autoscaler.yaml")
def _connections_at_half(made: Predictors) -> float:
    return float(made.run(_AUTOSCALED).facts["connections at the end"])


# --- serverless -----------------------------------------------------------------------------------

_SERVERLESS = "make evidence STUDY=serverless"


def _enter_ramp(name: str, version: str, number: str) -> None:
    def made(predictors: Predictors) -> float:
        # A rate that is never reached takes for ever.
        found = predictors.ramps[version][number]
        return math.inf if found is None else float(found)

    made.__name__ = name
    _predictor(_SERVERLESS)(made)


def _enter_test(name: str, test: str, number: str, scale: float = 1.0) -> None:
    def made(predictors: Predictors) -> float:
        return predictors.serverless[test][number] * scale

    made.__name__ = name
    _predictor(_SERVERLESS)(made)


for _version in ("7.2", "8.0"):
    _major = _version[0]
    _enter_ramp(f"ramp_{_major}_minutes", _version, "until_min")
    _enter_ramp(f"ramp_{_major}_doubling", _version, "between_min")
    _enter_ramp(f"ramp_{_major}_p50", _version, "p50_ms")
    _enter_ramp(f"ramp_{_major}_p99", _version, "highest_p99_ms")
_enter_test("machine_krps", "doublings", "machine_rps", 1e-3)
_enter_test("machine_ms", "doublings", "client_ms")
_enter_test("doubling_rise", "doublings", "rise_ms")
_enter_test("doubling_steady", "doublings", "steady_ms")
_enter_test("doubling_ecpu", "doublings", "ecpu_a_minute", 1e-6)
_enter_test("default_first", "default", "highest_ms")
_enter_test("default_back", "default", "back_min")
_enter_test("ready_first", "ready", "first_ms")
_enter_test("four_hours", "four_hours", "mean_ms")
