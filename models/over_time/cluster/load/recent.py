"""What clients asked of each node in the last seconds, for work that shares its main thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....scenario.workload import sizes_of
from ..slots.migration import NodeLoad

if TYPE_CHECKING:
    from ..cluster import Cluster
    from .load import LoadStep

LOOK_S = 5.0
"""How often a move looks anew at the load of its nodes, and over how long that is averaged."""


class RecentLoad:
    """Notes what is asked, step by step, once `begin` was called.

    Attributes
    ----------
    commands_per_s
        Commands of all requests that began, averaged over the last seconds.
    """

    def __init__(self, cluster: Cluster, *, memory_s: float = LOOK_S) -> None:
        self._cluster, self._memory_s = cluster, memory_s
        self.commands_per_s = 0.0

    def begin(self) -> None:
        """From now on."""
        self._cluster.after_step(self._note)

    def _note(self, step: LoadStep) -> None:
        now = float(step.offered @ step.commands_each) / step.length_s
        weight = min(1.0, step.length_s / self._memory_s) if self.commands_per_s else 1.0
        self.commands_per_s += (now - self.commands_per_s) * weight

    def of(self, node: int) -> NodeLoad:
        """What clients ask of a node: its present share of that."""
        nodes = self._cluster.nodes
        rate = self.commands_per_s * float(nodes.traffic[node])
        one_s = nodes.kind_of(node).surrogate.main_ps * 1e-12
        return NodeLoad(
            busy=min(1.0, rate * one_s),
            waiting_s=float(nodes.connections[node]) * one_s,
            writes_per_s=rate * self._cluster.scenario.demand.mix.set,
            write_bytes=mean_value_bytes(self._cluster),
        )


def mean_value_bytes(cluster: Cluster) -> float:
    """Of a value."""
    sizes = sizes_of(cluster.scenario.data.value_bytes)
    return sum(size * weight for size, weight in sizes)
