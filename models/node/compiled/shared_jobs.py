"""Queue discipline of `shared_queues`: one queue of jobs that any I/O thread takes from.

Responses come back through one queue; each thread has a private queue too. Threads are started and
stopped by sampled load. Rules and constants: io_threads.c and queues.c of Valkey 9.1.0.
"""

from forecache.sim.calendar import schedule
from forecache.sim.stamped_rings import is_full, length, push, take
from forecache.sim.stamped_rings import put as put_plain

from .. import layout as at
from .dispatching import LOOKED, NEXT_IN_BATCH, execution_step
from .halts import spin_in_turns, waits_for_core
from .inline import inlined
from .interruptions import step_end
from .main_thread import (
    ARGUMENTS_JOB,
    FREE_JOB,
    HANDSHAKE_JOB,
    KIND_BITS,
    KIND_MASK,
    POLL_JOB,
    READ_JOB,
    look_at,
    set_active,
)
from .sockets import thread_row

BUSY = at.READING | at.WRITING | at.WRITE_PENDING
"""Any thread may take any job, so a client has one job at a time."""

STARTS_FOR_WRITES = False
ANY_THREAD = 0
"""In place of the number of an I/O thread: all take jobs from one queue."""

RESPONSES_AT_ONCE = 16
"""Responses the main thread takes from the queue in one go."""

SHARED_POLL_LIMIT = 9
"""With more active threads, the poll job goes to their private queues in turn."""

SAMPLES_PER_DECISION = 16
IGNITION_PER_MILLE = 300
"""Share of active main-thread time above which the first I/O thread starts."""


# --- sending jobs ---------------------------------------------------------------------------------


@inlined
def private_jobs(thread):
    """The private queue of an I/O thread."""
    return thread_row(thread) + at.QUEUE


@inlined
def thread_for(_m, _client):
    """Any thread takes a client's jobs."""
    return ANY_THREAD


@inlined
def has_room(m, _thread):
    """Whether the shared queue takes another job."""
    return not is_full(m, at.SHARED_JOBS)


@inlined
def wake(m, calendar, thread, seen):
    """Let an I/O thread that spins idly see a job at a time, if it takes jobs by then."""
    row = thread_row(thread)
    m[row + at.ASLEEP] = 0
    schedule(calendar, thread, max(seen, m[row + at.AVAILABLE_PS]))


@inlined
def put(m, calendar, _thread, job, now):
    """Put a job into the shared queue; the first active thread that spins idly takes it."""
    seen = now + m[at.HANDOVER_PS]
    push(m, at.SHARED_JOBS, seen, job)
    for thread in range(1, m[at.ACTIVE_THREADS]):
        if m[thread_row(thread) + at.ASLEEP] and not waits_for_core(m, thread):
            wake(m, calendar, thread, seen)
            return


@inlined
def put_private(m, calendar, thread, job, now):
    """Put a job into a thread's private queue."""
    seen = now + m[at.HANDOVER_PS]
    row = thread_row(thread)
    push(m, row + at.QUEUE, max(seen, m[row + at.AVAILABLE_PS]), job)
    if m[row + at.ASLEEP]:
        wake(m, calendar, thread, seen)


@inlined
def put_work(m, calendar, job, now):
    """Give a job without a client to any I/O thread; returns whether there was room."""
    if m[at.ACTIVE_THREADS] == 1 or is_full(m, at.SHARED_JOBS):
        return False
    put(m, calendar, ANY_THREAD, job, now)
    return True


@inlined
def put_free(m, calendar, work_ps, now):
    """Let whichever thread takes it free a value; returns whether there was room."""
    return put_work(m, calendar, (work_ps << KIND_BITS) | FREE_JOB, now)


@inlined
def put_handshake(m, calendar, now):
    """Let any thread do a handshake; returns whether there was room."""
    return put_work(m, calendar, HANDSHAKE_JOB, now)


@inlined
def put_arguments(m, calendar, client, work_ps, now):
    """Let the thread that read a client's arguments free them; returns whether there was room."""
    thread = m[client + at.SERVED_BY]
    if thread >= m[at.ACTIVE_THREADS] or is_full(m, private_jobs(thread)):
        return False
    put_private(m, calendar, thread, (work_ps << KIND_BITS) | ARGUMENTS_JOB, now)
    return True


@inlined
def put_poll(m, calendar, now):
    """Give the poll job to the shared queue or, with many threads, to each in turn."""
    active = m[at.ACTIVE_THREADS]
    if active <= SHARED_POLL_LIMIT:
        put(m, calendar, ANY_THREAD, POLL_JOB, now)
        return
    thread = m[at.NEXT_PRIVATE] % (active - 1) + 1
    m[at.NEXT_PRIVATE] = thread
    put_private(m, calendar, thread, POLL_JOB, now)


# --- active threads -------------------------------------------------------------------------------


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
def adjust_threads(m, calendar, _events, _increase_only, now):
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


# --- finished jobs --------------------------------------------------------------------------------


@inlined
def begin_look(_m, _now):
    """A look at the queue of responses takes no time."""
    return -1


@inlined
def take_responses(m, now):
    """Take up to 16 responses and sort them into reads and writes; returns when that ends."""
    me = thread_row(0)
    taken = min(length(m, at.RESPONSES), RESPONSES_AT_ONCE)
    for _ in range(taken):
        response = take(m, at.RESPONSES)
        if response & KIND_MASK == READ_JOB:
            put_plain(m, at.DONE_READS, response >> KIND_BITS)
        else:
            put_plain(m, at.DONE_WRITES, response >> KIND_BITS)
    m[at.PRODUCTIVE] = 1
    m[me + at.COUNT] = length(m, at.DONE_READS)
    m[me + at.PHASE] = NEXT_IN_BATCH
    m[me + at.INDEX] = 0
    m[me + at.AMOUNT] = 0
    return step_end(m, me, now, taken * m[at.COLLECT_PS])


@inlined
def look_step(queues, m, calendar, phase, now):
    """Take responses until there are none: reads in batches, then writes.

    Returns when the next step ends, or -1 when there is none.
    """
    me = thread_row(0)
    if phase != LOOKED:
        following = execution_step(queues, m, calendar, phase, now)
        if following >= 0:
            return following
        done = length(m, at.DONE_WRITES)
        m[at.WRITES_IN_FLIGHT] -= done
        for _ in range(done):
            m[take(m, at.DONE_WRITES) + at.JOBS] &= ~at.WRITING
        m[me + at.PHASE] = LOOKED
        if done > 0:
            return step_end(m, me, now, done * m[at.DONE_PS])
    if length(m, at.RESPONSES) > 0:
        return take_responses(m, now)
    return -1


# --- turns that find nothing ----------------------------------------------------------------------


@inlined
def finds_nothing(m, now):
    """Whether a turn will find no response, and take no sample, as long as no thread responds."""
    return length(m, at.RESPONSES) == 0 and now + m[at.LOOP_PS] < m[at.NEXT_SAMPLE_PS]


@inlined
def spin(m, now):
    """Spin until a response comes, at the latest until the turn that samples the load begins."""
    spin_in_turns(m, m[at.LOOP_PS], m[at.NEXT_SAMPLE_PS])
    turns = (m[at.NEXT_SAMPLE_PS] - now - 1) // m[at.LOOP_PS]
    return now + turns * m[at.LOOP_PS]


# --- several steps at once ------------------------------------------------------------------------


@inlined
def execute_ahead(_queues, _m, _calendar, now):
    """Not here: which thread takes a job depends on which ones are idle when it is queued."""
    return now


@inlined
def dispatch_ahead(_queues, _m, _calendar, now):
    """Not here either."""
    return now
