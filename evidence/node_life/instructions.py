"""Instructions that a key takes when it is evicted or expires, counted in valgrind.

Other machines' load changes what a key takes in time, but not its instructions. An evicted key is
the difference between SETs of new keys at the limit and SETs of new keys without one. Keys that all
end at one moment tell what a cycle takes for a key that goes.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from forecache.calibration.drive.connection import RespClient
from forecache.calibration.observe.command_counts import ServerInValgrind, in_valgrind
from forecache.calibration.observe.profilers.programs import version_of
from forecache.calibration.observe.readers.info import info_fields
from forecache.sim.errors import EngineError

from ..live.engines import Engine
from .driver import AT_ONCE, Driver

Row = dict[str, Any]

VALUE_BYTES = 64
_KEYS, _NEW, _SETTLE = 20_000, 3_000, 300
"""Keys that are there (fewer than 2^15 throughout, so that no table grows), and those that come."""

POLICIES = (("allkeys-random", 5), ("allkeys-lru", 5), ("allkeys-lru", 10), ("allkeys-lfu", 5))
_ENDING = 12_000
_AHEAD_S, _IDLE_S, _LIMIT_S = 25.0, 3.0, 60.0
_HZ = 10
"""Few timers, so that hardly anything but cycles is counted."""


def count(engine: Engine, progress: Any) -> list[Row]:
    """All rows of an engine."""
    tool = version_of(["valgrind", "--version"])
    rows: list[Row] = []
    for policy, samples in POLICIES:
        try:
            found = _evicted(engine, policy, samples)
        except EngineError as error:  # no such policy
            progress(f"{engine.id}: {policy} is left out ({error})")
            continue
        rows.append({"engine": engine.id, "case": f"{policy}, {samples}", "tool": tool, **found})
        progress(f"{engine.id}: {policy}, {samples}: {found['evicted_key']}")
    found = _expired(engine)
    rows.append({"engine": engine.id, "case": "expiry", "tool": tool, **found})
    progress(f"{engine.id}: expiry: {found}")
    return rows


def _driver(server: ServerInValgrind, keys: int, value_bytes: int = VALUE_BYTES) -> Driver:
    return Driver(server.address, shares=[1.0 / keys] * keys, value_bytes=[value_bytes] * keys)


def _write(driver: Driver, first: int, last: int, *, expire_at_s: float | None = None) -> None:
    for begin in range(first, last, AT_ONCE):
        driver.write_keys(range(begin, min(begin + AT_ONCE, last)), expire_at_s=expire_at_s)


def _instructions(server: ServerInValgrind) -> int:
    """Since the last time."""
    return server.counts.dump().totals["Ir"]


def _number(control: RespClient, part: str, name: str) -> int:
    return int(info_fields(control.info(part))[name])


def _evicted(engine: Engine, policy: str, samples: int) -> Row:
    with in_valgrind(engine.server) as server:
        control = server.control
        control.command("CONFIG", "SET", "maxmemory-policy", policy)
        control.command("CONFIG", "SET", "maxmemory-samples", samples)
        driver = _driver(server, _KEYS + 3 * _NEW)
        _write(driver, 0, _KEYS)
        server.counts.skip()
        _write(driver, _KEYS, _KEYS + _NEW)
        without = _instructions(server)
        used = _number(control, "memory", "used_memory")
        control.command("CONFIG", "SET", "maxmemory", used - 10_000)
        first = _KEYS + _NEW
        _write(driver, first, first + _SETTLE)
        before = _number(control, "stats", "evicted_keys")
        server.counts.skip()
        _write(driver, first + _SETTLE, first + _SETTLE + _NEW)
        at_the_limit = _instructions(server)
        evicted = _number(control, "stats", "evicted_keys") - before
        driver.close()
    return {
        "set": round(without / _NEW, 1),
        "evicted": evicted,
        "evicted_key": round((at_the_limit - without) / max(evicted, 1), 1),
    }


def _expired(engine: Engine) -> Row:
    """Keys that end at one moment, until nine tenths of them are gone."""
    with in_valgrind(engine.server) as server:
        control = server.control
        with suppress(EngineError):
            control.command("CONFIG", "SET", "dynamic-hz", "no")
        control.command("CONFIG", "SET", "hz", _HZ)
        driver = _driver(server, _ENDING)
        ends = time.time() + _AHEAD_S
        _write(driver, 0, _ENDING, expire_at_s=ends)
        server.counts.skip()
        began = time.monotonic()
        time.sleep(_IDLE_S)
        idle_per_s = _instructions(server) / (time.monotonic() - began)
        server.counts.skip()
        if time.time() > ends:
            raise EngineError("valgrind took too long to load the keys.")
        began = time.monotonic()
        while (gone := _ENDING - control.keys_held()) < 0.9 * _ENDING:
            if time.monotonic() - began > _LIMIT_S:
                raise EngineError(f"{gone} of {_ENDING} keys expired in {_LIMIT_S:g} s.")
            time.sleep(0.2)
        total = _instructions(server) - idle_per_s * (time.monotonic() - began)
        gone = _ENDING - control.keys_held()
        driver.close()
    return {"expired": gone, "expired_key": round(total / gone, 1)}
