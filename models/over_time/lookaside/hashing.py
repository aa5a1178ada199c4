"""Which node of a list a key belongs to, and which keys have another one after the list changed.

`modulo` takes the hash of a key modulo the length of the list. From n nodes to m it leaves
min(n, m) of every lcm(n, m) hash values where they are, whatever the hash function.

`ketama` is consistent hashing as in libketama and libmemcached: every node is a number of points on
a circle of 32-bit numbers, 40 MD5 digests of `name-0`, `name-1`, ... with four points each for a
node of mean weight, and a key belongs to the next point (R. Jones, *libketama*, 2007; libmemcached
`hosts.cc`). A new node takes arcs from all others and moves nothing else.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Hashing = Literal["modulo", "ketama"]

DIGESTS_PER_NODE = 40
POINTS_PER_DIGEST = 4
CIRCLE = 2**32

MOST_RESIDUES = 1_000_000
"""Residues that are looked at one by one; of more, as many evenly spaced ones are."""


@dataclass(frozen=True)
class Ring:
    """Points of a circle in ascending order, and to which entry of the list each belongs."""

    points: NDArray[np.int64]
    entries: NDArray[np.int64]

    def owners(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Entry of the list that each hash belongs to: that of the next point."""
        at = np.searchsorted(self.points, hashes, side="left")
        return np.asarray(self.entries[at % len(self.points)])


def ketama_ring(names: Sequence[str]) -> Ring:
    """The points of a list of nodes, all of the same weight.

    Parameters
    ----------
    names
        As clients spell them, such as `10.0.0.1:11211`; points depend on nothing else.
    """
    points: list[int] = []
    entries: list[int] = []
    for entry, name in enumerate(names):
        for number in range(DIGESTS_PER_NODE):
            digest = hashlib.md5(f"{name}-{number}".encode(), usedforsecurity=False).digest()
            points += np.frombuffer(digest, "<u4").tolist()
            entries += [entry] * POINTS_PER_DIGEST
    order = np.argsort(np.array(points, np.int64), kind="stable")
    return Ring(np.array(points, np.int64)[order], np.array(entries, np.int64)[order])


def ketama_hash(key: bytes) -> int:
    """Where a key stands on the circle: the first four bytes of its MD5 digest."""
    return int.from_bytes(hashlib.md5(key, usedforsecurity=False).digest()[:4], "little")


@dataclass(frozen=True)
class Groups:
    """Keys that always belong to the same node as each other, one list after the other.

    Attributes
    ----------
    shares : (groups,)
        Share of all keys; they add up to one.
    owners : (lists, groups)
        Node that each group belongs to under each list.
    """

    shares: NDArray[np.float64]
    owners: NDArray[np.int64]


def groups_of(
    lists: Sequence[Sequence[int]], *, hashing: Hashing, names: Sequence[str] = ()
) -> Groups:
    """Group keys by the nodes they belong to under several lists.

    Parameters
    ----------
    lists
        Numbers of nodes in the order in which clients list them, one list after the other.
    names
        What clients call each number; needed for `ketama`.
    """
    if hashing == "modulo":
        shares, owners = _by_residue(lists)
    else:
        shares, owners = _by_arc(lists, names)
    unique, group = np.unique(owners, axis=1, return_inverse=True)
    together = np.bincount(group.reshape(-1), weights=shares, minlength=unique.shape[1])
    return Groups(together / together.sum(), unique)


def _by_residue(
    lists: Sequence[Sequence[int]],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    residues = math.lcm(*(len(found) for found in lists))
    if residues <= MOST_RESIDUES:
        hashes = np.arange(residues)
    else:
        hashes = np.linspace(0, residues - 1, MOST_RESIDUES).astype(np.int64)
    owners = [np.array(found, np.int64)[hashes % len(found)] for found in lists]
    return np.full(len(hashes), 1.0 / len(hashes)), np.stack(owners)


def _by_arc(
    lists: Sequence[Sequence[int]], names: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rings = [ketama_ring([names[node] for node in found]) for found in lists]
    ends = np.unique(np.concatenate([ring.points for ring in rings]))
    # The arc before the first point begins behind the last one.
    lengths = np.diff(ends, prepend=ends[-1] - CIRCLE)
    owners = [
        np.array(found, np.int64)[ring.owners(ends)]
        for found, ring in zip(lists, rings, strict=True)
    ]
    return lengths / CIRCLE, np.stack(owners)


def share_moved(groups: Groups, before: int, after: int) -> float:
    """Share of the keys that two of the lists give to different nodes."""
    moved = groups.owners[before] != groups.owners[after]
    return float(groups.shares[moved].sum())
