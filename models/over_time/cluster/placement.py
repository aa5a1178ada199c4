"""On which machine and in which zone each node runs, so that these can fail with what is on them.

Each node in turn (primaries first, then replicas, as they are numbered) goes to the machine with
the fewest nodes of its shard, then to the zone with the fewest of its shard, then to the machine
with the fewest nodes, then to where the first node of its shard has the fewest companions. So
primaries are spread evenly, and replicas lie apart from their primary and from each other as long
as there are machines and zones enough, as after `valkey-cli --cluster create` (which knows no
zones) and in managed services.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecache.hwprofiles.files import FieldError


@dataclass(frozen=True)
class NodePlacement:
    """(nodes,) machine and zone of each node, and how many there are of both."""

    machine: NDArray[np.int64]
    zone: NDArray[np.int64]
    machines: int
    zones: int


def place(
    shards: Sequence[int],
    *,
    machines: int | Sequence[Sequence[int]] | None = None,
    zones: int | Sequence[Sequence[int]] = 3,
) -> NodePlacement:
    """Place the nodes of some shards.

    Parameters
    ----------
    shards
        (nodes,) shard of each node, in the order in which they were made.
    machines
        How many there are, or the nodes on each; a machine for each node without it. Nodes that a
        list does not have get one each.
    zones
        How many there are, or the machines in each. A number deals machines out in turn; where
        every node has a machine of its own, shards are spread over zones.

    Raises
    ------
    FieldError
        A list names a node or a machine twice, or one that there is not.
    """
    count = len(shards)
    if machines is None or not isinstance(machines, int):
        given = _listed(machines or [], of=count, field="machines")
        added = np.flatnonzero(given < 0)
        number = 0 if machines is None else len(machines)
        given[added] = number + np.arange(len(added))
        machine, machines_there = given, number + len(added)
    else:
        machine, machines_there = np.full(count, -1), machines
    if isinstance(zones, int):
        zones_there = zones
        zone_of = np.arange(machines_there) % zones
        if machines is None:
            zone_of = _deal(shards, np.arange(zones), np.zeros(zones, dtype=np.int64))
    else:
        zones_there = len(zones)
        zone_of = _listed(zones, of=machines_there, field="zones")
        if (missing := np.flatnonzero(zone_of < 0)).size:
            raise FieldError(
                "zones", found=f"no zone of machine {missing[0]}", valid="every machine"
            )
    if isinstance(machines, int):
        machine = _deal(shards, np.arange(machines), zone_of)
    return NodePlacement(machine, np.asarray(zone_of[machine]), machines_there, zones_there)


def _deal(
    shards: Sequence[int], places: NDArray[np.int64], zone_of: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The place of each node."""
    count = len(places)
    found = np.zeros(len(shards), dtype=np.int64)
    load = np.zeros(count, dtype=np.int64)
    companions = np.zeros((count, count), dtype=np.int32)
    own: dict[int, list[int]] = {}
    for node, shard in enumerate(shards):
        there = own.setdefault(shard, [])
        of_shard = np.bincount(there, minlength=count)
        in_zone = np.bincount(zone_of, weights=of_shard)[zone_of]
        with_first = companions[there[0]] if there else np.zeros(count)
        found[node] = np.lexsort((places, with_first, load, in_zone, of_shard))[0]
        load[found[node]] += 1
        if there:
            companions[there[0], found[node]] += 1
        there.append(int(found[node]))
    return found


def _listed(groups: Sequence[Sequence[int]], *, of: int, field: str) -> NDArray[np.int64]:
    """(of,) which group has each; -1 for none."""
    found = np.full(of, -1, dtype=np.int64)
    for number, group in enumerate(groups):
        for each in group:
            if not 0 <= each < of:
                raise FieldError(field, found=each, valid=f"numbers from 0 to {of - 1}")
            if found[each] >= 0:
                raise FieldError(field, found=f"{each} twice", valid="each number once")
            found[each] = number
    return found
