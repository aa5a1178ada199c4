"""Steps of a main thread with I/O threads, and of their jobs, that policies share."""

from forecache.sim.calendar import INFINITY_PS, schedule

from .. import layout as at
from .connections import take_connections
from .inline import inlined, unlikely
from .interruptions import step_end
from .sockets import (
    about,
    begin_write,
    execute_commands,
    freeing_ps,
    mark_of,
    poll_sockets,
    polling,
    read_socket,
    sleep_in_epoll,
    thread_row,
    values_to_free,
)
from .window import inside_window

# What a job or a response is about: kind in the low bits, client above.
READ_JOB = 0
WRITE_JOB = 1
POLL_JOB = 2
FREE_JOB = 3  # with its duration in place of a client
HANDSHAKE_JOB = 4
ARGUMENTS_JOB = 5  # to free, with its duration in place of a client
KIND_BITS = 3
KIND_MASK = 7

# Phases of an I/O thread.
LOOKING = 0
WORKING = 1

# Phases of the main thread: a turn of the event loop. Each policy has its own from OWN_PHASES on,
# for its steps before it polls.
(
    TURN,  # a turn begins
    SPINNING,  # turns that find nothing, until an I/O thread has finished something
    LOOK_FOR_EVENTS,
    DOZING,  # on the way to sleep; what arrives meanwhile is found without a wake-up
    WAKING,  # asleep, or woken and about to run
    POLLED,
    ACCEPT,  # new connections are next
    ACCEPTED,
    NEXT_EVENT,
    SENT_READ,
    READ_INLINE,
    LOOPED,  # the fixed part of the turn is over
) = range(12)
OWN_PHASES = 12


@inlined
def end_turn(m, now):
    """Account for the turn of the event loop that ends now; the next one starts."""
    me = thread_row(0)
    started = m[at.TURN_STARTED_PS]
    inside = inside_window(m, started, now) - m[me + at.AWAY_PS]
    m[me + at.AWAY_PS] = 0
    m[me + at.ON_CPU_PS] += inside
    if m[at.PRODUCTIVE]:
        m[me + at.BUSY_PS] += inside
        m[at.MAIN_ACTIVE_PS] += now - started
    m[at.TURN_STARTED_PS] = now
    m[at.PRODUCTIVE] = 0
    m[at.LOOPS] += 1


@inlined
def skip_turns(m, period, now):
    """Account for the equal turns spun since `SINCE_PS`; returns when the present one began."""
    me = thread_row(0)
    since = m[me + at.SINCE_PS]
    turns = (now - since) // period
    turn_started = since + turns * period
    if turns == 0:
        return turn_started
    # The first of them may have begun before the thread was without a core for a while.
    m[me + at.ON_CPU_PS] += inside_window(m, m[at.TURN_STARTED_PS], turn_started)
    m[me + at.ON_CPU_PS] -= m[me + at.AWAY_PS]
    m[me + at.AWAY_PS] = 0
    # Turns that ended inside the measured window.
    before = max(0, -(-(m[at.WARMUP_PS] - since) // period) - 1)
    m[at.LOOPS] += max(0, turns - before)
    m[at.TURN_STARTED_PS] = turn_started
    return turn_started


@inlined
def add_pending_write(m, client):
    """Put a client with replies into the list of pending writes, once."""
    jobs = m[client + at.JOBS]
    if not jobs & at.WRITE_PENDING and m[client + at.EXECUTED] > m[client + at.WRITTEN]:
        m[client + at.JOBS] = jobs | at.WRITE_PENDING
        m[m[at.PENDING_WRITES] + m[at.PENDING_WRITE_COUNT]] = client
        m[at.PENDING_WRITE_COUNT] += 1


@inlined
def take_pending_write(m):
    """Remove the client that entered the list of pending writes last."""
    left = m[at.PENDING_WRITE_COUNT] - 1
    m[at.PENDING_WRITE_COUNT] = left
    client = m[m[at.PENDING_WRITES] + left]
    m[client + at.JOBS] &= ~at.WRITE_PENDING
    return client


@inlined
def account_active(m, now):
    """Account for the time since the number of active threads last changed."""
    inside = inside_window(m, m[at.ACTIVE_SINCE_PS], now)
    m[at.ACTIVE_THREAD_PS] += (m[at.ACTIVE_THREADS] - 1) * inside
    m[at.ACTIVE_SINCE_PS] = now


@inlined
def set_active(m, active, now):
    """Change how many threads are active."""
    account_active(m, now)
    m[at.ACTIVE_THREADS] = active
    m[at.ACTIVATIONS] += 1


@inlined
def look_at(m, calendar, thread, time_ps):
    """Let an idle I/O thread that shares cores look whether it still has to spin or to sleep."""
    if unlikely(m[at.CROWDED]) and m[thread_row(thread) + at.ASLEEP]:
        schedule(calendar, thread, time_ps)


@inlined
def start_thread(m, calendar, thread, now):
    """A stopped thread may work again: at once if it still spins, else when it is awake."""
    row = thread_row(thread)
    if now - m[row + at.STOPPED_PS] > m[at.SPIN_PS]:
        # It has stopped spinning and sleeps on its mutex.
        m[row + at.AVAILABLE_PS] = now + m[at.THREAD_WAKE_PS]
        look_at(m, calendar, thread, m[row + at.AVAILABLE_PS])


@inlined
def stop_thread(m, calendar, thread, now):
    """A thread gets no more work; it spins on for a while before it sleeps on its mutex."""
    m[thread_row(thread) + at.STOPPED_PS] = now
    look_at(m, calendar, thread, now + m[at.SPIN_PS])


@inlined
def idle(m, thread, now):
    """An I/O thread without work spins if it is active, a stopped one for a while, then sleeps.

    Returns when it looks by itself; only where it shares cores does that make a difference.
    """
    row = thread_row(thread)
    m[row + at.ASLEEP] = 1
    m[row + at.WAITS] = at.SPINS
    if unlikely(m[at.CROWDED]) and thread >= m[at.ACTIVE_THREADS]:
        sleeps_ps = m[row + at.STOPPED_PS] + m[at.SPIN_PS]
        if now < sleeps_ps:
            return sleeps_ps
        m[row + at.WAITS] = at.SLEEPS
    return INFINITY_PS


@inlined
def parsed_commands(m, client):
    """Commands that a client's reader parsed: all complete ones, or the first only."""
    ready = m[client + at.READ] - m[client + at.EXECUTED]
    return ready if m[at.WHOLE_PIPELINE] else min(ready, 1)


@inlined
def read_and_parse(m, client):
    """Read from a client and parse what its reader parses; returns the duration in ps."""
    duration = read_socket(m, client)
    index = m[client + at.EXECUTED]
    last = index + parsed_commands(m, client)
    while index < last:
        duration += about(m, mark_of(m, client, index), at.PARSE_PS)
        index += 1
    return duration


@inlined
def begin_job(m, job):
    """An I/O thread starts a job; returns its duration in ps."""
    client = job >> KIND_BITS
    kind = job & KIND_MASK
    if kind in (FREE_JOB, ARGUMENTS_JOB):
        return job >> KIND_BITS
    if kind == HANDSHAKE_JOB:
        return m[at.HANDSHAKE_PS]
    duration = m[at.POP_PS]
    if kind == READ_JOB:
        return duration + read_and_parse(m, client)
    return duration + begin_write(m, client)


@inlined
def begin_poll_job(m, now):
    """An I/O thread starts the poll job; returns its duration in ps."""
    return m[at.POP_PS] + polling(m, poll_sockets(m, thread_row(0), now))


@inlined
def poll_step(m, now):
    """Get events from the poll job or by an own epoll_wait; returns when the next step ends.

    Returns -1 when there are no more steps and `COUNT` says how many events there are. The main
    thread sleeps if there is nothing to do and no job is in flight.
    """
    me = thread_row(0)
    phase = m[me + at.PHASE]
    if phase == POLLED:
        return -1
    m[me + at.COUNT] = 0
    if m[at.POLL_STATE] == at.COMPLETED:
        m[at.POLL_STATE] = at.IDLE
        m[me + at.COUNT] = m[me + at.FIRED_COUNT]
        return -1
    if m[at.POLL_STATE] == at.PENDING:
        return -1
    found = poll_sockets(m, me, now)
    if found == 0 and m[at.READS_IN_FLIGHT] + m[at.WRITES_IN_FLIGHT] == 0:
        if phase != DOZING:
            m[me + at.PHASE] = DOZING
            return step_end(m, me, now, m[at.DOZE_PS])
        end_turn(m, now)
        m[me + at.PHASE] = WAKING
        return sleep_in_epoll(m, me)
    duration = polling(m, found)
    if phase == WAKING:
        # What came before the sleep is accounted for; the call that slept returns the events.
        m[at.TURN_STARTED_PS] = now
        m[at.PRODUCTIVE] = 1
        m[at.BLOCKS] += 1
        duration += m[at.BLOCK_PS]
    m[me + at.COUNT] = found
    m[me + at.PHASE] = POLLED
    return step_end(m, me, now, duration)


@inlined
def read_inline(m, client, now):
    """The main thread reads, parses, executes and frees by itself; returns when that ends."""
    m[at.INLINE_READS] += 1
    duration = read_socket(m, client)
    return execute_inline(m, client, 0, now, duration)


@inlined
def execute_inline(m, client, parsed, now, before_ps):
    """The main thread executes, and frees what the commands replace; returns when that ends.

    Of the commands `parsed` were parsed by their reader; `before_ps` is what the step takes before.
    """
    duration = before_ps + execute_commands(m, client, 0, parsed)
    values = values_to_free(m, client)
    if unlikely(values > 0):
        m[at.FREED_VALUES] += values
        m[at.INLINE_FREES] += values
        duration += freeing_ps(m, client)
    if m[at.FREE_ARGUMENTS_PS] > 0:
        commands = m[client + at.READ] - m[client + at.EXECUTED]
        m[at.INLINE_ARGUMENTS] += commands
        duration += commands * m[at.FREE_ARGUMENTS_PS]
    return step_end(m, thread_row(0), now, duration)


@inlined
def accept_step(m, now):
    """Accept new connections; returns when that ends, or -1 if there are none."""
    me = thread_row(0)
    if m[at.POLL_STATE] == at.PENDING:
        return -1  # the poll that would report them is still in flight
    taken = take_connections(m, now)
    if taken == 0:
        return -1
    m[at.PRODUCTIVE] = 1
    m[me + at.INDEX] = taken
    m[me + at.PHASE] = ACCEPTED
    return step_end(m, me, now, taken * m[at.ACCEPT_PS])


@inlined
def handshakes_step(m, refused, now):
    """The handshakes that no I/O thread takes; returns when they are over, or -1."""
    if refused == 0:
        return -1
    m[at.INLINE_HANDSHAKES] += refused
    return step_end(m, thread_row(0), now, refused * m[at.HANDSHAKE_PS])
