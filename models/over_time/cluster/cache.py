"""A cluster whose nodes are a cache: what they hold, and the database behind them.

After every step of the load the requests that nodes answered are looked up (`caching.py`): those
that miss go to the database, and so do, if clients do that, those whose node did not answer. Who
waits for the database has no worker free for another request; storing what was fetched takes the
nodes time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import simpy

from forecache.sim.errors import InputError

from ...layouts.slabs import chunk_bytes, keys_that_fit
from ...memory.lines import rank_classes
from ...scenario.workload import sizes_of
from ..caching import Contents, Database, Lookaside, Tier, groups_of, share_moved
from .events import NodeList
from .load.clients import ClientFleet
from .load.load import Load, LoadStep
from .nodes import Claim, Nodes
from .record import ClusterRecord
from .schema import ClusterScenario

CLASSES = 40
"""Popularity classes of Zipf's law."""

MOST_CELLS = 40_000
"""Groups of keys times popularity classes; more would take minutes."""

RECOVERED_POINTS = 0.05
"""A hit rate has recovered when it is so near to what it was before."""

_EVERYTHING = 1e18


@dataclass
class Upset:
    """Something that costs hits: a new list, or a node that is back, empty.

    Attributes
    ----------
    moved
        Share of the keys that have another node; None of a node that lost its own.
    before
        Hit rate when it happened.
    lowest, recovered_s
        The lowest of a step since then, and when it was back for good; NaN if not.
    overloaded_s
        How long the database had no capacity left since then.
    """

    at_s: float
    what: str
    moved: float | None
    before: float
    lowest: float = 1.0
    recovered_s: float = math.nan
    overloaded_s: float = 0.0


class LookasideCache:
    """The cache's contents and its database, kept up with a cluster's load.

    Raises
    ------
    InputError
        The scenario asks for what can't be simulated.
    """

    def __init__(
        self,
        scenario: ClusterScenario,
        described: Lookaside,
        env: simpy.Environment,
        nodes: Nodes,
        clients: ClientFleet,
        load: Load,
        record: ClusterRecord,
        *,
        shard_bytes: float,
    ) -> None:
        self._env, self._nodes, self._clients, self._record = env, nodes, clients, record
        self.described = described
        edits = [event for event in scenario.events if isinstance(event, NodeList)]
        edits.sort(key=lambda edit: edit.at_s)
        lists = [list(range(scenario.cluster.shards)), *(edit.numbers for edit in edits)]
        count = 1 + max(max(numbers) for numbers in lists)
        # Clients call nodes by their addresses, which are made up here.
        names = [f"10.0.{node // 250}.{node % 250 + 1}:11211" for node in range(count)]
        self.groups = groups_of(lists, hashing=described.hashing, names=names)
        classes = rank_classes(scenario.data.keys, scenario.data.popularity, most=CLASSES)
        if len(classes) * self.groups.shares.size * 2 > MOST_CELLS:
            most = MOST_CELLS // 2 // len(classes)
            raise InputError(
                f"field events: found {len(lists)} lists of nodes, by which keys have "
                f"{self.groups.shares.size} different histories; valid are at most {most}, by "
                "fewer lists or ketama."
            )
        sizes = sizes_of(scenario.data.value_bytes)
        key_bytes = scenario.data.key_bytes
        if scenario.cluster.engine == "memcached":
            self.item_bytes = sum(part * chunk_bytes(key_bytes, size) for size, part in sizes)
        else:
            self.item_bytes = shard_bytes * scenario.cluster.shards / scenario.data.keys
        capacity = _EVERYTHING
        if described.memory_mib is not None:
            capacity = keys_that_fit(described.memory_mib * 2**20, key_bytes=key_bytes, sizes=sizes)
        self.contents = Contents(
            classes,
            self.groups,
            capacity_keys=[capacity] * count,
            requests_per_s=load.mean_rps * scenario.clients.commands_per_request,
            duration_s=scenario.duration_s,
            warm=described.begins == "warm",
        )
        self.tier = Tier(
            self.contents, Database(described.database), coalescing=described.coalescing
        )
        self._mix = np.zeros(len(lists))
        self._mix[0] = 1.0
        self._lists_begun = 0
        self.upsets: list[Upset] = []
        self._steady = math.nan
        self._claims: dict[int, Claim] = {}
        self._sums: dict[str, float] = defaultdict(float)
        """Since the last report."""
        self._begin_interval()
        self._spread()
        self._declare()
        clients.missing = 0.0 if described.begins == "warm" else 1.0
        clients.room = self.tier.database.room(scenario.step)
        load.after_step.append(self._step)

    def begin_list(self, edit: NodeList) -> int:
        """The next list comes into use; returns its number."""
        self._lists_begun += 1
        moved = share_moved(self.groups, self._lists_begun - 1, self._lists_begun)
        numbers = edit.numbers
        whole = numbers == list(range(len(numbers)))
        what = f"list of {len(numbers)} nodes" if whole else f"list of nodes {numbers}"
        self._record.mark(f"{what}: {moved:.0%} of the keys belong to another one")
        self._upset(what, moved)
        return self._lists_begun

    def use_list(self, number: int, *, share: float) -> None:
        """So large a share of the clients uses a list now, the others what they used before."""
        self._mix[number] = 0.0
        self._mix *= (1.0 - share) / max(1e-300, self._mix.sum())
        self._mix[number] = share
        self._spread()

    def _spread(self) -> None:
        nodes = self._nodes
        self._weights = self.contents.weights(list(self._mix))
        traffic = self.contents.traffic(self._weights)
        nodes.traffic[:] = 0.0
        nodes.traffic[: len(traffic)] = traffic[: nodes.count]

    def _upset(self, what: str, moved: float | None) -> None:
        now_s = float(self._env.now)
        self.upsets.append(Upset(now_s, what, moved, self._steady))
        clients = self._clients
        clients.missing = min(1.0, clients.missing + (moved or 0.0))

    def _step(self, step: LoadStep) -> None:
        """Look up what the nodes answered in a step of the load."""
        nodes = self._nodes
        count = len(self.contents.capacity)
        up = np.array([node < nodes.count and nodes.is_up(node) for node in range(count)])
        for node in nodes.came_back:
            self.contents.clear(node)
            self._upset(f"node {node} is back, empty", None)
        nodes.came_back.clear()
        reached = step.commands_answered
        reached = np.pad(reached, (0, max(0, count - len(reached))))[:count]
        straight = 0.0
        if self.described.when_down == "database":
            straight = float(step.commands_failed.sum())
        done = self.tier.step(reached, self._weights, step.length_s, straight=straight, up=up)
        # In the queue, and in service by Little's law.
        serving = done.answered / step.length_s * self.described.database.latency_ms / 1e3
        clients, missed = self._clients, float(done.misses.sum())
        clients.held = round(self.tier.database.waiting + serving)
        asked = missed + float(done.hits.sum())
        clients.missing = missed / asked if asked > 0 else clients.missing
        # Of requests that wait for one query, all are answered with it.
        each = missed / done.queries if done.queries > 0 else 1.0
        clients.room = max(1.0, each) * self.tier.database.room(step.length_s)
        self._store(done.stored, step.length_s)
        for name, value in (
            ("hits", float(done.hits.sum())),
            ("asked", float(done.hits.sum() + done.misses.sum())),
            ("queries", done.queries),
            ("answered", done.answered),
            ("waited_s", done.wait_s * done.answered),
            ("timed_out", done.timed_out),
            ("refused", done.refused),
            ("busy_s", done.busy * step.length_s),
            ("length_s", step.length_s),
        ):
            self._sums[name] += value
        self._watch(done.hit_share, done.busy, step)

    def _store(self, stored: np.ndarray, length_s: float) -> None:
        """Storing keys takes the nodes time in the next step."""
        nodes = self._nodes
        held = self.contents.keys_held()
        for node in range(min(nodes.count, len(stored))):
            surrogate = nodes.kinds[nodes.kind[node]].surrogate
            share = min(1.0, stored[node] * surrogate.main_ps / 1e12 / length_s)
            if node not in self._claims:
                self._claims[node] = nodes.occupy(node, share)
            self._claims[node].change(share)
            nodes.data_bytes[node] = held[node] * self.item_bytes

    def _watch(self, hit_share: float, busy: float, step: LoadStep) -> None:
        """Follow what the last upset did to the hit rate."""
        if math.isnan(hit_share):
            return
        if not self.upsets or not math.isnan(self.upsets[-1].recovered_s):
            self._steady = hit_share
        if not self.upsets:
            return
        last = self.upsets[-1]
        now_s = step.start_s + step.length_s
        if math.isnan(last.before):
            last.before = hit_share
        last.lowest = min(last.lowest, hit_share)
        last.overloaded_s += step.length_s if busy > 0.999 else 0.0
        if hit_share >= last.before - RECOVERED_POINTS:
            if math.isnan(last.recovered_s):
                last.recovered_s = now_s - last.at_s
        else:
            last.recovered_s = math.nan

    def _declare(self) -> None:
        """Series at every report."""
        record, sums = self._record, self._sums

        def per_s(name: str, unit: str, panel: str, summed: str) -> None:
            record.gauge(name, unit, panel, lambda: sums[summed] / sums["length_s"])

        def ratio(part: float, whole: float) -> float:
            return part / whole if whole > 0 else math.nan

        record.gauge("hit rate", "share", "hit rate", lambda: ratio(sums["hits"], sums["asked"]))
        per_s("queries", "1/s", "database", "queries")
        per_s("answered there", "1/s", "database", "answered")
        per_s("database", "", "utilisation", "busy_s")
        latency_ms = self.described.database.latency_ms
        record.gauge(
            "wait and query of a miss",
            "ms",
            "latency",
            lambda: latency_ms + 1e3 * ratio(sums["waited_s"], sums["answered"]),
        )
        per_s("given up at the database", "1/s", "errors", "timed_out")

        def refused() -> float:
            value = sums["refused"] / sums["length_s"]
            self._begin_interval()
            return value

        # The last of these series.
        record.gauge("refused by the database", "1/s", "errors", refused)

    def _begin_interval(self) -> None:
        self._sums.clear()
        self._sums["length_s"] = 1e-12

    def finish(self) -> None:
        """Answers, after the last step; checks that no request was lost."""
        self.tier.check()
        record, totals = self._record, self.tier.totals
        asked = totals["to_cache"] + totals["straight"]
        for name, fact in (
            ("straight", "asked of the database for a node that failed"),
            ("hits", "found in the cache"),
            ("answered", "answered by the database"),
            ("timed_out", "given up at the database"),
            ("refused", "refused by the database"),
        ):
            share = totals[name] / asked if asked > 0 else 0.0
            record.fact(fact, round(totals[name]), "", f"commands, {share:.2%} of all")
        if self.upsets:
            record.table(
                "Changes and what they cost",
                [
                    *(("at", "s"), ("what", ""), ("keys moved", "share")),
                    *(("hit rate before", "share"), ("lowest", "share")),
                    *(("recovered after", "s"), ("database full for", "s")),
                ],
                [
                    [u.at_s, u.what, u.moved, u.before, u.lowest, u.recovered_s, u.overloaded_s]
                    for u in self.upsets
                ],
            )
