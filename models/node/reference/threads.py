"""The threads of a run, as Linux treats them: when one runs, sleeps, is woken and is interrupted.

Read `node.py` first. This module says how long a step of a thread takes that begins now: longer
where the host interrupts the thread, or where its physical core has another busy hardware thread;
what it costs to put a thread to sleep and to wake it, for itself and for whoever wakes it; and
what of a step counts in the measured window. `scheduler.py` says which thread has a core where
there are fewer cores than threads.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from simpy import Event

from forecache.sim.calendar import INFINITY_PS
from forecache.sim.simpy_kernel import Agent, new_environment
from forecache.sim.streams import draw4, exponential_ps, to_unit

from ..setup import JITTER_ONE, QUANTILES, NodeSetup, NodeTimes
from .network import SimulatedNetwork
from .scheduler import CoreAgent, Scheduler

INTERRUPTION_DRAWS = 3
WAKE_UP_DRAWS = 6


@dataclass
class Thread:
    """A thread of the server or of the load generator."""

    agent: Agent
    interruptions: Iterator[tuple[int, int]]
    """When each begins and how long it lasts, in ps."""
    wake_ups: Iterator[int]
    """How long each takes, in ps."""
    next_interruption: tuple[int, int]
    wake_latency_ps: int
    """Of its next wake-up."""
    busy_ps: int = 0
    """Useful work in the measured window."""
    on_cpu_ps: int = 0
    """CPU time in the measured window, spinning included."""
    waits_for_threads: bool = False
    """Spinning, or asleep until another thread wakes it: requests in its sockets don't wake it."""
    slept_ps: int = 0
    """When it last fell asleep."""
    slept_for_ps: int = 0
    """How long it slept then, until it was woken."""
    works_until_ps: int = 0
    """When its present step ends, if it keeps its core."""
    away_ps: int = 0
    """How long it had no core in the present turn of the main thread, in the measured window."""


class Threads:
    """The server's threads, from 0 (the main thread), then those of the load generator.

    `env.now` is the simulated time, in picoseconds.
    """

    def __init__(self, times: NodeTimes, setup: NodeSetup) -> None:
        self.times = times
        self.setup = setup
        self.env = new_environment()
        self.counters: Counter[str] = Counter()
        self.network = SimulatedNetwork(times, setup)
        self.scheduler = Scheduler(self)
        numbers = range(setup.io_threads + setup.generators)
        self.threads = [self.new_thread(number) for number in numbers]
        self.scheduler.add_others()
        self.scheduler.quota.start()

    @property
    def now(self) -> int:
        """Simulated time in ps."""
        return int(self.env.now)

    @property
    def main(self) -> Agent:
        """The main thread."""
        return self.threads[0].agent

    def new_thread(self, number: int) -> Thread:
        """A thread, on a core of its own or on shared ones."""
        interruptions = self.interruptions(number)
        wake_ups = self.wake_ups(number)
        first = next(interruptions), next(wake_ups)
        return Thread(self.new_agent(number), interruptions, wake_ups, *first)

    def new_agent(self, number: int) -> Agent:
        """The SimPy agent of a thread, which `trace.TracedNode` replaces."""
        return self.scheduler.new_agent(number, Agent, CoreAgent)

    @staticmethod
    def stays_asleep(agent: Agent) -> bool:
        """Whether a thread sleeps and no wake-up is on its way."""
        return agent.asleep and agent.wake_ps is None

    # --- steps of work --------------------------------------------------------------------------

    def work(self, thread: int, duration_ps: int) -> int:
        """Count a step of useful work that begins now; returns its duration with interruptions."""
        duration_ps = self.with_interruptions(thread, duration_ps)
        inside = self.inside_window(self.now, self.now + duration_ps)
        self.threads[thread].works_until_ps = self.now + duration_ps
        self._account(self.threads[thread], inside)
        return duration_ps

    def main_step(self, duration_ps: int) -> Event:
        """A step of the main thread that begins now.

        Polling for what other threads have finished is a plain `hold` instead: an interruption
        meanwhile delays the next step.
        """
        return self.main.hold(self.with_interruptions(0, duration_ps))

    def with_interruptions(self, thread: int, duration_ps: int) -> int:
        """How long a step takes that begins now, with the interruptions that fall into it.

        An interruption that began before the step, while the thread slept or looked for work,
        delays it by what is left of the interruption. A step of no duration is not interrupted.
        """
        if duration_ps == 0:
            return 0
        if thread < self.setup.sibling_threads:
            alone_ps, duration_ps = duration_ps, self.slowed_by_siblings(duration_ps)
            if thread < self.setup.io_threads:
                self.count("sibling_ps", duration_ps - alone_ps)
        own = self.threads[thread]
        ends_ps = self.now + duration_ps
        while own.next_interruption[0] < ends_ps:
            begins_ps, lasts_ps = own.next_interruption
            ends_ps += max(0, min(lasts_ps, begins_ps + lasts_ps - self.now))
            own.next_interruption = next(own.interruptions)
        return ends_ps - self.now

    def slowed_by_siblings(self, duration_ps: int, *, further: int = 0) -> int:
        """How long a step takes that begins now, if hardware threads share physical cores.

        Linux gives a thread a physical core of its own while there is one, so cores are shared only
        by more busy threads than there are cores, and then by all alike. What changes during the
        step is left out.

        Parameters
        ----------
        further
            Busy CPUs beside those of simulated threads.
        """
        scale = self.times.sibling_scale
        busy = self.scheduler.busy_siblings + self.network.busy_cores(self.now) + further
        return duration_ps * int(scale[min(busy, len(scale) - 1)]) // JITTER_ONE

    def interruptions(self, thread: int) -> Iterator[tuple[int, int]]:
        """A thread's interruptions by the host, a Poisson process: begin and duration in ps."""
        setup = self.setup
        begins_ps = 0
        for index in itertools.count() if setup.interruption_gap_ps > 0 else ():
            gap, duration, _, _ = draw4(
                setup.seed, setup.replication, thread, INTERRUPTION_DRAWS, index
            )
            begins_ps += exponential_ps(to_unit(gap), float(setup.interruption_gap_ps))
            quantile = int(duration) % QUANTILES
            yield begins_ps, int(self.times.interruption_ps[quantile])
        yield INFINITY_PS, 0

    # --- sleeping and waking --------------------------------------------------------------------

    def fall_asleep(self, thread: Thread) -> Event:
        """A thread sleeps until it is woken."""
        thread.slept_ps = self.now
        return thread.agent.sleep()

    def wake(self, thread: Thread, since_ps: int) -> None:
        """Wake a thread that is just falling asleep, by something that happens at `since_ps`."""
        thread.agent.wake(since_ps + self.draw_wake_up(thread, since_ps))

    @staticmethod
    def draw_wake_up(thread: Thread, at_ps: int) -> int:
        """Note that a thread is woken at a time; returns how long until it runs."""
        latency_ps = thread.wake_latency_ps
        thread.slept_for_ps = at_ps - thread.slept_ps
        thread.wake_latency_ps = next(thread.wake_ups)
        return latency_ps

    def wake_ups(self, thread: int) -> Iterator[int]:
        """How long each of a thread's wake-ups takes, in ps from the send that wakes it."""
        setup = self.setup
        for index in itertools.count():
            drawn = draw4(setup.seed, setup.replication, thread, WAKE_UP_DRAWS, index)
            yield int(self.times.wake_latency_ps[int(drawn[0]) % QUANTILES])

    def wake_by_send(self, thread: Thread, at_ps: int) -> int:
        """A send wakes a thread at a time; returns how long until the thread runs."""
        latency_ps = self.wake_latency_ps(thread)
        self.draw_wake_up(thread, at_ps)
        return latency_ps

    def wake_latency_ps(self, thread: Thread) -> int:
        """How long until a thread that is woken now runs: no time if its core is not idle."""
        return thread.wake_latency_ps if self.wakes_core(thread.agent) else 0

    @staticmethod
    def wakes_core(agent: Agent) -> bool:
        """Whether waking a thread also wakes an idle core."""
        return not isinstance(agent, CoreAgent) or agent.wakes_core

    def wake_core_ps(self, thread: Thread) -> int:
        """What a system call that begins now takes longer because it wakes a thread's idle core."""
        times = self.times
        slept_for_ps = self.now - thread.slept_ps
        return self.scaled_by_sleep(times.short_wake_send_ps, times.wake_send_ps, slept_for_ps)

    def reschedule_ps(self, thread: Thread) -> int:
        """CPU time of scheduling a thread that has slept."""
        return self.scaled_by_sleep(
            self.times.short_block_ps, self.times.block_ps, thread.slept_for_ps
        )

    def scaled_by_sleep(self, least_ps: int, most_ps: int, slept_for_ps: int) -> int:
        """A cost that grows with how long a thread has slept: linear up to `long_sleep_ps`."""
        long_ps = self.times.long_sleep_ps
        slept_for_ps = max(0, slept_for_ps)
        if slept_for_ps >= long_ps or most_ps <= least_ps:
            return most_ps
        return least_ps + (most_ps - least_ps) * slept_for_ps // long_ps

    def unblocking_ps(self, thread: Thread) -> int:
        """What an epoll_wait that slept takes longer: nothing if its core was busy meanwhile."""
        agent = thread.agent
        if isinstance(agent, CoreAgent) and agent.woke_busy:
            return 0
        return self.reschedule_ps(thread)

    def count_block(self, duration_ps: int) -> int:
        """Count that a thread of the server has slept, and what that cost; returns the cost."""
        self.count("blocks")
        self.count("blocks_ps", duration_ps)
        return duration_ps

    def count_wake(self, duration_ps: int) -> int:
        """Count that a thread of the server wakes another, and the cost; returns the cost."""
        self.count("paid_wakes")
        self.count("paid_wakes_ps", duration_ps)
        return duration_ps

    # --- losing a core and getting one again ----------------------------------------------------

    def preempted(self, number: int, since_ps: int) -> None:
        """A thread loses its core: take back what of its step was counted as done."""
        if number >= len(self.threads):
            return  # of another program
        thread = self.threads[number]
        self._account(thread, -self.inside_window(since_ps, thread.works_until_ps))

    def resumed(self, number: int, since_ps: int, goes_on_ps: int) -> None:
        """A thread that lost its core goes on with the rest of its step: count that."""
        if number >= len(self.threads):
            return  # of another program
        thread = self.threads[number]
        left_ps = max(0, thread.works_until_ps - since_ps)
        thread.works_until_ps = goes_on_ps + left_ps
        self._account(thread, self.inside_window(goes_on_ps, thread.works_until_ps))
        thread.away_ps += self.inside_window(since_ps, goes_on_ps)

    @staticmethod
    def _account(thread: Thread, worked_ps: int) -> None:
        thread.busy_ps += worked_ps
        thread.on_cpu_ps += worked_ps

    # --- the measured window --------------------------------------------------------------------

    def inside_window(self, start_ps: int, end_ps: int) -> int:
        """The part of an interval that lies in the measured window."""
        return max(0, min(end_ps, self.setup.end_ps) - max(start_ps, self.setup.warmup_ps))

    def count(self, counter: str, amount: int = 1) -> None:
        """Add to a counter, inside the measured window."""
        if self.setup.warmup_ps <= self.now < self.setup.end_ps:
            self.counters[counter] += amount
