"""Growth: cores are enabled on the shards there are, then shards are added."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..cluster.cluster import Cluster
from ..cluster.events import Resize
from ..cluster.load.load import LoadStep
from ..cluster.moving import Mover
from ..cluster.nodes import NodeKind
from ..cluster.record import weighted_quantiles
from ..cluster.slots import rebalance
from ..cluster.surrogate import QUANTILES, Surrogate
from ..recorder import Process
from .schema import Mechanisms

MOST_SHARDS = 500
"""Shards of a cache at most, as of a cluster of nodes (ElastiCache's limit)."""

_MEMORY_S = 0.5
"""A job of some slots takes about as long, and the next one shall know what it changed."""

_MOVES_FOR_DAYS_S = 7 * 86_400.0
"""A move is never given up."""


@dataclass
class ShardGrowth:
    """One scale-out, as it went."""

    begun_s: float
    shards: int
    provisioned_s: float = math.nan
    moved_s: float = math.nan
    keys_moved: float = 0.0


@dataclass
class Shards:
    """The shards of a cache, what they are, and how they become more.

    Parameters
    ----------
    kind_of
        The kind of a node, by its threads and the number of shards.
    ecpu_each
        Mean ECPU of a request now.
    data_bytes
        Memory of the data now.
    least_ecpu_per_s
        What the cache shall be ready for.
    """

    cluster: Cluster
    mechanisms: Mechanisms
    replicas: int
    kind_of: Callable[[int, int], NodeKind]
    ecpu_each: Callable[[], float]
    data_bytes: Callable[[], float]
    least_ecpu_per_s: float = 0.0
    limited: bool = True
    """Whether the first limit of an empty cache still holds."""
    growths: list[ShardGrowth] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slots = self.cluster.slots
        self.level = 0
        self.full = False
        """Whether more shards were needed than a cache may have."""
        self._busy = np.zeros(0)
        self._seen_s = 0.0
        self.cluster.after_step(self._look)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.slots.shards)

    @property
    def threads(self) -> int:
        """Threads that each has."""
        return self.mechanisms.io_threads[self.level]

    @property
    def growing(self) -> bool:
        """Whether shards are on their way, or slots to them."""
        return bool(self.growths) and math.isnan(self.growths[-1].moved_s)

    @property
    def at_the_top(self) -> bool:
        """Whether shards have all the cores they may have."""
        return self.level == len(self.mechanisms.io_threads) - 1

    @property
    def capacity_rps(self) -> float:
        """Requests a second that all shards can do, evenly asked."""
        nodes = self.cluster.nodes
        primaries = [self.slots.primary[shard] for shard in self.slots.shards]
        each = [
            nodes.kind_of(node).surrogate.capacity_rps for node in primaries if node is not None
        ]
        return float(sum(each)) * self._more_with_replicas()

    def start(self, *, shards: int) -> None:
        """Be what the cache was made as: one small shard, or what it keeps ready."""
        if shards > 1:
            self.level, self.limited = len(self.mechanisms.io_threads) - 1, False
            self.slots.spread()
            self.refit()
        while self.short_of(self.least_ecpu_per_s) or self.too_full:
            self.limited = False
            if self.at_the_top or self.too_full:
                shards = self._next_count()
                if shards == self.count:
                    self.full = True
                    return
                self._add(shards - self.count, connections=0)
                self.slots.owners[:] = (
                    np.arange(len(self.slots.owners)) * shards // len(self.slots.owners)
                )
                self.slots.spread()
            else:
                self.level += 1
            self.refit()

    def refit(self) -> None:
        """Let every node be what its shard's threads and data make it."""
        kind = self.kind_of(self.threads, self.count)
        for node in range(self.cluster.nodes.count):
            self.cluster.nodes.become(node, kind)

    def watch(self) -> Process:
        """The process that looks and acts, until the end."""
        env, wanted = self.cluster.env, self.mechanisms
        while True:
            self._busy[:] = 0.0
            self._seen_s = 0.0
            yield env.timeout(wanted.detect_s)
            if not (self._too_busy() or self.short_of(self.least_ecpu_per_s) or self.too_full):
                continue
            if (self.limited or not self.at_the_top) and not self.too_full:
                yield env.timeout(wanted.enable_s)
                self._up()
            elif self._next_count() > self.count:
                yield from self._out()
            elif not self.full:
                self.full = True
                self.cluster.record.mark(f"no more than {self.count} shards")

    def _up(self) -> None:
        """More cores for the shards there are."""
        if self.limited:
            self.limited = False
            self.cluster.record.mark("the limit of an empty cache is lifted")
            return
        self.level += 1
        self.refit()
        self.cluster.record.mark(f"shards have {self.threads} threads")

    def _out(self) -> Process:
        """More shards, and slots for them."""
        env, wanted = self.cluster.env, self.mechanisms
        before = self.count
        growth = ShardGrowth(float(env.now), self._next_count())
        self.growths.append(growth)
        self.cluster.record.mark(f"from {before} to {growth.shards} shards")
        yield env.timeout(wanted.provision_s)
        connections = self.cluster.clients.wanted_connections
        self._add(growth.shards - before, connections=connections)
        growth.provisioned_s = float(env.now)
        mover = Mover(self._resize(growth.shards), self.cluster, memory_s=_MEMORY_S)
        yield from mover.look()
        moves = rebalance(self.slots.owners, self.slots.shards)
        growth.keys_moved = sum(float(self.slots.keys[list(m.slots)].sum()) for m in moves)
        yield from mover.carry(moves)
        growth.moved_s = float(env.now)
        self.refit()
        self.cluster.record.mark(f"{growth.shards} shards have their slots")

    def _next_count(self) -> int:
        return min(MOST_SHARDS, math.ceil(self.mechanisms.growth * self.count))

    def _resize(self, shards: int) -> Resize:
        wanted = self.mechanisms
        key_by_key = wanted.migration == "key_by_key"
        way_ms = hop(wanted).mean_ms
        return Resize(
            event="resize",
            at_s=0.0,
            shards=shards,
            pipeline=wanted.keys_per_migrate,
            most_blocked=wanted.most_blocked,
            method="key_by_key" if key_by_key else "atomic",
            threads=None if key_by_key else wanted.migration_threads,
            slots_per_job=None if key_by_key else wanted.slots_per_job,
            rtt_us=max(1.0, 1000.0 * way_ms),
            network_gbit_per_s=wanted.network_gbit_per_s,
            # Where a service keeps its map, and that its proxies follow it at once, is its own.
            fsync_ms=0.0,
            clients_follow_s=0.0,
            give_up_s=_MOVES_FOR_DAYS_S,
        )

    def _add(self, count: int, *, connections: int) -> None:
        """Add shards, to each of which proxies have opened a number of connections."""
        kind, nodes = self.kind_of(self.threads, self.count), self.cluster.nodes
        first = max(self.slots.primary) + 1
        for shard in range(first, first + count):
            for number in range(1 + self.replicas):
                node = nodes.add(kind, shard=shard)
                nodes.connect(node, connections)
                if number == 0:
                    self.slots.primary[shard] = node

    def _more_with_replicas(self) -> float:
        to_replicas = self.slots.replica_share
        return 1.0 / (1.0 - to_replicas) if to_replicas else 1.0

    @property
    def first_ecpu_per_s(self) -> float:
        """What is let through until a core was enabled."""
        factor = self.mechanisms.replica_ecpu_factor if self.slots.replica_share else 1.0
        return factor * self.mechanisms.first_ecpu_per_s if self.limited else math.inf

    def short_of(self, ecpu_per_s: float) -> bool:
        """Whether the cache isn't ready for so much."""
        able = self.capacity_rps * self.mechanisms.scale_above * self.ecpu_each()
        return min(self.first_ecpu_per_s, able) < ecpu_per_s

    @property
    def too_full(self) -> bool:
        """Whether shards hold more than they should."""
        return self.data_bytes() > self.mechanisms.shard_gb * 1e9 * self.count

    def _too_busy(self) -> bool:
        """Whether a shard is that more shards would help."""
        busy = self._busy / max(self._seen_s, 1e-9)
        for shard in self.slots.shards:
            node = self.slots.primary[shard]
            if node is None or busy[node] <= self.mechanisms.scale_above:
                continue
            shares = self.slots.shares[self.slots.owners == shard]
            # A slot stays whole, so that a shard with one hot slot is not helped by another one.
            if not self.at_the_top or shares.max(initial=0.0) < 0.5 * shares.sum():
                return True
        return False

    def _look(self, step: LoadStep) -> None:
        count = len(step.utilisation)
        if len(self._busy) < count:
            self._busy = np.concatenate([self._busy, np.zeros(count - len(self._busy))])
        nodes = self.cluster.nodes
        able = nodes.numbers()["capacity_rps"]
        # A limit of the proxies keeps no shard busy, but for the first one, which more cores lift.
        of_it = 1.0 if self.limited else np.minimum(1.0, nodes.limit_rps[:count] / able[:count])
        self._busy[:count] += step.utilisation * of_it * step.length_s
        self._seen_s += step.length_s


# --- hops between zones ---------------------------------------------------------------------------


Floats = NDArray[np.float64]

_ALMOST_ALL = 0.9999

_GRID = 200
"""Equally likely latencies that stand for a distribution."""


@dataclass(frozen=True)
class Hop:
    """Round trips of one way of a request, each with its share.

    Attributes
    ----------
    rtts_ms, shares
        (ways,) in ms, and how often each is taken.
    """

    rtts_ms: Floats
    shares: Floats

    @property
    def mean_ms(self) -> float:
        """The mean round trip."""
        return float(self.rtts_ms @ self.shares)


def hop(mechanisms: Mechanisms) -> Hop:
    """From anywhere in the region to anywhere: one zone in `zones` is the same."""
    cross = np.array(mechanisms.cross_zone_rtt_ms)
    same = 1.0 / mechanisms.zones
    return Hop(
        np.concatenate([[mechanisms.same_zone_rtt_ms], cross]),
        np.concatenate([[same], np.full(len(cross), (1.0 - same) / len(cross))]),
    )


def behind_proxy(surrogate: Surrogate, mechanisms: Mechanisms) -> Surrogate:
    """A node as a proxy sees it: no more than is let through, with the latency of the way there.

    A shard that gets all that is let through is no busier than that; what is more waits in a queue
    before it. The node model counts a round trip within a zone already.
    """
    surrogate = let_through(surrogate, mechanisms.let_through)
    way = hop(mechanisms)
    added = way.rtts_ms - mechanisms.same_zone_rtt_ms + mechanisms.proxy_ms
    middles = (np.arange(_GRID) + 0.5) / _GRID
    rows = []
    for row in surrogate.latency_ms:
        own = np.interp(middles, QUANTILES, row)
        both = (own[:, None] + added[None, :]).ravel()
        weights = np.broadcast_to(way.shares, (_GRID, len(added))).ravel()
        rows.append(tuple(weighted_quantiles(both, weights, QUANTILES)))
    mean = float(added @ way.shares)
    return replace(
        surrogate, latency_ms=tuple(rows), mean_ms=tuple(each + mean for each in surrogate.mean_ms)
    )


def let_through(surrogate: Surrogate, share: float) -> Surrogate:
    """A node of which so much is used at most: its loads are shares of that."""
    if share >= 1.0:
        return surrogate
    # `between` looks at what is left of the capacity, so that there has to be something.
    loads = np.array([*surrogate.loads, _ALMOST_ALL])
    main, helpers = surrogate.busy(share * np.array([0.0, *loads, 1.0]))
    return replace(
        surrogate,
        capacity_rps=share * surrogate.capacity_rps,
        loads=tuple(map(float, loads)),
        latency_ms=tuple(tuple(map(float, row)) for row in surrogate.latencies(share * loads)),
        mean_ms=tuple(map(float, surrogate.mean(share * loads))),
        main_thread=tuple(map(float, main)),
        io_threads=tuple(map(float, helpers)),
    )
