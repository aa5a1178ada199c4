"""Which rules of a closed service fit all its published tests together.

What a serverless cache does inside is not published, its tests are. This draws sets of rules (a
Latin hypercube over what each may be), simulates every test with each, and counts which published
numbers each set misses. The rules of a set that misses nothing are inputs from then on, and
what they were chosen by is no prediction.
"""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from forecache.models.over_time.serverless.schema import Mechanisms, load_version
from forecache.sim.streams import generator

from ..articles.yardstick import error_of, holds
from ..harness import Asked, Files, Progress
from .published_tests import (
    DEFAULT_CACHE,
    DOUBLINGS,
    RAMP,
    default_cache_numbers,
    doublings_numbers,
    found,
    ramp_numbers,
    ramp_window_ms,
)

ARTEFACT = Path("docs/accuracy/serverless_rules.json")
SETS = 40
WORKERS = 2
SEED = 13
_DRAWS = 61
"""Purpose of draws."""

WAITS_MISSES = 2
"""Misses of the short tests beyond which the long tests are left out for a set."""


COMMON = ("detect_s", "enable_s", "provision_s", "proxy_ms")
"""Rules that both versions share; their ranges are those of the versions' files."""

OWN = {
    "7.2": ("let_through", "scale_above", "most_blocked", "keys_per_migrate"),
    "8.0": ("let_through", "scale_above", "migration_threads"),
}
"""Rules of a version of its own."""

DRIVER = {"ramp_growth": (0.01, 0.04), "ramp_look_s": (0.25, 1.5), "ramp_back": (0.02, 0.2)}
"""What whoever drives a ramp does, which is not published either: assumed ranges."""

PUBLISHED: dict[str, tuple[float | None, float | None]] = {
    "7.2 until_min": (50, 50),
    "7.2 between_min": (10, 12),
    "7.2 p50_ms": (None, 0.8),
    "7.2 highest_p99_ms": (8, 9),
    "8.0 until_min": (13, 13),
    "8.0 between_min": (2, 3),
    "8.0 p50_ms": (None, 0.8),
    "8.0 highest_p99_ms": (7, 8),
    "cold highest_ms": (3, 3),
    "cold back_min": (10, 10),
    "doublings machine_rps": (308e3, 308e3),
    "doublings rise_ms": (0.2, 0.2),
    "doublings steady_ms": (0.63, 0.71),
}
"""What the two articles say, by test and number; one end is open where it says below."""

Rules = dict[str, dict[str, float]]
Numbers = dict[str, float | None]


def ranges() -> list[tuple[str, str, float, float]]:
    """Every rule that is drawn: whose it is, its name and what it may be."""
    versions = {name: load_version(name).numbers for name in OWN}
    rows = [("driver", name, *ends) for name, ends in DRIVER.items()]
    for whose, names in (("common", COMMON), *OWN.items()):
        for name in names:
            number = versions[whose if whose in OWN else "8.0"][name]
            assert number.low is not None, name
            assert number.high is not None, name
            rows.append((whose, name, number.low, number.high))
    return rows


def hypercube(count: int, *, seed: int = SEED) -> list[Rules]:
    """Sets of rules: each rule's range is cut into one equal part per set, each used once."""
    random = generator(seed, _DRAWS, 0)
    sets: list[Rules] = [{whose: {} for whose in ("driver", "common", *OWN)} for _ in range(count)]
    for whose, name, low, high in ranges():
        units = (random.permutation(count) + random.random(count)) / count
        for each, unit in zip(sets, units, strict=True):
            value = low * (high / low) ** float(unit)
            whole = Mechanisms.model_fields[name].annotation is int if whose != "driver" else False
            each[whose][name] = round(value) if whole else float(f"{value:.4g}")
    return sets


def simulate_set(rules: Rules) -> Numbers:
    """Every number of `PUBLISHED` with these rules; tests that were left out have none."""
    numbers: Numbers = {}
    cold = default_cache_numbers(
        found(DEFAULT_CACHE, mechanisms=mechanisms_of(rules, "7.2"), duration_s=1_200, step_s=0.5)
    )
    numbers |= {f"cold {name}": cold[name] for name in ("highest_ms", "back_min")}
    numbers |= _ramp(rules, "8.0", duration_s=1_200)
    if len(misses(numbers)) > WAITS_MISSES:
        return numbers
    numbers |= _ramp(rules, "7.2", duration_s=4_800)
    test = found(DOUBLINGS, mechanisms=mechanisms_of(rules, "7.2"))
    doubled = doublings_numbers(test)
    return numbers | {
        f"doublings {name}": doubled[name] for name in ("machine_rps", "rise_ms", "steady_ms")
    }


def mechanisms_of(rules: Rules, version: str) -> dict[str, float]:
    """Fields of `mechanisms` for a version."""
    return rules["common"] | rules[version]


def _ramp(rules: Rules, version: str, *, duration_s: float) -> Numbers:
    demand = RAMP["demand"] | rules["driver"]
    ramp = found(
        RAMP,
        version=version,
        mechanisms=mechanisms_of(rules, version),
        demand=demand,
        duration_s=duration_s,
    )
    made: Numbers = {**ramp_numbers(ramp), **ramp_window_ms(ramp)}
    wanted = ("until_min", "between_min", "p50_ms", "highest_p99_ms")
    return {f"{version} {name}": made[name] for name in wanted}


def misses(numbers: Numbers) -> list[str]:
    """Numbers that do not hold by the yardstick of all pages."""
    return [name for name, value in numbers.items() if not _holds(name, value)]


def _holds(name: str, value: float | None) -> bool:
    low, high = PUBLISHED[name]
    return value is not None and holds(error_of(value, low=low, high=high))


def search(sets: list[Rules], progress: Progress) -> list[dict[str, Any]]:
    """All sets, simulated."""
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(WORKERS) as pool:
        for rules, numbers in zip(sets, pool.map(simulate_set, sets), strict=True):
            missed = misses(numbers)
            rows.append({"rules": rules, "numbers": numbers, "misses": missed})
            progress(f"set {len(rows)} of {len(sets)}: misses {', '.join(missed)}")
    return rows


def artefact(asked: Asked) -> Files:
    """All sets and what each of them misses."""
    rows = search(hypercube(SETS), asked.progress)
    return {ARTEFACT: json.dumps({"seed": SEED, "sets": rows}, indent=1) + "\n"}
