"""How long the steps of a request take, tabulated for the page.

A step time is the product of its value at nominal numbers on a grid of threads, keys and value
sizes, of what other clients, pipelines and shares of GET change, found for one thread and for
several, and of what each draw of the uncertain numbers changes, found at the ends of that grid.
Between the points of a grid logarithms are linear. All are kept as logarithms in 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np

from forecache.models.advice.cases import load_cases
from forecache.models.footprint.answers import memory
from forecache.models.footprint.node import node_room
from forecache.models.node.setup import NodeSetup, NodeTimes
from forecache.models.prediction.node_setup import node_setup
from forecache.models.prediction.predict import DRAWS
from forecache.models.prediction.system import System
from forecache.models.prices.table import server_price
from forecache.models.scenario.schema import Scenario
from forecache.models.step_times.cores import wake_latencies_ns
from forecache.models.step_times.inputs import NodeInputs
from forecache.models.step_times.stages import node_times

from .module import WEB_POLICIES

VALUES = (16, 64, 256, 1024, 4096, 16384)
KEYS = (1_000_000, 10_000_000, 100_000_000)
THREADS = (1, 2, 4, 8, 16)
CLIENTS = (1, 50, 300, 1000, 3000)
PIPELINES = (1, 8, 64)
GETS = (0.01, 0.5, 0.99)
"""Shares of GET. At the ends there is still some of the other command, so that it has times."""

USUAL = {"clients": 300, "pipeline": 1, "get": 0.5, "keys": KEYS[1]}
DRAWN_VALUES = (64, 4096)
MEMORY_CLIENTS = (1, 1001)
LARGEST = "r8g.48xlarge"
"""A host that all data fit."""

STALLS = 8
"""Means of equal shares that stand for the 256 quantiles of a wait for memory."""

PLAIN_STEPS, FACTOR_STEPS = 1024, 8192
"""Parts of a power of two that a value and a factor are kept to: half of one is 0.03 and 0.004%."""

NOTHING = -32768
"""In place of the logarithm of 0."""

_BY_CODE = (
    *("parse_by_code_ps", "execute_by_code_ps", "prefetched_stall_by_code_ps"),
    *("write_by_code_ps", "free_by_code_ps"),
)
_SCALARS = tuple(name for name, kind in NodeTimes.__annotations__.items() if kind is int)
OF_DRAWS = ("spin_ps", "generator_start_ps")
"""Fields of a setup that draws change."""

FIELDS = (
    *_SCALARS,
    *OF_DRAWS,
    *(f"{name}.{code}" for code in (0, 1) for name in (*_BY_CODE, *map(str, range(STALLS)))),
    *(f"prefetch.{place}" for place in range(3)),
)
"""What is tabulated; code 0 is GET, code 1 is SET. A batched look-up takes a time at two keys, at
half of the most and at the most."""


@dataclass(frozen=True)
class Tabulated:
    """One host and engine, as the page has them.

    Attributes
    ----------
    about
        What can be written as JSON.
    numbers : (n,)
        int16; `about` says how they lie.
    """

    about: dict[str, Any]
    numbers: np.ndarray


def scenario_of(host: str, engine: str, **chosen: Any) -> dict[str, Any]:
    """The scenario of some choices, as the page writes it.

    Parameters
    ----------
    engine
        Name and version, as in `valkey 9.1`.
    chosen
        `threads`, `clients`, `pipeline`, `get`, `value`, `keys` and perhaps `rate`.
    """
    name, version = engine.split()
    get = chosen["get"]
    shares = {"get": get, "set": round(1.0 - get, 6)}
    workload: dict[str, Any] = {"arrival": "closed_loop", "clients": chosen["clients"]}
    if (rate := chosen.get("rate")) is not None:
        workload |= {"arrival": "open_loop", "rate_rps": rate}
    workload |= {
        "pipeline": chosen["pipeline"],
        "mix": {command: share for command, share in shares.items() if share > 0},
        "keys": chosen["keys"],
        "value_bytes": chosen["value"],
    }
    return {
        "host": host,
        "engine": name,
        "engine_version": version,
        "io_threads": chosen["threads"],
        "workload": workload,
    }


def tabulate(host: str, engine: str) -> Tabulated:
    """All that the page has to know of an engine on a host."""
    return _Pair(host, engine).tabulated()


class _Pair:
    def __init__(self, host: str, engine: str) -> None:
        self.host, self.engine = host, engine
        self._chosen = {"threads": 1, "value": VALUES[0], **USUAL}
        self.scenario, self.system = self._case(self._chosen)

    def _case(self, chosen: dict[str, Any]) -> tuple[Scenario, System]:
        [(case, system)] = load_cases(scenario_of(self.host, self.engine, **chosen))
        return case.scenario, system

    def _scenario(self, **chosen: Any) -> Scenario:
        """That of some choices, others as usual; not checked again."""
        if "rate" in chosen:
            return self._case(self._chosen | chosen)[0]
        chosen = self._chosen | chosen
        get = chosen["get"]
        mix = self.scenario.workload.mix
        assert mix is not None  # `scenario_of` says one
        mix = mix.model_copy(update={"get": get, "set": 1.0 - get})
        changes = {name: chosen[name] for name in ("clients", "pipeline", "keys")}
        workload = self.scenario.workload.model_copy(
            update={**changes, "mix": mix, "value_bytes": chosen["value"]}
        )
        return self.scenario.model_copy(
            update={"io_threads": chosen["threads"], "workload": workload}
        )

    @cached_property
    def threads(self) -> tuple[int, ...]:
        """Those of the grid that have a core each."""
        speed = self.system.numbers().speed
        most = min(self.system.engine.max_io_threads, speed.cores // speed.threads_per_core)
        return tuple(sorted({t for t in (*THREADS, most) if t <= min(most, THREADS[-1])}))

    def _times(self, draw: int | None = None, **chosen: Any) -> np.ndarray:
        """(fields,) of one point."""
        inputs = self.system.inputs(self._scenario(**chosen), draw=draw)
        return _fields(node_times(inputs), _setup(inputs))

    def tabulated(self) -> Tabulated:
        ends = tuple(sorted({1, self.threads[-1]}))
        middle = tuple(sorted({1, min(4, self.threads[-1])}))
        base = _grid(
            lambda t, k, v: self._times(threads=t, keys=k, value=v), self.threads, KEYS, VALUES
        )
        # What the load changes, over what is usual.
        loads = _grid(
            lambda t, v, c, p: self._times(threads=t, value=v, clients=c, pipeline=p),
            *(middle, VALUES, CLIENTS, PIPELINES),
        )
        shares = _grid(lambda t, v, g: self._times(threads=t, value=v, get=g), middle, VALUES, GETS)
        usual = loads[:, :, CLIENTS.index(USUAL["clients"]), PIPELINES.index(USUAL["pipeline"])]
        nominal = _grid(lambda t, v: self._times(threads=t, value=v), ends, DRAWN_VALUES)
        drawn = _grid(
            lambda d, t, v: self._times(draw=d, threads=t, value=v),
            range(DRAWS),
            ends,
            DRAWN_VALUES,
        )
        tables = {
            "base": _logs(base, PLAIN_STEPS),
            "loads": _logs(_ratio(loads, usual[:, :, None, None]), FACTOR_STEPS),
            "shares": _logs(_ratio(shares, usual[:, :, None]), FACTOR_STEPS),
            "drawn": _logs(_ratio(drawn, nominal), FACTOR_STEPS),
        }
        places, rows, begins = {}, [], 0
        for name, table in tables.items():
            flat = table.reshape(-1, len(FIELDS))
            varies = np.flatnonzero((flat != flat[0]).any(axis=0))
            places[name] = {
                "begins": begins,
                "fields": varies.tolist(),
                "constant": flat[0].tolist(),
            }
            rows.append(flat[:, varies].ravel())
            begins += rows[-1].size
        about = {**self._about(), "threads": self.threads, "ends": ends, "middle": middle}
        return Tabulated(about | {"tables": places}, np.concatenate(rows))

    def _about(self) -> dict[str, Any]:
        system, engine = self.system, self.system.engine
        threading = engine.threading
        runs = threading.name if threading.name in WEB_POLICIES else WEB_POLICIES[0]
        price = server_price(system.host, engine.engine)
        exact = system.inputs(self.scenario)
        return {
            "policy": WEB_POLICIES.index(runs),
            "samples_load": threading.samples_load,
            "first_owner": threading.first_owner,
            "threads_sleep": threading.threads_sleep,
            "setups": [
                _setup_fields(system.inputs(self._scenario(threads=t, **rate)))
                for rate in ({}, {"rate": 1000.0, "pipeline": 1})
                for t in (1, self.threads[-1])
            ],
            "messages": [self._messages(value) for value in VALUES],
            "prefetched": [
                len(node_times(system.inputs(self._scenario(threads=t))).prefetch_by_keys_ps)
                for t in (1, self.threads[-1])
            ],
            "wakes": self._wakes(),
            "refills": exact.generator_rules.refills,
            "spins_when_due": exact.generator_rules.spins_when_due,
            "memory": self._memory(),
            "model_error": system.discrepancy(self.scenario),
            "memory_error": system.memory_discrepancy,
            "variation": system.variation,
            "usd_per_hour": None if price is None else price.usd_per_hour,
            "price_note": None if price is None else price.note,
            "basis": system.basis,
            "title": f"{engine.id} on {system.host.title}",
        }

    def _messages(self, value: int) -> list[list[int]]:
        """Bytes of requests and of replies, by code."""
        times = node_times(self.system.inputs(self._scenario(value=value)))
        return [times.request_bytes_by_code.tolist(), times.reply_bytes_by_code.tolist()]

    def _wakes(self) -> dict[str, Any]:
        """Wake-ups: the nominal times, and of each draw what they are times, less and at least."""
        numbers = [self.system.numbers(draw=d) for d in (None, *range(DRAWS))]
        nominal = wake_latencies_ns(numbers[0].speed)
        middle = len(nominal) // 2
        rows = []
        for draw, drawn in zip((None, *range(DRAWS)), numbers, strict=True):
            whole = wake_latencies_ns(drawn.speed)
            times = node_times(self.system.inputs(self.scenario, draw=draw)).wake_latency_ps
            # What is simulated of it is the same at every quantile, but where none is left.
            less = float(np.max(whole - times / 1000.0))
            rows.append([whole[middle] / nominal[middle], less, drawn.speed.syscall_ns])
        return {"nominal_ns": [round(ns, 1) for ns in nominal.tolist()], "draws": rows}

    def _memory(self) -> dict[str, Any]:
        """Bytes at two numbers of clients, between and beyond which they are linear."""
        room = node_room(self.scenario, self.system.engine, self.system.host)
        return {
            "clients": MEMORY_CLIENTS,
            "bytes": [_memory_bytes(self.engine, clients) for clients in MEMORY_CLIENTS],
            "usable_bytes": room.limit.usable_bytes,
            "of": room.limit.of,
        }


@cache
def _memory_bytes(engine: str, clients: int) -> list[list[list[float]]]:
    """(keys, values, 5): used memory, its interval, and resident memory with its upper end."""
    rows = []
    for keys, value in product(KEYS, VALUES):
        chosen = {**USUAL, "threads": 1, "clients": clients, "keys": keys, "value": value}
        [point] = memory(scenario_of(LARGEST, engine, **chosen)).points
        used = point.used_memory_bytes
        resident = [point.resident_bytes, point.resident_high_bytes]
        rows.append([used.value, used.low, used.high, *resident])
    return np.array(rows).round().reshape(len(KEYS), len(VALUES), -1).tolist()


def _setup(inputs: NodeInputs) -> NodeSetup:
    return node_setup(inputs, warmup_ps=0, end_ps=1, seed=0, replication=0)


def _setup_fields(inputs: NodeInputs) -> dict[str, int]:
    return {name: int(value) for name, value in _setup(inputs)._asdict().items()}


def _fields(times: NodeTimes, setup: NodeSetup) -> np.ndarray:
    """(fields,) float of `FIELDS`."""
    found = [float(getattr(times, name)) for name in _SCALARS]
    found += [float(getattr(setup, name)) for name in OF_DRAWS]
    for code in (0, 1):
        found += [float(getattr(times, name)[code]) for name in _BY_CODE]
        found += times.stall_ps[code].reshape(STALLS, -1).mean(axis=1).tolist()
    ahead = times.prefetch_by_keys_ps
    most = len(ahead) - 1
    found += [float(ahead[min(place, most)]) for place in (2, most // 2, most)]
    return np.array(found)


def _grid(point: Any, *axes: Any) -> np.ndarray:
    """(..., fields) at all combinations."""
    rows: Iterator[np.ndarray] = (point(*each) for each in product(*axes))
    return np.array(list(rows)).reshape(*(len(axis) for axis in axes), len(FIELDS))


def _ratio(values: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Factors; 1 where there is nothing to multiply."""
    known = (values > 0) & (of > 0)
    return np.where(known, values / np.where(of > 0, of, 1.0), 1.0)


def _logs(values: np.ndarray, steps: int) -> np.ndarray:
    logs = np.rint(np.log2(np.maximum(values, 1e-9)) * steps)
    return np.where(values > 0, np.clip(logs, NOTHING + 1, -NOTHING - 1), NOTHING).astype(np.int16)
