"""Capacity and latency of one kind of node against its utilisation, from the node model.

A cluster over hours can't simulate every request, so the node model is asked once per kind of node:
in a closed loop for the capacity, in open loops at shares of it for the latency, and what lies
between is interpolated. Points in the middle between two are simulated as well, and say how far off
the interpolation is. Surfaces are kept in memory and in a cache folder
(`sim/cache_folders.py`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from forecache.hwprofiles.files import write_text_atomic
from forecache.sim.cache_folders import cache_folder
from forecache.sim.errors import InputError

from ..answers import load_cases
from ..node.simulate import warm_up_compiler
from ..predict import Prediction, Progress, System, predict_cases
from ..scenario import Scenario
from ..sweeps import Case
from ..workload import CONSTANT_RATE

QUANTILES = (
    *(0.0, 0.05, 0.15, 0.25, 0.35, 0.45, 0.5, 0.55, 0.65, 0.75, 0.85),
    *(0.9, 0.95, 0.975, 0.985, 0.99, 0.995, 0.999, 1.0),
)
"""Probabilities of the latencies that a surface knows."""

LOADS = (0.02, 0.2, 0.4, 0.6, 0.75, 0.85, 0.91, 0.95, 0.98)
"""Shares of the capacity at which latency is simulated."""

_CHECKED = (0.3, 0.5, 0.7, 0.8, 0.88, 0.93, 0.965)
"""Shares in between that say how far off the interpolation is."""

_REQUESTS = 20_000
_CLIENTS = 400
"""Connections that are active at a time when a node is saturated."""

_GENERATORS = 64
"""Threads that send: clients of a cluster are many, and not what limits a node."""

_PS_PER_S = 1e12


@dataclass(frozen=True)
class Surface:
    """What one kind of node can do.

    Attributes
    ----------
    capacity_rps
        Commands a second of a node whose main thread does nothing else.
    main_ps
        Time of the main thread per command at that rate.
    loads
        (points,) shares of the capacity.
    latency_ms
        (points, len(QUANTILES)) quantiles of the latency at each.
    mean_ms
        (points,) its mean.
    error
        Largest relative error of p50 and p99 in between, against simulations there.
    server_cpu_us
        CPU time of all threads per command at capacity.
    """

    capacity_rps: float
    main_ps: float
    loads: tuple[float, ...]
    latency_ms: tuple[tuple[float, ...], ...]
    mean_ms: tuple[float, ...]
    error: float
    server_cpu_us: float = 0.0

    def latency(self, utilisation: float, quantile: float) -> float:
        """A quantile of the latency in ms; beyond the last simulated load it is that one's.

        What requests wait when more are asked for than a node can do is the queues' business.
        """
        columns = zip(*self.latency_ms, strict=True)
        by_quantile = [between(utilisation, self.loads, column) for column in columns]
        return float(np.interp(quantile, QUANTILES, by_quantile))

    def mean(self, utilisation: float) -> float:
        """The mean latency in ms."""
        return between(utilisation, self.loads, self.mean_ms)


def between(utilisation: float, loads: Sequence[float], values: Sequence[float]) -> float:
    """A latency between those at some loads: a power of what is left of the capacity.

    In an M/G/1 queue waiting is proportional to 1/(1 - utilisation); a straight line would lie
    above that by half its height between 0.9 and 0.97.
    """
    left = [-math.log(1.0 - load) for load in loads]
    asked = -math.log(1.0 - min(utilisation, loads[-1]))
    return float(math.exp(np.interp(asked, left, np.log(values))))


_SURFACES: dict[str, Surface] = {}


def surface_of(
    scenario: Mapping[str, Any], *, seed: int = 1, progress: Progress | None = None
) -> tuple[Surface, Case[Scenario], System]:
    """The surface of a node, with the case and the system it is about.

    Parameters
    ----------
    scenario
        A scenario of one node as a file has it, without `arrival`, `clients` and rates.

    Raises
    ------
    InputError
        The host, the engine or a field is not known or not valid.
    """
    workload = dict(scenario.get("workload", {}))
    workload |= {"arrival": "closed_loop", "clients": _CLIENTS}
    asked = {**scenario, "workload": workload, "load_generator": {"threads": _GENERATORS}}
    [(case, system)] = load_cases(asked)
    key = _key(case.scenario, system, seed)
    if key not in _SURFACES:
        kept = _read(key)
        if kept is None:
            if progress is not None:
                progress(f"simulating a node of {system.engine.id} on {system.host.id}")
            policy = system.engine.policy if case.scenario.io_threads > 1 else "single_thread"
            warm_up_compiler(progress or (lambda _line: None), [policy])
            kept = simulated(case, system, seed=seed)
            _write(key, kept)
        _SURFACES[key] = kept
    return _SURFACES[key], case, system


def simulated(case: Case[Scenario], system: System, *, seed: int) -> Surface:
    """A surface from simulations of the node."""
    [full] = predict_cases(
        [(case, system)], seed=seed, draws=0, replications=1, requests=2 * _REQUESTS
    )
    capacity_rps = full.mean("throughput_rps")
    shares = sorted({*LOADS, *_CHECKED})
    cases = [(_open_loop(case, share * capacity_rps), system) for share in shares]
    found = predict_cases(cases, seed=seed, draws=0, replications=1, requests=_REQUESTS)
    kept = {s: p for s, p in zip(shares, found, strict=True) if p.verdict != "OVERLOADED"}
    points = {share: _quantiles_ms(kept[share]) for share in LOADS if share in kept}
    loads = tuple(points)
    error = 0.0
    for share in _CHECKED:
        if share not in kept or share > loads[-1]:
            continue
        direct = _quantiles_ms(kept[share])
        for quantile in (0.5, 0.99):
            at = QUANTILES.index(quantile)
            found_there = between(share, loads, [points[load][at] for load in loads])
            error = max(error, abs(found_there / direct[at] - 1.0))
    result = full.nominal[0].result
    # Where all threads are alike, whatever else a node does takes from all of them.
    busy = 1.0 if full.threads_alike else result.main_thread_utilisation
    return Surface(
        capacity_rps=capacity_rps,
        main_ps=busy / capacity_rps * _PS_PER_S,
        loads=loads,
        latency_ms=tuple(points.values()),
        mean_ms=tuple(kept[load].mean("mean_ms") for load in loads),
        error=error,
        server_cpu_us=result.server_cpu_us_per_request,
    )


def _open_loop(case: Case[Scenario], rate_rps: float) -> Case[Scenario]:
    rate = {"arrival": "open_loop", "rate_rps": rate_rps} | CONSTANT_RATE
    workload = case.scenario.workload.model_copy(update=rate)
    return Case(given={}, scenario=case.scenario.model_copy(update={"workload": workload}))


def _quantiles_ms(prediction: Prediction) -> tuple[float, ...]:
    latency = prediction.nominal[0].result.latency
    found = [latency.quantile(min(max(q, 1e-6), 1.0 - 1e-6)) / 1e9 for q in QUANTILES]
    return tuple(float(value) for value in np.maximum.accumulate(found))


def _key(scenario: Scenario, system: System, seed: int) -> str:
    """Everything a surface depends on, and the version of the model."""
    parts = (
        scenario.model_dump_json(),
        *(part.model_dump_json() for part in (system.host, system.engine, system.generator)),
        json.dumps([seed, LOADS, _CHECKED, QUANTILES, _REQUESTS, _GENERATORS]),
        _model_digest(),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@lru_cache(maxsize=1)
def _model_digest() -> str:
    """Version and source of the model: a changed one doesn't find what an older one left."""
    from forecache import __version__

    digest = hashlib.sha256(__version__.encode())
    for room in ("forecache.models", "forecache.models.node", "forecache.models.node.compiled"):
        for entry in sorted(resources.files(room).iterdir(), key=lambda item: item.name):
            if entry.name.endswith(".py"):
                digest.update(entry.read_bytes())
    return digest.hexdigest()


def _kept_at(key: str) -> Path | None:
    folder = cache_folder("surfaces")
    return None if folder is None else folder / f"{key}.json"


def _read(key: str) -> Surface | None:
    """What an earlier run left; None if there is nothing, or not what this one would leave."""
    file = _kept_at(key)
    if file is None:
        return None
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data.pop("key") != key:
            return None
        surface = Surface(
            **{
                **data,
                "loads": tuple(data["loads"]),
                "mean_ms": tuple(data["mean_ms"]),
                "latency_ms": tuple(tuple(row) for row in data["latency_ms"]),
            }
        )
        shape = np.array(surface.latency_ms, float).shape
        whole = shape == (len(surface.loads), len(QUANTILES)) and surface.capacity_rps > 0
        return surface if whole and len(surface.mean_ms) == len(surface.loads) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write(key: str, surface: Surface) -> None:
    file = _kept_at(key)
    if file is None:
        return
    try:
        write_text_atomic(file, json.dumps({"key": key, **asdict(surface)}) + "\n")
    except InputError:
        return  # It will be simulated again.
