"""SimPy with the calendar's rule for simultaneous events.

The compiled execution orders events by (time, agent number). SimPy orders them by (time, priority,
order of scheduling), so an agent that schedules with its number as the priority gets the same
order. An `Agent` is one thread of activity with one next event, like a slot of the calendar: it
holds for a time, or sleeps until another agent wakes it.

Times are whole picoseconds. A process starts at time 0, in the order of creation, before any
agent's event at time 0.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

Activity = Generator[simpy.Event, Any, Any]
"""What the body of an agent is: a generator of events to wait for."""


def new_environment() -> simpy.Environment:
    """An environment whose clock starts at 0 ps and stays an integer."""
    return simpy.Environment(initial_time=0)


def now_ps(env: simpy.Environment) -> int:
    """The simulated time in picoseconds."""
    return int(env.now)


def hold(env: simpy.Environment, agent: int, delay_ps: int) -> simpy.Event:
    """An event that happens after a delay, before those of higher agent numbers.

    Parameters
    ----------
    env : simpy.Environment
    agent : int
        The agent's number, not negative.
    delay_ps : int
        Picoseconds from now, not negative.

    Raises
    ------
    ValueError
        If the delay is negative.
    """
    if delay_ps < 0:
        raise ValueError(f"agent {agent} can't hold for {delay_ps} ps")
    event = simpy.Event(env)
    event._ok = True
    event._value = None
    env.schedule(event, priority=agent, delay=delay_ps)  # type: ignore[arg-type]
    return event


class Agent:
    """One activity with one next event, addressed by its number.

    Parameters
    ----------
    env : simpy.Environment
    number : int
        Decides between simultaneous events: the lower goes first.
    """

    def __init__(self, env: simpy.Environment, number: int) -> None:
        self.env = env
        self.number = number
        self._sleep: simpy.Event | None = None
        self._wake_event: simpy.Event | None = None
        self._wake_ps: int | None = None

    def start(self, activity: Activity, at_ps: int = 0) -> simpy.Process:
        """Run the agent's body as a SimPy process.

        Parameters
        ----------
        at_ps : int
            If it has to share cores: from when on it wants one.
        """
        del at_ps
        return self.env.process(activity)

    def hold(self, delay_ps: int) -> simpy.Event:
        """Be busy for a time: `yield agent.hold(delay_ps)`."""
        return hold(self.env, self.number, delay_ps)

    def hold_until(self, time_ps: int) -> simpy.Event:
        """Be busy until a time that is not past."""
        return hold(self.env, self.number, time_ps - int(self.env.now))

    def sleep(self) -> simpy.Event:
        """Have no next event until another agent calls `wake`: `yield agent.sleep()`."""
        return self._fall_asleep()

    def _fall_asleep(self) -> simpy.Event:
        self._sleep = simpy.Event(self.env)
        # The first callback, so that the agent counts as awake when its body goes on.
        self._sleep.callbacks.append(self._awake)
        return self._sleep

    def sleep_until(self, time_ps: int) -> simpy.Event:
        """Sleep until a time that is not past, whatever others do."""
        return hold(self.env, self.number, time_ps - int(self.env.now))

    def spin(self, look_ps: int | None = None) -> simpy.Event:
        """As `sleep`, but busy looking: without a core of its own it makes a difference.

        Parameters
        ----------
        look_ps : int, optional
            When to go on by itself, if it has to share cores.
        """
        del look_ps
        return self._fall_asleep()

    def look_at(self, time_ps: int) -> None:
        """Let an agent that has to share cores look at a time whether it still has to sleep."""
        del time_ps

    @property
    def waits_for_core(self) -> bool:
        """Whether the agent could go on but others have its cores."""
        return False

    @property
    def asleep(self) -> bool:
        """Whether the agent sleeps, with or without a wake-up on its way."""
        return self._sleep is not None

    @property
    def wake_ps(self) -> int | None:
        """When the sleeper goes on, in picoseconds; None if nobody has woken it."""
        return self._wake_ps

    def sleeps_beyond(self, time_ps: int) -> bool:
        """Whether the agent sleeps and nobody wakes it by a time in picoseconds."""
        return self.asleep and (self._wake_ps is None or self._wake_ps > time_ps)

    def wake(self, at_ps: int) -> None:
        """Let the sleeping agent go on at a time, which replaces an earlier call's.

        Parameters
        ----------
        at_ps : int
            Picoseconds, not past.

        Raises
        ------
        RuntimeError
            If the agent does not sleep.
        ValueError
            If the time is past.
        """
        if self._sleep is None:
            raise RuntimeError(f"agent {self.number} is not asleep")
        if self._wake_event is not None:
            # It stays in SimPy's queue but resumes nobody.
            self._wake_event.callbacks = []
        self._wake_event = self.hold_until(at_ps)
        self._wake_event.callbacks = self._sleep.callbacks
        self._wake_ps = at_ps

    def _awake(self, _event: simpy.Event) -> None:
        self._sleep = None
        self._wake_event = None
        self._wake_ps = None
