"""Which node serves which slot now, and how the load spreads from that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from forecache.sim.errors import InputError

from ....scenario.workload import Zipf
from .slots import LOST, SLOTS, even_owners, keys_per_slot, shard_shares, slot_shares

if TYPE_CHECKING:
    from ..cluster import Cluster
import math

_KEYS_DRAWN = 10**9


class SlotMap:
    """Slots of a cluster's shards.

    Attributes
    ----------
    owners
        (16,384,) shard that has each slot.
    keys
        (16,384,) keys in it.
    key_bytes
        Memory of a key and its value.
    shares
        (16,384,) share of the commands that name one of its keys.
    primary
        Node that is a shard's primary; None while it has none.
    replica_share
        Share of the commands that go to replicas where a shard has any: reads of clients that
        asked for it (READONLY).
    unnoticed
        Replicas that have failed, and that clients go on reading from: they are left out of the
        slot table once they are declared failed.
    uncovered
        Shards whose primary is declared failed, and has no successor.
    minority
        Whether nodes see no majority of primaries.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        data, shards = cluster.scenario.data, cluster.scenario.cluster.shards
        rng = np.random.default_rng([cluster.seed, 16_384])
        # A multinomial of more keys than this is as even as anybody can tell.
        drawn = min(data.keys, _KEYS_DRAWN)
        self.keys = keys_per_slot(drawn, rng).astype(np.float64) * (data.keys / drawn)
        exponent = data.popularity.zipf if isinstance(data.popularity, Zipf) else None
        self.shares = slot_shares(
            np.rint(self.keys).astype(np.int64), zipf_exponent=exponent, rng=rng
        )
        self.owners = even_owners(shards)
        self.key_bytes = cluster.shard_bytes * shards / max(float(self.keys.sum()), 1.0)
        self.primary: dict[int, int | None] = {shard: shard for shard in range(shards)}
        self.replica_share = 0.0
        self.unnoticed: set[int] = set()
        self.uncovered: set[int] = set()
        self.minority = False
        self._lost: dict[int, np.ndarray] = {}
        self._rng = rng

    @classmethod
    def of(cls, cluster: Cluster) -> SlotMap:
        """The cluster's own, made when the first event asks for it.

        Raises
        ------
        InputError
            Its engine knows no slots.
        """
        engine = cluster.scenario.cluster.engine
        if engine == "memcached":
            raise InputError(
                f"field cluster.engine: found {engine!r}, which has no slots; valid with this "
                "event is Redis or Valkey."
            )
        if cluster.slot_map is None:
            cluster.slot_map = cls(cluster)
        return cluster.slot_map

    @property
    def shards(self) -> list[int]:
        """Those that have a primary, in order."""
        return sorted(shard for shard, node in self.primary.items() if node is not None)

    def replicas(self, shard: int) -> list[int]:
        """Nodes of a shard that are up and not its primary."""
        nodes = self._cluster.nodes
        return [
            int(node)
            for node in np.flatnonzero(nodes.shard == shard)
            if node != self.primary.get(shard) and nodes.is_up(int(node))
        ]

    def lose(self, shard: int) -> None:
        """A shard's slots have no node that could serve them; clients go on asking for them."""
        self._lost[shard] = np.flatnonzero(self.owners == shard)
        self.owners[self._lost[shard]] = LOST

    def regain(self, shard: int) -> None:
        """A shard's node is back, with the slots that were lost."""
        if shard in self._lost:
            slots = self._lost.pop(shard)
            self.owners[slots[self.owners[slots] == LOST]] = shard

    def add_hot_key(self, share: float) -> int:
        """A single key gets so much of all commands from now on; returns its slot."""
        slot = int(self._rng.integers(0, SLOTS))
        self.shares *= 1.0 - share
        self.shares[slot] += share
        return slot

    def cool(self, slot: int, share: float) -> None:
        """Take a hot key's share away again."""
        self.shares[slot] -= share * self.shares.sum()
        self.shares = np.maximum(self.shares, 0.0)
        self.shares /= self.shares.sum()

    def spread(self) -> None:
        """Send commands to the nodes that have their slots, and count data there.

        A shard without a primary keeps its share: clients go on asking the node they know.
        """
        nodes = self._cluster.nodes
        count = max(self.primary) + 1
        asked = shard_shares(self.owners, self.shares, count)
        for shard, slots in self._lost.items():
            asked[shard] += self.shares[slots].sum()
        held = shard_shares(self.owners, self.keys, count)
        for shard in range(count):
            node = self.primary.get(shard)
            mine = np.flatnonzero(nodes.shard == shard)
            replicas = self.replicas(shard)
            replicas += [int(each) for each in mine if int(each) in self.unnoticed]
            for each in mine:
                factor = nodes.kind_of(int(each)).data_factor
                nodes.data_bytes[each] = held[shard] * self.key_bytes * factor
            if node is None:
                continue
            nodes.traffic[mine] = 0.0
            to_replicas = self.replica_share if replicas else 0.0
            nodes.traffic[node] = asked[shard] * (1.0 - to_replicas)
            for replica in replicas:
                nodes.traffic[replica] = asked[shard] * to_replicas / len(replicas)


# --- how clients learn that slots have moved, and how it slows them down --------------------------

# A client that asks the former owner of a slot is told the new one (MOVED), asks that one, and
# fetches the whole slot table anew, so that it knows of all moves until then (Redis cluster
# specification). The more it asks, the sooner it learns of a move.
#
# Some load generators draw keys at random for each of their connections until one belongs to that
# connection's shard (memtier_benchmark, cluster_client.cpp `get_key_for_conn`; keys of other shards
# go to those connections' lists). For a shard that has just got its first slot that takes thousands
# of draws a request, and the thread does nothing else meanwhile.


def learned(unknown: float, *, requests_per_s: float, seconds: float) -> float:
    """Share of the requests that a mean client still sends to a former owner, some time later.

    It learns at the rate of its requests times the share of them that are redirected:
    du/dt = -requests × u².

    Parameters
    ----------
    unknown
        Share of the requests that go to slots whose move a client does not know of.
    requests_per_s
        Of one client, or of all that share a slot table.
    """
    return unknown / (1.0 + requests_per_s * unknown * seconds)


def drawing_s(
    *, moved_per_s: float, draw_s: float, request_s: float, connections_per_client: int
) -> float:
    """The time scale on which clients recover that draw keys until one is their own.

    A client's thread spends `request_s` on a request of each connection in turn; on that of the new
    shard 1/(moved_per_s × t) draws besides at a time t, so that the rate left is t/(t + this).
    """
    return draw_s / (moved_per_s * connections_per_client * request_s)


def drawing_mean(scale_s: float, *, begin_s: float, end_s: float) -> float:
    """Mean share of their rate that such clients keep between two times since the first slot moved:
    that of t/(t + scale)."""
    if scale_s <= 0:
        return 1.0
    lost = scale_s * math.log((end_s + scale_s) / (begin_s + scale_s))
    return 1.0 - lost / (end_s - begin_s)
