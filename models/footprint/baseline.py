"""What a node holds beside its data: itself, cluster state, connections, replication.

The numbers of each version are in `layouts/generations.yaml` (`ServerBytes`): measured in fresh
servers of Redis 2.8.19, 3.0.5, 3.2.6, 5.0.6, 6.2.11, 7.0.15, 8.0.6 and 8.6.3 and of Valkey 8.0.1,
8.1.1 and 9.1.2, as Debian builds them or as a package bundles them. Other versions take those of
the one that they are like.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..layouts.allocator import Allocator, size_class
from ..layouts.generations import Generation
from ..layouts.strings import query_buffer_bytes

PROCESS_BYTES, _PROCESS_WITH_LIBC_BYTES = 11.1e6, 5.5e6
"""Resident memory beyond used memory of a server without data (measured: 3 to 15 MB, by build)."""

PROCESS_RANGE_BYTES = (3.0e6, 15.5e6)
"""Of nine builds, the least and the most (evidence/live/footprint_check.py)."""

REPLICA_BYTES = 50_000.0
"""A replica's connection and its block of the stream (measured: 38 to 57 KB)."""

COMMAND_BYTES = 24_944.0
"""Histogram of latencies that each command in use has from Redis 7.0 on (latency-tracking;
measured)."""


def process_bytes(allocator: Allocator) -> float:
    """Resident memory beyond used memory: code, libraries, what the allocator keeps for itself."""
    return _PROCESS_WITH_LIBC_BYTES if allocator.startswith("libc") else PROCESS_BYTES


@dataclass(frozen=True)
class Baseline:
    """Bytes beside the data.

    Attributes
    ----------
    startup
        Of a server without data and connections.
    cluster
        State of the cluster and arrays of slots.
    clients
        Active connections.
    commands
        Statistics of the commands in use.
    replication
        Backlog and connections of replicas.
    clients_low, clients_high
        The same when all are idle; and when the reply buffer of each is full, and each keeps a
        query buffer for another argument as large as the largest.
    """

    startup: float
    cluster: float
    clients: float
    commands: float
    replication: float
    clients_low: float
    clients_high: float

    @property
    def total(self) -> float:
        """With active connections."""
        return self.startup + self.cluster + self.clients + self.commands + self.replication


def baseline(
    g: Generation,
    *,
    cluster: bool = False,
    databases: int = 16,
    clients: int = 1,
    commands: int = 2,
    replicas: int = 0,
    repl_backlog_bytes: int | None = None,
    argument_bytes: int = 0,
    allocator: Allocator | None = None,
) -> Baseline:
    """What a node of a generation holds beside its data.

    Parameters
    ----------
    argument_bytes
        The longest argument that clients send.
    allocator
        The engine's own without it.
    """
    server = g.server
    backlog = g.backlog_bytes if repl_backlog_bytes is None else repl_backlog_bytes
    tracked = g.packed == "listpack"
    # In cluster mode all keys are in the first.
    more_databases = 0 if cluster else databases - 1
    asked = query_buffer_bytes(g, argument_bytes)
    kept = size_class(asked, allocator or g.allocator) if asked else 0
    return Baseline(
        startup=server.startup + server.database * more_databases,
        cluster=server.cluster if cluster else 0.0,
        clients=clients * server.client,
        commands=commands * COMMAND_BYTES if tracked else 0.0,
        replication=(backlog + replicas * REPLICA_BYTES) if replicas else 0.0,
        clients_low=clients * server.idle_client,
        clients_high=clients * (server.client + server.reply_buffer + kept),
    )
