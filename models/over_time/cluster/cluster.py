"""A cluster: nodes, clients, load and record on one clock, and what whoever acts on it may use."""

from __future__ import annotations

from collections.abc import Callable

import simpy

from forecache.sim.errors import InputError

from ...prediction.predict import Progress
from .cache import LookasideCache
from .cost import NodeBill
from .load.clients import ClientFleet
from .load.load import Load, LoadStep
from .nodes import NodeKind, Nodes, node_capacity_error, node_kind
from .placement import NodePlacement, place
from .record import ClusterRecord
from .schema import ClusterNodes, ClusterScenario
from .slots import SlotMap
from .surrogate import CapacityError


class Cluster:
    """The state of a run, which events and the autoscaler look at and change.

    Attributes
    ----------
    env
        SimPy's clock, in seconds.
    nodes, clients, load, record, cache, bill
        See their modules; `cache` is None unless the nodes are one, `bill` without prices.
    scenario
        What was asked for.
    shard_bytes
        Memory of a shard's data on the scenario's nodes.
    """

    def __init__(
        self, scenario: ClusterScenario, *, seed: int, progress: Progress | None = None
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.env = simpy.Environment()
        self.clients = ClientFleet(scenario.clients, step_s=scenario.step)
        kind, self.shard_bytes, connection_bytes = node_kind(scenario, seed=seed, progress=progress)
        self.nodes = Nodes(
            kind,
            timeout_steps=self.clients.timeout_steps,
            connect_timeout_steps=self.clients.connect_timeout_steps,
        )
        shards, replicas = scenario.cluster.shards, scenario.cluster.replicas
        for shard in range(shards):
            node = self.nodes.add(shard=shard)
            self.nodes.traffic[node] = 1.0 / shards
        for shard in range(shards):
            for _ in range(replicas):
                self.nodes.add(shard=shard)
        self.nodes.data_bytes[:] = self.shard_bytes
        parts = (self.env, self.nodes, self.clients)
        self.record = ClusterRecord(scenario, *parts, connection_bytes=connection_bytes)
        if scenario.backoff_rounded is not None:
            self.record.warnings.append(scenario.backoff_rounded)
        self.load = Load(scenario, *parts, self.record, seed=seed)
        self.cache: LookasideCache | None = None
        if scenario.cache is not None:
            self.cache = LookasideCache(
                *(scenario, scenario.cache, *parts, self.load, self.record),
                shard_bytes=self.shard_bytes,
            )
        self.bill: NodeBill | None = None
        if scenario.cost is not None:
            self.bill = NodeBill(
                scenario.cost, scenario.cluster, self.nodes, self.load, self.record
            )
        self.at_the_end: list[Callable[[], None]] = []
        """Called after the last step of the run."""
        self._slots: SlotMap | None = None

    @property
    def slots(self) -> SlotMap:
        """Who has which slot; made when it is first asked for.

        Raises
        ------
        InputError
            The engine knows no slots.
        """
        engine = self.scenario.cluster.engine
        if engine == "memcached":
            raise InputError(
                f"field cluster.engine: found {engine!r}, which has no slots; valid with this "
                "event is Redis or Valkey."
            )
        if self._slots is None:
            self._slots = SlotMap(
                self.scenario, self.nodes, shard_bytes=self.shard_bytes, seed=self.seed
            )
        return self._slots

    def after_step(self, function: Callable[[LoadStep], None]) -> None:
        """Have a function called after every step of the load."""
        self.load.after_step.append(function)

    def kind_of(self, described: ClusterNodes) -> tuple[NodeKind, float]:
        """Nodes other than the scenario's, with the bytes of a shard's data on them."""
        kind, data_bytes, _ = node_kind(self.scenario, described=described, seed=self.seed)
        return kind, data_bytes

    def capacity_error(self, described: ClusterNodes) -> CapacityError:
        """How far off the capacity of such nodes may be."""
        return node_capacity_error(self.scenario, described, seed=self.seed)

    def placement(self) -> NodePlacement:
        """Machine and zone of all nodes that there are or were."""
        nodes = self.scenario.cluster
        shards = [int(shard) for shard in self.nodes.shard]
        return place(shards, machines=nodes.machines, zones=nodes.zones)
