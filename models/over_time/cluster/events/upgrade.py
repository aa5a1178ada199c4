"""Nodes get another version of their engine, while clients go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.record import Record

from ....scenario.versions import EngineVersion
from .base import Event, EventProcess

if TYPE_CHECKING:
    from ..cluster import Cluster


class UpgradeTo(Record):
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

    def happen(self, cluster: Cluster) -> EventProcess:
        """Upgrade all nodes."""
        # Here, since what does it has to know clusters.
        from ..upgrade.upgrader import Upgrader

        if self.method == "blue_green" and cluster.cache is not None:
            raise FieldError(
                "method", found=self.method,
                valid="rolling or in_place with `cache`, whose clients have a list of nodes",
            )  # fmt: skip
        yield from Upgrader(self, cluster).upgrade()
