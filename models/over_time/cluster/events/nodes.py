"""Nodes that stop, restart, move or fail, and work that keeps their main threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError

from .base import Event, EventProcess

if TYPE_CHECKING:
    from ..cluster import Cluster
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cluster import Cluster
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cluster import Cluster
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cluster import Cluster
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..placement import place_nodes
from ..slots.slot_map import SlotMap

if TYPE_CHECKING:
    from ..cluster import Cluster


# --- work besides requests: a share of main threads for a while, or a standstill ------------------


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

    def happen(self, cluster: Cluster) -> EventProcess:
        """Take the time, and give it back."""
        numbers = range(cluster.nodes.count) if self.nodes is None else self.nodes
        cluster.record.mark(self.what)
        claims = []
        for node in [cluster.nodes.check(node, field="nodes") for node in numbers]:
            if self.stall_s > 0:
                cluster.nodes.stall(node, self.stall_s)
            if self.share > 0:
                claims.append(cluster.nodes.occupy(node, self.share))
        yield cluster.env.timeout(self.lasts_s)
        for claim in claims:
            claim.release()


# --- a maintenance window: nodes restart one after the other --------------------------------------


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

    def happen(self, cluster: Cluster) -> EventProcess:
        """Restart one, wait, restart the next."""
        nodes = list(range(cluster.nodes.count)) if self.nodes is None else self.nodes
        rest_s = (self.window_s - self.down_s * len(nodes)) / max(1, len(nodes) - 1)
        for turn, node in enumerate(nodes):
            yield cluster.env.timeout(max(0.0, rest_s) if turn else 0.0)
            cluster.record.mark(f"node {cluster.nodes.check(node, field='nodes')} restarts")
            cluster.nodes.set_down(node, silent=self.silent)
            yield cluster.env.timeout(self.down_s)
            cluster.nodes.set_up(node)
        cluster.record.mark("maintenance is over")


# --- a node dies and is not replaced; clients keep sending to it ----------------------------------


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

    def happen(self, cluster: Cluster) -> EventProcess:
        """Go down, and perhaps come back."""
        cluster.record.mark(f"node {cluster.nodes.check(self.node)} dies")
        cluster.nodes.set_down(self.node, silent=self.silent)
        if self.back_after_s is None:
            yield cluster.env.timeout(0.0)
            return
        yield cluster.env.timeout(self.back_after_s)
        cluster.nodes.set_up(self.node)
        cluster.record.mark(f"node {self.node} is back")


# --- a node moves: clients' connections lead to where it no longer is -----------------------------


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

    def happen(self, cluster: Cluster) -> EventProcess:
        """Go down, come back, and leave connections behind."""
        cluster.record.mark(f"node {cluster.nodes.check(self.node)} moves")
        if self.down_s > 0:
            cluster.nodes.set_down(self.node, silent=self.silent)
        yield cluster.env.timeout(self.down_s)
        cluster.nodes.set_up(self.node)
        if self.down_s > 0:
            cluster.record.mark(f"node {self.node} is back")


# --- nodes fail -----------------------------------------------------------------------------------


_KINDS = ("primaries", "replicas", "nodes", "machines", "zones")


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
        for name in _KINDS:
            found = getattr(self, name)
            if isinstance(found, int) and not 0 <= found <= 2000:
                raise FieldError(name, found=found, valid="0 to 2000, or a list of numbers")
            if isinstance(found, list) and (not found or min(found) < 0):
                raise FieldError(name, found=found, valid="numbers from 0 on")
        given = [getattr(self, name) for name in _KINDS if getattr(self, name) is not None]
        if given and not any(given):
            raise FieldError("primaries", found=0, valid="1 or more, or something else")
        return self

    def happen(self, cluster: Cluster) -> EventProcess:
        """Fail, be noticed, be replaced, and come back."""
        # Here, since what does it has to know events.
        from ..outage import Outage

        yield from Outage(self, cluster, self.chosen(cluster)).run()

    def chosen(self, cluster: Cluster) -> list[int]:
        """Numbers of the nodes that fail, of those that run.

        Raises
        ------
        FieldError
            There are fewer, or there is no such node, shard, machine or zone.
        """
        slots, nodes = SlotMap.of(cluster), cluster.nodes
        rng = np.random.default_rng([cluster.seed, round(1e3 * self.at_s), 7020])
        up = [node for node in range(nodes.count) if nodes.is_up(node) and nodes.paid[node]]
        primary = {shard: node for shard in slots.shards if (node := slots.primary[shard]) in up}
        replicas = [node for node in up if node not in set(primary.values())]
        found = {
            *self._some("primaries", {shard: [node] for shard, node in primary.items()}, rng),
            *self._some("nodes", {node: [node] for node in up}, rng),
        }
        if isinstance(self.replicas, list):
            found |= self._of_shards(self.replicas, replicas, nodes.shard)
        else:
            found |= set(self._some("replicas", {node: [node] for node in replicas}, rng))
        if self.machines is not None or self.zones is not None:
            placed = place_nodes(cluster)
            for name, where, count in (
                ("machines", placed.machine, placed.machines),
                ("zones", placed.zone, placed.zones),
            ):
                on = {each: [n for n in up if where[n] == each] for each in range(count)}
                found |= set(self._some(name, on, rng))
        if not found:
            raise FieldError("nodes", found="no node that runs", valid="one that does")
        return sorted(found)

    def _some(
        self, field: str, there: dict[int, list[int]], rng: np.random.Generator
    ) -> Iterable[int]:
        """The nodes that a field means, of those that there are by number."""
        asked = getattr(self, field)
        if field == "primaries" and all(getattr(self, name) is None for name in _KINDS):
            asked = 1
        if asked is None:
            return []
        if isinstance(asked, int):
            if asked > len(there):
                raise FieldError(
                    field, found=asked, valid=f"at most the {len(there)} {field} that there are"
                )
            numbers: Sequence[int] = sorted(there)
            picked = rng.permutation(len(numbers))[:asked] if self.random else range(asked)
            numbers = [numbers[each] for each in picked]
        else:
            numbers = asked
        for number in numbers:
            if number not in there:
                known = f"one of {', '.join(map(str, sorted(there)[:20]))}" if there else "none"
                raise FieldError(field, found=number, valid=known)
        return [node for number in numbers for node in there[number]]

    def _of_shards(
        self, shards: Sequence[int], replicas: Sequence[int], shard_of: np.ndarray
    ) -> set[int]:
        """A replica of each shard, another one where it is named again."""
        found: set[int] = set()
        for shard in shards:
            left = [node for node in replicas if shard_of[node] == shard and node not in found]
            if not left:
                raise FieldError("replicas", found=shard, valid="shards with a replica that runs")
            found.add(left[0])
        return found
