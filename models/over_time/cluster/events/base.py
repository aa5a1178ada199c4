"""What every event has: a time, and what happens then."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import simpy
from pydantic import Field

from forecache.hwprofiles.record import Record

if TYPE_CHECKING:
    from ..cluster import Cluster

EventProcess = Generator[simpy.Event, Any, None]
"""A SimPy process: it yields what it waits for."""


class Event(Record):
    """Something that happens to a cluster; `event` of a subclass is its name in a scenario."""

    at_s: float = Field(ge=0, le=7 * 86_400)
    """When it begins, in seconds from the start."""

    def happen(self, cluster: Cluster) -> EventProcess:
        """The process that is started at `at_s`."""
        raise NotImplementedError
