"""CPU time that the server's threads may take per period: a quota of their control group.

The reference execution says by which rules. Here is who has how much; `cores` takes cores away.
"""

from numba import njit

from forecache.sim.calendar import INFINITY_PS, schedule

from .. import layout as at
from ..setup import KEPT_BUDGET_PS
from .core_rows import core_row, task_row
from .inline import COMPILED_ONLY, inlined


@inlined
def limits(m, task):
    """Whether it is a thread of the server, and there is a quota."""
    return m[at.QUOTA_PS] > 0 and task < m[at.IO_THREADS]


@inlined
def throttles(m, task, core):
    """Whether a thread must not run on a core, as far as is known."""
    return limits(m, task) and m[core_row(m, core) + at.THROTTLED_AS] > 0


@inlined
def refill(m, core):
    """Fill a core's slice up from the pool; returns whether the core then has any time."""
    here = core_row(m, core)
    taken_ps = min(m[at.POOL_PS], m[at.QUOTA_SLICE_PS] - m[here + at.LOCAL_PS])
    m[at.POOL_PS] -= taken_ps
    m[here + at.LOCAL_PS] += taken_ps
    return m[here + at.LOCAL_PS] > 0


@njit(**COMPILED_ONLY)
def allows(m, task, core):
    """Whether a thread may run on a core now; if not, the core is throttled."""
    if not limits(m, task):
        return True
    here = core_row(m, core)
    if m[here + at.THROTTLED_AS] > 0:
        return False
    if m[here + at.LOCAL_PS] > 0 or refill(m, core):
        return True
    m[at.TICKETS] += 1
    m[here + at.THROTTLED_AS] = m[at.TICKETS]
    m[at.THROTTLES] += 1
    for other in range(m[at.IO_THREADS]):
        row = task_row(m, other)
        if m[row + at.STATE] == at.WAITS_FOR_CORE and m[row + at.HOME] == core:
            m[row + at.STATE] = at.THROTTLED
    return False


@inlined
def begin_budget(m, calendar, task, core, now):
    """A thread runs on a core: plan when what the core has will be used up."""
    if limits(m, task):
        tick_ps = max(1, m[at.TICK_PS])
        ends_ps = now + m[core_row(m, core) + at.LOCAL_PS]
        ends_ps = (ends_ps + tick_ps - 1) // tick_ps * tick_ps
        schedule(calendar, m[at.FIRST_CORE_AGENT] + m[at.CORES] + core, ends_ps)


@inlined
def cancel_budget(m, calendar, core):
    """No thread has the core."""
    if m[at.QUOTA_PS] > 0:
        schedule(calendar, m[at.FIRST_CORE_AGENT] + m[at.CORES] + core, INFINITY_PS)


@inlined
def spend(m, row, time_ps):
    """Charge a core for the time a task (by its row) has been on it."""
    if m[at.QUOTA_PS] > 0 and row < task_row(m, m[at.IO_THREADS]):
        m[core_row(m, m[row + at.HOME]) + at.LOCAL_PS] -= time_ps


@njit(**COMPILED_ONLY)
def give_back(m, task, core):
    """A thread has blocked; if it was the core's only one, most of what is left is returned."""
    if not limits(m, task):
        return
    for other in range(m[at.IO_THREADS]):
        row = task_row(m, other)
        if m[row + at.STATE] == at.WAITS_FOR_CORE and m[row + at.HOME] == core:
            return
    here = core_row(m, core)
    left_ps = max(0, m[here + at.LOCAL_PS] - KEPT_BUDGET_PS)
    m[here + at.LOCAL_PS] -= left_ps
    m[at.POOL_PS] += left_ps


@inlined
def longest_throttled(m, after):
    """The core that was throttled next after the one with this number; -1 if none was."""
    best = -1
    for core in range(m[at.CORES]):
        ticket = m[core_row(m, core) + at.THROTTLED_AS]
        if ticket > after and (best < 0 or ticket < m[core_row(m, best) + at.THROTTLED_AS]):
            best = core
    return best


@inlined
def plan_period(m, calendar, begins_ps):
    """A period begins: so will the next one."""
    number = m[at.FIRST_CORE_AGENT] + 2 * m[at.CORES]
    schedule(calendar, number, begins_ps + m[at.QUOTA_PERIOD_PS])
