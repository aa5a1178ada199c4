"""Memory that data take up, for claims about it."""

from __future__ import annotations

from collections.abc import Sequence

from forecache.models.footprint.schema import Population
from forecache.models.footprint.weigh import NodeFootprint, baseline, check_cluster, weigh
from forecache.models.layouts.allocator import Allocator
from forecache.models.layouts.generations import generation


def used_memory_bytes(
    engine: str,
    data: Sequence[Population],
    *,
    engine_version: str | None = None,
    allocator: Allocator | None = None,
    slots: int | None = None,
) -> float:
    """`used_memory` of a node with some data, when its tables have moved.

    Parameters
    ----------
    engine, engine_version
        As in a scenario; the newest known without a version.
    data
        What it holds.
    allocator
        The engine's own without it.
    slots
        Slots it serves in cluster mode; None without.

    Raises
    ------
    InputError
        The engine, or cluster mode of its version, isn't known.
    """
    g = generation(engine, engine_version)
    if slots is not None:
        check_cluster(g)
    node = NodeFootprint(g, allocator or g.allocator, slots)
    beside = baseline(g, cluster=node.cluster, clients=1)
    return weigh(node, data, beside=beside).used_bytes
