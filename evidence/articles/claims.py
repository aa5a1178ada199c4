"""What a vendor claims of its engine, held against predictions that nothing was fitted to.

The study `claims` predicts the setting of each claim about ElastiCache for Redis 7.0 and 7.1. The
engines' work is that of Redis 7.0 as observed on another machine, the hosts are those of the
catalogue.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from forecache.models.advice.answers import load_cases
from forecache.models.advice.paired import paired_parts, ratio_interval
from forecache.models.memory.contents import structures
from forecache.models.memory.waits import waits_of
from forecache.models.prediction.predict import DRAWS, REQUESTS, Prediction, predict_cases
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case
from forecache.models.step_times.inputs import NodeInputs, user_rate
from forecache.models.step_times.workload_caches import workload_caches
from forecache.sim.plain import plain
from forecache.sim.statistics import Estimate

from ..harness import Asked, Files

ARTEFACT = Path("docs/accuracy/claims-elasticache.json")
ENGINE = "elasticache-redis"
SIZES = ("xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge")

IO_THREADS = {"xlarge": (3, 2), "2xlarge": (6, 7)}
MORE_IO_THREADS = (8, 12)
"""Threads, the main thread included, by size and for all larger ones: what redis.conf of Redis 7.0
advises ("2 or 3" of four cores, 6 of eight, more than 8 hardly help), and a second choice. Amazon
doesn't publish theirs."""

WORKLOAD = {
    "clients": 500,
    "pipeline": 1,
    "mix": {"get": 0.8, "set": 0.2},
    "keys": 3_000_000,
    "key_bytes": 16,
    "value_bytes": 512,
}
TOOL = {"tool": "redis-benchmark"}

LOOKUP_INSTRUCTIONS = 263.0
"""Of the hash find of a GET in Redis 7.0.15, from the key to its entry: `dictFind` under
`lookupKey` and what it calls (callgrind, 8,000 GETs of 1,000 keys of 16 B at pipeline 16: 122 for
the hash, 85 for 1.46 comparisons, 56 of its own). The stage `lookup` of the bundle, 426, counts
finding the command, expiry and the object's age as well."""

ARTICLE_KEYS = 3
"""Keys of the look-up that the article draws."""

_HASH_FIND = ("bucket", "entry", "key")


VARIANTS = ("assumed", "second", "burst")
"""With the threads assumed, with the second choice, and as assumed with the burst bandwidth."""


def io_threads(size: str) -> tuple[int, int]:
    """Assumed threads of a size, and a second choice."""
    return IO_THREADS.get(size, MORE_IO_THREADS)


def scenario(family: str, size: str, version: str, threads: int) -> dict[str, Any]:
    """The article's benchmark on one instance."""
    return {
        "host": f"{family}.{size}",
        "engine": ENGINE,
        "engine_version": version,
        "io_threads": threads,
        "workload": WORKLOAD,
        "load_generator": TOOL,
    }


def study(
    *, sizes: Sequence[str] = SIZES, draws: int = DRAWS, requests: int = REQUESTS
) -> dict[str, Any]:
    """Predict what the article measured: plain numbers by instance.

    Returns
    -------
    dict
        `sizes`: one entry per size, with the engines as assumed, with the second choice of threads
        and, where an instance has one, with its burst bandwidth; each with the changes from 7.0 to
        7.1 and from Graviton2 to Graviton3. `look_up`: one key's hash find, alone and in batches.
    """
    keys = [
        (variant, size, family, version)
        for size in sizes
        for variant in VARIANTS
        for family in ("r6g", "r7g")
        for version in ("7.0", "7.1")
    ]
    cases = [_case(*key) for key in keys]
    found = dict(
        zip(keys, predict_cases(cases, draws=draws, replications=2, requests=requests), strict=True)
    )
    rows = []
    for size in sizes:
        row: dict[str, Any] = {"size": size}
        for variant in VARIANTS:
            old, new = (found[variant, size, "r7g", version] for version in ("7.0", "7.1"))
            row[variant] = {
                "io_threads": old.case.scenario.io_threads,
                "bandwidth_gbit_per_s": old.network_gbit_per_s,
                "7.0": _point(old),
                "7.1": _point(new),
                "7.1 against 7.0": _change(old, new),
                "graviton3 against graviton2": {
                    version: _change(
                        found[variant, size, "r6g", version], found[variant, size, "r7g", version]
                    )
                    for version in ("7.0", "7.1")
                },
            }
        rows.append(row)
    largest = found["assumed", sizes[-1], "r7g", "7.1"]
    met = _keys_per_batch(largest)
    return {
        "workload": WORKLOAD,
        "draws": draws,
        "sizes": rows,
        "keys_per_batch": met,
        "look_up": [
            look_up(largest, keys=keys, draws=draws) for keys in sorted({ARTICLE_KEYS, round(met)})
        ],
    }


def _case(variant: str, size: str, family: str, version: str) -> tuple[Case[Scenario], System]:
    threads = io_threads(size)[variant == "second"]
    [(case, system)] = load_cases(scenario(family, size, version, threads))
    if variant == "burst":
        burst = case.scenario.model_copy(update={"bandwidth": "burst"})
        case = replace(case, scenario=burst)
    return case, system


def _point(prediction: Prediction) -> dict[str, Any]:
    return {
        "throughput_rps": plain(prediction.estimate("throughput_rps")),
        "p99_ms": plain(prediction.estimate("p99_ms")),
        "bottleneck": prediction.bottleneck,
        "utilisation": prediction.utilisation,
    }


def _change(old: Prediction, new: Prediction) -> dict[str, Any]:
    """Relative changes; intervals are of the uncertain numbers, which both have in common."""
    return {"throughput": _ratio(old, new, "throughput_rps"), "p99": _ratio(old, new, "p99_ms")}


def _ratio(old: Prediction, new: Prediction, name: str) -> dict[str, float]:
    half = paired_parts(old, new, name).parameters
    return _relative(ratio_interval(new.mean(name) / old.mean(name), half))


def _relative(ratio: Estimate) -> dict[str, float]:
    return {end: value - 1.0 for end, value in asdict(ratio).items()}


def _keys_per_batch(prediction: Prediction) -> float:
    counters = prediction.nominal[0].result.counters
    return counters["prefetched_keys"] / max(1, counters["prefetch_batches"])


def look_up(prediction: Prediction, *, keys: int, draws: int) -> dict[str, Any]:
    """CPU time of finding one key's entry in the hash table, alone and of `keys` together."""
    scenario, system = prediction.case.scenario, prediction.system
    alone_ns, together_ns = _hash_find_ns(system.inputs(scenario), keys)
    ratios = []
    for draw in range(draws):
        one, many = _hash_find_ns(system.inputs(scenario, draw=draw), keys)
        ratios.append(many / one)
    margin = 1.96 * float(np.std(np.log(ratios), ddof=1)) if len(ratios) > 1 else 0.0
    return {
        "keys": keys,
        "alone_ns": alone_ns,
        "together_ns": together_ns,
        "change": _relative(ratio_interval(together_ns / alone_ns, margin)),
    }


def _hash_find_ns(inputs: NodeInputs, keys: int) -> tuple[float, float]:
    given, engine, work, speed = inputs.scenario, inputs.engine, inputs.work, inputs.speed
    workload = given.workload
    size = int(sum(size * weight for size, weight in workload.sizes))
    lines = structures(
        engine.layout, keys=workload.keys, key_bytes=workload.key_bytes, value_bytes=size
    )
    walked = [
        replace(line, touches=line.touches * work.touch_scale)
        for line in lines
        if line.name in _HASH_FIND
    ]
    caches = workload_caches(inputs)
    waits = waits_of(walked, workload, speed, caches.times)
    rate = user_rate(speed)
    alone_ns = LOOKUP_INSTRUCTIONS / rate + waits.touching_ns()
    own_ns = (LOOKUP_INSTRUCTIONS + work.prefetch_instructions_per_key) / rate
    together_ns = own_ns + waits.together_ns(keys, speed.parallel_misses) / keys
    return alone_ns, together_ns + waits.alone_ns()


def artefact(_asked: Asked) -> Files:
    """What the study found."""
    return {ARTEFACT: json.dumps(study(), indent=1) + "\n"}
