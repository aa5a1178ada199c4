"""What can happen to a cluster, a module each; `KINDS` lists them."""

from __future__ import annotations

from typing import get_args

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
)
"""Every kind of event a scenario may have."""


def name_of(kind: type[Event] | Event) -> str:
    """What a scenario calls a kind of event, or an event's kind."""
    owner = kind if isinstance(kind, type) else type(kind)
    (name,) = get_args(owner.model_fields["event"].annotation)
    return str(name)


__all__ = ["KINDS", "Event", "EventProcess", "name_of"]
