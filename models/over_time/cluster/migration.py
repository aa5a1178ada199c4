"""How long slots take to move, and what main threads spend on it.

Two ways. **Key by key** (`valkey-cli --cluster rebalance` before Valkey 9, Redis): an operator goes
slot by slot and asks for ten keys at a time. Each MIGRATE serialises its keys, sends them and waits
until the target has restored them, and all that time the source's main thread does nothing else
(cluster.c, `migrateCommand`; valkey-cli.c, `clusterManagerMoveSlot`). **Atomic** (CLUSTER
MIGRATESLOTS, Valkey 9.0 on; cluster_migrateslots.c): a forked child writes the slots as commands
into a pipe, the source's main thread relays them, the target's executes them. Writes to these slots
are buffered meanwhile and sent after the snapshot; when nothing is left, all writes of the source
pause until the target has taken over.

Key by key every slot also changes `nodes.conf`. SETSLOT NODE at the target bumps nothing more after
the first slot, but is broadcast at once, and every node that hears of a slot's new owner by the bus
writes the file and syncs it before it serves anybody (cluster.c, `clusterUpdateSlotsConfigWith`,
`clusterSaveConfig`; redis issues 2592 and 6753 complain of it). Since Valkey 8.0 a SETSLOT waits
until the replicas have it.

Both share main threads with clients. A command of the operator waits for what the event loop has
collected before it, and a main thread that was blocked has collected much: this, not bandwidth,
makes a key-by-key move slow under load. The atomic one gets what clients leave of a main thread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import ClassVar, Self

from pydantic import Field, model_validator

from forecache.hwprofiles.files import did_you_mean, parse, read_yaml, shipped
from forecache.hwprofiles.quantity import Quantity, Source, ranges_of
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError

from ...prediction.uncertainty import Drawn, draw_ranges
from ...results.intervals import RelativeError
from ...step_times.inputs import COPY_ON_WRITE_NS, FORK_MS_PER_GIB, PAGES_PER_WRITE

PIPELINE = 10
"""Keys per MIGRATE of valkey-cli and redis-cli, unless `--cluster-pipeline` says otherwise."""

BUFFER_LIMIT_BYTES = 256 << 20
"""Hard limit of what a source may buffer for a target: `client-output-buffer-limit replica`
(valkey.conf). Beyond it the connection is closed and the move starts again."""

PAUSE_LIMIT_S = 10.0
"""How long writes pause at most: twice `cluster-manual-failover-timeout` (valkey.conf)."""

PIPE_BYTES = 64 * 1024
"""What a pipe holds (pipe(7)), so what a turn of the event loop relays; the same is assumed of what
the target reads in a turn."""

COMMAND_BYTES = 64
"""Of a key in the stream beside its value: the words of its command (assumed, for short keys)."""

FSYNC_MS = 1.15
"""One small write and fdatasync on a network disk, as fio measures it (assumed): 709 and
1,105 a second were measured one after the other on two kinds of EBS volumes (besthub.dev, "How
Upgrading EBS Volumes Boosted etcd Write Performance"). A local NVMe drive takes 0.05 to 0.5."""

FSYNC_RANGE_MS = (0.5, FSYNC_MS, 3.0)

SAVE_FSYNCS = 3.0
"""How many times as long saving nodes.conf takes: a new file and its folder are synced, each with
the file system's journal, since Redis 7.2 and in Valkey (redis PR 10924); 2.6 and 3.5 in two
measurements on ext4. Before, the old file is written over. Valkey 8.0.1 on loopback saved 0.8 to 1
times a slot on each primary but the target, Redis 7.0.15 0.1 to 0.9 times: there the operator often
comes before the news."""

_PAGE_BYTES = 4096
_GIB = float(1 << 30)
_ROUNDS = 40


@dataclass(frozen=True, kw_only=True)
class HostWork:
    """CPU time in ns on one host; waits in ms (`_ms`), which are the same on every host."""

    def at_rate(self, factor: float) -> Self:
        """On a host whose threads are `factor` times as fast."""
        scaled = {
            name: value / factor for name, value in vars(self).items() if not name.endswith("_ms")
        }
        return replace(self, **scaled)


@dataclass(frozen=True, kw_only=True)
class MigrationWork(HostWork):
    """CPU time in ns on one host; of main threads unless said otherwise.

    Attributes
    ----------
    setslot_source_ns, setslot_target_ns
        All SETSLOTs of one slot; they rewrite nodes.conf.
    fetch_ns
        One CLUSTER GETKEYSINSLOT.
    dump_call_ns, dump_key_ns, dump_ns_per_byte
        On the source, per MIGRATE, per key and per byte of it: find, serialise, send, delete.
    restore_call_ns, restore_key_ns, restore_ns_per_byte
        On the target.
    child_key_ns, child_ns_per_byte
        Atomic: the forked child writes a key.
    relay_key_ns, relay_ns_per_byte
        Atomic: the source takes it from the pipe and sends it.
    load_key_ns, load_ns_per_byte
        Atomic: the target executes it.
    job_ms
        Atomic: beginning, hand-over and clean-up of one job; mostly waits for the engine's cron,
        so the same on every host.
    """

    setslot_source_ns: float = 0.0
    setslot_target_ns: float = 0.0
    fetch_ns: float = 0.0
    dump_call_ns: float = 0.0
    dump_key_ns: float = 0.0
    dump_ns_per_byte: float = 0.0
    restore_call_ns: float = 0.0
    restore_key_ns: float = 0.0
    restore_ns_per_byte: float = 0.0
    child_key_ns: float = 0.0
    child_ns_per_byte: float = 0.0
    relay_key_ns: float = 0.0
    relay_ns_per_byte: float = 0.0
    load_key_ns: float = 0.0
    load_ns_per_byte: float = 0.0
    job_ms: float = 0.0

    def dump_ns(self, keys: float, value_bytes: float) -> float:
        """Time of the source's main thread for one MIGRATE, by its number of keys."""
        return self.dump_call_ns + keys * (self.dump_key_ns + value_bytes * self.dump_ns_per_byte)

    def restore_ns(self, keys: float, value_bytes: float) -> float:
        """The target's main thread, for the same."""
        per_key = self.restore_key_ns + value_bytes * self.restore_ns_per_byte
        return self.restore_call_ns + keys * per_key


class WorkProfile(Record):
    """A file with CPU time that was measured on one host."""

    id: str
    title: str
    sources: dict[str, Source]
    rate_per_ns: Quantity
    """Instructions a nanosecond of the host: `user_ipc` × `clock_ghz` of its profile."""
    work: dict[str, Quantity]
    known: ClassVar[type[HostWork]]
    """The dataclass that `work` has fields of."""

    @model_validator(mode="after")
    def _check(self) -> WorkProfile:
        known = {each.name for each in fields(self.known)}
        for name in self.work:
            if name not in known:
                raise ValueError(f"work of {', '.join(sorted(known))}; found {name!r}")
        return self

    def drawn_rate(self, draw: Drawn | None) -> float:
        """The rate of the host that work was measured on: its value, or a draw."""
        if draw is None:
            return self.rate_per_ns.best
        # The same host in all profiles.
        drawn = draw_ranges("measured host", ranges_of({"rate": self.rate_per_ns}), draw)
        return drawn.get("rate", self.rate_per_ns.best)


class MigrationProfile(WorkProfile):
    """A file of `migration_work/`: engine, method, host it was measured on, and its numbers."""

    known = MigrationWork
    method: str = Field(pattern="^(key_by_key|atomic)$")
    error: RelativeError
    """How far off durations were that nothing was fitted to."""

    def on(self, rate_per_ns: float, *, draw: Drawn | None = None) -> MigrationWork:
        """The work at another host's rate of instructions. Kernel time is taken to scale alike.

        Parameters
        ----------
        draw
            Where in their ranges all numbers lie.
        """
        numbers = {name: each.best for name, each in self.work.items()}
        if draw is not None:
            numbers |= draw_ranges(self.id, ranges_of(self.work), draw)
        return MigrationWork(**numbers).at_rate(rate_per_ns / self.drawn_rate(draw))


@cache
def load_migration_profile(name: str) -> MigrationProfile:
    """A shipped profile: `redis-key-by-key` or `valkey-atomic`."""
    files = shipped("forecache.models.over_time.cluster", "migration_work")
    if name not in files:
        raise InputError(f"migration: found {name!r}; valid is {did_you_mean(name, files)}")
    file = f"models/over_time/cluster/migration_work/{name}.yaml"
    return parse(MigrationProfile, read_yaml(files[name]), file=file)


@dataclass(frozen=True, kw_only=True)
class NodeLoad:
    """What clients ask of one main thread while slots move.

    Attributes
    ----------
    busy
        Share of its time that clients want, below 1 where they could have more.
    waiting_s
        Time of the main thread for the most requests that can wait: connections × time of one.
        Clients that wait ask for no more.
    writes_per_s, write_bytes
        Writes to all slots of the node, and how large they are.
    """

    busy: float = 0.0
    waiting_s: float = 0.0
    writes_per_s: float = 0.0
    write_bytes: float = 0.0

    def wait_s(self, blocked_s: float, free_s: float) -> float:
        """How long a command waits that arrives `free_s` after a block of `blocked_s`.

        Meanwhile clients asked for `busy` of that time, no more than can wait; the thread then
        works that off while they go on asking.
        """
        if self.busy <= 0.0:
            return 0.0
        collected = min(self.busy * blocked_s, self.waiting_s)
        left = max(0.0, collected - max(0.0, 1.0 - self.busy) * free_s)
        # A full thread: the one that has just waited finds everybody else before it again.
        return max(left, self.waiting_s) if self.busy >= 1.0 else left

    def left(self, piece_s: float) -> float:
        """Share of the thread for work in pieces of a given duration, one per turn of its loop.

        What clients don't want, but where they want all, one piece beside all that wait.
        """
        turn_s = piece_s + self.waiting_s
        return max(1.0 - self.busy, piece_s / turn_s if turn_s > 0 else 1.0)


IDLE = NodeLoad()


@dataclass(frozen=True, kw_only=True)
class Link:
    """Round trips and bandwidth between operator, source and target."""

    operator_rtt_s: float
    node_rtt_s: float
    """Between the two nodes."""
    bytes_per_s: float
    """Of one TCP connection between them."""


@dataclass(frozen=True, kw_only=True)
class KeyByKey:
    """Slots of equal size moved key by key.

    Attributes
    ----------
    slot_s
        Time of one slot.
    round_trips
        Of the operator and between nodes, for one slot.
    source_blocked_s, target_blocked_s
        Main-thread time it takes from clients, for one slot.
    longest_block_s
        Of the source: one MIGRATE, or saving nodes.conf.
    save_s
        How long every other node stands still, for one slot, to save nodes.conf.
    wait_s
        Part of `slot_s` that the operator's commands wait for requests of clients.
    """

    slot_s: float
    round_trips: float
    source_blocked_s: float
    target_blocked_s: float
    longest_block_s: float
    save_s: float
    wait_s: float


@dataclass(frozen=True, kw_only=True)
class Saving:
    """What a slot's new owner costs beside its keys.

    Attributes
    ----------
    fsync_s
        A small write that is synced.
    fsyncs
        How many times that a save takes.
    acknowledged
        Whether SETSLOT waits for replicas, a round trip between nodes each.
    """

    fsync_s: float = 0.0
    fsyncs: float = SAVE_FSYNCS
    acknowledged: bool = False


NOTHING_SAVED = Saving()


def saving(
    engine: str, version: str | None, *, fsync_ms: float = FSYNC_MS, replicas: int = 0
) -> Saving:
    """What an engine of a version does, `8.1` say; one without a version is taken to be new."""
    known = tuple(int(part) for part in (version or "99").split(".")[:2] if part.isdigit())
    file_and_folder = known >= ((7, 2) if engine == "redis" else (7,))
    return Saving(
        fsync_s=fsync_ms * 1e-3,
        fsyncs=SAVE_FSYNCS if file_and_folder else 1.0,
        acknowledged=engine == "valkey" and known >= (8,) and replicas > 0,
    )


def round_trips(keys: int, *, primaries: int, pipeline: int = PIPELINE) -> int:
    """Round trips of one slot, key by key.

    SETSLOT IMPORTING and MIGRATING, three for each batch of keys (GETKEYSINSLOT, MIGRATE, and the
    keys' own to the target), a GETKEYSINSLOT that finds nothing, SETSLOT NODE to every primary.
    """
    return 2 + 3 * math.ceil(keys / pipeline) + 1 + primaries


def key_by_key(
    work: MigrationWork,
    *,
    keys: int,
    value_bytes: float,
    link: Link,
    primaries: int,
    pipeline: int = PIPELINE,
    source: NodeLoad = IDLE,
    target: NodeLoad = IDLE,
    others: NodeLoad = IDLE,
    saves: Saving = NOTHING_SAVED,
) -> KeyByKey:
    """One slot with a number of keys of this size.

    Batches repeat, so a few rounds find how long each command waits for what the round before left.
    All nodes but the target save nodes.conf at the same time, when the target says that the slot is
    its own; the operator comes to the source while it does.

    Parameters
    ----------
    others
        What clients ask of each primary that takes no part.
    """
    batches = math.ceil(keys / pipeline)
    in_batch = keys / batches if batches else 0.0
    fetch = work.fetch_ns * 1e-9
    dump = work.dump_ns(in_batch, value_bytes) * 1e-9
    restore = work.restore_ns(in_batch, value_bytes) * 1e-9
    wire = in_batch * value_bytes / link.bytes_per_s
    blocked = period = 0.0
    at_fetch = at_migrate = at_restore = 0.0
    for _ in range(_ROUNDS):
        blocked = dump + wire + link.node_rtt_s + at_restore + restore
        period = 2 * link.operator_rtt_s + at_fetch + fetch + at_migrate + blocked
        at_fetch = source.wait_s(blocked, link.operator_rtt_s)
        at_migrate = source.wait_s(fetch, link.operator_rtt_s)
        at_restore = target.wait_s(restore, period - restore)
    waits = batches * (at_fetch + at_migrate + at_restore)
    setslots = (2 + primaries) * (link.operator_rtt_s + saves.acknowledged * link.node_rtt_s)
    save_s = saves.fsyncs * saves.fsync_s
    # The news takes half a round trip, the reply and the operator's next command a whole one.
    at_save = max(0.0, save_s - max(0.0, link.operator_rtt_s - link.node_rtt_s / 2.0))
    at_save += source.wait_s(save_s, 0.0)
    since_s = at_save + link.operator_rtt_s - save_s
    at_others = others.wait_s(save_s, max(0.0, since_s)) if primaries > 2 else 0.0
    waits += at_save + at_others
    last_look = link.operator_rtt_s + fetch
    own = (work.setslot_source_ns + work.setslot_target_ns) * 1e-9
    return KeyByKey(
        slot_s=batches * period + last_look + setslots + own + at_save + at_others,
        round_trips=round_trips(keys, primaries=primaries, pipeline=pipeline),
        source_blocked_s=batches * (blocked + fetch)
        + (fetch + work.setslot_source_ns * 1e-9 + save_s),
        target_blocked_s=batches * restore + work.setslot_target_ns * 1e-9,
        longest_block_s=max(save_s, blocked if batches else 0.0),
        save_s=save_s,
        wait_s=waits,
    )


@dataclass(frozen=True, kw_only=True)
class Atomic:
    """One job of CLUSTER MIGRATESLOTS.

    Attributes
    ----------
    duration_s
        Until the target owns the slots; infinite where it never does.
    fork_s, snapshot_s, changes_s, pause_s
        Its parts: the source stands still; the child writes; buffered changes follow; writes pause.
    source_share, target_share, child_share
        Of their threads, during the snapshot.
    buffered_bytes
        The most that the source holds for the target.
    outcome
        `moved`, `buffer overrun` (the limit was reached, the job starts again and again) or
        `never catches up` (changes arrive faster than they leave).
    """

    duration_s: float
    fork_s: float
    snapshot_s: float
    changes_s: float
    pause_s: float
    source_share: float
    target_share: float
    child_share: float
    buffered_bytes: float
    outcome: str


def keys_per_s(
    work: MigrationWork,
    value_bytes: float,
    *,
    bytes_per_s: float,
    source: NodeLoad,
    target: NodeLoad,
    cores: float = 2.0,
    threads: int | None = None,
) -> float:
    """How fast a snapshot flows: as fast as the slowest of child, source, target and network.

    Main threads give what their clients leave. With one core the source's child and main thread
    take turns on it. With `threads`, those write and send, without child and main thread.
    """
    child = _per_key_s(work.child_key_ns, work.child_ns_per_byte, value_bytes)
    relay = _per_key_s(work.relay_key_ns, work.relay_ns_per_byte, value_bytes)
    load = _per_key_s(work.load_key_ns, work.load_ns_per_byte, value_bytes)
    in_pipe = max(1.0, PIPE_BYTES / (value_bytes + COMMAND_BYTES))
    if threads is not None:
        by_source = threads / child
    elif cores >= 2:
        by_source = min(1.0 / child, source.left(relay * in_pipe) / relay)
    else:
        # The child stops when the pipe is full; a busy main thread empties it once a turn.
        turn_s = in_pipe * (child + relay) + source.waiting_s
        by_source = max((1.0 - min(source.busy, 1.0)) / (child + relay), in_pipe / turn_s)
    by_target = target.left(load * in_pipe) / load
    return min(by_source, by_target, bytes_per_s / max(value_bytes, 1.0))


def atomic(
    work: MigrationWork,
    *,
    keys: float,
    value_bytes: float,
    moving_share: float,
    data_bytes: float,
    link: Link,
    source: NodeLoad = IDLE,
    target: NodeLoad = IDLE,
    cores: float = 2.0,
    threads: int | None = None,
    buffer_limit_bytes: float = BUFFER_LIMIT_BYTES,
) -> Atomic:
    """One job that moves a number of keys.

    Parameters
    ----------
    moving_share
        Share of the source's writes that go to these slots.
    data_bytes
        Memory of the source, which the fork maps.
    threads
        How many threads of the source write and send the slots; without it, a forked child. They
        share its memory, so that nothing is forked or copied.
    """
    copies = threads is None
    fork_s = FORK_MS_PER_GIB * 1e-3 * data_bytes / _GIB if copies else 0.0
    touched = NodeLoad(
        busy=source.busy + copies * source.writes_per_s * copy_s(source.write_bytes),
        waiting_s=source.waiting_s,
        writes_per_s=source.writes_per_s,
        write_bytes=source.write_bytes,
    )
    rate = keys_per_s(
        *(work, value_bytes),
        bytes_per_s=link.bytes_per_s,
        source=touched,
        target=target,
        cores=cores,
        threads=threads,
    )
    snapshot_s = keys / rate if rate > 0 else math.inf
    change_bytes_per_s = source.writes_per_s * moving_share * source.write_bytes
    buffered = change_bytes_per_s * (fork_s + snapshot_s)
    # Buffered changes are commands like those of the snapshot, without the child.
    after = keys_per_s(
        replace(work, child_key_ns=1e-3, child_ns_per_byte=0.0),
        max(source.write_bytes, 1.0),
        bytes_per_s=link.bytes_per_s, source=source, target=target, cores=cores,
    )  # fmt: skip
    arriving = source.writes_per_s * moving_share
    outcome, changes_s = "moved", 0.0
    if buffered > buffer_limit_bytes or not math.isfinite(snapshot_s):
        outcome, changes_s = "buffer overrun", math.inf
    elif arriving >= after:
        outcome, changes_s = "never catches up", math.inf
    elif arriving > 0:
        changes_s = arriving * (fork_s + snapshot_s) / (after - arriving)
    pause_s = min(PAUSE_LIMIT_S, 4 * link.node_rtt_s)
    relay = _per_key_s(work.relay_key_ns, work.relay_ns_per_byte, value_bytes)
    spent = {
        "source_share": relay if copies else 0.0,
        "target_share": _per_key_s(work.load_key_ns, work.load_ns_per_byte, value_bytes),
        "child_share": _per_key_s(work.child_key_ns, work.child_ns_per_byte, value_bytes),
    }
    return Atomic(
        duration_s=work.job_ms * 1e-3 + fork_s + snapshot_s + changes_s + pause_s,
        fork_s=fork_s,
        snapshot_s=snapshot_s,
        changes_s=changes_s,
        pause_s=pause_s,
        **{name: each * rate for name, each in spent.items()},
        buffered_bytes=min(buffered, buffer_limit_bytes),
        outcome=outcome,
    )


def _per_key_s(key_ns: float, ns_per_byte: float, value_bytes: float) -> float:
    return max(key_ns + ns_per_byte * value_bytes, 1e-3) * 1e-9


def copy_s(write_bytes: float) -> float:
    """Time that one write spends on copying pages while a child lives."""
    return (PAGES_PER_WRITE + write_bytes / _PAGE_BYTES) * COPY_ON_WRITE_NS * 1e-9
