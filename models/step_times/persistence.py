"""How long keeping data on disk and on replicas keeps the main thread busy.

Rules: aof.c (`feedAppendOnlyFile`, `flushAppendOnlyFile`), replication.c (`feedReplicationBuffer`,
`writeToReplica`) and rdb.c (`rdbSaveBackground`) of Valkey 8.0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forecache.sim.errors import InputError

from ..engines.commands import LOG, log_instructions
from ..engines.profile import EngineProfile
from ..footprint.resident import PAGES_PER_WRITE, copied_pages
from ..node.policies import running
from ..scenario.schema import Persistence, Scenario
from .inputs import NodeInputs

_PS_PER_NS = 1000


def persistence_of(scenario: Scenario) -> Persistence | None:
    """What a scenario says about its disk, if it has one."""
    found = scenario.persistence
    return found if isinstance(found, Persistence) else None


def fsyncs_always(scenario: Scenario) -> bool:
    """Whether replies wait for the append-only file."""
    kept = persistence_of(scenario)
    return kept is not None and kept.aof == "always"


def check_persistence(scenario: Scenario, engine: EngineProfile) -> None:
    """Refuse what isn't modelled of an engine.

    Raises
    ------
    InputError
        Replies would have to wait for an fsync under a policy where they don't here, or nobody
        counted what logging a command takes.
    """
    kept = persistence_of(scenario)
    counted = LOG in engine.commands
    why = "since the work of logging a command was not counted on it"
    if scenario.replicas > 0 and not counted:
        raise InputError(
            f"field 'replicas': found {scenario.replicas}; valid with {engine.id} is 0, {why}."
        )
    if kept is not None and kept.aof is not None and not counted:
        raise InputError(
            f"field 'persistence.aof': found {kept.aof!r}; valid with {engine.id} is none, {why}."
        )
    policy = running(engine.policy, io_threads=scenario.io_threads)
    if fsyncs_always(scenario) and not policy.keeps_replies:
        raise InputError(
            f"field 'persistence.aof': found 'always'; valid with {engine.id} and io_threads above "
            "1 is 'everysec', since replies that wait for the file are not modelled there."
        )


def replicas_written_by_main(engine: EngineProfile) -> bool:
    """Whether the main thread writes to replicas: I/O threads do from Valkey 8.1 on (PR 1485)."""
    if engine.engine != "valkey":
        return True
    major, minor = (int(part) for part in engine.version.split(".")[:2])
    return (major, minor) < (8, 1)


class LogTimes(NamedTuple):
    """What an append-only file and replicas add.

    Attributes
    ----------
    flush_ps
        Once a turn with writes.
    bytes_by_code, execute_ps : (codes,)
        What a command adds to the log, and the time that takes.
    """

    flush_ps: int
    bytes_by_code: np.ndarray
    execute_ps: np.ndarray


def log_times(inputs: NodeInputs) -> LogTimes:
    """What an append-only file and replicas add; all zero without.

    Each write is put into one buffer for the file and one for all replicas. Once a turn the buffers
    go to the kernel: one call for the file, one for each replica, or one hand-over where I/O
    threads write to replicas.
    """
    work, speed, kinds = inputs.work, inputs.speed, inputs.kinds
    kept, replicas = persistence_of(inputs.scenario), inputs.scenario.replicas
    aof = kept.aof if kept is not None else None
    logged, added_ps = np.zeros((2, len(kinds)), np.int64)
    if aof is None and replicas == 0:
        return LogTimes(0, logged, added_ps)
    buffers = (aof is not None) + (replicas > 0)
    by_main = replicas_written_by_main(inputs.engine) or inputs.lone
    copies = (aof is not None) + (replicas if by_main else 0)
    flush_ns = 0.0
    if kept is not None and aof is not None:
        flush_ns += work.kernel_scale * speed.syscall_ns + inputs.disk.file_write_ns
        if aof == "always":
            assert kept.fsync_ms is not None
            flush_ns += 1e6 * kept.fsync_ms
    send_ns = work.kernel_scale * speed.tcp_send_ns + inputs.user_ns(work.write_instructions)
    flush_ns += replicas * (send_ns if by_main else inputs.user_ns(work.push_instructions))
    for code, kind in enumerate(kinds):
        # Of a transaction or a script its commands are logged, as if clients had sent them.
        for each, times in kind.times or [(kind, 1.0)]:
            if each.row.writes:
                size_bytes = times * each.request_bytes(inputs.scenario.workload.key_bytes)
                added_ns = times * inputs.user_ns(buffers * log_instructions(each, work.commands))
                added_ns += copies * size_bytes * speed.copy_ns_per_byte
                added_ns += (aof is not None) * size_bytes * inputs.disk.file_byte_ns
                logged[code] += size_bytes
                added_ps[code] += round(added_ns * _PS_PER_NS)
    return LogTimes(round(flush_ns * _PS_PER_NS), logged, added_ps)


def copied_pages_per_write(
    data_bytes: float,
    *,
    writes_per_s: float,
    child_s: float,
    every_s: float,
    pages_per_write: float = PAGES_PER_WRITE,
) -> float:
    """Mean pages copied per write, over the whole time from one snapshot to the next."""
    if writes_per_s <= 0.0:
        return 0.0
    copied = copied_pages(
        data_bytes,
        writes_per_s=writes_per_s,
        child_s=child_s,
        pages_per_write=pages_per_write,
    )
    return copied / (writes_per_s * every_s)


def copy_on_write_ps(inputs: NodeInputs) -> np.ndarray:
    """(codes,) faults of a write while a snapshot is made, averaged over all time.

    Zeros where the rate is unknown.
    """
    kept, kinds, disk = persistence_of(inputs.scenario), inputs.kinds, inputs.disk
    rate_rps = inputs.rate_rps
    if kept is None or kept.snapshot is None or rate_rps is None:
        return np.zeros(len(kinds), np.int64)
    items = np.array(
        [
            sum(n * each.items for each, n in kind.times or [(kind, 1.0)] if each.row.writes)
            for kind in kinds
        ]
    )
    writes_per_s = rate_rps * float(np.dot(items, [kind.share for kind in kinds]))
    snapshot = kept.snapshot
    pages = copied_pages_per_write(
        inputs.resident_bytes,
        writes_per_s=writes_per_s,
        child_s=snapshot.child_s,
        every_s=snapshot.every_s,
        pages_per_write=disk.pages_per_write,
    )
    added_ps = np.rint(items * pages * disk.copy_on_write_ns * _PS_PER_NS)
    return np.asarray(added_ps, np.int64)
