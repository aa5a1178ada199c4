"""Cores that several threads share: who has one, who waits for one, and for how long.

The reference execution says by which rules. What a thread does until its next event is in its
row's `WAITS`: policies and the load generator say where it spins or blocks; all else is computing.
Where every thread has a core of its own, nothing of this happens.
"""

from numba import njit

from forecache.sim.calendar import INFINITY_PS, event_time, planned, schedule

from .. import layout as at
from ..setup import SLICES_PER_BALANCE
from .inline import COMPILED_ONLY, inlined, unlikely
from .main_thread import LOOPED, skip_turns
from .sockets import thread_row
from .window import inside_window


@inlined
def task_row(m, task):
    """Where a task's row begins."""
    return m[at.TASK_ROWS] + task * at.TASK_WORDS


@inlined
def core_row(m, core):
    """Where a core's row begins."""
    return m[at.CORE_ROWS] + core * at.CORE_WORDS


@inlined
def is_other(m, task):
    """Whether a number is none of the node's own threads."""
    return task >= m[at.IO_THREADS] + m[at.GENERATORS]


@inlined
def waits_for_core(m, task):
    """Whether a thread could go on but others have its cores."""
    return m[at.CROWDED] and m[task_row(m, task) + at.STATE] == at.WAITS_FOR_CORE


@inlined
def nobody_wakes(m, calendar, sleeper, by_ps):
    """Whether a thread that sleeps is not woken by a time, nor was and only waits for a core."""
    if unlikely(m[at.CROWDED]) and m[task_row(m, sleeper) + at.DUE]:
        return False
    return planned(calendar, sleeper) > by_ps


@njit(**COMPILED_ONLY)
def waiting(m, core):
    """How many threads wait at a core."""
    found = 0
    for task in range(m[at.TASKS_OF_CORES]):
        row = task_row(m, task)
        found += m[row + at.STATE] == at.WAITS_FOR_CORE and m[row + at.HOME] == core
    return found


@inlined
def runnable(m, core):
    """Threads that have a core or wait at it."""
    return waiting(m, core) + (m[core_row(m, core) + at.OCCUPANT] >= 0)


@inlined
def virtual_ps(m, row, now):
    """A task's virtual runtime, the time since it got its core included."""
    if m[row + at.STATE] == at.ON_CORE:
        return m[row + at.VIRTUAL_PS] + now - m[row + at.ON_SINCE_PS]
    return m[row + at.VIRTUAL_PS]


@njit(**COMPILED_ONLY)
def furthest_behind(m, core, anywhere):
    """The waiting thread with the least virtual runtime, or -1.

    At the core, or anywhere if it may run on the core.
    """
    best = -1
    least_ps = INFINITY_PS
    for task in range(m[at.TASKS_OF_CORES]):
        row = task_row(m, task)
        if m[row + at.STATE] == at.WAITS_FOR_CORE and m[row + at.VIRTUAL_PS] < least_ps:
            here = m[row + at.HOME] == core
            if here or (anywhere and m[row + at.FIRST_CORE] <= core < m[row + at.LAST_CORE]):
                best = task
                least_ps = m[row + at.VIRTUAL_PS]
    return best


@inlined
def charge(m, row, now):
    """Account for the time since a task (by its row) got its core."""
    since_ps = m[row + at.ON_SINCE_PS]
    m[row + at.VIRTUAL_PS] += now - since_ps
    m[row + at.ON_CORE_PS] += inside_window(m, since_ps, now)
    m[row + at.ON_SINCE_PS] = now


@inlined
def set_timer(m, calendar, core, now):
    """Put the end of a core's slice into the calendar, at a tick."""
    row = core_row(m, core)
    tick_ps = max(1, m[at.TICK_PS])
    ends_ps = m[row + at.GRANTED_PS] + m[at.SLICE_PS]
    ends_ps = max(now, (ends_ps + tick_ps - 1) // tick_ps * tick_ps)
    m[row + at.TIMED] = 1
    schedule(calendar, m[at.FIRST_CORE_AGENT] + core, ends_ps)


@inlined
def cancel_timer(m, calendar, core):
    """Nobody waits for the end of the slice."""
    m[core_row(m, core) + at.TIMED] = 0
    schedule(calendar, m[at.FIRST_CORE_AGENT] + core, INFINITY_PS)


@njit(**COMPILED_ONLY)
def enqueue(m, calendar, task, core, now):
    """A thread begins to wait at a core, level with the one there that is furthest behind."""
    least_ps = INFINITY_PS
    for other in range(m[at.TASKS_OF_CORES]):
        row = task_row(m, other)
        on_it = m[row + at.STATE] != at.HAS_NO_WORK and m[row + at.HOME] == core
        if on_it and other != task:
            least_ps = min(least_ps, virtual_ps(m, row, now))
    row = task_row(m, task)
    if m[row + at.HOME] == core:
        least_ps = max(least_ps, m[row + at.VIRTUAL_PS])
    m[row + at.VIRTUAL_PS] = least_ps
    m[row + at.HOME] = core
    m[row + at.STATE] = at.WAITS_FOR_CORE
    if not m[core_row(m, core) + at.TIMED]:
        set_timer(m, calendar, core, now)


@njit(**COMPILED_ONLY)
def grant(m, calendar, core, task, now):
    """A thread gets a core that nobody has."""
    row = task_row(m, task)
    m[core_row(m, core) + at.OCCUPANT] = task
    m[core_row(m, core) + at.GRANTED_PS] = now
    m[row + at.ON_SINCE_PS] = now
    m[row + at.GOES_ON_PS] = now
    m[row + at.HOME] = core
    m[row + at.STATE] = at.ON_CORE
    if waiting(m, core) > 0:
        set_timer(m, calendar, core, now)
    else:
        cancel_timer(m, calendar, core)


@inlined
def progress_until(m, task, now):
    """Until when a task that has a core, or lost it at the latest, has gone on."""
    row = task_row(m, task)
    if m[row + at.STATE] == at.WAITS_FOR_CORE:
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


@njit(**COMPILED_ONLY)
def resume(m, calendar, core, task, now):
    """A waiting thread takes over a core."""
    thread = thread_row(task)
    row = task_row(m, task)
    goes_on_ps = now + m[at.SWITCH_PS]
    if not is_other(m, task) and m[thread + at.WAITS] != at.SLEEPS:
        # It lost its core before: what it worked on ends later.
        frozen_ps = progress_until(m, task, now)
        if m[thread + at.BUSY_UNTIL_PS] > frozen_ps:
            m[thread + at.BUSY_UNTIL_PS] += goes_on_ps - frozen_ps
        m[thread + at.AWAY_PS] += inside_window(m, frozen_ps, goes_on_ps)
    m[at.SWITCHES] += 1
    grant(m, calendar, core, task, now)
    m[row + at.GOES_ON_PS] = goes_on_ps
    thaw(m, calendar, task, goes_on_ps)


@inlined
def pass_on(m, calendar, task, left, now):
    """Let a thread wait at the core with the fewest threads, if `left` here aren't fewer."""
    row = task_row(m, task)
    first, last = m[row + at.FIRST_CORE], m[row + at.LAST_CORE]
    least = left + 1
    choice = -1
    for step in range(1, last - first):
        core = first + (m[row + at.HOME] - first + step) % (last - first)
        if m[core_row(m, core) + at.OCCUPANT] >= 0 and runnable(m, core) < least:
            least = runnable(m, core)
            choice = core
    if choice >= 0:
        enqueue(m, calendar, task, choice, now)


@njit(**COMPILED_ONLY)
def expire(m, calendar, core, now):
    """A slice is used up: the thread that is furthest behind goes on."""
    cancel_timer(m, calendar, core)
    here = core_row(m, core)
    task = m[here + at.OCCUPANT]
    left = waiting(m, core)
    if task < 0 or left == 0:
        return
    row = task_row(m, task)
    charge(m, row, now)
    following = furthest_behind(m, core, False)
    if m[task_row(m, following) + at.VIRTUAL_PS] > m[row + at.VIRTUAL_PS]:
        m[here + at.GRANTED_PS] = now
        set_timer(m, calendar, core, now)
        return
    freeze(m, calendar, task, now)
    m[row + at.STATE] = at.WAITS_FOR_CORE
    m[here + at.OCCUPANT] = -1
    m[here + at.SLICES] += 1
    if m[here + at.SLICES] >= SLICES_PER_BALANCE:
        m[here + at.SLICES] = 0
        pass_on(m, calendar, task, left, now)
    resume(m, calendar, core, following, now)


@inlined
def admit(m, calendar, task, now):
    """A blocked thread wakes: 1 if it has a core at once, else it waits for one."""
    row = task_row(m, task)
    home = m[row + at.HOME]
    if m[core_row(m, home) + at.OCCUPANT] < 0:
        grant(m, calendar, home, task, now)
        return True
    core = home
    least = runnable(m, home)
    for other in range(m[row + at.FIRST_CORE], m[row + at.LAST_CORE]):
        if m[core_row(m, other) + at.OCCUPANT] < 0:
            grant(m, calendar, other, task, now)
            return True
        if runnable(m, other) < least:
            core = other
            least = runnable(m, other)
    enqueue(m, calendar, task, core, now)
    if now >= m[core_row(m, core) + at.GRANTED_PS] + m[at.SLICE_PS]:
        expire(m, calendar, core, now)
    return False


@njit(**COMPILED_ONLY)
def has_core(m, calendar, agent, now):
    """Whether the agent whose event happens now may act on it.

    If not, the event has been dealt with: a slice ended, or a thread has to wait for a core.
    """
    if agent >= m[at.FIRST_CORE_AGENT]:
        expire(m, calendar, agent - m[at.FIRST_CORE_AGENT], now)
        return False
    if is_other(m, agent):
        return True  # a source
    row = task_row(m, agent)
    if m[row + at.FIRST_CORE] == m[row + at.LAST_CORE]:
        return True
    if m[row + at.STATE] != at.ON_CORE:
        schedule(calendar, agent, INFINITY_PS)
        if m[row + at.STATE] == at.WAITS_FOR_CORE or not admit(m, calendar, agent, now):
            m[row + at.DUE] = 1
            return False
    m[row + at.DUE] = 0
    m[thread_row(agent) + at.WAITS] = at.COMPUTES
    m[thread_row(agent) + at.ASLEEP] = 0
    return True


@njit(**COMPILED_ONLY)
def after_step(m, calendar, agent, now):
    """A thread that blocks gives its core to one that waits there, or else where it may be."""
    if is_other(m, agent) or m[thread_row(agent) + at.WAITS] != at.SLEEPS:
        return
    row = task_row(m, agent)
    if m[row + at.FIRST_CORE] == m[row + at.LAST_CORE]:
        return
    core = m[row + at.HOME]
    charge(m, row, now)
    m[row + at.STATE] = at.HAS_NO_WORK
    m[core_row(m, core) + at.OCCUPANT] = -1
    cancel_timer(m, calendar, core)
    following = furthest_behind(m, core, False)
    if following < 0:
        following = furthest_behind(m, core, True)
    if following >= 0:
        resume(m, calendar, core, following, now)


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
def spin_in_turns(m, period, until_ps):
    """The main thread begins to spin in equal turns, of which none ends at `until_ps` or later."""
    me = thread_row(0)
    m[me + at.WAITS] = at.SPINS_IN_TURNS
    m[me + at.TURN_PS] = period
    m[me + at.TURNS_UNTIL_PS] = until_ps


@inlined
def finish_turns(m, period):
    """The run ends while the main thread spins in equal turns."""
    last_ps = m[at.END_PS] - 1
    # What it did before it lost its core is accounted for.
    if not waits_for_core(m, 0) and m[task_row(m, 0) + at.GOES_ON_PS] <= last_ps:
        skip_turns(m, period, last_ps)


@inlined
def finish_cores(m):
    """The run ends: charge whoever has a core."""
    for task in range(m[at.TASKS_OF_CORES]):
        row = task_row(m, task)
        if m[row + at.STATE] == at.ON_CORE:
            charge(m, row, m[at.END_PS])
