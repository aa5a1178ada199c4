"""A run of a cluster: what each event does, and the clock that everything follows."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean
from typing import Any

import numpy as np

from forecache.hwprofiles.files import FieldError
from forecache.sim.errors import InputError
from forecache.sim.statistics import Estimate

from ...prediction.predict import Progress
from ...prediction.replication import seen_after_ms
from ...results.series import Run
from ..recorder import Process
from .cluster import Cluster
from .events import (
    Background,
    Deploy,
    Event,
    Fail,
    HotKey,
    Maintenance,
    Migrate,
    NodeDies,
    NodeList,
    NodeMoves,
    ReplicaReads,
    Resize,
    Upgrade,
)
from .load.clients import autoscale
from .load.load import LoadStep
from .moving import migrate_slots, resize
from .nodes import Claim, writing
from .outage import fail
from .schema import ClusterScenario
from .upgrade import upgrade

_LIST_PARTS = 20
"""Steps in which clients take a list of nodes over that is not deployed at once."""

_ROUNDING = 1e-9
"""By how much a share of reads may exceed that of the mix."""


def run_cluster(scenario: ClusterScenario, seed: int, progress: Progress) -> Run:
    """Simulate one scenario of `kind: cluster`."""
    return run_to_the_end(Cluster(scenario, seed=seed, progress=progress))


def run_to_the_end(cluster: Cluster) -> Run:
    """Simulate a cluster, and return what was recorded."""
    env, clients = cluster.env, cluster.scenario.clients
    cluster.load.begin()
    if any(isinstance(event, ReplicaReads) for event in cluster.scenario.events):
        _have_replicas_follow(cluster)
    for index, event in enumerate(cluster.scenario.events):
        env.process(_at_its_time(cluster, index, event))
    if clients.autoscaler is not None:
        env.process(autoscale(env, cluster.clients, cluster.nodes, clients.autoscaler))
    env.run(until=env.process(cluster.load.process()))
    for function in cluster.at_the_end:
        function()
    if cluster.cache is not None:
        cluster.cache.finish()
    if cluster.bill is not None:
        cluster.bill.finish()
    for kind in cluster.nodes.kinds:
        cluster.record.fact(
            "a node can do",
            round(kind.surrogate.capacity_rps),
            "1/s",
            f"{kind.name}; its p50 and p99 are interpolated within {kind.surrogate.error:.0%}",
        )
        cluster.record.warnings += kind.warnings
    return cluster.record.cluster_run()


def _at_its_time(cluster: Cluster, index: int, event: Event) -> Process:
    yield cluster.env.timeout(event.at_s)
    try:
        yield from ACTIONS[type(event)](event, cluster)
    except FieldError as error:
        raise InputError(
            f"field 'events[{index}].{error.field}': found {error.found}; valid is {error.valid}."
        ) from None


# --- nodes that are busy or down for a while ------------------------------------------------------


def background(event: Background, cluster: Cluster) -> Process:
    """Take the time of main threads, and give it back."""
    numbers = range(cluster.nodes.count) if event.nodes is None else event.nodes
    cluster.record.mark(event.what)
    claims = []
    for node in [cluster.nodes.check(node, field="nodes") for node in numbers]:
        if event.stall_s > 0:
            cluster.nodes.stall(node, event.stall_s)
        if event.share > 0:
            claims.append(cluster.nodes.occupy(node, event.share))
    yield cluster.env.timeout(event.lasts_s)
    for claim in claims:
        claim.release()


def restart(cluster: Cluster, node: int, down_s: float, *, silent: bool) -> Process:
    """A node is down for a time, and is back with nothing that it had."""
    cluster.nodes.set_down(node, silent=silent)
    yield cluster.env.timeout(down_s)
    cluster.nodes.set_up(node)


def maintain(event: Maintenance, cluster: Cluster) -> Process:
    """Restart one node, wait, restart the next."""
    nodes = list(range(cluster.nodes.count)) if event.nodes is None else event.nodes
    rest_s = (event.window_s - event.down_s * len(nodes)) / max(1, len(nodes) - 1)
    for turn, node in enumerate(nodes):
        yield cluster.env.timeout(max(0.0, rest_s) if turn else 0.0)
        cluster.record.mark(f"node {cluster.nodes.check(node, field='nodes')} restarts")
        yield from restart(cluster, node, event.down_s, silent=event.silent)
    cluster.record.mark("maintenance is over")


def die(event: NodeDies, cluster: Cluster) -> Process:
    """A node goes down, and perhaps comes back."""
    cluster.record.mark(f"node {cluster.nodes.check(event.node)} dies")
    if event.back_after_s is None:
        cluster.nodes.set_down(event.node, silent=event.silent)
        yield cluster.env.timeout(0.0)
        return
    yield from restart(cluster, event.node, event.back_after_s, silent=event.silent)
    cluster.record.mark(f"node {event.node} is back")


def move_node(event: NodeMoves, cluster: Cluster) -> Process:
    """A node leaves its connections behind, down for a time or not."""
    cluster.record.mark(f"node {cluster.nodes.check(event.node)} moves")
    if event.down_s > 0:
        yield from restart(cluster, event.node, event.down_s, silent=event.silent)
        cluster.record.mark(f"node {event.node} is back")
    else:
        yield cluster.env.timeout(0.0)
        cluster.nodes.set_up(event.node)


# --- what clients do ------------------------------------------------------------------------------


def deploy(event: Deploy, cluster: Cluster) -> Process:
    """Add the surge, close connections as pods go, take the surge away."""
    clients = cluster.clients
    cluster.record.mark("a deploy begins")
    more = math.ceil(event.surge * clients.pods)
    # As many old pods go last as there are new ones first.
    gone = (clients.pods - more) / (clients.pods + more)
    clients.pods += more
    pause_s = min(1.0, event.lasts_s)
    for _ in range(max(1, round(event.lasts_s / pause_s))):
        cluster.nodes.close_connections(gone * pause_s / event.lasts_s)
        yield cluster.env.timeout(pause_s)
    # Whatever an autoscaler has done meanwhile, at least one pod has to be left.
    kept = max(1, clients.pods - more)
    cluster.nodes.close_connections(1.0 - kept / clients.pods)
    clients.pods = kept
    cluster.record.mark("the deploy is through")


def heat_key(event: HotKey, cluster: Cluster) -> Process:
    """Heat one slot up, and let it cool."""
    slots = cluster.slots
    slot = slots.add_hot_key(event.share)
    slots.spread()
    shard = int(slots.owners[slot])
    cluster.record.mark(f"a key of shard {shard} gets {event.share:.0%} of the commands")
    cluster.record.fact("shard of the hot key", shard)
    if event.lasts_s is not None:
        yield cluster.env.timeout(event.lasts_s)
        slots.cool(slot, event.share)
        slots.spread()
        cluster.record.mark("the hot key is one of many again")


def read_from_replicas(event: ReplicaReads, cluster: Cluster) -> Process:
    """Spread reads over replicas from now on, which execute their primaries' writes besides."""
    reads = 1.0 - writing(cluster.scenario.demand.mix.commands)
    if event.share > reads + _ROUNDING:
        valid = f"0 to {reads:.4g}, the share of reads in the mix"
        raise FieldError("share", found=event.share, valid=valid)
    cluster.slots.replica_share = event.share
    cluster.slots.spread()
    cluster.record.mark(f"replicas get {event.share:.0%} of the commands")
    yield cluster.env.timeout(0)


def _have_replicas_follow(cluster: Cluster) -> None:
    """After each step, take as much of replicas' main threads as what their primaries wrote takes.

    For a whole run, however often clients turn to replicas and back. Replicas that nobody reads
    from execute the writes as well, and nobody waits for them.
    """
    slots, nodes = cluster.slots, cluster.nodes
    writes = writing(cluster.scenario.demand.mix.commands)
    zones = cluster.scenario.cluster.zones
    far = (zones if isinstance(zones, int) else len(zones)) > 1
    claims: dict[int, Claim] = {}
    told: list[tuple[float, Estimate]] = []

    def inside_ms(node: int | None, load: np.ndarray) -> Estimate:
        assert node is not None  # of a shard that has a primary
        kind = nodes.kind_of(node)
        found = max(0.0, kind.surrogate.latency(float(load[node]), 0.5) - 2.0 * kind.one_way_ms)
        return Estimate(found, found, found)

    def follow(done: LoadStep) -> None:
        busy: dict[int, float] = {}
        # The primary gets all writes, and what reads the replicas don't get.
        share = min(1.0, writes / max(1.0 - slots.replica_share, 1e-9))
        for shard in slots.shards if slots.replica_share else ():
            rate = share * float(done.commands_answered[slots.primary[shard]]) / done.length_s
            for node in slots.replicas(shard):
                busy[node] = min(1.0, rate * nodes.kind_of(node).replicated_write_s)
        for node in busy.keys() - claims.keys():
            claims[node] = nodes.occupy(node, 0.0)
        for node, claim in claims.items():
            claim.change(busy.get(node, 0.0))
        if busy and writes:
            node = max(busy, key=lambda each: float(done.utilisation[each]))
            sent = inside_ms(slots.primary[int(nodes.shard[node])], done.utilisation)
            near = None if far else nodes.kind_of(node).one_way_ms
            old = seen_after_ms(sent, inside_ms(node, done.utilisation), one_way_ms=near)
            told.append((max(busy.values()), old))

    def tell() -> None:
        if not told:
            return
        note = "of the busiest replica’s main thread, while replicas are read from"
        cluster.record.fact("writes of primaries take", fmean(n for n, _ in told), "share", note)
        ends = (fmean(getattr(old, end) for _, old in told) for end in ("value", "low", "high"))
        note = "median of the busiest replica, while it keeps up"
        cluster.record.fact("reads of replicas are old by", Estimate(*ends), "ms", note)

    cluster.after_step(follow)
    cluster.at_the_end.append(tell)


def change_list(event: NodeList, cluster: Cluster) -> Process:
    """Have clients of a cache use another list of nodes."""
    cache = cluster.cache
    assert cache is not None  # by the scenario's schema
    while cluster.nodes.count <= max(event.numbers):
        cluster.nodes.add(shard=cluster.nodes.count)
    change = cache.begin_list(event)
    parts = _LIST_PARTS if event.over_s > 0 else 1
    for part in range(1, parts + 1):
        yield cluster.env.timeout(event.over_s / parts)
        cache.use_list(change, share=part / parts)


ACTIONS: dict[type[Event], Callable[[Any, Cluster], Process]] = {
    Background: background,
    Deploy: deploy,
    Maintenance: maintain,
    NodeDies: die,
    NodeList: change_list,
    NodeMoves: move_node,
    Resize: resize,
    Migrate: migrate_slots,
    Fail: fail,
    HotKey: heat_key,
    ReplicaReads: read_from_replicas,
    Upgrade: upgrade,
}
"""What each event does: a process that is started at its time."""
