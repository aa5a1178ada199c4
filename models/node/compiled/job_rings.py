"""Queue discipline of `asynchronous`: one ring of jobs for each I/O thread.

A client's jobs go to one thread at a time; the main thread finds finished ones by looking at every
client that has a job. Rules and constants: io_threads.c and networking.c of Valkey 8.0.0 and 8.1.0.
"""

from forecache.sim.calendar import INFINITY_PS, schedule
from forecache.sim.stamped_rings import capacity, length, push, take

from .. import layout as at
from .dispatching import (
    LOOK_PHASES,
    LOOKED,
    begin_execution,
    end_execution,
    execution_step,
    send_frees,
    send_read,
    send_write,
    try_send_write,
)
from .halts import spin_in_turns
from .inline import inlined, unlikely
from .interruptions import step_end
from .main_thread import (
    ARGUMENTS_JOB,
    FREE_JOB,
    HANDSHAKE_JOB,
    KIND_BITS,
    NEXT_EVENT,
    POLL_JOB,
    set_active,
    start_thread,
    stop_thread,
)
from .sockets import next_event, number_of, thread_row

# Phases of a look at finished writes.
SCANNED_WRITES, NEXT_UNFINISHED, SENT_REST = range(LOOK_PHASES, LOOK_PHASES + 3)

BUSY = at.READING
"""A socket that was still full when it was polled is left to the read that is under way."""

STARTS_FOR_WRITES = True

# A client's `SERVED_BY` packs the thread and among how many active ones it was chosen.
_ACTIVE_SHIFT = 16
_THREAD_MASK = (1 << _ACTIVE_SHIFT) - 1


# --- sending jobs ---------------------------------------------------------------------------------


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
def put(m, calendar, thread, job, now):
    """Put a job into a thread's ring; a thread that spins sees it one hand-over later."""
    row = thread_row(thread)
    seen = max(now + m[at.HANDOVER_PS], m[row + at.AVAILABLE_PS])
    push(m, row + at.QUEUE, seen, job)
    if m[row + at.ASLEEP]:
        m[row + at.ASLEEP] = 0
        schedule(calendar, thread, seen)


@inlined
def put_poll(m, calendar, now):
    """The last active thread polls."""
    put(m, calendar, m[at.ACTIVE_THREADS] - 1, POLL_JOB, now)


@inlined
def put_by_number(m, calendar, number, job, now):
    """Give a job without a client to active threads in turn; returns whether there was room."""
    others = m[at.ACTIVE_THREADS] - 1
    thread = number % max(1, others) + 1
    if others == 0 or not has_room(m, thread):
        return False
    put(m, calendar, thread, job, now)
    return True


@inlined
def put_free(m, calendar, work_ps, now):
    """Let the active threads free values in turn; returns whether there was room."""
    sent = put_by_number(m, calendar, m[at.FREES_SENT], (work_ps << KIND_BITS) | FREE_JOB, now)
    m[at.FREES_SENT] += sent
    return sent


@inlined
def put_arguments(m, calendar, client, work_ps, now):
    """Let a client's thread free its arguments; returns whether there was room."""
    if m[at.ACTIVE_THREADS] == 1 or not has_room(m, thread_for(m, client)):
        return False
    put(m, calendar, thread_for(m, client), (work_ps << KIND_BITS) | ARGUMENTS_JOB, now)
    return True


@inlined
def put_handshake(m, calendar, now):
    """Give a new connection to a thread by its number; returns whether there was room."""
    return put_by_number(m, calendar, m[at.ACCEPTED_CONNECTIONS], HANDSHAKE_JOB, now)


# --- active threads -------------------------------------------------------------------------------


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


# --- finished jobs --------------------------------------------------------------------------------


@inlined
def begin_look(m, now):
    """Look at every client whose read is under way; returns when the look is over."""
    return now + m[at.SCAN_PS] * m[at.READS_IN_FLIGHT]


@inlined
def look_step(queues, m, calendar, phase, now):
    """Process finished reads on both looks of a turn, finished writes on the second.

    Returns when the next step ends, or -1 when there is none.
    """
    me = thread_row(0)
    if phase >= SCANNED_WRITES:
        return written_step(queues, m, calendar, phase, now)
    if phase == LOOKED:
        m[me + at.COUNT] = length(m, at.DONE_READS)
    following = execution_step(queues, m, calendar, phase, now)
    if following >= 0 or not m[me + at.AGAIN]:
        return following
    m[me + at.PHASE] = SCANNED_WRITES
    return now + m[at.SCAN_PS] * m[at.WRITES_IN_FLIGHT]


@inlined
def written_step(queues, m, calendar, phase, now):
    """Take note of finished writes and send what was added meanwhile.

    Returns when the next step ends, or -1 when there is none.
    """
    me = thread_row(0)
    if phase == SCANNED_WRITES:
        done = length(m, at.DONE_WRITES)
        if done == 0:
            return -1
        m[at.PRODUCTIVE] = 1
        m[at.WRITES_IN_FLIGHT] -= done
        for position in range(done):
            client = take(m, at.DONE_WRITES)
            m[client + at.JOBS] &= ~at.WRITING
            m[m[at.BATCH] + position] = client
        m[me + at.INDEX] = 0
        m[me + at.AMOUNT] = done
        m[me + at.PHASE] = NEXT_UNFINISHED
        return step_end(m, me, now, done * m[at.DONE_PS])
    if phase == SENT_REST:
        try_send_write(queues, m, calendar, m[m[at.BATCH] + m[me + at.INDEX]], now)
        m[me + at.INDEX] += 1
        m[me + at.PHASE] = NEXT_UNFINISHED
    while m[me + at.INDEX] < m[me + at.AMOUNT]:
        client = m[m[at.BATCH] + m[me + at.INDEX]]
        if m[client + at.EXECUTED] > m[client + at.WRITTEN]:
            m[me + at.PHASE] = SENT_REST
            return step_end(m, me, now, m[at.PUSH_PS])
        m[me + at.INDEX] += 1
    return -1


# --- turns that find nothing ----------------------------------------------------------------------


@inlined
def quiet_turn_ps(m):
    """How long a turn takes that finds nothing."""
    looks = 2 * m[at.READS_IN_FLIGHT] + m[at.WRITES_IN_FLIGHT]
    return m[at.LOOP_PS] + m[at.SCAN_PS] * looks


@inlined
def finds_nothing(m, _now):
    """Whether a turn will find no finished job, as long as no thread finishes one."""
    return length(m, at.DONE_READS) == 0 and length(m, at.DONE_WRITES) == 0


@inlined
def spin(m, _now):
    """Spin until an I/O thread has finished something."""
    spin_in_turns(m, quiet_turn_ps(m), INFINITY_PS)
    return INFINITY_PS


# --- several steps at once ------------------------------------------------------------------------


@inlined
def least_room(m):
    """The room that the fullest job ring has left."""
    least = m[at.JOB_CAPACITY]
    for thread in range(1, m[at.ACTIVE_THREADS]):
        least = min(least, capacity(m, jobs_of(thread)) - 1 - length(m, jobs_of(thread)))
    return least


@inlined
def execute_ahead(queues, m, calendar, now):
    """Execute on in the batch as far as no other thread can interfere; returns until when.

    Jobs carry the time at which they are seen, so they may be sent ahead of time while every ring
    is certain to have room and the client has no write under way that would take new replies.
    """
    me = thread_row(0)
    reached = now
    # Every client gets a write, and perhaps jobs for its arguments and each value it replaces.
    jobs = m[me + at.AMOUNT] - m[me + at.INDEX]
    if unlikely(m[at.FREES]):
        jobs *= 2 + m[at.OUTSTANDING_LIMIT]
    hindered = m[at.ACTIVE_THREADS] < 2 or m[at.CROWDED] or m[at.FSYNC_ALWAYS]
    if hindered or jobs > least_room(m):
        return reached
    while m[me + at.INDEX] < m[me + at.AMOUNT] and reached < m[at.UNTIL_PS]:
        client = m[m[at.BATCH] + m[me + at.INDEX]]
        if m[client + at.JOBS] & at.WRITING:
            break
        reached = begin_execution(m, client, reached)
        if unlikely(m[at.FREES]):
            send_frees(queues, m, calendar, client, reached)
        end_execution(m, client)
        if m[client + at.EXECUTED] > m[client + at.WRITTEN]:
            send_write(queues, m, calendar, client, reached)
    return reached


@inlined
def dispatch_ahead(queues, m, calendar, now):
    """Hand out readable clients as long as every ring is certain to have room; see above."""
    me = thread_row(0)
    reached = now
    if m[at.ACTIVE_THREADS] < 2 or m[at.CROWDED] or m[me + at.COUNT] > least_room(m):
        return reached
    while m[me + at.COUNT] > 0:
        m[at.PRODUCTIVE] = 1
        client = next_event(m, me)
        if m[client + at.JOBS] & at.READING:
            reached = step_end(m, me, reached, m[at.SCAN_PS])
        else:
            reached = step_end(m, me, reached, m[at.PUSH_PS])
            send_read(queues, m, calendar, client, reached)
    m[me + at.PHASE] = NEXT_EVENT
    return reached
