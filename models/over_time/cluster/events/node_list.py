"""An operator edits the list of nodes that clients of a cache have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError

from .base import Event, EventProcess

if TYPE_CHECKING:
    from ..cluster import Cluster

MOST_NODES = 199
"""The highest number of a node."""

_PARTS = 20
"""Steps in which clients take a list over that is not deployed at once."""


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

    def happen(self, cluster: Cluster) -> EventProcess:
        """Have clients use it."""
        cache = cluster.cache
        assert cache is not None  # by the scenario's schema
        while cluster.nodes.count <= max(self.numbers):
            cluster.nodes.add(cluster.kind, shard=cluster.nodes.count)
        change = cache.begin_list(self)
        parts = _PARTS if self.over_s > 0 else 1
        for part in range(1, parts + 1):
            yield cluster.env.timeout(self.over_s / parts)
            cache.use_list(change, share=part / parts)
