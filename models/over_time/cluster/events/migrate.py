"""Slots go from one shard to another, which both stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError

from ..slots.slot_map import SlotMap
from ..slots.slots import Move
from .base import EventProcess
from .moving import Mover, Moving

if TYPE_CHECKING:
    from ..cluster import Cluster


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

    def happen(self, cluster: Cluster) -> EventProcess:
        """Choose slots and move them."""
        slots = SlotMap.of(cluster)
        for name in ("source", "target"):
            if slots.primary.get(getattr(self, name)) is None:
                known = ", ".join(str(shard) for shard in slots.shards)
                raise FieldError(name, found=getattr(self, name), valid=f"one of {known}")
        own = np.flatnonzero(slots.owners == self.source)
        if self.hottest:
            own = own[np.argsort(-slots.shares[own], kind="stable")]
        chosen = tuple(int(slot) for slot in own[: self.slots])
        cluster.record.mark(f"{len(chosen)} slots go from shard {self.source} to {self.target}")
        moves = [Move(self.source, self.target, chosen)]
        mover = Mover(self, cluster)
        yield from mover.look()
        yield from mover.move(moves, f"{len(chosen)} slots to shard {self.target}")
