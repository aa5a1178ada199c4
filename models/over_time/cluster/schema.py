"""What a scenario of `kind: cluster` says: nodes, data, clients, demand, and what happens when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Union

import numpy as np
from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.record import Record as _Record

from ...prices.table import Payment
from ...scenario.schema import TlsChoice
from ...scenario.versions import EngineVersion, OfEngine
from ...scenario.workload import (
    Arrivals,
    Bursts,
    Collections,
    Mix,
    Popularity,
    RatePiece,
    ValueSizes,
    read_trace,
)
from ..caching import Lookaside
from .events import KINDS, Event, NodeList
from .placement import place

if TYPE_CHECKING:
    AnyEvent = Event
else:
    # A mistake is told about the kind of event that is meant, and no other.
    AnyEvent = Annotated[Union[KINDS], Field(discriminator="event")]  # noqa: UP007

MOST_STEPS = 5_000_000
"""Steps of the load in one run."""

MOST_STEPS_FOR_BACKOFF = 345_600
"""The default step is not made shorter than this for the sake of backoffs: a day of 0.25 s."""

FINEST_STEP_S = 0.01
"""Nor than this."""

MOST_NODES = 2_000


class ClusterNodes(OfEngine):
    """The nodes at the beginning: `shards` primaries, each with `replicas`, all alike."""

    host: str
    """A host or instance of `forecache catalog`, or a profile's file."""
    engine: str
    """An engine of `forecache catalog`."""
    engine_version: EngineVersion | None = None
    """Its version, in quotes; the newest known without it. A newer one is taken as that, and
    every answer says so."""
    io_threads: int = Field(default=1, ge=1, le=256)
    """Threads of a node as the engine counts them, the main thread included."""
    shards: int = Field(default=1, ge=1, le=MOST_NODES)
    """Primaries; the data and the requests are spread over them."""
    replicas: int = Field(default=0, ge=0, le=5)
    """Replicas of each primary."""
    machines: int | list[list[int]] | None = None
    """Machines that the nodes share, or the nodes on each; one for each node without it. They are
    dealt out so that nodes of a shard lie apart, see docs/fleet.md."""
    zones: int | list[list[int]] = 3
    """Zones that machines are spread over, or the machines in each."""
    require_full_coverage: bool | None = None
    """`cluster-require-full-coverage`: whether all nodes refuse commands while any slot has no
    primary; without it as the engine has it, yes, and no with ElastiCache."""
    tls: TlsChoice = None
    """Encrypted connections: `true`, or what differs from the defaults."""
    maxclients: int = Field(default=10_000, ge=1, le=1_000_000)
    """Connections a node takes; more are refused."""
    tcp_backlog: int = Field(default=511, ge=1, le=65_535)
    """Connections that may wait to be accepted; for more the kernel does not answer."""
    accepts_per_cycle: int | None = Field(default=None, ge=1, le=100_000)
    """New connections that one turn of the event loop accepts; without it the engine's: 10 and
    with TLS 1 from Redis 7.4 and Valkey 8.0 on, 1000 before."""
    new_connection_us: float | None = Field(default=None, gt=0, le=1e6)
    """Time of the main thread that a new connection takes, handshake included, where it was
    measured; without it from the engine's work and the host's speed."""

    @model_validator(mode="after")
    def _placed(self) -> ClusterNodes:
        nodes = self.shards * (1 + self.replicas)
        for name in ("machines", "zones"):
            count = getattr(self, name)
            if isinstance(count, int) and not 1 <= count <= MOST_NODES:
                raise FieldError(name, found=count, valid=f"1 to {MOST_NODES}, or lists of numbers")
        if isinstance(self.machines, list) and sum(map(len, self.machines)) != nodes:
            found = f"{sum(map(len, self.machines))} nodes"
            raise FieldError("machines", found=found, valid=f"all {nodes} nodes")
        if isinstance(self.machines, list) or isinstance(self.zones, list):
            shards = [*range(self.shards), *np.repeat(range(self.shards), self.replicas)]
            place(shards, machines=self.machines, zones=self.zones)
        return self

    @property
    def covers_fully(self) -> bool:
        """Whether all nodes refuse commands while any slot has no primary."""
        if self.require_full_coverage is not None:
            return self.require_full_coverage
        return not self.engine.startswith("elasticache")


class Data(Collections):
    """What the cluster holds, all shards together; collections are those of each shard."""

    keys: int = Field(default=1_000_000, ge=1, le=10**11)
    """Keys of all shards."""
    key_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of a key."""
    value_bytes: ValueSizes = 512
    """Bytes of a value, or a distribution of them."""
    popularity: Popularity = "uniform"
    """How commands spread over keys."""


class Backoff(_Record):
    """How long a client waits before attempt n + 1: base_s * 2^(n-1), at most cap_s."""

    base_s: float = Field(default=0.1, ge=0, le=3600)
    """Before the first retry."""
    cap_s: float = Field(default=2.0, ge=0, le=3600)
    """At most."""
    jitter: Literal["full", "none"] = "full"
    """`full`: a random time between nothing and that."""


class RetryBudget(_Record):
    """A token bucket per node: a retry takes one, every answer brings `per_success`."""

    per_success: float = Field(default=0.1, gt=0, le=10)
    """Tokens that an answer brings."""
    most: float = Field(default=1000.0, ge=1, le=1e9)
    """Tokens it holds at most, and at first."""


class Autoscaler(_Record):
    """A horizontal autoscaler of pods by CPU use (Kubernetes HorizontalPodAutoscaler).

    Every `sync_s` it wants ceil(pods * use / target), unless use is within `tolerance` of the
    target; it removes pods only down to the most it wanted within `scale_down_s`.
    """

    cpu_target: float = Field(gt=0, le=1)
    """Share of a pod's CPU that it aims at."""
    cpu_s_per_request: float = Field(gt=0, le=1000)
    """CPU time of a users' request, in seconds of a whole pod's CPU."""
    min_pods: int = Field(default=1, ge=1, le=1_000_000)
    """Fewest pods."""
    max_pods: int = Field(default=10_000, ge=1, le=1_000_000)
    """Most pods."""
    sync_s: float = Field(default=15.0, gt=0, le=3600)
    """Time between two looks."""
    tolerance: float = Field(default=0.1, ge=0, lt=1)
    """How far use may be off the target."""
    scale_down_s: float = Field(default=300.0, ge=0, le=86_400)
    """Stabilisation window before pods are removed."""
    startup_s: float = Field(default=30.0, ge=0, le=3600)
    """From the decision until a new pod takes requests."""

    @model_validator(mode="after")
    def _ordered(self) -> Autoscaler:
        if self.min_pods > self.max_pods:
            raise FieldError("min_pods", found=self.min_pods, valid="at most max_pods")
        return self


class Clients(_Record):
    """Pods with workers; a worker serves one users' request at a time."""

    pods: int = Field(default=1, ge=1, le=1_000_000)
    """Pods at the beginning."""
    workers_per_pod: int = Field(default=500, ge=1, le=1_000_000)
    """Workers of each."""
    connections: Literal["persistent", "per_request"] = "persistent"
    """`persistent`: a worker keeps its connections; `per_request`: it opens and closes them for
    every users' request."""
    connections_per_worker: float = Field(default=1.0, gt=0, le=1000)
    """Persistent connections of a worker to each node that it uses."""
    initially_connected: bool = True
    """Whether persistent connections are there at the beginning, or have to be opened."""
    commands_per_request: int = Field(default=1, ge=1, le=10_000)
    """Commands of one users' request, one after the other."""
    request_ms: float = Field(default=0.0, ge=0, le=3_600_000)
    """Time a users' request keeps a worker busy besides the cluster's."""
    timeout_s: float = Field(default=1.0, gt=0, le=3600)
    """Time without an answer after which a client gives up an attempt and closes the connection."""
    connect_timeout_s: float = Field(default=2.0, gt=0, le=3600)
    """The same for a connection."""
    retries: int = Field(default=3, ge=0, le=20)
    """Attempts after the first."""
    backoff: Backoff = Backoff()
    """The wait before each."""
    retry_budget: RetryBudget | None = None
    """What limits retries besides; nothing without it."""
    autoscaler: Autoscaler | None = None
    """What changes the number of pods; nothing without it."""


class Demand(_Record):
    """How many users' requests begin a second, whatever becomes of them; one of the four."""

    rate_rps: float | None = Field(default=None, ge=0, le=1e9)
    """At a steady rate."""
    rate_profile: list[RatePiece] | None = Field(default=None, min_length=1, max_length=10_000)
    """Rates in turn, over and over."""
    bursts: Bursts | None = None
    """Two rates that take turns at random."""
    trace: str | None = None
    """A CSV file of times in seconds and commands, over and over; the mix says what they ask."""
    mix: Mix = Mix(get=0.8, set=0.2)
    """Shares of commands."""

    @model_validator(mode="after")
    def _one(self) -> Demand:
        names = ("rate_rps", "rate_profile", "bursts", "trace")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"one of {', '.join(names)} (found {', '.join(given) or 'none'})")
        return self

    @property
    def varying(self) -> Arrivals:
        """How requests arrive, if not at `rate_rps`; reads the trace."""
        trace = None if self.trace is None else read_trace(self.trace)
        return Arrivals(self.rate_profile, self.bursts, trace)


class NodeCost(_Record):
    """What a node costs: as the instance it runs on, or as a node of a managed service."""

    node_type: str | None = None
    """A type in the price table, such as cache.m7g.xlarge; without it a node costs what its host,
    an instance of `forecache catalog`, does on demand."""
    prices: str = "elasticache-us-east-1"
    """A price table, or the path of one in a file of the same form."""
    payment: Payment = "on_demand"
    """How nodes of that type are paid."""
    usd_per_month: float | None = Field(default=None, gt=0)
    """Price of one node a month, where the table has none or you pay another one."""


class ClusterScenario(_Record):
    """A cluster over time, one point of a sweep."""

    kind: Literal["cluster"]
    """Which kind of scenario."""
    name: str | None = None
    """A name for people."""
    duration_s: float = Field(gt=0, le=7 * 86_400)
    """Simulated time."""
    step_s: float | None = Field(default=None, ge=0.001, le=60)
    """Step of the load; without it a quarter of the shorter timeout and half the first backoff,
    the latter in no more than 345,600 steps (a day of quarter seconds); at most a second."""
    report_s: float | None = Field(default=None, gt=0, le=86_400)
    """Interval of the results; without it a 300th of the duration, and at least a step."""
    cluster: ClusterNodes
    """The nodes."""
    data: Data = Data()
    """What they hold."""
    cache: Lookaside | None = None
    """The nodes are a cache beside a database, Memcached's usual place; no cache without it."""
    clients: Clients = Clients()
    """Who asks."""
    demand: Demand
    """How much is asked, and what."""
    events: list[AnyEvent] = Field(default=[], max_length=10_000)
    """What happens, and when."""
    cost: NodeCost | None = None
    """What nodes cost; without it no cost is told."""

    @property
    def step(self) -> float:
        """Step of the load, in seconds."""
        if self.step_s is not None:
            return self.step_s
        shorter = min(self.clients.timeout_s, self.clients.connect_timeout_s)
        step = min(1.0, shorter / 4.0, self.duration_s)
        if self.clients.retries:
            finest_s = max(FINEST_STEP_S, self.duration_s / MOST_STEPS_FOR_BACKOFF)
            step = min(step, max(self.clients.backoff.base_s / 2.0, finest_s))
        return step

    @property
    def backoff_rounded(self) -> str | None:
        """A warning where the step is too long for the first backoff."""
        base_s = self.clients.backoff.base_s
        if not self.clients.retries or self.step <= base_s / 2.0:
            return None
        return (
            f"A step of {self.step:g} s rounds a first backoff of {base_s:g} s up, so that a "
            "worker that tries again is busy for too long; a step_s of half that backoff would not"
        )

    @model_validator(mode="after")
    def _consistent(self) -> ClusterScenario:
        shorter = min(self.clients.timeout_s, self.clients.connect_timeout_s)
        if self.step_s is not None and self.step_s > min(shorter / 2.0, self.duration_s):
            raise FieldError(
                "step_s",
                found=self.step_s,
                valid="at most the duration and half the shorter timeout of clients",
            )
        if self.duration_s / self.step > MOST_STEPS:
            raise FieldError(
                "duration_s", found=self.duration_s, valid=f"at most {MOST_STEPS} steps of the load"
            )
        nodes = self.cluster.shards * (1 + self.cluster.replicas)
        if nodes > MOST_NODES:
            raise FieldError(
                "cluster.shards", found=self.cluster.shards, valid=f"at most {MOST_NODES} nodes"
            )
        self._check_cache()
        for index, event in enumerate(self.events):
            if event.at_s >= self.duration_s:
                raise FieldError(
                    f"events[{index}].at_s",
                    found=event.at_s,
                    valid=f"a time before the end (duration_s: {self.duration_s:g})",
                )
        return self

    def _check_cache(self) -> None:
        if self.cache is None:
            for index, event in enumerate(self.events):
                if isinstance(event, NodeList):
                    raise FieldError(
                        f"events[{index}].event", found="node_list", valid="with `cache` only"
                    )
            return
        if self.cluster.replicas:
            raise FieldError(
                "cluster.replicas", found=self.cluster.replicas, valid="0 with `cache`"
            )
        asked = {name: each.share for name, each in self.demand.mix.commands.items() if each.share}
        if asked.keys() != {"get"}:
            raise FieldError(
                "demand.mix",
                found=asked,
                valid="{get: 1} with `cache`, whose clients store what they missed",
            )
        if self.cache.memory_mib is not None and self.cluster.engine != "memcached":
            raise FieldError(
                "cache.memory_mib", found=self.cache.memory_mib, valid="with engine memcached only"
            )
