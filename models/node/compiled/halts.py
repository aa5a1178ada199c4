"""What a thread that shares cores does when it loses its core, and how it goes on with one.

What it computes is left to be done; a main thread that spins in equal turns goes on within one.
"""

from forecache.sim.calendar import INFINITY_PS, event_time, schedule

from .. import layout as at
from .core_rows import task_row
from .inline import inlined, unlikely
from .main_thread import LOOPED, skip_turns
from .sockets import thread_row


@inlined
def is_other(m, task):
    """Whether a number is none of the node's own threads."""
    return task >= m[at.IO_THREADS] + m[at.GENERATORS]


@inlined
def waits_for_core(m, task):
    """Whether a thread could go on but others have its cores, or its quota is used up."""
    return m[at.CROWDED] and m[task_row(m, task) + at.STATE] >= at.WAITS_FOR_CORE


@inlined
def progress_until(m, task, now):
    """Until when a task that has a core, or lost it at the latest, has gone on."""
    row = task_row(m, task)
    if m[row + at.STATE] >= at.WAITS_FOR_CORE:
        now = m[row + at.ON_SINCE_PS]
    return max(now, m[row + at.GOES_ON_PS])


@inlined
def freeze(m, calendar, task, now):
    """A thread loses its core."""
    if is_other(m, task):
        return
    thread = thread_row(task)
    row = task_row(m, task)
    waits = m[thread + at.WAITS]
    now = progress_until(m, task, now)
    if waits == at.COMPUTES:
        m[row + at.LEFT_PS] = event_time(calendar, task) - now
        schedule(calendar, task, INFINITY_PS)
    elif waits == at.SPINS_IN_TURNS:
        m[row + at.LEFT_PS] = now - skip_turns(m, m[thread + at.TURN_PS], now)
        schedule(calendar, task, INFINITY_PS)


@inlined
def thaw_turns(m, thread, left_ps, at_ps):
    """A thread spins on in its turns from a time on; returns its next event."""
    period = m[thread + at.TURN_PS]
    since = at_ps - left_ps
    until = m[thread + at.TURNS_UNTIL_PS]
    m[thread + at.SINCE_PS] = since
    if until == INFINITY_PS:
        return until
    if since + period >= until:
        m[thread + at.PHASE] = LOOPED
        m[thread + at.WAITS] = at.COMPUTES
        return since + period
    return since + (until - since - 1) // period * period


@inlined
def thaw(m, calendar, task, at_ps):
    """A thread has a core and goes on at a time."""
    if is_other(m, task):
        return
    thread = thread_row(task)
    row = task_row(m, task)
    waits = m[thread + at.WAITS]
    following = at_ps
    if waits == at.COMPUTES:
        following = at_ps + m[row + at.LEFT_PS]
    elif waits == at.SPINS_IN_TURNS:
        following = thaw_turns(m, thread, m[row + at.LEFT_PS], at_ps)
    elif waits == at.SPINS and not m[row + at.DUE] and not m[thread + at.ASLEEP]:
        following = max(at_ps, event_time(calendar, task))
    schedule(calendar, task, following)


@inlined
def spin_in_turns(m, period, until_ps):
    """The main thread begins to spin in equal turns, of which none ends at `until_ps` or later."""
    me = thread_row(0)
    m[me + at.WAITS] = at.SPINS_IN_TURNS
    m[me + at.TURN_PS] = period
    m[me + at.TURNS_UNTIL_PS] = until_ps


@inlined
def spun_into_turn(m, period, now):
    """How far the main thread, spinning in equal turns, is in the present one."""
    if unlikely(waits_for_core(m, 0)):
        return m[task_row(m, 0) + at.LEFT_PS]
    if unlikely(m[at.CROWDED]):
        now = progress_until(m, 0, now)
    return now - skip_turns(m, period, now)


@inlined
def stop_spinning(m, calendar, after_ps, now):
    """The main thread, spinning in turns, finds something after so much more of its time."""
    m[thread_row(0) + at.WAITS] = at.COMPUTES
    if unlikely(waits_for_core(m, 0)):
        m[task_row(m, 0) + at.LEFT_PS] = after_ps
    else:
        if unlikely(m[at.CROWDED]):
            now = progress_until(m, 0, now)
        schedule(calendar, 0, now + after_ps)


@inlined
def finish_turns(m, period):
    """The run ends while the main thread spins in equal turns."""
    last_ps = m[at.END_PS] - 1
    # What it did before it lost its core is accounted for.
    if not waits_for_core(m, 0) and m[task_row(m, 0) + at.GOES_ON_PS] <= last_ps:
        skip_turns(m, period, last_ps)
