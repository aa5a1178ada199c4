"""Slots on their way from shard to shard, under the load of their nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from forecache.hwprofiles import load_host
from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.network import Path, between, constant
from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.statistics import Estimate

from ...engines.profile import load_engine
from ...prediction.predict import DRAWS
from ...prediction.uncertainty import Draw, Drawn, Range, draw_host, moved
from ...results.intervals import interval_over_draws
from ...scenario.workload import sizes_of
from ..recorder import Process
from .cluster import Cluster
from .events import RTT_US, Migrate, Moving, Resize
from .intervals import Outcomes, RunStep, exactly, span_with_interval, with_interval_of
from .load.load import LoadStep
from .migration import (
    FSYNC_RANGE_MS,
    IDLE,
    Atomic,
    KeyByKey,
    Link,
    MigrationProfile,
    MigrationWork,
    NodeLoad,
    Saving,
    atomic,
    key_by_key,
    load_migration_profile,
    saving,
)
from .slots import Move, rebalance, share_still_redirected

_RETRY_S = 10.0
"""Before a job that failed begins again (assumed)."""

RTT_RANGE_US = (150.0, RTT_US, 450.0)
"""Within a region (assumed)."""


LOOK_S = 5.0
"""How often a move looks anew at the load of its nodes, and over how long that is averaged."""


class RecentLoad:
    """Notes what is asked, step by step, once `begin` was called.

    Attributes
    ----------
    commands_per_s
        Commands of all requests that began, averaged over the last seconds.
    """

    def __init__(self, cluster: Cluster, *, memory_s: float = LOOK_S) -> None:
        self._cluster, self._memory_s = cluster, memory_s
        self.commands_per_s = 0.0

    def begin(self) -> None:
        """From now on."""
        self._cluster.after_step(self._note)

    def _note(self, step: LoadStep) -> None:
        now = float(step.offered @ step.commands_each) / step.length_s
        weight = min(1.0, step.length_s / self._memory_s) if self.commands_per_s else 1.0
        self.commands_per_s += (now - self.commands_per_s) * weight

    def of(self, node: int) -> NodeLoad:
        """What clients ask of a node: its present share of that."""
        nodes = self._cluster.nodes
        rate = self.commands_per_s * float(nodes.traffic[node])
        one_s = nodes.kind_of(node).surrogate.main_ps * 1e-12
        return NodeLoad(
            busy=min(1.0, rate * one_s),
            waiting_s=float(nodes.connections[node]) * one_s,
            writes_per_s=rate * self._cluster.scenario.demand.mix.set,
            write_bytes=mean_value_bytes(self._cluster),
        )


def mean_value_bytes(cluster: Cluster) -> float:
    """Of a value."""
    sizes = sizes_of(cluster.scenario.data.value_bytes)
    return sum(size * weight for size, weight in sizes)


@dataclass(frozen=True)
class MovingNumbers:
    """What is uncertain of moves: at the values of all numbers, or in a draw of them."""

    work: MigrationWork
    path: Path
    rtt_s: float
    saves: Saving


class Mover:
    """Moves slots: sources at the same time if atomic, everything in turn by an operator.

    Parameters
    ----------
    memory_s
        Time over which the load of nodes is averaged.
    """

    def __init__(self, event: Moving, cluster: Cluster, *, memory_s: float = LOOK_S) -> None:
        self.event, self.cluster = event, cluster
        self.recent = RecentLoad(cluster, memory_s=memory_s)
        self.slots = cluster.slots
        name = "redis-key-by-key" if event.method == "key_by_key" else "valkey-atomic"
        profile = load_migration_profile(name)
        self._error = profile.error.half_width
        self._nominal = self._numbers(profile)
        self._drawn = [self._numbers(profile, Draw(cluster.seed, n)) for n in range(DRAWS)]
        self._steps: list[RunStep] = []
        self._outcomes = Outcomes("an atomic move", "moved")
        self.begun_s = self.deadline_s = 0.0
        self.moved = self.restarts = 0
        self.done = False
        self.unknown = 0.0
        """Share of the slots that changed hands and that the mean client has not noticed."""
        self.longest_block = exactly(0.0)
        """The longest standstill of a source, in s."""

    def _numbers(self, profile: MigrationProfile, draw: Drawn | None = None) -> MovingNumbers:
        event, nodes = self.event, self.cluster.scenario.cluster
        engine = load_engine(nodes.engine, nodes.engine_version)

        def chosen(field: str, bounds: Range) -> float:
            if draw is None or field in event.model_fields_set:
                return float(getattr(event, field))
            return moved(bounds, draw.normals([field])[0])

        return MovingNumbers(
            work=profile.on(rate_per_ns(self.cluster, draw), draw=draw),
            path=moving_path(self.cluster, event.network_gbit_per_s, draw),
            rtt_s=1e-6 * chosen("rtt_us", RTT_RANGE_US),
            saves=saving(
                *(engine.engine, engine.version),
                fsync_ms=chosen("fsync_ms", FSYNC_RANGE_MS),
                replicas=nodes.replicas,
            ),
        )

    def move(self, moves: list[Move], what: str) -> Process:
        """All of them, with facts and a series about it; `done` says whether all are there."""
        cluster, env, event = self.cluster, self.cluster.env, self.event
        total = sum(len(move.slots) for move in moves)
        cluster.record.gauge(f"slots moved, {what}", "slots", "progress", lambda: float(self.moved))
        yield from self.carry(moves)
        cluster.record.warnings += self._outcomes.warnings()
        took = None
        if self.done:
            took = span_with_interval(self.begun_s, env.now, self._steps)
        cluster.record.mark(f"{what}: done" if self.done else f"{what}: given up")
        cluster.record.fact(
            what, took, "s",
            f"{total} slots moved" if self.done else f"gave up after {event.give_up_s:g} s with "
            f"{self.moved} of {total} slots moved and {self.restarts} restarts",
        )  # fmt: skip
        if took is not None and event.clients_follow_s:
            ends = (end + 3 * event.clients_follow_s for end in (took.value, took.low, took.high))
            cluster.record.fact(
                "19 of 20 clients know the new map", Estimate(*ends), "s",
                "three mean times later",
            )  # fmt: skip
        if self.longest_block.value > 0:
            longest_ms = with_interval_of(1e3 * self.longest_block.value, self.longest_block)
            note = "one MIGRATE, or nodes.conf"
            cluster.record.fact("longest standstill of a source", longest_ms, "ms", note)

    def carry(self, moves: list[Move]) -> Process:
        """All of them, without a message; `done` says whether all are there."""
        env = self.cluster.env
        jobs = self._jobs(moves)
        if self.event.method == "key_by_key":
            yield env.process(self._one_by_one(jobs))
        else:
            sources = dict.fromkeys(move.source for move in jobs)
            yield env.all_of([
                env.process(self._one_by_one([m for m in jobs if m.source == source]))
                for source in sources
            ])  # fmt: skip
        self.done = self.moved == sum(len(move.slots) for move in moves)

    def look(self) -> Process:
        """Begin: note the load from now on, and look at it for a moment."""
        env = self.cluster.env
        self.begun_s = env.now
        self.deadline_s = env.now + self.event.give_up_s
        self.recent.begin()
        self.cluster.after_step(self._follow)
        yield env.timeout(LOOK_S)

    def _jobs(self, moves: list[Move]) -> list[Move]:
        """The moves, no larger than a job."""
        most = self.event.slots_per_job
        if most is None or self.event.method == "key_by_key":
            return moves
        return [
            Move(move.source, move.target, move.slots[first : first + most])
            for move in moves
            for first in range(0, len(move.slots), most)
        ]

    def _one_by_one(self, moves: list[Move]) -> Process:
        for move in moves:
            if self.event.method == "key_by_key":
                yield from self._move_keys(move)
            else:
                yield from self._move_job(move)
            if self.cluster.env.now >= self.deadline_s:
                return

    def _interval(self, value: float, drawn: Iterable[float]) -> Estimate:
        """A time of a move, with its interval from what it is in draws."""
        return interval_over_draws(value, list(drawn), error=self._error)

    def _keys(self, move: Move) -> float:
        """Keys of all its slots."""
        return float(self.slots.keys[list(move.slots)].sum())

    def _link(self, keys: float, numbers: MovingNumbers) -> Link:
        """Between the nodes of a move: one connection, which carries all of its keys."""
        allowed = numbers.path.mean_bytes_per_s(keys * mean_value_bytes(self.cluster))
        limit = self.event.stream_mbyte_per_s if self.event.method == "atomic" else None
        return Link(
            operator_rtt_s=numbers.rtt_s,
            node_rtt_s=numbers.rtt_s,
            bytes_per_s=min(allowed, limit * 1e6 if limit else math.inf),
        )

    def _hand_over(self, move: Move, count: int, done: int) -> None:
        part = list(move.slots[done : done + count])
        self.slots.owners[part] = move.target
        self.moved += len(part)
        self.unknown += float(self.slots.shares[part].sum())
        self.slots.spread()

    def _move_keys(self, move: Move) -> Process:
        cluster, env = self.cluster, self.cluster.env
        source, target = self._nodes(move)
        claims = [cluster.nodes.occupy(source, 0.0), cluster.nodes.occupy(target, 0.0)]
        done, begun_s, slot_lasts = 0.0, float(env.now), exactly(0.0)
        up = [node for node in range(cluster.nodes.count) if cluster.nodes.is_up(node)]
        others = [node for node in up if node not in (source, target)]
        busiest = max(others, key=lambda node: float(cluster.nodes.traffic[node]), default=None)
        taking_part = (source, target, busiest)
        saving_claims = [cluster.nodes.occupy(node, 0.0) for node in others]
        while done < len(move.slots) and env.now < self.deadline_s:
            loads = [IDLE if node is None else self.recent.of(node) for node in taking_part]
            keys = self._keys(move)
            slot = self._slot(move, keys, loads, self._nominal)
            slot_s = self._slot_s(slot)
            if slot_lasts.value == 0.0:
                # The load seldom changes much while one shard gives to another.
                drawn = [self._slot(move, keys, loads, numbers) for numbers in self._drawn]
                slot_lasts = self._interval(slot_s, map(self._slot_s, drawn))
                standstills = (each.longest_block_s for each in drawn)
                standstill = self._interval(slot.longest_block_s, standstills)
                self.longest_block = max(
                    self.longest_block, standstill, key=lambda block: block.value
                )
            claims[0].change(min(1.0, slot.source_blocked_s / slot_s))
            claims[1].change(min(1.0, slot.target_blocked_s / slot_s))
            for claim in saving_claims:
                claim.change(min(1.0, slot.save_s / slot_s))
            lasts_s = min(LOOK_S, (len(move.slots) - done) * slot_s)
            yield env.timeout(lasts_s)
            now = min(float(len(move.slots)), done + lasts_s / slot_s + 1e-9)
            self._hand_over(move, math.floor(now) - math.floor(done), math.floor(done))
            done = now
        for claim in (*claims, *saving_claims):
            claim.release()
        lasted = with_interval_of(float(env.now) - begun_s, slot_lasts)
        self._steps.append(RunStep(begun_s=begun_s, lasts=lasted))

    def _slot(
        self, move: Move, keys: float, loads: Sequence[NodeLoad], numbers: MovingNumbers
    ) -> KeyByKey:
        """One slot, under the load of its source, of its target and of the busiest other node."""
        source, target, busiest = loads
        return key_by_key(
            numbers.work,
            keys=round(keys / len(move.slots)),
            value_bytes=mean_value_bytes(self.cluster),
            link=self._link(keys, numbers),
            primaries=sum(node is not None for node in self.slots.primary.values()),
            pipeline=self.event.pipeline,
            source=source,
            target=target,
            others=busiest,
            saves=numbers.saves,
        )

    def _slot_s(self, slot: KeyByKey) -> float:
        """How long one slot takes, pauses of the operator included."""
        return max(slot.slot_s, slot.source_blocked_s / self.event.most_blocked)

    def _move_job(self, move: Move) -> Process:
        cluster, env = self.cluster, self.cluster.env
        source, target = self._nodes(move)
        while env.now < self.deadline_s:
            source_load = self.recent.of(source)
            owned = self.slots.owners == move.source
            share = float(
                self.slots.shares[list(move.slots)].sum() / self.slots.shares[owned].sum()
            )
            keys, loads = self._keys(move), (source_load, self.recent.of(target))
            job, *drawn = [
                self._job(source, keys, share, loads, numbers)
                for numbers in (self._nominal, *self._drawn)
            ]
            lasts = self._interval(job.duration_s, [each.duration_s for each in drawn])
            self._outcomes.see(job.outcome, [each.outcome for each in drawn])
            cluster.nodes.stall(source, job.fork_s)
            claims = [
                cluster.nodes.occupy(source, min(1.0, job.source_share)),
                cluster.nodes.occupy(target, min(1.0, job.target_share)),
            ]
            if job.outcome == "moved":
                yield env.timeout(job.duration_s - job.pause_s)
                cluster.nodes.stall(source, job.pause_s)
                yield env.timeout(job.pause_s)
                self._hand_over(move, len(move.slots), 0)
                self._steps.append(RunStep(begun_s=env.now - job.duration_s, lasts=lasts))
            else:
                # Until the buffer is full, or changes outrun what leaves: then from the beginning.
                change = source_load.writes_per_s * share * source_load.write_bytes
                full_s = self.event.buffer_mbyte * 1024 * 1024 / max(change, 1.0)
                lasts_s = min(job.fork_s + job.snapshot_s, full_s)
                yield env.timeout(min(max(lasts_s, 0.1), max(0.1, self.deadline_s - env.now)))
                self.restarts += 1
                if self.restarts <= 3:
                    cluster.record.mark(f"move from shard {move.source}: {job.outcome}")
            for claim in claims:
                claim.release()
            if job.outcome == "moved":
                return
            yield env.timeout(_RETRY_S)

    def _job(
        self,
        source: int,
        keys: float,
        share: float,
        loads: Sequence[NodeLoad],
        numbers: MovingNumbers,
    ) -> Atomic:
        """Keys of a node that get a share of what it is asked for; its load and the target's."""
        return atomic(
            numbers.work,
            keys=keys,
            value_bytes=mean_value_bytes(self.cluster),
            moving_share=share,
            data_bytes=float(self.cluster.nodes.data_bytes[source]),
            link=self._link(keys, numbers),
            source=loads[0],
            target=loads[1],
            cores=self.event.cores,
            threads=self.event.threads,
            buffer_limit_bytes=self.event.buffer_mbyte * 1024 * 1024,
        )

    def _nodes(self, move: Move) -> tuple[int, int]:
        source, target = self.slots.primary[move.source], self.slots.primary[move.target]
        assert source is not None
        assert target is not None
        return source, target

    def _follow(self, step: LoadStep) -> None:
        """Clients learn the new map; until then MOVED comes before an answer."""
        if self.unknown <= 0.0:
            return
        nodes, follow = self.cluster.nodes, self.event.clients_follow_s
        if follow is None:
            each = self.recent.commands_per_s / max(1, self.cluster.clients.pods)
            self.unknown = share_still_redirected(
                self.unknown, requests_per_s=each, seconds=step.length_s
            )
        else:
            self.unknown *= math.exp(-step.length_s / follow) if follow > 0 else 0.0
        active = nodes.traffic > 0
        nodes.work_factor[active] = 1.0 + self.unknown
        if self.unknown < 1e-4:
            self.unknown = 0.0
            nodes.work_factor[active] = 1.0


def moving_path(cluster: Cluster, gbit_per_s: float | None, draw: Drawn | None = None) -> Path:
    """What lies between two nodes: so much, or what their host has."""
    if gbit_per_s is not None:
        return Path([constant(gbit_per_s)])
    speed = speed_of(cluster, draw)
    return between(speed, speed)


def rate_per_ns(cluster: Cluster, draw: Drawn | None = None) -> float:
    """Instructions a nanosecond of the nodes' host."""
    speed = speed_of(cluster, draw)
    return speed.user_ipc * speed.clock_ghz


def speed_of(cluster: Cluster, draw: Drawn | None = None) -> HostSpeed:
    """The nodes' host, or a draw of it."""
    host = load_host(cluster.scenario.cluster.host)
    return host.speed(None if draw is None else draw_host(host, draw))


# --- shards are added or taken away, or give slots to each other ----------------------------------


def resize(event: Resize, cluster: Cluster) -> Process:
    """Add nodes, move slots, take nodes away."""
    slots, nodes, mover = cluster.slots, cluster.nodes, Mover(event, cluster)
    before = slots.shards
    cluster.record.mark(f"from {len(before)} to {event.shards} shards")
    yield from mover.look()
    if event.shards > len(before):
        yield cluster.env.timeout(event.provision_s)
        count, first = event.shards - len(before), max(slots.primary) + 1
        for shard in range(first, first + count):
            slots.primary[shard] = nodes.add(shard=shard)
            for _ in range(cluster.scenario.cluster.replicas):
                nodes.add(shard=shard)
        cluster.record.mark(f"{count} new shards are there, without slots")
    shards = slots.shards[: event.shards]
    yield from mover.move(rebalance(slots.owners, shards), f"resize to {event.shards} shards")
    for shard in slots.shards[event.shards :] if mover.done else []:
        for node in np.flatnonzero(nodes.shard == shard):
            nodes.retire(int(node))
        slots.primary[shard] = None


def migrate_slots(event: Migrate, cluster: Cluster) -> Process:
    """Choose slots of a shard and move them to another."""
    slots = cluster.slots
    for name in ("source", "target"):
        if slots.primary.get(getattr(event, name)) is None:
            known = ", ".join(str(shard) for shard in slots.shards)
            raise FieldError(name, found=getattr(event, name), valid=f"one of {known}")
    own = np.flatnonzero(slots.owners == event.source)
    if event.hottest:
        own = own[np.argsort(-slots.shares[own], kind="stable")]
    chosen = tuple(int(slot) for slot in own[: event.slots])
    cluster.record.mark(f"{len(chosen)} slots go from shard {event.source} to {event.target}")
    mover = Mover(event, cluster)
    yield from mover.look()
    moves = [Move(event.source, event.target, chosen)]
    yield from mover.move(moves, f"{len(chosen)} slots to shard {event.target}")
