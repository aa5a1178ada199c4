"""Real engines under the cases of `cases.py`, in rows that are kept as they come."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.servers import EngineProcess
from forecache.calibration.observe.readers.info import info_fields
from forecache.hwprofiles.files import write_text_atomic
from forecache.models.over_time.node_life.schema import NodeLife, TimeToLive
from forecache.models.scenario.versions import version_numbers
from forecache.models.scenario.workload import HotSetPopularity, Zipf, sizes_of
from forecache.sim.errors import EngineError

from ..counts.shipped import json_text
from ..harness import Progress
from ..live.engines import Engine
from .cases import (
    EXPIRY,
    GROWTH,
    GROWTH_LOOK_S,
    GROWTH_MORE_S,
    HITS,
    LOOK_S,
    MASS,
    MASS_TTL_S,
    STEADY_S,
    WARM_S,
    WINDOW_S,
    WINDOWS,
    Case,
    scenario_of,
)
from .driver import AT_ONCE, Driver, hot_shares, zipf_shares

Row = dict[str, Any]

AT_A_TIME = 2
"""Servers that are driven side by side where only counts are read."""
_MASS_LIMIT_S = 60.0


def keep(path: Path, row: Row) -> None:
    """Add a row to a file, in place of the one of the same engine and case."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    rows = [each for each in rows if (each["engine"], each["case"]) != (row["engine"], row["case"])]
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = sorted([*rows, row], key=lambda each: (each["engine"], each["case"]))
    write_text_atomic(path, json_text(rows))


def run_cases(
    cases: tuple[Case, ...],
    measure: Callable[[Case, Engine], Row],
    engines: list[Engine],
    path: Path,
    progress: Progress,
    *,
    at_a_time: int = 1,
) -> None:
    """Measure every case of every engine, and keep each row in a file as soon as it is there."""
    asked = [
        (case, engine)
        for engine in engines
        for case in cases
        if case.of(engine.name, engine.version)
    ]
    with ProcessPoolExecutor(at_a_time) as pool:
        for row in pool.map(measure, *zip(*asked, strict=True)):
            progress(f"{row['engine']}: {row['case']}")
            keep(path, row)


def hits(case: Case, engine: Engine) -> Row:
    """Hit ratio in windows, after a while that is not counted."""
    with _driven(case, engine) as (driver, control):
        rates = [driver.read_through(rate_rps=case.rate_rps, seconds=WARM_S)]
        before = _counts(control)
        windows = []
        for _ in range(WINDOWS):
            rates.append(driver.read_through(rate_rps=case.rate_rps, seconds=WINDOW_S))
            after = _counts(control)
            windows.append(
                {name: after[name] - before[name] for name in _TOTALS}
                | {"keys": after["keys"], "used_memory": after["used_memory"]}
            )
            before = after
        refused = driver.refused
    seconds = [WARM_S] + [WINDOW_S] * WINDOWS
    return {
        **_of(case, engine),
        "refused": refused,
        "rate_rps": round(float(np.average(rates, weights=seconds)), 1),
        "windows": windows,
    }


def expiry(case: Case, engine: Engine) -> Row:
    """Keys that are there and those whose time has ended, after all first ones have."""
    ttl = case.data["ttl_s"]
    with _driven(case, engine) as (driver, control):
        warm_s = 1.5 * ttl["to_s"]
        rates = [driver.write(rate_rps=case.rate_rps, seconds=warm_s)]
        before, began = _counts(control), time.monotonic()
        looks = []
        while time.monotonic() - began < STEADY_S:
            rates.append(driver.write(rate_rps=case.rate_rps, seconds=LOOK_S))
            looks.append((control.keys_held(), driver.alive()))
        seconds = time.monotonic() - began
        after = _counts(control)
    there, alive = np.array(looks).T
    return {
        **_of(case, engine),
        "rate_rps": round(float(np.mean(rates)), 1),
        "warm_s": warm_s,
        "seconds": round(seconds, 2),
        "alive": alive.tolist(),
        "stale": (there - alive).tolist(),
        "expired": after["expired_keys"] - before["expired_keys"],
        "cycles_ms": _change(before, after, "expire_cycle_cpu_milliseconds"),
        "cut_short": _change(before, after, "expired_time_cap_reached_count"),
    }


def mass(case: Case, engine: Engine) -> Row:
    """Keys that all end at one moment: how many are there afterwards, and for how long."""
    with _driven(case, engine) as (driver, control):
        ends = time.time() + MASS_TTL_S
        for first in range(0, driver.keys, AT_ONCE):
            driver.write_keys(range(first, min(first + AT_ONCE, driver.keys)), expire_at_s=ends)
        loaded_s = MASS_TTL_S - (ends - time.time())
        if loaded_s > MASS_TTL_S:
            raise EngineError(f"the keys took {loaded_s:.1f} s to load, and had ended by then.")
        before = _counts(control)
        there = before["keys"]
        time.sleep(max(0.0, ends - time.time()))
        left: list[tuple[float, int]] = []
        while not left or (left[-1][1] > 0 and left[-1][0] < _MASS_LIMIT_S):
            left.append((round(time.time() - ends, 3), control.keys_held()))
            time.sleep(0.02)
        after = _counts(control)
    return {
        **_of(case, engine),
        "loaded_s": round(loaded_s, 2),
        "keys": there,
        "gone_s": left[-1][0],
        "left": left[:: max(1, len(left) // 40)],
        "cycles_ms": _change(before, after, "expire_cycle_cpu_milliseconds"),
        "cut_short": _change(before, after, "expired_time_cap_reached_count"),
        "server_cpu_s": round(after["cpu_s"] - before["cpu_s"], 3),
    }


def growth(case: Case, engine: Engine) -> Row:
    """Used memory by keys, while keys come one after the other."""
    looks: list[tuple[float, int, int]] = []
    with _driven(case, engine) as (driver, control):
        began = time.monotonic()

        def look() -> None:
            used = int(info_fields(control.info("memory"))["used_memory"])
            looks.append((round(time.monotonic() - began, 3), control.keys_held(), used))

        for first in range(0, driver.keys, AT_ONCE):
            driver.write_keys(range(first, min(first + AT_ONCE, driver.keys)))
            late_s = time.monotonic() - began - first / case.rate_rps
            if late_s < 0.0:
                time.sleep(-late_s)
            if time.monotonic() - began > len(looks) * GROWTH_LOOK_S:
                look()
        loaded_s = time.monotonic() - began
        while time.monotonic() - began < loaded_s + GROWTH_MORE_S:
            time.sleep(GROWTH_LOOK_S)
            look()
    return {**_of(case, engine), "loaded_s": round(loaded_s, 2), "looks": looks}


PARTS: dict[str, tuple[tuple[Case, ...], Callable[[Case, Engine], Row], int]] = {
    "hits": (HITS, hits, AT_A_TIME),
    "expiry": (EXPIRY, expiry, 1),
    "mass": (MASS, mass, 1),
    "growth": (GROWTH, growth, AT_A_TIME),
}

_TOTALS = ("keyspace_hits", "keyspace_misses", "evicted_keys", "expired_keys")


def _of(case: Case, engine: Engine) -> Row:
    return {"engine": engine.id, "case": case.name}


def _change(before: Row, after: Row, name: str) -> float | None:
    return None if name not in after else after[name] - before[name]


def _counts(control: RespClient) -> Row:
    fields = info_fields("".join(control.info(part) for part in ("stats", "memory", "cpu")))
    found: Row = {
        name: int(fields[name])
        for name in (
            *(*_TOTALS, "used_memory", "expire_cycle_cpu_milliseconds"),
            "expired_time_cap_reached_count",
        )
        if name in fields
    }
    found["cpu_s"] = float(fields["used_cpu_user"]) + float(fields["used_cpu_sys"])
    return {**found, "keys": control.keys_held()}


@contextmanager
def _driven(case: Case, engine: Engine) -> Iterator[tuple[Driver, RespClient]]:
    """A server with the case's settings and a driver of its keys."""
    scenario = scenario_of(case, engine.id, duration_s=60.0, rate_rps=1.0, host="r7g.2xlarge")
    with (
        EngineProcess(engine.server, config=server_settings(scenario, engine)) as process,
        process.control() as control,
    ):
        driver = driver_of(scenario, process)
        try:
            yield driver, control
        finally:
            driver.close()


def server_settings(scenario: NodeLife, engine: Engine) -> dict[str, str]:
    """The settings by the names that the server gives them."""
    said = scenario.settings
    found = {
        "maxmemory": str(said.maxmemory_bytes or 0),
        "maxmemory-policy": said.maxmemory_policy,
        "maxmemory-samples": str(said.maxmemory_samples),
        "hz": str(said.hz),
    }
    if engine.name == "valkey" or version_numbers(engine.version) >= [6]:
        found["active-expire-effort"] = str(said.active_expire_effort)
    return found


def driver_of(scenario: NodeLife, process: EngineProcess) -> Driver:
    """A driver of a scenario's keys."""
    data, law = scenario.data, scenario.data.popularity
    if isinstance(law, Zipf):
        shares = zipf_shares(data.keys, law.zipf)
    elif isinstance(law, HotSetPopularity):
        hot = law.hot_set
        shares = hot_shares(data.keys, hot_keys=hot.keys, hot_requests=hot.requests)
    else:
        shares = np.full(data.keys, 1.0 / data.keys)
    values, weights = zip(*sizes_of(data.value_bytes), strict=True)
    ttl = data.ttl_s
    ends = (ttl.from_s, ttl.to_s) if isinstance(ttl, TimeToLive) else ttl and (ttl, ttl)
    return Driver(
        process.address("unix"),
        shares=shares,
        value_bytes=np.random.default_rng(2).choice(values, size=data.keys, p=weights),
        ttl_s=ends or None,
        timed=data.timed,
    )
