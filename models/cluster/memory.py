"""What a node's data and its connections weigh, from the footprint of its engine's version."""

from __future__ import annotations

import math
from dataclasses import dataclass

from forecache.sim.errors import InputError

from ..contents import data_bytes
from ..engine import EngineProfile, EngineWork
from ..footprint.answers import of_node
from ..footprint.baseline import baseline
from ..footprint.generations import generation
from ..footprint.weigh import Node, weigh
from ..scenario import Scenario
from .slots import SLOTS

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
        Of an idle connection.
    """

    data: float
    server: float
    connection: float


def node_memory(
    scenario: Scenario, engine: EngineProfile, work: EngineWork, *, shards: int
) -> NodeMemory:
    """What a node of a scenario holds.

    Of engines without a known footprint (Memcached) the data are what a look-up walks through.

    Parameters
    ----------
    shards
        Nodes that share the slots; more than one means cluster mode.
    """
    try:
        described = of_node(scenario)
        rules = generation(described.engine, described.engine_version)
    except InputError:
        return NodeMemory(data_bytes(scenario, engine, work), 0.0, OTHER_CONNECTION_BYTES)
    slots = math.ceil(SLOTS / shards) if shards > 1 else None
    beside = baseline(rules, cluster=slots is not None, clients=0, replicas=scenario.replicas)
    weight = weigh(Node(rules, rules.allocator, slots), described.data, beside=beside)
    return NodeMemory(
        data=weight.used_bytes - beside.total,
        server=beside.total,
        connection=baseline(rules, clients=1).clients_low,
    )
