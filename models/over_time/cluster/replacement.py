"""Nodes that are replaced: stopped, restarted as what they shall be, synchronised, made primary.

An upgrade goes through all nodes in this way, and nodes that failed come back by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import simpy

from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.network import Path
from forecache.sim.errors import InputError
from forecache.sim.statistics import Estimate

from ...engines.profile import EngineProfile, load_engine
from ...footprint.saving import EXPECTED, SAVING_RANGES, SavingDoubts, Writer, writer_of
from ...footprint.schema import Strings
from ...layouts.generations import generation
from ...prediction.predict import DRAWS
from ...prediction.uncertainty import Draw, Drawn, draw_ranges
from ...results.intervals import interval_over_draws
from ...scenario.versions import version_numbers
from ..caching import Filling
from ..recorder import Process
from .cluster import Cluster
from .events import Upgrade
from .failover import FailoverRules, fail_over, hand_over_s, rules_for
from .intervals import Outcomes, RunStep, exactly, with_interval_of
from .load.load import LoadStep
from .migration import COMMAND_BYTES, NodeLoad
from .moving import RecentLoad, moving_path, speed_of
from .nodes import UP, NodeKind
from .schema import ClusterNodes
from .sync import FullSync, NodeContent, SyncWork, full_sync, load_sync_profile

Giver = Callable[[], int]
"""Says which node gives its data now."""

DRAIN_S = 10.0
"""How long a node that gets no new requests is waited for before it is stopped (assumed)."""

RETRY_S = 10.0
"""Before a sync that failed begins again (assumed)."""

RECONNECT_S = 1.0
"""A replica looks once a second for its primary (`replicationCron`)."""

APPENDED = 0.5
"""Changes in an append-only file since it was written anew, as a share of its keys: from none to as
many bytes as it has (`auto-aof-rewrite-percentage 100`), so half of that in the mean (assumed)."""


# --- what nodes run afterwards --------------------------------------------------------------------


@dataclass(frozen=True)
class ReplacementTarget:
    """What nodes run before and after.

    Attributes
    ----------
    described
        The nodes afterwards, as a scenario has them.
    kind
        What they can do.
    """

    old: EngineProfile
    new: EngineProfile
    described: ClusterNodes
    kind: NodeKind

    @property
    def name(self) -> str:
        """Engine, version and threads."""
        threads = self.described.io_threads
        found = f"{self.new.engine} {self.new.version}"
        return found if threads == 1 else f"{found} with io-threads {threads}"


def replacement_target(event: Upgrade, cluster: Cluster) -> ReplacementTarget:
    """What nodes run afterwards, checked against what they run now."""
    nodes = cluster.scenario.cluster
    old = load_engine(nodes.engine, nodes.engine_version)
    changes = event.to.model_dump(exclude_none=True)
    if "engine" in changes or "engine_version" in changes:
        changes.setdefault("engine_version", None)
    described = nodes.model_copy(update=changes)
    try:
        new = load_engine(described.engine, described.engine_version)
        kind, data_bytes = cluster.kind_of(described)
    except InputError as error:
        given = ", ".join(f"{name}: {each}" for name, each in event.to.model_dump().items() if each)
        known = str(error).rstrip(".")
        raise FieldError("to", found=given, valid=f"what is known ({known})") from None
    if (old.engine == "memcached") != (new.engine == "memcached"):
        raise FieldError("to.engine", found=new.engine, valid=f"an engine like {old.engine}")
    if old.engine == "memcached":
        for name, valid in (("method", ("rolling", "in_place")), ("persistence", ("none",))):
            found = getattr(event, name)
            if found not in valid:
                raise FieldError(name, found=found, valid=f"{' or '.join(valid)} with memcached")
    elif (why_not := unreadable(old, new)) is not None:
        raise FieldError(
            "to.engine_version", found=new.version, valid=f"a version that can: {why_not}"
        )
    factor = data_bytes / max(cluster.shard_bytes, 1.0)
    kind = replace(kind, data_factor=kind.data_factor * factor)
    if cluster.bill is not None:
        cluster.bill.price(kind, described)
    return ReplacementTarget(old=old, new=new, described=described, kind=kind)


# Whether a version reads what another one writes: the format of RDB files, which full syncs use.
#
# rdb.h of each version: 9 up to Redis 6.2, 10 in 7.0, 11 in 7.2 and in Valkey up to 8.1, 12 and
# later from Redis 7.4 on, 80 from Valkey 9.0 on. A server reads its own format and earlier ones.
# Valkey refuses 12 to 79, which are those of Redis alone (`rdb-version-check strict`, its default).


_FORMATS = {
    "redis": (((7, 4), 12), ((7, 2), 11), ((7, 0), 10), ((0, 0), 9)),
    "valkey": (((9, 0), 80), ((0, 0), 11)),
}
_COMMON = 11
"""The last one that both have."""


def unreadable(old: EngineProfile, new: EngineProfile) -> str | None:
    """Why a node of the new version can't get the data of one of the old; None if it can."""
    wrote, reads = _format(old), _format(new)
    if family(old) != family(new):
        fits = wrote <= _COMMON and reads >= wrote
    else:
        # From Redis 7.4 on formats differ between versions that are not told apart here.
        later = family(old) == "redis" and wrote > _COMMON
        fits = reads >= wrote and not (later and _version(new) < _version(old))
    if fits:
        return None
    return (
        f"{new.engine} {new.version} doesn't read the format that {old.engine} {old.version} writes"
    )


def family(engine: EngineProfile) -> str:
    """Whose files it reads and writes."""
    return "valkey" if engine.engine.endswith("valkey") else "redis"


def _version(engine: EngineProfile) -> tuple[int, ...]:
    return tuple(version_numbers(engine.version or "0"))[:2]


def _format(engine: EngineProfile) -> int:
    known = _FORMATS[family(engine)]
    return next(number for since, number in known if _version(engine) >= since)


def diskless(engine: EngineProfile) -> bool:
    """`repl-diskless-sync`, as the version has it: yes from Redis 7.0 and in every Valkey."""
    return family(engine) == "valkey" or _version(engine) >= (7, 0)


def backlog_bytes(engine: EngineProfile) -> int:
    """`repl-backlog-size`, as the version has it: 10 MiB from Valkey 8.0 on, else 1 MiB."""
    return (10 if family(engine) == "valkey" and _version(engine) >= (8, 0) else 1) << 20


# --- what is left meanwhile -----------------------------------------------------------------------


@dataclass
class NoPrimary:
    """A time in which a shard has no primary that answers."""

    shard: int
    begins_s: float
    ends_s: float = math.inf


@dataclass
class MostAsked:
    """Where the load was nearest to what was left of a node.

    Attributes
    ----------
    load
        What was asked of the node against what it could do.
    """

    load: float = 0.0
    node: int = 0
    kind: int = 0
    at_s: float = 0.0


@dataclass
class ReplacementWatch:
    """Follows a cluster from the beginning of an upgrade to its end.

    Attributes
    ----------
    worst
        Of all nodes that were up.
    least_rps, before_rps
        Commands a second that all nodes that serve could do: at worst, and before.
    failed, turned_away
        Commands that failed, and that found no free worker.
    gaps
        Times without a primary.
    extra_nodes, extra_node_s
        Nodes that were added, and how long they and all others were paid beyond those before.
    """

    cluster: Cluster
    worst: MostAsked = field(default_factory=MostAsked)
    least_rps: float = math.inf
    before_rps: float = 0.0
    failed: float = 0.0
    turned_away: float = 0.0
    gaps: list[NoPrimary] = field(default_factory=list)
    extra_nodes: int = 0
    extra_node_s: float = 0.0
    on: bool = True
    _paid_before: int = 0
    _away_before: float = 0.0
    _lost: dict[int, Filling] = field(default_factory=dict)

    def begin(self) -> None:
        """Note what there is, and look at every step from now on."""
        cluster = self.cluster
        self.before_rps = float(self._can_rps()[self._serving()].sum())
        self._paid_before = cluster.nodes.paid_count
        self._away_before = cluster.record.turned_away_in_all
        cluster.after_step(self._step)
        cluster.record.gauge(
            "all nodes that serve", "1/s", "capacity",
            lambda: float(self._can_rps()[self._serving()].sum()),
        )  # fmt: skip
        cluster.record.gauge(
            "shards without a primary", "", "shards", lambda: float(len(self.open_gaps))
        )

    @property
    def open_gaps(self) -> list[NoPrimary]:
        """Shards that have no primary now."""
        return [gap for gap in self.gaps if math.isinf(gap.ends_s)]

    def without_primary(self, shard: int) -> NoPrimary:
        """A shard's primary answers nothing from now on; the caller sets when that ends."""
        gap = NoPrimary(shard, float(self.cluster.env.now))
        self.gaps.append(gap)
        return gap

    def longest_gap(self) -> NoPrimary:
        """The longest; one that doesn't end lasts until now."""
        now_s = float(self.cluster.env.now)
        ended = [replace(gap, ends_s=min(gap.ends_s, now_s)) for gap in self.gaps]
        nothing = NoPrimary(-1, 0.0, 0.0)
        return max(ended, key=lambda gap: gap.ends_s - gap.begins_s, default=nothing)

    def lose_keys(self, shard: int, keys: float) -> None:
        """A shard is empty; what is written from now on is there again."""
        cluster = self.cluster
        first = not self._lost
        popularity = cluster.scenario.data.popularity
        self._lost[shard] = Filling(keys=max(1, round(keys)), popularity=popularity, filled=0.0)
        if first and cluster.cache is None:
            cluster.after_step(self._refill)
            cluster.record.gauge("reads that miss", "share", "lost keys", self._missing)

    @property
    def lost_keys(self) -> float:
        """Keys that were lost, and are gone until somebody writes them."""
        return float(sum(each.keys for each in self._lost.values()))

    def share_there(self, shard: int) -> float:
        """Of a shard's keys, the share that is there."""
        lost = self._lost.get(shard)
        return 1.0 if lost is None else lost.held / lost.keys

    def _can_rps(self) -> np.ndarray:
        """(nodes,) commands a second that each can do beside its background work."""
        nodes = self.cluster.nodes
        can = nodes.numbers()
        free = 1.0 - np.clip(nodes.occupied, 0.0, 1.0)
        limit = np.minimum(can["capacity_rps"], free * 1e12 / can["main_ps"])
        return np.asarray(limit / nodes.work_factor)

    def _serving(self) -> np.ndarray:
        nodes = self.cluster.nodes
        return np.asarray((nodes.traffic > 0) & (nodes.state["down"] == UP))

    def _step(self, step: LoadStep) -> None:
        if not self.on:
            return
        nodes, can = self.cluster.nodes, self._can_rps()
        serving = self._serving()
        self.extra_node_s += step.length_s * (nodes.paid_count - self._paid_before)
        self.turned_away = self.cluster.record.turned_away_in_all - self._away_before
        self.failed += float(step.commands_failed.sum())
        self.least_rps = min(self.least_rps, float(can[serving].sum()))
        if not serving.any():
            return
        asked = self.cluster.load.asked_rps * nodes.traffic
        load = np.where(serving, asked / np.maximum(can, 1e-9), 0.0)
        node = int(load.argmax())
        if load[node] > self.worst.load:
            self.worst = MostAsked(float(load[node]), node, int(nodes.kind[node]), step.start_s)

    def _refill(self, step: LoadStep) -> None:
        sets = self.cluster.scenario.demand.mix.set
        for shard, there in self._lost.items():
            written = sets * float(step.commands_answered[self._of(shard)].sum())
            there.write(written, most=math.inf, evicts=False)

    def _of(self, shard: int) -> np.ndarray:
        return np.asarray(self.cluster.nodes.shard == shard)

    def _missing(self) -> float:
        traffic = self.cluster.nodes.traffic
        missed = sum(
            (1.0 - there.hit_rate) * float(traffic[self._of(shard)].sum())
            for shard, there in self._lost.items()
        )
        return missed / max(float(traffic.sum()), 1e-12)


# --- the steps ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ReplacementStep(RunStep):
    """One step that was done."""

    shard: int
    node: int
    what: str
    note: str = ""


@dataclass(frozen=True)
class SyncNumbers:
    """What is uncertain of syncs: at the values of all numbers, or in a draw of them."""

    old_work: SyncWork
    new_work: SyncWork
    path: Path
    writer: Writer
    doubts: SavingDoubts

    def save_s(
        self,
        held: NodeContent,
        engine: EngineProfile,
        *,
        data_bytes: float,
        disk_bytes_per_s: float = math.inf,
    ) -> float:
        """Time to write what a node holds into a file."""
        return held.save_s(
            generation(engine.engine, engine.version),
            data_bytes=data_bytes,
            writer=self.writer,
            disk_bytes_per_s=disk_bytes_per_s,
            doubts=self.doubts,
        )


class Replacement:
    """What an upgrade does to nodes, and what it has done.

    Attributes
    ----------
    rows
        All steps so far.
    given_up
        Why no further node is upgraded; empty as long as they are.
    ended_s
        When everything was done; infinite before.
    """

    def __init__(self, event: Upgrade, cluster: Cluster) -> None:
        self.event, self.cluster, self.env = event, cluster, cluster.env
        self.target = replacement_target(event, cluster)
        self.slots = None if self.target.old.engine == "memcached" else cluster.slots
        self.recent = RecentLoad(cluster)
        self.watch = ReplacementWatch(cluster)
        self.rows: list[ReplacementStep] = []
        self.outcomes = Outcomes("a full sync", "synchronised")
        self.given_up = ""
        self._last_primary: dict[int, int] = {}
        self.begun_s, self.ended_s = float(cluster.env.now), math.inf
        self._nominal = self._numbers()
        self._drawn = [self._numbers(Draw(cluster.seed, number)) for number in range(DRAWS)]
        self.disk_bytes_per_s = (event.disk_mbyte_per_s or math.inf) * 1e6

    def _numbers(self, draw: Drawn | None = None) -> SyncNumbers:
        speed = speed_of(self.cluster, draw)
        rate = speed.user_ipc * speed.clock_ghz
        old, new = (
            load_sync_profile(each.engine).on(rate, draw=draw)
            for each in (self.target.old, self.target.new)
        )
        path = moving_path(self.cluster, self.event.network_gbit_per_s, draw)
        data_bytes = float(self.cluster.nodes.data_bytes.max(initial=0.0))
        writer = writer_of(speed, data_bytes)
        doubts = EXPECTED
        if draw is not None:
            doubts = SavingDoubts(**draw_ranges("saving", SAVING_RANGES, draw))
        return SyncNumbers(old, new, path, writer, doubts)

    def begin(self) -> None:
        """Look at the load from now on."""
        self.recent.begin()
        self.watch.begin()

    def end(self) -> None:
        """Everything is done, or given up."""
        self.ended_s = float(self.env.now)
        self.watch.on = False
        if not self.given_up:
            # What is added later is like the others.
            self.cluster.nodes.new_kind = self.target.kind
        words = f"given up: {self.given_up}" if self.given_up else "through"
        self.cluster.record.mark(f"the upgrade is {words}")

    # --- what there is ----------------------------------------------------------------------------

    @property
    def shards(self) -> list[int]:
        """Those that are upgraded; nodes of Memcached are one each."""
        if self.slots is not None:
            return self.slots.shards
        nodes = self.cluster.nodes
        return [int(node) for node in np.flatnonzero(nodes.paid)]

    def primary(self, shard: int) -> int:
        """The node that serves a shard's writes."""
        if self.slots is None:
            return shard
        node = self.slots.primary[shard]
        # Of a shard that a resize takes away meanwhile, the last one.
        self._last_primary[shard] = self._last_primary.get(shard, shard) if node is None else node
        return self._last_primary[shard]

    def replicas(self, shard: int) -> list[int]:
        """Those that are up."""
        return [] if self.slots is None else self.slots.replicas(shard)

    def content(self, shard: int) -> NodeContent:
        """What a node of a shard holds."""
        data = self.cluster.scenario.data
        if self.slots is None:
            keys = data.keys / len(self.shards)
        else:
            keys = float(self.slots.keys[self.slots.owners == shard].sum())
        keys *= self.watch.share_there(shard)
        strings = Strings(
            type="string", keys=0, key_bytes=data.key_bytes, value_bytes=data.value_bytes
        )
        return NodeContent(keys=keys, strings=strings)

    def _over_draws(self, seconds: Callable[[SyncNumbers], float]) -> Estimate:
        """How long something takes, with its interval."""
        return interval_over_draws(
            seconds(self._nominal), [seconds(numbers) for numbers in self._drawn]
        )

    def save_s(self, shard: int) -> Estimate:
        """SHUTDOWN writes a snapshot where some are configured."""
        if self.event.persistence != "snapshot":
            return exactly(0.0)
        held, disk = self.content(shard), self.disk_bytes_per_s
        data_bytes = float(self.cluster.nodes.data_bytes[self.primary(shard)])
        return self._over_draws(
            lambda numbers: numbers.save_s(
                held, self.target.old, data_bytes=data_bytes, disk_bytes_per_s=disk
            )
        )

    def load_s(self, shard: int) -> Estimate:
        """What a node loads when it starts."""
        if self.event.persistence == "none":
            return exactly(0.0)
        held, more_s = self.content(shard), 0.0
        if self.event.persistence == "append_only":
            more_s = APPENDED * held.keys * self.target.kind.surrogate.main_ps * 1e-12
        return self._over_draws(lambda numbers: self.file_load_s(held, numbers) + more_s)

    def file_load_s(self, held: NodeContent, numbers: SyncNumbers) -> float:
        """The load of a file."""
        if self.event.load_mbyte_per_s is not None:
            return held.file_bytes / (self.event.load_mbyte_per_s * 1e6)
        return numbers.new_work.load_s(held, disk_bytes_per_s=self.disk_bytes_per_s)

    # --- one node ---------------------------------------------------------------------------------

    def replace_replica(self, shard: int, node: int) -> Process:
        """Restart a replica, which then gets what it lacks from its primary."""
        self.cluster.nodes.traffic[node] = 0.0
        yield from self.drain(node)
        stopped_s = float(self.env.now)
        self.cluster.nodes.set_down(node, silent=False)
        self._spread()
        yield from self._restart(shard, node)
        yield from self.catch_up(shard, node, stopped_s=stopped_s)

    def replace_only_node(self, shard: int, node: int) -> Process:
        """Restart the only node of a shard, which is down until it has loaded what it kept."""
        gap = self.watch.without_primary(shard)
        self.cluster.nodes.set_down(node, silent=False)
        yield from self._restart(shard, node)
        self._back_as_primary(shard, node)
        gap.ends_s = float(self.env.now)

    def replace_primary(self, shard: int, node: int, *, waits_for_failover: bool) -> Process:
        """Stop a primary that has replicas; one of them takes over unless it is back before.

        Parameters
        ----------
        waits_for_failover
            Whether it isn't started before one has taken over.
        """
        stopped_s = float(self.env.now)
        gap = self.watch.without_primary(shard)
        self.cluster.nodes.set_down(node, silent=False)
        away_s = self.save_s(shard).value + self.event.restart_s + self.load_s(shard).value
        after_s = self._failover_s()
        if away_s >= after_s or (waits_for_failover and math.isfinite(after_s)):
            taking_over = self.env.process(self._take_over(shard, node, after_s, gap))
            yield from self._restart(shard, node)
            yield taking_over
            yield from self.catch_up(shard, node, stopped_s=stopped_s)
            return
        yield from self._restart(shard, node)
        self._back_as_primary(shard, node)
        gap.ends_s = float(self.env.now)

    def _restart(self, shard: int, node: int) -> Process:
        """Save, run the new version, load."""
        yield from self.lasts(shard, node, "save", self.save_s(shard))
        yield from self.lasts(shard, node, "restart", exactly(self.event.restart_s))
        self.cluster.nodes.become(node, self.target.kind)
        if self.slots is None or self.cluster.cache is not None:
            self.cluster.nodes.data_bytes[node] *= self.target.kind.data_factor
        yield from self.lasts(shard, node, "load", self.load_s(shard))

    def _back_as_primary(self, shard: int, node: int) -> None:
        kept = self.event.persistence != "none"
        self.cluster.nodes.set_up(node, with_data=kept)
        self._spread()
        if not kept:
            self.watch.lose_keys(shard, self.content(shard).keys)
            self.cluster.record.mark(f"shard {shard} is back without its data")

    def drain(self, node: int) -> Process:
        """Wait until nobody waits for a node that gets no more requests."""
        nodes, until_s = self.cluster.nodes, self.env.now + DRAIN_S
        while True:
            yield self.env.timeout(self.cluster.load.step_s)
            waiting = nodes.request_queue.waiting[node] + nodes.connect_queue.waiting[node]
            if waiting + nodes.state["backing_off"][node] == 0 or self.env.now >= until_s:
                return

    def lasts(self, shard: int, node: int, what: str, seconds: Estimate, note: str = "") -> Process:
        """A step that lasts so long, unless it is nothing."""
        if seconds.value > 0:
            begun_s = float(self.env.now)
            yield self.env.timeout(seconds.value)
            self._done(shard, node, what, seconds, note, begun_s=begun_s)

    def _done(
        self, shard: int, node: int, what: str, lasts: Estimate, note: str = "", *, begun_s: float
    ) -> None:
        self.rows.append(
            ReplacementStep(
                shard=shard, node=node, what=what, note=note, begun_s=begun_s, lasts=lasts
            )
        )

    def _spread(self) -> None:
        if self.slots is not None and self.cluster.cache is None:
            self.slots.spread()

    # --- who is primary ---------------------------------------------------------------------------

    def hand_over(self, shard: int) -> Process:
        """CLUSTER FAILOVER: the primary lets clients wait until a replica has taken over."""
        assert self.slots is not None
        old, new = self.primary(shard), self.replicas(shard)[0]
        pause_s = hand_over_s(self._rules(), seed=self.cluster.seed + shard)
        gap = self.watch.without_primary(shard)
        self.cluster.nodes.stall(old, pause_s)
        yield from self.lasts(shard, old, "hand over", exactly(pause_s), f"to node {new}")
        self._promote(shard, old, new)
        gap.ends_s = float(self.env.now)

    def _take_over(self, shard: int, old: int, after_s: float, gap: NoPrimary) -> Process:
        yield from self.lasts(shard, old, "failover", exactly(after_s))
        there = self.replicas(shard)
        if there:
            self._promote(shard, old, there[0])
            gap.ends_s = float(self.env.now)

    def _promote(self, shard: int, old: int, new: int) -> None:
        assert self.slots is not None
        self.slots.primary[shard] = new
        self.cluster.nodes.traffic[old] = 0.0
        self._spread()

    def _rules(self) -> FailoverRules:
        old = self.target.old
        return rules_for(
            old.engine,
            old.version,
            primaries=len(self.shards),
            replicas=self.cluster.scenario.cluster.replicas,
            node_timeout_s=self.event.node_timeout_s,
        )

    def _failover_s(self) -> float:
        """Until a replica of a primary that was stopped has taken over."""
        return float(fail_over(self._rules(), 1, seed=self.cluster.seed).recovered_s[0])

    # --- synchronising ----------------------------------------------------------------------------

    def catch_up(self, shard: int, node: int, *, stopped_s: float) -> Process:
        """A replica that has restarted follows its primary, and serves once it has everything."""
        kept = self.event.persistence == "snapshot"
        source = self.recent.of(self.primary(shard))
        away_s = float(self.env.now) - stopped_s
        missed = source.writes_per_s * (source.write_bytes + COMMAND_BYTES) * away_s
        if kept and missed <= self._backlog_bytes():
            note = f"{missed / 1e6:.3g} MB of changes"
            yield from self.lasts(shard, node, "partial sync", exactly(RECONNECT_S), note)
        else:
            yield from self.synchronise(shard, node, source=lambda: self.primary(shard))
        if not self.given_up and self.cluster.nodes.paid[node]:
            self.cluster.nodes.set_up(node, with_data=True)
            self._spread()

    def _backlog_bytes(self) -> float:
        mbyte = self.event.backlog_mbyte
        return backlog_bytes(self.target.old) if mbyte is None else mbyte * 1024 * 1024

    def synchronise(
        self, shard: int, node: int, *, source: Giver, writes_of: Giver | None = None
    ) -> Process:
        """A full sync, again and again until one succeeds.

        Parameters
        ----------
        source
            Function that returns the node whose child writes the data.
        writes_of
            The same of the node that clients write to; the source without it.
        """
        deadline_s = self.env.now + self.event.give_up_s
        attempts = 0
        while True:
            while not self.cluster.nodes.is_up(source()) and self.env.now < deadline_s:
                yield self.env.timeout(RECONNECT_S)
            attempts += 1
            begun_s = float(self.env.now)
            sync, lasts = yield from self._attempt(shard, source, writes_of)
            lasted_s = float(self.env.now) - begun_s
            if lasts is not None:
                break
            what = f"full sync: {sync.outcome}"
            self._done(shard, node, what, exactly(lasted_s), begun_s=begun_s)
            if self.env.now >= deadline_s:
                self.given_up = f"a full sync of shard {shard}: {sync.outcome}"
                return
            if attempts <= 3:
                self.cluster.record.mark(f"full sync of shard {shard}: {sync.outcome}")
            yield self.env.timeout(min(RETRY_S, deadline_s - self.env.now))
        size = self.content(shard).file_bytes / 1e9
        note = f"{size:.3g} GB, {sync.source_share:.0%} of node {source()}'s main thread"
        if sync.buffered_bytes > 0:
            note += f", {sync.buffered_bytes / 1e6:.3g} MB of changes"
        lasted = with_interval_of(lasted_s, lasts)
        self._done(shard, node, "full sync", lasted, note, begun_s=begun_s)

    def _attempt(
        self, shard: int, source: Giver, writes_of: Giver | None
    ) -> Generator[simpy.Event, Any, tuple[FullSync, Estimate | None]]:
        nodes, env, giver = self.cluster.nodes, self.env, source()
        load = self.recent.of(giver)
        if writes_of is not None:
            writes = self.recent.of(writes_of())
            load = replace(load, writes_per_s=writes.writes_per_s)
        held = self.content(shard)
        sync, *drawn = [
            self.sync_of(held, giver, load, numbers) for numbers in (self._nominal, *self._drawn)
        ]
        lasts = interval_over_draws(sync.duration_s, [each.duration_s for each in drawn])
        self.outcomes.see(sync.outcome, [each.outcome for each in drawn])
        if sync.outcome == "synchronised":
            parts_s = sync.fork_s + sync.snapshot_s + sync.load_s + sync.changes_s
            yield env.timeout(max(0.0, sync.duration_s - parts_s))
        nodes.stall(giver, sync.fork_s)
        claim = nodes.occupy(giver, sync.source_share)
        change_bytes = load.writes_per_s * (load.write_bytes + COMMAND_BYTES)
        held_s = sync.buffered_bytes / max(change_bytes, 1.0)
        writing_s = sync.fork_s + sync.snapshot_s
        if sync.outcome != "synchronised":
            yield env.timeout(max(0.1, min(writing_s, held_s)))
            claim.release()
            return sync, None
        yield env.timeout(writing_s)
        claim.release()
        yield env.timeout(sync.load_s + sync.changes_s)
        return sync, lasts

    def sync_of(
        self, held: NodeContent, giver: int, load: NodeLoad, numbers: SyncNumbers
    ) -> FullSync:
        """What a full sync from a node takes under this load."""
        event, nodes = self.event, self.cluster.nodes
        is_new = nodes.kind_of(giver) == self.target.kind
        work, engine = (
            (numbers.new_work, self.target.new) if is_new else (numbers.old_work, self.target.old)
        )
        work = replace(work, store_ns_per_byte=numbers.new_work.store_ns_per_byte)
        data_bytes = float(nodes.data_bytes[giver])
        return full_sync(
            work,
            content=held,
            data_bytes=data_bytes,
            saving_s=numbers.save_s(held, engine, data_bytes=data_bytes),
            bytes_per_s=numbers.path.mean_bytes_per_s(held.file_bytes),
            diskless=diskless(engine) if event.diskless is None else event.diskless,
            apply_s=self.target.kind.surrogate.main_ps * 1e-12,
            delay_s=event.sync_delay_s,
            source=load,
            disk_bytes_per_s=self.disk_bytes_per_s,
            load_s=self.file_load_s(held, numbers),
            buffer_limit_bytes=event.buffer_mbyte * 1024 * 1024,
        )
