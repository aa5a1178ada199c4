"""What keeps the main thread busy beside commands: disk, replicas, and rare long commands.

Rules of disk and replicas: aof.c (`feedAppendOnlyFile`, `flushAppendOnlyFile`), replication.c
(`feedReplicationBuffer`, `writeToReplica`) and rdb.c (`rdbSaveBackground`) of Valkey 8.0.

Stalls, such as the fork of a snapshot or a slow command, are command codes of their own, too rare
for the table of 1,024 slots that commands are drawn from: a draw of 32 bits decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from forecache.sim.errors import InputError

from ..engines.commands import LOG, check_commands, log_instructions
from ..engines.profile import EngineProfile
from ..footprint.limits import PAGES_PER_WRITE, copied_pages
from ..footprint.node import snapshot_child_s
from ..node.policies import running
from ..node.setup import NodeTimes
from ..scenario.schema import Followed, Persistence, Scenario
from ..scenario.workload import Workload
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
    if scenario.follows is not None:
        if engine.engine == "memcached":
            raise InputError("field 'follows': Memcached has no replicas; valid is none.")
        stream = stream_scenario(scenario, scenario.follows)
        check_commands(stream, engine.commands, engine=engine.id)
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


def stream_scenario(scenario: Scenario, follows: Followed) -> Scenario:
    """What a replica's primary sends, as if clients without TLS sent it."""
    kept = persistence_of(scenario)
    if kept is not None:  # a fork is the node's, however many writes come
        kept = kept.model_copy(update={"snapshot": None})
    given = {name: getattr(scenario.workload, name) for name in Workload.model_fields}
    given |= {"command": None, "mix": follows.mix, "slow_command": None}
    changes = {"follows": None, "replicas": 0, "tls": None, "persistence": kept or "none"}
    workload = Workload.model_construct(**given)
    return scenario.model_copy(update={**changes, "workload": workload})


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
        touched=((1.0, pages_per_write),),
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
        child_s=snapshot_child_s(inputs.scenario, inputs.engine, inputs.work, inputs.speed),
        every_s=snapshot.every_s,
        pages_per_write=disk.pages_per_write,
    )
    added_ps = np.rint(items * pages * disk.copy_on_write_ns * _PS_PER_NS)
    return np.asarray(added_ps, np.int64)


# --- rare commands that occupy the main thread for long -------------------------------------------


_PS_PER_MS = 10**9
_DRAW_RANGE = 1 << 32


@dataclass(frozen=True)
class Stall:
    """A command that keeps the main thread busy.

    Attributes
    ----------
    every_s
        Mean time from one to the next, or None where `share` is given.
    share
        Of the requests.
    fork
        Whether it is the fork of a snapshot, and no command of a client.
    """

    duration_ms: float
    every_s: float | None = None
    share: float | None = None
    fork: bool = False

    def share_at(self, rate_rps: float, *, saturated: bool) -> float:
        """The share of requests it is.

        Parameters
        ----------
        rate_rps
            Requests a second, without stalls where `saturated`.
        saturated
            Whether time lost is requests lost, as in a closed loop: then n stalls a second leave
            1 - n * duration of it.
        """
        if self.share is not None:
            return self.share
        assert self.every_s is not None
        left_s = self.every_s - (self.duration_ms / 1000.0 if saturated else 0.0)
        return min(1.0, 1.0 / (rate_rps * left_s))

    def mean_gap_s(self, rate_rps: float) -> float:
        """Time from one to the next at a rate of requests."""
        return self.every_s if self.share is None else 1.0 / (self.share * rate_rps)  # type: ignore[return-value]


def stalls_of(inputs: NodeInputs) -> list[Stall]:
    """What occupies the main thread for long now and then."""
    slow, kept = inputs.scenario.workload.slow_command, persistence_of(inputs.scenario)
    found = [] if slow is None else [Stall(slow.duration_ms, slow.every_s, slow.share)]
    if kept is not None and kept.snapshot is not None:
        # The fork that begins a snapshot: nothing is served meanwhile.
        fork_ms = inputs.disk.fork_ms(inputs.speed, inputs.resident_bytes)
        found.append(Stall(max(1e-3, fork_ms), every_s=kept.snapshot.every_s, fork=True))
    return found


def stall_shares(inputs: NodeInputs) -> list[tuple[float, float]]:
    """Share of the requests and duration in ms of each stall; none at an unknown rate."""
    if (rate_rps := inputs.rate_rps) is None:
        return []
    saturated = inputs.scenario.workload.arrival == "closed_loop"
    return [
        (stall.share_at(rate_rps, saturated=saturated), stall.duration_ms)
        for stall in stalls_of(inputs)
    ]


def with_stalls(
    tables: Mapping[str, np.ndarray], stalls: Sequence[tuple[float, float]]
) -> dict[str, np.ndarray]:
    """Tables by command code with a code more for each stall.

    Its request is parsed like the first command's and its reply says OK.

    Parameters
    ----------
    tables
        By the field of `NodeTimes`; all those that have a row for each code.
    stalls
        Share of the requests and duration in ms.
    """
    if not stalls:
        return dict(tables)
    shares, durations_ms = np.array(stalls).T
    added = {
        "parse_by_code_ps": tables["parse_by_code_ps"][0],
        "execute_by_code_ps": np.rint(durations_ms * _PS_PER_MS),
        "request_bytes_by_code": tables["request_bytes_by_code"][0],
        "reply_bytes_by_code": len(b"+OK\r\n"),
        "keys_by_code": 1,
        "rare_below_by_code": np.rint(np.cumsum(shares) * _DRAW_RANGE),
    }

    def rows(name: str, table: np.ndarray) -> np.ndarray:
        values = np.asarray(added.get(name, 0), np.int64)
        return np.broadcast_to(values, (len(stalls), *table.shape[1:]))

    return {name: np.concatenate([table, rows(name, table)]) for name, table in tables.items()}


def code_shares(times: NodeTimes) -> np.ndarray:
    """(codes,) share of the requests that each command code is."""
    codes = len(times.parse_by_code_ps)
    drawn = np.bincount(times.code_by_draw, minlength=codes) / len(times.code_by_draw)
    rare = times.rare_below_by_code > 0
    if not rare.any():
        return np.asarray(drawn)
    shares = np.zeros(codes)
    shares[rare] = np.diff(times.rare_below_by_code[rare], prepend=0) / _DRAW_RANGE
    return np.asarray((1.0 - shares.sum()) * drawn + shares)
