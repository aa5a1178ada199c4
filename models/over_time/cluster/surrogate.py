"""Capacity, latency and busy threads of one kind of node against its load, from the node model.

A cluster over hours can't simulate every request, so the node model is asked once per kind of node:
in a closed loop for the capacity, in open loops at shares of it for the latency and for how busy
its threads are, all with the same random streams, and what lies between is interpolated. A thread
is not busy in proportion to the load: the less there is to do, the fewer requests share a turn of
its event loop. Surrogates are kept in memory and in a cache folder
(`sim/cache_folders.py`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr

from forecache.hwprofiles.files import write_text_atomic
from forecache.sim.cache_folders import cache_folder
from forecache.sim.errors import InputError

from ...advice.answers import load_cases
from ...prediction.predict import WORKERS, Prediction, Progress, predict_cases
from ...prediction.system import System
from ...scenario.schema import Scenario
from ...scenario.sweeps import Case
from ...scenario.workload import CONSTANT_RATE
from ..kept_runs import source_digest

QUANTILES = (
    *(0.0, 0.05, 0.15, 0.25, 0.35, 0.45, 0.5, 0.55, 0.65, 0.75, 0.85),
    *(0.9, 0.95, 0.97, 0.98, 0.985, 0.9875, 0.99, 0.9925, 0.995, 0.999, 1.0),
)
"""Probabilities of the latencies that a surrogate knows."""

LOADS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.78, 0.85, 0.91, 0.95, 0.98)
"""Shares of the capacity at which a node is simulated."""

_CHECKED = (0.05, 0.2, 0.4, 0.6, 0.78, 0.91)
"""Those that are left out to see how far off an interpolation between the others is."""

_REQUESTS = 20_000
"""Measured requests where little waits."""

_PLENTY, _MOST_TIMES = 0.2, 12.0
"""Share of the capacity that is left where windows need to be no longer, and how many times as long
they are at most. A mean over a window scatters with 1/(1 - load) if the window does not grow with
its square (Whitt, Management Science 35, 1989)."""

_CLIENTS = 400
"""Connections that are active at a time when a node is saturated."""

_GENERATORS = 64
"""Threads that send: clients of a cluster are many, and not what limits a node."""

_PS_PER_S = 1e12

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Surrogate:
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
    main_thread, io_threads
        (points + 2,) share of its time that the main thread is busy, and the busiest I/O thread:
        without load, at each, and at the capacity.
    error
        Largest relative error of p50 and p99 at a load between those around it, were it not among
        them: more than between loads that are.
    server_cpu_us
        CPU time of all threads per command at capacity.
    """

    capacity_rps: float
    main_ps: float
    loads: tuple[float, ...]
    latency_ms: tuple[tuple[float, ...], ...]
    mean_ms: tuple[float, ...]
    main_thread: tuple[float, ...]
    io_threads: tuple[float, ...]
    error: float
    server_cpu_us: float = 0.0

    def latencies(self, loads: ArrayLike) -> Floats:
        """(loads, len(QUANTILES)) latency in ms; beyond the last simulated load that one's.

        What requests wait when more are asked for than a node can do is the queues' business.
        """
        return between(loads, self.loads, self.latency_ms)

    def latency(self, load: float, quantile: float) -> float:
        """A quantile of the latency in ms."""
        return float(np.interp(quantile, QUANTILES, self.latencies([load])[0]))

    def mean(self, loads: ArrayLike) -> Floats:
        """The mean latency in ms at loads of any shape."""
        return between(loads, self.loads, self.mean_ms)

    def busy(self, loads: ArrayLike) -> tuple[Floats, Floats]:
        """Share of its time that the main thread is busy at loads of any shape, and the busiest
        I/O thread."""
        known = (0.0, *self.loads, 1.0)
        asked = np.clip(loads, 0.0, 1.0)
        main, helpers = (
            np.clip(PchipInterpolator(known, shares)(asked), 0.0, 1.0)
            for shares in (self.main_thread, self.io_threads)
        )
        return main, helpers


def between(asked: ArrayLike, loads: Sequence[float], values: ArrayLike) -> Floats:
    """Latencies between those at some loads: smooth, monotone where they are.

    Logarithms are interpolated over that of what is left of the capacity, by Fritsch and Carlson's
    piecewise cubic (SIAM J. Numer. Anal. 17, 1980). In an M/G/1 queue waiting is proportional to
    1/(1 - load), which is a straight line there.

    Parameters
    ----------
    loads, values
        (points,) and (points, ...), latencies above 0.
    """
    found = np.clip(asked, loads[0], loads[-1])
    if len(loads) == 1:
        return np.asarray(np.asarray(values)[np.zeros(found.shape, np.int64)])
    left = -np.log1p(-np.asarray(loads))
    return np.asarray(np.exp(PchipInterpolator(left, np.log(values))(-np.log1p(-found))))


_SURROGATES: dict[str, Surrogate] = {}


def surrogate_of(
    scenario: Mapping[str, Any], *, seed: int = 1, progress: Progress | None = None
) -> tuple[Surrogate, Case[Scenario], System]:
    """The surrogate of a node, with the case and the system it is about.

    Parameters
    ----------
    scenario
        A scenario of one node as a file has it, without `arrival`, `clients` and rates.
    """
    case, system = _saturated(scenario)
    key = _key(case.scenario, system, seed)
    if key not in _SURROGATES:
        kept = _read(key)
        if kept is None:
            if progress is not None:
                progress(f"simulating a node of {system.engine.id} on {system.host.id}")
            kept = simulated(case, system, seed=seed)
            _write(key, kept)
        _SURROGATES[key] = kept
    return _SURROGATES[key], case, system


def _saturated(scenario: Mapping[str, Any]) -> tuple[Case[Scenario], System]:
    """The node with as many clients as it takes to find out what it can do."""
    workload = dict(scenario.get("workload", {}))
    workload |= {"arrival": "closed_loop", "clients": _CLIENTS}
    asked = {**scenario, "workload": workload, "load_generator": {"threads": _GENERATORS}}
    [found] = load_cases(asked)
    return found


@dataclass(frozen=True)
class CapacityError:
    """How far off a node's capacity may be.

    Attributes
    ----------
    low, high
        Ends of its 95% interval, as factors.
    draws
        Factors at draws of everything uncertain.
    error
        The model's own, of a logarithm.
    """

    low: float
    high: float
    draws: tuple[float, ...]
    error: float

    def holds(self, load: float) -> float:
        """How probable it is that a node can do what is this share of its capacity.

        As `advice/objective.py` has it: the mean over the draws, each with the model's own error.
        """
        if load <= 0:
            return 1.0
        margins = np.log(self.draws) - np.log(load)
        return float(np.mean(ndtr(margins / self.error)))


_ERRORS: dict[str, CapacityError] = {}


def capacity_error(scenario: Mapping[str, Any], *, seed: int = 1) -> CapacityError:
    """The interval of a node's capacity, with 20 draws as every prediction has them.

    Parameters
    ----------
    scenario
        As of `surrogate_of`.
    """
    case, system = _saturated(scenario)
    key = _key(case.scenario, system, seed)
    if key not in _ERRORS:
        [found] = predict_cases([(case, system)], seed=seed)
        middle = found.interval("throughput_rps")
        error = max(math.hypot(system.discrepancy(case.scenario), system.variation), 1e-9)
        draws = np.exp(found.log_draws("throughput_rps")) / middle.value
        _ERRORS[key] = CapacityError(
            middle.low / middle.value, middle.high / middle.value, tuple(draws.tolist()), error
        )
    return _ERRORS[key]


def simulated(case: Case[Scenario], system: System, *, seed: int) -> Surrogate:
    """A surrogate from simulations of the node."""
    [full] = predict_cases(
        [(case, system)], seed=seed, draws=0, replications=1, requests=2 * _REQUESTS
    )
    capacity_rps = full.mean("throughput_rps")

    def at(share: float) -> Prediction:
        [found] = predict_cases(
            [(_open_loop(case, share * capacity_rps), system)],
            seed=seed, draws=0, replications=1, requests=requests_at(share),
        )  # fmt: skip
        return found

    with ThreadPoolExecutor() as pool:
        # Those that take longest first.
        found = dict(zip(reversed(LOADS), pool.map(at, reversed(LOADS)), strict=True))
    kept = {share: found[share] for share in LOADS if not found[share].overloaded}
    result = full.nominal[0].result
    main, helpers = zip(*(_busy(found) for found in (*kept.values(), full)), strict=True)
    # Where all threads are alike, whatever else a node does takes from all of them.
    busy = 1.0 if full.threads_alike else result.main_thread_utilisation
    rows = {share: _quantiles_ms(found) for share, found in kept.items()}
    return Surrogate(
        capacity_rps=capacity_rps,
        main_ps=busy / capacity_rps * _PS_PER_S,
        loads=tuple(rows),
        latency_ms=tuple(rows.values()),
        mean_ms=tuple(found.mean("mean_ms") for found in kept.values()),
        main_thread=(0.0, *main),
        io_threads=(0.0, *helpers),
        error=_error(rows),
        server_cpu_us=result.server_cpu_us_per_request,
    )


def _busy(prediction: Prediction) -> tuple[float, float]:
    """The main thread and the busiest I/O thread; of threads that are all alike the busiest."""
    utilisation = prediction.utilisation
    if prediction.threads_alike:
        return utilisation[WORKERS], 0.0
    return utilisation["main thread"], utilisation["I/O threads"]


def _error(rows: Mapping[float, Sequence[float]]) -> float:
    """How far off p50 and p99 are at loads that are left out."""
    columns = [QUANTILES.index(quantile) for quantile in (0.5, 0.99)]
    others = [share for share in rows if share not in _CHECKED]
    asked = [share for share in rows if share in _CHECKED and others[0] < share < others[-1]]
    if not asked:
        return 0.0
    found = between(asked, others, np.array([rows[share] for share in others]))
    direct = np.array([rows[share] for share in asked])
    return float(np.abs(found / direct - 1.0)[:, columns].max())


def requests_at(load: float) -> int:
    """Measured requests of a run at a share of the capacity."""
    times = (_PLENTY / max(1.0 - load, 1e-9)) ** 2
    return round(_REQUESTS * min(_MOST_TIMES, max(1.0, times)))


def _open_loop(case: Case[Scenario], rate_rps: float) -> Case[Scenario]:
    rate = {"arrival": "open_loop", "rate_rps": rate_rps} | CONSTANT_RATE
    workload = case.scenario.workload.model_copy(update=rate)
    return Case(given={}, scenario=case.scenario.model_copy(update={"workload": workload}))


def _quantiles_ms(prediction: Prediction) -> tuple[float, ...]:
    latency = prediction.nominal[0].result.latency
    found = [latency.quantile(min(max(q, 1e-6), 1.0 - 1e-6)) / 1e9 for q in QUANTILES]
    return tuple(float(value) for value in np.maximum.accumulate(found))


def _key(scenario: Scenario, system: System, seed: int) -> str:
    """Everything a surrogate depends on, and the version of the model."""
    parts = (
        scenario.model_dump_json(),
        *(part.model_dump_json() for part in (system.host, system.engine, system.generator)),
        json.dumps(
            [seed, LOADS, _CHECKED, QUANTILES, _REQUESTS, _PLENTY, _MOST_TIMES, _GENERATORS]
        ),
        source_digest(),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _kept_at(key: str) -> Path | None:
    folder = cache_folder("surrogates")
    return None if folder is None else folder / f"{key}.json"


_ROWS = ("loads", "mean_ms", "main_thread", "io_threads")


def _read(key: str) -> Surrogate | None:
    """What an earlier run left; None if there is nothing, or not what this one would leave."""
    file = _kept_at(key)
    if file is None:
        return None
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data.pop("key") != key:
            return None
        surrogate = Surrogate(
            **{
                **data,
                **{name: tuple(data[name]) for name in _ROWS},
                "latency_ms": tuple(tuple(row) for row in data["latency_ms"]),
            }
        )
        points = len(surrogate.loads)
        shape = np.array(surrogate.latency_ms, float).shape
        whole = shape == (points, len(QUANTILES)) and surrogate.capacity_rps > 0
        whole = whole and len(surrogate.mean_ms) == points
        busy = (surrogate.main_thread, surrogate.io_threads)
        return surrogate if whole and all(len(row) == points + 2 for row in busy) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write(key: str, surrogate: Surrogate) -> None:
    file = _kept_at(key)
    if file is None:
        return
    try:
        write_text_atomic(file, json.dumps({"key": key, **asdict(surrogate)}) + "\n")
    except InputError:
        return  # It will be simulated again.
