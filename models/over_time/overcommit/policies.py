"""Who goes where: small functions that can be exchanged.

A host policy picks one of the hosts that have room, a victim policy the machine that leaves a hot
host. One of your own has the same form; `run_overcommit` takes it instead of a name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Candidates:
    """Hosts with room, as the fleet manager sees them.

    Attributes
    ----------
    hosts
        Their numbers.
    taken_share
        Share of the memory that is taken on each, as old as the view.
    """

    hosts: Ints
    taken_share: Floats


@dataclass(frozen=True)
class Residents:
    """Machines on a hot host.

    Attributes
    ----------
    machines
        Their numbers.
    taken_gb, moved_gb
        What each has, and what moving it would send.
    above_gb
        How much the host has above where it begins to be hot.
    """

    machines: Ints
    taken_gb: Floats
    moved_gb: Floats
    above_gb: float


HostPolicy = Callable[[Candidates, np.random.Generator], int]
"""The position of the host that is chosen; there is at least one."""

VictimPolicy = Callable[[Residents, np.random.Generator], int]
"""The position of the machine that is chosen; there is at least one."""


def random_host(candidates: Candidates, draws: np.random.Generator) -> int:
    """Any."""
    return int(draws.integers(len(candidates.hosts)))


def best_of(k: int) -> HostPolicy:
    """The emptiest of k different ones that are drawn."""

    def choose(candidates: Candidates, draws: np.random.Generator) -> int:
        hosts = len(candidates.hosts)
        drawn = draws.choice(hosts, size=min(k, hosts), replace=False)
        return int(drawn[np.argmin(candidates.taken_share[drawn])])

    return choose


def fullest_host(candidates: Candidates, _draws: np.random.Generator) -> int:
    """The fullest, so that others stay empty: best fit."""
    return int(np.argmax(candidates.taken_share))


def emptiest_host(candidates: Candidates, _draws: np.random.Generator) -> int:
    """The emptiest: worst fit, the best of all with what is known."""
    return int(np.argmin(candidates.taken_share))


def largest(residents: Residents, _draws: np.random.Generator) -> int:
    """The one that has most."""
    return int(np.argmax(residents.taken_gb))


def smallest_that_cools(residents: Residents, draws: np.random.Generator) -> int:
    """The smallest that is enough to cool the host; the largest if none is."""
    enough = residents.taken_gb >= residents.above_gb
    if not enough.any():
        return largest(residents, draws)
    return int(np.argmin(np.where(enough, residents.taken_gb, np.inf)))


def cheapest(residents: Residents, draws: np.random.Generator) -> int:
    """The one that sends least among those that cool the host; the largest if none does."""
    enough = residents.taken_gb >= residents.above_gb
    if not enough.any():
        return largest(residents, draws)
    return int(np.argmin(np.where(enough, residents.moved_gb, np.inf)))


def any_machine(residents: Residents, draws: np.random.Generator) -> int:
    """Any."""
    return int(draws.integers(len(residents.machines)))


HOST_POLICIES: dict[str, HostPolicy] = {
    "random": random_host,
    "best_of_two": best_of(2),
    "unbalanced": fullest_host,
    "emptiest": emptiest_host,
}

VICTIM_POLICIES: dict[str, VictimPolicy] = {
    "largest": largest,
    "smallest_that_cools": smallest_that_cools,
    "cheapest": cheapest,
    "random": any_machine,
}
