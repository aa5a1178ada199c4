"""The calendar against a list that is searched from end to end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.sim.calendar import (
    INFINITY_PS,
    advance,
    agent_of,
    event_time,
    horizon_ps,
    new_calendar,
    peek,
    peek_agent,
    peek_time,
    schedule,
    time_of,
)

# Few values, so that simultaneous events are common, and the ends of the range.
TIMES_PS = st.one_of(st.integers(0, 5), st.sampled_from([INFINITY_PS, 10**12, horizon_ps(200) - 1]))


@given(
    st.integers(1, 200).flatmap(
        lambda n: st.tuples(
            st.just(n), st.lists(st.tuples(st.integers(0, n - 1), TIMES_PS), max_size=60)
        )
    )
)
def test_the_next_event_is_the_smallest_by_time_then_agent(
    case: tuple[int, list[tuple[int, int]]],
) -> None:
    n_agents, changes = case
    calendar = new_calendar(n_agents)
    times_ps = [INFINITY_PS] * n_agents
    for agent, time_ps in changes:
        schedule(calendar, agent, time_ps)
        times_ps[agent] = time_ps
        expected_ps, expected = min((time, number) for number, time in enumerate(times_ps))
        assert peek_time(calendar) == expected_ps
        assert peek_agent(calendar) == expected
    assert [event_time(calendar, agent) for agent in range(n_agents)] == times_ps


@given(
    st.integers(1, 70),
    st.lists(st.tuples(st.integers(0, 69), st.integers(0, 10**12)), min_size=1, max_size=30),
)
def test_advance_gives_the_key_of_the_next_event(
    n_agents: int, changes: list[tuple[int, int]]
) -> None:
    calendar = new_calendar(n_agents)
    for agent, time_ps in changes:
        key = advance(calendar, agent % n_agents, time_ps)
        assert key == peek(calendar)
        assert time_of(calendar, key) == peek_time(calendar)
        assert agent_of(calendar, key) == peek_agent(calendar)


def test_an_event_that_never_happens_lies_at_the_horizon() -> None:
    calendar = new_calendar(5)
    assert time_of(calendar, peek(calendar)) == horizon_ps(5)


@pytest.mark.parametrize("n_agents", [1, 2, 3, 64, 65])
def test_a_new_calendar_has_no_event(n_agents: int) -> None:
    assert peek_time(new_calendar(n_agents)) == INFINITY_PS


@pytest.mark.parametrize("n_agents", [1, 2, 70])
def test_the_horizon_is_where_never_begins(n_agents: int) -> None:
    calendar = new_calendar(n_agents)
    last = n_agents - 1
    schedule(calendar, last, horizon_ps(n_agents) - 1)
    assert (peek_time(calendar), peek_agent(calendar)) == (horizon_ps(n_agents) - 1, last)
    schedule(calendar, last, horizon_ps(n_agents))
    assert peek_time(calendar) == INFINITY_PS


def test_seventy_agents_have_ten_hours() -> None:
    assert horizon_ps(70) / 1e12 / 3600 > 9.9


def test_a_calendar_needs_an_agent() -> None:
    with pytest.raises(ValueError, match="at least one agent"):
        new_calendar(0)
