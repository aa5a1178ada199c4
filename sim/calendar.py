"""The event calendar: for a fixed set of agents, which one acts next and when.

An agent (a thread, a server, a source of arrivals) has exactly one next event. The calendar is a
winner tree over these times: the leaves hold the agents' keys and every inner node the smallest key
of its four children, so that the root is the next event. A key is `time * 2**bits + agent`, which
makes the rule for simultaneous events (lowest agent number first) part of the comparison and lets
one branch-free minimum move time and agent together. Setting a time costs three minima per level,
of which one waits for the level below, and allocates nothing.

The array holds the bits of an agent number in element 0, the root in element 1, the number of
leaves in element 2, the children of node k in 4k to 4k + 3, and so the leaves in its second half.
C code works on it, with the functions of `native/calendar.h`.

Packing the agent into the key bounds simulated time by `horizon_ps`: 20 hours for 64 agents. At or
beyond it an event never happens.
"""

from functools import lru_cache

import numpy as np

INFINITY_PS = 2**62
"""The time of an event that does not happen, in picoseconds."""

_BITS = 0
_ROOT = 1
_LEAVES = 2


def new_calendar(n_agents: int) -> np.ndarray:
    """A calendar in which no agent has an event.

    Parameters
    ----------
    n_agents : int
        Number of agents, at least 1; they are numbered from 0.

    Returns
    -------
    ndarray of int64

    Raises
    ------
    ValueError
        If there is no agent.
    """
    if n_agents < 1:
        raise ValueError("a calendar has at least one agent")
    return _empty_calendar(n_agents).copy()


@lru_cache(maxsize=8)
def _empty_calendar(n_agents: int) -> np.ndarray:
    leaves = 4
    while leaves < n_agents:
        leaves *= 4
    calendar = np.empty(2 * leaves, np.int64)
    calendar[leaves:] = INFINITY_PS | np.arange(leaves)
    first = leaves
    while first > _ROOT:
        children = calendar[first : 2 * first].reshape(-1, 4)
        first //= 4
        calendar[first : 2 * first] = children.min(axis=1)
    calendar[_BITS] = _bits(n_agents)
    calendar[_LEAVES] = leaves
    return calendar


def horizon_ps(n_agents: int) -> int:
    """The first time, in picoseconds, that a calendar of `n_agents` takes for never."""
    return INFINITY_PS >> _bits(n_agents)


def _bits(n_agents: int) -> int:
    """Of an agent number."""
    return (n_agents - 1).bit_length()
