"""What a run of a cluster leaves: series at each report, marks, facts, tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import simpy

from ...results.series import Mark, Run
from ..recorder import Recorder
from .load.clients import ClientFleet
from .load.cohorts import cell_loads, cell_waits_s
from .nodes import MemoryWatch, Nodes
from .schema import ClusterScenario
from .surrogate import QUANTILES, Surrogate

REPORTS = 300
"""Reports of a run that doesn't say how often it wants one."""

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


class ClusterRecord(Recorder):
    """What a run of a cluster leaves: what was asked and answered at each report, and the rest."""

    def __init__(
        self,
        scenario: ClusterScenario,
        env: simpy.Environment,
        nodes: Nodes,
        clients: ClientFleet,
        *,
        connection_bytes: float,
    ) -> None:
        super().__init__()
        self._env, self._nodes, self._clients = env, nodes, clients
        self._has_autoscaler = scenario.clients.autoscaler is not None
        self.report_s = max(scenario.step, scenario.report_s or scenario.duration_s / REPORTS)
        self.memory = MemoryWatch(nodes, connection_bytes=connection_bytes)
        self.turned_away = 0.0
        """Commands of users' requests that found no free worker, since the last report."""
        self._turned_away_in_all = 0.0
        self._commands = np.zeros(len(_RATES))
        self._totals = np.zeros(len(_RATES))
        self._before = np.zeros((0, len(_RATES)), np.int64)
        self._connected_before = nodes.state["connected"].copy()
        self._commands_each = np.zeros(0)
        self._more = np.zeros(0)
        """(nodes,) commands of requests on their way, besides what as many of now would have."""
        self._busy_before = np.zeros((2, 0))
        self._waits_s = cell_waits_s()
        self._latencies: dict[int, np.ndarray] = {}
        self._seen_s: dict[str, tuple[float, float]] = {}
        """By what happened: the reports that first and last saw it."""

    def mark(self, what: str) -> None:
        """Something happens now."""
        self.marks.append(Mark(float(self._env.now), what))

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
        state = self._nodes.state
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

    def report(self, interval_s: float, latency: np.ndarray, connect_waits: np.ndarray) -> None:
        """Close an interval and begin the next.

        Parameters
        ----------
        latency
            (kinds, UTILISATION_CELLS, WAIT_CELLS) requests that were answered in it.
        connect_waits
            (WAIT_CELLS,) connections that were accepted.
        """
        nodes = self._nodes
        self.times_s.append(float(self._env.now))
        for (name, (_, panel)), commands in zip(_RATES.items(), self._commands, strict=True):
            asked = commands + (self.turned_away if name == "offered" else 0.0)
            self.add(name, "1/s", panel, float(asked) / interval_s)
        self.add("turned away", "1/s", "errors", self.turned_away / interval_s)
        self._see("failure", self._commands[list(_RATES).index("failed")])
        self._see("turned away", self.turned_away)
        self._totals += self._commands
        self._turned_away_in_all += self.turned_away
        self._commands[:] = 0.0
        self.turned_away = 0.0
        mean, p50, p99 = self._mean_and_quantiles(latency)
        self.add("p50", "ms", "latency", p50)
        self.add("p99", "ms", "latency", p99)
        self.add("mean", "ms", "latency", mean)
        if connect_waits.any():
            [waited] = weighted_quantiles(1000.0 * self._waits_s, connect_waits, (0.99,))
            self.add("p99 until accepted", "ms", "latency", waited)
        opened = nodes.state["connected"].copy()
        opened_before, self._connected_before = self._connected_before, opened.copy()
        opened[: len(opened_before)] -= opened_before
        self.add("connections, most on a node", "", "connections", float(nodes.connections.max()))
        new_per_s = float(opened.sum()) / interval_s
        self.add("new connections", "1/s", "new connections", new_per_s)
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
            self.add(f"{name}, mean", "", "utilisation", mean)
            self.add(f"{name}, busiest", "", "utilisation", float(shares.max()))
        self.add("memory, most on a node", "bytes", "memory", self.memory.look(self.times_s[-1]))
        if self._has_autoscaler:
            self.add("pods", "", "pods", float(self._clients.pods))
        self.sample()

    def _see(self, what: str, commands: float) -> None:
        if commands > 0:
            now_s = self.times_s[-1]
            self._seen_s[what] = (self._seen_s.get(what, (now_s, now_s))[0], now_s)

    def _mean_and_quantiles(self, counts: np.ndarray) -> tuple[float, float, float]:
        """Mean, p50 and p99 in ms of what was answered; NaN where nothing was."""
        # Few of the counts are not zero, and to look for them in a flat array is ten times faster.
        occupied = np.flatnonzero(counts != 0)
        if not len(occupied):
            return np.nan, np.nan, np.nan
        kinds, cells, waits = np.unravel_index(occupied, counts.shape)
        for kind in set(kinds.tolist()) - self._latencies.keys():
            self._latencies[kind] = latencies_ms(self._nodes.kinds[kind].surrogate)
        weights = np.diff(QUANTILES)
        latency = np.stack(
            [
                self._latencies[int(kind)][cell] + 1000.0 * self._waits_s[wait]
                for kind, cell, wait in zip(kinds, cells, waits, strict=True)
            ]
        )
        weight = counts[kinds, cells, waits][:, None] * weights
        found = weighted_quantiles(latency.ravel(), weight.ravel(), (0.5, 0.99), smooth=True)
        return float((latency * weight).sum() / weight.sum()), found[0], found[1]

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
        values = self.values(panel, name)
        times = np.array(self.times_s[: len(values)])
        found = values[(times > since_s) & (times <= until_s)]
        found = found[np.isfinite(found)]
        return float(found.max()) if len(found) else None

    def cluster_run(self) -> Run:
        """Everything that was recorded, after what every run of a cluster answers."""
        found, self.facts = self.facts, []
        if self.memory.short_since_s is not None:
            since_s = self.memory.short_since_s
            self.fact("data do not fit on a node from", since_s, "s", "see the warnings")
        self._summarize()
        self.facts += found
        self.warnings = [*self.memory.shortfalls, *self.warnings]
        return self.run(without=_LEFT_OUT_IF_NOTHING)

    def _summarize(self) -> None:
        totals = dict(zip(_RATES, self._totals, strict=True))
        away = self._turned_away_in_all
        asked = totals["offered"] + away
        connections = self.values("connections", "connections, most on a node")

        def lost(name: str, commands: float) -> None:
            share = f"commands, {commands / asked:.2%} of what was asked" if asked > 0 else ""
            self.fact(name, round(commands), "", share)

        self.fact("answered", round(totals["answered"]), "", "commands")
        lost("failed", totals["failed"])
        lost("turned away: no free worker", away)
        self.fact("most connections on a node", round(max(connections)))
        self.fact("connections at the end", round(connections[-1]), "", "on the node with most")
        opened = self.values("new connections", "new connections")
        self.fact("most new connections", float(max(opened)), "1/s")
        for what, (first_s, last_s) in self._seen_s.items():
            self.fact(f"first {what}", first_s, "s")
            self.fact(f"last {what}", last_s, "s")


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
