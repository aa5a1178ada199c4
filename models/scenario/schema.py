"""What a user describes: host, engine, workload, load generator, and what must hold.

Any number or word may be replaced by `{sweep: [...]}` (`sweeps.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.record import Record as _Record

from .command_table import COMMANDS
from .versions import EngineVersion, OfEngine
from .workload import CONSTANT_RATE, Mix, Workload

LEAST_QUOTA_MS = 1.0
"""Of CPU time per period, which the kernel refuses to go below (min_cfs_quota_period)."""


class TlsSettings(_Record):
    """Encrypted connections; `tls: true` is short for these defaults.

    `new_connections_per_s` come besides those of the load, each with a full handshake, and ask for
    nothing.
    """

    certificate: Literal["ecdsa-p256", "rsa-2048"] = "ecdsa-p256"
    """Key of the server's certificate, which decides what a handshake takes."""
    new_connections_per_s: float = Field(default=0.0, ge=0, le=1e5)
    """Connections that come besides those of the load."""


def _short(tls: object) -> object:
    """`true` as the defaults, `false` as none."""
    if not isinstance(tls, bool | Mapping | TlsSettings | None):
        raise ValueError("true or false without quotes, or a mapping with certificate")
    return ({} if tls else None) if isinstance(tls, bool) else tls


TlsChoice = Annotated[TlsSettings | None, BeforeValidator(_short)]
"""`true`, `false`, or what differs from the defaults."""


class SnapshotFile(_Record):
    """How data are written into a file."""

    rdbcompression: bool = True
    """Whether long strings are compressed, as by default."""
    rdbchecksum: bool = True
    """Whether the file has a checksum, as by default."""
    disk_mbyte_per_s: float | None = Field(default=None, gt=0, le=1e6)
    """What the disk takes; as much as the child writes without it."""


class Snapshot(SnapshotFile):
    """A snapshot by a forked child every so often; `child_s` is how long the child lives."""

    every_s: float = Field(gt=0, le=86_400)
    """Time from one snapshot to the next."""
    child_s: float | None = Field(default=None, gt=0)
    """How long the forked child lives; not above `every_s`. Without it as long as data, host and
    disk say."""

    @model_validator(mode="after")
    def _shorter(self) -> Snapshot:
        if self.child_s is not None and self.child_s > self.every_s:
            raise ValueError(
                f"child_s not above every_s (found {self.child_s:g} and {self.every_s:g})"
            )
        return self


class Persistence(_Record):
    """What is kept on disk: an append-only file, snapshots, or both.

    `fsync_ms` is how long an fsync of the append-only file takes, which replies wait for with
    `aof: always`.
    """

    aof: Literal["everysec", "always"] | None = None
    """appendfsync of an append-only file; none without it."""
    fsync_ms: float | None = Field(default=None, gt=0, le=10_000)
    """How long an fsync of that file takes; with `aof: always`, and only there."""
    snapshot: Snapshot | None = None
    """Snapshots by a forked child."""

    @model_validator(mode="after")
    def _some(self) -> Persistence:
        if self.aof is None and self.snapshot is None:
            raise ValueError("aof, snapshot or both")
        if (self.aof == "always") != (self.fsync_ms is not None):
            raise ValueError("fsync_ms with aof always, and only there")
        return self


def _persistence_kind(value: object) -> str | None:
    if isinstance(value, Mapping | Persistence):
        return "kept"
    return "word" if value == "none" else None


PersistenceChoice = Annotated[
    Annotated[Literal["none"], Tag("word")] | Annotated[Persistence, Tag("kept")],
    Discriminator(
        _persistence_kind,
        custom_error_type="persistence",
        custom_error_message="'none', or a mapping such as {aof: everysec} or "
        "{snapshot: {every_s: 300, child_s: 20}}",
    ),
]


class GeneratorSettings(_Record):
    """Who sends the load; it is a station of the model like any other."""

    tool: str = "valkey-benchmark"
    """Whose work it has: forecache, valkey-benchmark, redis-benchmark or memtier-benchmark, or a
    file of `forecache profile --tool`."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """Its threads, never more than clients; 16 without it."""
    connections_per_thread: int | None = Field(default=None, ge=1)
    """A remark; the model spreads `clients` over threads."""
    cores: int | None = Field(default=None, ge=1)
    """Cores that its threads have; without it one for each on a host of its own, and on the
    server's host what the server leaves."""
    same_host: bool = False
    """Whether it runs on the server's host, without a network between; always with
    `unix_socket`."""
    other_socket: bool = False
    """Whether it runs on another socket of the server's host, whose cores are its own; only with
    `same_host`. That messages cross sockets is not modelled."""


class Slo(_Record):
    """What must hold for a setting to be recommended."""

    p50_ms: float | None = Field(default=None, gt=0)
    """Median latency, at most."""
    p99_ms: float | None = Field(default=None, gt=0)
    """99th percentile of latency, at most."""
    p999_ms: float | None = Field(default=None, gt=0)
    """99.9th percentile of latency, at most."""
    probability: float = Field(default=0.95, gt=0, lt=1)
    """How probable it has to be that all of this holds, given what is not known for sure."""

    @model_validator(mode="after")
    def _some(self) -> Slo:
        if self.p50_ms is None and self.p99_ms is None and self.p999_ms is None:
            raise ValueError("at least one of p50_ms, p99_ms, p999_ms")
        return self


class Followed(_Record):
    """What a replica executes of its primary's writes, beside the requests of its own clients."""

    per_request: float = Field(gt=0, le=1e6)
    """Writes of the primary for each request of a client here, on average."""
    mix: Mix = Mix(set=1.0)
    """Their shares by command."""
    at_once: float = Field(default=1.0, ge=1, le=1e6)
    """How many of them the primary sends together: those of one turn of its event loop."""

    @model_validator(mode="after")
    def _writes(self) -> Followed:
        for name in self.mix.commands:
            if name not in COMMANDS or not COMMANDS[name].writes:
                raise FieldError("mix", found=name, valid="commands of the table that write")
        return self


class Scenario(OfEngine):
    """One case: everything a simulation of one point needs to be told."""

    kind: Literal["node"] = "node"
    """What the scenario is about: one node in a steady state."""
    name: str | None = None
    """A name for people."""
    host: str | None
    """A host or instance of `forecache catalog`, or the file of a profile or of an instance of your
    own."""
    region: str | None = Field(default=None, min_length=1, max_length=40)
    """Whose price its instance has, such as `eu-west-1`; without it that of the catalogue."""
    engine: str
    """An engine of `forecache catalog`: valkey, redis, elasticache-redis, memcached, or a profile's
    id or file."""
    engine_version: EngineVersion | None = None
    """Its version, in quotes; the newest known without it. A newer one is taken as that, and
    every answer says so."""
    transport: Literal["tcp", "unix_socket"] = "tcp"
    """How clients connect."""
    tls: TlsChoice = None
    """Encrypted connections: `true`, or what differs from the defaults; not with `unix_socket`."""
    io_threads: int = Field(default=1, ge=1, le=256)
    """Threads as the engine counts them, the main thread included (Memcached: `-t`); or
    `automatic`, which compares all numbers that fit the cores."""
    idle_polls: bool = False
    """Whether idle CPUs of the server's host poll instead of sleeping (`idle=poll`): then the other
    hyperthread of a core is never idle and takes its share of it."""
    clock_ghz: float | None = Field(default=None, gt=0.1, le=10)
    """Clock of the server's host, as where turbo or boost is off; that of its profile without
    it."""
    cores: int | None = Field(default=None, ge=1)
    """Cores that the server's threads may use; without it the host's."""
    physical_cores: int | None = Field(default=None, ge=1)
    """On a host with hyperthreads: how many physical cores these are on, which nobody else uses.
    Without it they are on as many as possible, which everybody shares."""
    sibling_cpus: Literal["halves", "pairs"] = "halves"
    """How such a host numbers its CPUs, for the thread plan: CPU i shares its core with i + half
    their number, or 2i with 2i + 1 (`lscpu -e` tells)."""
    bandwidth: Literal["baseline", "burst"] = "baseline"
    """Which bandwidth the network of a cloud instance has: what it has always, or the burst that
    lasts while there is credit, as in a short benchmark."""
    irq_cores: int = Field(default=0, ge=0, le=1024)
    """Cores of the host, beside those of the server, that only take packets from the network."""
    persistence: PersistenceChoice = "none"
    """What is kept on disk: `none`, or an append-only file, snapshots, or both."""
    replicas: int = Field(default=0, ge=0, le=64)
    """Replicas that follow all writes."""
    main_thread_pinned: bool = False
    """Whether one of the server's cores is the main thread's alone: it stays there, and all other
    threads share the rest. Without effect where every thread has a core of its own."""
    cpu_quota_cores: float | None = Field(default=None, gt=0, le=1024)
    """CPU time that all threads of the server together may take, as a number of cores: 1.5 is
    `cpu.max` 150000 100000 of its control group, or a container's CPU limit of 1500m."""
    cpu_quota_period_ms: float = Field(default=100.0, ge=1, le=1000)
    """Period after which the quota is renewed: the second number of `cpu.max`."""
    other_busy_threads: int = Field(default=0, ge=0, le=256)
    """Threads of other programs that never pause, on the server's cores."""
    prefetch_batch: int | None = Field(default=None, ge=0, le=128)
    """prefetch-batch-max-size: keys looked up together; without it the engine's."""
    events_per_io_thread: int | None = Field(default=None, ge=0, le=1000)
    """events-per-io-thread of Valkey 8.0 to 9.0; without it the engine's."""
    io_threads_do_reads: bool | None = None
    """io-threads-do-reads of Redis 6 to 7.4 and Valkey 7.2, which is no unless set."""
    workload: Workload = Workload()
    """What the clients ask for, and when."""
    follows: Followed | None = None
    """What makes the node a replica: writes of its primary, which it executes and does not answer:
    `{per_request: 0.5}` is one for every two requests of its clients."""
    load_generator: GeneratorSettings = GeneratorSettings()
    """Who sends the load."""
    slo: Slo | None = None
    """What must hold for a setting to be recommended."""

    @property
    def interrupt_cores(self) -> int:
        """Cores of the server that take packets from its network, if there is one between."""
        return 0 if self.same_host else self.irq_cores

    @property
    def generator_threads(self) -> int:
        """Threads of the load generator: as given, else what the tool would be run with."""
        threads = self.load_generator.threads or 16
        return min(threads, self.workload.clients)

    @property
    def same_host(self) -> bool:
        """Whether the load generator shares the server's host, as over a Unix socket it must."""
        return self.load_generator.same_host or self.transport == "unix_socket"

    def with_workload(self, **changes: Any) -> Scenario:
        """The same with other fields of its workload, which are not checked."""
        return self.model_copy(update={"workload": self.workload.model_copy(update=changes)})

    def saturated(self, **changes: Any) -> Scenario:
        """The same clients, who ask again at once; with other changes to the workload."""
        closed = {"arrival": "closed_loop", "rate_rps": None, "think_us": 0.0}
        return self.with_workload(**closed, **CONSTANT_RATE, **changes)

    @model_validator(mode="after")
    def _enough_quota(self) -> Scenario:
        least = LEAST_QUOTA_MS / self.cpu_quota_period_ms
        if self.cpu_quota_cores is not None and self.cpu_quota_cores < least:
            raise FieldError(
                "cpu_quota_cores",
                found=self.cpu_quota_cores,
                valid=f"at least {least:g}, which is the kernel's least: {LEAST_QUOTA_MS:g} ms in "
                f"a period of {self.cpu_quota_period_ms:g} ms",
            )
        return self

    @model_validator(mode="after")
    def _encrypted(self) -> Scenario:
        if self.tls is not None and self.transport == "unix_socket":
            raise FieldError("transport", found=self.transport, valid="'tcp' with tls")
        return self
