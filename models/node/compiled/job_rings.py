"""Job rings of asynchronous I/O threads: who gets a job, and how many threads are active.

Rules and constants: io_threads.c of Valkey 8.0.0 and 8.1.0.
"""

from forecache.sim.calendar import schedule
from forecache.sim.stamped_rings import capacity, length, push

from .. import layout as at
from .inline import inlined
from .main_thread import (
    ARGUMENTS_JOB,
    FREE_JOB,
    HANDSHAKE_JOB,
    KIND_BITS,
    READ_JOB,
    WRITE_JOB,
    add_pending_write,
    set_active,
    start_thread,
    stop_thread,
)
from .sockets import about, mark_of, number_of, thread_row

# A client's `SERVED_BY` packs the thread and among how many active ones it was chosen.
_ACTIVE_SHIFT = 16
_THREAD_MASK = (1 << _ACTIVE_SHIFT) - 1


@inlined
def jobs_of(thread):
    """The job ring of an I/O thread."""
    return thread_row(thread) + at.QUEUE


@inlined
def thread_for(m, client):
    """The I/O thread that gets a client's job: the one it still has a job with, else by number."""
    served_by = m[client + at.SERVED_BY]
    active = m[at.ACTIVE_THREADS]
    if served_by >> _ACTIVE_SHIFT != active and not m[client + at.JOBS] & (at.READING | at.WRITING):
        served_by = (number_of(m, client) % (active - 1) + 1) | (active << _ACTIVE_SHIFT)
        m[client + at.SERVED_BY] = served_by
    return served_by & _THREAD_MASK


@inlined
def has_room(m, thread):
    """Whether the job ring takes another job: one slot always stays empty."""
    return length(m, jobs_of(thread)) < capacity(m, jobs_of(thread)) - 1


@inlined
def send_job(m, calendar, thread, job, now):
    """Put a job into a thread's ring; a thread that spins sees it one hand-over later."""
    row = thread_row(thread)
    seen = max(now + m[at.HANDOVER_PS], m[row + at.AVAILABLE_PS])
    push(m, row + at.QUEUE, seen, job)
    if m[row + at.ASLEEP]:
        m[row + at.ASLEEP] = 0
        schedule(calendar, thread, seen)


@inlined
def send_read(m, calendar, client, now):
    """Give a readable client to an I/O thread."""
    thread = thread_for(m, client)
    m[client + at.JOBS] |= at.READING
    m[at.READS_IN_FLIGHT] += 1
    send_job(m, calendar, thread, (client << KIND_BITS) | READ_JOB, now)


@inlined
def send_write(m, calendar, client, now):
    """Give a client's replies to an I/O thread."""
    thread = thread_for(m, client)
    m[client + at.JOBS] |= at.WRITING
    m[at.WRITES_IN_FLIGHT] += 1
    send_job(m, calendar, thread, (client << KIND_BITS) | WRITE_JOB, now)


@inlined
def send_frees(m, calendar, client, now):
    """Hand what a client's SETs replaced to the active threads in turn, its arguments to its own.

    Returns the time that it takes to free what found no room, in ps.
    """
    refused_ps = 0
    others = m[at.ACTIVE_THREADS] - 1
    for index in range(m[client + at.EXECUTED], m[client + at.READ]):
        work_ps = about(m, mark_of(m, client, index), at.FREE_PS)
        if work_ps > 0:
            thread = m[at.FREES_SENT] % max(1, others) + 1
            if others > 0 and has_room(m, thread):
                m[at.FREES_SENT] += 1
                send_job(m, calendar, thread, (work_ps << KIND_BITS) | FREE_JOB, now)
            else:
                refused_ps += work_ps
                m[at.FREED_VALUES] += 1
                m[at.INLINE_FREES] += 1
    commands = m[client + at.READ] - m[client + at.EXECUTED]
    work_ps = commands * m[at.FREE_ARGUMENTS_PS]
    if work_ps > 0:
        thread = thread_for(m, client) if others > 0 else 0
        if others > 0 and has_room(m, thread):
            send_job(m, calendar, thread, (work_ps << KIND_BITS) | ARGUMENTS_JOB, now)
        else:
            refused_ps += work_ps
            m[at.INLINE_ARGUMENTS] += commands
    return refused_ps


@inlined
def send_handshakes(m, calendar, connections, now):
    """Hand new connections to threads by their number; returns how many none took."""
    refused = 0
    others = m[at.ACTIVE_THREADS] - 1
    for _ in range(connections):
        m[at.ACCEPTED_CONNECTIONS] += 1
        thread = m[at.ACCEPTED_CONNECTIONS] % max(1, others) + 1
        if m[at.OFFLOAD_HANDSHAKES] and others > 0 and has_room(m, thread):
            send_job(m, calendar, thread, HANDSHAKE_JOB, now)
        else:
            refused += 1
    return refused


@inlined
def try_send_write(m, calendar, client, now):
    """Hand a client's replies to an I/O thread, or leave them for the pending writes."""
    nothing = m[client + at.EXECUTED] == m[client + at.WRITTEN]
    if nothing or m[client + at.JOBS] & at.WRITING:
        return
    if m[at.ACTIVE_THREADS] > 1:
        if has_room(m, thread_for(m, client)):
            send_write(m, calendar, client, now)
            return
        m[at.REFUSED_JOBS] += 1
    add_pending_write(m, client)


@inlined
def adjust_threads(m, calendar, events, increase_only, now):
    """Activate one thread per `events-per-io-thread` events; returns how many changed."""
    per_thread = m[at.EVENTS_PER_IO_THREAD]
    target = events + 1 if per_thread == 0 else events // per_thread
    target = max(1, min(target, m[at.IO_THREADS]))
    active = m[at.ACTIVE_THREADS]
    before = active
    while active < target:
        start_thread(m, calendar, active, now)
        active += 1
    if not increase_only:
        while active > target and length(m, jobs_of(active - 1)) == 0:
            active -= 1
            stop_thread(m, calendar, active, now)
    if active != before:
        set_active(m, active, now)
    return abs(active - before)


@inlined
def least_room(m):
    """The room that the fullest job ring has left."""
    least = m[at.JOB_CAPACITY]
    for thread in range(1, m[at.ACTIVE_THREADS]):
        least = min(least, capacity(m, jobs_of(thread)) - 1 - length(m, jobs_of(thread)))
    return least
