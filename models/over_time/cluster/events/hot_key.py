"""Keys that many ask for, and reads that go to replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ..slots.slot_map import SlotMap
from .base import Event, EventProcess

if TYPE_CHECKING:
    from ..cluster import Cluster


class HotKey(Event):
    """One key becomes so popular that it gets a share of all commands.

    It lies in one slot, so one shard gets all of it, however many shards there are.
    """

    event: Literal["hot_key"]
    """Its name."""
    share: float = Field(gt=0, lt=1)
    """Share of the commands that name this key."""
    lasts_s: float | None = Field(default=None, gt=0, le=7 * 86_400)
    """How long it lasts; without it, until the end of the run."""

    def happen(self, cluster: Cluster) -> EventProcess:
        """Heat one slot up, and let it cool."""
        slots = SlotMap.of(cluster)
        slot = slots.add_hot_key(self.share)
        slots.spread()
        shard = int(slots.owners[slot])
        cluster.record.mark(f"a key of shard {shard} gets {self.share:.0%} of the commands")
        cluster.record.fact("shard of the hot key", shard)
        if self.lasts_s is not None:
            yield cluster.env.timeout(self.lasts_s)
            slots.cool(slot, self.share)
            slots.spread()
            cluster.record.mark("the hot key is one of many again")


class ReplicaReads(Event):
    """Clients send a share of their commands to replicas."""

    event: Literal["replica_reads"]
    """Its name."""
    share: float = Field(ge=0, le=1)
    """Share of the commands of a shard that its replicas get, evenly; reads, so no more than their
    share in the mix."""

    def happen(self, cluster: Cluster) -> EventProcess:
        """Spread reads over replicas from now on."""
        slots = SlotMap.of(cluster)
        slots.replica_share = self.share
        slots.spread()
        cluster.record.mark(f"replicas get {self.share:.0%} of the commands")
        yield cluster.env.timeout(0)
