"""A maintenance window: nodes restart one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError

from .base import Event, EventProcess

if TYPE_CHECKING:
    from ..cluster import Cluster


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
