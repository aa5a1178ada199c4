"""What the model says of each row that was measured: `run_node_life` on the host that measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from forecache.hwprofiles.catalogue import load_host
from forecache.models.engines.generator import load_generator
from forecache.models.footprint.weigh import baseline
from forecache.models.layouts.generations import generation
from forecache.models.over_time.node_life.run import _LOOK_INSTRUCTIONS, run_node_life
from forecache.models.prediction.system import System
from forecache.models.results.series import Run
from forecache.models.step_times.command_times import command_times
from forecache.models.step_times.workload_caches import shared_line_ns

from ..harness import Progress
from ..live import rounds
from ..live.cpu_windows import TOOL, case_of_load
from .cases import (
    EXPIRY,
    GROWTH,
    GROWTH_LOOK_S,
    GROWTH_MORE_S,
    HITS,
    KEYS,
    MASS,
    MASS_TTL_S,
    REPORT_S,
    WARM_S,
    WINDOW_S,
    WINDOWS,
    Case,
    scenario_of,
)
from .instructions import VALUE_BYTES

Row = dict[str, Any]
SEED = 1
SEEDS = range(1, 4)
"""Of hit ratios; the share of misses is that of draws."""


def _silent(_line: str) -> None:
    pass


def values(run: Run, name: str) -> np.ndarray:
    """One series of a run; zeros where it was left out for being 0 throughout."""
    for series in run.series:
        if series.name == name:
            return np.asarray(series.values)
    return np.zeros(len(run.times_s))


def mean_hits(run: Run, *, after_s: float) -> float:
    """Hit ratio from a time on."""
    counted = np.asarray(run.times_s) > after_s + 1e-6
    return round(float(values(run, "hits")[counted].mean()), 5)


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
    keys = said["keys"]
    for _ in range(2):
        most = round(beside + (most - beside) * held / keys)
        keys = _hits(row, host, maxmemory_bytes=most)["keys"]
    found = [_hits(row, host, seed=seed, maxmemory_bytes=most) for seed in SEEDS]
    return {
        **said,
        "of_as_many": {
            "keys": round(float(np.mean([each["keys"] for each in found]))),
            "hits": [each["hits"] for each in found],
            "evicted": [each["evicted"] for each in found],
        },
    }


def _hits(row: Row, host: str, *, seed: int = SEED, **settings: Any) -> Row:
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
    run = run_node_life(scenario, seed, _silent)
    counted = np.asarray(run.times_s) > WARM_S + REPORT_S / 2
    name, _, version = row["engine"].rpartition("-")
    return {
        "hits": mean_hits(run, after_s=WARM_S),
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


def of_growth(row: Row, host: str) -> Row:
    """Used memory by keys, and where the table of keys grows."""
    case = _case(GROWTH, row)
    scenario = scenario_of(
        case,
        row["engine"],
        duration_s=row["loaded_s"] + GROWTH_MORE_S,
        rate_rps=1.0,
        host=host,
        report_s=GROWTH_LOOK_S,
        events=[{"event": "load", "at_s": 0.0, "over_s": row["loaded_s"]}],
    )
    run = run_node_life(scenario, SEED, _silent)
    looks = zip(run.times_s, values(run, "keys"), values(run, "used memory"), strict=True)
    return {"looks": [(round(at, 3), round(float(n)), round(float(b))) for at, n, b in looks]}


PREDICTED = {"hits": of_hits, "expiry": of_expiry, "mass": of_mass, "growth": of_growth}


def predict_rows(
    part: str, rows: list[Row], host: str, progress: Progress, *, before: Sequence[Row] = ()
) -> list[Row]:
    """All rows of a part, each with what was predicted of it.

    Parameters
    ----------
    before
        Rows that were predicted once: what is said now stands beside that, as `again`.
    """
    known = {(row["engine"], row["case"]): row["predicted"] for row in before}
    found = []
    for row in rows:
        said = PREDICTED[part](row, host)
        first = known.get((row["engine"], row["case"]), said)
        found.append({**row, "predicted": first, "again": said})
        progress(f"{row['engine']}: {row['case']}: predicted")
    return found


def work_of(engine: str) -> Row:
    """Instructions that the model takes an engine to execute for a key that goes, or stays."""
    profile = rounds.shipped(engine)
    # Instructions don't depend on the host.
    system = System(load_host("r7g.2xlarge"), profile, load_generator(TOOL))
    data = {"keys": KEYS, "key_bytes": 16, "value_bytes": VALUE_BYTES, "clients": 1}
    inputs = system.inputs(case_of_load(profile, {**data, "mix": {"del": 1.0}}).scenario)
    times = command_times(inputs, shared_ns=shared_line_ns(inputs))
    return {
        "going": round(times.execute_ns[0] / inputs.user_ns(1.0), 1),
        "look": _LOOK_INSTRUCTIONS,
    }
