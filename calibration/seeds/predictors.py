"""Predictions of claims, by name; each is made once and only when it is asked for."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from functools import cached_property
from typing import Any

from forecache.models.answers import load_cases
from forecache.models.cost.answer import cost
from forecache.models.cost.ecpu import ecpu_of_get, ecpu_of_transfer
from forecache.models.footprint import Sets, Strings, used_memory_bytes
from forecache.models.predict import predict_cases

from ..claims import ENGINE, study
from ..large_commands_page import DATASET as SET_OPERATIONS
from ..set_operations import QUANTITY
from ..validate import validate

PREDICTORS: dict[str, Callable[[Predictors], float]] = {}

COMMANDS: dict[str, str] = {}
"""What shows how a prediction comes about."""

Made = Callable[["Predictors"], float]

_MONTH: dict[str, Any] = {
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


class Predictors:
    """Makes predictions, and what several of them share, once each."""

    def __init__(self, progress: Callable[[str], None] = lambda _line: None) -> None:
        self._progress = progress
        self._made: dict[str, float] = {}

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
        [point] = cost(_MONTH)["points"]
        return dict(point)

    @cached_property
    def set_operations(self) -> dict[str, float]:
        """Seconds that each large command lasts, by the fields that tell it apart."""
        return {
            str(sorted(point["given"].items())): point["predicted"][QUANTITY]["value"]
            for point in validate(SET_OPERATIONS)["points"]
        }


# --- what data weighs -----------------------------------------------------------------------------

_WEIGHS = "forecache memory"
_SLOTS = 16_384


def _used(version: str, keys: int, *, cluster: bool = True) -> float:
    data = [Strings(type="string", keys=keys, key_bytes=16, value_bytes=100)]
    return used_memory_bytes(
        "valkey", data, engine_version=version, slots=_SLOTS if cluster else None
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
def _slot_table_saving(_: Predictors) -> float:
    # Of 7.2's keys in cluster mode and alone, without what a node has anyway.
    many, few = 6_000_000, 5_000_000  # both between two doublings of the table
    cluster = _used("7.2", many) - _used("7.2", few)
    alone = _used("7.2", many, cluster=False) - _used("7.2", few, cluster=False)
    return (cluster - alone) / (many - few)


@_predictor(_WEIGHS)
def _footprint_sets(_: Predictors) -> float:
    data = [Sets(type="set", keys=10, key_bytes=16, members=10_000_000, member_bytes=64)]
    return used_memory_bytes("redis", data, engine_version="2.8") / 2**30


@_predictor("10 M (1 - 1/e)")
def _distinct_keys(_: Predictors) -> float:
    draws = 10_000_000
    return draws * -math.expm1(-draws / draws)


# --- nodes ----------------------------------------------------------------------------------------

_CLAIMS = "python -m forecache.calibration.claims"


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


def _typical(made: Predictors, metric: str) -> float:
    """Graviton3 against Graviton2: the median over sizes, of 7.1, in percent."""
    changes = [
        row["graviton3 against graviton2"]["7.1"][metric]["value"] for row in made.sizes("xlarge")
    ]
    return 100.0 * statistics.median(changes)


def _gain(made: Predictors, metric: str) -> list[float]:
    """7.1 against 7.0 by size, in percent."""
    rows = made.sizes("xlarge")
    return [100.0 * row["7.1 against 7.0"][metric]["value"] for row in rows]


@_predictor(_CLAIMS)
def _graviton3_throughput(made: Predictors) -> float:
    return _typical(made, "throughput")


@_predictor(_CLAIMS)
def _graviton3_p99(made: Predictors) -> float:
    return _typical(made, "p99")


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
def _ecpu_of_34(_: Predictors) -> float:
    return ecpu_of_get(3_400, hit_rate=1.0)


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
    nodes = _MONTH["nodes"] | {"payment": "on_demand"}
    [point] = cost(_MONTH | {"hours_per_month": 730, "nodes": nodes})["points"]
    return float(point["nodes"]["usd"])


@_predictor(_COST)
def _bill_break_even(made: Predictors) -> float:
    return float(made.month["break_even"]["ecpu_per_s"] / 1e3)


# --- large commands -------------------------------------------------------------------------------

_LARGE = f"forecache validate {SET_OPERATIONS}"


def _lasts(made: Predictors, **given: object) -> float:
    return made.set_operations[str(sorted(given.items()))]


@_predictor(_LARGE)
def _bulk_import(made: Predictors) -> float:
    return _lasts(made, command="import", form="inline")


@_predictor(_LARGE)
def _sinter_different(made: Predictors) -> float:
    return _lasts(made, command="sinter", overlap=0)


@_predictor(_LARGE)
def _sunion_equal(made: Predictors) -> float:
    return _lasts(made, command="sunion", same_key=True)


@_predictor(_LARGE)
def _sunion_different(made: Predictors) -> float:
    return _lasts(made, command="sunion", overlap=0)


@_predictor(_LARGE)
def _sdiff_different(made: Predictors) -> float:
    return _lasts(made, command="sdiff", overlap=0)


@_predictor(_LARGE)
def _flushdb(made: Predictors) -> float:
    return _lasts(made, command="flushdb")
