"""What keeping data on disk and on replicas costs the main thread.

Rules: aof.c (`feedAppendOnlyFile`, `flushAppendOnlyFile`), replication.c (`feedReplicationBuffer`,
`writeToReplica`) and rdb.c (`rdbSaveBackground`) of Valkey 8.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.errors import InputError

from ..engines.commands import LOG, WRITES, CommandKind, log_instructions
from ..engines.profile import EngineProfile, EngineWork
from ..footprint.resident import PAGES_PER_WRITE, copied_pages
from ..node.policies import running
from ..node.setup import NodeTimes
from ..scenario.schema import Persistence, Scenario
from .stalls import Stall

FILE_WRITE_NS = 1500.0
"""One write to the append-only file beside the copy: the way through the file system into the page
cache (assumed, 700 to 4,000)."""

FORK_MS_PER_GIB = 13.0
"""The main thread copies its page tables: 12.8 ms for a GiB on a virtual machine, 13.1 on a
physical one (Redis documentation, "Diagnosing latency issues"); 89 ms for 5 GB on a c7g.2xlarge are
19 (valkey issue 2767). Assumed range: 9 to 24."""

COPY_ON_WRITE_NS = 1200.0
"""First write to a page while a child lives: a fault and 4 KiB copied (assumed, 600 to 3,000)."""


class DiskCosts(NamedTuple):
    """What the constants above say, or a draw of them."""

    file_write_ns: float = FILE_WRITE_NS
    fork_ms_per_gib: float = FORK_MS_PER_GIB
    copy_on_write_ns: float = COPY_ON_WRITE_NS
    pages_per_write: float = PAGES_PER_WRITE


ASSUMED_DISK = DiskCosts()

DISK_RANGES = {
    "file_write_ns": (700.0, FILE_WRITE_NS, 4000.0),
    "fork_ms_per_gib": (9.0, FORK_MS_PER_GIB, 24.0),
    "copy_on_write_ns": (600.0, COPY_ON_WRITE_NS, 3000.0),
    "pages_per_write": (1.5, PAGES_PER_WRITE, 5.0),
}
"""(low, value, high) by the field of `DiskCosts`."""

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
    why = "since what logging a command takes was not counted on it"
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


def with_log(
    times: NodeTimes,
    kinds: Sequence[CommandKind],
    scenario: Scenario,
    engine: EngineProfile,
    work: EngineWork,
    speed: HostSpeed,
    disk: DiskCosts = ASSUMED_DISK,
) -> NodeTimes:
    """Times with what an append-only file and replicas add.

    Each write is put into one buffer for the file and one for all replicas. Once a turn the buffers
    go to the kernel: one call for the file, one for each replica, or one hand-over where I/O
    threads write to replicas.
    """
    kept, replicas = persistence_of(scenario), scenario.replicas
    aof = kept.aof if kept is not None else None
    if aof is None and replicas == 0:
        return times
    rate = speed.user_ipc * speed.clock_ghz
    buffers = (aof is not None) + (replicas > 0)
    by_main = replicas_written_by_main(engine) or scenario.io_threads == 1
    copies = (aof is not None) + (replicas if by_main else 0)
    flush_ns = 0.0
    if kept is not None and aof is not None:
        flush_ns += work.kernel_scale * speed.syscall_ns + disk.file_write_ns
        if aof == "always":
            assert kept.fsync_ms is not None
            flush_ns += 1e6 * kept.fsync_ms
    send_ns = work.kernel_scale * speed.tcp_send_ns + work.write_instructions / rate
    flush_ns += replicas * (send_ns if by_main else work.push_instructions / rate)
    logged = np.zeros(len(kinds), np.int64)
    added_ps = np.zeros(len(kinds), np.int64)
    for code, kind in enumerate(kinds):
        if kind.command in WRITES:
            size_bytes = kind.request_bytes(scenario.workload.key_bytes)
            added_ns = buffers * log_instructions(kind, work.commands) / rate
            added_ns += copies * size_bytes * speed.copy_ns_per_byte
            logged[code] = size_bytes
            added_ps[code] = round(added_ns * _PS_PER_NS)
    return times._replace(
        flush_ps=round(flush_ns * _PS_PER_NS),
        logged_bytes_by_code=logged,
        execute_by_code_ps=times.execute_by_code_ps + added_ps,
    )


def fork_stall(
    scenario: Scenario, data_bytes: float, disk: DiskCosts = ASSUMED_DISK
) -> Stall | None:
    """The fork that begins a snapshot: nothing is served meanwhile."""
    kept = persistence_of(scenario)
    if kept is None or kept.snapshot is None:
        return None
    gib = data_bytes / 2**30
    return Stall(max(1e-3, disk.fork_ms_per_gib * gib), every_s=kept.snapshot.every_s)


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


def with_copies_on_write(
    times: NodeTimes,
    kinds: Sequence[CommandKind],
    scenario: Scenario,
    *,
    data_bytes: float,
    rate_rps: float,
    disk: DiskCosts = ASSUMED_DISK,
) -> NodeTimes:
    """Times with the faults of writes while a snapshot is made, averaged over all time."""
    kept = persistence_of(scenario)
    if kept is None or kept.snapshot is None:
        return times
    items = np.array([kind.items if kind.command in WRITES else 0 for kind in kinds])
    writes_per_s = rate_rps * float(np.dot(items, [kind.share for kind in kinds]))
    snapshot = kept.snapshot
    pages = copied_pages_per_write(
        data_bytes,
        writes_per_s=writes_per_s,
        child_s=snapshot.child_s,
        every_s=snapshot.every_s,
        pages_per_write=disk.pages_per_write,
    )
    added_ps = np.rint(items * pages * disk.copy_on_write_ns * _PS_PER_NS).astype(np.int64)
    return times._replace(execute_by_code_ps=times.execute_by_code_ps + added_ps)
