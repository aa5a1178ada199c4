"""Policy: threads that execute by themselves, under locks (Memcached).

The reference execution states the rules.
"""

from forecache.sim.calendar import INFINITY_PS, schedule
from forecache.sim.streams import draw4

from .. import layout as at
from .connections import accept_alone
from .generator import begin_asleep
from .inline import inlined, unlikely
from .sockets import (
    about,
    begin_write,
    end_write,
    execute_cold,
    mark_of,
    next_event,
    number_of,
    poll_sockets,
    polling,
    read_socket,
    sleep_in_epoll,
    thread_row,
    work,
)
from .window import in_one_go

LOCK_DRAWS = 5
_DRAW_SHIFT = 22  # leaves ten bits of a word: the slots of the table of locks

# Phases of a thread: the step that ends when its time comes.
LOOKING = 0
DOZING = 1  # on the way to sleep; what arrives meanwhile is found without a wake-up
SLEEPING = 2  # or woken and about to run
POLLED = 3
READ = 4  # a part of a command
PARSED = 5
LOCKING_ITEM = 6  # waiting for its lock
EXECUTED = 7
LOCKING_LIST = 8  # waiting for its lock
LINKED = 9
WROTE = 10

# A lock is the sum of these.
HELD = 1
WOKEN = 2  # the thread that has waited longest was woken and has not looked yet
WAITER = 4  # for each thread that waits


@inlined
def item_lock(m, client, index):
    """The item lock of a command (its offset): that of a popular key, or any."""
    first, second, _, _ = draw4(
        m[at.SEED], m[at.REPLICATION], number_of(m, client), LOCK_DRAWS, index
    )
    popular = m[m[at.LOCK_BY_DRAW] + (int(first) >> _DRAW_SHIFT)]
    return m[at.LOCKS] + (popular if popular >= 0 else int(second) % m[at.ITEM_LOCKS])


@inlined
def parse_next(m, me, client, duration, now):
    """Parse a client's next command, after other work of a duration; returns when it ends."""
    mark = mark_of(m, client, m[client + at.EXECUTED])
    m[me + at.PHASE] = PARSED
    return work(m, me, now, duration + about(m, mark, at.PARSE_PS))


@inlined
def take_lock(m, me, lock):
    """Whether a lock was free and is now held; else the thread waits, or waits on, for it."""
    waited = m[me + at.WAITS_FOR] == lock
    if unlikely(waited):
        m[lock] &= ~WOKEN
    if not m[lock] & HELD:
        m[lock] |= HELD
        if unlikely(waited):
            m[lock] -= WAITER
            m[me + at.WAITS_FOR] = 0
        return True
    if not waited:
        m[at.LOCK_WAITS] += 1
        m[at.LOCK_TICKETS] += 1
        m[lock] += WAITER
        m[me + at.WAITS_FOR] = lock
        m[me + at.TICKET] = m[at.LOCK_TICKETS]
    m[me + at.WAITS] = at.SLEEPS
    return False


@inlined
def release_lock(m, calendar, lock, now):
    """The lock is free: wake the thread that has waited longest."""
    m[lock] -= HELD
    if unlikely(m[lock] > 0 and not m[lock] & WOKEN):
        m[lock] |= WOKEN
        following = 0
        ticket = INFINITY_PS
        for thread in range(m[at.IO_THREADS]):
            row = thread_row(thread)
            if m[row + at.WAITS_FOR] == lock and m[row + at.TICKET] < ticket:
                following = thread
                ticket = m[row + at.TICKET]
        schedule(calendar, following, now)


@inlined
def command_step(m, calendar, me, client, now):
    """Execute a client's commands; returns when the next step ends, or -1 if all are executed."""
    phase = m[me + at.PHASE]
    index = m[client + at.EXECUTED]
    mark = mark_of(m, client, index)
    if phase == PARSED:
        m[me + at.LOCK] = item_lock(m, client, index)
    if phase in (PARSED, LOCKING_ITEM):
        m[me + at.PHASE] = LOCKING_ITEM
        if not take_lock(m, me, m[me + at.LOCK]):
            return INFINITY_PS
        m[me + at.PHASE] = EXECUTED
        return work(m, me, now, execute_cold(m, mark))
    linking_ps = about(m, mark, at.FREE_PS)
    list_lock = (mark & at.MARK_CODE) + at.LIST_LOCK
    if phase != LINKED and linking_ps > 0:
        m[me + at.PHASE] = LOCKING_LIST
        if not take_lock(m, me, list_lock):
            return INFINITY_PS
        m[at.FREED_VALUES] += 1
        m[me + at.PHASE] = LINKED
        return work(m, me, now, linking_ps)
    if phase == LINKED:
        release_lock(m, calendar, list_lock, now)
    release_lock(m, calendar, m[me + at.LOCK], now)
    m[client + at.EXECUTED] = index + 1
    if index + 1 < m[client + at.READ]:
        return parse_next(m, me, client, 0, now)
    return -1


@inlined
def serve_next(m, me, now):
    """Read from the next client that the poll reported; returns when that ends, or -1."""
    if m[me + at.COUNT] == 0:
        return -1
    client = next_event(m, me)
    m[me + at.CLIENT] = client
    duration = read_socket(m, client)
    if m[client + at.EXECUTED] == m[client + at.READ]:
        m[me + at.PHASE] = READ
        return work(m, me, now, duration)
    return parse_next(m, me, client, duration, now)


@inlined
def server_step(m, calendar, thread, now):
    """Advance a thread whose present step ends now; returns when the next one ends."""
    me = thread_row(thread)
    phase = m[me + at.PHASE]
    if phase >= POLLED:
        client = m[me + at.CLIENT]
        if phase == WROTE:
            end_write(m, calendar, client, now)
        elif phase != POLLED:
            if phase != READ:
                following = command_step(m, calendar, me, client, now)
                if following >= 0:
                    return following
            if m[client + at.EXECUTED] > m[client + at.WRITTEN]:
                m[me + at.PHASE] = WROTE
                return work(m, me, now, begin_write(m, client))
        following = serve_next(m, me, now)
        if following >= 0:
            return following
        m[me + at.PHASE] = LOOKING
        m[at.LOOPS] += 1
        return work(m, me, now, m[at.LOOP_PS])
    found = poll_sockets(m, me, now)
    if found == 0:
        if phase != DOZING:
            m[me + at.PHASE] = DOZING
            return work(m, me, now, m[at.DOZE_PS])
        m[me + at.PHASE] = SLEEPING
        return sleep_in_epoll(m, me)
    duration = polling(m, found)
    if phase == SLEEPING:
        m[at.BLOCKS] += 1
        duration += m[at.BLOCK_PS]
    if thread == 0:
        duration += accept_alone(m, now)
    m[me + at.COUNT] = found
    polled = work(m, me, now, duration)
    # What there is to read is known: the first client is read in the same step.
    if in_one_go(m, polled):
        return serve_next(m, me, polled)
    m[me + at.PHASE] = POLLED
    return polled


@inlined
def begin(m, calendar):
    """Threads but the first begin asleep."""
    for thread in range(1, m[at.IO_THREADS]):
        m[thread_row(thread) + at.PHASE] = SLEEPING
        begin_asleep(m, calendar, thread)


@inlined
def finish(m):
    """No thread spins."""
    m[thread_row(0) + at.ON_CPU_PS] = m[thread_row(0) + at.BUSY_PS]
