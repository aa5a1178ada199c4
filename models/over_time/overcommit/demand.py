"""What machines want: how much memory each would have now if there were no limit.

All draws are addressed by machine (or tenant) and time, so that a demand doesn't depend on what the
fleet does with it.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from forecache.sim.streams import generator

from .schema import DAY_S, FlashCrowd, FleetDemand
from .traces import Trace

Floats = NDArray[np.float64]

_MEANS, _PEAKS, _NOISE_TENANT, _NOISE_MACHINE, _BURSTS, _CROWDS, _TRACE = range(10, 17)
"""Purposes of draws."""

_NOISE_STEP_S = 300.0
"""Random changes are drawn so often, and go straight between draws."""


class Wants(Protocol):
    """A demand."""

    def at(self, time_s: float) -> Floats:
        """GB that each machine wants; asked for times that don't fall."""
        ...

    def requests_per_s(self, machine: int, time_s: float) -> float | None:
        """What a machine is asked then; None if that is left to the scenario."""
        ...


class SyntheticDemand:
    """A mean, a season, noise and bursts for each machine.

    Parameters
    ----------
    demand, crowds
        As the scenario says.
    machines
        How many.
    duration_s
        Until when bursts are drawn.
    seed
        Of all draws.
    """

    def __init__(
        self,
        demand: FleetDemand,
        crowds: list[FlashCrowd],
        *,
        machines: int,
        duration_s: float,
        seed: int,
    ) -> None:
        self._demand, self._crowds, self._seed = demand, crowds, seed
        variance = math.log1p(demand.spread**2)
        normal = generator(seed, _MEANS).standard_normal(machines)
        self._mean_gb = demand.mean_gb * np.exp(math.sqrt(variance) * normal - variance / 2)
        tenants = demand.tenants or machines
        self._tenant = np.arange(machines) % tenants
        peaks_h = demand.peak_spread_h * generator(seed, _PEAKS).standard_normal(tenants)
        self._phase = (2 * math.pi * peaks_h / 24)[self._tenant]
        self._machines, self._tenants = machines, tenants
        self._epoch = 0
        self._noise = (self._drawn(0), self._drawn(0))
        self._step_noise(1)
        self._bursting = np.zeros(machines, dtype=np.int64)
        self._edges = _burst_edges(demand, machines=machines, duration_s=duration_s, seed=seed)
        self._next_edge = 0
        self._in_crowd = [
            generator(seed, _CROWDS, number).random(machines) < crowd.share
            for number, crowd in enumerate(crowds)
        ]

    def _drawn(self, epoch: int) -> Floats:
        """Standard normal changes of one epoch, in common within tenants as far as it is said."""
        common = generator(self._seed, _NOISE_TENANT, epoch).standard_normal(self._tenants)
        own = generator(self._seed, _NOISE_MACHINE, epoch).standard_normal(self._machines)
        share = self._demand.in_common
        mixed: Floats = math.sqrt(share) * common[self._tenant] + math.sqrt(1 - share) * own
        return mixed

    def _step_noise(self, epoch: int) -> None:
        """An autoregressive step: half forgotten after `noise_memory_min`."""
        kept = 0.5 ** (_NOISE_STEP_S / (60.0 * self._demand.noise_memory_min))
        last = self._noise[1]
        self._noise = (last, kept * last + math.sqrt(1 - kept**2) * self._drawn(epoch))
        self._epoch = epoch

    def at(self, time_s: float) -> Floats:
        """GB that each machine wants now."""
        demand = self._demand
        epoch, share = divmod(time_s / _NOISE_STEP_S, 1.0)
        while self._epoch < int(epoch) + 1:
            self._step_noise(self._epoch + 1)
        season = 1.0 + demand.daily_swing * np.cos(2 * math.pi * time_s / DAY_S - self._phase)
        noise = (1 - share) * self._noise[0] + share * self._noise[1]
        wanted = self._mean_gb * season * np.exp(demand.noise * noise - demand.noise**2 / 2)
        times_s, machines, changes = self._edges
        while self._next_edge < len(times_s) and times_s[self._next_edge] <= time_s:
            self._bursting[machines[self._next_edge]] += changes[self._next_edge]
            self._next_edge += 1
        wanted = np.where(self._bursting > 0, wanted * demand.bursts.factor, wanted)
        for crowd, reached in zip(self._crowds, self._in_crowd, strict=True):
            if crowd.at_s <= time_s < crowd.at_s + crowd.lasts_s:
                wanted = np.where(reached, wanted * crowd.factor, wanted)
        return wanted

    def requests_per_s(self, machine: int, time_s: float) -> None:
        """Left to the scenario."""


def _burst_edges(
    demand: FleetDemand, *, machines: int, duration_s: float, seed: int
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Times at which bursts begin and end, whose they are, and +1 or -1, in order of time."""
    draws = generator(seed, _BURSTS)
    number = draws.poisson(demand.bursts.per_day * duration_s / DAY_S, machines)
    whose = np.repeat(np.arange(machines), number)
    begin = draws.random(len(whose)) * duration_s
    end = begin + draws.exponential(60.0 * demand.bursts.minutes, len(whose))
    times_s = np.concatenate([begin, end])
    order = np.argsort(times_s, kind="stable")
    changes = np.repeat([1, -1], len(whose))
    return times_s[order], np.concatenate([whose, whose])[order], changes[order]


class TracedDemand:
    """Machines that repeat tenants of a trace, each drawn with a shift in time (a bootstrap).

    Parameters
    ----------
    trace
        What tenants had; it begins again at its end.
    machines
        How many.
    seed
        Of the draws.
    """

    def __init__(self, trace: Trace, *, machines: int, seed: int) -> None:
        self._trace = trace
        tenants, self._steps = trace.memory_gb.shape
        draws = generator(seed, _TRACE)
        self._row = draws.integers(tenants, size=machines)
        self._shift = draws.integers(self._steps, size=machines)

    def at(self, time_s: float) -> Floats:
        """GB that each machine wants now."""
        place = (int(time_s / self._trace.step_s) + self._shift) % self._steps
        found: Floats = self._trace.memory_gb[self._row, place]
        return found

    def requests_per_s(self, machine: int, time_s: float) -> float | None:
        """What a machine is asked now; None if the trace doesn't say."""
        if self._trace.requests_per_s is None:
            return None
        place = (int(time_s / self._trace.step_s) + self._shift[machine]) % self._steps
        return float(self._trace.requests_per_s[self._row[machine], place])
