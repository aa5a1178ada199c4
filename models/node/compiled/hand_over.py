"""Threads with event loops of their own that tell each other by eventfd: polling, sleeping, waking.

What a peer's write to the eventfd costs depends on whether the reader really sleeps.
"""

from forecache.sim.calendar import schedule

from .. import layout as at
from .cores import nobody_wakes
from .inline import inlined
from .sockets import poll_sockets, polling, sleep_in_epoll, thread_row, work

# Phases of a thread around its epoll_wait.
DOZING = 0  # on the way to sleep; what arrives meanwhile is found without blocking
WAKING = 1  # asleep, or woken and about to run
POLLED = 2


@inlined
def wait(m, thread, now):
    """One epoll_wait of a thread (by its row) on its sockets and eventfds.

    In phase `POLLED` there is something, or it must not sleep: returns the duration of the call,
    and `COUNT` says how many sockets it reports. Otherwise returns when the thread looks again.
    """
    phase = m[thread + at.PHASE]
    found = poll_sockets(m, thread, now)
    told = m[thread + at.TOLD]
    if found + told == 0 and not m[thread + at.DONT_SLEEP]:
        if phase != DOZING:
            m[thread + at.PHASE] = DOZING
            return work(m, thread, now, m[at.DOZE_PS])
        m[thread + at.PHASE] = WAKING
        return sleep_in_epoll(m, thread)
    duration = polling(m, found + told)
    if phase == WAKING:
        m[at.BLOCKS] += 1
        duration += m[at.BLOCK_PS]
    m[thread + at.COUNT] = found
    m[thread + at.PHASE] = POLLED
    return duration


@inlined
def telling(m, calendar, peer, now):
    """Duration of a write to a peer's eventfd, which wakes it if no other thread has done so."""
    m[at.NOTIFICATIONS] += 1
    asleep = m[thread_row(peer) + at.PHASE] == WAKING
    if asleep and nobody_wakes(m, calendar, peer, now + m[at.WAKE_LATENCY_PS]):
        return m[at.NOTIFY_PS] + m[at.WAKE_SEND_PS]
    return m[at.NOTIFY_PS]


@inlined
def tell(m, calendar, peer, now):
    """The write is done: a peer that sleeps runs as soon as it can."""
    row = thread_row(peer)
    runs_ps = now + m[at.WAKE_LATENCY_PS]
    if m[row + at.PHASE] == WAKING and nobody_wakes(m, calendar, peer, runs_ps):
        m[row + at.ASLEEP] = 0
        schedule(calendar, peer, runs_ps)
