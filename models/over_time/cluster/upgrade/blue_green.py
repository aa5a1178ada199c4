"""Blue-green: a second fleet is filled from the first, and clients change over at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import simpy

from ..events.base import EventProcess
from ..intervals import certain
from ..slots.slot_map import SlotMap

if TYPE_CHECKING:
    from .steps import UpgradeSteps


def blue_green(steps: UpgradeSteps) -> EventProcess:
    """Add nodes, fill them, switch, take the old ones away."""
    cluster, asked, slots = steps.cluster, steps.asked, steps.slots
    assert slots is not None
    yield cluster.env.timeout(asked.provision_s)
    blue = [node for node in range(cluster.nodes.count) if cluster.nodes.paid[node]]
    shards = steps.shards
    green = {shard: _add(steps, shard) for shard in shards}
    steps.watch.extra_nodes = sum(map(len, green.values()))
    cluster.record.mark(f"{steps.watch.extra_nodes} new nodes are there, without data")
    turn = simpy.Resource(cluster.env, capacity=asked.shards_at_once)
    yield cluster.env.all_of(
        [cluster.env.process(_fill(steps, shard, green[shard], turn)) for shard in shards]
    )
    if steps.given_up:
        _remove(steps, [node for nodes in green.values() for node in nodes])
        return
    yield from _switch(steps, slots, shards, blue, green)
    yield cluster.env.timeout(asked.keep_s)
    _remove(steps, blue)


def _add(steps: UpgradeSteps, shard: int) -> list[int]:
    """A shard's new nodes, its primary first; they belong to no shard that serves."""
    nodes = steps.cluster.nodes
    count = 1 + steps.cluster.scenario.cluster.replicas
    return [nodes.add(steps.target.kind, shard=-1 - shard) for _ in range(count)]


def _fill(steps: UpgradeSteps, shard: int, green: list[int], turn: simpy.Resource) -> EventProcess:
    """The new primary follows a replica, where there is one, and the new replicas follow it."""
    with turn.request() as mine:
        yield mine

        def source() -> int:
            return next(iter(steps.replicas(shard)), steps.primary(shard))

        def primary() -> int:
            return steps.primary(shard)

        factor = steps.target.kind.data_factor
        for number, node in enumerate(green):
            if steps.given_up:
                return
            giver = source if number == 0 else lambda: green[0]
            yield from steps.synchronise(shard, node, source=giver, writes_of=primary)
            data = steps.cluster.nodes.data_bytes
            data[node] = data[primary()] * factor


def _switch(
    steps: UpgradeSteps,
    slots: SlotMap,
    shards: list[int],
    blue: list[int],
    green: dict[int, list[int]],
) -> EventProcess:
    """No node takes commands; then the new ones do. Clients open connections as they need them."""
    cluster, nodes = steps.cluster, steps.cluster.nodes
    pause_s = steps.asked.switch_s
    gaps = [steps.watch.without_primary(shard) for shard in shards]
    for node in blue:
        nodes.stall(node, pause_s)
    cluster.record.mark("all clients change over to the new nodes")
    yield from steps.lasts(-1, -1, "switch", certain(pause_s), "no node takes commands")
    for node in blue:
        nodes.traffic[node] = 0.0
        nodes.shard[node] = -1 - nodes.shard[node]
    for shard in shards:
        slots.primary[shard] = green[shard][0]
        for node in green[shard]:
            nodes.shard[node] = shard
    slots.spread()
    for gap in gaps:
        gap.ends_s = float(cluster.env.now)
    yield cluster.env.all_of([cluster.env.process(steps.drain(node)) for node in blue])


def _remove(steps: UpgradeSteps, gone: list[int]) -> None:
    nodes = steps.cluster.nodes
    for node in gone:
        nodes.traffic[node] = 0.0
        nodes.set_down(node, silent=False)
        nodes.paid[node] = False
