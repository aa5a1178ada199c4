"""A result over time as `forecache simulate` returns it: shards are added under load."""

from typing import Any

import numpy as np

from forecache.models.results.displayed import provenance
from forecache.models.results.series import Run, RunPoint, RunsOverTime
from forecache.sim.statistics import Estimate

Json = dict[str, Any]


def as_run(found: Json) -> Run:
    """The run of a point."""
    run = Run.from_dict({"ticks": [], "stacks": []} | found)
    for fact in run.facts:
        if isinstance(fact.against_first, dict):
            object.__setattr__(fact, "against_first", Estimate(**fact.against_first))
    return run


def as_result(found: Json) -> RunsOverTime:
    """The result of the plain data of one."""
    seed = found.get("provenance", {}).get("seed", 1)
    points = [RunPoint(each["given"], as_run(each)) for each in found["points"]]
    seeds = found.get("seeds", 1)
    return RunsOverTime(found["kind"], found["scenario"], seeds, points, provenance(seed=seed))


def point(given: Json, *, seconds: int = 600, load_rps: float = 50_000.0) -> Json:
    """Ten minutes in which two shards are added; the second one stalls for a while."""
    rng = np.random.default_rng(7)
    times_s = np.arange(seconds, dtype=float)
    moving = (times_s > 60) & (times_s < 360)
    down = (times_s >= 200) & (times_s < 215)
    answered = load_rps * np.where(down, 0.4, np.where(moving, 0.93, 1.0))
    answered *= 1 + 0.01 * rng.standard_normal(times_s.size)
    p99_ms = np.where(down, 40.0, np.where(moving, 2.1, 0.9)) * rng.lognormal(0, 0.08, times_s.size)
    columns = [
        ("offered", "1/s", "throughput", np.full(times_s.size, load_rps)),
        ("answered", "1/s", "throughput", answered),
        ("p50", "ms", "latency", p99_ms / 3),
        ("p99", "ms", "latency", np.where(times_s < 5, np.nan, p99_ms)),
        ("timeouts", "1/s", "errors", np.where(down, 0.3 * load_rps, 0.0)),
        ("connections", "", "connections", np.clip(10_000 - 30 * (times_s - 200), 0, 10_000)),
        ("slots moved", "", "progress", np.clip((times_s - 60) / 300, 0, 1)),
    ]
    marks = [(60.0, "shard 4 joins, empty"), (200.0, "shard 4 stops answering")]
    marks += [(215.0, "shard 4 answers again"), (360.0, "shard 5 owns 6,554 slots")]
    facts = [
        ("resize finished", 300.0, "s", "after it began"),
        ("requests not answered", 0.0134 * load_rps, "", ""),
        ("worst p99", float(np.nanmax(p99_ms)), "ms", "while shard 4 was away"),
        ("what limited", "one main thread", "", ""),
        ("data moved", 5.4e9, "bytes", ""),
        ("keys moved", 0.4, "share", "consistent hashing"),
    ]
    return {
        "given": given,
        "series": {
            "time_s": times_s.tolist(),
            "columns": [
                {
                    "name": name,
                    "unit": unit,
                    "panel": panel,
                    "values": [None if np.isnan(v) else float(v) for v in values],
                }
                for name, unit, panel, values in columns
            ],
        },
        "marks": [{"time_s": time_s, "what": what} for time_s, what in marks],
        "facts": [
            {"name": name, "value": value, "unit": unit, "note": note}
            for name, value, unit, note in facts
        ],
        "tables": [
            {
                "title": "Shards",
                "columns": [
                    {"name": "shard", "unit": ""},
                    {"name": "slots", "unit": ""},
                    {"name": "data", "unit": "bytes"},
                    {"name": "requests", "unit": "1/s"},
                    {"name": "state", "unit": ""},
                ],
                "rows": [[i, 3277, 2.7e9, load_rps / 5, "owns its slots"] for i in range(1, 6)],
            }
        ],
        "warnings": [],
    }


def result(*points: Json) -> Json:
    """A result with these points, or with one."""
    return {
        "kind": "cluster",
        "scenario": {"kind": "cluster", "name": "three shards to five"},
        "points": list(points) or [point({})],
        "provenance": {"forecache_version": "0.1.0", "seed": 1},
    }


def sweep() -> Json:
    """Three loads of which the greatest lasts longer and misses more."""
    return result(
        *(
            point({"workload.rate_rps": load}, load_rps=load)
            for load in (15_000.0, 50_000.0, 150_000.0)
        )
    )
