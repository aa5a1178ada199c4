"""What an upgrade leaves of a cluster, step by step of the load, and whether that is enough."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ...filling import Filling
from ..nodes import UP

if TYPE_CHECKING:
    from ..cluster import Cluster
    from ..load.load import LoadStep


@dataclass
class NoPrimary:
    """A time in which a shard has no primary that answers."""

    shard: int
    begins_s: float
    ends_s: float = math.inf


@dataclass
class MostAsked:
    """Where the load was nearest to what was left of a node.

    Attributes
    ----------
    load
        What was asked of the node against what it could do.
    """

    load: float = 0.0
    node: int = 0
    kind: int = 0
    at_s: float = 0.0


@dataclass
class UpgradeWatch:
    """Follows a cluster from the beginning of an upgrade to its end.

    Attributes
    ----------
    worst
        Of all nodes that were up.
    least_rps, before_rps
        Commands a second that all nodes that serve could do: at worst, and before.
    failed, turned_away
        Commands that failed, and that found no free worker.
    gaps
        Times without a primary.
    extra_nodes, extra_node_s
        Nodes that were added, and how long they and all others were paid beyond those before.
    """

    cluster: Cluster
    worst: MostAsked = field(default_factory=MostAsked)
    least_rps: float = math.inf
    before_rps: float = 0.0
    failed: float = 0.0
    turned_away: float = 0.0
    gaps: list[NoPrimary] = field(default_factory=list)
    extra_nodes: int = 0
    extra_node_s: float = 0.0
    on: bool = True
    _paid_before: int = 0
    _away_before: float = 0.0
    _lost: dict[int, Filling] = field(default_factory=dict)

    def begin(self) -> None:
        """Note what there is, and look at every step from now on."""
        cluster = self.cluster
        self.before_rps = float(self._can_rps()[self._serving()].sum())
        self._paid_before = cluster.nodes.paid_count
        self._away_before = cluster.record.turned_away_in_all
        cluster.after_step(self._step)
        cluster.record.gauge(
            "all nodes that serve", "1/s", "capacity",
            lambda: float(self._can_rps()[self._serving()].sum()),
        )  # fmt: skip
        cluster.record.gauge(
            "shards without a primary", "", "shards", lambda: float(len(self.open_gaps))
        )

    @property
    def open_gaps(self) -> list[NoPrimary]:
        """Shards that have no primary now."""
        return [gap for gap in self.gaps if math.isinf(gap.ends_s)]

    def without_primary(self, shard: int) -> NoPrimary:
        """A shard's primary answers nothing from now on; the caller sets when that ends."""
        gap = NoPrimary(shard, float(self.cluster.env.now))
        self.gaps.append(gap)
        return gap

    def longest_gap(self) -> NoPrimary:
        """The longest; one that doesn't end lasts until now."""
        now_s = float(self.cluster.env.now)
        ended = [replace(gap, ends_s=min(gap.ends_s, now_s)) for gap in self.gaps]
        nothing = NoPrimary(-1, 0.0, 0.0)
        return max(ended, key=lambda gap: gap.ends_s - gap.begins_s, default=nothing)

    def lose_keys(self, shard: int, keys: float) -> None:
        """A shard is empty; what is written from now on is there again."""
        cluster = self.cluster
        first = not self._lost
        popularity = cluster.scenario.data.popularity
        self._lost[shard] = Filling(keys=max(1, round(keys)), popularity=popularity, filled=0.0)
        if first and cluster.cache is None:
            cluster.after_step(self._refill)
            cluster.record.gauge("reads that miss", "share", "lost keys", self._missing)

    @property
    def lost_keys(self) -> float:
        """Keys that were lost, and are gone until somebody writes them."""
        return float(sum(each.keys for each in self._lost.values()))

    def share_there(self, shard: int) -> float:
        """Of a shard's keys, the share that is there."""
        lost = self._lost.get(shard)
        return 1.0 if lost is None else lost.held / lost.keys

    def _can_rps(self) -> np.ndarray:
        """(nodes,) commands a second that each can do beside its background work."""
        nodes = self.cluster.nodes
        table = self.cluster.kind_table()[nodes.kind]
        free = 1.0 - np.clip(nodes.occupied, 0.0, 1.0)
        return np.asarray(np.minimum(table[:, 1], free * 1e12 / table[:, 0]) / nodes.work_factor)

    def _serving(self) -> np.ndarray:
        nodes = self.cluster.nodes
        return np.asarray((nodes.traffic > 0) & (nodes.state["down"] == UP))

    def _step(self, step: LoadStep) -> None:
        if not self.on:
            return
        nodes, can = self.cluster.nodes, self._can_rps()
        serving = self._serving()
        self.extra_node_s += step.length_s * (nodes.paid_count - self._paid_before)
        self.turned_away = self.cluster.record.turned_away_in_all - self._away_before
        self.failed += float(step.commands_failed.sum())
        self.least_rps = min(self.least_rps, float(can[serving].sum()))
        if not serving.any():
            return
        asked = self.cluster.load.asked_rps * nodes.traffic
        load = np.where(serving, asked / np.maximum(can, 1e-9), 0.0)
        node = int(load.argmax())
        if load[node] > self.worst.load:
            self.worst = MostAsked(float(load[node]), node, int(nodes.kind[node]), step.start_s)

    def _refill(self, step: LoadStep) -> None:
        sets = self.cluster.scenario.demand.mix.set
        for shard, there in self._lost.items():
            written = sets * float(step.commands_answered[self._of(shard)].sum())
            there.write(written, most=math.inf, evicts=False)

    def _of(self, shard: int) -> np.ndarray:
        return np.asarray(self.cluster.nodes.shard == shard)

    def _missing(self) -> float:
        traffic = self.cluster.nodes.traffic
        missed = sum(
            (1.0 - there.hit_rate) * float(traffic[self._of(shard)].sum())
            for shard, there in self._lost.items()
        )
        return missed / max(float(traffic.sum()), 1e-12)
