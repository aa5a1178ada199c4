"""Cores that several threads share: who has one, who waits for one, and for how long.

The reference execution says by which rules. What a thread does until its next event is in its
row's `WAITS`: policies and the load generator say where it spins or blocks; all else is computing.
Where every thread has a core of its own, nothing of this happens.
"""

from numba import njit

from forecache.sim.calendar import INFINITY_PS, planned, schedule

from .. import layout as at
from ..setup import SLICES_PER_BALANCE
from .core_rows import core_row, task_row
from .halts import freeze, is_other, progress_until, thaw
from .inline import COMPILED_ONLY, inlined, unlikely
from .quota import (
    allows,
    begin_budget,
    cancel_budget,
    give_back,
    longest_throttled,
    plan_period,
    refill,
    spend,
    throttles,
)
from .sockets import thread_row
from .window import inside_window


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
def furthest_behind(m, core, anywhere, now):
    """The waiting thread with the least virtual runtime, or -1.

    At the core, or anywhere if it may run on the core and didn't just run on its own.
    """
    best = -1
    least_ps = INFINITY_PS
    for task in range(m[at.TASKS_OF_CORES]):
        row = task_row(m, task)
        if m[row + at.STATE] == at.WAITS_FOR_CORE and m[row + at.VIRTUAL_PS] < least_ps:
            here = m[row + at.HOME] == core
            allowed = m[row + at.FIRST_CORE] <= core < m[row + at.LAST_CORE]
            allowed = allowed and now >= m[row + at.HOT_UNTIL_PS]
            if here or (anywhere and allowed and not throttles(m, task, core)):
                best = task
                least_ps = m[row + at.VIRTUAL_PS]
    return best


@njit(**COMPILED_ONLY)
def following_on(m, core, anywhere, now):
    """Who of those that wait at a core, or anywhere, is to have it if a quota allows it, or -1."""
    while True:
        task = furthest_behind(m, core, anywhere, now)
        if task < 0 or allows(m, task, core):
            return task


@inlined
def charge(m, row, now):
    """Account for the time since a task (by its row) got its core."""
    since_ps = m[row + at.ON_SINCE_PS]
    m[row + at.VIRTUAL_PS] += now - since_ps
    m[row + at.ON_CORE_PS] += inside_window(m, since_ps, now)
    spend(m, row, now - since_ps)
    m[row + at.ON_SINCE_PS] = now
    m[row + at.HOT_UNTIL_PS] = now + m[at.CACHE_HOT_PS]


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
        state = m[row + at.STATE]
        on_it = (state == at.ON_CORE or state == at.WAITS_FOR_CORE) and m[row + at.HOME] == core
        if on_it and other != task:
            least_ps = min(least_ps, virtual_ps(m, row, now))
    row = task_row(m, task)
    if m[row + at.HOME] == core:
        least_ps = max(least_ps, m[row + at.VIRTUAL_PS])
    else:
        m[row + at.HOT_UNTIL_PS] = 0
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
    begin_budget(m, calendar, task, core, now)
    if waiting(m, core) > 0:
        set_timer(m, calendar, core, now)
    else:
        cancel_timer(m, calendar, core)


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
        if throttles(m, task, core):
            continue
        if m[core_row(m, core) + at.OCCUPANT] >= 0 and runnable(m, core) < least:
            least = runnable(m, core)
            choice = core
    if choice >= 0:
        enqueue(m, calendar, task, choice, now)


@inlined
def vacate(m, calendar, core):
    """Nobody has a core."""
    m[core_row(m, core) + at.OCCUPANT] = -1
    cancel_timer(m, calendar, core)
    cancel_budget(m, calendar, core)


@inlined
def take_away(m, calendar, task, state, now):
    """A thread that was charged loses its core though it could go on."""
    row = task_row(m, task)
    freeze(m, calendar, task, now)
    m[row + at.STATE] = state
    vacate(m, calendar, m[row + at.HOME])


@njit(**COMPILED_ONLY)
def fill(m, calendar, core, now):
    """A core that nobody has goes to one that waits there, or else anywhere it can be."""
    following = following_on(m, core, False, now)
    if following < 0:
        following = following_on(m, core, True, now)
    if following >= 0:
        resume(m, calendar, core, following, now)


@inlined
def stop(m, calendar, task, core, now):
    """The quota is used up: a thread loses its core, which goes to one without a quota."""
    take_away(m, calendar, task, at.THROTTLED, now)
    fill(m, calendar, core, now)


@njit(**COMPILED_ONLY)
def expire(m, calendar, core, now):
    """A slice is used up: the thread that is furthest behind goes on."""
    cancel_timer(m, calendar, core)
    here = core_row(m, core)
    task = m[here + at.OCCUPANT]
    if task < 0 or waiting(m, core) == 0:
        return
    row = task_row(m, task)
    charge(m, row, now)
    if not allows(m, task, core):
        stop(m, calendar, task, core, now)
        return
    following = following_on(m, core, False, now)
    if following < 0:
        return
    if m[task_row(m, following) + at.VIRTUAL_PS] > m[row + at.VIRTUAL_PS]:
        m[here + at.GRANTED_PS] = now
        set_timer(m, calendar, core, now)
        return
    left = waiting(m, core)
    take_away(m, calendar, task, at.WAITS_FOR_CORE, now)
    m[here + at.SLICES] += 1
    if m[here + at.SLICES] >= SLICES_PER_BALANCE:
        m[here + at.SLICES] = 0
        pass_on(m, calendar, task, left, now)
    resume(m, calendar, core, following, now)


@njit(**COMPILED_ONLY)
def end_budget(m, calendar, core, now):
    """What a core had is used up, or should be: the thread that runs there goes on if it may."""
    task = m[core_row(m, core) + at.OCCUPANT]
    cancel_budget(m, calendar, core)
    charge(m, task_row(m, task), now)
    if allows(m, task, core):
        begin_budget(m, calendar, task, core, now)
    else:
        stop(m, calendar, task, core, now)


@njit(**COMPILED_ONLY)
def unthrottle(m, calendar, core, now):
    """Threads that a quota stopped at a core may run again."""
    for task in range(m[at.IO_THREADS]):
        row = task_row(m, task)
        if m[row + at.STATE] == at.THROTTLED and m[row + at.HOME] == core:
            if runnable(m, core) > 0:
                enqueue(m, calendar, task, core, now)
            else:
                m[row + at.STATE] = at.WAITS_FOR_CORE
    if m[core_row(m, core) + at.OCCUPANT] < 0:
        fill(m, calendar, core, now)
    elif now >= m[core_row(m, core) + at.GRANTED_PS] + m[at.SLICE_PS]:
        expire(m, calendar, core, now)


@njit(**COMPILED_ONLY)
def new_period(m, calendar, now):
    """The pool holds the quota again, and throttled cores go on."""
    m[at.POOL_PS] = m[at.QUOTA_PS]
    last = m[at.TICKETS]
    core = longest_throttled(m, 0)
    m[at.THROTTLED_PERIODS] += core >= 0
    while core >= 0:
        ticket = m[core_row(m, core) + at.THROTTLED_AS]
        if ticket > last:
            break
        if refill(m, core):
            m[core_row(m, core) + at.THROTTLED_AS] = 0
            unthrottle(m, calendar, core, now)
        core = longest_throttled(m, ticket)
    plan_period(m, calendar, now)


@inlined
def core_step(m, calendar, number, now):
    """What happens to cores: a slice ends, what one has of a quota is used up, a period begins."""
    cores = m[at.CORES]
    if number < cores:
        expire(m, calendar, number, now)
    elif number < 2 * cores:
        end_budget(m, calendar, number - cores, now)
    else:
        new_period(m, calendar, now)


@inlined
def refused(m, task, core, idle):
    """Whether a quota has a thread that wakes wait at a core for the next period."""
    if throttles(m, task, core) or (idle and not allows(m, task, core)):
        row = task_row(m, task)
        m[row + at.HOME] = core
        m[row + at.STATE] = at.THROTTLED
        return True
    return False


@njit(**COMPILED_ONLY)
def admit(m, calendar, task, now):
    """A blocked thread wakes: 1 if it has a core at once, else it waits for one."""
    row = task_row(m, task)
    core = m[row + at.HOME]
    idle = m[core_row(m, core) + at.OCCUPANT] < 0
    least = runnable(m, core)
    for other in range(m[row + at.FIRST_CORE], m[row + at.LAST_CORE]):
        if idle:
            break
        idle = m[core_row(m, other) + at.OCCUPANT] < 0
        if idle or runnable(m, other) < least:
            core = other
            least = runnable(m, other)
    if refused(m, task, core, idle):
        return False
    if idle:
        grant(m, calendar, core, task, now)
        return True
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
        core_step(m, calendar, agent - m[at.FIRST_CORE_AGENT], now)
        return False
    if is_other(m, agent):
        return True  # a source
    row = task_row(m, agent)
    if m[row + at.FIRST_CORE] == m[row + at.LAST_CORE]:
        return True
    if m[row + at.STATE] != at.ON_CORE:
        schedule(calendar, agent, INFINITY_PS)
        if m[row + at.STATE] >= at.WAITS_FOR_CORE or not admit(m, calendar, agent, now):
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
    vacate(m, calendar, core)
    give_back(m, agent, core)
    fill(m, calendar, core, now)


@inlined
def finish_cores(m):
    """The run ends: charge whoever has a core."""
    for task in range(m[at.TASKS_OF_CORES]):
        row = task_row(m, task)
        if m[row + at.STATE] == at.ON_CORE:
            charge(m, row, m[at.END_PS])
