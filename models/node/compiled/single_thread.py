"""Policy: a single thread. One event loop reads, executes and writes for all clients."""

from .. import layout as at
from .connections import accept_alone
from .generator import NOTHING
from .inline import inlined, unlikely
from .log import flush_ps
from .sockets import (
    begin_write,
    end_write,
    execute_commands,
    next_event,
    poll_sockets,
    polling,
    read_socket,
    sleep_in_epoll,
    thread_row,
    work,
)

# Phases of the main thread: the step that ends when its time comes.
TURNING = 0
DOZING = 1  # on the way to sleep; what arrives meanwhile is found without a wake-up
WAKING = 2  # asleep, or woken and about to run
READING = 3
WRITING = 4


@inlined
def read_step(m, now):
    """Read, parse and execute what the next client has sent; returns when that ends, or -1."""
    me = thread_row(0)
    client = m[me + at.CLIENT]
    if client != NOTHING:
        m[client + at.EXECUTED] = m[client + at.READ]
        if m[client + at.EXECUTED] > m[client + at.WRITTEN]:
            m[m[at.PENDING_WRITES] + m[at.PENDING_WRITE_COUNT]] = client
            m[at.PENDING_WRITE_COUNT] += 1
    if m[me + at.COUNT] == 0:
        return -1
    client = next_event(m, me)
    m[me + at.CLIENT] = client
    m[at.INLINE_READS] += 1
    duration = read_socket(m, client)
    return work(m, me, now, duration + execute_commands(m, client, 0, 0))


@inlined
def write_step(m, calendar, now):
    """Write to the next client; returns when that ends, or -1."""
    me = thread_row(0)
    if m[me + at.CLIENT] != NOTHING:
        end_write(m, calendar, m[me + at.CLIENT], now)
    left = m[at.PENDING_WRITE_COUNT] - 1
    if left < 0:
        return -1
    # Clients with new replies enter the list at its head, so the last is served first.
    m[at.PENDING_WRITE_COUNT] = left
    client = m[m[at.PENDING_WRITES] + left]
    m[me + at.CLIENT] = client
    m[at.INLINE_WRITES] += 1
    return work(m, me, now, begin_write(m, client))


@inlined
def main_step(m, calendar, now):
    """Advance the main thread whose present step ends now; returns when the next one ends."""
    me = thread_row(0)
    phase = m[me + at.PHASE]
    if phase >= READING:
        if phase == READING:
            following = read_step(m, now)
            if following >= 0:
                return following
            m[me + at.CLIENT] = NOTHING
            m[me + at.PHASE] = WRITING
            if unlikely(m[at.LOGGED_BYTES] > 0):
                return work(m, me, now, flush_ps(m, now))
        following = write_step(m, calendar, now)
        if following >= 0:
            return following
        m[me + at.PHASE] = TURNING
        m[at.LOOPS] += 1
        return work(m, me, now, m[at.LOOP_PS])
    found = poll_sockets(m, me, now)
    if found == 0:
        if phase != DOZING:
            m[me + at.PHASE] = DOZING
            return work(m, me, now, m[at.DOZE_PS])
        m[me + at.PHASE] = WAKING
        return sleep_in_epoll(m, me)
    m[me + at.PHASE] = READING
    m[me + at.CLIENT] = NOTHING
    m[me + at.COUNT] = found
    duration = polling(m, found)
    if phase == WAKING:
        # The call that slept returns the events; waking up comes on top.
        duration += m[at.BLOCK_PS]
        m[at.BLOCKS] += 1
    duration += accept_alone(m, now)
    return work(m, me, now, duration)


@inlined
def begin(m, calendar):
    """All threads begin as `start` leaves them."""


@inlined
def server_step(m, calendar, _agent, now):
    """Advance the only thread whose present step ends now; returns when the next one ends."""
    return main_step(m, calendar, now)


@inlined
def finish(m):
    """The main thread never spins."""
    m[thread_row(0) + at.ON_CPU_PS] = m[thread_row(0) + at.BUSY_PS]
