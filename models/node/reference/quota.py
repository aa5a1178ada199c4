"""CPU time that the server's threads may take per period: a quota of their control group.

The rules are those of Linux's CFS bandwidth control (Documentation/scheduler/sched-bwc.rst,
kernel/sched/fair.c since 5.4): at the beginning of every period a pool holds the quota again. A
core on which a thread of the group runs takes slices out of it. Where the slice is used up and the
pool is empty, the core is throttled: no thread of the group runs there before the next period. A
core keeps what it took and did not use, except what exceeds a millisecond when it has no thread of
the group left. That a slice is used up is noticed at the next timer tick, or when a thread blocks;
the core then owes the excess. The core that was throttled first gets its slice first.

Left out: that cores which were throttled go on in the middle of a period, if others give back more
than a slice; that a thread runs on to the end of its system call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import simpy

from forecache.sim.simpy_kernel import hold

from ..setup import KEPT_BUDGET_PS

if TYPE_CHECKING:
    from .cores import CoreAgent, Cores


class Quota:
    """The pool of a period and what each core has taken; without a quota nothing is limited."""

    def __init__(self, cores: Cores) -> None:
        self.cores = cores
        self.setup = cores.node.setup
        self.pool_ps = self.setup.quota_ps
        self.local_ps = [0] * cores.number
        self.throttled: dict[int, None] = {}
        """Cores, the longest throttled first."""
        self.timers: list[simpy.Event | None] = [None] * cores.number
        self.first_number = cores.first_core_agent + cores.number

    def start(self) -> None:
        """The first period has begun."""
        if self.setup.quota_ps > 0:
            self._plan_period()

    def limits(self, agent: CoreAgent) -> bool:
        """Whether it is a thread of the server."""
        return self.setup.quota_ps > 0 and agent.number < self.setup.io_threads

    def throttles(self, agent: CoreAgent, core: int) -> bool:
        """Whether a thread must not run on a core, as far as is known."""
        return core in self.throttled and self.limits(agent)

    def allows(self, agent: CoreAgent, core: int) -> bool:
        """Whether a thread may run on a core now; if not, the core is throttled."""
        if not self.limits(agent):
            return True
        if core in self.throttled:
            return False
        if self.local_ps[core] > 0 or self._refill(core):
            return True
        self.throttled[core] = None
        self.cores.node.count("throttles")
        self.cores.throttle_waiting(core)
        return False

    def begin(self, agent: CoreAgent, core: int) -> None:
        """A thread runs on a core: plan when what the core has will be used up."""
        if not self.limits(agent):
            return
        node = self.cores.node
        tick_ps = max(1, self.setup.tick_ps)
        ends_ps = -(-(node.now + self.local_ps[core]) // tick_ps) * tick_ps
        timer = hold(node.env, self.first_number + core, ends_ps - node.now)
        timer.callbacks = [lambda _event: self._used_up(core)]
        self.timers[core] = timer

    def cancel(self, core: int) -> None:
        """No thread has the core."""
        timer = self.timers[core]
        if timer is not None:
            timer.callbacks = []
            self.timers[core] = None

    def spend(self, agent: CoreAgent, core: int, time_ps: int) -> None:
        """Charge a core for the time a thread has been on it."""
        if self.limits(agent):
            self.local_ps[core] -= time_ps

    def give_back(self, agent: CoreAgent, core: int) -> None:
        """A thread has blocked; if it was the core's only one, most of what is left is returned."""
        if self.limits(agent) and not any(map(self.limits, self.cores.waiting(core))):
            left_ps = max(0, self.local_ps[core] - KEPT_BUDGET_PS)
            self.local_ps[core] -= left_ps
            self.pool_ps += left_ps

    def _refill(self, core: int) -> bool:
        """Fill a core's slice up from the pool; returns whether the core then has any time."""
        taken_ps = min(self.pool_ps, self.setup.quota_slice_ps - self.local_ps[core])
        self.pool_ps -= taken_ps
        self.local_ps[core] += taken_ps
        return self.local_ps[core] > 0

    def _used_up(self, core: int) -> None:
        """What a core had is used up, or should be: its thread goes on if it may."""
        self.timers[core] = None
        agent = self.cores.occupants[core]
        assert agent is not None
        self.cores.charge(agent)
        if self.allows(agent, core):
            self.begin(agent, core)
        else:
            self.cores.stop(agent)

    def _plan_period(self) -> None:
        period = hold(
            self.cores.node.env,
            self.first_number + self.cores.number,
            self.setup.quota_period_ps,
        )
        period.callbacks = [lambda _event: self._new_period()]

    def _new_period(self) -> None:
        """The pool holds the quota again, and throttled cores go on."""
        if self.throttled:
            self.cores.node.count("throttled_periods")
        self.pool_ps = self.setup.quota_ps
        for core in list(self.throttled):
            if self._refill(core):
                del self.throttled[core]
                self.cores.unthrottle(core)
        self._plan_period()
