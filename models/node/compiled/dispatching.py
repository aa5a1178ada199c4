"""The main thread of the two asynchronous policies, which never waits for its I/O threads.

It does the steps of the reference execution (`reference/dispatching.py`) in the same order. The
queue discipline is passed in as a module, `queues`: `job_rings` or `shared_jobs`. The module

- queues jobs: `thread_for`, `has_room`, `put`, `put_poll`, `put_free`, `put_arguments`,
  `put_handshake`; `BUSY` are the jobs with which a client gets no further one;
- finds finished jobs: `begin_look`, `look_step`;
- starts and stops threads: `adjust_threads`, also for pending writes if `STARTS_FOR_WRITES`;
- spins in turns that are certain to find nothing: `finds_nothing`, `spin`;
- does several steps at once where no other thread can interfere: `execute_ahead`, `dispatch_ahead`.
"""

from forecache.sim.stamped_rings import take

from .. import layout as at
from .halts import finish_turns
from .inline import inlined, unlikely
from .interruptions import step_end
from .log import flush_ps
from .main_thread import (
    ACCEPT,
    ACCEPTED,
    KIND_BITS,
    LOOK_FOR_EVENTS,
    LOOPED,
    NEXT_EVENT,
    OWN_PHASES,
    POLLED,
    READ_INLINE,
    READ_JOB,
    SENT_READ,
    SPINNING,
    TURN,
    WRITE_JOB,
    accept_step,
    account_active,
    add_pending_write,
    end_turn,
    handshakes_step,
    parsed_commands,
    poll_step,
    read_inline,
    take_pending_write,
)
from .sockets import (
    about,
    begin_write,
    end_write,
    execute_commands,
    keys_of,
    mark_of,
    next_event,
    thread_row,
    values_to_free,
)

# Phases of the main thread before it polls. A discipline has its own from LOOK_PHASES on.
(
    SENT_POLL,
    COUNT_PENDING_WRITES,
    NEXT_PENDING_WRITE,
    SENT_PENDING_WRITE,
    WROTE_INLINE,
    LOOKED,  # it has looked for finished jobs
    NEXT_IN_BATCH,
    EXECUTED_CLIENT,
    FREED_INLINE,
) = range(OWN_PHASES, OWN_PHASES + 9)
LOOK_PHASES = OWN_PHASES + 9


# --- sending jobs ---------------------------------------------------------------------------------


@inlined
def send_read(queues, m, calendar, client, now):
    """Queue a read that finds room."""
    queues.put(m, calendar, queues.thread_for(m, client), (client << KIND_BITS) | READ_JOB, now)
    m[client + at.JOBS] |= at.READING
    m[at.READS_IN_FLIGHT] += 1


@inlined
def send_write(queues, m, calendar, client, now):
    """Queue a write that finds room."""
    queues.put(m, calendar, queues.thread_for(m, client), (client << KIND_BITS) | WRITE_JOB, now)
    m[client + at.JOBS] |= at.WRITING
    m[at.WRITES_IN_FLIGHT] += 1


@inlined
def try_send_write(queues, m, calendar, client, now):
    """Queue a client's replies, or leave them for the pending writes."""
    nothing = m[client + at.EXECUTED] == m[client + at.WRITTEN]
    if nothing or m[client + at.JOBS] & at.WRITING:
        return
    if m[at.ACTIVE_THREADS] > 1:
        if queues.has_room(m, queues.thread_for(m, client)):
            send_write(queues, m, calendar, client, now)
            return
        m[at.REFUSED_JOBS] += 1
    add_pending_write(m, client)


@inlined
def send_frees(queues, m, calendar, client, now):
    """Queue the freeing of what a client's SETs replaced, and of its arguments.

    Returns the time that it takes to free what found no room, in ps.
    """
    refused_ps = 0
    for index in range(m[client + at.EXECUTED], m[client + at.READ]):
        work_ps = about(m, mark_of(m, client, index), at.FREE_PS)
        if work_ps > 0 and not queues.put_free(m, calendar, work_ps, now):
            refused_ps += work_ps
            m[at.FREED_VALUES] += 1
            m[at.INLINE_FREES] += 1
    commands = m[client + at.READ] - m[client + at.EXECUTED]
    work_ps = commands * m[at.FREE_ARGUMENTS_PS]
    if work_ps > 0 and not queues.put_arguments(m, calendar, client, work_ps, now):
        refused_ps += work_ps
        m[at.INLINE_ARGUMENTS] += commands
    return refused_ps


@inlined
def send_handshakes(queues, m, calendar, connections, now):
    """Queue the handshakes of new connections; returns how many found no room."""
    refused = 0
    for _ in range(connections):
        m[at.ACCEPTED_CONNECTIONS] += 1
        if not (m[at.OFFLOAD_HANDSHAKES] and queues.put_handshake(m, calendar, now)):
            refused += 1
    return refused


# --- before sleeping ------------------------------------------------------------------------------


@inlined
def begin_turn(queues, m, now):
    """Start a turn; if it is certain to find nothing, spin until an I/O thread is done."""
    me = thread_row(0)
    if (
        m[at.POLL_STATE] == at.PENDING
        and m[at.PENDING_WRITE_COUNT] == 0
        and m[at.LOGGED_BYTES] == 0
        and queues.finds_nothing(m, now)
    ):
        m[me + at.PHASE] = SPINNING
        m[me + at.SINCE_PS] = now
        return queues.spin(m, now)
    m[me + at.PHASE] = LOOPED
    return now + m[at.LOOP_PS]


@inlined
def begin_batch(m, now):
    """Take up to a batch of clients whose reads are done and look their keys up; returns when.

    A single key is not fetched ahead: there is nothing to overlap its misses with.
    """
    me = thread_row(0)
    limit = max(1, m[at.PREFETCH_BATCH])
    left = m[me + at.COUNT]
    batch = m[at.BATCH]
    size = 0
    keys = 0
    while left > 0 and size < limit and keys < limit:
        client = take(m, at.DONE_READS)
        left -= 1
        m[batch + size] = client
        size += 1
        index = m[client + at.EXECUTED]
        keys += keys_of(m, client, index, index + parsed_commands(m, client))
    m[me + at.COUNT] = left
    m[at.READS_IN_FLIGHT] -= size
    m[at.PRODUCTIVE] = 1
    m[me + at.INDEX] = 0
    m[me + at.AMOUNT] = size
    m[me + at.FETCHED] = 0
    keys = min(keys, limit)
    if keys > 1:
        m[me + at.FETCHED] = keys
        m[at.PREFETCH_BATCHES] += 1
        m[at.PREFETCHED_KEYS] += keys
        return step_end(m, me, now, m[m[at.PREFETCH] + keys])
    return now


@inlined
def begin_execution(m, client, now):
    """Execute what a client's finished read brought; returns when that ends."""
    me = thread_row(0)
    parsed = parsed_commands(m, client)
    index = m[client + at.EXECUTED]
    fetched = min(keys_of(m, client, index, index + parsed), m[me + at.FETCHED])
    m[me + at.FETCHED] -= fetched
    duration = execute_commands(m, client, fetched, parsed) + m[at.PUSH_PS]
    # What the commands leave to be freed is queued one by one.
    pushed = values_to_free(m, client)
    if m[at.FREE_ARGUMENTS_PS] > 0:
        pushed += m[client + at.READ] - m[client + at.EXECUTED]
    return step_end(m, me, now, duration + pushed * m[at.FREE_PUSH_PS])


@inlined
def end_execution(m, client):
    """The present client of the batch is executed."""
    m[thread_row(0) + at.INDEX] += 1
    m[client + at.EXECUTED] = m[client + at.READ]
    m[client + at.JOBS] &= ~at.READING


@inlined
def execution_step(queues, m, calendar, phase, now):
    """Execute, batch by batch, what finished reads brought.

    Returns when the next step ends, or -1 when there is none.
    """
    me = thread_row(0)
    if phase >= EXECUTED_CLIENT:
        client = m[m[at.BATCH] + m[me + at.INDEX]]
        if m[at.FREES] and phase == EXECUTED_CLIENT:
            refused_ps = send_frees(queues, m, calendar, client, now)
            if refused_ps > 0:
                m[me + at.PHASE] = FREED_INLINE
                return step_end(m, me, now, refused_ps)
        end_execution(m, client)
        if m[at.FSYNC_ALWAYS]:
            add_pending_write(m, client)
        else:
            try_send_write(queues, m, calendar, client, now)
    if phase >= NEXT_IN_BATCH:
        m[me + at.PHASE] = NEXT_IN_BATCH
        reached = queues.execute_ahead(queues, m, calendar, now)
        if reached > now:
            return reached
        if m[me + at.INDEX] < m[me + at.AMOUNT]:
            m[me + at.PHASE] = EXECUTED_CLIENT
            return begin_execution(m, m[m[at.BATCH] + m[me + at.INDEX]], now)
    if m[me + at.COUNT] > 0:
        m[me + at.PHASE] = NEXT_IN_BATCH
        return begin_batch(m, now)
    return -1


@inlined
def pending_write_step(queues, m, calendar, phase, now):
    """Flush the log and send replies that found no room earlier, last client first.

    Returns when the next step ends, or -1 when there is none.
    """
    me = thread_row(0)
    if phase == COUNT_PENDING_WRITES:
        if unlikely(m[at.LOGGED_BYTES] > 0):
            m[me + at.PHASE] = COUNT_PENDING_WRITES
            m[at.PRODUCTIVE] = 1
            return step_end(m, me, now, flush_ps(m, now))
        if m[at.PENDING_WRITE_COUNT] > 0:
            m[me + at.PHASE] = NEXT_PENDING_WRITE
            m[at.PRODUCTIVE] = 1
            if queues.STARTS_FOR_WRITES:
                changed = queues.adjust_threads(m, calendar, m[at.PENDING_WRITE_COUNT], True, now)
                return step_end(m, me, now, changed * m[at.ACTIVATE_PS])
    elif phase == SENT_PENDING_WRITE:
        try_send_write(queues, m, calendar, m[me + at.CLIENT], now)
    elif phase == WROTE_INLINE:
        end_write(m, calendar, m[me + at.CLIENT], now)
    while m[at.PENDING_WRITE_COUNT] > 0:
        client = take_pending_write(m)
        m[me + at.CLIENT] = client
        if m[client + at.JOBS] & at.WRITING or m[client + at.EXECUTED] == m[client + at.WRITTEN]:
            continue  # the rest follows when that write is done, or has left with it
        if m[at.ACTIVE_THREADS] > 1 and queues.has_room(m, queues.thread_for(m, client)):
            m[me + at.PHASE] = SENT_PENDING_WRITE
            return step_end(m, me, now, m[at.PUSH_PS])
        m[me + at.PHASE] = WROTE_INLINE
        m[at.INLINE_WRITES] += 1
        return step_end(m, me, now, begin_write(m, client))
    return -1


@inlined
def before_sleep_step(queues, m, calendar, now):
    """The part of a turn before the poll; returns when its next step ends, or -1 when it is over.

    Order: poll job, finished jobs, pending writes, finished jobs again.
    """
    me = thread_row(0)
    phase = m[me + at.PHASE]
    if phase <= SENT_POLL:
        if phase == SENT_POLL:
            m[at.POLL_STATE] = at.PENDING
            queues.put_poll(m, calendar, now)
        elif m[at.ACTIVE_THREADS] > 1 and m[at.POLL_STATE] == at.IDLE:
            in_flight = m[at.READS_IN_FLIGHT] + m[at.WRITES_IN_FLIGHT]
            if in_flight > 0 and queues.has_room(m, m[at.ACTIVE_THREADS] - 1):
                m[me + at.PHASE] = SENT_POLL
                return step_end(m, me, now, m[at.PUSH_PS])
        m[me + at.AGAIN] = 0
        m[me + at.PHASE] = phase = LOOKED
        following = queues.begin_look(m, now)
        if following >= 0:
            return following
    while True:
        if phase >= LOOKED:
            following = queues.look_step(queues, m, calendar, phase, now)
            if following >= 0 or m[me + at.AGAIN]:
                return following
            phase = COUNT_PENDING_WRITES
        following = pending_write_step(queues, m, calendar, phase, now)
        if following >= 0:
            return following
        m[me + at.AGAIN] = 1
        m[me + at.PHASE] = phase = LOOKED
        following = queues.begin_look(m, now)
        if following >= 0:
            return following


# --- after sleeping -------------------------------------------------------------------------------


@inlined
def event_step(queues, m, calendar, now):
    """Hand readable clients to I/O threads or serve them; returns when that ends, or -1."""
    me = thread_row(0)
    phase = m[me + at.PHASE]
    client = m[me + at.CLIENT]
    if phase == SENT_READ:
        send_read(queues, m, calendar, client, now)
    elif phase == READ_INLINE:
        m[client + at.EXECUTED] = m[client + at.READ]
        add_pending_write(m, client)
    reached = queues.dispatch_ahead(queues, m, calendar, now)
    if reached > now:
        return reached
    if m[me + at.COUNT] == 0:
        return -1
    m[at.PRODUCTIVE] = 1
    client = next_event(m, me)
    m[me + at.CLIENT] = client
    if m[client + at.JOBS] & queues.BUSY:
        m[me + at.PHASE] = NEXT_EVENT
        return step_end(m, me, now, m[at.SCAN_PS])
    if m[at.ACTIVE_THREADS] > 1:
        if queues.has_room(m, queues.thread_for(m, client)):
            m[me + at.PHASE] = SENT_READ
            return step_end(m, me, now, m[at.PUSH_PS])
        m[at.REFUSED_JOBS] += 1
    m[me + at.PHASE] = READ_INLINE
    return read_inline(m, client, now)


@inlined
def main_step(queues, m, calendar, now):
    """Advance the main thread whose present step ends now; returns when the next one ends."""
    me = thread_row(0)
    if m[me + at.PHASE] >= LOOPED:
        following = before_sleep_step(queues, m, calendar, now)
        if following >= 0:
            return following
        m[me + at.PHASE] = LOOK_FOR_EVENTS
    if LOOK_FOR_EVENTS <= m[me + at.PHASE] <= POLLED:
        following = poll_step(m, now)
        if following >= 0:
            return following
        m[me + at.PHASE] = ACCEPT
        changed = queues.adjust_threads(m, calendar, m[me + at.COUNT], False, now)
        if changed:
            return step_end(m, me, now, changed * m[at.ACTIVATE_PS])
    if m[me + at.PHASE] == ACCEPT:
        m[me + at.PHASE] = NEXT_EVENT
        following = accept_step(m, now)
        if unlikely(following >= 0):
            return following
    if unlikely(m[me + at.PHASE] == ACCEPTED):
        m[me + at.PHASE] = NEXT_EVENT
        refused = send_handshakes(queues, m, calendar, m[me + at.INDEX], now)
        following = handshakes_step(m, refused, now)
        if following >= 0:
            return following
    if m[me + at.PHASE] != TURN:
        following = event_step(queues, m, calendar, now)
        if following >= 0:
            return following
        end_turn(m, now)
    return begin_turn(queues, m, now)


@inlined
def finish_dispatching(m):
    """Account for what was still going on at the end of the run."""
    me = thread_row(0)
    if m[me + at.PHASE] == SPINNING:
        finish_turns(m, m[me + at.TURN_PS])
    account_active(m, m[at.END_PS])
