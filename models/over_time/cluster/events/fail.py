"""Nodes fail: some primaries or replicas, or machines or zones with whatever is on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError

from ..placement import place_nodes
from ..slots.slot_map import SlotMap
from .base import Event, EventProcess

if TYPE_CHECKING:
    from ..cluster import Cluster

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
