"""What a run of a cluster leaves: series at each report, marks, facts, tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from forecache.sim.statistics import Estimate

from ...results.series import Cell, Fact, Mark, Run, Series, Table
from .load.cohorts import cell_loads, cell_waits_s
from .memory import MemoryWatch
from .surrogate import QUANTILES, Surrogate

if TYPE_CHECKING:
    from .cluster import Cluster

_RATES = {
    "offered": ("offered", "throughput"),
    "answered": ("answered", "throughput"),
    "failed": ("failed", "errors"),
    "timed out": ("timed_out", "errors"),
    "refused": ("refused", "errors"),
    "tried again": ("retries", "errors"),
    "served in vain": ("wasted", "errors"),
}
"""Series in commands a second, with their counters and panels."""

_OFFERED, *_ENDED = (list(_RATES).index(name) for name in ("offered", "answered", "failed"))
"""Of the series above: requests that began, and those that ended."""

_LEFT_OUT_IF_NOTHING = ("timed out", "refused", "tried again", "served in vain", "turned away")


@dataclass(frozen=True)
class Gauge:
    """Something that is looked at at each report."""

    name: str
    unit: str
    panel: str
    read: Callable[[], float]


class RunRecord:
    """Collects what happens in a run; `run` makes a `Run` of it."""

    def __init__(self, cluster: Cluster, *, report_s: float) -> None:
        self._cluster = cluster
        self.report_s = report_s
        self.times_s: list[float] = []
        self._values: dict[tuple[str, str, str], list[float]] = {}
        self._gauges: list[Gauge] = []
        self._marks: list[Mark] = []
        self._facts: list[Fact] = []
        self._tables: list[Table] = []
        self.warnings: list[str] = []
        self.memory = MemoryWatch(cluster.nodes, connection_bytes=cluster.connection_bytes)
        self.turned_away = 0.0
        """Commands of users' requests that found no free worker, since the last report."""
        self._turned_away_in_all = 0.0
        self._commands = np.zeros(len(_RATES))
        self._totals = np.zeros(len(_RATES))
        self._before = np.zeros((0, len(_RATES)), np.int64)
        self._connected_before = cluster.nodes.state["connected"].copy()
        self._commands_each = np.zeros(0)
        self._more = np.zeros(0)
        """(nodes,) commands of requests on their way, besides what as many of now would have."""
        self._busy_before = np.zeros((2, 0))
        self._waits_s = cell_waits_s()
        self._latencies: dict[int, np.ndarray] = {}
        self._all_latency = np.zeros(0)
        self._seen_s: dict[str, tuple[float, float]] = {}
        """By what happened: the reports that first and last saw it."""

    def mark(self, what: str) -> None:
        """Something happens now."""
        self._marks.append(Mark(float(self._cluster.env.now), what))

    def fact(self, name: str, value: Cell | Estimate, unit: str = "", note: str = "") -> None:
        """An answer in one line; a value of None means that it never happened."""
        if isinstance(value, Estimate):
            fact = Fact(name, value.value, unit, note, low=value.low, high=value.high)
            self._facts.append(fact)
        else:
            self._facts.append(Fact(name, value, unit, note))

    def table(
        self, title: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Cell]]
    ) -> None:
        """Answers in rows; `columns` are names and units."""
        self._tables.append(Table(title, columns, rows))

    def gauge(self, name: str, unit: str, panel: str, read: Callable[[], float]) -> None:
        """A series of what `read` returns at each report; a second one of a name is numbered."""
        beside = [gauge.name for gauge in self._gauges if gauge.panel == panel]
        same = sum(each == name or each.startswith(f"{name} (") for each in beside)
        self._gauges.append(Gauge(f"{name} ({same + 1})" if same else name, unit, panel, read))

    def step(self, commands_each: np.ndarray) -> np.ndarray:
        """Add what a step of the load did; returns (2, nodes) commands answered and failed.

        A request keeps its commands until it is answered or fails, also where those that begin
        later have more or fewer, because slots or the list of nodes changed. Of the requests on
        their way at a node each has as many as the others.

        Parameters
        ----------
        commands_each
            (nodes,) commands of a request that begins at each node.
        """
        state = self._cluster.nodes.state
        now = np.array([state[counter] for counter, _ in _RATES.values()]).T
        if len(self._before) < len(now):
            more = np.zeros((len(now) - len(self._before), now.shape[1]), np.int64)
            self._before = np.concatenate([self._before, more])
            self._more = np.append(self._more, np.zeros(len(more)))
            self._commands_each = np.append(self._commands_each, commands_each[-len(more) :])
        passed = now - self._before
        self._commands += commands_each @ passed
        waiting = self._before[:, _OFFERED] - self._before[:, _ENDED].sum(axis=1)
        fewer_now = self._commands_each - commands_each
        # What differs by rounding, as of one command each, is the same.
        self._more += waiting * np.where(np.abs(fewer_now) > 1e-9, fewer_now, 0.0)
        more_each = self._more / np.maximum(1, waiting + passed[:, _OFFERED])
        ended = passed[:, _ENDED].T
        more_ended = ended * more_each
        self._more -= more_ended.sum(axis=0)
        self._commands[_ENDED] += more_ended.sum(axis=1)
        self._before, self._commands_each = now, commands_each
        return np.asarray(ended * commands_each + more_ended)

    def report(self, interval_s: float) -> None:
        """Close an interval and begin the next."""
        cluster = self._cluster
        nodes, load = cluster.nodes, cluster.load
        self.times_s.append(float(cluster.env.now))
        for (name, (_, panel)), commands in zip(_RATES.items(), self._commands, strict=True):
            asked = commands + (self.turned_away if name == "offered" else 0.0)
            self._add(name, "1/s", panel, float(asked) / interval_s)
        self._add("turned away", "1/s", "errors", self.turned_away / interval_s)
        self._see("failure", self._commands[list(_RATES).index("failed")])
        self._see("turned away", self.turned_away)
        self._totals += self._commands
        self._turned_away_in_all += self.turned_away
        self._commands[:] = 0.0
        self.turned_away = 0.0
        mean, p50, p99 = self._mean_and_quantiles(load.latency)
        self._add("p50", "ms", "latency", p50)
        self._add("p99", "ms", "latency", p99)
        self._add("mean", "ms", "latency", mean)
        if load.connect_waits.any():
            [waited] = weighted_quantiles(1000.0 * self._waits_s, load.connect_waits, (0.99,))
            self._add("p99 until accepted", "ms", "latency", waited)
        load.latency[:] = 0
        load.connect_waits[:] = 0
        opened = nodes.state["connected"].copy()
        opened_before, self._connected_before = self._connected_before, opened.copy()
        opened[: len(opened_before)] -= opened_before
        self._add("connections, most on a node", "", "connections", float(nodes.connections.max()))
        self._add(
            "new connections",
            "1/s",
            "new connections",
            float(opened.sum()) / interval_s,
        )
        used = nodes.traffic > 0
        threads = np.stack([nodes.main_busy_s, nodes.io_busy_s])
        busy = threads.copy()
        busy[:, : self._busy_before.shape[1]] -= self._busy_before
        self._busy_before = threads
        main, helpers = busy / interval_s
        for name, shares, totals in (
            ("main thread", main, nodes.main_busy_s),
            ("busiest I/O thread", helpers, nodes.io_busy_s),
        ):
            if not totals.any():
                continue
            mean = float(shares[used].mean()) if used.any() else 0.0
            self._add(f"{name}, mean", "", "utilisation", mean)
            self._add(f"{name}, busiest", "", "utilisation", float(shares.max()))
        self._add("memory, most on a node", "bytes", "memory", self.memory.look(self.times_s[-1]))
        if cluster.scenario.clients.autoscaler is not None:
            self._add("pods", "", "pods", float(cluster.clients.pods))
        for gauge in self._gauges:
            self._add(gauge.name, gauge.unit, gauge.panel, float(gauge.read()))

    def _see(self, what: str, commands: float) -> None:
        if commands > 0:
            now_s = self.times_s[-1]
            self._seen_s[what] = (self._seen_s.get(what, (now_s, now_s))[0], now_s)

    def _add(self, name: str, unit: str, panel: str, value: float) -> None:
        values = self._values.setdefault((name, unit, panel), [])
        # A series that begins later has gaps before.
        values += [np.nan] * (len(self.times_s) - 1 - len(values))
        values.append(value)

    def _mean_and_quantiles(self, counts: np.ndarray) -> tuple[float, float, float]:
        """Mean, p50 and p99 in ms of what was answered; NaN where nothing was."""
        # Few of the counts are not zero, and to look for them in a flat array is ten times faster.
        occupied = np.flatnonzero(counts != 0)
        if not len(occupied):
            return np.nan, np.nan, np.nan
        kinds, cells, waits = np.unravel_index(occupied, counts.shape)
        weights = np.diff(QUANTILES)
        latency = np.stack(
            [
                self._latency_of(int(kind))[cell] + 1000.0 * self._waits_s[wait]
                for kind, cell, wait in zip(kinds, cells, waits, strict=True)
            ]
        )
        weight = counts[kinds, cells, waits][:, None] * weights
        found = weighted_quantiles(latency.ravel(), weight.ravel(), (0.5, 0.99), smooth=True)
        return float((latency * weight).sum() / weight.sum()), found[0], found[1]

    def _latency_of(self, kind: int) -> np.ndarray:
        """(cells, intervals of QUANTILES) latency without a queue, in ms."""
        if kind not in self._latencies:
            surrogate = self._cluster.nodes.kinds[kind].surrogate
            self._latencies[kind] = latencies_ms(surrogate)
        return self._latencies[kind]

    @property
    def turned_away_in_all(self) -> float:
        """Commands that found no free worker up to now."""
        return self._turned_away_in_all + self.turned_away

    @property
    def answered(self) -> float:
        """Commands that were answered up to the last report."""
        return float(self._totals[list(_RATES).index("answered")])

    def largest(self, panel: str, name: str, *, since_s: float, until_s: float) -> float | None:
        """The largest value of a series at reports between two times; None if there is none."""
        [values] = [each for key, each in self._values.items() if (key[2], key[0]) == (panel, name)]
        times = np.array(self.times_s[: len(values)])
        found = np.array(values)[(times > since_s) & (times <= until_s)]
        found = found[np.isfinite(found)]
        return float(found.max()) if len(found) else None

    def run(self) -> Run:
        """Everything that was recorded."""
        times = np.array(self.times_s)
        columns = []
        for (name, unit, panel), values in self._values.items():
            if name in _LEFT_OUT_IF_NOTHING and not np.any(values):
                continue
            padded = values + [np.nan] * (len(times) - len(values))
            columns.append(Series(name, unit, panel, np.array(padded, float)))
        return Run(
            times_s=times,
            series=columns,
            facts=[*self._short_of_memory(), *self._summary(), *self._facts],
            marks=sorted(self._marks, key=lambda mark: mark.time_s),
            tables=self._tables,
            warnings=[*self.memory.shortfalls, *self.warnings],
        )

    def _short_of_memory(self) -> list[Fact]:
        """Before everything else, that data do not fit."""
        since_s = self.memory.short_since_s
        if since_s is None:
            return []
        return [Fact("data do not fit on a node from", since_s, "s", "see the warnings")]

    def _summary(self) -> list[Fact]:
        """What every run answers."""
        totals = dict(zip(_RATES, self._totals, strict=True))
        failed, away = totals["failed"], self._turned_away_in_all
        asked = totals["offered"] + away
        connections = self._values[("connections, most on a node", "", "connections")]
        opened = self._values[("new connections", "1/s", "new connections")]
        facts = [
            Fact("answered", round(totals["answered"]), "", "commands"),
            Fact("failed", round(failed), "", _share(failed, asked)),
            Fact("turned away: no free worker", round(away), "", _share(away, asked)),
            Fact("most connections on a node", round(max(connections))),
            Fact("connections at the end", round(connections[-1]), "", "on the node with most"),
            Fact("most new connections", max(opened), "1/s"),
        ]
        for what, (first_s, last_s) in self._seen_s.items():
            facts += [Fact(f"first {what}", first_s, "s"), Fact(f"last {what}", last_s, "s")]
        return facts


def _share(some: float, asked: float) -> str:
    return f"commands, {some / asked:.2%} of what was asked" if asked > 0 else ""


def latencies_ms(surrogate: Surrogate) -> np.ndarray:
    """(cells, intervals of QUANTILES) latency in the middle of each interval, at `cell_loads`."""
    known = surrogate.latencies(cell_loads())
    return np.asarray((known[:, 1:] + known[:, :-1]) / 2.0)


def weighted_quantiles(
    values: np.ndarray, weights: np.ndarray, quantiles: Sequence[float], *, smooth: bool = False
) -> list[float]:
    """Quantiles of values that count so often.

    Parameters
    ----------
    smooth
        The values stand for intervals of a continuous quantity: straight between the middles of
        their weights.
    """
    order = np.argsort(values)
    each = weights[order]
    total = np.cumsum(each)
    wanted = np.array(quantiles) * total[-1]
    if smooth:
        return [float(value) for value in np.interp(wanted, total - each / 2.0, values[order])]
    found = np.searchsorted(total, wanted)
    return [float(values[order[min(i, len(order) - 1)]]) for i in found]
