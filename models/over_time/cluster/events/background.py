"""Work besides requests: a share of main threads for a while, or a standstill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError

from .base import Event, EventProcess

if TYPE_CHECKING:
    from ..cluster import Cluster


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
