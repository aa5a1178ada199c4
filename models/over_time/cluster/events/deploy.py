"""A rolling deploy: new pods take the place of all, and their workers open connections."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from .base import Event, EventProcess

if TYPE_CHECKING:
    from ..cluster import Cluster


class Deploy(Event):
    """All pods are replaced at a steady pace, `surge` of them being there twice meanwhile."""

    event: Literal["deploy"]
    """Its name."""
    lasts_s: float = Field(gt=0, le=86_400)
    """From the first pod to the last."""
    surge: float = Field(default=0.25, ge=0, le=1)
    """New pods before old ones go, as a share of all (maxSurge of a Kubernetes Deployment)."""

    def happen(self, cluster: Cluster) -> EventProcess:
        """Add the surge, close connections as pods go, take the surge away."""
        clients = cluster.clients
        cluster.record.mark("a deploy begins")
        more = math.ceil(self.surge * clients.pods)
        # As many old pods go last as there are new ones first.
        gone = (clients.pods - more) / (clients.pods + more)
        clients.pods += more
        pause_s = min(1.0, self.lasts_s)
        for _ in range(max(1, round(self.lasts_s / pause_s))):
            clients.close_some(cluster.nodes.state, share=gone * pause_s / self.lasts_s)
            yield cluster.env.timeout(pause_s)
        # Whatever an autoscaler has done meanwhile, at least one pod has to be left.
        kept = max(1, clients.pods - more)
        clients.close_some(cluster.nodes.state, share=1.0 - kept / clients.pods)
        clients.pods = kept
        cluster.record.mark("the deploy is through")
