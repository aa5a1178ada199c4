"""The event calendar: for a fixed set of agents, which one acts next and when.

An agent (a thread, a server, a source of arrivals) has exactly one next event. The calendar is a
winner tree over these times: the leaves hold the agents' keys and every inner node the smallest key
of its four children, so that the root is the next event. A key is `time * 2**bits + agent`, which
makes the rule for simultaneous events (lowest agent number first) part of the comparison and lets
one branch-free minimum move time and agent together. Setting a time costs three minima per level,
of which one waits for the level below, and allocates nothing.

The array holds the bits of an agent number in element 0, the root in element 1, the number of
leaves in element 2, the children of node k in 4k to 4k + 3, and so the leaves in its second half.

Packing the agent into the key bounds simulated time by `horizon_ps`: 20 hours for 64 agents. At or
beyond it an event never happens.
"""

import numpy as np
from numba import int64, njit

INFINITY_PS = 2**62
"""The time of an event that does not happen, in picoseconds."""

_BITS = 0
_ROOT = 1
_LEAVES = 2
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)


@njit(int64[::1](int64), cache=True, nogil=True)
def new_calendar(n_agents: int) -> np.ndarray:
    """A calendar in which no agent has an event.

    Parameters
    ----------
    n_agents : int
        Number of agents, at least 1; they are numbered from 0.

    Returns
    -------
    ndarray of int64
        The calendar, to be handed to the other functions.

    Raises
    ------
    ValueError
        If there is no agent.
    """
    if n_agents < 1:
        raise ValueError("a calendar has at least one agent")
    bits = 0
    while (1 << bits) < n_agents:
        bits += 1
    leaves = 4
    while leaves < n_agents:
        leaves *= 4
    calendar = np.empty(2 * leaves, np.int64)
    calendar[_BITS] = bits
    calendar[_LEAVES] = leaves
    for agent in range(leaves):
        calendar[leaves + agent] = INFINITY_PS | agent
    first = leaves
    while first > _ROOT:
        first //= 4
        for node in range(first, 2 * first):
            calendar[node] = calendar[4 * node : 4 * node + 4].min()
    return calendar


@njit(cache=True, nogil=True, forceinline=True)
def advance(calendar: np.ndarray, agent: int, time_ps: int) -> int:
    """Set the time of an agent's next event, as `schedule` does, and go on to the next of all.

    Returns
    -------
    int
        The key of the next event, for `time_of` and `agent_of`. A loop that keeps it needs not
        wait for the calendar to be read again.
    """
    bits = calendar[_BITS]
    node = np.uint64(calendar[_LEAVES] + agent)
    key = (min(time_ps, INFINITY_PS >> bits) << bits) | agent
    calendar[node] = key
    while node > _ONE:
        # The siblings are compared while the key is still on its way.
        others = min(min(calendar[node ^ _ONE], calendar[node ^ _TWO]), calendar[node ^ _THREE])
        key = min(key, others)
        node >>= _TWO
        calendar[node] = key
    return key


@njit(cache=True, nogil=True, forceinline=True)
def schedule(calendar: np.ndarray, agent: int, time_ps: int) -> None:
    """Set the time of an agent's next event, replacing the one it had.

    Parameters
    ----------
    calendar : ndarray of int64
        From `new_calendar`, or a `pointer` to it.
    agent : int
        0 <= agent < n_agents; not checked.
    time_ps : int
        Not negative; INFINITY_PS cancels.
    """
    advance(calendar, agent, time_ps)


@njit(cache=True, nogil=True, forceinline=True)
def peek(calendar: np.ndarray) -> int:
    """The key of the next event."""
    return calendar[_ROOT]


@njit(cache=True, nogil=True, forceinline=True)
def time_of(calendar: np.ndarray, key: int) -> int:
    """The time of an event in picoseconds; at or beyond `horizon_ps` it never happens."""
    return key >> calendar[_BITS]


@njit(cache=True, nogil=True, forceinline=True)
def event_time(calendar: np.ndarray, agent: int) -> int:
    """The time of one agent's next event in picoseconds; INFINITY_PS if it has none."""
    key = calendar[calendar[_LEAVES] + agent]
    return INFINITY_PS if key >= INFINITY_PS else key >> calendar[_BITS]


@njit(cache=True, nogil=True, forceinline=True)
def agent_of(calendar: np.ndarray, key: int) -> int:
    """The agent whose event it is."""
    return key & ((1 << calendar[_BITS]) - 1)


@njit(cache=True, nogil=True, forceinline=True)
def planned(calendar: np.ndarray, agent: int) -> int:
    """The time of an agent's next event; at or beyond `horizon_ps` it never happens."""
    return time_of(calendar, calendar[calendar[_LEAVES] + agent])


@njit(cache=True, nogil=True, forceinline=True)
def peek_agent(calendar: np.ndarray) -> int:
    """The agent whose event comes next; of simultaneous ones the lowest number."""
    return agent_of(calendar, calendar[_ROOT])


@njit(cache=True, nogil=True, forceinline=True)
def peek_time(calendar: np.ndarray) -> int:
    """The time of the next event in picoseconds; INFINITY_PS if there is none."""
    key = calendar[_ROOT]
    if key >= INFINITY_PS:
        return INFINITY_PS
    return time_of(calendar, key)


@njit(int64(int64), cache=True, nogil=True)
def horizon_ps(n_agents: int) -> int:
    """The first time, in picoseconds, that a calendar of `n_agents` takes for never."""
    bits = 0
    while (1 << bits) < n_agents:
        bits += 1
    return INFINITY_PS >> bits
