"""An upgrade from its beginning to its end: three ways to go through the nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import simpy

from forecache.hwprofiles.files import FieldError
from forecache.sim.errors import InputError

from ....engines.profile import EngineProfile, load_engine
from ..events.base import EventProcess
from ..slots.slot_map import SlotMap
from .report import UpgradeTarget, report
from .steps import UpgradeSteps, unreadable

if TYPE_CHECKING:
    from ..cluster import Cluster
    from ..events.upgrade import Upgrade
from typing import TYPE_CHECKING

from ..intervals import certain

if TYPE_CHECKING:
    from .steps import UpgradeSteps


class Upgrader:
    """What one event of an upgrade does.

    Raises
    ------
    FieldError
        The new engine is not known, or can't read what the old one writes.
    """

    def __init__(self, asked: Upgrade, cluster: Cluster) -> None:
        self.asked, self.cluster = asked, cluster
        target = target_of(asked, cluster)
        slots = None if target.old.engine == "memcached" else SlotMap.of(cluster)
        self.steps = UpgradeSteps(asked, cluster, target, slots)
        self.begun_s = float(cluster.env.now)

    def upgrade(self) -> EventProcess:
        """All shards; then what was found is told, also where the run ends before the upgrade."""
        cluster, steps, asked = self.cluster, self.steps, self.asked
        cluster.record.mark(f"an upgrade to {steps.target.name} begins, {_words(asked.method)}")
        cluster.at_the_end(lambda: report(steps, begun_s=self.begun_s))
        steps.begin()
        yield cluster.env.timeout(0.0)
        if asked.method == "blue_green":
            yield from blue_green(steps)
        else:
            turn = simpy.Resource(cluster.env, capacity=asked.shards_at_once)
            yield cluster.env.all_of(
                [cluster.env.process(self._shard(shard, turn)) for shard in steps.shards]
            )
        steps.end()

    def _shard(self, shard: int, turn: simpy.Resource) -> EventProcess:
        with turn.request() as mine:
            yield mine
            if self.steps.given_up or shard not in self.steps.shards:
                return
            if self.asked.method == "rolling":
                yield from self._rolling(shard)
            else:
                yield from self._in_place(shard)

    def _rolling(self, shard: int) -> EventProcess:
        steps = self.steps
        for replica in steps.replicas(shard):
            yield from steps.renew_replica(shard, replica)
            if steps.given_up:
                return
        primary = steps.primary(shard)
        if not steps.replicas(shard):
            yield from steps.renew_alone(shard, primary)
        elif self.asked.failover == "manual":
            yield from steps.hand_over(shard)
            yield from steps.renew_replica(shard, primary)
        else:
            yield from steps.renew_primary(shard, primary, waits_for_failover=True)

    def _in_place(self, shard: int) -> EventProcess:
        steps = self.steps
        for node in [steps.primary(shard), *steps.replicas(shard)]:
            if steps.given_up:
                return
            if node != steps.primary(shard):
                yield from steps.renew_replica(shard, node)
            elif steps.replicas(shard):
                yield from steps.renew_primary(shard, node, waits_for_failover=False)
            else:
                yield from steps.renew_alone(shard, node)


def target_of(asked: Upgrade, cluster: Cluster) -> UpgradeTarget:
    """What nodes run afterwards, checked against what they run now."""
    nodes = cluster.scenario.cluster
    old = load_engine(nodes.engine, nodes.engine_version)
    described = nodes.model_copy(update=_changes(asked))
    try:
        new = load_engine(described.engine, described.engine_version)
        kind, data_bytes = cluster.kind_of(described)
    except InputError as error:
        known = str(error).rstrip(".")
        raise FieldError("to", found=_found(asked), valid=f"what is known ({known})") from None
    _check(asked, old, new)
    factor = data_bytes / max(cluster.shard_bytes, 1.0)
    kind = replace(kind, data_factor=kind.data_factor * factor)
    if cluster.bill is not None:
        cluster.bill.price(kind, described)
    return UpgradeTarget(old=old, new=new, described=described, kind=kind)


def _changes(asked: Upgrade) -> dict[str, object]:
    changes = asked.to.model_dump(exclude_none=True)
    if "engine" in changes or "engine_version" in changes:
        changes.setdefault("engine_version", None)
    return changes


def _found(asked: Upgrade) -> str:
    return ", ".join(f"{name}: {value}" for name, value in asked.to.model_dump().items() if value)


def _check(asked: Upgrade, old: EngineProfile, new: EngineProfile) -> None:
    if (old.engine == "memcached") != (new.engine == "memcached"):
        raise FieldError("to.engine", found=new.engine, valid=f"an engine like {old.engine}")
    if old.engine == "memcached":
        for name, valid in (("method", ("rolling", "in_place")), ("persistence", ("none",))):
            found = getattr(asked, name)
            if found not in valid:
                raise FieldError(name, found=found, valid=f"{' or '.join(valid)} with memcached")
        return
    why_not = unreadable(old, new)
    if why_not is not None:
        raise FieldError(
            "to.engine_version", found=new.version, valid=f"a version that can: {why_not}"
        )


def _words(method: str) -> str:
    return method.replace("_", "-" if method == "blue_green" else " ")


# --- blue-green ----------------------------------------------------------------------------------


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
