"""A cluster and its run: nodes, clients, load, record, and one SimPy environment for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import simpy

from forecache.hwprofiles.files import FieldError
from forecache.sim.errors import InputError

from ...footprint.node import node_memory
from ...prediction.caveats import not_covered
from ...prediction.predict import Progress
from ...prices.table import load_prices
from ...results.series import Run
from .cache import LookasideCache
from .cost import NodeBill
from .events.base import Event, EventProcess
from .load.clients import ClientFleet, autoscale, connection_work
from .load.load import Load, LoadStep
from .memory import node_limit
from .nodes import NodeKind, Nodes
from .record import RunRecord
from .schema import ClusterNodes, ClusterScenario
from .slots.slot_map import SlotMap
from .surrogate import CapacityError, capacity_error, surrogate_of

REPORTS = 300
"""Reports of a run that doesn't say how often it wants one."""


class Cluster:
    """Everything a process of the control plane may look at or change.

    Attributes
    ----------
    env
        SimPy's clock, in seconds.
    nodes, clients, load, record, cache
        See their modules; `cache` is None unless the nodes are one.
    scenario
        What was asked for.
    slot_map
        Who has which slot, once an event has asked for it (`SlotMap.of`).
    """

    def __init__(
        self, scenario: ClusterScenario, *, seed: int, progress: Progress | None = None
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.env = simpy.Environment()
        self.clients = ClientFleet(scenario.clients, step_s=scenario.step)
        self.nodes = Nodes(
            timeout_steps=self.clients.timeout_steps,
            connect_timeout_steps=self.clients.connect_timeout_steps,
        )
        self.kind, self.shard_bytes, self.connection_bytes = node_kind(
            scenario, seed=seed, progress=progress
        )
        shards, replicas = scenario.cluster.shards, scenario.cluster.replicas
        for shard in range(shards):
            node = self.nodes.add(self.kind, shard=shard)
            self.nodes.traffic[node] = 1.0 / shards
            self.nodes.data_bytes[node] = self.shard_bytes
        for shard in range(shards):
            for _ in range(replicas):
                node = self.nodes.add(self.kind, shard=shard)
                self.nodes.data_bytes[node] = self.shard_bytes
        self.record = RunRecord(self, report_s=report_s(scenario))
        if scenario.backoff_rounded is not None:
            self.record.warnings.append(scenario.backoff_rounded)
        self.load = Load(self, seed=seed)
        self.cache = None if scenario.cache is None else LookasideCache(self, scenario.cache)
        self.bill = None if scenario.cost is None else NodeBill(self, scenario.cost)
        self.slot_map: SlotMap | None = None
        self._table = np.zeros((0, 9))
        self._last: list[Callable[[], None]] = []

    @property
    def quickest_s(self) -> float:
        """Latency of a command when there is little to do."""
        return self.kind.surrogate.mean_ms[0] / 1000.0

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

    def at_the_end(self, function: Callable[[], None]) -> None:
        """Have a function called after the last step of the run."""
        self._last.append(function)

    def kind_table(self) -> np.ndarray:
        """(kinds, 9) numbers of each kind of node, in the order that `Load` reads them."""
        if len(self._table) < len(self.nodes.kinds):
            self._table = np.array([_numbers(kind) for kind in self.nodes.kinds])
        return self._table

    def run(self) -> Run:
        """Simulate, and return what was recorded."""
        self.load.begin()
        for index, event in enumerate(self.scenario.events):
            self.env.process(_at(self, index, event))
        if self.scenario.clients.autoscaler is not None:
            self.env.process(autoscale(self, self.scenario.clients.autoscaler))
        finished = self.env.process(self.load.process())
        self.env.run(until=finished)
        for function in self._last:
            function()
        if self.cache is not None:
            self.cache.finish()
        if self.bill is not None:
            self.bill.finish()
        for kind in self.nodes.kinds:
            self.record.fact(
                "a node can do",
                round(kind.surrogate.capacity_rps),
                "1/s",
                f"{kind.name}; its p50 and p99 are interpolated within {kind.surrogate.error:.0%}",
            )
            self.record.warnings += kind.warnings
        return self.record.run()


def _at(cluster: Cluster, index: int, event: Event) -> EventProcess:
    yield cluster.env.timeout(event.at_s)
    try:
        yield from event.happen(cluster)
    except FieldError as error:
        raise InputError(
            f"field 'events[{index}].{error.field}': found {error.found}; valid is {error.valid}."
        ) from None


def _numbers(kind: NodeKind) -> list[float]:
    work = kind.connection
    helped = work.helpers * 1e12 / work.helpers_ps if work.helpers_ps else float("inf")
    surrogate = kind.surrogate
    return [
        *(surrogate.main_ps, surrogate.capacity_rps, work.main_ps, work.reject_ps),
        *(work.per_cycle, helped, kind.maxclients, kind.tcp_backlog),
        surrogate.main_ps * 1e-12 * surrogate.capacity_rps,
    ]


def report_s(scenario: ClusterScenario) -> float:
    """How often results are reported."""
    wanted = scenario.report_s or scenario.duration_s / REPORTS
    return max(scenario.step, wanted)


def node_kind(
    scenario: ClusterScenario,
    *,
    described: ClusterNodes | None = None,
    shards: int | None = None,
    seed: int = 1,
    progress: Progress | None = None,
) -> tuple[NodeKind, float, float]:
    """A kind of node, with the bytes of a shard's data and of an idle connection.

    Parameters
    ----------
    described
        Another node than the scenario's.
    shards
        How many share the data; those of the scenario without it.
    """
    nodes = described or scenario.cluster
    count = shards or nodes.shards
    one = _one_node(scenario, nodes, count)
    try:
        surrogate, case, system = surrogate_of(one, seed=seed, progress=progress)
    except InputError as error:
        raise InputError(str(error).removeprefix("scenario: ")) from None
    inputs = system.inputs(case.scenario)
    work = connection_work(
        case.scenario,
        system.engine,
        inputs.speed,
        kernel_scale=inputs.work.kernel_scale,
        per_cycle=nodes.accepts_per_cycle,
        measured_us=nodes.new_connection_us,
    )
    memory = node_memory(case.scenario, system.engine, inputs.work, shards=count)
    cost = scenario.cost
    prices = None if cost is None else load_prices(cost.prices)
    kind = NodeKind(
        name=f"{system.engine.id} on {nodes.host}",
        surrogate=surrogate,
        connection=work,
        maxclients=nodes.maxclients,
        tcp_backlog=nodes.tcp_backlog,
        server_bytes=memory.server,
        limit=node_limit(system, prices, None if cost is None else cost.node_type),
        warnings=tuple(not_covered(case.scenario, system)),
    )
    return kind, memory.data, memory.idle_connection


def _one_node(scenario: ClusterScenario, nodes: ClusterNodes, shards: int) -> dict[str, Any]:
    """One of these nodes as a scenario of a node has it."""
    data = scenario.data.model_dump(exclude_none=True)
    return {
        "host": nodes.host,
        "engine": nodes.engine,
        "engine_version": nodes.engine_version,
        "io_threads": nodes.io_threads,
        "tls": None if nodes.tls is None else nodes.tls.model_dump(),
        "replicas": nodes.replicas if nodes.engine != "memcached" else 0,
        "workload": {
            **data,
            "keys": max(1, round(scenario.data.keys / shards)),
            "mix": scenario.demand.mix.model_dump(exclude_none=True),
        },
    }


def node_capacity_error(
    scenario: ClusterScenario, described: ClusterNodes, *, seed: int = 1
) -> CapacityError:
    """How far off the capacity of such a node may be."""
    return capacity_error(_one_node(scenario, described, described.shards), seed=seed)


def run_cluster(scenario: ClusterScenario, seed: int, progress: Progress) -> Run:
    """Simulate one scenario of `kind: cluster`."""
    return Cluster(scenario, seed=seed, progress=progress).run()
