"""The calendar against a list that is searched from end to end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.sim.calendar import INFINITY_PS, horizon_ps, new_calendar
from tests.sim.native_functions import advance, event_time, next_event, next_key, planned

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
        key = advance(calendar, agent, time_ps)
        assert key == next_key(calendar)
        times_ps[agent] = time_ps
        expected_ps, expected = min((time, number) for number, time in enumerate(times_ps))
        assert next_event(calendar) == (min(expected_ps, horizon_ps(n_agents)), expected)
    assert [event_time(calendar, agent) for agent in range(n_agents)] == times_ps
    for agent, time_ps in enumerate(times_ps):
        assert planned(calendar, agent) == min(time_ps, horizon_ps(n_agents))


@pytest.mark.parametrize("n_agents", [1, 2, 3, 64, 65])
def test_a_new_calendar_has_no_event(n_agents: int) -> None:
    calendar = new_calendar(n_agents)
    assert next_event(calendar) == (horizon_ps(n_agents), 0)
    assert {event_time(calendar, agent) for agent in range(n_agents)} == {INFINITY_PS}


@pytest.mark.parametrize("n_agents", [1, 2, 70])
def test_the_horizon_is_where_never_begins(n_agents: int) -> None:
    calendar = new_calendar(n_agents)
    last = n_agents - 1
    advance(calendar, last, horizon_ps(n_agents) - 1)
    assert next_event(calendar) == (horizon_ps(n_agents) - 1, last)
    advance(calendar, last, horizon_ps(n_agents))
    assert event_time(calendar, last) == INFINITY_PS


def test_seventy_agents_have_ten_hours() -> None:
    assert horizon_ps(70) / 1e12 / 3600 > 9.9


def test_a_calendar_needs_an_agent() -> None:
    with pytest.raises(ValueError, match="at least one agent"):
        new_calendar(0)
