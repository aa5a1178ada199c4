"""Interruptions by the host: times at which a thread's core does something else.

Every thread has its own, a Poisson process whose draws are addressed by thread and number.
"""

from numba import njit

from forecache.sim.calendar import INFINITY_PS
from forecache.sim.streams import draw4, exponential_ps, to_unit

from .. import layout as at
from ..setup import QUANTILES
from .inline import COMPILED_ONLY, inlined, unlikely

INTERRUPTION_DRAWS = 3


@inlined
def plan_interruption(m, thread, index, since_ps):
    """Draw when a thread's (by its row) interruption of this number begins and how long it lasts.

    It begins one gap after `since_ps`, when the one before it began.
    """
    number = (thread - at.THREAD_ROWS) // at.THREAD_WORDS
    gap, duration, _, _ = draw4(m[at.SEED], m[at.REPLICATION], number, INTERRUPTION_DRAWS, index)
    m[thread + at.INTERRUPTION] = index
    m[thread + at.INTERRUPTED_PS] = since_ps + exponential_ps(
        to_unit(gap), float(m[at.INTERRUPTION_GAP_PS])
    )
    m[thread + at.INTERRUPTION_PS] = m[at.INTERRUPTIONS_PS + int(duration) % QUANTILES]


@inlined
def plan_first_interruption(m, thread):
    """Before a thread's first step."""
    if m[at.INTERRUPTION_GAP_PS] > 0:
        plan_interruption(m, thread, 0, 0)
    else:
        m[thread + at.INTERRUPTED_PS] = INFINITY_PS


@njit(**COMPILED_ONLY)
def _lengthened(m, thread, now, ends_ps):
    if ends_ps == now:
        return now
    begins_ps = m[thread + at.INTERRUPTED_PS]
    while begins_ps < ends_ps:
        lasts_ps = m[thread + at.INTERRUPTION_PS]
        ends_ps += max(0, min(lasts_ps, begins_ps + lasts_ps - now))
        plan_interruption(m, thread, m[thread + at.INTERRUPTION] + 1, begins_ps)
        begins_ps = m[thread + at.INTERRUPTED_PS]
    return ends_ps


@inlined
def step_end(m, thread, now, duration_ps):
    """When a thread's step that begins now ends, with the interruptions that fall into it.

    One that began before, while the thread slept or looked for work, delays it to its end. A step
    of no duration suffers none, so that it makes no difference whether it is a step at all.
    """
    ends_ps = now + duration_ps
    if unlikely(m[thread + at.INTERRUPTED_PS] < ends_ps):
        return _lengthened(m, thread, now, ends_ps)
    return ends_ps
