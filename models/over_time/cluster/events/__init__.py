"""What can happen to a cluster, a module each; `KINDS` lists them."""

from __future__ import annotations

from .background import Background
from .base import Event, EventProcess
from .deploy import Deploy
from .fail import Fail
from .hot_key import HotKey, ReplicaReads
from .maintenance import Maintenance
from .migrate import Migrate
from .node_dies import NodeDies
from .node_list import NodeList
from .node_moves import NodeMoves
from .resize import Resize
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
