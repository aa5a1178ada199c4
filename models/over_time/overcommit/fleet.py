"""Who has which memory where, and one step of it.

Memory is counted in GB of 10^9 bytes. Arrays have one element per machine or per host; a machine
that doesn't exist (yet, or any more) is on host -1 and has nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .schema import OvercommitScenario

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NOWHERE = -1


class Fleet:
    """The state, and how memory follows what machines want.

    Attributes
    ----------
    host : (machines,) int64
        Where each is.
    copy_to : (machines,) int64
        Host that a migration copies it to, which holds as much memory for it.
    taken_gb, swapped_gb : (machines,) float64
        Physical memory and memory on disk that each has.
    short_gb : (machines,) float64
        What each was refused by its host in the last step; its own token bucket doesn't count.
    short_since_s : (machines,) float64
        Since when it is short; infinite if it isn't.
    up : (hosts,) bool
        Which hosts work.
    scale_ups, refused_scale_ups : int
        Times a machine began to want more than it had, and those whose host could not give it all
        without delay.
    waits_s : list of (count,) float64
        How long each refused scale-up waited for memory, those that are over.
    """

    def __init__(self, scenario: OvercommitScenario, *, machines: int) -> None:
        self.scenario = scenario
        self.memory_gb = scenario.hosts.memory_gb
        self.nominal_gb = scenario.machines.nominal_gb or self.memory_gb
        self.host = np.full(machines, NOWHERE, dtype=np.int64)
        self.copy_to = np.full(machines, NOWHERE, dtype=np.int64)
        self.taken_gb = np.zeros(machines)
        self.swapped_gb = np.zeros(machines)
        self.short_gb = np.zeros(machines)
        self.short_since_s = np.full(machines, np.inf)
        self.up = np.ones(scenario.hosts.count, dtype=bool)
        self.scale_ups = 0
        self.refused_scale_ups = 0
        self.waits_s: list[Floats] = []
        self._tokens_gb = np.full(machines, scenario.machines.growth.burst_gb)
        self._growing = np.zeros(machines, dtype=bool)
        self._refused = np.zeros(machines, dtype=bool)
        self._unused_since_s = np.full(machines, np.inf)

    def host_gb(self) -> Floats:
        """Physical memory taken on each host, copies that are under way included."""
        copied = np.flatnonzero(self.copy_to >= 0)
        return self._by_host(self.host, self.taken_gb) + self._by_host(
            self.copy_to[copied], self.taken_gb[copied]
        )

    def _by_host(self, host: Ints, amount: Floats) -> Floats:
        # Machines that are nowhere (-1) count for a host before the first, which is cut off.
        summed = np.bincount(host + 1, weights=amount, minlength=len(self.up) + 1)
        return summed[1:].astype(np.float64, copy=False)

    def advance(self, time_s: float, step_s: float, wanted_gb: Floats) -> None:
        """Let every machine grow or shrink toward what it wants, for one step.

        Parameters
        ----------
        time_s
            When the step ends.
        wanted_gb : (machines,) float64
            What each wants.
        """
        unit_gb = self.scenario.machines.unit_gb
        here = self.host >= 0
        wanted_gb = np.where(here, np.clip(wanted_gb, 0.0, self.nominal_gb), 0.0)
        # What is on disk comes first: it is wanted, and it is the slow part.
        units_gb = np.minimum(np.ceil(wanted_gb / unit_gb) * unit_gb, self.nominal_gb)
        self._give_back(time_s, step_s, units_gb)
        self._grow(time_s, step_s, np.where(here, units_gb, 0.0))

    def _give_back(self, time_s: float, step_s: float, units_gb: Floats) -> None:
        delay_s, gb_per_s, share = self.scenario.machines.give_back.numbers
        self.swapped_gb = np.minimum(self.swapped_gb, np.maximum(0.0, units_gb - self.taken_gb))
        unused_gb = share * np.maximum(0.0, self.taken_gb - units_gb)
        self._unused_since_s = np.where(
            unused_gb > 0, np.minimum(self._unused_since_s, time_s - step_s), np.inf
        )
        # Of the step, the part in which the wait is over.
        running_s = np.clip(time_s - self._unused_since_s - delay_s, 0.0, step_s)
        self.taken_gb -= np.minimum(unused_gb, gb_per_s * running_s)

    def _grow(self, time_s: float, step_s: float, units_gb: Floats) -> None:
        growth, unit_gb = self.scenario.machines.growth, self.scenario.machines.unit_gb
        missing_gb = np.maximum(0.0, units_gb - self.taken_gb)
        wants = missing_gb > 1e-9
        begins = wants & ~self._growing
        self.scale_ups += int(np.count_nonzero(begins))
        self._refused &= ~begins
        self._growing = wants
        self._tokens_gb = np.minimum(growth.burst_gb, self._tokens_gb + growth.gb_per_s * step_s)
        # In most steps few machines grow, so that only those are looked at from here.
        asking = np.flatnonzero(missing_gb)
        missing_gb = missing_gb[asking]
        asked_gb = np.minimum(missing_gb, self._tokens_gb[asking])
        # Whole units, but for the last part of one.
        asked_gb = np.where(asked_gb < missing_gb, np.floor(asked_gb / unit_gb) * unit_gb, asked_gb)
        # A machine on the move grows on both hosts, so the tighter one decides.
        host, copy_to = self.host[asking], self.copy_to[asking]
        share = self._granted_share(host, copy_to, asked_gb)
        granted_gb = asked_gb * np.minimum(share[host], share[copy_to])
        self.taken_gb[asking] += granted_gb
        self._tokens_gb[asking] -= granted_gb
        self.swapped_gb[asking] = np.maximum(0.0, self.swapped_gb[asking] - granted_gb)
        self.short_gb = np.zeros(len(self.host))
        self.short_gb[asking] = np.maximum(0.0, asked_gb - granted_gb)
        short = self.short_gb > 1e-9
        self.refused_scale_ups += int(np.count_nonzero(short & ~self._refused))
        self._refused |= short
        ends = ~short & np.isfinite(self.short_since_s)
        if ends.any():
            self.waits_s.append(time_s - step_s - self.short_since_s[ends])
        self.short_since_s = np.where(
            short, np.minimum(self.short_since_s, time_s - step_s), np.inf
        )

    def _granted_share(self, host: Ints, copy_to: Ints, asked_gb: Floats) -> Floats:
        """Share of what is asked that each host has room for, and 1 behind the last (nowhere)."""
        room_gb = self.scenario.heat.give_until * self.memory_gb - self.host_gb()
        demand_gb = self._by_host(host, asked_gb) + self._by_host(copy_to, asked_gb)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(demand_gb > 0, np.clip(room_gb / demand_gb, 0.0, 1.0), 1.0)
        return np.append(np.where(self.up, share, 0.0), 1.0)

    def start(self, machine: int, host: int, *, taken_gb: float = 0.0) -> None:
        """Let a machine start on a host."""
        self.host[machine] = host
        self.taken_gb[machine] = taken_gb
        self.swapped_gb[machine] = 0.0
        self._tokens_gb[machine] = self.scenario.machines.growth.burst_gb
        self.short_since_s[machine] = np.inf
        self._growing[machine] = False

    def stop(self, machine: int) -> None:
        """Take a machine off its host; its memory is free at once."""
        self.start(machine, NOWHERE)
        self.copy_to[machine] = NOWHERE
        self.short_gb[machine] = 0.0

    def swap(self, machine: int) -> None:
        """Give a machine on disk what its host refuses."""
        self.swapped_gb[machine] += self.short_gb[machine]
        self.short_since_s[machine] = np.inf

    def wait_s(self, quantile: float) -> float:
        """A quantile of the wait for memory over all scale-ups; most don't wait."""
        waits_s = np.sort(np.concatenate([np.zeros(0), *self.waits_s]))
        beyond = self.scale_ups - int(np.ceil(quantile * self.scale_ups))
        return float(waits_s[-1 - beyond]) if beyond < len(waits_s) else 0.0

    def check(self) -> None:
        """Hold the laws of accounting; a step that breaks one is a defect.

        Raises
        ------
        AssertionError
            Memory is taken nowhere, on a host that is down, or beyond what a host has.
        """
        gone = self.host < 0
        assert not self.taken_gb[gone].any(), "a machine nowhere has memory"
        assert (self.taken_gb >= -1e-9).all(), "a machine has less than nothing"
        used_gb = self.host_gb()
        assert not used_gb[~self.up].any(), "memory is taken on a host that is down"
        most_gb = self.memory_gb * (1 + 1e-9)
        assert used_gb.max(initial=0.0) <= most_gb, "more is taken on a host than it has"
