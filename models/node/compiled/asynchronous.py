"""Policy: asynchronous I/O threads with one job ring each (Valkey 8.0 to 9.0).

Rules and constants: io_threads.c, networking.c and server.c of Valkey 8.0.0 and 8.1.0; the
reference execution states them in the order in which the main thread follows them.
"""

from numba import njit

from forecache.sim.calendar import INFINITY_PS, peek_agent, peek_time, schedule
from forecache.sim.pointer import pointer
from forecache.sim.stamped_rings import capacity, first_stamp, first_value, length, pop, push

from .. import layout as at
from .generator import generator_step, source_step, start
from .main_thread import (
    KIND_BITS,
    KIND_MASK,
    POLL_JOB,
    READ_JOB,
    WRITE_JOB,
    add_pending_write,
    begin_batch,
    begin_execution,
    begin_job,
    end_turn,
    park_io_threads,
    set_active,
    skip_turns,
)
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

# Phases of the main thread.
# fmt: off
(
    TURN,  # a turn of the event loop begins
    SPINNING,  # turns that find nothing, until an I/O thread has finished something
    LOOPED,  # the fixed part of the turn is over
    SENT_POLL, SCANNED_READS, NEXT_BATCH, NEXT_IN_BATCH, EXECUTED_CLIENT, COUNT_PENDING_WRITES,
    NEXT_PENDING_WRITE, SENT_PENDING_WRITE, WROTE_INLINE, SCANNED_WRITES, NEXT_UNFINISHED,
    SENT_REST,
    LOOK_FOR_EVENTS, DOZING, WAKING, POLLED,
    NEXT_EVENT, SENT_READ, READ_INLINE,
) = range(22)
# fmt: on


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def ring_of(m, thread):
    """The job ring of an I/O thread."""
    return m[at.JOBS] + thread * m[at.JOB_WORDS]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def thread_for(m, client):
    """The I/O thread that gets a client's job: the one it still has a job with, else by number."""
    row = client_row(m, client)
    if m[row + at.READ_STATE] != at.IDLE or m[row + at.WRITE_STATE] != at.IDLE:
        return m[row + at.SERVED_BY]
    return client % (m[at.ACTIVE_THREADS] - 1) + 1


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def has_room(m, thread):
    """Whether the job ring takes another job: one slot always stays empty."""
    ring = ring_of(m, thread)
    return length(m, ring) < capacity(m, ring) - 1


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def send_job(m, calendar, thread, job, now):
    """Put a job into a thread's ring; a thread that spins sees it one hand-over later."""
    row = thread_row(m, thread)
    seen = max(now + m[at.HANDOVER_PS], m[row + at.AVAILABLE_PS])
    push(m, ring_of(m, thread), seen, job)
    if m[row + at.ASLEEP]:
        m[row + at.ASLEEP] = 0
        schedule(calendar, thread, seen)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def try_send_write(m, calendar, client, now):
    """Hand a client's replies to an I/O thread, or leave them for the pending writes."""
    row = client_row(m, client)
    if m[row + at.EXECUTED] == m[row + at.WRITTEN] or m[row + at.WRITE_STATE] != at.IDLE:
        return
    if m[at.ACTIVE_THREADS] > 1:
        thread = thread_for(m, client)
        if has_room(m, thread):
            m[row + at.WRITE_STATE] = at.PENDING
            m[row + at.SERVED_BY] = thread
            m[at.WRITES_IN_FLIGHT] += 1
            send_job(m, calendar, thread, (client << KIND_BITS) | WRITE_JOB, now)
            return
        count(m, at.REFUSED_JOBS, now, 1)
    add_pending_write(m, client)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def adjust_threads(m, events, increase_only, now):
    """Activate one thread per `events-per-io-thread` events; returns how many changed."""
    per_thread = m[at.EVENTS_PER_IO_THREAD]
    target = events + 1 if per_thread == 0 else events // per_thread
    target = max(1, min(target, m[at.IO_THREADS]))
    active = m[at.ACTIVE_THREADS]
    before = active
    while active < target:
        row = thread_row(m, active)
        # A thread spins for a while before it sleeps on its mutex.
        if now - m[row + at.STOPPED_PS] > m[at.SPIN_PS]:
            m[row + at.AVAILABLE_PS] = now + m[at.THREAD_WAKE_PS]
        active += 1
    if not increase_only:
        while active > target and length(m, ring_of(m, active - 1)) == 0:
            active -= 1
            m[thread_row(m, active) + at.STOPPED_PS] = now
    if active != before:
        set_active(m, active, now)
    return abs(active - before)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def begin_turn(m, now):
    """Start a turn; if it is certain to find nothing, spin until an I/O thread is done."""
    me = thread_row(m, 0)
    quiet = (
        m[at.POLL_STATE] == at.PENDING
        and length(m, m[at.DONE_READS]) == 0
        and length(m, m[at.DONE_WRITES]) == 0
        and m[at.PENDING_WRITE_COUNT] == 0
    )
    if quiet:
        m[me + at.PHASE] = SPINNING
        m[me + at.SINCE_PS] = now
        return INFINITY_PS
    m[me + at.PHASE] = LOOPED
    return now + m[at.LOOP_PS]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def quiet_turn_ps(m):
    """How long a turn takes that finds nothing."""
    looks = 2 * m[at.READS_IN_FLIGHT] + m[at.WRITES_IN_FLIGHT]
    return m[at.LOOP_PS] + m[at.SCAN_PS] * looks


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def skip_quiet_turns(m, now):
    """Account for the turns spun until now; returns when the present one began."""
    return skip_turns(m, quiet_turn_ps(m), now)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def notice(m, calendar, now):
    """An I/O thread has finished something: where in its spinning turn does main see it?

    Turns that find nothing all last the same, so the present one is found by division; main sees
    the news at its next look after now. At equal times main acts first and has not seen it yet.
    """
    me = thread_row(m, 0)
    if m[me + at.PHASE] != SPINNING:
        return
    turn_started = skip_quiet_turns(m, now)
    into = now - turn_started
    first = m[at.LOOP_PS] + m[at.SCAN_PS] * m[at.READS_IN_FLIGHT]
    second = first + m[at.SCAN_PS] * m[at.READS_IN_FLIGHT]
    m[me + at.PHASE] = SCANNED_READS
    if into < first:
        m[me + at.AGAIN] = 0
        look_ps = turn_started + first
    elif into < second:
        m[me + at.AGAIN] = 1
        look_ps = turn_started + second
    else:
        m[me + at.PHASE] = SCANNED_WRITES
        look_ps = turn_started + quiet_turn_ps(m)
    schedule(calendar, 0, look_ps)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def begin_reading_pass(m, again, now):
    """Look at every client whose read is under way; returns when the look is over."""
    me = thread_row(m, 0)
    m[me + at.AGAIN] = again
    m[me + at.PHASE] = SCANNED_READS
    return now + m[at.SCAN_PS] * m[at.READS_IN_FLIGHT]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def least_room(m):
    """The room that the fullest job ring has left."""
    least = m[at.JOB_CAPACITY]
    for thread in range(1, m[at.ACTIVE_THREADS]):
        ring = ring_of(m, thread)
        least = min(least, capacity(m, ring) - 1 - length(m, ring))
    return least


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def end_execution(m, calendar, now):
    """The present client of the batch is executed: its replies go to an I/O thread."""
    me = thread_row(m, 0)
    client = m[m[at.BATCH] + m[me + at.INDEX]]
    m[me + at.INDEX] += 1
    row = client_row(m, client)
    m[row + at.EXECUTED] = m[row + at.READ]
    m[row + at.READ_STATE] = at.IDLE
    try_send_write(m, calendar, client, now)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def execute_ahead(m, calendar, now):
    """Execute on in the batch as far as no other thread can interfere; returns until when.

    Jobs carry the time at which they are seen, so they may be sent ahead of time while every ring
    is certain to have room and the client has no write under way that would take new replies.
    """
    me = thread_row(m, 0)
    reached = now
    if m[me + at.AMOUNT] - m[me + at.INDEX] > least_room(m):
        return reached
    while m[me + at.INDEX] < m[me + at.AMOUNT]:
        client = m[m[at.BATCH] + m[me + at.INDEX]]
        if m[client_row(m, client) + at.WRITE_STATE] != at.IDLE:
            break
        reached = begin_execution(m, client, reached)
        end_execution(m, calendar, reached)
    return reached


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def dispatch_ahead(m, calendar, now):
    """Hand out readable clients as long as every ring is certain to have room; see above."""
    me = thread_row(m, 0)
    reached = now
    if m[at.ACTIVE_THREADS] < 2 or m[me + at.COUNT] > least_room(m):
        return reached
    while m[me + at.COUNT] > 0:
        m[me + at.COUNT] -= 1
        m[at.PRODUCTIVE] = 1
        client = pop(m, m[at.FIRED_EVENTS])
        if m[client_row(m, client) + at.READ_STATE] != at.IDLE:
            reached += m[at.SCAN_PS]
        else:
            reached += m[at.PUSH_PS]
            send_read(m, calendar, client, reached)
    m[me + at.PHASE] = NEXT_EVENT
    return reached


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def send_read(m, calendar, client, now):
    """Give a readable client to an I/O thread."""
    row = client_row(m, client)
    thread = thread_for(m, client)
    m[row + at.READ_STATE] = at.PENDING
    m[row + at.SERVED_BY] = thread
    m[at.READS_IN_FLIGHT] += 1
    send_job(m, calendar, thread, (client << KIND_BITS) | READ_JOB, now)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def before_sleep_step(m, calendar, now):
    """The part of a turn before the poll; returns when its next step ends, or -1 when it is over.

    Order: poll job, finished reads, pending writes, finished reads again, finished writes.
    """
    me = thread_row(m, 0)
    while True:
        phase = m[me + at.PHASE]
        if phase == LOOPED:
            in_flight = m[at.READS_IN_FLIGHT] + m[at.WRITES_IN_FLIGHT]
            if m[at.ACTIVE_THREADS] > 1 and m[at.POLL_STATE] == at.IDLE and in_flight > 0:
                if has_room(m, m[at.ACTIVE_THREADS] - 1):
                    m[me + at.PHASE] = SENT_POLL
                    return now + m[at.PUSH_PS]
            return begin_reading_pass(m, 0, now)
        if phase == SENT_POLL:
            m[at.POLL_STATE] = at.PENDING
            send_job(m, calendar, m[at.ACTIVE_THREADS] - 1, POLL_JOB, now)
            return begin_reading_pass(m, 0, now)

        if phase == SCANNED_READS:
            m[me + at.COUNT] = length(m, m[at.DONE_READS])
            m[me + at.PHASE] = NEXT_BATCH
        elif phase == NEXT_BATCH:
            if m[me + at.COUNT] > 0:
                m[me + at.PHASE] = NEXT_IN_BATCH
                return begin_batch(m, m[at.DONE_READS], now)
            m[me + at.PHASE] = SCANNED_WRITES if m[me + at.AGAIN] else COUNT_PENDING_WRITES
            if m[me + at.AGAIN]:
                return now + m[at.SCAN_PS] * m[at.WRITES_IN_FLIGHT]
        elif phase == EXECUTED_CLIENT:
            end_execution(m, calendar, now)
            m[me + at.PHASE] = NEXT_IN_BATCH
        elif phase == NEXT_IN_BATCH:
            reached = execute_ahead(m, calendar, now)
            if reached > now:
                return reached
            if m[me + at.INDEX] < m[me + at.AMOUNT]:
                m[me + at.PHASE] = EXECUTED_CLIENT
                return begin_execution(m, m[m[at.BATCH] + m[me + at.INDEX]], now)
            m[me + at.PHASE] = NEXT_BATCH

        elif phase == COUNT_PENDING_WRITES:
            m[me + at.PHASE] = NEXT_PENDING_WRITE
            if m[at.PENDING_WRITE_COUNT] > 0:
                m[at.PRODUCTIVE] = 1
                changed = adjust_threads(m, m[at.PENDING_WRITE_COUNT], True, now)
                return now + changed * m[at.ACTIVATE_PS]
        elif phase == NEXT_PENDING_WRITE:
            if m[at.PENDING_WRITE_COUNT] == 0:
                return begin_reading_pass(m, 1, now)
            m[at.PENDING_WRITE_COUNT] -= 1
            client = m[m[at.PENDING_WRITES] + m[at.PENDING_WRITE_COUNT]]
            row = client_row(m, client)
            m[row + at.WRITE_PENDING] = 0
            m[me + at.CLIENT] = client
            if m[row + at.WRITE_STATE] == at.IDLE:
                if m[at.ACTIVE_THREADS] > 1 and has_room(m, thread_for(m, client)):
                    m[me + at.PHASE] = SENT_PENDING_WRITE
                    return now + m[at.PUSH_PS]
                m[me + at.PHASE] = WROTE_INLINE
                count(m, at.INLINE_WRITES, now, 1)
                return now + begin_write(m, client, now)
        elif phase == SENT_PENDING_WRITE:
            try_send_write(m, calendar, m[me + at.CLIENT], now)
            m[me + at.PHASE] = NEXT_PENDING_WRITE
        elif phase == WROTE_INLINE:
            end_write(m, calendar, m[me + at.CLIENT], now)
            m[me + at.PHASE] = NEXT_PENDING_WRITE

        elif phase == SCANNED_WRITES:
            done = length(m, m[at.DONE_WRITES])
            if done == 0:
                return -1
            m[at.PRODUCTIVE] = 1
            m[at.WRITES_IN_FLIGHT] -= done
            for position in range(done):
                client = pop(m, m[at.DONE_WRITES]) >> KIND_BITS
                m[client_row(m, client) + at.WRITE_STATE] = at.IDLE
                m[m[at.BATCH] + position] = client
            m[me + at.INDEX] = 0
            m[me + at.AMOUNT] = done
            m[me + at.PHASE] = NEXT_UNFINISHED
            return now + done * m[at.DONE_PS]
        elif phase == NEXT_UNFINISHED:
            while m[me + at.INDEX] < m[me + at.AMOUNT]:
                client = m[m[at.BATCH] + m[me + at.INDEX]]
                row = client_row(m, client)
                if m[row + at.EXECUTED] > m[row + at.WRITTEN]:
                    m[me + at.PHASE] = SENT_REST
                    return now + m[at.PUSH_PS]
                m[me + at.INDEX] += 1
            return -1
        else:  # SENT_REST
            try_send_write(m, calendar, m[m[at.BATCH] + m[me + at.INDEX]], now)
            m[me + at.INDEX] += 1
            m[me + at.PHASE] = NEXT_UNFINISHED


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def poll_step(m, now):
    """Get events from the poll job or by an own epoll_wait; returns when the next step ends.

    Returns -1 when there are no more steps and `COUNT` says how many events there are.
    """
    me = thread_row(m, 0)
    phase = m[me + at.PHASE]
    if phase == POLLED:
        return -1
    if m[at.POLL_STATE] == at.COMPLETED:
        m[at.POLL_STATE] = at.IDLE
        m[me + at.COUNT] = length(m, m[at.FIRED_EVENTS])
        return -1
    m[me + at.COUNT] = 0
    if m[at.POLL_STATE] == at.PENDING:
        return -1
    found = poll_sockets(m, now)
    if found == 0 and m[at.READS_IN_FLIGHT] + m[at.WRITES_IN_FLIGHT] == 0:
        if phase != DOZING:
            m[me + at.PHASE] = DOZING
            return now + m[at.DOZE_PS]
        end_turn(m, now)
        m[me + at.PHASE] = WAKING
        if length(m, m[at.REQUEST_WIRE]) > 0:
            return first_stamp(m, m[at.REQUEST_WIRE]) + m[at.WAKE_LATENCY_PS]
        m[me + at.ASLEEP] = 1
        return INFINITY_PS
    duration = m[at.POLL_PS] + found * m[at.POLL_EVENT_PS]
    if phase == WAKING:
        # What came before the sleep is accounted for; the call that slept returns the events.
        m[at.TURN_STARTED_PS] = now
        m[at.PRODUCTIVE] = 1
        count(m, at.BLOCKS, now, 1)
        duration += m[at.BLOCK_PS]
    m[me + at.COUNT] = found
    m[me + at.PHASE] = POLLED
    return now + duration


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def event_step(m, calendar, now):
    """Hand readable clients to I/O threads or serve them; returns when that ends, or -1."""
    me = thread_row(m, 0)
    phase = m[me + at.PHASE]
    client = m[me + at.CLIENT]
    if phase == SENT_READ:
        send_read(m, calendar, client, now)
    elif phase == READ_INLINE:
        row = client_row(m, client)
        m[row + at.EXECUTED] = m[row + at.READ]
        add_pending_write(m, client)
    reached = dispatch_ahead(m, calendar, now)
    if reached > now:
        return reached
    if m[me + at.COUNT] == 0:
        return -1
    m[me + at.COUNT] -= 1
    m[at.PRODUCTIVE] = 1
    client = pop(m, m[at.FIRED_EVENTS])
    m[me + at.CLIENT] = client
    row = client_row(m, client)
    if m[row + at.READ_STATE] != at.IDLE:
        # The socket was still full when it was polled, but its read is already under way.
        m[me + at.PHASE] = NEXT_EVENT
        return now + m[at.SCAN_PS]
    if m[at.ACTIVE_THREADS] > 1:
        if has_room(m, thread_for(m, client)):
            m[me + at.PHASE] = SENT_READ
            return now + m[at.PUSH_PS]
        count(m, at.REFUSED_JOBS, now, 1)
    m[me + at.PHASE] = READ_INLINE
    count(m, at.INLINE_READS, now, 1)
    return now + read_socket(m, client, now) + execute_commands(m, client, 0, 0, now)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def main_step(m, calendar, now):
    """Advance the main thread whose present step ends now; returns when the next one ends."""
    me = thread_row(m, 0)
    while True:
        phase = m[me + at.PHASE]
        if phase == TURN:
            return begin_turn(m, now)
        if phase < LOOK_FOR_EVENTS:
            following = before_sleep_step(m, calendar, now)
            if following >= 0:
                return following
            m[me + at.PHASE] = LOOK_FOR_EVENTS
        elif phase <= POLLED:
            following = poll_step(m, now)
            if following >= 0:
                return following
            m[me + at.PHASE] = NEXT_EVENT
            changed = adjust_threads(m, m[me + at.COUNT], False, now)
            if changed:
                return now + changed * m[at.ACTIVATE_PS]
        else:
            following = event_step(m, calendar, now)
            if following >= 0:
                return following
            end_turn(m, now)
            m[me + at.PHASE] = TURN


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def io_step(m, calendar, thread, now):
    """Advance an I/O thread whose present job ends now; returns when the next one ends."""
    me = thread_row(m, thread)
    ring = ring_of(m, thread)
    if m[me + at.PHASE]:
        job = pop(m, ring)
        client = job >> KIND_BITS
        kind = job & KIND_MASK
        m[me + at.PHASE] = 0
        if kind == READ_JOB:
            m[client_row(m, client) + at.READ_STATE] = at.COMPLETED
            push(m, m[at.DONE_READS], now, job)
        elif kind == WRITE_JOB:
            end_write(m, calendar, client, now)
            m[client_row(m, client) + at.WRITE_STATE] = at.COMPLETED
            push(m, m[at.DONE_WRITES], now, job)
        else:
            m[at.POLL_STATE] = at.COMPLETED
        notice(m, calendar, now)
    if length(m, ring) == 0:
        m[me + at.ASLEEP] = 1
        return INFINITY_PS
    if first_stamp(m, ring) > now:
        return first_stamp(m, ring)
    m[me + at.PHASE] = 1
    return work(m, thread, now, begin_job(m, first_value(m, ring), now))


@njit(cache=True, nogil=True, error_model="numpy")
def run(memory, counts, agents):
    """Simulate until `END_PS`; the results are in the memory. Returns the number of events."""
    m = pointer(memory)
    histogram = pointer(counts)
    calendar = pointer(agents)
    start(m, calendar)
    park_io_threads(m, calendar)
    first_generator = m[at.IO_THREADS]
    first_source = first_generator + m[at.GENERATORS]
    events = 0
    while peek_time(calendar) < m[at.END_PS]:
        now = peek_time(calendar)
        agent = peek_agent(calendar)
        if agent == 0:
            following = main_step(m, calendar, now)
        elif agent < first_generator:
            following = io_step(m, calendar, agent, now)
        elif agent < first_source:
            following = generator_step(m, histogram, calendar, agent, now)
        else:
            following = source_step(m, calendar, agent, now)
        schedule(calendar, agent, following)
        events += 1
    if m[thread_row(m, 0) + at.PHASE] == SPINNING:
        skip_quiet_turns(m, m[at.END_PS] - 1)
    set_active(m, m[at.ACTIVE_THREADS], m[at.END_PS])
    return events
