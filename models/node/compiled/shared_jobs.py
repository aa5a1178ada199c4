"""The shared queue of jobs: sending, and how many threads are active by sampled load.

Rules and constants: io_threads.c of Valkey 9.1.0.
"""

from forecache.sim.calendar import schedule
from forecache.sim.stamped_rings import is_full, length, push

from .. import layout as at
from .halts import waits_for_core
from .inline import inlined
from .main_thread import (
    ARGUMENTS_JOB,
    FREE_JOB,
    HANDSHAKE_JOB,
    KIND_BITS,
    POLL_JOB,
    READ_JOB,
    WRITE_JOB,
    add_pending_write,
    look_at,
    set_active,
)
from .sockets import about, mark_of, thread_row

SHARED_POLL_LIMIT = 9
"""Up to so many active threads the poll job goes to the shared queue."""

SAMPLES_PER_DECISION = 16
IGNITION_PER_MILLE = 300
"""Share of active main-thread time above which the first I/O thread starts."""


@inlined
def private_jobs(thread):
    """The private queue of an I/O thread."""
    return thread_row(thread) + at.QUEUE


@inlined
def has_room(m):
    """Whether the shared queue takes another job."""
    return not is_full(m, at.SHARED_JOBS)


@inlined
def wake(m, calendar, thread, seen):
    """Let an I/O thread that spins idly see a job at a time, if it takes jobs by then."""
    row = thread_row(thread)
    m[row + at.ASLEEP] = 0
    schedule(calendar, thread, max(seen, m[row + at.AVAILABLE_PS]))


@inlined
def send_shared(m, calendar, job, now):
    """Put a job into the shared queue; the first active thread that spins idly takes it."""
    seen = now + m[at.HANDOVER_PS]
    push(m, at.SHARED_JOBS, seen, job)
    for thread in range(1, m[at.ACTIVE_THREADS]):
        if m[thread_row(thread) + at.ASLEEP] and not waits_for_core(m, thread):
            wake(m, calendar, thread, seen)
            return


@inlined
def send_private(m, calendar, thread, job, now):
    """Put a job into a thread's private queue."""
    seen = now + m[at.HANDOVER_PS]
    row = thread_row(thread)
    push(m, row + at.QUEUE, max(seen, m[row + at.AVAILABLE_PS]), job)
    if m[row + at.ASLEEP]:
        wake(m, calendar, thread, seen)


@inlined
def send_poll(m, calendar, now):
    """Give the poll job to the shared queue or, with many threads, to each in turn."""
    m[at.POLL_STATE] = at.PENDING
    active = m[at.ACTIVE_THREADS]
    if active <= SHARED_POLL_LIMIT:
        send_shared(m, calendar, POLL_JOB, now)
        return
    thread = m[at.NEXT_PRIVATE] % (active - 1) + 1
    m[at.NEXT_PRIVATE] = thread
    send_private(m, calendar, thread, POLL_JOB, now)


@inlined
def send_job(m, calendar, client, kind, now):
    """Queue a read of a client or a write to it."""
    if kind == READ_JOB:
        m[client + at.JOBS] |= at.READING
        m[at.READS_IN_FLIGHT] += 1
    else:
        m[client + at.JOBS] |= at.WRITING
        m[at.WRITES_IN_FLIGHT] += 1
    send_shared(m, calendar, (client << KIND_BITS) | kind, now)


@inlined
def send_frees(m, calendar, client, now):
    """Queue what a client's SETs replaced for whoever takes it, its arguments for their reader.

    Returns the time that it takes to free what found no room, in ps.
    """
    refused_ps = 0
    for index in range(m[client + at.EXECUTED], m[client + at.READ]):
        work_ps = about(m, mark_of(m, client, index), at.FREE_PS)
        if work_ps > 0:
            if m[at.ACTIVE_THREADS] > 1 and has_room(m):
                send_shared(m, calendar, (work_ps << KIND_BITS) | FREE_JOB, now)
            else:
                refused_ps += work_ps
                m[at.FREED_VALUES] += 1
                m[at.INLINE_FREES] += 1
    commands = m[client + at.READ] - m[client + at.EXECUTED]
    work_ps = commands * m[at.FREE_ARGUMENTS_PS]
    if work_ps > 0:
        thread = m[client + at.SERVED_BY]
        if thread < m[at.ACTIVE_THREADS] and not is_full(m, private_jobs(thread)):
            send_private(m, calendar, thread, (work_ps << KIND_BITS) | ARGUMENTS_JOB, now)
        else:
            refused_ps += work_ps
            m[at.INLINE_ARGUMENTS] += commands
    return refused_ps


@inlined
def send_handshakes(m, calendar, connections, now):
    """Queue the handshakes of new connections; returns how many found no room."""
    refused = 0
    for _ in range(connections):
        if m[at.OFFLOAD_HANDSHAKES] and m[at.ACTIVE_THREADS] > 1 and has_room(m):
            send_shared(m, calendar, HANDSHAKE_JOB, now)
        else:
            refused += 1
    return refused


@inlined
def try_send_write(m, calendar, client, now):
    """Queue a client's replies, or leave them for the pending writes."""
    if m[client + at.EXECUTED] == m[client + at.WRITTEN]:
        return
    if m[at.ACTIVE_THREADS] > 1:
        if has_room(m):
            send_job(m, calendar, client, WRITE_JOB, now)
            return
        m[at.REFUSED_JOBS] += 1
    add_pending_write(m, client)


@inlined
def change_active(m, calendar, active, now):
    """Start or stop the last thread."""
    row = thread_row(max(active, m[at.ACTIVE_THREADS]) - 1)
    if active > m[at.ACTIVE_THREADS]:
        # A stopped thread of this generation blocks on its mutex at once.
        m[row + at.AVAILABLE_PS] = now + m[at.THREAD_WAKE_PS]
        look_at(m, calendar, active - 1, m[row + at.AVAILABLE_PS])
    else:
        m[row + at.STOPPED_PS] = now
        look_at(m, calendar, active, now)
    set_active(m, active, now)
    m[at.CHANGED_PS] = now


@inlined
def sample_load(m, calendar, now):
    """Start or stop I/O threads by sampled load; returns how many changed.

    Alone, the main thread samples its active time; with helpers, it samples the depth of the
    shared queue. Every sixteenth sample decides.
    """
    if now < m[at.NEXT_SAMPLE_PS]:
        return 0
    active = m[at.ACTIVE_THREADS]
    if m[at.IO_THREADS] == 1:
        return 0
    if active == 1:
        period = m[at.IGNITE_PERIOD_PS]
        elapsed = now - m[at.NEXT_SAMPLE_PS] + period
        spent = m[at.MAIN_ACTIVE_PS] - m[at.SAMPLED_ACTIVE_PS]
        m[at.SAMPLE_SUM] += (spent * 1000) // elapsed
        m[at.SAMPLED_ACTIVE_PS] = m[at.MAIN_ACTIVE_PS]
    else:
        period = m[at.GROW_PERIOD_PS]
        m[at.SAMPLE_SUM] += length(m, at.SHARED_JOBS)
    m[at.NEXT_SAMPLE_PS] = now + period
    m[at.SAMPLES] += 1
    if m[at.SAMPLES] < SAMPLES_PER_DECISION:
        return 0
    total = m[at.SAMPLE_SUM]
    m[at.SAMPLES] = 0
    m[at.SAMPLE_SUM] = 0
    if active == 1:
        if total > IGNITION_PER_MILLE * SAMPLES_PER_DECISION:
            change_active(m, calendar, 2, now)
            return 1
    elif total > SAMPLES_PER_DECISION:
        if active < m[at.IO_THREADS]:
            change_active(m, calendar, active + 1, now)
            return 1
    elif total == 0 and now - m[at.CHANGED_PS] > m[at.SHRINK_AFTER_PS]:
        left = length(m, private_jobs(active - 1))
        if active == 2:
            left += length(m, at.SHARED_JOBS)
        if left == 0 and active > 1:
            m[at.SAMPLED_ACTIVE_PS] = m[at.MAIN_ACTIVE_PS]
            change_active(m, calendar, active - 1, now)
            return 1
    return 0
