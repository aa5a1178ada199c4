"""The measured window: what happens before it or after it does not count.

Counters and busy times are added up without looking at the time; where the window begins and where
it ends, what does not belong is taken out.
"""

from .. import layout as at
from .inline import inlined, unlikely
from .sockets import thread_row


@inlined
def inside_window(m, start_ps, end_ps):
    """The part of an interval that lies in the measured window, in ps."""
    return max(0, min(end_ps, m[at.END_PS]) - max(start_ps, m[at.WARMUP_PS]))


@inlined
def left_to_do(m, agent, now):
    """What is left of a thread's work under way, in ps."""
    since_ps = now
    if unlikely(m[at.CROWDED]):
        # It stands still without a core, and until it goes on with one.
        task = m[at.TASK_ROWS] + agent * at.TASK_WORDS
        if m[task + at.STATE] >= at.WAITS_FOR_CORE:
            since_ps = m[task + at.ON_SINCE_PS]
        since_ps = max(since_ps, m[task + at.GOES_ON_PS])
    return max(0, m[thread_row(agent) + at.BUSY_UNTIL_PS] - since_ps)


@inlined
def in_one_go(m, ends_ps):
    """Whether a thread begins its next step, after one that ends then, without an event between.

    It may where others see nothing of it meanwhile, unless it could lose its core or the window
    begins or ends.
    """
    return ends_ps < m[at.UNTIL_PS] and not m[at.CROWDED]


@inlined
def begin_window(m):
    """The warm-up is over: count from here on, of work under way what is left of it."""
    accepted = m[at.ARRIVALS] - m[at.OVERFLOWS]
    m[at.BACKLOG_AT_START] = accepted - m[at.COMPLETED_EARLY] if m[at.OPEN_LOOP] else 0
    for counter in range(at.FIRST_COUNTER + 1, at.LAST_COUNTER):
        m[counter] = 0
    for agent in range(m[at.IO_THREADS] + m[at.GENERATORS]):
        thread = thread_row(agent)
        m[thread + at.BUSY_PS] = left_to_do(m, agent, m[at.WARMUP_PS])
    m[at.UNTIL_PS] = m[at.END_PS]


@inlined
def end_window(m):
    """Take out the part of work under way that lies after the window."""
    for agent in range(m[at.IO_THREADS] + m[at.GENERATORS]):
        thread = thread_row(agent)
        m[thread + at.BUSY_PS] -= left_to_do(m, agent, m[at.END_PS])
