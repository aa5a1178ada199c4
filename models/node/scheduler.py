"""Linux's scheduler: which thread runs where there are fewer cores than threads, and CPU quotas.

The run queues (`Scheduler`) follow the rules of Linux's fair scheduler since 6.12 (EEVDF,
kernel/sched/fair.c) for threads of equal weight. Every core has a run queue. A thread that wakes
takes an idle core, its last one first, or else queues at the core with the fewest threads. A core
runs, of the threads whose virtual runtime is not above the average at that core (they are
eligible), the one with the earliest virtual deadline: a slice after the virtual runtime at which it
was placed or used up its last slice. This is decided when a thread blocks, when one is woken to
that core, and at a timer tick after a slice is used up. Until then a thread keeps its core
(RUN_TO_PARITY), unless it has run ahead of the average when another is woken: a woken thread that
is behind takes over at once.

A thread that blocks keeps its distance from the average (PLACE_LAG), but not ahead of it for long:
one that is ahead stays in the queue until the others have caught up (DELAY_DEQUEUE), and if woken
before goes on as it was, on that core. A core that becomes idle takes a waiting thread from another
one, but not one that ran there within `cache_hot_ps` (`task_hot`). A core that has been shared for
`SLICES_PER_BALANCE` slices passes a thread on.

A thread spins or computes on its core; a computation that is cut short when it loses the core goes
on when it gets one again. Taking over from another thread takes the time of a context switch first.

A control group may limit the CPU time of the server's threads per period (`Quota`). The rules are
those of Linux's CFS bandwidth control (Documentation/scheduler/sched-bwc.rst, kernel/sched/fair.c
since 5.4): at the beginning of every period a pool holds the quota again. A core on which a thread
of the group runs takes slices out of it. Where the slice is used up and the pool is empty, the core
is throttled: no thread of the group runs there before the next period. A core keeps what it took
and did not use, except what exceeds a millisecond when it has no thread of the group left. That a
slice is used up is noticed at the next timer tick, or when a thread blocks; the core then owes the
excess. The core that was throttled first gets its slice first.

Left out: that cores which were throttled go on in the middle of a period, if others give back more
than a slice; that a thread runs on to the end of its system call.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeVar

import simpy

from forecache.sim.simpy_kernel import Activity, Agent, hold

from .setup import (
    KEPT_BUDGET_PS,
    OWN_CORE,
    SLICES_PER_BALANCE,
    core_ranges,
    n_cores,
    shared_range,
)

if TYPE_CHECKING:
    from .reference import ReferenceNode


class State(Enum):
    """Where a thread stands with its cores."""

    ON_CORE = auto()
    WAITING = auto()
    """It could run and has no core."""
    THROTTLED = auto()
    """It could run, but its core must not run it before the quota's next period."""
    BLOCKED = auto()


class Wait(Enum):
    """What a thread does until its next event."""

    COMPUTES = auto()
    SPINS = auto()
    BLOCKS = auto()


class CoreAgent(Agent):
    """A thread that needs one of the cores from `first` to `last` - 1 to go on."""

    def __init__(self, scheduler: Scheduler, number: int, first: int, last: int) -> None:
        super().__init__(scheduler.node.env, number)
        self.scheduler = scheduler
        self.first, self.last = first, last
        self.core = first + number % (last - first)
        self.state = State.BLOCKED
        self.wait = Wait.BLOCKS
        self.virtual_ps = 0
        self.deadline_ps = scheduler.node.setup.slice_ps
        """Of its slice, in virtual runtime."""
        self.keeps_until_ps = 0
        """Virtual runtime until which it keeps its core while it is eligible."""
        self.lag_ps = 0
        """How far it was behind the average of its core when it blocked."""
        self.delayed = False
        """It blocked ahead of the average, and still counts there."""
        self.woke_busy = False
        """Somebody had its core when it was woken."""
        self.since_ps = 0
        """Since when it has its core, or has to do without one."""
        self.goes_on_ps = 0
        """When it went on after it got its core."""
        self.on_core_ps = 0
        """Inside the measured window."""
        self.hot_until_ps = 0
        """Until then a core that falls idle leaves it where it waits."""
        self._left_ps = 0
        self._due = False
        self._timer: simpy.Event | None = None
        self._timer_ps = 0
        self._callbacks: list[Callable[[simpy.Event], None]] = []

    # --- what the thread's own body asks for ------------------------------------------------

    def start(self, activity: Activity, at_ps: int = 0) -> simpy.Process:
        """Run the body as soon as there is a core for it."""

        def body() -> Activity:
            yield self.sleep_until(at_ps)
            yield from activity

        return self.env.process(body())

    def hold(self, delay_ps: int) -> simpy.Event:
        """Compute for a time that counts only while there is a core."""
        return self._until(Wait.COMPUTES, int(self.env.now) + delay_ps)

    def hold_until(self, time_ps: int) -> simpy.Event:
        """Spin until a time."""
        return self._until(Wait.SPINS, time_ps)

    def sleep_until(self, time_ps: int) -> simpy.Event:
        """Give the core away until a time."""
        return self._until(Wait.BLOCKS, time_ps)

    def sleep(self) -> simpy.Event:
        """Give the core away until another agent calls `wake`."""
        return self._asleep(Wait.BLOCKS, None)

    def spin(self, look_ps: int | None = None) -> simpy.Event:
        """Keep the core until another agent calls `wake`, or until a time to look by itself."""
        return self._asleep(Wait.SPINS, look_ps)

    def _asleep(self, wait: Wait, look_ps: int | None) -> simpy.Event:
        self._sleep = self._until(wait, look_ps)
        # The first callback, so that the agent counts as awake when its body goes on.
        self._callbacks.append(self._awake)
        return self._sleep

    def _until(self, wait: Wait, time_ps: int | None) -> simpy.Event:
        event = simpy.Event(self.env)
        assert event.callbacks is not None
        self._callbacks = event.callbacks
        self.wait = wait
        if time_ps is not None:
            self._set(time_ps)
        if wait is Wait.BLOCKS and self.state is State.ON_CORE:
            self.scheduler.release(self)
        return event

    # --- what others do with it --------------------------------------------------------------

    def wake(self, at_ps: int) -> None:
        """Let the sleeping or spinning agent go on at a time, once it has a core."""
        if self._sleep is None:
            raise RuntimeError(f"agent {self.number} is not asleep")
        self._wake_ps = at_ps
        self._set(at_ps)

    def look_at(self, time_ps: int) -> None:
        """Let it look at a time whether it still has to sleep or to spin, unless it was woken."""
        if self._sleep is not None and self._wake_ps is None:
            self._set(time_ps)

    @property
    def waits_for_core(self) -> bool:
        """Whether it could go on but others have its cores, or its quota is used up."""
        return self.state in (State.WAITING, State.THROTTLED)

    @property
    def wakes_core(self) -> bool:
        """Whether waking it wakes a core as well: one that it may run on and nobody has."""
        return None in self.scheduler.occupants[self.first : self.last]

    @property
    def progress_until_ps(self) -> int:
        """Until when it has gone on: until it lost its core, unless it had hardly got it."""
        return max(self.since_ps, self.goes_on_ps)

    def preempt(self) -> None:
        """It loses its core."""
        if self.wait is Wait.COMPUTES:
            self._left_ps = self._timer_ps - self.progress_until_ps
            self._cancel()

    def go_on(self, at_ps: int) -> None:
        """It has a core and goes on at a time."""
        spins_for_nothing = self._sleep is not None and self._wake_ps is None
        if self.wait is Wait.COMPUTES:
            self._set(at_ps + self._left_ps)
        elif self.wait is Wait.BLOCKS or self._due or spins_for_nothing:
            self._set(at_ps)
        else:
            self._set(max(at_ps, self._timer_ps))

    def _set(self, time_ps: int) -> None:
        self._cancel()
        self._timer = hold(self.env, self.number, time_ps - int(self.env.now))
        self._timer.callbacks = [self._fire]
        self._timer_ps = time_ps

    def _cancel(self) -> None:
        if self._timer is not None:
            # It stays in SimPy's queue but resumes no process.
            self._timer.callbacks = []
            self._timer = None

    def _fire(self, event: simpy.Event) -> None:
        self._timer = None
        if self.waits_for_core:
            self._due = True
            return
        if self.state is State.BLOCKED and not self.scheduler.admit(self):
            self._due = True
            return
        if self.env.now < self.goes_on_ps:
            # It spins, and was woken while it takes its core over from another thread.
            self._due = True
            self._set(self.goes_on_ps)
            return
        self._due = False
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(event)


class OtherThread(CoreAgent):
    """A thread of another program, which is always runnable and is nothing but busy."""

    def preempt(self) -> None:
        """It has no step to interrupt."""

    def go_on(self, at_ps: int) -> None:
        """It has no step to continue."""


OwnT = TypeVar("OwnT", bound=Agent)
SharedT = TypeVar("SharedT", bound=CoreAgent)


class Scheduler:
    """The run queues of a node's shared cores; the load generator's follow the server's."""

    def __init__(self, node: ReferenceNode) -> None:
        self.node = node
        self.ranges = core_ranges(node.setup)
        self.number = n_cores(node.setup)
        self.occupants: list[CoreAgent | None] = [None] * self.number
        self.slices = [0] * self.number
        self.timers: list[simpy.Event | None] = [None] * self.number
        self.agents: list[CoreAgent] = []
        setup = node.setup
        self._most_lag_ps = max(2 * setup.slice_ps, setup.tick_ps)
        # After everybody else.
        self.first_core_agent = len(self.ranges) + max(setup.clients, setup.generators)
        self.quota = Quota(self)

    def new_agent(self, number: int, own: type[OwnT], shared: type[SharedT]) -> OwnT | SharedT:
        """What acts for a thread: `own` if it has a core of its own, else `shared`."""
        if self.ranges[number] == OWN_CORE:
            return own(self.node.env, number)
        agent = shared(self, number, *self.ranges[number])
        self.agents.append(agent)
        return agent

    def add_others(self) -> None:
        """Threads of other programs have been there before."""
        first, last = shared_range(self.node.setup)
        for other in range(self.node.setup.other_threads if last > first else 0):
            agent = OtherThread(self, len(self.ranges) + other, first, last)
            agent.core = first + other % (last - first)
            agent.wait = Wait.COMPUTES
            agent.state = State.WAITING
            if self.occupants[agent.core] is None:
                self.occupants[agent.core] = agent
                agent.state = State.ON_CORE
            self.agents.append(agent)

    @property
    def busy_siblings(self) -> int:
        """Busy threads among those that may share physical cores."""
        setup = self.node.setup
        apart = range(setup.sibling_threads, len(self.ranges))
        on_cores = [a for a in self.occupants if a is not None and a.number not in apart]
        # Those of other programs that have cores of their own are not simulated.
        unseen = setup.other_threads if shared_range(setup) == OWN_CORE else 0
        return len(on_cores) + unseen

    def waiting(self, core: int) -> list[CoreAgent]:
        """Threads that wait at a core."""
        return [a for a in self.agents if a.state is State.WAITING and a.core == core]

    def runnable(self, core: int) -> int:
        """Threads that have a core or wait at it."""
        return len(self.waiting(core)) + (self.occupants[core] is not None)

    def admit(self, agent: CoreAgent) -> bool:
        """A blocked thread wakes: True if it has a core at once, else it waits for one."""
        choice = [agent.core, *range(agent.first, agent.last)]
        if agent.delayed:
            choice = [agent.core]
        idle = [core for core in choice if self.occupants[core] is None]
        core = idle[0] if idle else min(choice, key=self.runnable)
        if self.quota.throttles(agent, core) or (idle and not self.quota.allows(agent, core)):
            self._forget(agent)
            agent.core = core
            agent.state = State.THROTTLED
            return False
        agent.woke_busy = not idle
        if idle:
            self._place(agent, core)
            self.grant(core, agent)
            return True
        self.enqueue(agent, core)
        self._take_over(core)
        return False

    def enqueue(self, agent: CoreAgent, core: int) -> None:
        """A thread begins to wait at a core."""
        self._place(agent, core)
        if agent.core != core:
            agent.hot_until_ps = 0
        agent.core = core
        agent.state = State.WAITING
        if self.timers[core] is None and self.occupants[core] is not None:
            self._set_timer(core)

    def _place(self, agent: CoreAgent, core: int) -> None:
        """Its virtual runtime and deadline among those on a core.

        As far behind their average, it included, as when it blocked. One that still counts there
        goes on with what it had, unless the others have caught up with it.
        """
        others = [self._virtual_ps(other) for other in self._on(core) if other is not agent]
        if agent.delayed:
            self._forget(agent)
            if sum(others) <= len(others) * agent.virtual_ps:
                return
        if others:
            number = len(others)
            lag_ps = agent.lag_ps * (number + 1) // number
            agent.virtual_ps = sum(others) // number - lag_ps
        agent.lag_ps = 0
        agent.deadline_ps = agent.virtual_ps + self.node.setup.slice_ps

    def _forget(self, agent: CoreAgent) -> None:
        """It no longer counts anywhere, nor does what it was behind or ahead."""
        agent.delayed = False
        agent.lag_ps = 0

    def grant(self, core: int, agent: CoreAgent) -> None:
        """A thread gets a free core."""
        self.occupants[core] = agent
        agent.since_ps = agent.goes_on_ps = self.node.now
        agent.keeps_until_ps = agent.deadline_ps
        agent.core = core
        agent.state = State.ON_CORE
        _cancel(self.timers, core)
        self.quota.begin(agent, core)
        if self.waiting(core):
            self._set_timer(core)

    def resume(self, core: int, agent: CoreAgent) -> None:
        """A waiting thread takes over a core."""
        goes_on_ps = self.node.now + self.node.times.switch_ps
        if agent.wait is not Wait.BLOCKS:
            self.node.resumed(agent.number, agent.progress_until_ps, goes_on_ps)
        self.node.count("switches")
        self.grant(core, agent)
        agent.goes_on_ps = goes_on_ps
        agent.go_on(goes_on_ps)

    def release(self, agent: CoreAgent) -> None:
        """A thread blocks: its core goes to another thread."""
        core = agent.core
        self.charge(agent)
        on_it = [self._virtual_ps(other) for other in self._on(core)]
        ahead_ps = agent.virtual_ps - sum(on_it) // len(on_it)
        agent.delayed = len(on_it) * agent.virtual_ps > sum(on_it)
        agent.lag_ps = min(-ahead_ps, self._most_lag_ps)
        agent.state = State.BLOCKED
        self._vacate(core)
        self.quota.give_back(agent, core)
        self._fill(core)

    def stop(self, agent: CoreAgent) -> None:
        """The quota is used up: a thread loses its core, which goes to one without a quota."""
        core = agent.core
        self._take_away(agent, State.THROTTLED)
        self._fill(core)

    def throttle_waiting(self, core: int) -> None:
        """The quota is used up: threads that wait at a core wait for the next period."""
        for agent in self.waiting(core):
            if self.quota.limits(agent):
                agent.state = State.THROTTLED

    def unthrottle(self, core: int) -> None:
        """Threads that a quota stopped at a core may run again."""
        for agent in self.agents:
            if agent.state is State.THROTTLED and agent.core == core:
                if self.runnable(core):
                    self.enqueue(agent, core)
                else:
                    agent.state = State.WAITING
        if self.occupants[core] is None:
            self._fill(core)
        else:
            self._take_over(core)

    def expire(self, core: int) -> None:
        """A slice is used up: another thread may go on."""
        _cancel(self.timers, core)
        if self.waiting(core):
            self._take_over(core, slices=1)

    def _take_over(self, core: int, *, slices: int = 0) -> None:
        """The thread that is to have a core goes on, which may be the one that has it."""
        agent = self.occupants[core]
        if agent is None:
            return
        self.charge(agent)
        if not self.quota.allows(agent, core):
            self.stop(agent)
            return
        following = self._following(core)
        if following is None or following is agent:
            self._set_timer(core)
            return
        waiting = self.waiting(core)
        self._take_away(agent, State.WAITING)
        self.slices[core] += slices
        if self.slices[core] >= SLICES_PER_BALANCE:
            self.slices[core] = 0
            self._pass_on(agent, len(waiting))
        self.resume(core, following)

    def finish(self) -> None:
        """The run ends: charge the threads that have a core."""
        for agent in self.occupants:
            if agent is not None:
                self.charge(agent)

    def _pass_on(self, agent: CoreAgent, left: int) -> None:
        """Let a thread wait at the core with the fewest threads, if `left` here aren't fewer."""
        span = agent.last - agent.first
        others = [agent.first + (agent.core - agent.first + n) % span for n in range(1, span)]
        others = [
            core
            for core in others
            if self.occupants[core] is not None and not self.quota.throttles(agent, core)
        ]
        if others:
            core = min(others, key=self.runnable)
            if self.runnable(core) <= left:
                self._forget(agent)
                self.enqueue(agent, core)

    def _vacate(self, core: int) -> None:
        """A core becomes free."""
        self.occupants[core] = None
        _cancel(self.timers, core)
        self.quota.cancel(core)

    def _take_away(self, agent: CoreAgent, state: State) -> None:
        """A thread that was charged loses its core though it could go on."""
        self.node.preempted(agent.number, agent.progress_until_ps)
        agent.preempt()
        self._forget(agent)
        agent.state = state
        self._vacate(agent.core)

    def _fill(self, core: int) -> None:
        """A free core goes to a thread that waits there, or else to one that waits elsewhere."""
        following = self._following(core) or self._following(core, elsewhere=True)
        if following is not None:
            self.resume(core, following)

    def _following(self, core: int, *, elsewhere: bool = False) -> CoreAgent | None:
        """Who of those on a core, or of those that wait elsewhere, is to have it, if it may."""
        while True:
            following = self._furthest_behind(core) if elsewhere else self._pick(core)
            if following is None or following is self.occupants[core]:
                return following
            if self.quota.allows(following, core):
                return following

    def _furthest_behind(self, core: int) -> CoreAgent | None:
        """Of the threads that wait elsewhere and may come, the one with the least runtime."""
        candidates = [
            agent
            for agent in self.agents
            if agent.state is State.WAITING
            and agent.first <= core < agent.last
            and self.node.now >= agent.hot_until_ps
            and not self.quota.throttles(agent, core)
        ]
        return min(candidates, key=lambda agent: (agent.virtual_ps, agent.number), default=None)

    def _pick(self, core: int) -> CoreAgent | None:
        """The eligible thread with the earliest deadline, or the one that may keep the core."""
        while True:
            on_it = self._on(core)
            total_ps = sum(map(self._virtual_ps, on_it))
            eligible = [a for a in on_it if len(on_it) * self._virtual_ps(a) <= total_ps]
            occupant = self.occupants[core]
            if occupant is not None and occupant in eligible:
                if self._virtual_ps(occupant) < occupant.keeps_until_ps:
                    return occupant
            best = min(eligible, key=lambda a: (a.deadline_ps, a.number), default=None)
            if best is None or not best.delayed:
                return best
            # The others have caught up with a thread that blocked: it has left.
            self._forget(best)

    def _unchanged_ps(self, agent: CoreAgent) -> int:
        """For how long a look at a thread past its slice would find that it keeps its core.

        Until it has run ahead of the average or to its deadline, or until one with an earlier
        deadline is eligible.
        """
        on_it = self._on(agent.core)
        number, total_ps = len(on_it), sum(map(self._virtual_ps, on_it))
        runtime_ps = self._virtual_ps(agent)
        soonest_ps = agent.deadline_ps - runtime_ps
        if number > 1:
            behind_ps = (total_ps - number * runtime_ps) // (number - 1)
            soonest_ps = min(soonest_ps, behind_ps + 1)
        for other in on_it:
            if (other.deadline_ps, other.number) < (agent.deadline_ps, agent.number):
                soonest_ps = min(soonest_ps, number * self._virtual_ps(other) - total_ps)
        return max(1, soonest_ps)

    def _on(self, core: int) -> list[CoreAgent]:
        """Threads that count at a core: who has it, who waits, and who blocked ahead of them."""
        return [
            a
            for a in self.agents
            if a.core == core and (a.state in (State.ON_CORE, State.WAITING) or a.delayed)
        ]

    def _virtual_ps(self, agent: CoreAgent) -> int:
        running = agent.state is State.ON_CORE
        return agent.virtual_ps + (self.node.now - agent.since_ps if running else 0)

    def charge(self, agent: CoreAgent) -> None:
        """Account for the time since a thread got its core."""
        agent.virtual_ps += self.node.now - agent.since_ps
        if agent.virtual_ps >= agent.deadline_ps:
            agent.deadline_ps = agent.virtual_ps + self.node.setup.slice_ps
        agent.on_core_ps += self.node.inside_window(agent.since_ps, self.node.now)
        self.quota.spend(agent, agent.core, self.node.now - agent.since_ps)
        agent.since_ps = self.node.now
        agent.hot_until_ps = self.node.now + self.node.setup.cache_hot_ps

    def _set_timer(self, core: int) -> None:
        agent = self.occupants[core]
        assert agent is not None
        _cancel(self.timers, core)
        keeps_ps = agent.keeps_until_ps - self._virtual_ps(agent)
        if keeps_ps <= 0:
            keeps_ps = self._unchanged_ps(agent)
        tick_ps = max(1, self.node.setup.tick_ps)
        ends_ps = -(-(self.node.now + keeps_ps) // tick_ps) * tick_ps
        number = self.first_core_agent + core
        timer = hold(self.node.env, number, ends_ps - self.node.now)
        timer.callbacks = [lambda _event: self.expire(core)]
        self.timers[core] = timer


def _cancel(timers: list[simpy.Event | None], core: int) -> None:
    """Forget the timer of a core, if it has one."""
    timer = timers[core]
    if timer is not None:
        timer.callbacks = []
        timers[core] = None


class Quota:
    """The pool of a period and what each core has taken; without a quota nothing is limited."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.setup = scheduler.node.setup
        self.pool_ps = self.setup.quota_ps
        self.local_ps = [0] * scheduler.number
        self.throttled: dict[int, None] = {}
        """Scheduler, the longest throttled first."""
        self.timers: list[simpy.Event | None] = [None] * scheduler.number
        self.first_number = scheduler.first_core_agent + scheduler.number

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
        self.scheduler.node.count("throttles")
        self.scheduler.throttle_waiting(core)
        return False

    def begin(self, agent: CoreAgent, core: int) -> None:
        """A thread runs on a core: plan when what the core has will be used up."""
        if not self.limits(agent):
            return
        node = self.scheduler.node
        tick_ps = max(1, self.setup.tick_ps)
        ends_ps = -(-(node.now + self.local_ps[core]) // tick_ps) * tick_ps
        timer = hold(node.env, self.first_number + core, ends_ps - node.now)
        timer.callbacks = [lambda _event: self._used_up(core)]
        self.timers[core] = timer

    def cancel(self, core: int) -> None:
        """No thread has the core."""
        _cancel(self.timers, core)

    def spend(self, agent: CoreAgent, core: int, time_ps: int) -> None:
        """Charge a core for the time a thread has been on it."""
        if self.limits(agent):
            self.local_ps[core] -= time_ps

    def give_back(self, agent: CoreAgent, core: int) -> None:
        """A thread has blocked; if it was the core's only one, most of what is left is returned."""
        if self.limits(agent) and not any(map(self.limits, self.scheduler.waiting(core))):
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
        agent = self.scheduler.occupants[core]
        assert agent is not None
        self.scheduler.charge(agent)
        if self.allows(agent, core):
            self.begin(agent, core)
        else:
            self.scheduler.stop(agent)

    def _plan_period(self) -> None:
        period = hold(
            self.scheduler.node.env,
            self.first_number + self.scheduler.number,
            self.setup.quota_period_ps,
        )
        period.callbacks = [lambda _event: self._new_period()]

    def _new_period(self) -> None:
        """The pool holds the quota again, and throttled cores go on."""
        if self.throttled:
            self.scheduler.node.count("throttled_periods")
        self.pool_ps = self.setup.quota_ps
        for core in list(self.throttled):
            if self._refill(core):
                del self.throttled[core]
                self.scheduler.unthrottle(core)
        self._plan_period()
