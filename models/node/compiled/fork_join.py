"""Policy: fork-join I/O threads (Redis 6.0 to 7.4, Valkey 7.2).

Rules and constants: networking.c of Redis 6.2.0 and 7.0.0 and of Valkey 7.2.5; the reference
execution states them in the order in which the main thread follows them.
"""

from forecache.sim.calendar import INFINITY_PS, schedule

from .. import layout as at
from .inline import inlined, unlikely
from .interruptions import step_end
from .log import flush_ps
from .main_thread import (
    ACCEPTED,
    LOOK_FOR_EVENTS,
    LOOKING,
    LOOPED,
    NEXT_EVENT,
    OWN_PHASES,
    POLLED,
    READ_INLINE,
    TURN,
    WORKING,
    accept_step,
    account_active,
    add_pending_write,
    end_turn,
    execute_inline,
    handshakes_step,
    idle,
    parsed_commands,
    poll_step,
    read_and_parse,
    read_inline,
    set_active,
    start_thread,
    stop_thread,
    take_pending_write,
)
from .sockets import begin_write, end_write, next_event, thread_row, work
from .window import inside_window

CLIENTS_PER_THREAD = 2

# Phases of the main thread after it polled: first reads, then writes.
(
    FORKED,  # the clients are handed out
    SERVED,  # one of the main thread's own
    JOINED,  # spinning until the slowest thread is done
    TAKEN_BACK,  # the other threads' clients are looked at again
    EXECUTED,
    WRITES,  # writes are next
    SWITCHED,  # the threads are started, or stopped
    WROTE_INLINE,
) = range(OWN_PHASES, OWN_PHASES + 8)


@inlined
def forked_client(m, position):
    """The client at a position of what the threads share; both lists grow at their heads."""
    reads = m[at.FORKED_READS]
    clients = m[thread_row(0) + at.WATCHED_SOCKETS] if reads else m[at.PENDING_WRITES]
    return m[clients + m[at.FORKED_CLIENTS] - 1 - position]


@inlined
def begin_serving(m, client):
    """A thread reads from a client or writes to it; returns the duration in ps."""
    return read_and_parse(m, client) if m[at.FORKED_READS] else begin_write(m, client)


@inlined
def end_serving(m, calendar, client, now):
    """It has done so."""
    if not m[at.FORKED_READS]:
        end_write(m, calendar, client, now)
        m[client + at.JOBS] &= ~at.WRITE_PENDING


@inlined
def begin_fork(m, reads, clients, now):
    """Begin to hand clients out; returns when that ends.

    Every counter is written, even for threads that get no client.
    """
    me = thread_row(0)
    m[at.FORKED_READS] = reads
    m[at.FORKED_CLIENTS] = clients
    m[me + at.PHASE] = FORKED
    publishing = (m[at.IO_THREADS] - 1) * m[at.PUBLISH_PS]
    return step_end(m, me, now, clients * m[at.PUSH_PS] + publishing)


@inlined
def hand_out(m, calendar, now):
    """Client number i goes to thread i modulo their number; those that spin see it."""
    m[at.JOINED_PS] = now
    threads = min(m[at.IO_THREADS], m[at.FORKED_CLIENTS])
    for thread in range(1, threads):
        row = thread_row(thread)
        m[row + at.INDEX] = thread
        m[row + at.COUNT] = 1  # it has a share
        if m[row + at.ASLEEP]:
            m[row + at.ASLEEP] = 0
            schedule(calendar, thread, max(now + m[at.HANDOVER_PS], m[row + at.AVAILABLE_PS]))
        # Otherwise it never had a core yet, and looks when it gets one.
    m[at.SHARES_LEFT] = threads - 1


@inlined
def fork_step(m, calendar, phase, now):
    """Serve the main thread's own share, wait for the other threads, take their clients back.

    Returns when the next step ends, or -1 when all that is over.
    """
    me = thread_row(0)
    if phase == TAKEN_BACK:
        return -1
    if phase <= SERVED:
        if phase == FORKED:
            hand_out(m, calendar, now)
            m[me + at.INDEX] = 0
        else:
            end_serving(m, calendar, m[me + at.CLIENT], now)
            m[me + at.INDEX] += m[at.IO_THREADS]
        if m[me + at.INDEX] < m[at.FORKED_CLIENTS]:
            client = forked_client(m, m[me + at.INDEX])
            m[me + at.CLIENT] = client
            m[me + at.PHASE] = SERVED
            m[at.INLINE_READS if m[at.FORKED_READS] else at.INLINE_WRITES] += 1
            return step_end(m, me, now, begin_serving(m, client))
        m[me + at.PHASE] = JOINED
        m[me + at.SINCE_PS] = now
        if m[at.SHARES_LEFT] > 0 or m[at.JOINED_PS] > now:
            m[me + at.WAITS] = at.SPINS
            return INFINITY_PS if m[at.SHARES_LEFT] > 0 else m[at.JOINED_PS]
    m[at.JOIN_WAIT_PS] += inside_window(m, m[me + at.SINCE_PS], now)
    clients, threads = m[at.FORKED_CLIENTS], m[at.IO_THREADS]
    m[me + at.PHASE] = TAKEN_BACK
    own = (clients + threads - 1) // threads
    return step_end(m, me, now, (clients - own) * m[at.DONE_PS])


@inlined
def execution_step(m, phase, now):
    """Execute what the threads have read, client by client; returns when that ends, or -1."""
    me = thread_row(0)
    if phase == EXECUTED:
        client = m[me + at.CLIENT]
        m[client + at.EXECUTED] = m[client + at.READ]
        add_pending_write(m, client)
        m[me + at.INDEX] += 1
    else:
        m[me + at.INDEX] = 0
    if m[me + at.INDEX] == m[at.FORKED_CLIENTS]:
        return -1
    client = forked_client(m, m[me + at.INDEX])
    m[me + at.CLIENT] = client
    m[me + at.PHASE] = EXECUTED
    return execute_inline(m, client, parsed_commands(m, client), now, 0)


@inlined
def event_step(m, phase, now):
    """Begin to read what has arrived, by all threads or here; returns when that ends, or -1."""
    me = thread_row(0)
    if phase == READ_INLINE:
        client = m[me + at.CLIENT]
        m[client + at.EXECUTED] = m[client + at.READ]
        add_pending_write(m, client)
    elif m[at.IO_THREADS_DO_READS] and m[at.ACTIVE_THREADS] > 1:
        return begin_fork(m, 1, m[me + at.FIRED_COUNT], now)
    if m[me + at.COUNT] == 0:
        return -1
    client = next_event(m, me)
    m[me + at.CLIENT] = client
    m[me + at.PHASE] = READ_INLINE
    return read_inline(m, client, now)


@inlined
def switch(m, calendar, active, now):
    """Start or stop all I/O threads, unless that is their state; returns when that ends, or -1."""
    if m[at.ACTIVE_THREADS] == active:
        return -1
    for thread in range(1, m[at.IO_THREADS]):
        if active > 1:
            start_thread(m, calendar, thread, now)
        else:
            stop_thread(m, calendar, thread, now)
    set_active(m, active, now)
    return step_end(m, thread_row(0), now, (m[at.IO_THREADS] - 1) * m[at.ACTIVATE_PS])


@inlined
def write_step(m, calendar, phase, now):
    """Write by all threads if there is enough to write, else here; returns when that ends, or -1.

    The number of pending writes decides, at this point of every turn that has any.
    """
    me = thread_row(0)
    pending = m[at.PENDING_WRITE_COUNT]
    if phase == WRITES:
        if pending == 0:
            return -1
        enough = pending >= CLIENTS_PER_THREAD * m[at.IO_THREADS]
        m[me + at.PHASE] = SWITCHED
        following = switch(m, calendar, m[at.IO_THREADS] if enough else 1, now)
        if following >= 0:
            return following
    elif phase == WROTE_INLINE:
        end_write(m, calendar, m[me + at.CLIENT], now)
    if m[at.ACTIVE_THREADS] > 1:
        return begin_fork(m, 0, pending, now)
    if pending == 0:
        return -1
    client = take_pending_write(m)
    m[me + at.CLIENT] = client
    m[me + at.PHASE] = WROTE_INLINE
    m[at.INLINE_WRITES] += 1
    return step_end(m, me, now, begin_write(m, client))


@inlined
def begin_loop(m, now):
    """The fixed part of a turn ends it."""
    me = thread_row(0)
    m[me + at.PHASE] = LOOPED
    return step_end(m, me, now, m[at.LOOP_PS])


@inlined
def main_step(m, calendar, now):
    """Advance the main thread whose present step ends now; returns when the next one ends."""
    me = thread_row(0)
    phase = m[me + at.PHASE]
    if FORKED <= phase <= TAKEN_BACK:
        following = fork_step(m, calendar, phase, now)
        if following >= 0:
            return following
        if not m[at.FORKED_READS]:
            m[at.PENDING_WRITE_COUNT] = 0
            return begin_loop(m, now)
    if phase in (TAKEN_BACK, EXECUTED):
        following = execution_step(m, phase, now)
        if following >= 0:
            return following
        m[me + at.PHASE] = WRITES
    if phase in (LOOPED, TURN):
        if phase == LOOPED:
            end_turn(m, now)
        m[me + at.PHASE] = LOOK_FOR_EVENTS
    if LOOK_FOR_EVENTS <= m[me + at.PHASE] <= POLLED:
        following = poll_step(m, now)
        if following >= 0:
            return following
        m[at.PRODUCTIVE] = 1
        m[me + at.PHASE] = NEXT_EVENT
        following = accept_step(m, now)
        if unlikely(following >= 0):
            return following
    if unlikely(m[me + at.PHASE] == ACCEPTED):
        m[me + at.PHASE] = NEXT_EVENT
        # I/O threads of this generation do not handle TLS.
        following = handshakes_step(m, m[me + at.INDEX], now)
        if following >= 0:
            return following
    if m[me + at.PHASE] == NEXT_EVENT or m[me + at.PHASE] == READ_INLINE:
        following = event_step(m, m[me + at.PHASE], now)
        if following >= 0:
            return following
        m[me + at.PHASE] = WRITES
    if unlikely(m[at.LOGGED_BYTES] > 0):
        return step_end(m, me, now, flush_ps(m, now))
    following = write_step(m, calendar, m[me + at.PHASE], now)
    if following >= 0:
        return following
    return begin_loop(m, now)


@inlined
def io_step(m, calendar, thread, now):
    """Advance an I/O thread whose present client is served; returns when the next one is."""
    me = thread_row(thread)
    if m[me + at.PHASE] == WORKING:
        end_serving(m, calendar, m[me + at.CLIENT], now)
        m[me + at.INDEX] += m[at.IO_THREADS]
        if m[me + at.INDEX] >= m[at.FORKED_CLIENTS]:
            m[me + at.PHASE] = LOOKING
            m[at.SHARES_LEFT] -= 1
            m[at.JOINED_PS] = now + m[at.HANDOVER_PS]
            if m[at.SHARES_LEFT] == 0 and m[thread_row(0) + at.PHASE] == JOINED:
                schedule(calendar, 0, m[at.JOINED_PS])
    if m[me + at.PHASE] == LOOKING:
        if m[me + at.COUNT] == 0:
            return idle(m, thread, now)
        m[me + at.COUNT] = 0
    client = forked_client(m, m[me + at.INDEX])
    m[me + at.CLIENT] = client
    m[me + at.PHASE] = WORKING
    return work(m, me, now, m[at.POP_PS] + begin_serving(m, client))


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
    account_active(m, m[at.END_PS])
