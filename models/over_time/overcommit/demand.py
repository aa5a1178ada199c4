"""What machines want: how much memory each would have now if there were no limit.

All draws are addressed by machine (or tenant) and time, so that a demand doesn't depend on what the
fleet does with it.
"""

from __future__ import annotations

import csv
import gzip
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from forecache.sim.errors import InputError
from forecache.sim.streams import generator

from .schema import DAY_S, FlashCrowd, FleetDemand, TraceLayout

Floats = NDArray[np.float64]

_MEANS, _PEAKS, _NOISE_TENANT, _NOISE_MACHINE, _BURSTS, _CROWDS, _TRACE = range(10, 17)
"""Purposes of draws."""

_NOISE_STEP_S = 300.0
"""Random changes are drawn so often, and go straight between draws."""


class Wants(Protocol):
    """A demand."""

    def at(self, time_s: float) -> Floats:
        """GB that each machine wants; asked for times that don't fall."""
        ...

    def requests_per_s(self, machine: int, time_s: float) -> float | None:
        """What a machine is asked then; None if that is left to the scenario."""
        ...


class SyntheticDemand:
    """A mean, a season, noise and bursts for each machine.

    Parameters
    ----------
    demand, crowds
        As the scenario says.
    machines
        How many.
    duration_s
        Until when bursts are drawn.
    seed
        Of all draws.
    """

    def __init__(
        self,
        demand: FleetDemand,
        crowds: list[FlashCrowd],
        *,
        machines: int,
        duration_s: float,
        seed: int,
    ) -> None:
        self._demand, self._crowds, self._seed = demand, crowds, seed
        variance = math.log1p(demand.spread**2)
        normal = generator(seed, _MEANS).standard_normal(machines)
        self._mean_gb = demand.mean_gb * np.exp(math.sqrt(variance) * normal - variance / 2)
        tenants = demand.tenants or machines
        self._tenant = np.arange(machines) % tenants
        peaks_h = demand.peak_spread_h * generator(seed, _PEAKS).standard_normal(tenants)
        self._phase = (2 * math.pi * peaks_h / 24)[self._tenant]
        self._machines, self._tenants = machines, tenants
        self._epoch = 0
        self._noise = (self._drawn(0), self._drawn(0))
        self._step_noise(1)
        self._bursting = np.zeros(machines, dtype=np.int64)
        self._edges = _burst_edges(demand, machines=machines, duration_s=duration_s, seed=seed)
        self._next_edge = 0
        self._in_crowd = [
            generator(seed, _CROWDS, number).random(machines) < crowd.share
            for number, crowd in enumerate(crowds)
        ]

    def _drawn(self, epoch: int) -> Floats:
        """Standard normal changes of one epoch, in common within tenants as far as it is said."""
        common = generator(self._seed, _NOISE_TENANT, epoch).standard_normal(self._tenants)
        own = generator(self._seed, _NOISE_MACHINE, epoch).standard_normal(self._machines)
        share = self._demand.in_common
        mixed: Floats = math.sqrt(share) * common[self._tenant] + math.sqrt(1 - share) * own
        return mixed

    def _step_noise(self, epoch: int) -> None:
        """An autoregressive step: half forgotten after `noise_memory_min`."""
        kept = 0.5 ** (_NOISE_STEP_S / (60.0 * self._demand.noise_memory_min))
        last = self._noise[1]
        self._noise = (last, kept * last + math.sqrt(1 - kept**2) * self._drawn(epoch))
        self._epoch = epoch

    def at(self, time_s: float) -> Floats:
        """GB that each machine wants now."""
        demand = self._demand
        epoch, share = divmod(time_s / _NOISE_STEP_S, 1.0)
        while self._epoch < int(epoch) + 1:
            self._step_noise(self._epoch + 1)
        season = 1.0 + demand.daily_swing * np.cos(2 * math.pi * time_s / DAY_S - self._phase)
        noise = (1 - share) * self._noise[0] + share * self._noise[1]
        wanted = self._mean_gb * season * np.exp(demand.noise * noise - demand.noise**2 / 2)
        times_s, machines, changes = self._edges
        while self._next_edge < len(times_s) and times_s[self._next_edge] <= time_s:
            self._bursting[machines[self._next_edge]] += changes[self._next_edge]
            self._next_edge += 1
        wanted = np.where(self._bursting > 0, wanted * demand.bursts.factor, wanted)
        for crowd, reached in zip(self._crowds, self._in_crowd, strict=True):
            if crowd.at_s <= time_s < crowd.at_s + crowd.lasts_s:
                wanted = np.where(reached, wanted * crowd.factor, wanted)
        return wanted

    def requests_per_s(self, machine: int, time_s: float) -> None:
        """Left to the scenario."""


def _burst_edges(
    demand: FleetDemand, *, machines: int, duration_s: float, seed: int
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Times at which bursts begin and end, whose they are, and +1 or -1, in order of time."""
    draws = generator(seed, _BURSTS)
    number = draws.poisson(demand.bursts.per_day * duration_s / DAY_S, machines)
    whose = np.repeat(np.arange(machines), number)
    begin = draws.random(len(whose)) * duration_s
    end = begin + draws.exponential(60.0 * demand.bursts.minutes, len(whose))
    times_s = np.concatenate([begin, end])
    order = np.argsort(times_s, kind="stable")
    changes = np.repeat([1, -1], len(whose))
    return times_s[order], np.concatenate([whose, whose])[order], changes[order]


# --- recorded demand ------------------------------------------------------------------------------

# Memory of tenants over time, in the layouts of public cluster traces:
#
# `csv`            one of your own: time_s, tenant, memory_gb and, if you like, requests_per_s
# `google_2011`    task_usage of Google's cluster of May 2011: memory that tasks used, a tenant is a
# job (format and schema document, version 2.1; columns without a heading) `azure_vms`      Azure VM
# traces of 2017 and 2019: readings of CPU use and, in a second file, the table of machines; there
# is no memory in use, so a machine is taken to want as much of its memory as of its CPU, the way
# serverless databases give out both together `azure_packing`  Azure Traces for Packing 2020
# (SQLite): memory promised to the machines of a tenant
#
# Memory in shares of a machine is multiplied with `machine_gb`. Traces of cache requests, such as
# Twitter's, say nothing of memory without a cache to run them through, and are not read.


_MOST_CELLS = 5_000_000
"""Tenants times steps that are held."""

_PACKING_DAYS = 14.0
"""Time over which requests were collected; ends of later ones are known but not what came then."""


@dataclass(frozen=True)
class Trace:
    """What tenants had, step by step; it begins again at its end.

    Attributes
    ----------
    step_s
        Length of a step.
    memory_gb : (tenants, steps) float64
        Memory.
    requests_per_s : (tenants, steps) float64 or None
        Requests, if the trace has them.
    """

    step_s: float
    memory_gb: Floats
    requests_per_s: Floats | None = None


class TracedDemand:
    """Machines that repeat tenants of a trace, each drawn with a shift in time (a bootstrap).

    Parameters
    ----------
    trace
        What tenants had; it begins again at its end.
    machines
        How many.
    seed
        Of the draws.
    """

    def __init__(self, trace: Trace, *, machines: int, seed: int) -> None:
        self._trace = trace
        tenants, self._steps = trace.memory_gb.shape
        draws = generator(seed, _TRACE)
        self._row = draws.integers(tenants, size=machines)
        self._shift = draws.integers(self._steps, size=machines)

    def at(self, time_s: float) -> Floats:
        """GB that each machine wants now."""
        place = (int(time_s / self._trace.step_s) + self._shift) % self._steps
        found: Floats = self._trace.memory_gb[self._row, place]
        return found

    def requests_per_s(self, machine: int, time_s: float) -> float | None:
        """What a machine is asked now; None if the trace doesn't say."""
        if self._trace.requests_per_s is None:
            return None
        place = (int(time_s / self._trace.step_s) + self._shift[machine]) % self._steps
        return float(self._trace.requests_per_s[self._row[machine], place])


def read_trace(
    path: str, layout: TraceLayout = "csv", *, table: str | None = None, machine_gb: float = 1.0
) -> Trace:
    """Read a recorded demand; files that end with .gz are unpacked.

    Parameters
    ----------
    path
        The file, of readings where there are two.
    table
        The table of machines of `azure_vms`.
    machine_gb
        Memory of a machine that shares are of.
    """
    if layout == "csv":
        return _own(path)
    if layout == "azure_packing":
        return _held(path, _packing(path, machine_gb), step_s=300.0)
    if layout == "google_2011":
        return _held(path, _google(path, machine_gb), step_s=300.0)
    if table is None:
        raise InputError(f"{path}: valid is a table of the machines beside it (trace_table).")
    return _held(path, _azure(path, table), step_s=300.0)


class _Row:
    """One line, whose fields say where they are when they are not valid."""

    def __init__(self, where: str, fields: list[str]) -> None:
        self._where, self._fields = where, fields

    def text(self, column: int, name: str) -> str:
        """A field that may not be empty."""
        found = self._fields[column] if column < len(self._fields) else ""
        if not found:
            raise InputError(f"{self._where}, {name}: found nothing; valid is a text.")
        return found

    def number(self, column: int, name: str, *, most: float = math.inf) -> float:
        """A field that is a number from 0."""
        found = self._fields[column] if column < len(self._fields) else ""
        try:
            value = float(found)
        except ValueError:
            value = math.nan
        if not 0 <= value <= most or math.isinf(value):
            valid = "a number from 0" + (f" to {most:g}" if math.isfinite(most) else "")
            raise InputError(f"{self._where}, {name}: found {found[:40]!r}; valid is {valid}.")
        return value

    def fails(self, name: str, found: str, valid: str) -> InputError:
        """What to raise."""
        return InputError(f"{self._where}, {name}: found {found}; valid is {valid}.")


def _rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Lines of a file of comma-separated values that are not empty, numbered from 1."""
    try:
        opened = gzip.open if path.endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            for line, row in enumerate(csv.reader(file), start=1):
                if row:
                    yield line, row
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: can't be read: {error}.") from error


def _own(path: str) -> Trace:
    """Memory stays until a tenant's next row, and before its first row is what that says."""
    step_s = 60.0
    heading = ["time_s", "tenant", "memory_gb"]
    rows = _rows(path)
    _, first = next(rows, (1, []))
    if first not in (heading, [*heading, "requests_per_s"]):
        columns = ", ".join(heading)
        raise InputError(
            f"{path}, line 1: found {','.join(first)[:60]!r}; valid are the columns {columns} and, "
            "if there are any, requests_per_s."
        )
    tenants: dict[str, list[tuple[float, ...]]] = {}
    for line, fields in rows:
        row = _Row(f"{path}, line {line}", fields)
        if len(fields) != len(first):
            raise row.fails("columns", str(len(fields)), str(len(first)))
        time_s, tenant = row.number(0, "time_s"), row.text(1, "tenant")
        points = tenants.setdefault(tenant, [])
        if points and time_s <= points[-1][0]:
            valid = f"a time after {points[-1][0]:g}, which rises for each tenant"
            raise row.fails("time_s", f"{time_s:g}", valid)
        points.append((time_s, *(row.number(k, first[k]) for k in range(2, len(first)))))
    last_s = max((points[-1][0] for points in tenants.values()), default=0.0)
    steps = _steps(path, tenants=len(tenants), last_s=last_s, step_s=step_s)
    held = np.empty((len(first) - 2, len(tenants), steps))
    for index, points in enumerate(tenants.values()):
        values = np.array(points).T
        place = np.searchsorted(values[0], step_s * np.arange(steps), "right") - 1
        held[:, index] = values[1:, np.clip(place, 0, None)]
    return Trace(step_s, held[0], held[1] if len(held) > 1 else None)


def _google(path: str, machine_gb: float) -> Iterator[tuple[str, float, float, float]]:
    """(tenant, from, to, GB); times come in µs, memory in shares of the largest machine."""
    for line, fields in _rows(path):
        row = _Row(f"{path}, line {line}", fields)
        from_s, to_s = row.number(0, "start time") / 1e6, row.number(1, "end time") / 1e6
        if to_s < from_s:
            raise row.fails("end time", f"{to_s:g} s", f"a time not before {from_s:g} s")
        share = row.number(6, "canonical memory usage", most=1.0) if fields[6:7] != [""] else 0.0
        yield row.text(2, "job ID"), from_s, to_s, share * machine_gb


def _azure(path: str, table: str) -> Iterator[tuple[str, float, float, float]]:
    memory_gb = {}
    for line, fields in _rows(table):
        row = _Row(f"{table}, line {line}", fields)
        # The largest bucket of 2019 is written as ">64".
        fields[10:11] = [field.lstrip(">") for field in fields[10:11]]
        memory_gb[row.text(0, "vm id")] = row.number(10, "vm memory")
    for line, fields in _rows(path):
        row = _Row(f"{path}, line {line}", fields)
        from_s, machine = row.number(0, "timestamp"), row.text(1, "vm id")
        share = row.number(4, "avg cpu", most=100.0) / 100.0
        if machine not in memory_gb:
            raise row.fails("vm id", repr(machine[:20]), f"one of {table}")
        yield machine, from_s, from_s + 300.0, share * memory_gb[machine]


_PACKED = """
SELECT vm.vmId, vm.tenantId, vm.starttime, vm.endtime,
       (SELECT MAX(memory) FROM vmType WHERE vmType.vmTypeId = vm.vmTypeId)
FROM vm ORDER BY vm.vmId
"""
"""A type may fit several machines, of which it takes different shares: the largest counts."""


def _packing(path: str, machine_gb: float) -> Iterator[tuple[str, float, float, float]]:
    try:
        with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as base:
            rows = base.execute(_PACKED).fetchall()
    except sqlite3.Error as error:
        raise InputError(f"{path}: can't be read as tables vm and vmType: {error}.") from error
    for machine, tenant, begins, ends, share in rows:
        row = _Row(f"{path}, vm {machine}", ["" if share is None else str(share)])
        memory_gb = row.number(0, "memory of its type", most=1.0) * machine_gb
        try:
            from_days = max(0.0, float(begins))
            to_days = min(_PACKING_DAYS, _PACKING_DAYS if ends is None else float(ends))
        except (TypeError, ValueError):
            raise row.fails("starttime, endtime", f"{begins}, {ends}", "days") from None
        if from_days < to_days:
            yield str(tenant), from_days * DAY_S, to_days * DAY_S, memory_gb


def _held(
    path: str, intervals: Iterator[tuple[str, float, float, float]], *, step_s: float
) -> Trace:
    """Memory of tenants by step, from times at which parts of it were there."""
    tenants: dict[str, int] = {}
    rows = [(tenants.setdefault(name, len(tenants)), *rest) for name, *rest in intervals]
    whose, from_s, to_s, memory_gb = np.array(rows, dtype=np.float64).reshape(-1, 4).T
    begins_s = float(from_s.min(initial=math.inf))
    length_s = float(to_s.max(initial=begins_s)) - begins_s if rows else 0.0
    steps = _steps(path, tenants=len(tenants), last_s=max(0.0, length_s - step_s), step_s=step_s)
    # Mean over each step: what begins or ends within one counts for the part it is there.
    changes = np.zeros((len(tenants), steps + 2))
    for at_s, sign in ((from_s, 1.0), (to_s, -1.0)):
        place, part = np.divmod((at_s - begins_s) / step_s, 1.0)
        place = np.minimum(place, steps).astype(np.int64)
        index = whose.astype(np.int64)
        np.add.at(changes, (index, place), sign * (1 - part) * memory_gb)
        np.add.at(changes, (index, place + 1), sign * part * memory_gb)
    held = np.cumsum(changes, axis=1)[:, :steps]
    # Sums of what comes and goes leave roundings behind.
    return Trace(step_s, np.where(held < 1e-9 * held.max(initial=0.0), 0.0, held))


def _steps(path: str, *, tenants: int, last_s: float, step_s: float) -> int:
    """How many steps a trace has, unless that is none or too many."""
    if not tenants:
        raise InputError(f"{path}: found no rows; valid is at least one.")
    steps = math.ceil(last_s / step_s - 1e-9) + 1
    if steps * tenants > _MOST_CELLS:
        raise InputError(
            f"{path}: found {tenants} tenants and {steps} steps of {step_s:g} s; valid are "
            f"{_MOST_CELLS} of them in all: take some of the tenants."
        )
    return steps
