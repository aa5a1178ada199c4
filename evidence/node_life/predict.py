"""What the model says of each row that was measured: `run_node_life` on the host that measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from forecache.models.footprint.weigh import baseline
from forecache.models.layouts.generations import generation
from forecache.models.over_time.node_life.run import run_node_life
from forecache.models.results.series import Run

from ..harness import Progress
from .cases import EXPIRY, HITS, MASS, MASS_TTL_S, REPORT_S, WARM_S, WINDOW_S, WINDOWS, Case, scenario_of

Row = dict[str, Any]
SEED = 1


def _silent(_: str) -> None:
    pass


def values(run: Run, name: str) -> np.ndarray:
    """One series of a run; zeros where it was left out for being 0 throughout."""
    for series in run.series:
        if series.name == name:
            return np.asarray(series.values)
    return np.zeros(len(run.times_s))


def _case(cases: tuple[Case, ...], row: Row) -> Case:
    [found] = [case for case in cases if case.name == row["case"]]
    return found


def of_hits(row: Row, host: str) -> Row:
    """Hit ratio after the time that is not counted, as the verb says it, and with as many keys.

    An engine that was built with another allocator than its project's holds other numbers of keys,
    and so does one whose clients' buffers are a hundredth of such a small memory.
    """
    said = _hits(row, host)
    settings = _case(HITS, row).settings
    most = settings["maxmemory_bytes"]
    held = row["windows"][-1]["keys"]
    beside = said.pop("beside")
    for _ in range(2):
        found = _hits(row, host, maxmemory_bytes=most)
        most = round(beside + (most - beside) * held / found["keys"])
    found = _hits(row, host, maxmemory_bytes=most)
    return {**said, "of_as_many": {name: found[name] for name in ("hits", "keys", "evicted")}}


def _hits(row: Row, host: str, **settings: Any) -> Row:
    case = _case(HITS, row)
    case = replace(case, settings={**case.settings, **settings})
    scenario = scenario_of(
        case,
        row["engine"],
        duration_s=WARM_S + WINDOW_S * WINDOWS,
        rate_rps=row["rate_rps"],
        host=host,
        report_s=REPORT_S,
        stores_misses=True,
    )
    run = run_node_life(scenario, SEED, _silent)
    counted = np.asarray(run.times_s) > WARM_S + REPORT_S / 2
    name, _, version = row["engine"].rpartition("-")
    return {
        "hits": round(float(values(run, "hits")[counted].mean()), 5),
        "keys": round(float(values(run, "keys")[-1])),
        "used_memory": round(float(values(run, "used memory")[-1])),
        "evicted": round(float(values(run, "evicted")[counted].sum() * REPORT_S)),
        "beside": baseline(generation(name, version)).total,
    }


def of_expiry(row: Row, host: str) -> Row:
    """Keys alive and stale in the time that was measured, and the cycles' share of it."""
    case = _case(EXPIRY, row)
    scenario = scenario_of(
        case,
        row["engine"],
        duration_s=row["warm_s"] + row["seconds"],
        rate_rps=row["rate_rps"],
        host=host,
        report_s=0.5,
        demand={"rate_rps": row["rate_rps"], "mix": {"set": 1}},
    )
    run = run_node_life(scenario, SEED, _silent)
    counted = np.asarray(run.times_s) > row["warm_s"]
    stale, keys = values(run, "expired, still there")[counted], values(run, "keys")[counted]
    return {
        "alive": round(float((keys - stale).mean())),
        "stale": round(float(stale.mean())),
        "expired": round(float(values(run, "expired")[counted].mean() * row["seconds"])),
        "cycles_share": round(float(values(run, "expiry")[counted].mean()), 5),
    }


def of_mass(row: Row, host: str) -> Row:
    """When keys are gone that all end at one moment."""
    case, step_s = _case(MASS, row), 0.1
    scenario = scenario_of(
        case,
        row["engine"],
        duration_s=MASS_TTL_S + 30.0,
        rate_rps=1.0,
        host=host,
        report_s=step_s,
        events=[{"event": "load", "at_s": 0.0, "over_s": step_s, "ttl_s": MASS_TTL_S}],
    )
    run = run_node_life(scenario, SEED, _silent)
    times, keys = np.asarray(run.times_s), values(run, "keys")
    after = times > MASS_TTL_S
    gone = times[after & (keys < 0.5)]
    share = values(run, "expiry")
    active = after & (times <= gone[0]) if len(gone) else after
    return {
        "gone_s": round(float(gone[0] - MASS_TTL_S), 2) if len(gone) else None,
        "cycles_ms": round(1e3 * float(share[after].sum()) * step_s, 1),
        "cycles_share": round(float(share[active].mean()), 4),
        "left": [
            (round(float(at - MASS_TTL_S), 2), round(float(n)))
            for at, n in zip(times[active], keys[active], strict=True)
        ],
    }


PREDICTED = {"hits": of_hits, "expiry": of_expiry, "mass": of_mass}


def predict(part: str, rows: list[Row], host: str, progress: Progress) -> list[Row]:
    """All rows of a part, each with what was predicted of it."""
    found = []
    for row in rows:
        found.append({**row, "predicted": PREDICTED[part](row, host)})
        progress(f"{row['engine']}: {row['case']}: {found[-1]['predicted']}"[:160])
    return found
