"""A scenario of `kind: serverless` as a `Run`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from forecache.sim.errors import InputError

from ...cost.bill import ecpu_of_get, ecpu_of_transfer
from ...prediction.predict import Progress
from ...prices.table import HOURS_A_MONTH, CacheEngine, PriceTable, load_prices
from ...results.series import Run
from ...scenario.workload import sizes_of
from ..caching import Filling, room
from ..cluster.cluster import Cluster
from ..cluster.load.load import LoadStep
from ..cluster.nodes import NodeKind, node_kind
from ..cluster.run import run_to_the_end
from ..cluster.schema import ClusterScenario
from ..recorder import Process, Recorder
from .scaling import MOST_SHARDS, Shards, behind_proxy, hop
from .schema import Mechanisms, ServerlessScenario, load_version

_REACHED = 0.99
"""A rate is reached from this share of it on."""

_PROXY_CONNECTIONS = 128
"""Connections of all proxies to one shard, which all clients share (assumed)."""

_KEPT = {
    "answered": "answered",
    "failed": "failed",
    "turned away: no free worker": "turned away: no free connection",
    "first failure": "first failure",
    "last failure": "last failure",
}
"""Facts of a cluster that a serverless cache has, too, and what they are called here."""

_LEFT_OUT = ("connections", "new connections", "memory", "progress")
"""Panels of a cluster that say nothing about one."""


class ServerlessCache:
    """A serverless cache and its load.

    Attributes
    ----------
    shards, filling, meter
        See their modules.
    proxies
        How many proxies there are.
    """

    def __init__(
        self,
        scenario: ServerlessScenario,
        *,
        seed: int,
        progress: Callable[[str], None],
        mechanisms: Mechanisms | None = None,
    ) -> None:
        self.scenario = scenario
        self.mechanisms = mechanisms or scenario.own_mechanisms()
        self._seed, self._progress = seed, progress
        self._kinds: dict[tuple[int, int], NodeKind] = {}
        limits = scenario.limits
        replicas = 2 if limits.reads_from_replicas else 1
        self._described = _as_cluster(scenario, self.mechanisms, replicas=replicas)
        self.cluster = cluster = Cluster(self._described, seed=seed, progress=progress)
        nodes = cluster.nodes
        nodes.new_kind = self._kind_of(self.mechanisms.io_threads[0], scenario.shards)
        nodes.kinds.clear()
        for node in range(nodes.count):
            nodes.become(node, nodes.new_kind)
        self.reads = scenario.demand.mix.get
        self.shards = Shards(
            *(cluster, self.mechanisms, replicas, self._kind_of, self._ecpu_each),
            lambda: self.filling.held * self.key_bytes,
        )
        self.shards.limited = scenario.shards == 1 and scenario.filled == 0.0
        if limits.reads_from_replicas:
            self.shards.slots.replica_share = self.reads * replicas / (replicas + 1)
            self.shards.slots.spread()
        self.filling = Filling(
            keys=scenario.data.keys, popularity=scenario.data.popularity, filled=scenario.filled
        )
        self._slot_keys = self.shards.slots.keys.copy()
        self.key_bytes = self.shards.slots.key_bytes
        sizes = sizes_of(scenario.data.value_bytes)
        self.meter = Meter(
            load_prices(scenario.prices),
            scenario.price_engine,
            value_bytes=sum(size * weight for size, weight in sizes),
            least_gb=limits.least_gb,
        )
        for minimum in limits.least:
            if minimum.at_s == 0:
                self.shards.least_ecpu_per_s = minimum.ecpu_per_s
        filled_gb = self.filling.held * self.key_bytes / 1e9
        if filled_gb > limits.most_gb * (1.0 + 1e-9):
            raise InputError(
                f"field 'filled': found {scenario.filled:g}, which is {filled_gb:.3g} GB; valid is "
                f"no more than limits.most_gb ({limits.most_gb:g})."
            )
        self.shards.start(shards=scenario.shards)
        self.proxies = max(
            self.mechanisms.zones,
            math.ceil(self.shards.capacity_rps / self.mechanisms.proxy_rps),
        )
        self.begins_empty = self.shards.limited
        # Half of what any cache serves at once.
        self.ramp_rps = 0.5 * self.mechanisms.first_ecpu_per_s / self._ecpu_each()
        self.ramp_rps = min(self.ramp_rps, scenario.demand.ramp_to_rps or math.inf)
        self._ramp_looks_s = scenario.demand.ramp_look_s
        self._ramp_until_s: float | None = None
        self.rejected_writes = 0.0
        self._ready_after_s: dict[float, float | None] = {}
        """By ECPU a second that were asked for later: how long that took."""
        self._asked_per_s = 0.0
        self._ecpu_before = (0.0, 0.0)
        cluster.clients.shared_connections = _PROXY_CONNECTIONS
        cluster.load.drop_abandoned()
        cluster.load.closed_loop = scenario.demand.closed_loop
        if scenario.demand.ramp_to_rps is not None:
            cluster.load.demand_factor = self.ramp_rps / scenario.demand.ramp_to_rps
        cluster.after_step(self._after)
        self._limit()

    def run(self) -> Run:
        """Simulate, and return what was recorded."""
        cluster, record = self.cluster, self.cluster.record
        env = cluster.env
        for name, unit, panel, read in (
            ("request limit", "1/s", "throughput", self._let_through_rps),
            ("shards", "", "shards", lambda: float(self.shards.count)),
            ("threads of a shard", "", "threads", lambda: float(self.shards.threads)),
            ("proxies", "", "proxies", lambda: float(self.proxies)),
            ("ECPU a minute", "1/min", "ECPU", self._ecpu_per_minute),
            ("hits", "share", "hit rate", lambda: self.filling.hit_rate),
            ("data", "bytes", "data", lambda: self.filling.held * self.key_bytes),
            ("requests", "USD", "cost so far", lambda: self.meter.requests_usd),
            ("data", "USD", "cost so far", lambda: self.meter.data_usd),
        ):
            record.gauge(name, unit, panel, read)
        env.process(self.shards.watch())
        env.process(self._grow_proxies())
        env.process(self._machines())
        for minimum in self.scenario.limits.least:
            if 0 < minimum.at_s < self.scenario.duration_s:
                env.process(self._keep_ready(minimum.at_s, minimum.ecpu_per_s))
        return self._answered(run_to_the_end(cluster))

    def _kind_of(self, threads: int, shards: int) -> NodeKind:
        """A node behind proxies, by its threads and the number of shards."""
        key = (threads, shards)
        if key not in self._kinds:
            nodes = self._described.cluster
            described = nodes.model_copy(update={"io_threads": threads})
            try:
                kind, _, _ = node_kind(
                    self._described,
                    described=described,
                    shards=shards,
                    seed=self._seed,
                    progress=self._progress,
                )
            except InputError as error:
                raise InputError(f"version {self.scenario.version}: {error}") from None
            self._kinds[key] = replace(
                kind,
                name=f"{kind.name}, {threads} threads",
                surrogate=behind_proxy(kind.surrogate, self.mechanisms),
            )
        return self._kinds[key]

    def _ecpu_each(self) -> float:
        return self.meter.ecpu_each(reads=self.reads, hit_rate=self.filling.hit_rate)

    def _let_through_rps(self) -> float:
        """Requests a second that proxies let through, to all slots."""
        limits, wanted = self.scenario.limits, self.mechanisms
        each = self._ecpu_each()
        most = min(limits.most_ecpu_per_s / each, self.proxies * wanted.proxy_rps)
        most = min(most, self.shards.first_ecpu_per_s / each)
        return min(most, self.shards.capacity_rps)

    def _limit(self) -> None:
        """Let proxies see to the limits."""
        nodes, slots = self.cluster.nodes, self.shards.slots
        limits, wanted = self.scenario.limits, self.mechanisms
        factor = wanted.replica_ecpu_factor if limits.reads_from_replicas else 1.0
        hottest: np.ndarray = np.zeros(int(nodes.shard.max()) + 1)
        np.maximum.at(hottest, slots.owners, slots.shares)
        # What a slot has too much waits with its shard's.
        by_slot = factor * wanted.slot_ecpu_per_s / self._ecpu_each()
        by_slot = by_slot / np.maximum(hottest[nodes.shard], 1e-12)
        each = np.minimum(self._let_through_rps(), by_slot)
        held = (nodes.traffic > 0) & (each < self.shards.capacity_rps)
        nodes.limit_rps[:] = np.inf
        nodes.limit_rps[held] = (each * nodes.traffic)[held]

    def _after(self, step: LoadStep) -> None:
        """Follow a step of the load: data, bill, limits, and the ramp."""
        answered = float(step.answered.sum())
        self._asked_per_s = answered / step.length_s
        writes = answered * (1.0 - self.reads)
        limits = self.scenario.limits
        most = room(limits.most_gb * 1e9, self.key_bytes)
        self.rejected_writes += self.filling.write(writes, most=most, evicts=limits.expiring)
        slots = self.shards.slots
        slots.keys = self._slot_keys * (self.filling.held / self.filling.keys)
        self.meter.add(
            answered * self._ecpu_each(),
            seconds=step.length_s,
            least_ecpu_per_s=self.shards.least_ecpu_per_s,
            data_gb=self.filling.held * self.key_bytes / 1e9,
        )
        self._limit()
        most_rps = self.scenario.demand.ramp_to_rps
        if most_rps is not None:
            self._ramp(step, most_rps)

    def _ramp(self, step: LoadStep, most_rps: float) -> None:
        """Raise the rate, or lower it when a look shows that requests wait."""
        demand = self.scenario.demand
        self.ramp_rps *= (1.0 + demand.ramp_growth) ** step.length_s
        end_s = step.start_s + step.length_s
        if self._ramp_until_s is None and self._asked_per_s >= _REACHED * most_rps:
            self._ramp_until_s = end_s
        if end_s >= self._ramp_looks_s - 1e-9:
            self._ramp_looks_s += max(demand.ramp_look_s, step.length_s)
            if self.cluster.nodes.request_queue.waiting.any():
                self.ramp_rps *= 1.0 - demand.ramp_back
        self.ramp_rps = min(most_rps, self.ramp_rps)
        self.cluster.load.demand_factor = self.ramp_rps / most_rps

    def _grow_proxies(self) -> Process:
        wanted = self.mechanisms
        while True:
            yield self.cluster.env.timeout(wanted.detect_s)
            if self._asked_per_s > wanted.scale_above * self.proxies * wanted.proxy_rps:
                yield self.cluster.env.timeout(wanted.enable_s)
                self.proxies *= 2

    def _machines(self) -> Process:
        clients = self.cluster.clients
        for row in self.scenario.clients.machines:
            yield self.cluster.env.timeout(row.at_s - self.cluster.env.now)
            clients.pods = row.count
            clients.held = max(0, clients.workers - self.mechanisms.most_connections)
            if row.at_s > 0:
                self.cluster.record.mark(f"{row.count} load machines")

    def _keep_ready(self, at_s: float, ecpu_per_s: float) -> Process:
        yield self.cluster.env.timeout(at_s)
        self.shards.least_ecpu_per_s = ecpu_per_s
        self._ready_after_s[ecpu_per_s] = None
        record = self.cluster.record
        record.mark(f"{ecpu_per_s:,.0f} ECPU/s are to be kept ready")
        while self.shards.short_of(ecpu_per_s) or self.shards.growing:
            yield self.cluster.env.timeout(1.0)
        self._ready_after_s[ecpu_per_s] = float(self.cluster.env.now) - at_s
        record.mark(f"{ecpu_per_s:,.0f} ECPU/s are ready")

    def _ecpu_per_minute(self) -> float:
        now_s = float(self.cluster.env.now)
        before_s, before = self._ecpu_before
        self._ecpu_before = (now_s, self.meter.ecpu)
        return 60.0 * (self.meter.ecpu - before) / max(now_s - before_s, 1e-9)

    def _answered(self, run: Run) -> Run:
        """The run with what a serverless cache answers; a cluster's facts that say less go."""
        scenario, meter = self.scenario, self.meter
        answers = Recorder()
        fact, known = answers.fact, {each.name: each for each in run.facts}
        if scenario.demand.ramp_to_rps is not None:
            self._report_ramp(answers, to_rps=scenario.demand.ramp_to_rps)
        for ecpu, took_s in self._ready_after_s.items():
            fact(f"until {ecpu:,.0f} ECPU/s are ready", took_s, "s", "since they were set")
        self._report_latency(answers)
        threads = f"with {self.shards.threads} threads each"
        fact("shards at the end", self.shards.count, "", threads)
        usd, requests = meter.requests_usd + meter.data_usd, known["answered"].value
        months = scenario.duration_s / 3600.0 / HOURS_A_MONTH
        idle = meter.billed_ecpu > meter.ecpu * (1.0 + 1e-6)
        billed = f"{meter.billed_ecpu / 1e6:,.0f} M are billed: they were kept ready"
        fact("ECPU", meter.ecpu, "ECPU", billed if idle else "")
        fact("cost of the run", usd, "USD", f"{meter.data_usd:.2f} of it for data")
        fact("cost of a month like it", usd / months, "USD")
        each_usd = usd / max(float(requests or 0.0), 1.0)
        fact("cost of a million requests", each_usd * 1e6, "USD")
        fact("evicted keys", round(self.filling.evicted))
        rejected = "answered with an error, and billed" if self.rejected_writes else ""
        name = "writes that failed because there was no room"
        fact(name, round(self.rejected_writes), "", rejected)
        if self.shards.growths:
            self._report_growth(answers)
        warnings = list(dict.fromkeys(run.warnings))
        if self.shards.full:
            warnings.append(f"more than {MOST_SHARDS} shards were needed")
        clients, most = scenario.clients, self.mechanisms.most_connections
        wanted = max(row.count for row in clients.machines) * clients.connections
        if wanted > most:
            warnings.append(f"proxies refuse {wanted - most:,} connections above {most:,}")
        kept = [replace(f, name=_KEPT[f.name]) for f in run.facts if f.name in _KEPT]
        return replace(
            run,
            facts=[*answers.facts, *kept],
            tables=[*answers.tables, *run.tables],
            warnings=warnings,
            series=[each for each in run.series if each.panel not in _LEFT_OUT],
        )

    def _report_ramp(self, answers: Recorder, *, to_rps: float) -> None:
        """How long a ramp took, and how long for twice the rate; scale-outs until it has ended."""
        name, until_s = f"until {to_rps:,.0f} requests a second", self._ramp_until_s
        if until_s is None:
            most = float(self.cluster.record.values("throughput", "answered").max(initial=0.0))
            answers.fact(name, None, "s", f"not reached; {most:,.0f} were")
            return
        begun = [growth.begun_s for growth in self.shards.growths if growth.begun_s <= until_s]
        between_s = (begun[-1] - begun[0]) / (len(begun) - 1) if len(begun) > 1 else None
        answers.fact(name, until_s, "s", "the first step that answered that rate")
        # What an empty cache serves at once.
        first_rps = self.mechanisms.first_ecpu_per_s / self._ecpu_each()
        if self.begins_empty and to_rps > first_rps:
            each_s = until_s / math.log2(to_rps / first_rps)
            note = f"from the {first_rps:,.0f} of an empty cache on"
            answers.fact("mean time of a doubling", each_s, "s", note)
        note = f"the mean of {len(begun) - 1}" if len(begun) > 1 else "there was no second one"
        answers.fact("from scale-out to scale-out", between_s, "s", note)

    def _report_latency(self, answers: Recorder) -> None:
        """Latency over the run, at the proxies and at the clients."""
        values, fact = self.cluster.record.values, answers.fact
        p50, p99 = values("latency", "p50"), values("latency", "p99")
        mean, answered = values("latency", "mean"), values("throughput", "answered")
        there = np.isfinite(mean)
        if not there.any():
            return
        weighted = float((mean[there] @ answered[there]) / answered[there].sum())
        end = float(mean[there][-max(1, int(there.sum()) // 10) :].mean())
        way_ms = hop(self.mechanisms).mean_ms + self.scenario.clients.own_ms
        fact("mean latency", weighted, "ms", "at the proxies, as the service measures it")
        fact("mean latency at the end", end, "ms", "the last tenth, likewise")
        fact("mean latency of clients at the end", end + way_ms, "ms")
        fact("highest p50", float(np.nanmax(p50)), "ms", "of an interval, at the proxies")
        fact("median p50", float(np.nanmedian(p50)), "ms", "of the intervals, likewise")
        fact("highest p99", float(np.nanmax(p99)), "ms", "of an interval, likewise")
        busiest = np.nanargmax(answered)
        fact("p99 at the highest rate", float(p99[busiest]), "ms", "likewise")

    def _report_growth(self, answers: Recorder) -> None:
        """Scale-outs with their parts."""
        answers.table(
            "scale-outs",
            [
                *(("at", "s"), ("shards", ""), ("looks", "s"), ("provisioning", "s")),
                *(("slots move", "s"), ("keys moved", "")),
            ],
            [
                [
                    *(growth.begun_s, growth.shards, self.mechanisms.detect_s),
                    growth.provisioned_s - growth.begun_s,
                    growth.moved_s - growth.provisioned_s,
                    growth.keys_moved,
                ]
                for growth in self.shards.growths
            ],
        )


def run_serverless(scenario: ServerlessScenario, seed: int, progress: Progress) -> Run:
    """Simulate one scenario of `kind: serverless`."""
    return ServerlessCache(scenario, seed=seed, progress=progress).run()


def _as_cluster(
    scenario: ServerlessScenario, mechanisms: Mechanisms, *, replicas: int
) -> ClusterScenario:
    """The shards and their load as a cluster."""
    version = load_version(scenario.version)
    demand = scenario.demand
    asked: dict[str, Any] = {"mix": demand.mix}
    if demand.rate_profile is not None:
        asked["rate_profile"] = demand.rate_profile
    else:
        asked["rate_rps"] = demand.rate_rps or demand.ramp_to_rps or 1.0
    clients = scenario.clients
    connections = min(clients.connections, mechanisms.most_connections)
    return ClusterScenario.model_validate(
        {
            "kind": "cluster",
            "duration_s": scenario.duration_s,
            "step_s": scenario.step_s,
            "report_s": scenario.report_s,
            "cluster": {
                "host": version.host,
                "engine": version.engine,
                "engine_version": version.engine_version,
                "io_threads": mechanisms.io_threads[0],
                "shards": scenario.shards,
                "replicas": replicas,
                "tls": True,
                "maxclients": 1_000_000,
            },
            "data": scenario.data,
            "clients": {
                "pods": clients.machines[0].count or 1,
                "workers_per_pod": connections,
                "request_ms": clients.own_ms + hop(mechanisms).mean_ms,
                "timeout_s": clients.timeout_s,
                "retries": clients.retries,
                # Rounded up to steps anyway.
                "backoff": {"base_s": max(0.1, 2.0 * scenario.step_s)},
            },
            "demand": asked,
        }
    )


# --- what a cache is billed for, as it accrues ----------------------------------------------------


_HOUR_S = 3600.0


class Meter:
    """ECPU and GB-hours of a run.

    Attributes
    ----------
    ecpu
        Used so far.
    gb_hours
        Data so far, the least that is billed included.
    """

    def __init__(
        self, prices: PriceTable, engine: CacheEngine, *, value_bytes: float, least_gb: float
    ) -> None:
        self._rates = prices.serverless[engine]
        self._value_bytes = value_bytes
        self._least_gb = max(least_gb, self._rates.least_gb.best)
        self.ecpu = self.gb_hours = 0.0
        self._closed_ecpu = self._hour_ecpu = self._hour_least = self._hour_s = 0.0

    def ecpu_each(self, *, reads: float, hit_rate: float) -> float:
        """Mean ECPU of a request, of which a share reads."""
        read = ecpu_of_get(self._value_bytes, hit_rate=hit_rate)
        return reads * read + (1.0 - reads) * ecpu_of_transfer(self._value_bytes)

    def add(self, ecpu: float, *, seconds: float, least_ecpu_per_s: float, data_gb: float) -> None:
        """What a step used. What is kept ready is billed hour by hour, as `cost/bill.py` does."""
        self.ecpu += ecpu
        self._hour_ecpu += ecpu
        self._hour_least += least_ecpu_per_s * seconds
        self._hour_s += seconds
        self.gb_hours += max(data_gb, self._least_gb) * seconds / _HOUR_S
        if self._hour_s >= _HOUR_S * (1.0 - 1e-9):
            self._closed_ecpu = self.billed_ecpu
            self._hour_ecpu = self._hour_least = self._hour_s = 0.0

    @property
    def billed_ecpu(self) -> float:
        """ECPU so far with what was kept ready and not used."""
        return self._closed_ecpu + max(self._hour_ecpu, self._hour_least)

    @property
    def requests_usd(self) -> float:
        """Price of the ECPU so far."""
        return self.billed_ecpu / 1e6 * self._rates.usd_per_million_ecpu.best

    @property
    def data_usd(self) -> float:
        """Price of the data so far."""
        return self.gb_hours * self._rates.usd_per_gb_hour.best
