"""What can happen to a cluster, a module each; `KINDS` lists them."""

from __future__ import annotations

from .background import Background
from .base import Event, Happening
from .node_moves import NodeMoves

KINDS: tuple[type[Event], ...] = (Background, NodeMoves)
"""Every kind of event a scenario may have."""

__all__ = ["KINDS", "Event", "Happening"]
