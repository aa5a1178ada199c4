"""A node moves: clients' connections lead to where it no longer is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from .base import Event, EventProcess

if TYPE_CHECKING:
    from ..cluster import Cluster


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
