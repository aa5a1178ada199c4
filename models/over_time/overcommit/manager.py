"""The fleet manager: places machines, looks at heat, moves machines, cleans up behind failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import simpy
from numpy.typing import NDArray

from forecache.sim.streams import generator

from ..recorder import Process
from .demand import Wants
from .fleet import NOWHERE, Fleet
from .precopy import (
    Dirtying,
    Migration,
    MigrationLimits,
    bytes_per_key,
    even_writes,
    key_writes,
    migrate,
)
from .schema import HostFailure, Machines

_PLACEMENT, _DESTINATION, _VICTIM, _LIFETIME = range(30, 34)
"""Purposes of draws."""

_GB = 1e9
_BYTES_PER_GBIT = 1.25e8


def machine_dirtying(
    machines: Machines, memory_bytes: float, requests_per_s: float | None = None
) -> Dirtying:
    """How a machine with so much memory writes it.

    Parameters
    ----------
    requests_per_s
        What it is asked in all, if that is known; without it the rates of the scenario count.
    """
    asked = machines.requests
    if asked is None:
        return even_writes(
            bytes_per_s=machines.written_share_per_s * memory_bytes,
            working_set_bytes=machines.writable_share * memory_bytes,
        )
    # Tables double, so that a key's part of them depends on how many there are: once around is
    # near enough.
    keys = 1_000_000
    for _ in range(2):
        each = bytes_per_key(
            asked.layout, keys=keys, key_bytes=asked.key_bytes, value_bytes=asked.value_bytes
        )
        keys = max(1, int(memory_bytes / each))
    reads, writes = asked.reads_per_s_per_gb, asked.writes_per_s_per_gb
    factor = memory_bytes / _GB
    if requests_per_s is not None and reads + writes > 0:
        factor = requests_per_s / (reads + writes)
    return key_writes(
        layout=asked.layout,
        keys=keys,
        key_bytes=asked.key_bytes,
        value_bytes=asked.value_bytes,
        reads_per_s=reads * factor,
        writes_per_s=writes * factor,
        popularity=asked.popularity,
    )


@dataclass(frozen=True)
class MachineMove:
    """Which machine a migration was about, from where to where, and whether it got there."""

    machine: int
    source: int
    target: int
    began_s: float
    ended_s: float
    moved: bool


class Manager:
    """What happens to machines between steps.

    Attributes
    ----------
    migrations : list of Migration
        All that ended, those that were given up included.
    moves : list of Move
        The same in the same order: who went where.
    begun : int
        Migrations that began.
    killed, restarted, unplaced : int
        Machines that were killed for want of memory, that restarted after a failure, and that
        no host had room for.
    """

    def __init__(
        self,
        env: simpy.Environment,
        fleet: Fleet,
        wants: Wants,
        *,
        placement: HostPolicy,
        destination: HostPolicy,
        victim: VictimPolicy,
        seed: int,
    ) -> None:
        self._env, self._fleet, self._wants, self._seed = env, fleet, wants, seed
        self._placement, self._destination, self._victim = placement, destination, victim
        scenario = fleet.scenario
        self._limits = MigrationLimits(
            blackout_s=scenario.migration.blackout_ms / 1e3,
            resume_s=scenario.migration.resume_ms / 1e3,
            timeout_s=scenario.migration.timeout_s,
            within_rounds=scenario.migration.stops == "within_a_round",
        )
        self._streams = np.zeros(len(fleet.up), dtype=np.int64)
        self._leaving = np.zeros(len(fleet.up), dtype=np.int64)
        self._view_gb = fleet.host_gb()
        self._view_s = -np.inf
        self._moves = 0
        self.migrations: list[Migration] = []
        self.moves: list[MachineMove] = []
        self.under_way = self.begun = 0
        self.killed = self.restarted = self.unplaced = 0

    def _view(self) -> NDArray[np.float64]:
        """Memory taken on each host, as old as the view may be."""
        age_s = self._env.now - self._view_s
        # Within one moment the view stays: what was promised in it counts.
        if age_s > 0 and age_s >= self._fleet.scenario.heat.view_age_s:
            self._view_gb, self._view_s = self._fleet.host_gb(), self._env.now
        return self._view_gb

    def place(self, machine: int, *, expected_gb: float, running: bool = False) -> None:
        """Start a machine on a host with room for what it is expected to want.

        Parameters
        ----------
        running
            Whether it has that much at once, as what runs when a simulation begins.
        """
        draws = generator(self._seed, _PLACEMENT, machine)
        host = self._choose(self._placement, expected_gb, draws, without=NOWHERE)
        if host == NOWHERE:
            self.unplaced += 1
            return
        self._fleet.start(machine, host, taken_gb=expected_gb if running else 0.0)
        self._view_gb[host] += expected_gb

    def _choose(
        self, policy: HostPolicy, need_gb: float, draws: np.random.Generator, *, without: int
    ) -> int:
        """A host that the policy likes: below its fill, else below where it would be hot."""
        fleet, heat = self._fleet, self._fleet.scenario.heat
        view_gb = self._view()
        for limit in (fleet.scenario.policies.fill_until, heat.move_above):
            room = fleet.up & (view_gb + need_gb <= limit * fleet.memory_gb)
            if without >= 0:
                room[without] = False
                room &= self._streams < fleet.scenario.migration.at_once
            hosts = np.flatnonzero(room)
            if len(hosts):
                shares = view_gb[hosts] / fleet.memory_gb
                return int(hosts[policy(Candidates(hosts, shares), draws)])
        return NOWHERE

    def look(self) -> Process:
        """Every so often, let each hot host give a machine away."""
        fleet, heat = self._fleet, self._fleet.scenario.heat
        while True:
            yield self._env.timeout(heat.look_every_s)
            self._exhausted()
            above_gb = fleet.host_gb() - heat.move_above * fleet.memory_gb
            hot = np.flatnonzero((above_gb > 0) & (self._leaving == 0))
            for host in hot[np.argsort(-above_gb[hot], kind="stable")]:
                self._cool(int(host), float(above_gb[host]))

    def _cool(self, host: int, above_gb: float) -> None:
        fleet = self._fleet
        at_once = fleet.scenario.migration.at_once
        if self._streams[host] >= at_once:
            return
        residents = np.flatnonzero(
            (fleet.host == host) & (fleet.copy_to == NOWHERE) & (fleet.taken_gb > 0)
        )
        if not len(residents):
            return
        self._moves += 1
        taken_gb = fleet.taken_gb[residents]
        rest = Residents(residents, taken_gb, taken_gb, above_gb)
        chosen = self._victim(rest, generator(self._seed, _VICTIM, self._moves))
        machine = int(residents[chosen])
        draws = generator(self._seed, _DESTINATION, self._moves)
        need_gb = float(fleet.taken_gb[machine])
        target = self._choose(self._destination, need_gb, draws, without=host)
        if target == NOWHERE or fleet.host_gb()[target] + need_gb > fleet.memory_gb:
            return  # The view may be older than what is there.
        fleet.copy_to[machine] = target
        self._view_gb[target] += need_gb
        self._streams[[host, target]] += 1
        self._leaving[host] += 1
        self._env.process(self._move(machine, host, target))

    def _move(self, machine: int, host: int, target: int) -> Process:
        """One live migration, at the bandwidth it has when it begins."""
        fleet, migration = self._fleet, self._fleet.scenario.migration
        self.under_way += 1
        self.begun += 1
        network = fleet.scenario.hosts.network_gbit_per_s
        share = network / max(self._streams[host], self._streams[target])
        gbit_per_s = min(migration.gbit_per_s or network, share)
        memory_bytes = float(fleet.taken_gb[machine]) * _GB
        outcome = migrate(
            memory_bytes,
            machine_dirtying(
                fleet.scenario.machines,
                memory_bytes,
                self._wants.requests_per_s(machine, self._env.now),
            ),
            bandwidth_bytes_per_s=gbit_per_s * _BYTES_PER_GBIT,
            limits=self._limits,
        )
        began_s = float(self._env.now)
        yield self._env.timeout(outcome.duration_s)
        self._streams[[host, target]] -= 1
        self._leaving[host] -= 1
        self.under_way -= 1
        if fleet.copy_to[machine] != target:
            return  # Its host failed meanwhile, or it was deleted or killed.
        fleet.copy_to[machine] = NOWHERE
        if outcome.converged:
            fleet.host[machine] = target
        self.migrations.append(outcome)
        ended_s, moved = float(self._env.now), outcome.converged
        self.moves.append(MachineMove(machine, host, target, began_s, ended_s, moved))

    def _exhausted(self) -> None:
        """Help machines that are short for longer than is acceptable."""
        fleet, scenario = self._fleet, self._fleet.scenario
        if scenario.exhausted == "wait":
            return
        waited = np.flatnonzero(self._env.now - fleet.short_since_s > scenario.patience_s)
        for machine in map(int, waited):
            if scenario.exhausted == "swap":
                fleet.swap(machine)
            else:
                need_gb = float(fleet.taken_gb[machine] + fleet.short_gb[machine])
                fleet.stop(machine)
                self.killed += 1
                self.place(machine, expected_gb=need_gb)

    def fail(self, failure: HostFailure, *, first: int) -> Process:
        """Hosts that fail from `first` on; their machines start again elsewhere, empty."""
        yield self._env.timeout(failure.at_s)
        fleet = self._fleet
        gone = np.arange(first, first + failure.hosts)
        fleet.up[gone] = False
        lost = np.flatnonzero(np.isin(fleet.host, gone))
        # A copy on a host that failed is worth nothing; the machine goes on where it is.
        fleet.copy_to[np.isin(fleet.copy_to, gone)] = NOWHERE
        needs_gb = fleet.taken_gb[lost].copy()
        for machine in lost:
            fleet.stop(int(machine))
        for machine, need_gb in zip(lost, needs_gb, strict=True):
            self.restarted += 1
            self.place(int(machine), expected_gb=float(need_gb))

    def arrive(self, machine: int, at_s: float, *, expected_gb: float) -> Process:
        """A new machine."""
        yield self._env.timeout(at_s)
        self.place(machine, expected_gb=expected_gb)

    def live(self, machine: int, until_s: float) -> Process:
        """A machine that is deleted at a time."""
        yield self._env.timeout(until_s)
        self._fleet.stop(machine)


# --- policies -------------------------------------------------------------------------------------

# Who goes where: small functions that can be exchanged.
#
# A host policy picks one of the hosts that have room, a victim policy the machine that leaves a hot
# host. One of your own has the same form; `run_overcommit` takes it instead of a name.


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
