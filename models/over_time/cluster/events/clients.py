"""What clients do: deploys, hot keys, reads from replicas, another list of nodes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from .base import Event, EventProcess

if TYPE_CHECKING:
    from ..cluster import Cluster
from typing import TYPE_CHECKING

from ..slots.slot_map import SlotMap

if TYPE_CHECKING:
    from ..cluster import Cluster
from typing import TYPE_CHECKING

from pydantic import model_validator

from forecache.hwprofiles.files import FieldError

if TYPE_CHECKING:
    from ..cluster import Cluster


# --- a rolling deploy -----------------------------------------------------------------------------


class Deploy(Event):
    """All pods are replaced at a steady pace, `surge` of them being there twice meanwhile."""

    event: Literal["deploy"]
    """Its name."""
    lasts_s: float = Field(gt=0, le=86_400)
    """From the first pod to the last."""
    surge: float = Field(default=0.25, ge=0, le=1)
    """New pods before old ones go, as a share of all (maxSurge of a Kubernetes Deployment)."""

    def happen(self, cluster: Cluster) -> EventProcess:
        """Add the surge, close connections as pods go, take the surge away."""
        clients = cluster.clients
        cluster.record.mark("a deploy begins")
        more = math.ceil(self.surge * clients.pods)
        # As many old pods go last as there are new ones first.
        gone = (clients.pods - more) / (clients.pods + more)
        clients.pods += more
        pause_s = min(1.0, self.lasts_s)
        for _ in range(max(1, round(self.lasts_s / pause_s))):
            clients.close_some(cluster.nodes.state, share=gone * pause_s / self.lasts_s)
            yield cluster.env.timeout(pause_s)
        # Whatever an autoscaler has done meanwhile, at least one pod has to be left.
        kept = max(1, clients.pods - more)
        clients.close_some(cluster.nodes.state, share=1.0 - kept / clients.pods)
        clients.pods = kept
        cluster.record.mark("the deploy is through")


# --- keys that many ask for, and reads that go to replicas ----------------------------------------


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


# --- an operator edits the list of nodes that clients of a cache have -----------------------------


MOST_NODES = 199
"""The highest number of a node."""

_PARTS = 20
"""Steps in which clients take a list over that is not deployed at once."""


class NodeList(Event):
    """Clients of a cache get another list of nodes: keys belong to other nodes from then on."""

    event: Literal["node_list"]
    """Its name."""
    nodes: int | list[int]
    """The number of nodes, or a list of node numbers from 0 on. New nodes are empty."""
    over_s: float = Field(default=0.0, ge=0, le=7 * 86_400)
    """How long it takes until all clients have it; meanwhile some use the old list."""

    @model_validator(mode="after")
    def _some(self) -> NodeList:
        numbers = self.numbers
        if not 1 <= len(numbers) <= 100 or len(set(numbers)) < len(numbers):
            raise FieldError("nodes", found=self.nodes, valid="1 to 100 different nodes")
        if min(numbers) < 0 or max(numbers) > MOST_NODES:
            raise FieldError("nodes", found=self.nodes, valid=f"numbers from 0 to {MOST_NODES}")
        return self

    @property
    def numbers(self) -> list[int]:
        """The nodes in the order of the list."""
        return list(range(self.nodes)) if isinstance(self.nodes, int) else list(self.nodes)

    def happen(self, cluster: Cluster) -> EventProcess:
        """Have clients use it."""
        cache = cluster.cache
        assert cache is not None  # by the scenario's schema
        while cluster.nodes.count <= max(self.numbers):
            cluster.nodes.add(cluster.kind, shard=cluster.nodes.count)
        change = cache.begin_list(self)
        parts = _PARTS if self.over_s > 0 else 1
        for part in range(1, parts + 1):
            yield cluster.env.timeout(self.over_s / parts)
            cache.use_list(change, share=part / parts)
