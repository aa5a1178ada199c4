"""The nodes of a cluster, one row each: what they are, who is connected, what their threads do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forecache.hwprofiles.files import FieldError

from ...footprint.limits import MemoryLimit
from .load.clients import ConnectionWork
from .load.cohorts import CONSTANTS, RECORDS, Queues
from .surrogate import Surrogate

_PS_PER_S = 10**12

UP, REFUSES, SILENT = (CONSTANTS[name] for name in ("UP", "REFUSES", "SILENT"))
"""Values of a node's `down`."""


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

    def __init__(self, *, timeout_steps: int, connect_timeout_steps: int) -> None:
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
        self.last_spare = np.zeros(0)
        self.main_busy_s = np.zeros(0)
        self.io_busy_s = np.zeros(0)
        self.forgets = np.zeros(0, np.int64)
        """(nodes,) 1 where the next step refuses all waiting requests."""
        self.came_back: list[int] = []
        """Nodes that were down and serve again, empty; the reader takes them out."""
        self._dead = np.zeros(0, np.bool_)
        self._all_refuse = False

    @property
    def count(self) -> int:
        """How many."""
        return len(self.kind)

    @property
    def paid_count(self) -> int:
        """Number of nodes that are paid for."""
        return int(np.count_nonzero(self.paid))

    def add(self, kind: NodeKind, *, shard: int) -> int:
        """One more node, without traffic, data or connections; returns its number."""
        self.kind = np.append(self.kind, self._number_of(kind))
        self.shard = np.append(self.shard, shard)
        self.traffic = np.append(self.traffic, 0.0)
        self.work_factor = np.append(self.work_factor, 1.0)
        self.occupied = np.append(self.occupied, 0.0)
        self.limit_rps = np.append(self.limit_rps, np.inf)
        self.data_bytes = np.append(self.data_bytes, 0.0)
        self.paid = np.append(self.paid, True)
        self.state = np.concatenate([self.state, np.zeros(1, RECORDS["node"])])
        self.last_spare = np.append(self.last_spare, 1.0)
        self.main_busy_s = np.append(self.main_busy_s, 0.0)
        self.io_busy_s = np.append(self.io_busy_s, 0.0)
        self.forgets = np.append(self.forgets, 0)
        self._dead = np.append(self._dead, False)
        self.state["down"][-1] = REFUSES if self._all_refuse else UP
        self.connect_queue.add()
        self.request_queue.add()
        return self.count - 1

    def become(self, node: int, kind: NodeKind) -> None:
        """From now on a node is of another kind: it has more cores, say."""
        self.kind[node] = self._number_of(kind)

    def kind_of(self, node: int) -> NodeKind:
        """What kind a node is of now."""
        return self.kinds[self.kind[node]]

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

    def spare_share(self, node: int) -> float:
        """Share of its main thread that the last step would have left to a full node.

        Where a command takes less the fuller a node is, the thread was idle for less than that.
        """
        return float(self.last_spare[node])

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

    def break_connections(self, node: int, share: float = 1.0) -> None:
        """Break a number of a node's connections; clients find out when they use them."""
        broken = round(share * int(self.state["open"][node]))
        self.state["open"][node] -= broken
        self.state["stale"][node] += broken
        self.state["closed"][node] += broken

    def connect(self, node: int, count: int) -> None:
        """Note how many connections to a node were opened before a request needed them."""
        self.state["open"][node] += count
        self.state["connected"][node] += count

    @property
    def connections(self) -> np.ndarray:
        """(nodes,) open connections."""
        return np.asarray(self.state["open"])
