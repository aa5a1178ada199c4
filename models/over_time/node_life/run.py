"""The life of a node: what its keys, its memory and its main thread are at, minute by minute.

Keys come and go in a `Keyspace`; `weigh_keys` says what they weigh, the node's simulation what it
answers in which time (`cluster/surrogate.py`). Eviction and expiry cycles take from the main thread
what the engine's own DEL and the waits for the keys they look at take.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from forecache.hwprofiles.files import FieldError
from forecache.sim.errors import InputError

from ...footprint.limits import (
    FRAGMENTATION,
    SNAPSHOT_BYTES_PER_S,
    MemoryLimit,
    copied_pages,
    gib,
    host_limit,
    machine_limit,
    resident,
)
from ...footprint.schema import Strings
from ...footprint.weigh import PROCESS_BYTES, NodeFootprint, baseline, key_table, key_weight
from ...layouts.generations import generation
from ...prediction.predict import Progress
from ...prediction.system import System
from ...results.series import Mark, Run
from ...scenario.command_table import COMMANDS
from ...scenario.schema import Scenario
from ...scenario.workload import Mix, sizes_of
from ...step_times.command_times import command_times
from ...step_times.inputs import ASSUMED_DISK
from ...step_times.workload_caches import shared_line_ns
from ..cluster.load.load import expected_requests
from ..cluster.surrogate import QUANTILES, Surrogate, surrogate_of
from ..recorder import Recorder
from .keyspace import KeyKinds, Keyspace, Requests
from .rules import life_rules
from .schema import Load, NodeLife, TakeSnapshot, TimeToLive

_LONGEST_STEP_S = 60.0
_SIZES = 16
"""How many evenly spread sizes stand for a range of values."""

_LOOK_INSTRUCTIONS = 80.0
"""What a cycle does for a key that it looks at and leaves, beside waiting for its lines (assumed,
40 to 160)."""

_FAST_CYCLES_PER_S = 500.0
"""At most: a fast cycle of a millisecond begins two milliseconds after the last one."""

_REHASHED_PER_S = 60_000.0
"""Buckets that a timer of 10 Hz moves, a millisecond each time (assumed, 20,000 to 150,000); every
command moves one more (`dictRehashMilliseconds`, `_dictRehashStep`)."""

_STALLS = 400
_FULL = 0.995
"""Of maxmemory, from where on memory counts as full."""


def run_node_life(scenario: NodeLife, seed: int, progress: Progress) -> Run:
    """Simulate a scenario of `kind: node_life`."""
    return _Life(scenario, seed=seed, progress=progress).run()


@dataclass(frozen=True)
class KeyTimes:
    """Time of the main thread, in ns.

    Attributes
    ----------
    look
        To look at a key that stays, in an expiry cycle.
    expire
        And at one that goes, more.
    evict
        To find a key to evict, and evict it.
    """

    look: float
    expire: float
    evict: float


def key_times(node: Scenario, system: System, *, samples: int) -> KeyTimes:
    """What eviction and expiry take of a node's main thread for a key.

    A key goes as by DEL. Looking at one waits for the lines that EXISTS waits for; a scan comes to
    buckets that lie side by side, and waits for the key's own only.
    """
    found = {}
    for command in ("del", "exists"):
        workload = node.workload.model_copy(update={"mix": Mix(**{command: 1})})
        inputs = system.inputs(node.model_copy(update={"workload": workload, "io_threads": 1}))
        times = command_times(inputs, shared_ns=shared_line_ns(inputs))
        found[command] = times.execute_ns[0], float(times.stall_ns[0].mean())
        look_ns = inputs.user_ns(_LOOK_INSTRUCTIONS)
    going_ns, wait_ns = sum(found["del"]), found["exists"][1]
    return KeyTimes(
        look=look_ns + wait_ns / 2.0,
        expire=going_ns,
        evict=going_ns + samples * (look_ns + wait_ns),
    )


class _Life:
    """A run: the state of a node, and what is recorded of it."""

    def __init__(self, scenario: NodeLife, *, seed: int, progress: Progress) -> None:
        self.scenario, self._progress = scenario, progress
        data, settings = scenario.data, scenario.settings
        asked = scenario.demand.mix.commands
        writes = sum(each.share for name, each in asked.items() if _is_write(name))
        deletes = sum(each.share for name, each in asked.items() if name in _DELETES)
        total = sum(each.share for each in asked.values())
        self.report_s = scenario.report
        self.parts = max(1, math.ceil(self.report_s / _LONGEST_STEP_S - 1e-9))
        self.step_s = self.report_s / self.parts
        self.steps = max(1, round(scenario.duration_s / self.step_s))
        expected, _ = expected_requests(
            scenario.demand, steps=self.steps, step_s=self.step_s, seed=seed
        )
        self.rates = expected / self.step_s
        self.node_surrogate, case, self.system = _surrogate(scenario, seed, progress)
        engine = self.system.engine
        try:
            self.generation = generation(engine.engine, engine.version)
        except InputError as error:
            raise InputError(f"field 'engine': {error}") from None
        self.rules = life_rules(
            self.generation.engine,
            engine.version,
            policy=settings.maxmemory_policy,
            hz=settings.hz,
            effort=settings.active_expire_effort,
        )
        self.footprint = NodeFootprint(self.generation, self.generation.allocator)
        self.beside = baseline(self.generation).total
        self.times = key_times(case.scenario, self.system, samples=settings.maxmemory_samples)
        ttl = data.ttl_s
        ends = (ttl.from_s, ttl.to_s) if isinstance(ttl, TimeToLive) else (ttl or 1.0, ttl or 1.0)
        loads = [event for event in scenario.events if isinstance(event, Load)]
        kinds = KeyKinds(
            keys=data.keys,
            popularity=data.popularity,
            sizes=self._sizes(),
            ttl=data.timed,
            ttl_s=ends,
            longest_ttl_s=max([ends[1], *(each.ttl_s for each in loads if each.ttl_s)]),
        )
        most = settings.maxmemory_bytes or math.inf
        room = most - self.beside
        table = self._tables(min(data.keys, room / kinds.mean_bytes), 0.0)
        if room - table < kinds.mean_bytes:
            valid = f"more than the {self.beside + table:,.0f} bytes of a node without keys"
            raise FieldError("settings.maxmemory_bytes", found=most, valid=valid)
        self.keyspace = Keyspace(
            kinds,
            Requests(
                rate_rps=float(self.rates.mean()),
                reads=(total - writes - deletes) / total,
                writes=writes / total,
                deletes=deletes / total,
                stores_misses=scenario.stores_misses,
            ),
            room_bytes=room - table,
            duration_s=scenario.duration_s,
            seed=seed,
            begins_full=data.begins == "full",
        )
        self._set_rules()
        self.reads = (total - writes - deletes) / total
        self.limit = _limit(scenario, self.system)
        self.record = Recorder()
        self._peak_keys = 0.0
        self._rehash_until_s = self._rehash_bytes = 0.0
        self._counted = dict.fromkeys(_COUNTS, 0.0)
        self._child_until_s = -1.0
        self._child: tuple[float, float, float] | None = None
        self._most_resident = 0.0
        self._is_full = self._over = False
        self._overlapping = 0

    def _sizes(self) -> list[tuple[float, float, float]]:
        """Bytes of a key by the size of its value, without and with a time to live; its share."""
        data = self.scenario.data

        def weight(value_bytes: int, ttl: float) -> float:
            one = Strings(
                type="string", keys=1, key_bytes=data.key_bytes, value_bytes=value_bytes, ttl=ttl
            )
            return key_weight(self.footprint, one).settled

        return [
            (weight(size, 0.0), weight(size, 1.0), share)
            for size, share in sizes_of(data.value_bytes, of_a_range=_SIZES)
        ]

    def _tables(self, keys: float, expiring: float) -> float:
        table = key_table(self.footprint, max(keys, 1.0)).settled
        return table + key_table(self.footprint, expiring, expires=True).settled

    def _set_rules(self) -> None:
        state, settings, rules = self.keyspace.state, self.scenario.settings, self.rules
        state["policy"], state["is_volatile"] = rules.policy, rules.is_volatile
        state["samples"], state["has_pool"] = settings.maxmemory_samples, rules.has_pool
        state["log_factor"] = settings.lfu_log_factor
        state["decay_s"] = 60.0 * settings.lfu_decay_time
        state["period_s"] = state["until_cycle_s"] = 1.0 / settings.hz
        state["scans"], state["sample"] = rules.scans, rules.sample
        state["accepted"] = rules.accepted
        state["slow_limit_s"], state["fast_limit_s"] = rules.slow_limit_s, rules.fast_limit_s
        state["fast_cycles_per_s"] = _FAST_CYCLES_PER_S
        state["look_ns"], state["expire_ns"] = self.times.look, self.times.expire

    # --- memory -----------------------------------------------------------------------------------

    @property
    def keys(self) -> float:
        """Keys that are there, expired ones included."""
        return float(self.keyspace.state["there"]) * self.keyspace.scale

    @property
    def expiring(self) -> float:
        """Those of them that have a time to live."""
        return float(self.keyspace.state["expiring"]) * self.keyspace.scale

    def _table_bytes(self, now_s: float, rate_rps: float) -> float:
        """Tables of keys; both of them while one moves. They shrink when a tenth is left."""
        keys = self.keys
        before = self._tables(self._peak_keys, self.expiring)
        if keys > self._peak_keys or keys < 0.1 * self._peak_keys:
            self._peak_keys = keys
        after = self._tables(self._peak_keys, self.expiring)
        if after > 1.2 * before and now_s > 0.0:
            table = key_table(self.footprint, max(keys, 1.0))
            self._rehash_bytes = table.rehash
            seconds = table.rehash / 8.0 / (_REHASHED_PER_S + rate_rps)
            self._rehash_until_s = now_s + seconds
            self.record.marks.append(
                Mark(now_s, f"the table of keys doubles at {keys:,.0f} keys: {seconds:,.0f} s")
            )
        return after + (self._rehash_bytes if now_s < self._rehash_until_s else 0.0)

    def _limit_keys(self, now_s: float, rate_rps: float) -> float:
        """Say what keys may take now; returns what everything else takes."""
        beside = self.beside + self._table_bytes(now_s, rate_rps)
        most = self.scenario.settings.maxmemory_bytes
        if most is not None:
            self.keyspace.state["limit_bytes"] = max(0.0, most - beside) / self.keyspace.scale
        return beside

    # --- step by step -----------------------------------------------------------------------------

    def run(self) -> Run:
        """Go through all steps."""
        scenario = self.scenario
        self._limit_keys(0.0, float(self.rates[0]))
        self.keyspace.warm_up()
        snapshots = self._snapshots()
        hits: list[tuple[float, float]] = []
        worst = (0.0, 0.0)
        stopped: list[float] = []
        for report in range(math.ceil(self.steps / self.parts)):
            begin_s = report * self.report_s
            asked = stall_s = 0.0
            for step in range(report * self.parts, min((report + 1) * self.parts, self.steps)):
                now_s, end_s = step * self.step_s, (step + 1) * self.step_s
                rate = float(self.rates[step])
                self.keyspace.set_rate(rate)
                beside = self._limit_keys(now_s, rate)
                self._load(now_s, end_s)
                self.keyspace.advance(end_s)
                asked += rate * self.step_s
                while snapshots and snapshots[0][0] < end_s:
                    at_s, child_s = snapshots.pop(0)
                    used = beside + self._data_bytes
                    stopped += self._fork(at_s, child_s, used)
                    stall_s = max(stall_s, stopped[-1] if stopped else 0.0)
            used = beside + self._data_bytes
            seconds = min(self.report_s, scenario.duration_s - begin_s)
            found = self._report(begin_s + seconds, seconds, asked, used, stall_s)
            hits.append((found["hit"], asked * self.reads))
            if found["p99"] > worst[0]:
                worst = found["p99"], begin_s + seconds
            self._progress_at(begin_s + seconds)
        self.keyspace.check()
        self._facts(hits, worst, stopped)
        return self.record.run()

    def _progress_at(self, now_s: float) -> None:
        if self._progress is not None and int(10 * now_s / self.scenario.duration_s) != int(
            10 * (now_s - self.report_s) / self.scenario.duration_s
        ):
            self._progress(f"simulated {now_s / self.scenario.duration_s:.0%}")

    @property
    def _data_bytes(self) -> float:
        return float(self.keyspace.state["bytes"]) * self.keyspace.scale

    def _load(self, now_s: float, end_s: float) -> None:
        """Write what batch jobs write in a step."""
        for event in self.scenario.events:
            if not isinstance(event, Load):
                continue
            first = (now_s - event.at_s) / event.over_s
            last = (end_s - event.at_s) / event.over_s
            if last <= 0.0 or first >= 1.0:
                continue
            if first <= 0.0:
                what = f"a job writes {event.share:.0%} of the keys in {event.over_s:,.0f} s"
                self.record.marks.append(Mark(event.at_s, what))
            ends = (max(first, 0.0) * event.share, min(last, 1.0) * event.share)
            self.keyspace.write(first=ends[0], last=ends[1], ttl_s=event.ttl_s)

    def _snapshots(self) -> list[tuple[float, float | None]]:
        """When snapshots begin, and how long their children live where that is given."""
        scenario = self.scenario
        found: list[tuple[float, float | None]] = [
            (event.at_s, event.child_s)
            for event in scenario.events
            if isinstance(event, TakeSnapshot)
        ]
        if (every_s := scenario.snapshot_every_s) is not None:
            times = np.arange(every_s, scenario.duration_s, every_s)
            found += [(float(at_s), None) for at_s in times]
        return sorted(found, key=lambda each: each[0])

    def _fork(self, at_s: float, child_s: float | None, used: float) -> list[float]:
        """Begin a snapshot; returns how long the node stands still, if it does."""
        if at_s < self._child_until_s:
            self._overlapping += 1
            return []
        held = resident(used, fragmentation=FRAGMENTATION, process_bytes=PROCESS_BYTES).resident
        seconds = child_s or used / SNAPSHOT_BYTES_PER_S
        stop_s = ASSUMED_DISK.fork_ms_per_gib * held / 2**30 / 1e3
        self._child_until_s = at_s + seconds
        self._child = (at_s, seconds, 0.0)
        if len(self.record.marks) < _STALLS:
            what = f"a snapshot begins: the node stops for {1e3 * stop_s:,.0f} ms"
            self.record.marks.append(Mark(at_s, what))
        return [stop_s]

    def _resident(self, now_s: float, used: float, writes_per_s: float) -> float:
        """Resident memory of server and child; says where that is more than there is."""
        held = resident(used, fragmentation=FRAGMENTATION, process_bytes=PROCESS_BYTES)
        total = held.resident
        if self._child is not None and self._child[0] < now_s:
            at_s, seconds, _ = self._child
            lived_s = min(now_s - at_s, seconds)
            data = used * FRAGMENTATION
            pages = copied_pages(data, writes_per_s=writes_per_s, child_s=lived_s)
            total = held.forked_low + 4096.0 * pages
            if now_s >= self._child_until_s:
                self._child = None
        self._most_resident = max(self._most_resident, total)
        if self.limit.of != "used" and total > self.limit.usable_bytes and not self._over:
            self._over = True
            what = f"{gib(total)} GiB are needed, {self.limit.words}: the kernel kills it"
            self.record.marks.append(Mark(now_s, what))
        return total

    def _report(
        self, now_s: float, seconds: float, asked: float, used: float, stall_s: float
    ) -> dict[str, float]:
        """Record what a while was like."""
        record, keyspace = self.record, self.keyspace
        record.times_s.append(now_s)
        rate = asked / seconds
        counts = {name: float(keyspace.state["counts"][name]) for name in _COUNTS}
        new = {name: counts[name] - self._counted[name] for name in _COUNTS}
        self._counted = counts
        per_s = {name: new[name] * keyspace.scale / seconds for name in _COUNTS}
        missed = keyspace.misses_per_read()
        filled = rate * self.reads * missed if self.scenario.stores_misses else 0.0
        filled = 0.0 if math.isnan(filled) else filled
        cycles = new["cycles_s"] / seconds
        evicting = per_s["evicted"] * self.times.evict / 1e9
        writes = per_s["created"] + per_s["overwritten"]
        gone = per_s["evicted"] + per_s["expired"] + per_s["expired_asked"] + per_s["deleted"]
        held = self._resident(now_s, used, writes + gone)
        load = rate + filled
        p50, p99 = _latencies(
            self.node_surrogate,
            load,
            taken=cycles + evicting,
            pauses=[(cycles, float(keyspace.state["counts"]["longest_cycle_s"])),
                    (stall_s / seconds, stall_s)],
        )  # fmt: skip
        keyspace.state["counts"]["longest_cycle_s"] = 0.0
        main = np.interp(
            min(1.0, load / self.node_surrogate.capacity_rps),
            (0.0, *self.node_surrogate.loads, 1.0),
            self.node_surrogate.main_thread,
        )
        expired = float(keyspace.state["stale"]) * keyspace.scale
        hit = 1.0 - missed
        for name, unit, panel, value in (
            ("hits", "share", "hits", hit),
            ("asked", "1/s", "requests", rate),
            ("p50", "ms", "latency", p50),
            ("p99", "ms", "latency", p99),
            ("commands", "share", "main thread", float(main)),
            ("expiry", "share", "main thread", cycles),
            ("eviction", "share", "main thread", evicting),
            ("used memory", "bytes", "memory", used),
            ("resident", "bytes", "memory", held),
            ("keys", "", "keys", self.keys),
            ("expired, still there", "", "keys", expired),
            ("evicted", "1/s", "keys that go", per_s["evicted"]),
            ("expired", "1/s", "keys that go", per_s["expired"] + per_s["expired_asked"]),
            ("refused", "1/s", "keys that go", per_s["refused"]),
        ):
            record.add(name, unit, panel, value)
        most = self.scenario.settings.maxmemory_bytes
        if most is not None and used > _FULL * most and not self._is_full:
            self._is_full = True
            record.marks.append(Mark(now_s, f"memory is full: {gib(most)} GiB"))
        return {"hit": hit, "p99": p99}

    # --- what came of it --------------------------------------------------------------------------

    def _facts(
        self, hits: list[tuple[float, float]], worst: tuple[float, float], stopped: list[float]
    ) -> None:
        record, scale = self.record, self.keyspace.scale
        known = [(hit, weight) for hit, weight in hits if not math.isnan(hit)]
        if known:
            values, weights = np.array(known).T
            mean = float(np.average(values, weights=np.maximum(weights, 1e-12)))
            record.fact("hits", mean, "share", "of the reads")
        busy = sum(record.values("main thread", name) for name in ("expiry", "eviction"))
        used = record.values("memory", "used memory")
        record.fact("p99", worst[0], "ms", f"at most, {_clock(worst[1])}")
        full = next((mark.time_s for mark in record.marks if "memory is full" in mark.what), None)
        if self.scenario.settings.maxmemory_bytes is not None:
            record.fact("memory is full", full, "s", "" if full is not None else "never")
        record.fact("used memory", float(used.max()), "bytes", "at most")
        record.fact("resident memory", self._most_resident, "bytes",
                    f"at most; {self.limit.words}")  # fmt: skip
        record.fact("eviction and expiry", float(np.max(busy)), "share",
                    "of the main thread, at most")  # fmt: skip
        counts = self.keyspace.state["counts"]
        for name, what in (("evicted", "evicted"), ("refused", "refused for want of memory")):
            if counts[name]:
                record.fact(what, round(float(counts[name]) * scale), "",
                            "keys" if name == "evicted" else "writes")  # fmt: skip
        expired = float(counts["expired"]) + float(counts["expired_asked"])
        if expired:
            record.fact("expired", round(expired * scale), "", "keys")
            left = record.values("keys", "expired, still there")
            record.fact("expired, still there", round(float(left.max())), "", "keys at most")
        if stopped:
            record.fact("snapshots", len(stopped))
            note = f"{ASSUMED_DISK.fork_ms_per_gib:g} ms a GiB, assumed"
            record.fact("longest stop of a fork", 1e3 * max(stopped), "ms", note)
        if self._overlapping:
            record.fact("snapshots left out", self._overlapping, "", "one was under way")
        record.warnings.append(
            f"A sample of {len(self.keyspace.keys):,} keys stands for all, one for {scale:,.0f}."
        )


_COUNTS = (
    *("created", "overwritten", "deleted", "evicted", "expired", "expired_asked", "refused"),
    "cycles_s",
)

_DELETES = ("del", "unlink")


def _is_write(name: str) -> bool:
    return name in COMMANDS and COMMANDS[name].writes and name not in _DELETES


def _clock(at_s: float) -> str:
    minutes = round(at_s / 60.0)
    return f"{minutes // 60}:{minutes % 60:02d} h after the beginning"


def _limit(scenario: NodeLife, system: System) -> MemoryLimit:
    if scenario.memory_bytes is not None:
        return machine_limit("the machine", scenario.memory_bytes, field="memory_bytes")
    return host_limit(system.host, system.engine.engine)


def _surrogate(scenario: NodeLife, seed: int, progress: Progress) -> tuple[Surrogate, Any, System]:
    """The node as its simulation sees it, with the data of its scenario."""
    data = scenario.data
    asked = {
        "host": scenario.host,
        "engine": scenario.engine,
        "engine_version": scenario.engine_version,
        "io_threads": scenario.io_threads,
        "workload": {
            **data.model_dump(include={"keys", "key_bytes", "value_bytes", "popularity"}),
            "mix": scenario.demand.mix.model_dump(exclude_none=True),
        },
    }
    try:
        return surrogate_of(asked, seed=seed, progress=progress)
    except InputError as error:
        raise InputError(str(error).removeprefix("scenario: ")) from None


def _latencies(
    surrogate: Surrogate, load_rps: float, *, taken: float, pauses: list[tuple[float, float]]
) -> tuple[float, float]:
    """p50 and p99 in ms at a load, where other work takes a share of the main thread.

    Parameters
    ----------
    pauses
        (share of the time, length in s): whoever comes in one waits for its end, and what has come
        meanwhile is gone after 1 / (1 - load) as long.
    """
    left = max(1e-3, 1.0 - taken)
    load = min(load_rps / surrogate.capacity_rps / left, 0.999)
    quantiles = surrogate.latencies([load])[0]
    hit = [(min(1.0, share / (1.0 - load)), 1e3 * length) for share, length in pauses if length > 0]

    def later(wait_ms: float) -> float:
        """Share of requests that take longer."""
        found = 1.0 - float(np.interp(wait_ms, quantiles, QUANTILES))
        for share, length_ms in hit:
            found = found * (1.0 - share) + share * max(0.0, 1.0 - wait_ms / length_ms)
        return found

    def quantile(rank: float) -> float:
        low, high = 0.0, max(float(quantiles[-1]), *(length for _, length in hit), 1e-3)
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if later(middle) > 1.0 - rank else (low, middle)
        return high

    return quantile(0.5), quantile(0.99)
