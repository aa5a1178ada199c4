"""What a node of a scenario holds, whatever its engine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from forecache.hwprofiles.schema import HostProfile
from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.errors import InputError

from ..engines.profile import EngineProfile, EngineWork
from ..layouts.generations import generation
from ..layouts.slabs import bytes_of_keys, hash_table_bytes
from ..layouts.tables import SLOTS
from ..memory.contents import SLABS, data_bytes
from ..scenario.schema import Persistence, Scenario
from .answers import forking_of, of_node
from .limits import FRAGMENTATION, Child, Room, host_limit, resident, room
from .saving import child_of, writer_of
from .weigh import PROCESS_BYTES, NodeFootprint, baseline, key_weight, node_of, weigh

OTHER_BYTES_PER_S = 100e6
"""Used memory that a child writes a second where the layout isn't known (assumed, 50 to 500 MB)."""

OTHER_CONNECTION_BYTES = 18_000.0
"""Memory of a connection to an engine whose footprint isn't known (assumed, 2,000 to 40,000)."""


@dataclass(frozen=True)
class NodeMemory:
    """Bytes of used memory.

    Attributes
    ----------
    data
        Of the data of one node.
    server
        Of a node without data and clients.
    connection
        Of an active connection.
    idle_connection
        Of one that waits.
    """

    data: float
    server: float
    connection: float
    idle_connection: float

    def used_bytes(self, clients: float) -> float:
        """The same with another number of active connections."""
        return self.data + self.server + clients * self.connection


def node_memory(
    scenario: Scenario, engine: EngineProfile, work: EngineWork, *, shards: int = 1
) -> NodeMemory:
    """What a node of a scenario holds.

    Memcached's is in `slabs.py`. Of other engines without a known footprint the data are what a
    look-up walks through.

    Parameters
    ----------
    shards
        Nodes that share the slots; more than one means cluster mode.
    """
    workload, unknown = scenario.workload, OTHER_CONNECTION_BYTES
    if engine.layout == SLABS:
        items = bytes_of_keys(
            workload.keys, key_bytes=workload.whole_key_bytes, sizes=workload.sizes
        )
        return NodeMemory(items, hash_table_bytes(workload.keys), unknown, unknown)
    try:
        described = of_node(scenario, engine)
        rules = generation(described.engine, described.engine_version)
    except InputError:
        return NodeMemory(data_bytes(scenario, engine, work), 0.0, unknown, unknown)
    slots = math.ceil(SLOTS / shards) if shards > 1 else None
    beside = baseline(
        rules,
        cluster=slots is not None,
        clients=0,
        commands=described.commands,
        replicas=scenario.replicas,
    )
    weight = weigh(NodeFootprint(rules, rules.allocator, slots), described.data, beside=beside)
    one = baseline(rules, clients=1)
    return NodeMemory(
        data=weight.used_bytes - beside.total,
        server=beside.total,
        connection=one.clients,
        idle_connection=one.clients_low,
    )


def resident_bytes(scenario: Scenario, engine: EngineProfile, work: EngineWork) -> float:
    """Resident memory of a node, what a fork copies the page tables of."""
    used = node_memory(scenario, engine, work).used_bytes(scenario.workload.clients)
    return resident(used, fragmentation=FRAGMENTATION, process_bytes=PROCESS_BYTES).resident


def node_child(
    scenario: Scenario, engine: EngineProfile, speed: HostSpeed, *, used_bytes: float
) -> Child | None:
    """The child of a node's snapshots, if it makes any; of an engine whose layout isn't known one
    that gets through `OTHER_BYTES_PER_S`."""
    forking = forking_of(scenario)
    if forking is None:
        return None
    try:
        described = of_node(scenario, engine)
        node = node_of(described)
    except InputError:
        return Child(OTHER_BYTES_PER_S, forking.writes_per_s, forking.child_s)
    return child_of(
        node.generation,
        [(float(each.keys), each) for each in described.data],
        forking,
        used_bytes=used_bytes,
        per_key=[key_weight(node, each) for each in described.data],
        writer=writer_of(speed, used_bytes),
    )


def snapshot_child_s(
    scenario: Scenario, engine: EngineProfile, work: EngineWork, speed: HostSpeed
) -> float:
    """How long the child of a node's snapshots lives, at most until the next one begins."""
    assert isinstance(scenario.persistence, Persistence)
    snapshot = scenario.persistence.snapshot
    assert snapshot is not None
    if snapshot.child_s is not None:
        return snapshot.child_s
    used = node_memory(scenario, engine, work).used_bytes(scenario.workload.clients)
    child = node_child(scenario, engine, speed, used_bytes=used)
    assert child is not None
    return min(snapshot.every_s, used / child.bytes_per_s)


def node_room(scenario: Scenario, engine: EngineProfile, host: HostProfile) -> Room:
    """What a node of a scenario needs, against what its host leaves to it."""
    held = node_memory(scenario, engine, engine.engine_work())
    used = held.used_bytes(scenario.workload.clients)
    return room(
        host_limit(host, engine.engine),
        used,
        process_bytes=PROCESS_BYTES,
        forking=node_child(scenario, engine, host.speed(), used_bytes=used),
    )
