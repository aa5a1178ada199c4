"""Shards are added or taken away, and slots move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ..slots.slot_map import SlotMap
from ..slots.slots import rebalance
from .base import EventProcess
from .moving import Mover, Moving

if TYPE_CHECKING:
    from ..cluster import Cluster


class Resize(Moving):
    """The cluster gets another number of shards.

    New shards own nothing at first; then slots move, the fewest that make all alike. Sources work
    at the same time, each on one target after the other, unless it goes key by key, where one
    operator does everything.
    """

    event: Literal["resize"]
    """Its name."""
    shards: int = Field(ge=1, le=2000)
    """How many there shall be."""
    provision_s: float = Field(default=0.0, ge=0, le=86_400)
    """Until new nodes are there."""

    def happen(self, cluster: Cluster) -> EventProcess:
        """Add nodes, move slots, take nodes away."""
        slots, mover = SlotMap.of(cluster), Mover(self, cluster)
        before = slots.shards
        cluster.record.mark(f"from {len(before)} to {self.shards} shards")
        yield from mover.look()
        if self.shards > len(before):
            yield cluster.env.timeout(self.provision_s)
            _add(cluster, slots, self.shards - len(before))
        shards = slots.shards[: self.shards]
        yield from mover.move(rebalance(slots.owners, shards), f"resize to {self.shards} shards")
        for shard in slots.shards[self.shards :] if mover.done else []:
            _remove(cluster, slots, shard)


def _add(cluster: Cluster, slots: SlotMap, count: int) -> None:
    first = max(slots.primary) + 1
    for shard in range(first, first + count):
        slots.primary[shard] = cluster.nodes.add(cluster.kind, shard=shard)
        for _ in range(cluster.scenario.cluster.replicas):
            cluster.nodes.add(cluster.kind, shard=shard)
    cluster.record.mark(f"{count} new shards are there, without slots")


def _remove(cluster: Cluster, slots: SlotMap, shard: int) -> None:
    nodes = cluster.nodes
    for node in range(nodes.count):
        if nodes.shard[node] == shard:
            nodes.traffic[node] = 0.0
            nodes.set_down(node, silent=False)
            nodes.paid[node] = False
    slots.primary[shard] = None
