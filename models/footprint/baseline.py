"""What a node holds beside its data: itself, cluster state, connections, replication.

Of Redis 7.0.15, Valkey 8.0.1 and Valkey 9.1.2 measured on this project's machine (INFO memory of
fresh servers, Debian's builds and the embedded one); other versions take those of the nearest one
measured, by generation (assumed, half to twice).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..layouts.allocator import Allocator
from ..layouts.generations import Generation

PROCESS_BYTES, _PROCESS_WITH_LIBC_BYTES = 11.1e6, 5.5e6
"""Resident memory beyond used memory of a server without data (measured)."""

REPLY_BUFFER_BYTES = 16 * 1024
"""A connection's reply buffer while it is full; it shrinks to 1 KiB when idle (server.h)."""

REPLICA_BYTES = 50_000.0
"""A replica's connection and its block of the stream (measured: 38 to 57 KB)."""


COMMAND_BYTES = 24_688.0
"""Histogram of latencies that each command in use has from Redis 7.0 on (latency-tracking;
measured)."""


@dataclass(frozen=True)
class _Fixed:
    """Bytes of one generation.

    `startup_bytes` are those with one database and without clients (used_memory_startup),
    `client_bytes` those of an active connection, `idle_bytes` of an idle one.
    """

    startup_bytes: float
    database_bytes: float
    cluster_bytes: float
    client_bytes: float
    idle_bytes: float


_BY_ENTRIES = _Fixed(
    startup_bytes=869_800.0,
    database_bytes=450.0,
    cluster_bytes=723_800.0,
    client_bytes=22_800.0,
    idle_bytes=2_290.0,
)
"""Redis 7.0: a connection keeps its query buffer of 20 KB while it is active."""

_BY_SLOT = _Fixed(
    startup_bytes=918_800.0,
    database_bytes=720.0,
    cluster_bytes=1_805_500.0,
    client_bytes=2_450.0,
    idle_bytes=2_420.0,
)
"""Valkey 8.0: connections share a query buffer."""

_SHARED = _Fixed(
    startup_bytes=995_600.0,
    database_bytes=4.0,
    cluster_bytes=1_578_500.0,
    client_bytes=1_850.0,
    idle_bytes=1_830.0,
)
"""Valkey 9.1; the arrays of slots come with a database's first client, which is counted."""


def _fixed(g: Generation) -> _Fixed:
    if g.hash_table == "inside":
        return _SHARED
    if g.engine == "valkey" and g.slots == "tables":
        return _BY_SLOT
    return _BY_ENTRIES


def process_bytes(allocator: Allocator) -> float:
    """Resident memory beyond used memory: code, libraries, what the allocator keeps for itself."""
    return _PROCESS_WITH_LIBC_BYTES if allocator == "libc" else PROCESS_BYTES


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
        The same when all are idle, and when the reply buffer of each is full.
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
) -> Baseline:
    """What a node of a generation holds beside its data."""
    fixed = _fixed(g)
    backlog = g.backlog_bytes if repl_backlog_bytes is None else repl_backlog_bytes
    tracked = g.packed == "listpack"
    # In cluster mode all keys are in the first.
    more_databases = 0 if cluster else databases - 1
    return Baseline(
        startup=fixed.startup_bytes + fixed.database_bytes * more_databases,
        cluster=fixed.cluster_bytes if cluster else 0.0,
        clients=clients * fixed.client_bytes,
        commands=commands * COMMAND_BYTES if tracked else 0.0,
        replication=(backlog + replicas * REPLICA_BYTES) if replicas else 0.0,
        clients_low=clients * fixed.idle_bytes,
        clients_high=clients * (fixed.client_bytes + REPLY_BUFFER_BYTES),
    )
