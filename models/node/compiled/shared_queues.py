"""Policy: I/O threads on shared queues (Valkey 9.1).

One queue of jobs that any thread takes from, one queue of responses to the main thread, and a
private queue per thread. Rules and constants: io_threads.c and queues.c of Valkey 9.1.0; the
reference execution states them in the order in which the main thread follows them.
"""

from numba import njit

from forecache.sim.calendar import INFINITY_PS, peek_agent, peek_time, schedule
from forecache.sim.pointer import pointer
from forecache.sim.stamped_rings import capacity, first_stamp, length, pop, push

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

RESPONSES_AT_ONCE = 16
"""Responses the main thread takes from the queue in one go."""

SHARED_POLL_LIMIT = 9
"""Up to so many active threads the poll job goes to the shared queue."""

SAMPLES_PER_DECISION = 16
IGNITION_PER_MILLE = 300
"""Share of active main-thread time above which the first I/O thread starts."""

# fmt: off
(
    TURN,  # a turn of the event loop begins
    SPINNING,  # turns that find nothing, until an I/O thread has finished something
    LOOPED,  # the fixed part of the turn is over
    SENT_POLL, NEXT_RESPONSES, NEXT_BATCH, NEXT_IN_BATCH, EXECUTED_CLIENT, NEXT_PENDING_WRITE,
    SENT_PENDING_WRITE, WROTE_INLINE,
    LOOK_FOR_EVENTS, DOZING, WAKING, POLLED,
    NEXT_EVENT, SENT_READ, READ_INLINE,
) = range(18)
# fmt: on


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def private_ring(m, thread):
    """The private queue of an I/O thread."""
    return m[at.JOBS] + thread * m[at.JOB_WORDS]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def has_room(m):
    """Whether the shared queue takes another job."""
    return length(m, m[at.SHARED_JOBS]) < capacity(m, m[at.SHARED_JOBS])


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def send_shared(m, calendar, job, now):
    """Put a job into the shared queue; the first active thread that spins idly takes it."""
    push(m, m[at.SHARED_JOBS], now + m[at.HANDOVER_PS], job)
    for thread in range(1, m[at.ACTIVE_THREADS]):
        row = thread_row(m, thread)
        if m[row + at.ASLEEP]:
            m[row + at.ASLEEP] = 0
            seen = max(now + m[at.HANDOVER_PS], m[row + at.AVAILABLE_PS])
            schedule(calendar, thread, seen)
            return


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def send_poll(m, calendar, now):
    """Give the poll job to the shared queue or, with many threads, to each in turn."""
    m[at.POLL_STATE] = at.PENDING
    active = m[at.ACTIVE_THREADS]
    if active <= SHARED_POLL_LIMIT:
        send_shared(m, calendar, POLL_JOB, now)
        return
    thread = m[at.NEXT_PRIVATE] % (active - 1) + 1
    m[at.NEXT_PRIVATE] = thread
    row = thread_row(m, thread)
    seen = max(now + m[at.HANDOVER_PS], m[row + at.AVAILABLE_PS])
    push(m, private_ring(m, thread), seen, POLL_JOB)
    if m[row + at.ASLEEP]:
        m[row + at.ASLEEP] = 0
        schedule(calendar, thread, seen)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def try_send_write(m, calendar, client, now):
    """Queue a client's replies, or leave them for the pending writes."""
    row = client_row(m, client)
    if m[row + at.EXECUTED] == m[row + at.WRITTEN]:
        return
    if m[at.ACTIVE_THREADS] > 1:
        if has_room(m):
            m[row + at.WRITE_STATE] = at.PENDING
            m[at.WRITES_IN_FLIGHT] += 1
            send_shared(m, calendar, (client << KIND_BITS) | WRITE_JOB, now)
            return
        count(m, at.REFUSED_JOBS, now, 1)
    add_pending_write(m, client)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def change_active(m, active, now):
    """Start or stop the last thread."""
    row = thread_row(m, max(active, m[at.ACTIVE_THREADS]) - 1)
    if active > m[at.ACTIVE_THREADS]:
        # A stopped thread of this generation blocks on its mutex at once.
        m[row + at.AVAILABLE_PS] = now + m[at.THREAD_WAKE_PS]
    else:
        m[row + at.STOPPED_PS] = now
    set_active(m, active, now)
    m[at.CHANGED_PS] = now


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def sample_load(m, now):
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
        m[at.SAMPLE_SUM] += length(m, m[at.SHARED_JOBS])
    m[at.NEXT_SAMPLE_PS] = now + period
    m[at.SAMPLES] += 1
    if m[at.SAMPLES] < SAMPLES_PER_DECISION:
        return 0
    total = m[at.SAMPLE_SUM]
    m[at.SAMPLES] = 0
    m[at.SAMPLE_SUM] = 0
    if active == 1:
        if total > IGNITION_PER_MILLE * SAMPLES_PER_DECISION:
            change_active(m, 2, now)
            return 1
    elif total > SAMPLES_PER_DECISION:
        if active < m[at.IO_THREADS]:
            change_active(m, active + 1, now)
            return 1
    elif total == 0 and now - m[at.CHANGED_PS] > m[at.SHRINK_AFTER_PS]:
        if length(m, private_ring(m, active - 1)) == 0 and active > 1:
            m[at.SAMPLED_ACTIVE_PS] = m[at.MAIN_ACTIVE_PS]
            change_active(m, active - 1, now)
            return 1
    return 0


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def begin_turn(m, now):
    """Start a turn; if it is certain to find nothing, spin until an I/O thread is done."""
    me = thread_row(m, 0)
    if (
        m[at.POLL_STATE] == at.PENDING
        and length(m, m[at.RESPONSES]) == 0
        and m[at.PENDING_WRITE_COUNT] == 0
        and now + m[at.LOOP_PS] < m[at.NEXT_SAMPLE_PS]
    ):
        m[me + at.PHASE] = SPINNING
        m[me + at.SINCE_PS] = now
        # Spinning ends at the latest with the turn that samples the load, at or after its time.
        turns = (m[at.NEXT_SAMPLE_PS] - now - 1) // m[at.LOOP_PS]
        return now + turns * m[at.LOOP_PS]
    m[me + at.PHASE] = LOOPED
    return now + m[at.LOOP_PS]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def notice(m, calendar, now):
    """An I/O thread has finished something: main sees it at its first look after now."""
    me = thread_row(m, 0)
    if m[me + at.PHASE] != SPINNING:
        return
    turn_started = skip_turns(m, m[at.LOOP_PS], now)
    m[me + at.PHASE] = LOOPED
    schedule(calendar, 0, turn_started + m[at.LOOP_PS])


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def end_execution(m, calendar, now):
    """The present client of the batch is executed: its replies go to the shared queue."""
    me = thread_row(m, 0)
    client = m[m[at.BATCH] + m[me + at.INDEX]]
    m[me + at.INDEX] += 1
    row = client_row(m, client)
    m[row + at.EXECUTED] = m[row + at.READ]
    m[row + at.READ_STATE] = at.IDLE
    try_send_write(m, calendar, client, now)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def collect_responses(m, now):
    """Take up to 16 responses and sort them into reads and writes; returns when that ends."""
    me = thread_row(m, 0)
    taken = min(length(m, m[at.RESPONSES]), RESPONSES_AT_ONCE)
    for _ in range(taken):
        response = pop(m, m[at.RESPONSES])
        if response & KIND_MASK == READ_JOB:
            push(m, m[at.DONE_READS], 0, response)
        else:
            push(m, m[at.DONE_WRITES], 0, response)
    m[at.PRODUCTIVE] = 1
    m[me + at.COUNT] = length(m, m[at.DONE_READS])
    m[me + at.PHASE] = NEXT_BATCH
    return now + taken * m[at.COLLECT_PS]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def before_sleep_step(m, calendar, now):
    """The part of a turn before the poll; returns when its next step ends, or -1 when it is over.

    Order: poll job, responses until there are none, pending writes, responses again.
    """
    me = thread_row(m, 0)
    while True:
        phase = m[me + at.PHASE]
        if phase == LOOPED:
            m[me + at.AGAIN] = 0
            m[me + at.PHASE] = NEXT_RESPONSES
            in_flight = m[at.READS_IN_FLIGHT] + m[at.WRITES_IN_FLIGHT]
            if m[at.ACTIVE_THREADS] > 1 and m[at.POLL_STATE] == at.IDLE and in_flight > 0:
                if has_room(m):
                    m[me + at.PHASE] = SENT_POLL
                    return now + m[at.PUSH_PS]
        elif phase == SENT_POLL:
            send_poll(m, calendar, now)
            m[me + at.PHASE] = NEXT_RESPONSES

        elif phase == NEXT_RESPONSES:
            if length(m, m[at.RESPONSES]) > 0:
                return collect_responses(m, now)
            if m[me + at.AGAIN]:
                return -1
            m[me + at.PHASE] = NEXT_PENDING_WRITE
        elif phase == NEXT_BATCH:
            if m[me + at.COUNT] > 0:
                m[me + at.PHASE] = NEXT_IN_BATCH
                return begin_batch(m, m[at.DONE_READS], now)
            done = length(m, m[at.DONE_WRITES])
            m[at.WRITES_IN_FLIGHT] -= done
            for _ in range(done):
                client = pop(m, m[at.DONE_WRITES]) >> KIND_BITS
                m[client_row(m, client) + at.WRITE_STATE] = at.IDLE
            m[me + at.PHASE] = NEXT_RESPONSES
            if done > 0:
                return now + done * m[at.DONE_PS]
        elif phase == EXECUTED_CLIENT:
            end_execution(m, calendar, now)
            m[me + at.PHASE] = NEXT_IN_BATCH
        elif phase == NEXT_IN_BATCH:
            if m[me + at.INDEX] < m[me + at.AMOUNT]:
                m[me + at.PHASE] = EXECUTED_CLIENT
                return begin_execution(m, m[m[at.BATCH] + m[me + at.INDEX]], now)
            m[me + at.PHASE] = NEXT_BATCH

        elif phase == NEXT_PENDING_WRITE:
            if m[at.PENDING_WRITE_COUNT] == 0:
                m[me + at.AGAIN] = 1
                m[me + at.PHASE] = NEXT_RESPONSES
                continue
            m[at.PENDING_WRITE_COUNT] -= 1
            client = m[m[at.PENDING_WRITES] + m[at.PENDING_WRITE_COUNT]]
            m[client_row(m, client) + at.WRITE_PENDING] = 0
            m[me + at.CLIENT] = client
            m[at.PRODUCTIVE] = 1
            if m[at.ACTIVE_THREADS] > 1 and has_room(m):
                m[me + at.PHASE] = SENT_PENDING_WRITE
                return now + m[at.PUSH_PS]
            m[me + at.PHASE] = WROTE_INLINE
            count(m, at.INLINE_WRITES, now, 1)
            return now + begin_write(m, client, now)
        elif phase == SENT_PENDING_WRITE:
            try_send_write(m, calendar, m[me + at.CLIENT], now)
            m[me + at.PHASE] = NEXT_PENDING_WRITE
        else:  # WROTE_INLINE
            end_write(m, calendar, m[me + at.CLIENT], now)
            m[me + at.PHASE] = NEXT_PENDING_WRITE


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
    row = client_row(m, client)
    if phase == SENT_READ:
        m[row + at.READ_STATE] = at.PENDING
        m[at.READS_IN_FLIGHT] += 1
        send_shared(m, calendar, (client << KIND_BITS) | READ_JOB, now)
    elif phase == READ_INLINE:
        m[row + at.EXECUTED] = m[row + at.READ]
        add_pending_write(m, client)
    if m[me + at.COUNT] == 0:
        return -1
    m[me + at.COUNT] -= 1
    m[at.PRODUCTIVE] = 1
    client = pop(m, m[at.FIRED_EVENTS])
    m[me + at.CLIENT] = client
    row = client_row(m, client)
    busy = m[row + at.READ_STATE] != at.IDLE or m[row + at.WRITE_STATE] != at.IDLE
    if busy or m[row + at.WRITE_PENDING]:
        # Any thread may take any job, so a client has one job at a time.
        m[me + at.PHASE] = NEXT_EVENT
        return now + m[at.SCAN_PS]
    if m[at.ACTIVE_THREADS] > 1:
        if has_room(m):
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
    if m[me + at.PHASE] == SPINNING:
        # Nobody finished anything until the turn that samples the load.
        skip_turns(m, m[at.LOOP_PS], now)
        m[me + at.PHASE] = TURN
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
            changed = sample_load(m, now)
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
    if m[me + at.PHASE]:
        job = m[me + at.CLIENT]
        client = job >> KIND_BITS
        kind = job & KIND_MASK
        m[me + at.PHASE] = 0
        if kind == WRITE_JOB:
            end_write(m, calendar, client, now)
        if kind == POLL_JOB:
            m[at.POLL_STATE] = at.COMPLETED
        else:
            push(m, m[at.RESPONSES], now, job)
        notice(m, calendar, now)
    private = private_ring(m, thread)
    shared = m[at.SHARED_JOBS]
    seen = INFINITY_PS
    queue = private
    if length(m, private) > 0:
        seen = first_stamp(m, private)
    elif length(m, shared) > 0 and thread < m[at.ACTIVE_THREADS]:
        seen = first_stamp(m, shared)
        queue = shared
    if seen > now:
        # What is on its way between the cores is waited for, not forgotten.
        m[me + at.ASLEEP] = 1 if seen == INFINITY_PS else 0
        return seen
    job = pop(m, queue)
    m[me + at.CLIENT] = job
    m[me + at.PHASE] = 1
    return work(m, thread, now, begin_job(m, job, now))


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
        skip_turns(m, m[at.LOOP_PS], m[at.END_PS] - 1)
    set_active(m, m[at.ACTIVE_THREADS], m[at.END_PS])
    return events
