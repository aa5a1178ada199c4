"""The measured window: what happened before it and lasts beyond it does not count.

Counters and busy times are added up without looking at the time; where the window begins and where
it ends, what does not belong is taken out.
"""

from .. import layout as at
from .inline import inlined
from .sockets import thread_row


@inlined
def inside_window(m, start_ps, end_ps):
    """The part of an interval that lies in the measured window, in ps."""
    return max(0, min(end_ps, m[at.END_PS]) - max(start_ps, m[at.WARMUP_PS]))


@inlined
def begin_window(m):
    """The warm-up is over: count from here on, of work under way what is left of it."""
    for counter in range(at.FIRST_COUNTER + 1, at.LAST_COUNTER):
        m[counter] = 0
    for agent in range(m[at.IO_THREADS] + m[at.GENERATORS]):
        thread = thread_row(agent)
        m[thread + at.BUSY_PS] = max(0, m[thread + at.BUSY_UNTIL_PS] - m[at.WARMUP_PS])
    m[at.UNTIL_PS] = m[at.END_PS]


@inlined
def end_window(m):
    """Take out what work under way still has to do."""
    for agent in range(m[at.IO_THREADS] + m[at.GENERATORS]):
        thread = thread_row(agent)
        m[thread + at.BUSY_PS] -= max(0, m[thread + at.BUSY_UNTIL_PS] - m[at.END_PS])
