"""The nodes of a cluster: what each kind of them can do, and one row for each.

New connections: the kernel completes TCP's handshake by itself and keeps the connection in the
listen backlog; the event loop accepts a few per turn. With TLS the server's signature follows at
once, on the main thread or, from Valkey 8.1 on, on an I/O thread. Then the client's first command
can be read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.errors import InputError

from ...engines.profile import EngineProfile
from ...footprint.limits import MemoryLimit, Room, host_limit, managed_limit, room
from ...footprint.node import node_memory
from ...footprint.weigh import PROCESS_BYTES
from ...prediction.caveats import not_covered
from ...prediction.predict import Progress
from ...prediction.system import System
from ...prices.table import load_prices
from ...scenario.command_table import COMMANDS
from ...scenario.schema import Followed, Scenario
from ...scenario.versions import version_numbers
from ...scenario.workload import Asked, Mix
from ...step_times.stages import stream_times
from ...step_times.wire import ACCEPT_INSTRUCTIONS, tls_times
from .load.cohorts import CONSTANTS, RECORDS, Queues
from .schema import ClusterNodes, ClusterScenario
from .surrogate import CapacityError, Surrogate, capacity_error, surrogate_of

_PS_PER_S = 10**12

UP, REFUSES, SILENT = (CONSTANTS[name] for name in ("UP", "REFUSES", "SILENT"))
"""Values of a node's `down`."""


CONNECTION_SENDS = 9.0
"""Time of the kernel for a connection's beginning and end on the server's thread, in sends of a
small message: accept4, options, the poll's interest, close, and both handshakes' packets (assumed,
6 to 12). On the machine of the shipped bundles, whose sends take 3.7 us, a new connection took
Valkey 8.0.1 and Redis 7.0.15 35 to 38 us of CPU time while it was busy and a SET took 10, and 24 to
26 us while a SET took 6.4; Valkey 9.1.2 then 23 to 24."""

REJECTED = 0.5
"""Share of that for a connection that is accepted, told that there are too many, and closed
(assumed, 0.3 to 0.8)."""

ACCEPTS = {"tcp": 10, "tls": 1}
"""max-new-connections-per-cycle and max-new-tls-connections-per-cycle, from Redis 7.4 and Valkey
8.0 on (redis PR 12178)."""

ACCEPTS_BEFORE = 1000
"""MAX_ACCEPTS_PER_CALL of earlier ones."""

_LIMITED_FROM = {"redis": (7, 4), "valkey": (8, 0)}
_PS_PER_NS = 1000


@dataclass(frozen=True)
class ConnectionWork:
    """What a new connection takes.

    Attributes
    ----------
    main_ps
        Time of the main thread, from accepting to closing.
    helpers_ps
        Time of an I/O thread, if it does the handshake; otherwise 0.
    reject_ps
        Time of the main thread for one that is turned away because of maxclients.
    helpers
        I/O threads that do handshakes.
    per_cycle
        New connections that one turn of the event loop accepts.
    """

    main_ps: int
    helpers_ps: int
    reject_ps: int
    helpers: int
    per_cycle: int


@dataclass(frozen=True)
class NodeKind:
    """What nodes that are alike have in common.

    Attributes
    ----------
    name
        For people.
    surrogate
        Capacity and latency, from the node model.
    connection
        What new connections take.
    maxclients, tcp_backlog
        As the engine's settings.
    server_bytes
        Memory of a node without data and clients.
    data_factor
        Memory of the same data against that on the scenario's nodes: versions differ.
    limit
        What its host leaves to it.
    warnings
        Why its surrogate may be off.
    replicated_write_s
        Time of a replica's main thread for a write of its primary.
    one_way_ms
        Between it and its clients.
    """

    name: str
    surrogate: Surrogate
    connection: ConnectionWork
    maxclients: int
    tcp_backlog: int
    server_bytes: float = 0.0
    data_factor: float = 1.0
    limit: MemoryLimit | None = None
    warnings: tuple[str, ...] = ()
    replicated_write_s: float = 0.0
    one_way_ms: float = 0.0

    @property
    def numbers(self) -> tuple[float, ...]:
        """What the load reads of it, as `KIND_NUMBERS` has it."""
        work, surrogate = self.connection, self.surrogate
        return (
            *(surrogate.main_ps, surrogate.capacity_rps, work.main_ps, work.reject_ps),
            work.per_cycle,
            work.helpers * 1e12 / work.helpers_ps if work.helpers_ps else float("inf"),
            *(self.maxclients, self.tcp_backlog),
            surrogate.main_ps * 1e-12 * surrogate.capacity_rps,
        )


KIND_NUMBERS = np.dtype([
    (name, np.float64)
    for name in (
        *("main_ps", "capacity_rps", "connection_ps", "rejection_ps", "accepts_per_turn"),
        *("handshakes_per_s", "maxclients", "backlog", "main_thread_at_capacity"),
    )
])  # fmt: skip
"""Of a kind of node: main-thread time of a command, of a new connection and of a rejected one;
capacity; new connections that a turn accepts and that I/O threads do in a second; limits; share of
the main thread's time that commands take at the capacity."""


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
    try:
        surrogate, case, system = surrogate_of(
            _one_node(scenario, nodes, count), seed=seed, progress=progress
        )
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
    cost, limit = scenario.cost, None
    if cost is not None and cost.node_type in (prices := load_prices(cost.prices)).nodes.types:
        # As what it is paid for, where that is a managed node.
        limit = managed_limit(prices, cost.node_type, field="cost.node_type")
    kind = NodeKind(
        name=f"{system.engine.id} on {nodes.host}",
        surrogate=surrogate,
        connection=work,
        maxclients=nodes.maxclients,
        tcp_backlog=nodes.tcp_backlog,
        server_bytes=memory.server,
        limit=limit or host_limit(system.host, system.engine.engine, field="cluster.host"),
        warnings=tuple(not_covered(case.scenario, system)),
        replicated_write_s=_replicated_write_s(case.scenario, system),
        one_way_ms=inputs.speed.network_one_way_us / 1e3,
    )
    return kind, memory.data, memory.idle_connection


def _replicated_write_s(node: Scenario, system: System) -> float:
    """Time of a replica's main thread for a write of its primary; 0 without writes."""
    asked = node.workload.commands
    writes = {name: each for name, each in asked.items() if writing({name: each})}
    total = writing(writes)
    if not node.replicas or not total:
        return 0.0
    shares: dict[str, Any] = {}
    for name, each in writes.items():
        given = {**each.model_dump(), "share": each.share / total}
        shares[name] = given if len(given) > 1 else given["share"]
    follows = Followed(per_request=1.0, mix=Mix(**shares))
    inputs = system.inputs(node.model_copy(update={"follows": follows}))
    return stream_times(inputs).write_ns / 1e9


def writing(commands: Mapping[str, Asked]) -> float:
    """Share of the commands that are writes which replicas execute as they came."""
    return sum(
        each.share for name, each in commands.items() if name in COMMANDS and COMMANDS[name].writes
    )


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


def connection_work(
    scenario: Scenario,
    engine: EngineProfile,
    speed: HostSpeed,
    *,
    kernel_scale: float,
    per_cycle: int | None = None,
    measured_us: float | None = None,
) -> ConnectionWork:
    """What a new connection takes on a host with an engine.

    Parameters
    ----------
    kernel_scale
        Cost of the engine's socket calls against the host's micro-benchmark.
    per_cycle
        Accepts per turn, if not the engine's default.
    measured_us
        Time of the main thread per connection, handshake included, in place of what the profiles
        say.
    """
    accept_ns = kernel_scale * CONNECTION_SENDS * speed.tcp_send_ns
    accept_ns += ACCEPT_INSTRUCTIONS / (speed.user_ipc * speed.clock_ghz)
    handshake_ns = tls_times(
        scenario, engine, speed, kernel_scale=kernel_scale, line_wait_ns=0.0
    ).handshake_ns
    offloaded = engine.tls == "io_threads_and_handshakes" and scenario.io_threads > 1
    helpers_ns = handshake_ns if offloaded else 0.0
    main_ns = accept_ns + handshake_ns - helpers_ns
    accepts, version = ACCEPTS_BEFORE, tuple(version_numbers(engine.version or "0")[:2])
    if version >= _LIMITED_FROM.get(engine.engine, (math.inf,)):
        accepts = ACCEPTS["tcp" if scenario.tls is None else "tls"]
    if measured_us is not None:
        main_ns, helpers_ns = 1000.0 * measured_us, 0.0
    return ConnectionWork(
        main_ps=round(main_ns * _PS_PER_NS),
        helpers_ps=round(helpers_ns * _PS_PER_NS),
        reject_ps=round(min(main_ns, REJECTED * accept_ns) * _PS_PER_NS),
        helpers=scenario.io_threads - 1,
        per_cycle=per_cycle or accepts,
    )


class Claim:
    """Background work that takes a share of a main thread until it is released."""

    def __init__(self, nodes: Nodes, node: int, share: float) -> None:
        self._nodes, self.node, self.share = nodes, node, share
        nodes.occupied[node] += share

    def change(self, share: float) -> None:
        """Take another share from now on."""
        self._nodes.occupied[self.node] += share - self.share
        self.share = share

    def release(self) -> None:
        """Take nothing from now on."""
        self.change(0.0)


class Nodes:
    """All nodes that there are or were; a node keeps its number.

    Attributes
    ----------
    new_kind
        What nodes are that a run adds.
    kinds
        What nodes there are; `kind[node]` is an index into it.
    shard
        (nodes,) which shard each belongs to.
    traffic
        (nodes,) share of the commands that clients send to each.
    work_factor
        (nodes,) how much longer than its surrogate says a command takes.
    occupied
        (nodes,) share of the main thread that background work takes; more than 1 counts as 1.
    limit_rps
        (nodes,) commands a second that are let through to each; infinite without a limit.
    data_bytes
        (nodes,) memory of the data.
    paid
        (nodes,) whether it is paid for; nodes that are down are.
    connect_queue, request_queue
        Connections that wait to be accepted, and requests that wait for an answer.
    state
        (nodes,) records `node`: what each is at and has done, see `native/cluster.h`.
    main_busy_s, io_busy_s
        (nodes,) how long the main thread was busy from the start, with whatever it was, and the
        busiest I/O thread.
    """

    def __init__(
        self, new_kind: NodeKind, *, timeout_steps: int, connect_timeout_steps: int
    ) -> None:
        self.new_kind = new_kind
        self.kinds: list[NodeKind] = []
        self.kind = np.zeros(0, np.int64)
        self.shard = np.zeros(0, np.int64)
        self.traffic = np.zeros(0)
        self.work_factor = np.zeros(0)
        self.occupied = np.zeros(0)
        self.limit_rps = np.zeros(0)
        self.data_bytes = np.zeros(0)
        self.paid = np.zeros(0, np.bool_)
        self.state = np.zeros(0, RECORDS["node"])
        self.connect_queue = Queues(0, timeout_steps=connect_timeout_steps)
        self.request_queue = Queues(0, timeout_steps=timeout_steps)
        self.main_busy_s = np.zeros(0)
        self.io_busy_s = np.zeros(0)
        self.forgets = np.zeros(0, np.int64)
        """(nodes,) 1 where the next step refuses all waiting requests."""
        self.came_back: list[int] = []
        """Nodes that were down and serve again, empty; the reader takes them out."""
        self._dead = np.zeros(0, np.bool_)
        self._all_refuse = False
        self._numbers = np.zeros(0, KIND_NUMBERS)

    @property
    def count(self) -> int:
        """How many."""
        return len(self.kind)

    @property
    def paid_count(self) -> int:
        """Number of nodes that are paid for."""
        return int(np.count_nonzero(self.paid))

    def add(self, kind: NodeKind | None = None, *, shard: int) -> int:
        """One more node, without traffic, data or connections; returns its number."""
        kind = kind or self.new_kind
        self.kind = np.append(self.kind, self._number_of(kind))
        self.shard = np.append(self.shard, shard)
        self.traffic = np.append(self.traffic, 0.0)
        self.work_factor = np.append(self.work_factor, 1.0)
        self.occupied = np.append(self.occupied, 0.0)
        self.limit_rps = np.append(self.limit_rps, np.inf)
        self.data_bytes = np.append(self.data_bytes, 0.0)
        self.paid = np.append(self.paid, True)
        self.state = np.concatenate([self.state, np.zeros(1, RECORDS["node"])])
        self.main_busy_s = np.append(self.main_busy_s, 0.0)
        self.io_busy_s = np.append(self.io_busy_s, 0.0)
        self.forgets = np.append(self.forgets, 0)
        self._dead = np.append(self._dead, False)
        self.state["down"][-1] = REFUSES if self._all_refuse else UP
        self.connect_queue.add()
        self.request_queue.add()
        return self.count - 1

    def retire(self, node: int) -> None:
        """Take a node away: it gets no traffic, refuses connections, and is no longer paid for."""
        self.traffic[node] = 0.0
        self.set_down(node, silent=False)
        self.paid[node] = False

    def become(self, node: int, kind: NodeKind) -> None:
        """From now on a node is of another kind: it has more cores, say."""
        self.kind[node] = self._number_of(kind)

    def kind_of(self, node: int) -> NodeKind:
        """What kind a node is of now."""
        return self.kinds[self.kind[node]]

    def numbers(self) -> np.ndarray:
        """(nodes,) of type `KIND_NUMBERS`: what each can do."""
        if len(self._numbers) < len(self.kinds):
            self._numbers = np.array([kind.numbers for kind in self.kinds], KIND_NUMBERS)
        return np.asarray(self._numbers[self.kind])

    @property
    def quickest_s(self) -> float:
        """Latency of a command when there is little to do."""
        return self.new_kind.surrogate.mean_ms[0] / 1000.0

    def _number_of(self, kind: NodeKind) -> int:
        if kind not in self.kinds:
            self.kinds.append(kind)
        return self.kinds.index(kind)

    def check(self, node: int, *, field: str = "node") -> int:
        """The number of a node that there is.

        Parameters
        ----------
        field
            Which of an event's fields says it.

        Raises
        ------
        FieldError
            There is no such node.
        """
        if not 0 <= node < self.count:
            raise FieldError(field, found=node, valid=f"a node from 0 to {self.count - 1}")
        return node

    def occupy(self, node: int, share: float) -> Claim:
        """Background work takes a share of a node's main thread until the claim is released."""
        return Claim(self, node, share)

    def stall(self, node: int, seconds: float) -> None:
        """Block a node's main thread for a time, from the next step on."""
        self.state["stall_ps"][node] += round(seconds * _PS_PER_S)

    def set_down(self, node: int, *, silent: bool) -> None:
        """A node serves nothing from now on; its connections are broken when it is back.

        Parameters
        ----------
        silent
            Clients get no answer at all and wait until they time out; otherwise they are refused,
            and those that wait at once.
        """
        if not silent:
            self.break_connections(node)
        self._dead[node] = True
        self.state["down"][node] = SILENT if silent else REFUSES

    def set_up(self, node: int, *, with_data: bool = False) -> None:
        """A node serves again; clients that still wait are refused: it lost its connections.

        Parameters
        ----------
        with_data
            Whether it has again what it had.
        """
        self.break_connections(node)
        self._dead[node] = False
        self.state["down"][node] = REFUSES if self._all_refuse else UP
        self.state["stall_ps"][node] = 0
        self.forgets[node] = 1
        if not with_data:
            self.came_back.append(node)

    def refuse_all(self, refuse: bool) -> None:
        """Have all nodes that run answer every command with an error, or no longer.

        Unlike one that is down they keep their connections (CLUSTERDOWN).
        """
        self._all_refuse = refuse
        self.state["down"][~self._dead] = REFUSES if refuse else UP

    def is_up(self, node: int) -> bool:
        """Whether it runs."""
        return not self._dead[node]

    def break_connections(self, node: int) -> None:
        """Break all connections of a node; clients find out when they use them."""
        broken = int(self.state["open"][node])
        self.state["open"][node] = 0
        self.state["stale"][node] += broken
        self.state["closed"][node] += broken

    def close_connections(self, share: float) -> None:
        """Close so large a share of the connections to each node, with the pods that had it."""
        closed = np.rint(share * self.state["open"]).astype(np.int64)
        self.state["open"] -= closed
        self.state["closed"] += closed

    def connect(self, node: int, count: int) -> None:
        """Note how many connections to a node were opened before a request needed them."""
        self.state["open"][node] += count
        self.state["connected"][node] += count

    @property
    def connections(self) -> np.ndarray:
        """(nodes,) open connections."""
        return np.asarray(self.state["open"])


class MemoryWatch:
    """Notes the node of each kind that needs most, and since when one needs more than it has."""

    def __init__(self, nodes: Nodes, *, connection_bytes: float) -> None:
        self._nodes, self._connection_bytes = nodes, connection_bytes
        self._most: dict[int, Room] = {}
        self.short_since_s: float | None = None
        """When the data of a node first did not fit."""

    def used_bytes(self) -> np.ndarray:
        """(nodes,) used memory now."""
        nodes = self._nodes
        server = np.array([kind.server_bytes for kind in nodes.kinds])[nodes.kind]
        return np.asarray(server + nodes.data_bytes + self._connection_bytes * nodes.connections)

    def look(self, now_s: float) -> float:
        """Note what nodes need now; returns the most used memory of one."""
        used = self.used_bytes()
        for number, kind in enumerate(self._nodes.kinds):
            mine = used[self._nodes.kind == number]
            if kind.limit is None or not len(mine):
                continue
            found = room(kind.limit, float(mine.max()), process_bytes=PROCESS_BYTES)
            if number not in self._most or found.needed_bytes > self._most[number].needed_bytes:
                self._most[number] = found
            if not found.fits and self.short_since_s is None:
                self.short_since_s = now_s
        return float(used.max())

    @property
    def shortfalls(self) -> list[str]:
        """A sentence for each kind of node on which data did not fit."""
        return [each.shortfall for each in self._most.values() if each.shortfall is not None]
