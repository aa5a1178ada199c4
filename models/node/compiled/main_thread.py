"""Steps of a main thread that works with I/O threads, shared by the policies."""

from numba import njit

from forecache.sim.calendar import INFINITY_PS, schedule
from forecache.sim.stamped_rings import pop

from .. import layout as at
from .sockets import (
    begin_write,
    client_row,
    count,
    execute_commands,
    mark_of,
    parse,
    poll_sockets,
    read_socket,
    thread_row,
)

# What a job or a response is about: kind in the low bits, client above.
READ_JOB = 0
WRITE_JOB = 1
POLL_JOB = 2
KIND_BITS = 2
KIND_MASK = 3


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def inside_window(m, start_ps, end_ps):
    """The part of an interval that lies in the measured window, in ps."""
    return max(0, min(end_ps, m[at.END_PS]) - max(start_ps, m[at.WARMUP_PS]))


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def end_turn(m, now):
    """Account for the turn of the event loop that ends now; the next one starts."""
    me = thread_row(m, 0)
    started = m[at.TURN_STARTED_PS]
    inside = inside_window(m, started, now)
    m[me + at.ON_CPU_PS] += inside
    if m[at.PRODUCTIVE]:
        m[me + at.BUSY_PS] += inside
        m[at.MAIN_ACTIVE_PS] += now - started
    m[at.TURN_STARTED_PS] = now
    m[at.PRODUCTIVE] = 0
    count(m, at.LOOPS, now, 1)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def skip_turns(m, period, now):
    """Account for the equal turns spun since `SINCE_PS`; returns when the present one began."""
    me = thread_row(m, 0)
    since = m[me + at.SINCE_PS]
    turns = (now - since) // period
    turn_started = since + turns * period
    m[me + at.ON_CPU_PS] += inside_window(m, since, turn_started)
    # Turns that ended inside the measured window.
    before = max(0, -(-(m[at.WARMUP_PS] - since) // period) - 1)
    m[at.LOOPS] += max(0, turns - before)
    m[at.TURN_STARTED_PS] = turn_started
    return turn_started


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def add_pending_write(m, client):
    """Put a client with replies into the list of pending writes, once."""
    row = client_row(m, client)
    if not m[row + at.WRITE_PENDING] and m[row + at.EXECUTED] > m[row + at.WRITTEN]:
        m[row + at.WRITE_PENDING] = 1
        m[m[at.PENDING_WRITES] + m[at.PENDING_WRITE_COUNT]] = client
        m[at.PENDING_WRITE_COUNT] += 1


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def set_active(m, active, now):
    """Change how many threads are active, and how long so many were."""
    inside = inside_window(m, m[at.ACTIVE_SINCE_PS], now)
    m[at.ACTIVE_THREAD_PS] += (m[at.ACTIVE_THREADS] - 1) * inside
    m[at.ACTIVE_SINCE_PS] = now
    m[at.ACTIVE_THREADS] = active
    count(m, at.ACTIVATIONS, now, 1)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def begin_job(m, job, now):
    """An I/O thread starts a job; returns its duration in ps."""
    client = job >> KIND_BITS
    kind = job & KIND_MASK
    if kind == READ_JOB:
        row = client_row(m, client)
        duration = read_socket(m, client, now)
        last = m[row + at.READ]
        if not m[at.WHOLE_PIPELINE]:
            last = min(last, m[row + at.EXECUTED] + 1)
        for index in range(m[row + at.EXECUTED], last):
            duration += parse(m, mark_of(m, client, index))
    elif kind == WRITE_JOB:
        duration = begin_write(m, client, now)
    else:
        found = poll_sockets(m, now)
        duration = m[at.POLL_PS] + found * m[at.POLL_EVENT_PS]
    return m[at.POP_PS] + duration


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def park_io_threads(m, calendar):
    """Before the first event every I/O thread waits for a job."""
    for agent in range(1, m[at.IO_THREADS]):
        m[thread_row(m, agent) + at.ASLEEP] = 1
        schedule(calendar, agent, INFINITY_PS)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def begin_batch(m, done, now):
    """Take up to a batch of clients whose reads are done and look their keys up; returns when.

    A single key is not fetched ahead: there is nothing to overlap its misses with.
    """
    me = thread_row(m, 0)
    limit = max(1, m[at.PREFETCH_BATCH])
    size = 0
    keys = 0
    while m[me + at.COUNT] > 0 and size < limit and keys < limit:
        client = pop(m, done) >> KIND_BITS
        m[me + at.COUNT] -= 1
        row = client_row(m, client)
        m[m[at.BATCH] + size] = client
        size += 1
        ready = m[row + at.READ] - m[row + at.EXECUTED]
        keys += ready if m[at.WHOLE_PIPELINE] else min(ready, 1)
    m[at.READS_IN_FLIGHT] -= size
    m[at.PRODUCTIVE] = 1
    m[me + at.INDEX] = 0
    m[me + at.AMOUNT] = size
    m[me + at.FETCHED] = 0
    keys = min(keys, limit)
    if keys > 1:
        m[me + at.FETCHED] = keys
        count(m, at.PREFETCH_BATCHES, now, 1)
        count(m, at.PREFETCHED_KEYS, now, keys)
        return now + m[m[at.PREFETCH] + keys]
    return now


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def begin_execution(m, client, now):
    """Execute what a client's finished read brought; returns when that ends."""
    me = thread_row(m, 0)
    row = client_row(m, client)
    ready = m[row + at.READ] - m[row + at.EXECUTED]
    parsed = ready if m[at.WHOLE_PIPELINE] else min(ready, 1)
    fetched = min(parsed, m[me + at.FETCHED])
    m[me + at.FETCHED] -= fetched
    return now + execute_commands(m, client, fetched, parsed, now) + m[at.PUSH_PS]
