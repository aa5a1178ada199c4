"""Policy: a single thread. One event loop reads, executes and writes for all clients."""

from numba import njit

from forecache.sim.calendar import INFINITY_PS, peek_agent, peek_time, schedule
from forecache.sim.pointer import pointer
from forecache.sim.stamped_rings import first_stamp, length, pop

from .. import layout as at
from .generator import NOTHING, generator_step, source_step, start
from .sockets import (
    begin_write,
    client_row,
    count,
    end_write,
    execute_commands,
    poll_sockets,
    read_socket,
    thread_row,
    work,
)

# Phases of the main thread: the step that ends when its time comes.
TURNING = 0
WAKING = 1
READING = 2
WRITING = 3
DOZING = 4


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def begin_inline_read(m, client, now):
    """Read, parse and execute what one client has sent; returns the duration."""
    duration = read_socket(m, client, now)
    count(m, at.INLINE_READS, now, 1)
    return duration + execute_commands(m, client, 0, 0, now)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def main_step(m, calendar, now):
    """Advance the main thread whose present step ends now; returns when the next one ends."""
    me = thread_row(m, 0)
    phase = m[me + at.PHASE]
    if phase == READING:
        client = m[me + at.CLIENT]
        if client != NOTHING:
            row = client_row(m, client)
            m[row + at.EXECUTED] = m[row + at.READ]
            if m[row + at.EXECUTED] > m[row + at.WRITTEN]:
                m[m[at.PENDING_WRITES] + m[me + at.COUNT]] = client
                m[me + at.COUNT] += 1
        if length(m, m[at.FIRED_EVENTS]) > 0:
            client = pop(m, m[at.FIRED_EVENTS])
            m[me + at.CLIENT] = client
            return work(m, 0, now, begin_inline_read(m, client, now))
        m[me + at.CLIENT] = NOTHING
        m[me + at.PHASE] = WRITING
        phase = WRITING
    if phase == WRITING:
        if m[me + at.CLIENT] != NOTHING:
            end_write(m, calendar, m[me + at.CLIENT], now)
        if m[me + at.COUNT] > 0:
            # Clients with new replies enter the list at its head, so the last is served first.
            m[me + at.COUNT] -= 1
            client = m[m[at.PENDING_WRITES] + m[me + at.COUNT]]
            m[me + at.CLIENT] = client
            count(m, at.INLINE_WRITES, now, 1)
            return work(m, 0, now, begin_write(m, client, now))
        m[me + at.PHASE] = TURNING
        count(m, at.LOOPS, now, 1)
        return work(m, 0, now, m[at.LOOP_PS])
    found = poll_sockets(m, now)
    if found == 0:
        if phase != DOZING:
            m[me + at.PHASE] = DOZING
            return work(m, 0, now, m[at.DOZE_PS])
        m[me + at.PHASE] = WAKING
        if length(m, m[at.REQUEST_WIRE]) > 0:
            return first_stamp(m, m[at.REQUEST_WIRE]) + m[at.WAKE_LATENCY_PS]
        m[me + at.ASLEEP] = 1
        return INFINITY_PS
    m[me + at.PHASE] = READING
    m[me + at.CLIENT] = NOTHING
    m[me + at.COUNT] = 0
    duration = m[at.POLL_PS] + found * m[at.POLL_EVENT_PS]
    if phase == WAKING:
        # The call that slept returns the events; waking up comes on top.
        duration += m[at.BLOCK_PS]
        count(m, at.BLOCKS, now, 1)
    return work(m, 0, now, duration)


@njit(cache=True, nogil=True, error_model="numpy")
def run(memory, counts, agents):
    """Simulate until `END_PS`; the results are in the memory. Returns the number of events."""
    m = pointer(memory)
    histogram = pointer(counts)
    calendar = pointer(agents)
    start(m, calendar)
    first_source = m[at.IO_THREADS] + m[at.GENERATORS]
    events = 0
    while peek_time(calendar) < m[at.END_PS]:
        now = peek_time(calendar)
        agent = peek_agent(calendar)
        if agent == 0:
            following = main_step(m, calendar, now)
        elif agent < first_source:
            following = generator_step(m, histogram, calendar, agent, now)
        else:
            following = source_step(m, calendar, agent, now)
        schedule(calendar, agent, following)
        events += 1
    return events
