"""Simultaneous events in agent order, and sleepers that wake when they are told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.sim.calendar import INFINITY_PS, new_calendar
from forecache.sim.simpy_kernel import Activity, Agent, hold, new_environment, now_ps
from tests.sim.native_functions import advance, event_time, next_event


def test_simultaneous_events_happen_in_agent_order() -> None:
    env = new_environment()
    seen: list[tuple[int, int]] = []

    def body(agent: int) -> Activity:
        yield hold(env, agent, 5)
        seen.append((now_ps(env), agent))

    for agent in (3, 1, 2, 0):
        env.process(body(agent))
    env.run()
    assert seen == [(5, 0), (5, 1), (5, 2), (5, 3)]


@given(st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=6))
def test_order_equals_the_calendars(delays_ps: list[list[int]]) -> None:
    env = new_environment()
    simpy_order: list[tuple[int, int]] = []

    def body(agent: Agent, delays: list[int]) -> Activity:
        for delay in delays:
            yield agent.hold(delay)
            simpy_order.append((now_ps(env), agent.number))

    for number in reversed(range(len(delays_ps))):
        agent = Agent(env, number)
        agent.start(body(agent, delays_ps[number]))
    env.run()

    calendar = new_calendar(len(delays_ps))
    done = np.zeros(len(delays_ps), int)
    for number, delays in enumerate(delays_ps):
        advance(calendar, number, delays[0] if delays else INFINITY_PS)
    calendar_order: list[tuple[int, int]] = []
    while True:
        time_ps, number = next_event(calendar)
        if event_time(calendar, number) == INFINITY_PS:
            break
        calendar_order.append((time_ps, number))
        done[number] += 1
        left = delays_ps[number][done[number] :]
        advance(calendar, number, time_ps + left[0] if left else INFINITY_PS)
    assert simpy_order == calendar_order


def test_a_sleeper_wakes_at_the_time_it_is_given() -> None:
    env = new_environment()
    sleeper, waker = Agent(env, 0), Agent(env, 1)
    seen: list[int] = []

    def sleep_twice() -> Activity:
        for _ in range(2):
            yield sleeper.sleep()
            assert not sleeper.asleep
            seen.append(now_ps(env))

    def wake_twice() -> Activity:
        yield waker.hold(10)
        sleeper.wake(25)
        assert sleeper.asleep
        assert sleeper.wake_ps == 25
        yield waker.hold(90)
        assert sleeper.wake_ps is None
        sleeper.wake(100)

    sleeper.start(sleep_twice())
    waker.start(wake_twice())
    env.run()
    assert seen == [25, 100]


@pytest.mark.parametrize(("first_ps", "second_ps"), [(50, 20), (20, 50)])
def test_a_second_wake_up_replaces_the_first(first_ps: int, second_ps: int) -> None:
    env = new_environment()
    sleeper, waker = Agent(env, 0), Agent(env, 1)
    seen: list[int] = []

    def sleep_once_then_hold() -> Activity:
        yield sleeper.sleep()
        seen.append(now_ps(env))
        yield sleeper.hold(100)
        seen.append(now_ps(env))

    def wake() -> Activity:
        yield waker.hold(10)
        sleeper.wake(first_ps)
        sleeper.wake(second_ps)

    sleeper.start(sleep_once_then_hold())
    waker.start(wake())
    env.run()
    assert seen == [second_ps, second_ps + 100]


def test_waking_an_agent_that_does_not_sleep_is_an_error() -> None:
    env = new_environment()
    with pytest.raises(RuntimeError, match="agent 4 is not asleep"):
        Agent(env, 4).wake(0)


def test_time_does_not_run_backwards() -> None:
    env = new_environment()
    with pytest.raises(ValueError, match="can't hold for -1 ps"):
        hold(env, 2, -1)
