"""Tests of ElastiCache Serverless that two articles describe, as scenarios, and what came of them.

What the articles don't say is assumed here: keys are the ten million that memtier_benchmark draws
from by default; a ramp has as many as the first article's other benchmark, begins with half of what
an empty cache serves and grows as long as the cache follows (`ramp_growth`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from forecache.models.over_time.serverless.run import run_serverless
from forecache.models.over_time.serverless.schema import ServerlessScenario
from forecache.models.results.series import Run

KEYS = 10_000_000

RAMP_KEYS = 6_320_000
"""Distinct keys of ten million draws, which the first article's other benchmark leaves."""

_FIRST_MINUTES = 5
"""The first minutes behind a change."""

RAMP: dict[str, Any] = {
    "kind": "serverless",
    "duration_s": 4_200,
    "report_s": 60,
    "data": {"keys": RAMP_KEYS, "key_bytes": 16, "value_bytes": 512},
    "demand": {"ramp_to_rps": 5_000_000, "mix": {"get": 0.8, "set": 0.2}},
}
"""From nothing to five million requests a second, 512 B, 80% reads."""

_MEMTIER: dict[str, Any] = {
    "kind": "serverless",
    "version": "7.2",
    "report_s": 60,
    "data": {"keys": KEYS, "key_bytes": 16, "value_bytes": 500},
    "demand": {"closed_loop": True, "mix": {"get": 10 / 11, "set": 1 / 11}},
    "clients": {"connections": 400},
}

PHASE_S = 1_800.0

DOUBLINGS = _MEMTIER | {
    "duration_s": 4 * PHASE_S,
    "clients": {
        "connections": 400,
        "machines": [{"at_s": i * PHASE_S, "count": 2**i} for i in range(4)],
    },
}
"""Test 1: half an hour each with 1, 2, 4 and 8 load machines of 8 threads × 50 connections."""

DEFAULT_CACHE = _MEMTIER | {
    "duration_s": 1_800,
    "data": {"keys": KEYS, "key_bytes": 16, "value_bytes": 100},
    "demand": {"closed_loop": True, "mix": {"get": 1 / 11, "set": 10 / 11}},
    "clients": {"connections": 200},
}
"""Test 2: one load machine of 4 threads × 50 connections that mostly writes, an empty cache."""

KEPT_READY = DEFAULT_CACHE | {"limits": {"least": [{"at_s": 0, "ecpu_per_s": 160_000}]}}
"""The same with 160 K ECPU/s kept ready."""

FOUR_HOURS = _MEMTIER | {
    "duration_s": 4 * 3_600,
    "step_s": 0.5,
    "shards": 32,
    "filled": 0.9,
    "clients": {"connections": 400, "machines": [{"at_s": 0, "count": 8}]},
}
"""Test 3: eight load machines for four hours, a cache that has grown in test 1."""


_LEAD_ECPU = 5_000_000

KEPT_LATER: dict[str, Any] = {
    "kind": "serverless",
    "duration_s": 5_400,
    "step_s": 0.5,
    "data": {"keys": KEYS, "key_bytes": 16, "value_bytes": 512},
    "filled": 0.9,
    "demand": {"rate_rps": 20_000},
    "limits": {"least": [{"at_s": 1, "ecpu_per_s": _LEAD_ECPU}]},
}
"""A small cache that is told to keep five million ECPU/s ready."""


@dataclass(frozen=True)
class Found:
    """A run with its facts and series by name."""

    run: Run
    facts: Mapping[str, Any]
    series: Mapping[tuple[str, str], np.ndarray]

    def mean_ms(self, begin_s: float, end_s: float) -> float:
        """Mean latency at the proxies of what was answered in a part of the run."""
        part = (self.run.times_s > begin_s) & (self.run.times_s <= end_s)
        answered = self.series["throughput", "answered"][part]
        return float(self.series["latency", "mean"][part] @ answered / answered.sum())

    def rps(self, begin_s: float, end_s: float) -> float:
        """Mean rate of answers in a part of the run."""
        part = (self.run.times_s > begin_s) & (self.run.times_s <= end_s)
        return float(self.series["throughput", "answered"][part].mean())


def found(scenario: Mapping[str, Any], *, seed: int = 1, **changes: Any) -> Found:
    """Simulate one of these tests with some fields replaced."""
    asked = ServerlessScenario.model_validate({**scenario, **changes})
    run = run_serverless(asked, seed, lambda _line: None)
    return Found(
        run,
        {fact.name: fact.value for fact in run.facts},
        {(each.panel, each.name): each.values for each in run.series},
    )


def ramp_numbers(ramp: Found) -> dict[str, float | None]:
    """What is claimed of a ramp's speed, in minutes."""
    until_s = ramp.facts["until 5,000,000 requests a second"]
    between_s = ramp.facts.get("from scale-out to scale-out")
    return {
        "until_min": None if until_s is None else until_s / 60,
        "between_min": None if between_s is None else between_s / 60,
        "shards": ramp.facts["shards at the end"],
    }


def ramp_window_ms(ramp: Found) -> dict[str, float]:
    """What is claimed of its latency: ms at the proxies by the minute, until it is over.

    A minute is what the service's metrics tell latency by.
    """
    until_s = ramp.facts["until 5,000,000 requests a second"] or np.inf
    within = ramp.run.times_s <= 60 * np.ceil(until_s / 60)
    p50, p99 = (ramp.series["latency", name][within] for name in ("p50", "p99"))
    return {
        "p50_ms": float(np.median(p50)),
        "highest_p50_ms": float(p50.max()),
        "p99_ms": float(np.median(p99)),
        "highest_p99_ms": float(p99.max()),
    }


def doublings_numbers(test: Found) -> dict[str, float]:
    """What is claimed of test 1."""
    ends = [(i + 1) * PHASE_S for i in range(4)]
    settled = [test.rps(end - 600, end) / 2**i for i, end in enumerate(ends)]
    rises = [
        test.mean_ms(end - PHASE_S, end - PHASE_S + 60 * _FIRST_MINUTES)
        - test.mean_ms(end - 600, end)
        for end in ends[1:]
    ]
    each = float(np.mean(settled))
    return {
        "machine_rps": each,
        "client_ms": 400 / each * 1e3,
        "rise_ms": float(np.mean(rises)),
        "steady_ms": test.mean_ms(ends[-1] - 600, ends[-1]),
        "ecpu_a_minute": float(test.series["ECPU", "ECPU a minute"].max()),
    }


def default_cache_numbers(test: Found) -> dict[str, float]:
    """What is claimed of test 2 with a default cache."""
    latency = test.series["latency", "mean"]
    late = np.flatnonzero(latency > 1.1 * latency[-1])
    return {
        "highest_ms": float(latency.max()),
        "back_min": float(test.run.times_s[late[-1]]) / 60 if len(late) else 0.0,
        "end_ms": float(latency[-1]),
    }


Progress = Callable[[str], None]


def tests(progress: Progress) -> dict[str, dict[str, float]]:
    """Tests 1, 2 and 3."""
    progress("simulating tests of a serverless cache with load machines, two minutes")
    ready, steady = found(KEPT_READY), found(FOUR_HOURS)
    latency = steady.series["latency", "mean"]
    return {
        "doublings": doublings_numbers(found(DOUBLINGS)),
        "default": default_cache_numbers(found(DEFAULT_CACHE)),
        "ready": {
            "first_ms": ready.mean_ms(0, 60 * _FIRST_MINUTES),
            "end_ms": ready.mean_ms(900, 1800),
        },
        "four_hours": {
            "mean_ms": steady.mean_ms(0, 4 * 3_600),
            "lowest_ms": float(latency.min()),
            "highest_ms": float(latency.max()),
            "ecpu_a_minute": float(steady.series["ECPU", "ECPU a minute"][1:].mean()),
        },
    }


def lead_minutes(progress: Progress) -> dict[str, float | None]:
    """Until five million ECPU/s are ready, by version; None where that takes more than 90 min."""
    progress("simulating caches that are told to keep more ready, a minute")
    rows = {}
    for version in ("7.2", "8.0"):
        took_s = found(KEPT_LATER, version=version).facts[f"until {_LEAD_ECPU:,} ECPU/s are ready"]
        rows[version] = None if took_s is None else took_s / 60
    return rows


def ramps(progress: Progress) -> dict[str, dict[str, float | None]]:
    """The ramp with each version."""
    progress("simulating two ramps to five million requests a second, two minutes")
    rows = {}
    for version in ("7.2", "8.0"):
        ramp = found(RAMP, version=version)
        rows[version] = {**ramp_numbers(ramp), **ramp_window_ms(ramp)}
    return rows
