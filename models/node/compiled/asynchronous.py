"""Policy: asynchronous I/O threads with one job ring each (Valkey 8.0 to 9.0).

Rules and constants: io_threads.c, networking.c and server.c of Valkey 8.0.0 and 8.1.0; the
reference execution states them in the order in which the main thread follows them.
"""

from forecache.sim.calendar import INFINITY_PS
from forecache.sim.stamped_rings import POPPED, PUSHED, entry_of, length, put, take

from .. import layout as at
from .halts import finish_turns, spin_in_turns, spun_into_turn, stop_spinning
from .inline import inlined, unlikely
from .interruptions import step_end
from .job_rings import (
    adjust_threads,
    has_room,
    least_room,
    send_frees,
    send_handshakes,
    send_job,
    send_read,
    send_write,
    thread_for,
    try_send_write,
)
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
    idle,
    poll_step,
    read_inline,
    take_pending_write,
)
from .sockets import begin_write, end_write, next_event, thread_row, work

# Phases of the main thread before it polls.
# fmt: off
(
    SENT_POLL, SCANNED_READS, NEXT_IN_BATCH, EXECUTED_CLIENT, FREED_INLINE, COUNT_PENDING_WRITES,
    NEXT_PENDING_WRITE, SENT_PENDING_WRITE, WROTE_INLINE, SCANNED_WRITES, NEXT_UNFINISHED,
    SENT_REST,
) = range(OWN_PHASES, OWN_PHASES + 12)
# fmt: on


@inlined
def begin_turn(m, now):
    """Start a turn; if it is certain to find nothing, spin until an I/O thread is done."""
    me = thread_row(0)
    quiet = (
        m[at.POLL_STATE] == at.PENDING
        and length(m, at.DONE_READS) == 0
        and length(m, at.DONE_WRITES) == 0
        and m[at.PENDING_WRITE_COUNT] == 0
        and m[at.LOGGED_BYTES] == 0
    )
    if quiet:
        m[me + at.PHASE] = SPINNING
        m[me + at.SINCE_PS] = now
        spin_in_turns(m, quiet_turn_ps(m), INFINITY_PS)
        return INFINITY_PS
    m[me + at.PHASE] = LOOPED
    return now + m[at.LOOP_PS]


@inlined
def quiet_turn_ps(m):
    """How long a turn takes that finds nothing."""
    looks = 2 * m[at.READS_IN_FLIGHT] + m[at.WRITES_IN_FLIGHT]
    return m[at.LOOP_PS] + m[at.SCAN_PS] * looks


@inlined
def notice(m, calendar, now):
    """An I/O thread has finished something: where in its spinning turn does main see it?

    Turns that find nothing all last the same, so the present one is found by division; main sees
    the news at its next look after now. At equal times main acts first and has not seen it yet.
    """
    me = thread_row(0)
    if m[me + at.PHASE] != SPINNING:
        return
    into = spun_into_turn(m, quiet_turn_ps(m), now)
    first = m[at.LOOP_PS] + m[at.SCAN_PS] * m[at.READS_IN_FLIGHT]
    second = first + m[at.SCAN_PS] * m[at.READS_IN_FLIGHT]
    m[me + at.PHASE] = SCANNED_READS
    if into < first:
        m[me + at.AGAIN] = 0
        looks_after = first
    elif into < second:
        m[me + at.AGAIN] = 1
        looks_after = second
    else:
        m[me + at.PHASE] = SCANNED_WRITES
        looks_after = quiet_turn_ps(m)
    stop_spinning(m, calendar, looks_after - into, now)


@inlined
def begin_reading_pass(m, again, now):
    """Look at every client whose read is under way; returns when the look is over."""
    me = thread_row(0)
    m[me + at.AGAIN] = again
    m[me + at.PHASE] = SCANNED_READS
    return now + m[at.SCAN_PS] * m[at.READS_IN_FLIGHT]


@inlined
def end_execution(m, client):
    """The present client of the batch is executed."""
    m[thread_row(0) + at.INDEX] += 1
    m[client + at.EXECUTED] = m[client + at.READ]
    m[client + at.JOBS] &= ~at.READING


@inlined
def execute_ahead(m, calendar, now):
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
            send_frees(m, calendar, client, reached)
        end_execution(m, client)
        if m[client + at.EXECUTED] > m[client + at.WRITTEN]:
            send_write(m, calendar, client, reached)
    return reached


@inlined
def dispatch_ahead(m, calendar, now):
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
            send_read(m, calendar, client, reached)
    m[me + at.PHASE] = NEXT_EVENT
    return reached


@inlined
def reading_step(m, calendar, phase, now):
    """Execute, batch by batch, what finished reads brought.

    Returns when the next step ends, or -1 if the next phase follows at once.
    """
    me = thread_row(0)
    if phase == SCANNED_READS:
        m[me + at.COUNT] = length(m, at.DONE_READS)
    elif phase >= EXECUTED_CLIENT:
        client = m[m[at.BATCH] + m[me + at.INDEX]]
        if m[at.FREES] and phase == EXECUTED_CLIENT:
            refused_ps = send_frees(m, calendar, client, now)
            if refused_ps > 0:
                m[me + at.PHASE] = FREED_INLINE
                return step_end(m, me, now, refused_ps)
        end_execution(m, client)
        if m[at.FSYNC_ALWAYS]:
            add_pending_write(m, client)
        else:
            try_send_write(m, calendar, client, now)
    if phase != SCANNED_READS:
        m[me + at.PHASE] = NEXT_IN_BATCH
        reached = execute_ahead(m, calendar, now)
        if reached > now:
            return reached
        if m[me + at.INDEX] < m[me + at.AMOUNT]:
            m[me + at.PHASE] = EXECUTED_CLIENT
            return begin_execution(m, m[m[at.BATCH] + m[me + at.INDEX]], now)
    if m[me + at.COUNT] > 0:
        m[me + at.PHASE] = NEXT_IN_BATCH
        return begin_batch(m, now)
    if m[me + at.AGAIN]:
        m[me + at.PHASE] = SCANNED_WRITES
        return now + m[at.SCAN_PS] * m[at.WRITES_IN_FLIGHT]
    m[me + at.PHASE] = COUNT_PENDING_WRITES
    return -1


@inlined
def pending_write_step(m, calendar, phase, now):
    """Replies that found no thread earlier, last client first; returns when the next step ends."""
    me = thread_row(0)
    if phase == COUNT_PENDING_WRITES:
        if unlikely(m[at.LOGGED_BYTES] > 0):
            m[at.PRODUCTIVE] = 1
            return step_end(m, me, now, flush_ps(m, now))
        m[me + at.PHASE] = NEXT_PENDING_WRITE
        if m[at.PENDING_WRITE_COUNT] > 0:
            m[at.PRODUCTIVE] = 1
            changed = adjust_threads(m, calendar, m[at.PENDING_WRITE_COUNT], True, now)
            return step_end(m, me, now, changed * m[at.ACTIVATE_PS])
    elif phase == SENT_PENDING_WRITE:
        try_send_write(m, calendar, m[me + at.CLIENT], now)
    elif phase == WROTE_INLINE:
        end_write(m, calendar, m[me + at.CLIENT], now)
    while m[at.PENDING_WRITE_COUNT] > 0:
        client = take_pending_write(m)
        m[me + at.CLIENT] = client
        if m[client + at.JOBS] & at.WRITING or m[client + at.EXECUTED] == m[client + at.WRITTEN]:
            continue  # the rest follows when that write is done, or has left with it
        if m[at.ACTIVE_THREADS] > 1 and has_room(m, thread_for(m, client)):
            m[me + at.PHASE] = SENT_PENDING_WRITE
            return step_end(m, me, now, m[at.PUSH_PS])
        m[me + at.PHASE] = WROTE_INLINE
        m[at.INLINE_WRITES] += 1
        return step_end(m, me, now, begin_write(m, client))
    return begin_reading_pass(m, 1, now)


@inlined
def written_step(m, calendar, phase, now):
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
        try_send_write(m, calendar, m[m[at.BATCH] + m[me + at.INDEX]], now)
        m[me + at.INDEX] += 1
        m[me + at.PHASE] = NEXT_UNFINISHED
    while m[me + at.INDEX] < m[me + at.AMOUNT]:
        client = m[m[at.BATCH] + m[me + at.INDEX]]
        if m[client + at.EXECUTED] > m[client + at.WRITTEN]:
            m[me + at.PHASE] = SENT_REST
            return step_end(m, me, now, m[at.PUSH_PS])
        m[me + at.INDEX] += 1
    return -1


@inlined
def before_sleep_step(m, calendar, now):
    """The part of a turn before the poll; returns when its next step ends, or -1 when it is over.

    Order: poll job, finished reads, pending writes, finished reads again, finished writes.
    """
    me = thread_row(0)
    phase = m[me + at.PHASE]
    if phase >= SCANNED_WRITES:
        return written_step(m, calendar, phase, now)
    if SCANNED_READS <= phase <= FREED_INLINE:
        following = reading_step(m, calendar, phase, now)
        if following >= 0:
            return following
        phase = COUNT_PENDING_WRITES
    if phase >= COUNT_PENDING_WRITES:
        return pending_write_step(m, calendar, phase, now)
    if phase == LOOPED:
        in_flight = m[at.READS_IN_FLIGHT] + m[at.WRITES_IN_FLIGHT]
        if m[at.ACTIVE_THREADS] > 1 and m[at.POLL_STATE] == at.IDLE and in_flight > 0:
            if has_room(m, m[at.ACTIVE_THREADS] - 1):
                m[me + at.PHASE] = SENT_POLL
                return step_end(m, me, now, m[at.PUSH_PS])
    else:  # SENT_POLL
        m[at.POLL_STATE] = at.PENDING
        send_job(m, calendar, m[at.ACTIVE_THREADS] - 1, POLL_JOB, now)
    return begin_reading_pass(m, 0, now)


@inlined
def event_step(m, calendar, now):
    """Hand readable clients to I/O threads or serve them; returns when that ends, or -1."""
    me = thread_row(0)
    phase = m[me + at.PHASE]
    client = m[me + at.CLIENT]
    if phase == SENT_READ:
        send_read(m, calendar, client, now)
    elif phase == READ_INLINE:
        m[client + at.EXECUTED] = m[client + at.READ]
        add_pending_write(m, client)
    reached = dispatch_ahead(m, calendar, now)
    if reached > now:
        return reached
    if m[me + at.COUNT] == 0:
        return -1
    m[at.PRODUCTIVE] = 1
    client = next_event(m, me)
    m[me + at.CLIENT] = client
    if m[client + at.JOBS] & at.READING:
        # The socket was still full when it was polled, but its read is already under way.
        m[me + at.PHASE] = NEXT_EVENT
        return step_end(m, me, now, m[at.SCAN_PS])
    if m[at.ACTIVE_THREADS] > 1:
        if has_room(m, thread_for(m, client)):
            m[me + at.PHASE] = SENT_READ
            return step_end(m, me, now, m[at.PUSH_PS])
        m[at.REFUSED_JOBS] += 1
    m[me + at.PHASE] = READ_INLINE
    return read_inline(m, client, now)


@inlined
def main_step(m, calendar, now):
    """Advance the main thread whose present step ends now; returns when the next one ends."""
    me = thread_row(0)
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
        changed = adjust_threads(m, calendar, m[me + at.COUNT], False, now)
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
def end_job(m, calendar, job, now):
    """An I/O thread's job is done."""
    client = job >> KIND_BITS
    kind = job & KIND_MASK
    if kind == READ_JOB:
        put(m, at.DONE_READS, client)
    elif kind == WRITE_JOB:
        end_write(m, calendar, client, now)
        put(m, at.DONE_WRITES, client)
    elif kind == POLL_JOB:
        m[at.POLL_STATE] = at.COMPLETED
    else:
        return  # nobody waits for what was freed, or for a handshake
    notice(m, calendar, now)


@inlined
def is_free(job):
    """Whether a job is to free values or arguments."""
    return job & KIND_MASK == FREE_JOB or job & KIND_MASK == ARGUMENTS_JOB


@inlined
def io_step(m, calendar, thread, now):
    """Advance an I/O thread whose present job ends now; returns when the next one ends."""
    me = thread_row(thread)
    ring = me + at.QUEUE
    popped = m[ring + POPPED]
    if m[me + at.PHASE] == WORKING:
        m[me + at.PHASE] = LOOKING
        # A job leaves the ring when it is done.
        popped += 1
        if is_free(m[me + at.CLIENT]):
            popped += m[me + at.COUNT] - 1
            m[at.FREED_VALUES] += m[me + at.AMOUNT]
        m[ring + POPPED] = popped
        end_job(m, calendar, m[me + at.CLIENT], now)
    if popped == m[ring + PUSHED]:
        return idle(m, thread, now)
    entry = entry_of(m, ring, popped)
    seen = m[entry]
    if seen > now:
        m[me + at.WAITS] = at.SPINS
        return seen
    job = m[entry + 1]
    m[me + at.PHASE] = WORKING
    m[me + at.CLIENT] = job
    if job & KIND_MASK == POLL_JOB:
        return work(m, me, now, begin_poll_job(m, now))
    duration = begin_job(m, job)
    if is_free(job):
        # What is to be freed one after the other is one step.
        m[me + at.COUNT] = 1
        m[me + at.AMOUNT] = job & KIND_MASK == FREE_JOB
        following = popped + 1
        while following < m[ring + PUSHED]:
            entry = entry_of(m, ring, following)
            if m[entry] > now or not is_free(m[entry + 1]):
                break
            duration += m[entry + 1] >> KIND_BITS
            m[me + at.COUNT] += 1
            m[me + at.AMOUNT] += m[entry + 1] & KIND_MASK == FREE_JOB
            following += 1
    return work(m, me, now, duration)


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
        finish_turns(m, quiet_turn_ps(m))
    account_active(m, m[at.END_PS])
