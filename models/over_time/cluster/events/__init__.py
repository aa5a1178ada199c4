"""What can happen to a cluster: to its nodes, by its clients, to its slots; `KINDS` lists it."""

from __future__ import annotations

from .base import Event, EventProcess
from .clients import Deploy, HotKey, NodeList, ReplicaReads
from .moving import Migrate, Resize
from .nodes import Background, Fail, Maintenance, NodeDies, NodeMoves
from .upgrade import Upgrade

KINDS: tuple[type[Event], ...] = (
    Background,
    Deploy,
    Maintenance,
    NodeDies,
    NodeList,
    NodeMoves,
    Resize,
    Migrate,
    Fail,
    HotKey,
    ReplicaReads,
    Upgrade,
)
"""Every kind of event a scenario may have."""

__all__ = ["KINDS", "Event", "EventProcess"]
