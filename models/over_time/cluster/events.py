"""What can happen to a cluster, as scenarios say it: an event at a time, and its fields.

What each of them does is in the module that `run.py` names for it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.record import Record

from ...scenario.versions import EngineVersion, OfEngine
from .migration import FSYNC_MS

MOST_NODES = 199
"""The highest number of a node in a list that clients have."""

FAILING = ("primaries", "replicas", "nodes", "machines", "zones")
"""Fields that say what fails."""

RTT_US = 300.0
"""Round trip between nodes where a scenario doesn't say it (assumed)."""


class Event(Record):
    """Something that happens to a cluster; `event` of a subclass is its name in a scenario."""

    at_s: float = Field(ge=0, le=7 * 86_400)
    """When it begins, in seconds from the start."""


class Background(Event):
    """Something takes a share of the main thread of some nodes, or stops it for a moment."""

    event: Literal["background"]
    """Its name."""
    nodes: list[int] | None = None
    """Numbers of the nodes, from 0 on; all without it."""
    share: float = Field(default=0.0, ge=0, le=1)
    """Share of the main thread that is taken."""
    lasts_s: float = Field(default=0.0, ge=0, le=7 * 86_400)
    """How long it is taken."""
    stall_s: float = Field(default=0.0, ge=0, le=86_400)
    """A standstill at its beginning."""
    what: str = "background work"
    """What to call it."""

    @model_validator(mode="after")
    def _some(self) -> Background:
        if self.stall_s == 0 and (self.share == 0 or self.lasts_s == 0):
            raise FieldError(
                "share", found=self.share, valid="share and lasts_s above 0, or stall_s above 0"
            )
        return self


class Maintenance(Event):
    """Nodes are restarted in turn, evenly over a window; one that is a cache comes back empty."""

    event: Literal["maintenance"]
    """Its name."""
    window_s: float = Field(default=10_800.0, gt=0, le=7 * 86_400)
    """From the first restart until the last node is back."""
    down_s: float = Field(default=60.0, gt=0, le=86_400)
    """How long a node is down."""
    nodes: list[int] | None = None
    """Numbers of the nodes, from 0 on, in turn; all without it."""
    silent: bool = False
    """Whether a node gives no answer while it is down, so that clients time out, or refuses."""

    @model_validator(mode="after")
    def _fits(self) -> Maintenance:
        if self.down_s > self.window_s:
            raise FieldError("down_s", found=self.down_s, valid="at most window_s")
        return self


class NodeDies(Event):
    """A node dies. There is no replica and no health check; an edit of the list leaves it out."""

    event: Literal["node_dies"]
    """Its name."""
    node: int = Field(ge=0)
    """Number of the node, from 0 on."""
    silent: bool = True
    """Whether clients wait for it until they time out, or are refused."""
    back_after_s: float | None = Field(default=None, gt=0, le=7 * 86_400)
    """When it is back, with what a new process has; never without it."""


class NodeMoves(Event):
    """A node gets another address, at once or after having been down.

    A worker finds out when it uses its old connection: that attempt is refused, and the next one
    opens a connection to where the node is now.
    """

    event: Literal["node_moves"]
    """Its name."""
    node: int = Field(ge=0)
    """Number of the node, from 0 on."""
    down_s: float = Field(default=0.0, ge=0, le=86_400)
    """How long it is down."""
    silent: bool = False
    """Whether it gives no answer meanwhile, so that clients time out, or they are refused."""


class Fail(Event):
    """Nodes fail at once, are noticed (PFAIL, FAIL), and replicas take over from primaries.

    What fails is a number of nodes of a kind or a list of them, of several kinds together. A number
    means the first ones, or with `random` any.
    """

    event: Literal["fail"]
    """Its name."""
    primaries: int | list[int] | None = None
    """Primaries: how many, or of which shards, from 0 on; 1 if nothing else fails."""
    replicas: int | list[int] | None = None
    """Replicas: how many, or of which shards; a shard that is named twice loses two."""
    nodes: int | list[int] | None = None
    """Nodes, whatever they are: how many, or their numbers: primaries come first by shard, then the
    replicas of shard 0, of shard 1 and so on."""
    machines: int | list[int] | None = None
    """Machines with all nodes on them: how many, or their numbers (`cluster.machines`)."""
    zones: int | list[int] | None = None
    """Zones with all machines in them: how many, or their numbers (`cluster.zones`)."""
    random: bool = False
    """Whether numbers of nodes, machines and zones are of random ones, drawn by the seed."""
    silent: bool = False
    """Whether their hosts are gone with them, so that clients wait for their timeout; otherwise
    they are refused at once."""
    node_timeout_s: float = Field(default=15.0, ge=0.5, le=600)
    """`cluster-node-timeout`."""
    ranked: bool | None = None
    """Whether shards whose primary failed take turns; without it as the engine's version has it:
    from Valkey 8.1 on."""
    back_after_s: float | None = Field(default=None, gt=0, le=7 * 86_400)
    """When they run again; never without it. A primary whose place was taken, and a replica, get
    what they lack from the primary of their shard, by a full sync in most cases."""
    keeps_data: bool = False
    """Whether they find their data on their disk when they are back (a snapshot)."""

    @model_validator(mode="after")
    def _something(self) -> Fail:
        for name in FAILING:
            found = getattr(self, name)
            if isinstance(found, int) and not 0 <= found <= 2000:
                raise FieldError(name, found=found, valid="0 to 2000, or a list of numbers")
            if isinstance(found, list) and (not found or min(found) < 0):
                raise FieldError(name, found=found, valid="numbers from 0 on")
        given = [getattr(self, name) for name in FAILING if getattr(self, name) is not None]
        if given and not any(given):
            raise FieldError("primaries", found=0, valid="1 or more, or something else")
        return self


class Deploy(Event):
    """All pods are replaced at a steady pace, `surge` of them being there twice meanwhile."""

    event: Literal["deploy"]
    """Its name."""
    lasts_s: float = Field(gt=0, le=86_400)
    """From the first pod to the last."""
    surge: float = Field(default=0.25, ge=0, le=1)
    """New pods before old ones go, as a share of all (maxSurge of a Kubernetes Deployment)."""


class HotKey(Event):
    """One key becomes so popular that it gets a share of all commands.

    It lies in one slot, so one shard gets all of it, however many shards there are.
    """

    event: Literal["hot_key"]
    """Its name."""
    share: float = Field(gt=0, lt=1)
    """Share of the commands that name this key."""
    lasts_s: float | None = Field(default=None, gt=0, le=7 * 86_400)
    """How long it lasts; without it, until the end of the run."""


class ReplicaReads(Event):
    """Clients send a share of their commands to replicas."""

    event: Literal["replica_reads"]
    """Its name."""
    share: float = Field(ge=0, le=1)
    """Share of the commands of a shard that its replicas get, evenly; reads, so no more than their
    share in the mix."""


class NodeList(Event):
    """Clients of a cache get another list of nodes: keys belong to other nodes from then on."""

    event: Literal["node_list"]
    """Its name."""
    nodes: int | list[int]
    """The number of nodes, or a list of node numbers from 0 on. New nodes are empty."""
    over_s: float = Field(default=0.0, ge=0, le=7 * 86_400)
    """How long it takes until all clients have it; meanwhile some use the old list."""

    @model_validator(mode="after")
    def _some(self) -> NodeList:
        numbers = self.numbers
        if not 1 <= len(numbers) <= 100 or len(set(numbers)) < len(numbers):
            raise FieldError("nodes", found=self.nodes, valid="1 to 100 different nodes")
        if min(numbers) < 0 or max(numbers) > MOST_NODES:
            raise FieldError("nodes", found=self.nodes, valid=f"numbers from 0 to {MOST_NODES}")
        return self

    @property
    def numbers(self) -> list[int]:
        """The nodes in the order of the list."""
        return list(range(self.nodes)) if isinstance(self.nodes, int) else list(self.nodes)


class Moving(Event):
    """What events have in common that move slots."""

    method: Literal["key_by_key", "atomic"] = "atomic"
    """MIGRATE by an operator, or CLUSTER MIGRATESLOTS."""
    pipeline: int = Field(default=10, ge=1, le=10_000)
    """Keys of one MIGRATE."""
    most_blocked: float = Field(default=1.0, gt=0, le=1)
    """Share of a source's main thread that MIGRATE may take; its operator pauses for the rest."""
    rtt_us: float = Field(default=RTT_US, gt=0, le=1e6)
    """Round trip between nodes, and between them and the operator."""
    network_gbit_per_s: float | None = Field(default=None, gt=0, le=1000)
    """Of one connection between two nodes; without it what their instance and the provider's limit
    of a flow let through, bursts first."""
    stream_mbyte_per_s: float | None = Field(default=None, gt=0, le=1e6)
    """Limit of an atomic move's stream, where a service slows it to spare clients."""
    slots_per_job: int | None = Field(default=None, ge=1, le=16_384)
    """Slots of one atomic job; without it all that go from one shard to another."""
    buffer_mbyte: float = Field(default=256.0, gt=0, le=1e6)
    """Changes that a source may hold for its target (`client-output-buffer-limit replica`)."""
    clients_follow_s: float | None = Field(default=None, ge=0, le=86_400)
    """Mean time until a client knows the new map; until then its commands are redirected. Without
    it a pod fetches the map whenever it is redirected."""
    fsync_ms: float = Field(default=FSYNC_MS, ge=0, le=10_000)
    """Key by key: one small write and fdatasync on the disk that nodes.conf lies on."""
    give_up_s: float = Field(default=7200.0, gt=0, le=7 * 86_400)
    """Time after which the move counts as failed."""
    cores: float = Field(default=2.0, ge=1, le=1024)
    """Cores of a node: the forked child has one of its own where there are two."""
    threads: int | None = Field(default=None, ge=1, le=256)
    """Atomic: how many extra threads of a source write and send its slots, instead of a forked
    child."""


class Resize(Moving):
    """The cluster gets another number of shards.

    New shards own nothing at first; then slots move, the fewest that make all alike. Sources work
    at the same time, each on one target after the other, unless it goes key by key, where one
    operator does everything.
    """

    event: Literal["resize"]
    """Its name."""
    shards: int = Field(ge=1, le=2000)
    """How many there shall be."""
    provision_s: float = Field(default=0.0, ge=0, le=86_400)
    """Until new nodes are there."""


class Migrate(Moving):
    """A shard gives slots to another: its hottest ones, or its first."""

    event: Literal["migrate"]
    """Its name."""
    source: int = Field(ge=0, le=2000)
    """Number of the shard that gives, from 0 on."""
    target: int = Field(ge=0, le=2000)
    """Number of the shard that takes."""
    slots: int = Field(ge=1, le=16_384)
    """How many."""
    hottest: bool = False
    """Those that most commands name; otherwise the first."""

    @model_validator(mode="after")
    def _two(self) -> Migrate:
        if self.source == self.target:
            raise FieldError("target", found=self.target, valid="another shard than source")
        return self


class UpgradeTo(OfEngine):
    """What differs afterwards; everything else stays as it is."""

    engine: str | None = None
    """Another engine of `forecache catalog`."""
    engine_version: EngineVersion | None = None
    """Its version, in quotes; the newest known without it."""
    io_threads: int | None = Field(default=None, ge=1, le=256)
    """Threads of a node as the engine counts them."""

    @model_validator(mode="after")
    def _something(self) -> UpgradeTo:
        if not self.model_fields_set:
            raise ValueError("engine, engine_version or io_threads")
        return self


class Upgrade(Event):
    """All nodes are upgraded, in one of three ways.

    `rolling`: shard by shard, first its replicas, each of which restarts and gets what it lacks
    from its primary; then one of them takes over, and the old primary is upgraded likewise.
    `blue_green`: as many new nodes are added and synchronised, then all clients change over at
    once, and the old ones go. `in_place`: primaries restart as well and are down meanwhile, unless
    that takes so long that a replica takes over.
    """

    event: Literal["upgrade"]
    """Its name."""
    to: UpgradeTo
    """What nodes run afterwards."""
    method: Literal["rolling", "blue_green", "in_place"] = "rolling"
    """How."""
    shards_at_once: int = Field(default=1, ge=1, le=2000)
    """Shards that are worked on at a time."""
    restart_s: float = Field(default=5.0, ge=0, le=86_400)
    """From the end of the old process until the new one runs, without what they save and load."""
    persistence: Literal["none", "snapshot", "append_only"] = "none"
    """What a node finds on its disk when it starts: nothing, the snapshot that it saved when it was
    stopped, or its append-only file."""
    failover: Literal["manual", "on_failure"] = "manual"
    """Rolling: CLUSTER FAILOVER, by which a primary hands over to a replica; or the primary is
    stopped, and the others find out."""
    node_timeout_s: float = Field(default=15.0, ge=0.5, le=600)
    """`cluster-node-timeout`."""
    diskless: bool | None = None
    """`repl-diskless-sync`: whether a full sync goes into the connection at once, or into a file
    that is sent afterwards; without it the old version's default, yes from Redis 7.0 on."""
    sync_delay_s: float = Field(default=5.0, ge=0, le=3600)
    """`repl-diskless-sync-delay`."""
    backlog_mbyte: float | None = Field(default=None, ge=0, le=1e6)
    """`repl-backlog-size`: a replica that missed no more gets only that; without it the old
    version's default, 1 and from Valkey 8.0 on 10."""
    buffer_mbyte: float = Field(default=256.0, gt=0, le=1e6)
    """Changes that a primary may hold for a replica (`client-output-buffer-limit replica`)."""
    network_gbit_per_s: float | None = Field(default=None, gt=0, le=1000)
    """Of one connection between two nodes; without it what their instance and the provider's limit
    of a flow let through."""
    disk_mbyte_per_s: float | None = Field(default=None, gt=0, le=1e6)
    """Rate of a node's disk; without it disks are taken to be no limit."""
    load_mbyte_per_s: float | None = Field(default=None, gt=0, le=1e6)
    """Rate at which a node loads its file, where it was measured; without it from the work of two
    engines that were."""
    provision_s: float = Field(default=0.0, ge=0, le=86_400)
    """Blue-green: until the new nodes are there."""
    switch_s: float = Field(default=1.0, ge=0, le=3600)
    """Blue-green: how long no node takes commands while clients change over."""
    keep_s: float = Field(default=0.0, ge=0, le=7 * 86_400)
    """Blue-green: how long the old nodes are kept, and paid, after that."""
    give_up_s: float = Field(default=7200.0, gt=0, le=7 * 86_400)
    """Time after which a sync that does not end is given up, and with it the upgrade."""


KINDS: tuple[type[Event], ...] = (
    Background,
    Deploy,
    Maintenance,
    NodeDies,
    NodeList,
    NodeMoves,
    Resize,
    Migrate,
    Fail,
    HotKey,
    ReplicaReads,
    Upgrade,
)
"""Every kind of event a scenario may have."""
