"""Policy: I/O threads on shared queues (Valkey 9.1).

One queue of jobs that any thread takes from, one queue of responses to the main thread, and a
private queue per thread. Rules and constants: io_threads.c and queues.c of Valkey 9.1.0; the
reference execution states them in the order in which the main thread follows them.
"""

from forecache.sim.calendar import INFINITY_PS
from forecache.sim.stamped_rings import first_stamp, first_value, length, pop, put, take

from .. import layout as at
from .halts import finish_turns, spin_in_turns, spun_into_turn, stop_spinning
from .inline import inlined, unlikely
from .interruptions import step_end
from .log import flush_ps
from .main_thread import (
    ACCEPT,
    ACCEPTED,
    ARGUMENTS_JOB,
    FREE_JOB,
    KIND_BITS,
    KIND_MASK,
    LOOK_FOR_EVENTS,
    LOOKING,
    LOOPED,
    NEXT_EVENT,
    OWN_PHASES,
    POLL_JOB,
    POLLED,
    READ_INLINE,
    READ_JOB,
    SENT_READ,
    SPINNING,
    TURN,
    WORKING,
    WRITE_JOB,
    accept_step,
    account_active,
    add_pending_write,
    begin_batch,
    begin_execution,
    begin_job,
    begin_poll_job,
    end_turn,
    handshakes_step,
    poll_step,
    read_inline,
    skip_turns,
    take_pending_write,
)
from .shared_jobs import (
    has_room,
    sample_load,
    send_frees,
    send_handshakes,
    send_job,
    send_poll,
    try_send_write,
)
from .sockets import begin_write, end_write, next_event, thread_row, work

RESPONSES_AT_ONCE = 16
"""Responses the main thread takes from the queue in one go."""

PRIVATE_JOBS_AT_ONCE = 32
"""Jobs an I/O thread takes from its private queue in one go."""

# Phases of the main thread before it polls.
# fmt: off
(
    SENT_POLL, NEXT_RESPONSES, NEXT_IN_BATCH, EXECUTED_CLIENT, FREED_INLINE, NEXT_PENDING_WRITE,
    SENT_PENDING_WRITE, WROTE_INLINE,
) = range(OWN_PHASES, OWN_PHASES + 8)
# fmt: on


@inlined
def begin_turn(m, now):
    """Start a turn; if it is certain to find nothing, spin until an I/O thread is done."""
    me = thread_row(0)
    if (
        m[at.POLL_STATE] == at.PENDING
        and length(m, at.RESPONSES) == 0
        and m[at.PENDING_WRITE_COUNT] == 0
        and m[at.LOGGED_BYTES] == 0
        and now + m[at.LOOP_PS] < m[at.NEXT_SAMPLE_PS]
    ):
        m[me + at.PHASE] = SPINNING
        m[me + at.SINCE_PS] = now
        spin_in_turns(m, m[at.LOOP_PS], m[at.NEXT_SAMPLE_PS])
        # Spinning ends at the latest with the turn that samples the load, at or after its time.
        turns = (m[at.NEXT_SAMPLE_PS] - now - 1) // m[at.LOOP_PS]
        return now + turns * m[at.LOOP_PS]
    m[me + at.PHASE] = LOOPED
    return now + m[at.LOOP_PS]


@inlined
def notice(m, calendar, now):
    """An I/O thread has finished something: main sees it at its first look after now."""
    me = thread_row(0)
    if m[me + at.PHASE] != SPINNING:
        return
    into = spun_into_turn(m, m[at.LOOP_PS], now)
    m[me + at.PHASE] = LOOPED
    stop_spinning(m, calendar, m[at.LOOP_PS] - into, now)


@inlined
def end_execution(m, calendar, now):
    """The present client of the batch is executed: its replies go to the shared queue."""
    me = thread_row(0)
    client = m[m[at.BATCH] + m[me + at.INDEX]]
    m[me + at.INDEX] += 1
    m[client + at.EXECUTED] = m[client + at.READ]
    m[client + at.JOBS] &= ~at.READING
    if m[at.FSYNC_ALWAYS]:
        add_pending_write(m, client)
    else:
        try_send_write(m, calendar, client, now)


@inlined
def collect_responses(m, now):
    """Take up to 16 responses and sort them into reads and writes; returns when that ends."""
    me = thread_row(0)
    taken = min(length(m, at.RESPONSES), RESPONSES_AT_ONCE)
    for _ in range(taken):
        response = take(m, at.RESPONSES)
        if response & KIND_MASK == READ_JOB:
            put(m, at.DONE_READS, response >> KIND_BITS)
        else:
            put(m, at.DONE_WRITES, response >> KIND_BITS)
    m[at.PRODUCTIVE] = 1
    m[me + at.COUNT] = length(m, at.DONE_READS)
    m[me + at.PHASE] = NEXT_IN_BATCH
    m[me + at.INDEX] = 0
    m[me + at.AMOUNT] = 0
    return step_end(m, me, now, taken * m[at.COLLECT_PS])


@inlined
def response_step(m, calendar, phase, now):
    """Take responses until there are none: reads in batches, then writes.

    Returns when the next step ends, or -1 when there is none.
    """
    me = thread_row(0)
    if phase == EXECUTED_CLIENT and m[at.FREES]:
        client = m[m[at.BATCH] + m[me + at.INDEX]]
        refused_ps = send_frees(m, calendar, client, now)
        if refused_ps > 0:
            m[me + at.PHASE] = FREED_INLINE
            return step_end(m, me, now, refused_ps)
    if phase in (EXECUTED_CLIENT, FREED_INLINE):
        end_execution(m, calendar, now)
    if phase != NEXT_RESPONSES:
        if m[me + at.INDEX] < m[me + at.AMOUNT]:
            m[me + at.PHASE] = EXECUTED_CLIENT
            return begin_execution(m, m[m[at.BATCH] + m[me + at.INDEX]], now)
        m[me + at.PHASE] = NEXT_IN_BATCH
        if m[me + at.COUNT] > 0:
            return begin_batch(m, now)
        done = length(m, at.DONE_WRITES)
        m[at.WRITES_IN_FLIGHT] -= done
        for _ in range(done):
            m[take(m, at.DONE_WRITES) + at.JOBS] &= ~at.WRITING
        m[me + at.PHASE] = NEXT_RESPONSES
        if done > 0:
            return step_end(m, me, now, done * m[at.DONE_PS])
    if length(m, at.RESPONSES) > 0:
        return collect_responses(m, now)
    return -1


@inlined
def pending_write_step(m, calendar, phase, now):
    """Replies that found no room earlier, last client first; -1 when there are no more."""
    me = thread_row(0)
    if phase == SENT_PENDING_WRITE:
        try_send_write(m, calendar, m[me + at.CLIENT], now)
    elif phase == WROTE_INLINE:
        end_write(m, calendar, m[me + at.CLIENT], now)
    if m[at.PENDING_WRITE_COUNT] == 0:
        return -1
    client = take_pending_write(m)
    m[me + at.CLIENT] = client
    m[at.PRODUCTIVE] = 1
    if m[at.ACTIVE_THREADS] > 1 and has_room(m):
        m[me + at.PHASE] = SENT_PENDING_WRITE
        return step_end(m, me, now, m[at.PUSH_PS])
    m[me + at.PHASE] = WROTE_INLINE
    m[at.INLINE_WRITES] += 1
    return step_end(m, me, now, begin_write(m, client))


@inlined
def before_sleep_step(m, calendar, now):
    """The part of a turn before the poll; returns when its next step ends, or -1 when it is over.

    Order: poll job, responses until there are none, pending writes, responses again.
    """
    me = thread_row(0)
    phase = m[me + at.PHASE]
    if phase == LOOPED:
        m[me + at.AGAIN] = 0
        in_flight = m[at.READS_IN_FLIGHT] + m[at.WRITES_IN_FLIGHT]
        if m[at.ACTIVE_THREADS] > 1 and m[at.POLL_STATE] == at.IDLE and in_flight > 0:
            if has_room(m):
                m[me + at.PHASE] = SENT_POLL
                return step_end(m, me, now, m[at.PUSH_PS])
        phase = NEXT_RESPONSES
    elif phase == SENT_POLL:
        send_poll(m, calendar, now)
        phase = NEXT_RESPONSES
    while True:
        if phase < NEXT_PENDING_WRITE:
            following = response_step(m, calendar, phase, now)
            if following >= 0 or m[me + at.AGAIN]:
                return following
            phase = NEXT_PENDING_WRITE
            if unlikely(m[at.LOGGED_BYTES] > 0):
                m[me + at.PHASE] = NEXT_PENDING_WRITE
                m[at.PRODUCTIVE] = 1
                return step_end(m, me, now, flush_ps(m, now))
        following = pending_write_step(m, calendar, phase, now)
        if following >= 0:
            return following
        m[me + at.AGAIN] = 1
        phase = NEXT_RESPONSES


@inlined
def event_step(m, calendar, now):
    """Hand readable clients to I/O threads or serve them; returns when that ends, or -1."""
    me = thread_row(0)
    phase = m[me + at.PHASE]
    client = m[me + at.CLIENT]
    if phase == SENT_READ:
        send_job(m, calendar, client, READ_JOB, now)
    elif phase == READ_INLINE:
        m[client + at.EXECUTED] = m[client + at.READ]
        add_pending_write(m, client)
    if m[me + at.COUNT] == 0:
        return -1
    m[at.PRODUCTIVE] = 1
    client = next_event(m, me)
    m[me + at.CLIENT] = client
    if m[client + at.JOBS]:
        # Any thread may take any job, so a client has one job at a time.
        m[me + at.PHASE] = NEXT_EVENT
        return step_end(m, me, now, m[at.SCAN_PS])
    if m[at.ACTIVE_THREADS] > 1:
        if has_room(m):
            m[me + at.PHASE] = SENT_READ
            return step_end(m, me, now, m[at.PUSH_PS])
        m[at.REFUSED_JOBS] += 1
    m[me + at.PHASE] = READ_INLINE
    return read_inline(m, client, now)


@inlined
def main_step(m, calendar, now):
    """Advance the main thread whose present step ends now; returns when the next one ends."""
    me = thread_row(0)
    if m[me + at.PHASE] == SPINNING:
        # Nobody finished anything until the turn that samples the load.
        skip_turns(m, m[at.LOOP_PS], now)
        m[me + at.PHASE] = TURN
    if m[me + at.PHASE] >= LOOPED:
        following = before_sleep_step(m, calendar, now)
        if following >= 0:
            return following
        m[me + at.PHASE] = LOOK_FOR_EVENTS
    if LOOK_FOR_EVENTS <= m[me + at.PHASE] <= POLLED:
        following = poll_step(m, now)
        if following >= 0:
            return following
        m[me + at.PHASE] = ACCEPT
        changed = sample_load(m, calendar, now)
        if changed:
            return step_end(m, me, now, changed * m[at.ACTIVATE_PS])
    if m[me + at.PHASE] == ACCEPT:
        m[me + at.PHASE] = NEXT_EVENT
        following = accept_step(m, now)
        if unlikely(following >= 0):
            return following
    if unlikely(m[me + at.PHASE] == ACCEPTED):
        m[me + at.PHASE] = NEXT_EVENT
        refused = send_handshakes(m, calendar, m[me + at.INDEX], now)
        following = handshakes_step(m, refused, now)
        if following >= 0:
            return following
    if m[me + at.PHASE] != TURN:
        following = event_step(m, calendar, now)
        if following >= 0:
            return following
        end_turn(m, now)
    return begin_turn(m, now)


@inlined
def batch_to_free(m, queue, job, now):
    """Take what else of a private queue is to be freed with a job; returns how long that takes."""
    duration = job >> KIND_BITS
    taken = 1
    while taken < PRIVATE_JOBS_AT_ONCE and length(m, queue) > 0 and first_stamp(m, queue) <= now:
        if first_value(m, queue) & KIND_MASK != ARGUMENTS_JOB:
            break
        duration += pop(m, queue) >> KIND_BITS
        taken += 1
    return duration


@inlined
def io_step(m, calendar, thread, now):
    """Advance an I/O thread whose present job ends now; returns when the next one ends."""
    me = thread_row(thread)
    if m[me + at.PHASE] == WORKING:
        job = m[me + at.CLIENT]
        m[me + at.PHASE] = LOOKING
        if job & KIND_MASK <= POLL_JOB:
            if job & KIND_MASK == POLL_JOB:
                m[at.POLL_STATE] = at.COMPLETED
            else:
                if job & KIND_MASK == WRITE_JOB:
                    end_write(m, calendar, job >> KIND_BITS, now)
                put(m, at.RESPONSES, job)
            notice(m, calendar, now)
        elif job & KIND_MASK == FREE_JOB:
            m[at.FREED_VALUES] += 1
    queue = me + at.QUEUE
    seen = INFINITY_PS
    if length(m, queue) > 0:
        seen = first_stamp(m, queue)
    if seen > now and thread < m[at.ACTIVE_THREADS] and length(m, at.SHARED_JOBS) > 0:
        queue = at.SHARED_JOBS
        seen = min(seen, first_stamp(m, queue))
    if seen == INFINITY_PS:
        m[me + at.ASLEEP] = 1
        m[me + at.WAITS] = at.SPINS if thread < m[at.ACTIVE_THREADS] else at.SLEEPS
        return INFINITY_PS
    if seen > now:
        # What is on its way between the cores is waited for, not forgotten.
        m[me + at.ASLEEP] = 0
        m[me + at.WAITS] = at.SPINS
        return seen
    job = pop(m, queue)
    m[me + at.CLIENT] = job
    m[me + at.PHASE] = WORKING
    if job & KIND_MASK == POLL_JOB:
        return work(m, me, now, begin_poll_job(m, now))
    if job & KIND_MASK == ARGUMENTS_JOB:
        return work(m, me, now, batch_to_free(m, queue, job, now))
    if job & KIND_MASK == READ_JOB:
        m[(job >> KIND_BITS) + at.SERVED_BY] = thread
    return work(m, me, now, begin_job(m, job))


@inlined
def begin(m, calendar):
    """All threads begin as `start` leaves them."""


@inlined
def server_step(m, calendar, agent, now):
    """Advance a thread whose present step ends now; returns when the next one ends."""
    return io_step(m, calendar, agent, now) if agent > 0 else main_step(m, calendar, now)


@inlined
def finish(m):
    """Account for what was still going on."""
    if m[thread_row(0) + at.PHASE] == SPINNING:
        finish_turns(m, m[at.LOOP_PS])
    account_active(m, m[at.END_PS])
