"""Whether the data of a cluster's nodes fit on their hosts, as long as it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...footprint.limits import MemoryLimit, Room, host_limit, managed_limit, room
from ...footprint.weigh import PROCESS_BYTES

if TYPE_CHECKING:
    from ...prediction.system import System
    from ...prices.table import PriceTable
    from .nodes import Nodes


def node_limit(system: System, prices: PriceTable | None, node_type: str | None) -> MemoryLimit:
    """What a node has for its data: as what it is paid for, where that is a managed node."""
    bought = None
    if prices is not None and node_type in prices.nodes.types:
        bought = managed_limit(prices, node_type, field="cost.node_type")
    return bought or host_limit(system.host, system.engine.engine, field="cluster.host")


class MemoryWatch:
    """Notes the node of each kind that needs most, and since when one needs more than it has."""

    def __init__(self, nodes: Nodes, *, connection_bytes: float) -> None:
        self._nodes, self._connection_bytes = nodes, connection_bytes
        self._most: dict[int, Room] = {}
        self.short_since_s: float | None = None
        """When the data of a node first did not fit."""

    def used_bytes(self) -> np.ndarray:
        """(nodes,) used memory now."""
        nodes = self._nodes
        server = np.array([kind.server_bytes for kind in nodes.kinds])[nodes.kind]
        return np.asarray(server + nodes.data_bytes + self._connection_bytes * nodes.connections)

    def look(self, now_s: float) -> float:
        """Note what nodes need now; returns the most used memory of one."""
        used = self.used_bytes()
        for number, kind in enumerate(self._nodes.kinds):
            mine = used[self._nodes.kind == number]
            if kind.limit is None or not len(mine):
                continue
            found = room(kind.limit, float(mine.max()), process_bytes=PROCESS_BYTES)
            if number not in self._most or found.needed_bytes > self._most[number].needed_bytes:
                self._most[number] = found
            if not found.fits and self.short_since_s is None:
                self.short_since_s = now_s
        return float(used.max())

    @property
    def shortfalls(self) -> list[str]:
        """A sentence for each kind of node on which data did not fit."""
        return [each.shortfall for each in self._most.values() if each.shortfall is not None]
