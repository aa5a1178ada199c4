"""How long a replica takes to get a primary's data, and what that takes from the primary.

The primary forks; its child writes all data, into a pipe that the main thread empties into the
replica's connection (`repl-diskless-sync yes`, the default from Redis 7.0 and Valkey 7.2 on), or
into a file that is sent afterwards. The replica stores what comes in a file and then loads that
(`repl-diskless-load disabled`, the default). Meanwhile the primary keeps all changes for it; beyond
`client-output-buffer-limit replica` it closes the connection, and the sync starts again
(replication.c, `rdbPipeReadHandler`, `readSyncBulkPayload`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....step_times.disk import FORK_MS_PER_GIB
from ..slots.migration import (
    BUFFER_LIMIT_BYTES,
    COMMAND_BYTES,
    IDLE,
    NodeLoad,
    copy_s,
    keys_per_s,
)
from ..slots.migration_work import MigrationWork
from .sync_work import NodeContent, SyncWork

DISKLESS_DELAY_S = 5.0
"""`repl-diskless-sync-delay`: the child waits for more replicas to come."""

SOFT_LIMIT_BYTES, SOFT_LIMIT_S = 64 << 20, 60.0
"""Soft limit of `client-output-buffer-limit replica`, and how long it may be exceeded."""

_GIB = float(1 << 30)


@dataclass(frozen=True, kw_only=True)
class FullSync:
    """One full sync.

    Attributes
    ----------
    duration_s
        Until the replica is up to date; infinite where it never is.
    fork_s, snapshot_s, load_s, changes_s
        Its parts: the primary stands still; the data are written and sent; the replica loads them;
        what has changed follows.
    source_share
        Share of the primary's main thread during the snapshot.
    buffered_bytes
        The most that the primary holds for the replica.
    outcome
        `synchronised`, `buffer overrun` or `never catches up`.
    """

    duration_s: float
    fork_s: float
    snapshot_s: float
    load_s: float
    changes_s: float
    source_share: float
    buffered_bytes: float
    outcome: str


def full_sync(
    work: SyncWork,
    *,
    content: NodeContent,
    data_bytes: float,
    bytes_per_s: float,
    diskless: bool,
    apply_s: float,
    delay_s: float = DISKLESS_DELAY_S,
    source: NodeLoad = IDLE,
    disk_bytes_per_s: float = math.inf,
    load_s: float | None = None,
    buffer_limit_bytes: float = BUFFER_LIMIT_BYTES,
) -> FullSync:
    """A replica without data, or with data that are too old, follows a primary.

    Parameters
    ----------
    data_bytes
        Memory of the primary, which the fork maps.
    bytes_per_s
        Of one connection between them.
    diskless
        Whether the child writes into the connection or into a file.
    apply_s
        Time of the replica for one change.
    delay_s
        Before the child begins, if diskless.
    load_s
        How long the replica loads, where that is known.
    """
    keys, each_bytes = max(content.keys, 1.0), content.file_bytes / max(content.keys, 1.0)
    limited = min(bytes_per_s, disk_bytes_per_s)
    passing = MigrationWork(
        relay_ns_per_byte=work.relay_ns_per_byte, load_ns_per_byte=work.store_ns_per_byte
    )
    saving_s = work.save_s(content, disk_bytes_per_s=math.inf if diskless else disk_bytes_per_s)
    sending_s = keys / keys_per_s(
        *(passing, each_bytes), bytes_per_s=limited, source=source, target=IDLE
    )
    snapshot_s = max(saving_s, sending_s) if diskless else saving_s + sending_s
    fork_s = FORK_MS_PER_GIB * 1e-3 * data_bytes / _GIB
    loading_s = (
        work.load_s(content, disk_bytes_per_s=disk_bytes_per_s) if load_s is None else load_s
    )
    # From the fork on the primary keeps what changes.
    held_s = fork_s + snapshot_s + loading_s
    change_bytes_per_s = source.writes_per_s * (source.write_bytes + COMMAND_BYTES)
    buffered = change_bytes_per_s * held_s
    outcome, changes_s = "synchronised", 0.0
    too_long = change_bytes_per_s > 0 and (
        held_s - SOFT_LIMIT_BYTES / change_bytes_per_s > SOFT_LIMIT_S
    )
    if buffered > buffer_limit_bytes or too_long:
        outcome, changes_s = "buffer overrun", math.inf
    elif source.writes_per_s * apply_s >= 1.0:
        outcome, changes_s = "never catches up", math.inf
    elif apply_s > 0:
        arriving = source.writes_per_s
        changes_s = arriving * held_s * apply_s / (1.0 - arriving * apply_s)
    waits_s = work.wait_ms * 1e-3 + (delay_s if diskless else 0.0)
    relayed_s = content.file_bytes * work.relay_ns_per_byte * 1e-9
    copied = source.writes_per_s * copy_s(source.write_bytes)
    return FullSync(
        duration_s=waits_s + held_s + changes_s,
        fork_s=fork_s,
        snapshot_s=snapshot_s,
        load_s=loading_s,
        changes_s=changes_s,
        source_share=min(1.0, relayed_s / max(snapshot_s, 1e-9) + copied),
        buffered_bytes=min(buffered, buffer_limit_bytes),
        outcome=outcome,
    )
