"""A node dies and is not replaced; clients keep sending to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from .base import Event, EventProcess

if TYPE_CHECKING:
    from ..cluster import Cluster


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
