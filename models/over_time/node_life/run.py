"""The life of a node: what its keys, its memory and its main thread are at, minute by minute.

Keys come and go in a `KeySample`, `MemoryOverTime` says what they weigh, and the node's simulation
what it answers in which time (`cluster/surrogate.py`). Eviction and expiry cycles take from the
main thread what the engine's own DEL and the waits for the keys they look at take.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forecache.hwprofiles.files import FieldError
from forecache.sim.errors import InputError

from ...layouts.generations import generation
from ...prediction.predict import Progress
from ...prediction.system import System
from ...results.series import Mark, Run
from ...scenario.command_table import COMMANDS
from ...scenario.schema import Scenario
from ...scenario.sweeps import Case
from ...scenario.workload import Mix
from ...step_times.command_times import command_times
from ...step_times.workload_caches import shared_line_ns
from ..cluster.load.load import expected_requests
from ..cluster.migration import NodeLoad
from ..cluster.surrogate import QUANTILES, Surrogate, surrogate_of
from ..recorder import Recorder
from .keyspace import KeyKinds, KeyRequests, KeySample
from .memory import MemoryOverTime
from .replicas import Changes, ReplicaLinks, SyncSource
from .rules import life_rules
from .schema import BatchLoad, LoseReplica, NodeLife, TimeToLive

_LONGEST_STEP_S = 60.0

_LOOK_INSTRUCTIONS = 80.0
"""What a cycle does for a key that it looks at and leaves, beside waiting for its lines (assumed,
40 to 160)."""

_STEADY = 0.005
"""Share by which hits differ at most that are told as one number."""

_WORTH_SAYING = 0.01
"""Of the main thread, what a summary tells."""

_TOGETHER_S = 1.0
"""Expiry cycles of so long are taken together, fewer where times to live are short."""

_DELETES = ("del", "unlink")

_COUNTS = (
    *("created", "overwritten", "deleted", "evicted", "expired", "expired_asked", "refused"),
    "cycles_s",
)
"""What has happened to keys, as `native/keyspace.h` counts it."""


def run_node_life(scenario: NodeLife, seed: int, progress: Progress) -> Run:
    """Simulate a scenario of `kind: node_life`.

    Raises
    ------
    InputError
        The engine lacks what is asked for, or nothing fits into `maxmemory`.
    """
    try:
        life = _Life(scenario, seed=seed, progress=progress)
    except FieldError as error:
        raise InputError(
            f"field '{error.field}': found {error.found!r}; valid is {error.valid}."
        ) from None
    return life.run()


@dataclass(frozen=True)
class KeyTimes:
    """Time of the main thread, in ns.

    Attributes
    ----------
    look
        To look at a key in an expiry cycle.
    expire
        What it takes besides to delete it.
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
    going_ns = look_ns = wait_ns = 0.0
    for command in ("del", "exists"):
        workload = node.workload.model_copy(update={"mix": Mix(**{command: 1})})
        inputs = system.inputs(node.model_copy(update={"workload": workload, "io_threads": 1}))
        times = command_times(inputs, shared_ns=shared_line_ns(inputs))
        wait_ns = float(times.stall_ns[0].mean())
        if command == "del":
            going_ns = times.execute_ns[0] + wait_ns
        look_ns = inputs.user_ns(_LOOK_INSTRUCTIONS)
    return KeyTimes(
        look=look_ns + wait_ns / 2.0,
        expire=going_ns,
        evict=going_ns + samples * (look_ns + wait_ns),
    )


class _Life:
    """A run: the parts of a node, and what is recorded of them."""

    def __init__(self, scenario: NodeLife, *, seed: int, progress: Progress) -> None:
        self.scenario, self._progress = scenario, progress
        self.report_s = scenario.report
        self.parts = max(1, math.ceil(self.report_s / _LONGEST_STEP_S - 1e-9))
        self.step_s = self.report_s / self.parts
        self.steps = max(1, round(scenario.duration_s / self.step_s))
        expected, _ = expected_requests(
            scenario.demand, steps=self.steps, step_s=self.step_s, seed=seed
        )
        self.rates = expected / self.step_s
        self.surrogate, case, system = _simulated_node(scenario, seed, progress)
        self.record = Recorder()
        self.memory = MemoryOverTime(scenario, system, self.record)
        settings = scenario.settings
        random = settings.maxmemory_policy.endswith("random")
        samples = 1 if random else settings.maxmemory_samples
        self.times = key_times(case.scenario, system, samples=samples)
        self.requests = _requests(scenario, float(self.rates.mean()))
        self.keyspace = self._keyspace(system, seed=seed)
        lost = [event for event in scenario.events if isinstance(event, LoseReplica)]
        self.links: ReplicaLinks | None = None
        if scenario.replicas is not None:
            self.links = ReplicaLinks(scenario.replicas, lost, system, self.record)
        self._counted = dict.fromkeys(_COUNTS, 0.0)
        self._changes = Changes(0.0, 0.0, 0.0, 0.0)
        self._loaded = 0.0

    def _keyspace(self, system: System, *, seed: int) -> KeySample:
        scenario, data, memory = self.scenario, self.scenario.data, self.memory
        ttl = data.ttl_s
        ends = (ttl.from_s, ttl.to_s) if isinstance(ttl, TimeToLive) else (ttl or 1.0, ttl or 1.0)
        given = [
            each.ttl_s for each in scenario.events if isinstance(each, BatchLoad) and each.ttl_s
        ]
        kinds = KeyKinds(
            keys=data.keys,
            popularity=data.popularity,
            sizes=memory.sizes,
            ttl=data.timed,
            ttl_s=ends,
            longest_ttl_s=max([ends[1], *given]),
        )
        most = scenario.settings.maxmemory_bytes or math.inf
        room = most - memory.beside
        room -= memory.tables(min(data.keys, max(1.0, room / kinds.mean_bytes)), 0.0)
        if room < kinds.mean_bytes:
            valid = f"more than {most - room + kinds.mean_bytes:,.0f}, a node with one key"
            raise FieldError("settings.maxmemory_bytes", found=most, valid=valid)
        keyspace = KeySample(
            kinds,
            self.requests,
            room_bytes=room,
            duration_s=scenario.duration_s,
            seed=seed,
            begins_full=data.begins == "full",
        )
        _set_rules(keyspace, scenario, system, self.times)
        return keyspace

    @property
    def keys(self) -> float:
        """Keys that are there, expired ones included."""
        return float(self.keyspace.state["there"]) * self.keyspace.scale

    # --- step by step -----------------------------------------------------------------------------

    def run(self) -> Run:
        """Go through all steps."""
        self._limit_keys(0.0, float(self.rates[0]))
        self.keyspace.warm_up()
        beside = self._limit_keys(0.0, float(self.rates[0]))
        self._used = beside + float(self.keyspace.state["bytes"]) * self.keyspace.scale
        self.memory.see(0.0, used_bytes=self._used, changed_per_s=0.0)
        for report in range(math.ceil(self.steps / self.parts)):
            asked = taken = 0.0
            stops: list[float] = []
            first, last = report * self.parts, min((report + 1) * self.parts, self.steps)
            for step in range(first, last):
                rate = float(self.rates[step])
                asked += rate * self.step_s
                share, stopped = self._step(step * self.step_s, (step + 1) * self.step_s, rate)
                taken = max(taken, share)
                stops += stopped
            seconds = (last - first) * self.step_s
            self._report(last * self.step_s, seconds, asked / seconds, taken=taken, stops=stops)
            self._tell_progress(last * self.step_s)
        self.keyspace.check()
        self._facts()
        return self.record.run()

    def _step(self, now_s: float, end_s: float, rate_rps: float) -> tuple[float, Sequence[float]]:
        """One step; returns what syncs took of the main thread, and how long forks stopped it."""
        self.keyspace.set_rate(rate_rps)
        # Before the event loop sleeps, and two of its longest after the one before.
        turns = rate_rps + self.scenario.settings.hz
        most = 0.5 / float(self.keyspace.state["fast_limit_s"])
        self.keyspace.state["fast_cycles_per_s"] = min(most, turns)
        beside = self._limit_keys(now_s, rate_rps)
        self._load(now_s, end_s)
        self.keyspace.advance(end_s)
        self._used = beside + float(self.keyspace.state["bytes"]) * self.keyspace.scale
        stops = list(self.memory.begin_snapshots(end_s, keys=self.keys, used_bytes=self._used))
        if self.links is None:
            return 0.0, stops
        child = self.memory.child(self.keys, self._used)
        source = SyncSource(
            load=NodeLoad(
                busy=min(0.99, rate_rps / self.surrogate.capacity_rps),
                writes_per_s=self._changes.writes,
                write_bytes=max(1.0, self._changes.write_bytes),
            ),
            changes=self._changes,
            content=self.memory.content(self.keys),
            used_bytes=self._used,
            saving_s=child.lives_s(self._used).value,
            apply_s=self.surrogate.main_ps * 1e-12,
        )
        taken = self.links.step(now_s, end_s, source)
        for at_s, stop_s, lives_s in self.links.forks:
            self.memory.fork(at_s, child, lives_s=lives_s, stop_s=stop_s)
            stops.append(stop_s)
        self.links.forks.clear()
        return taken, stops

    def _limit_keys(self, now_s: float, rate_rps: float) -> float:
        """Say what keys may take now; returns what everything else takes."""
        state, scale = self.keyspace.state, self.keyspace.scale
        beside = self.memory.beside_keys(
            now_s,
            keys=self.keys,
            expiring=float(state["expiring"]) * scale,
            rate_rps=rate_rps,
            key_bytes=float(state["bytes"]) * scale,
        )
        most = self.scenario.settings.maxmemory_bytes
        if most is not None:
            state["limit_bytes"] = max(0.0, most - beside) / scale
        return beside

    def _load(self, now_s: float, end_s: float) -> None:
        """Write what batch jobs write in a step."""
        for event in self.scenario.events:
            if not isinstance(event, BatchLoad):
                continue
            first = (now_s - event.at_s) / event.over_s
            last = (end_s - event.at_s) / event.over_s
            if last <= 0.0 or first >= 1.0:
                continue
            if first <= 0.0:
                what = f"a job writes {event.share:.0%} of the keys in {event.over_s:,.0f} s"
                self.record.marks.append(Mark(event.at_s, what))
            begin, end = max(first, 0.0) * event.share, min(last, 1.0) * event.share
            self.keyspace.write(first=begin, last=end, ttl_s=event.ttl_s)
            self._loaded += (end - begin) * self.scenario.data.keys

    def _tell_progress(self, now_s: float) -> None:
        tenth, before = (
            int(10.0 * at_s / self.scenario.duration_s + 1e-9)
            for at_s in (now_s, now_s - self.report_s)
        )
        if self._progress is not None and tenth > before:
            self._progress(f"simulated {tenth * 10}%")

    # --- what is recorded -------------------------------------------------------------------------

    def _report(
        self, now_s: float, seconds: float, rate: float, *, taken: float, stops: Sequence[float]
    ) -> None:
        """Record what a while was like."""
        keyspace, surrogate = self.keyspace, self.surrogate
        counts = {name: float(keyspace.state["counts"][name]) for name in _COUNTS}
        new = {name: counts[name] - self._counted[name] for name in _COUNTS}
        self._counted = counts
        per_s = {name: new[name] * keyspace.scale / seconds for name in _COUNTS}
        missed = keyspace.misses_per_read(rate * seconds * self.requests.reads)
        filled = rate * self.requests.reads * missed if self.requests.stores_misses else 0.0
        more = (0.0 if math.isnan(filled) else filled) + self._loaded / seconds
        self._loaded = 0.0
        load = rate + more
        cycles = new["cycles_s"] / seconds
        evicting = per_s["evicted"] * self.times.evict / 1e9
        longest_s = float(keyspace.state["counts"]["longest_cycle_s"])
        keyspace.state["counts"]["longest_cycle_s"] = 0.0
        self._changes = Changes(
            writes=rate * self.requests.writes + more,
            write_bytes=self.scenario.data.key_bytes + self._mean_value_bytes,
            deletes=per_s["evicted"] + per_s["expired"] + per_s["expired_asked"],
            key_bytes=self.scenario.data.key_bytes,
        )
        held = self.memory.see(
            now_s,
            used_bytes=self._used,
            changed_per_s=self._changes.writes + self._changes.deletes + per_s["deleted"],
        )
        pauses = [(cycles, longest_s), *((stop_s / seconds, stop_s) for stop_s in stops)]
        p50, p99 = latencies_ms(surrogate, load, taken=cycles + evicting + taken, pauses=pauses)
        loads = (0.0, *surrogate.loads, 1.0)
        busy = np.interp(min(1.0, load / surrogate.capacity_rps), loads, surrogate.main_thread)
        self.record.times_s.append(now_s)
        for name, unit, panel, value in (
            ("hits", "share", "hits", 1.0 - missed),
            ("asked", "1/s", "requests", rate),
            ("written besides", "1/s", "requests", more),
            ("p50", "ms", "latency", p50),
            ("p99", "ms", "latency", p99),
            ("commands", "share", "main thread", float(busy)),
            ("expiry", "share", "main thread", cycles),
            ("eviction", "share", "main thread", evicting),
            ("syncs", "share", "main thread", taken),
            ("used memory", "bytes", "memory", self._used),
            ("resident", "bytes", "memory", held),
            ("keys", "", "keys", self.keys),
            ("expired, still there", "", "keys", float(keyspace.state["stale"]) * keyspace.scale),
            ("evicted", "1/s", "keys that go", per_s["evicted"]),
            ("expired", "1/s", "keys that go", per_s["expired"] + per_s["expired_asked"]),
            ("refused", "1/s", "keys that go", per_s["refused"]),
        ):
            self.record.add(name, unit, panel, value)

    @property
    def _mean_value_bytes(self) -> float:
        return sum(size * share for size, share in self.memory.content(1.0).strings.sizes)

    def _facts(self) -> None:
        record, memory, keyspace = self.record, self.memory, self.keyspace
        hits, asked = record.values("hits", "hits"), record.values("requests", "asked")
        known = np.isfinite(hits)
        if known.any():
            mean = float(np.average(hits[known], weights=np.maximum(asked[known], 1e-9)))
            record.fact("hits", mean, "share", "of the reads")
            worst = int(np.nanargmin(hits))
            record.fact("fewest hits", float(hits[worst]), "share", self._when(worst))
        p99 = record.values("latency", "p99")
        worst = int(np.argmax(p99))
        record.fact("highest p99", float(p99[worst]), "ms", self._when(worst))
        if self.scenario.settings.maxmemory_bytes is not None:
            note = "" if memory.full_s is not None else "never"
            record.fact("memory is full", memory.full_s, "s", note)
        record.fact("used memory", float(record.values("memory", "used memory").max()), "bytes",
                    "at most")  # fmt: skip
        record.fact("resident memory", memory.most_resident, "bytes",
                    f"at most; {memory.limit.words}")  # fmt: skip
        for name in ("eviction", "expiry"):
            share = record.values("main thread", name)
            if share.any():
                worst = int(np.argmax(share))
                note = f"of the main thread at most, {self._when(worst)}"
                record.fact(name, float(share[worst]), "share", note)
        counts = keyspace.state["counts"]
        expired = int(counts["expired"]) + int(counts["expired_asked"])
        for name, number, what in (
            ("evicted", int(counts["evicted"]), "keys"),
            ("expired", expired, "keys"),
            ("refused for want of memory", int(counts["refused"]), "writes"),
        ):
            if number:
                record.fact(name, round(number * keyspace.scale), "", what)
        if memory.stops_s:
            note = f"of {len(memory.stops_s):,}; with small pages, and 0.7 to 1.8 times as long"
            record.fact("longest stop of a fork", 1e3 * max(memory.stops_s), "ms", note)
        if memory.left_out:
            record.fact("snapshots left out", memory.left_out, "", "another child lived")
        if self.links is not None:
            self.links.facts()
        if keyspace.scale > 1.0:
            note = f"of the keys were followed, one for {keyspace.scale:,.0f}"
            record.fact("sample", len(keyspace.keys), "", note)
        record.summary = self._summary(hits)

    def _summary(self, hits: np.ndarray) -> str:
        """What an operator would want to hear first: hits, memory, what goes, snapshots, syncs."""
        record, memory = self.record, self.memory
        said = []
        known = hits[np.isfinite(hits)]
        if len(known) and known.max() - known.min() > _STEADY:
            said.append(f"hits between {known.min():.0%} and {known.max():.0%}")
        elif len(known):
            said.append(f"hits {known.mean():.1%}")
        if (full := memory.full_s) is not None:
            said.append("memory is full" + (f" from {_clock(full)} on" if full > 0 else ""))
        for name in ("eviction", "expiry"):
            most = float(record.values("main thread", name).max())
            if most > _WORTH_SAYING:
                said.append(f"{name} takes up to {most:.0%} of the main thread")
        if memory.stops_s:
            said.append(f"forks stop it for up to {1e3 * max(memory.stops_s):,.0f} ms")
        if memory.killed_s is not None:
            said.append(f"at {_clock(memory.killed_s)} it needs more memory than there is")
        if self.links is not None and self.links.never:
            said.append("a replica never gets its data")
        return "; ".join(said)

    def _when(self, report: int) -> str:
        return f"at {_clock(self.record.times_s[report])}"


def _clock(at_s: float) -> str:
    minutes = round(at_s / 60.0)
    return f"{minutes // 60}:{minutes % 60:02d} h"


# --- what a scenario says, for the parts ----------------------------------------------------------


def _requests(scenario: NodeLife, rate_rps: float) -> KeyRequests:
    asked = scenario.demand.mix.commands
    total = sum(each.share for each in asked.values())
    deletes = sum(each.share for name, each in asked.items() if name in _DELETES)
    writes = sum(
        each.share for name, each in asked.items() if name in COMMANDS and COMMANDS[name].writes
    )
    return KeyRequests(
        rate_rps=rate_rps,
        reads=(total - writes) / total,
        writes=(writes - deletes) / total,
        deletes=deletes / total,
        stores_misses=scenario.stores_misses,
    )


def _set_rules(keyspace: KeySample, scenario: NodeLife, system: System, times: KeyTimes) -> None:
    settings = scenario.settings
    rules = life_rules(
        generation(system.engine.engine, system.engine.version).engine,
        system.engine.version,
        policy=settings.maxmemory_policy,
        hz=settings.hz,
        effort=settings.active_expire_effort,
    )
    state = keyspace.state
    state["policy"], state["is_volatile"] = rules.policy, rules.is_volatile
    state["samples"], state["has_pool"] = settings.maxmemory_samples, rules.has_pool
    state["log_factor"] = settings.lfu_log_factor
    state["decay_s"] = 60.0 * settings.lfu_decay_time
    state["period_s"] = 1.0 / settings.hz
    ttl = scenario.data.ttl_s
    shortest_s = math.inf if ttl is None else ttl.from_s if isinstance(ttl, TimeToLive) else ttl
    together_s = min(_TOGETHER_S, shortest_s / 50.0, scenario.report / 10.0)
    state["cycles"] = max(1.0, math.floor(together_s * settings.hz))
    state["until_cycle_s"] = state["cycles"] / settings.hz
    state["scans"], state["sample"], state["accepted"] = rules.scans, rules.sample, rules.accepted
    state["slow_limit_s"], state["fast_limit_s"] = rules.slow_limit_s, rules.fast_limit_s
    state["look_ns"], state["expire_ns"] = times.look, times.expire


def _simulated_node(
    scenario: NodeLife, seed: int, progress: Progress
) -> tuple[Surrogate, Case[Scenario], System]:
    """The node as its simulation sees it, with the data of its scenario."""
    data = scenario.data.model_dump(include={"keys", "key_bytes", "value_bytes", "popularity"})
    asked = {
        "host": scenario.host,
        "engine": scenario.engine,
        "engine_version": scenario.engine_version,
        "io_threads": scenario.io_threads,
        "replicas": 0 if scenario.replicas is None else scenario.replicas.count,
        "workload": {**data, "mix": scenario.demand.mix.model_dump(exclude_none=True)},
    }
    try:
        return surrogate_of(asked, seed=seed, progress=progress)
    except InputError as error:
        raise InputError(str(error).removeprefix("scenario: ")) from None


def latencies_ms(
    surrogate: Surrogate,
    load_rps: float,
    *,
    taken: float,
    pauses: Sequence[tuple[float, float]],
) -> tuple[float, float]:
    """p50 and p99 at a load, where other work takes a share of the main thread.

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

    def longer(wait_ms: float) -> float:
        """Share of the requests that take longer."""
        found = 1.0 - float(np.interp(wait_ms, quantiles, QUANTILES))
        for share, length_ms in hit:
            found = found * (1.0 - share) + share * max(0.0, 1.0 - wait_ms / length_ms)
        return found

    def quantile(rank: float) -> float:
        low, high = 0.0, max([float(quantiles[-1]), *(length for _, length in hit)])
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if longer(middle) > 1.0 - rank else (low, middle)
        return high

    return quantile(0.5), quantile(0.99)
