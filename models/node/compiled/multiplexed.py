"""Policy: enhanced I/O multiplexing (ElastiCache for Redis 7.0, 7.1).

The reference execution states the rules. What a thread does by itself between two moments at which
others can see it (reading a turn's clients, executing a batch) is simulated in one go, unless it
may lose its core meanwhile.
"""

from forecache.sim.calendar import INFINITY_PS, schedule
from forecache.sim.stamped_rings import POPPED, PUSHED, entry_of, first_stamp, length, pop, push

from .. import layout as at
from .connections import accept_alone, take_connections
from .cores import nobody_wakes
from .generator import begin_asleep
from .inline import inlined, unlikely
from .log import flush_ps
from .sockets import (
    about,
    begin_write,
    end_write,
    execute_commands,
    freeing_ps,
    keys_of,
    mark_of,
    next_event,
    poll_sockets,
    polling,
    read_socket,
    sleep_in_epoll,
    thread_row,
    values_to_free,
    work,
)
from .window import in_one_go

# Phases of the main thread: the step that ends when its time comes.
TURN = 0  # a turn begins
LOOKING = 1  # at the channels, one after the other
SERVING = 2
RINGING = 3  # waking the other side
DOZING = 4  # on the way to sleep; what is handed over meanwhile is found without a wake-up
SLEEPING = 5  # or woken and about to run

# Phases of an I/O thread, besides the last three.
NEW = 0  # asleep until its first request
AWAKE = 1  # about to look
POLLED = 2  # reading what the poll has found
WRITING = 6


# --- channels -------------------------------------------------------------------------------------


@inlined
def seen(m, channel, now):
    """How many clients in a channel can be seen by now."""
    number = m[channel + POPPED]
    while number < m[channel + PUSHED] and m[entry_of(m, channel, number)] <= now:
        number += 1
    return number - m[channel + POPPED]


@inlined
def sleeps(m, calendar, thread, until_ps):
    """Whether a thread sleeps and nothing will wake it until then."""
    phase = m[thread_row(thread) + at.PHASE]
    # A main thread is never new.
    asleep = phase == SLEEPING or (phase == NEW and thread > 0)
    return asleep and nobody_wakes(m, calendar, thread, until_ps)


@inlined
def hand_over(m, calendar, channel, entries, reader, now):
    """Let the reader of a channel see its last entries; if it sleeps, it runs as soon as it can."""
    seen_ps = now + m[at.HANDOVER_PS]
    number = m[channel + PUSHED]
    for back in range(1, entries + 1):
        m[entry_of(m, channel, number - back)] = seen_ps
    runs_ps = max(seen_ps, now + m[at.WAKE_LATENCY_PS])
    if sleeps(m, calendar, reader, runs_ps):
        m[thread_row(reader) + at.ASLEEP] = 0
        schedule(calendar, reader, runs_ps)


# --- the main thread ------------------------------------------------------------------------------


@inlined
def parsed_commands(m, client):
    """Commands that a client's I/O thread has parsed: all, or none."""
    return m[client + at.READ] - m[client + at.EXECUTED] if m[at.WHOLE_PIPELINE] else 0


@inlined
def accept(m, now):
    """Accept what has arrived; each I/O thread in turn gets a handshake for its next turn."""
    if not m[at.OFFLOAD_HANDSHAKES]:
        return accept_alone(m, now)
    taken = take_connections(m, now)
    for _ in range(taken):
        m[at.ACCEPTED_CONNECTIONS] += 1
        thread = m[at.ACCEPTED_CONNECTIONS] % (m[at.IO_THREADS] - 1) + 1
        m[thread_row(thread) + at.HANDSHAKES_DUE] += 1
    return taken * m[at.ACCEPT_PS]


@inlined
def begin_group(m, channel, now):
    """Take clients to be executed together; returns when their keys are looked up, or -1."""
    me = thread_row(0)
    limit = max(1, m[at.PREFETCH_BATCH])
    size = 0
    keys = 0
    while size < m[me + at.COUNT] and size < limit and keys < limit:
        client = m[entry_of(m, channel, m[channel + POPPED] + size) + 1]
        index = m[client + at.EXECUTED]
        keys += keys_of(m, client, index, index + parsed_commands(m, client))
        size += 1
    m[me + at.AMOUNT] = size
    m[me + at.FETCHED] = 0
    keys = min(keys, limit)
    if keys < 2:
        return -1
    m[me + at.FETCHED] = keys
    m[at.PREFETCH_BATCHES] += 1
    m[at.PREFETCHED_KEYS] += keys
    return work(m, me, now, m[m[at.PREFETCH] + keys])


@inlined
def execute_next(m, channel, replies, now):
    """Execute the commands of the next client in a channel; returns when that ends."""
    me = thread_row(0)
    client = pop(m, channel)
    m[me + at.COUNT] -= 1
    m[me + at.AMOUNT] -= 1
    parsed = parsed_commands(m, client)
    index = m[client + at.EXECUTED]
    fetched = min(keys_of(m, client, index, index + parsed), m[me + at.FETCHED])
    m[me + at.FETCHED] -= fetched
    duration = execute_commands(m, client, fetched, parsed) + 2 * m[at.PUSH_PS]
    values = values_to_free(m, client)
    if unlikely(values > 0):
        m[at.FREED_VALUES] += values
        m[at.INLINE_FREES] += values
        duration += freeing_ps(m, client)
    m[client + at.EXECUTED] = m[client + at.READ]
    push(m, replies, INFINITY_PS, client)
    m[me + at.BATCHED] += 1
    return work(m, me, now, duration)


@inlined
def serve(m, now):
    """Execute the present channel's batch as far as it goes in one go; returns until when."""
    me = thread_row(0)
    thread = thread_row(m[me + at.INDEX])
    reached = now
    while m[me + at.COUNT] > 0:
        following = -1
        if m[me + at.AMOUNT] == 0:
            following = begin_group(m, thread + at.TO_MAIN, reached)
        if following < 0:
            following = execute_next(m, thread + at.TO_MAIN, thread + at.FROM_MAIN, reached)
        reached = following
        if not in_one_go(m, reached):
            break
    return reached


@inlined
def hand_back(m, calendar, now):
    """The replies of a channel's batch go to its I/O thread; the next channel is next."""
    me = thread_row(0)
    number = m[me + at.INDEX]
    hand_over(m, calendar, thread_row(number) + at.FROM_MAIN, m[me + at.BATCHED], number, now)
    m[me + at.INDEX] = number + 1


@inlined
def look_at_channels(m, now):
    """Find the next channel with commands and begin to serve it; returns when, or -1 if none."""
    me = thread_row(0)
    while m[me + at.INDEX] < m[at.IO_THREADS]:
        found = seen(m, thread_row(m[me + at.INDEX]) + at.TO_MAIN, now)
        if found > 0:
            m[at.PRODUCTIVE] = 1
            m[me + at.COUNT] = found
            m[me + at.AMOUNT] = 0
            m[me + at.BATCHED] = 0
            m[me + at.PHASE] = SERVING
            return work(m, me, now, m[at.COLLECT_PS])
        m[me + at.INDEX] += 1
    return -1


@inlined
def first_coming(m):
    """When the first of the commands in any channel can be seen; INFINITY_PS if there are none."""
    first = INFINITY_PS
    for number in range(1, m[at.IO_THREADS]):
        channel = thread_row(number) + at.TO_MAIN
        if length(m, channel) > 0:
            first = min(first, first_stamp(m, channel))
    return first


@inlined
def main_step(m, calendar, now):
    """Advance the main thread whose present step ends now; returns when the next one ends."""
    me = thread_row(0)
    phase = m[me + at.PHASE]
    if phase == SERVING:
        if m[me + at.COUNT] > 0:
            return serve(m, now)
        if sleeps(m, calendar, m[me + at.INDEX], now + m[at.WAKE_LATENCY_PS]):
            m[me + at.PHASE] = RINGING
            m[at.PAID_WAKES] += 1
            return work(m, me, now, m[at.WAKE_SEND_PS])
        hand_back(m, calendar, now)
    elif phase == RINGING:
        hand_back(m, calendar, now)
    elif phase == DOZING:
        first = first_coming(m)
        if first == INFINITY_PS:
            m[me + at.PHASE] = SLEEPING
            m[me + at.ASLEEP] = 1
            m[me + at.WAITS] = at.SLEEPS
            return INFINITY_PS
        m[me + at.PHASE] = TURN
        m[me + at.WAITS] = at.SPINS
        return max(now, first)
    elif phase == SLEEPING:
        m[me + at.PHASE] = TURN
        m[at.BLOCKS] += 1
        return work(m, me, now, m[at.BLOCK_PS] + polling(m, 1))
    if phase != TURN:
        reached = look_at_channels(m, now)
        if reached >= 0:
            return reached
        m[at.LOOPS] += 1
        if not m[at.PRODUCTIVE]:
            m[me + at.PHASE] = DOZING
            return work(m, me, now, m[at.DOZE_PS])
    m[me + at.PHASE] = LOOKING
    m[me + at.INDEX] = 1
    m[at.PRODUCTIVE] = 0
    looks = m[at.LOOP_PS] + (m[at.IO_THREADS] - 1) * m[at.SCAN_PS] + flush_ps(m, now)
    return work(m, me, now, looks + accept(m, now))


# --- an I/O thread --------------------------------------------------------------------------------


@inlined
def read_next(m, me, now):
    """Read, and from 7.1 on parse, what the next client has sent; returns when that ends."""
    client = next_event(m, me)
    if m[client + at.JOBS] & at.READING:
        # Its earlier commands are still with the main thread.
        return work(m, me, now, m[at.SCAN_PS])
    duration = read_socket(m, client)
    index = m[client + at.EXECUTED]
    last = m[client + at.READ]
    if last > index:
        duration += m[at.POP_PS]
        m[client + at.JOBS] |= at.READING
        push(m, me + at.TO_MAIN, INFINITY_PS, client)
        m[me + at.BATCHED] += 1
    if m[at.WHOLE_PIPELINE]:
        while index < last:
            duration += about(m, mark_of(m, client, index), at.PARSE_PS)
            index += 1
    return work(m, me, now, duration)


@inlined
def read_all(m, me, now):
    """Read what the poll has reported as far as it goes in one go; returns until when."""
    reached = now
    while m[me + at.COUNT] > 0:
        reached = read_next(m, me, reached)
        if not in_one_go(m, reached):
            break
    return reached


@inlined
def look(m, me, now):
    """Poll, and look for replies; returns when the next step ends."""
    phase = m[me + at.PHASE]
    found = poll_sockets(m, me, now)
    answered = seen(m, me + at.FROM_MAIN, now)
    handshakes = m[me + at.HANDSHAKES_DUE]
    if found + answered + handshakes == 0:
        if phase != DOZING:
            m[me + at.PHASE] = DOZING
            return work(m, me, now, m[at.DOZE_PS])
        if length(m, me + at.FROM_MAIN) > 0 and first_stamp(m, me + at.FROM_MAIN) < INFINITY_PS:
            m[me + at.WAITS] = at.SPINS
            return first_stamp(m, me + at.FROM_MAIN)
        m[me + at.PHASE] = SLEEPING
        return sleep_in_epoll(m, me)
    duration = polling(m, found) + handshakes * m[at.HANDSHAKE_PS]
    m[me + at.HANDSHAKES_DUE] = 0
    if phase in (SLEEPING, NEW):
        m[at.BLOCKS] += 1
        duration += m[at.BLOCK_PS]
    m[me + at.COUNT] = found
    m[me + at.AMOUNT] = answered
    m[me + at.PHASE] = POLLED
    polled = work(m, me, now, duration)
    return read_all(m, me, polled) if in_one_go(m, polled) else polled


@inlined
def io_step(m, calendar, thread, now):
    """Advance an I/O thread whose present step ends now; returns when the next one ends."""
    me = thread_row(thread)
    phase = m[me + at.PHASE]
    if phase in (POLLED, RINGING, WRITING):
        if phase == POLLED:
            if m[me + at.COUNT] > 0:
                return read_all(m, me, now)
            if m[me + at.BATCHED] > 0 and sleeps(m, calendar, 0, now + m[at.WAKE_LATENCY_PS]):
                m[me + at.PHASE] = RINGING
                m[at.PAID_WAKES] += 1
                return work(m, me, now, m[at.WAKE_SEND_PS])
        if phase == WRITING:
            client = m[me + at.CLIENT]
            end_write(m, calendar, client, now)
            m[client + at.JOBS] &= ~at.READING
        elif m[me + at.BATCHED] > 0:
            hand_over(m, calendar, me + at.TO_MAIN, m[me + at.BATCHED], 0, now)
            m[me + at.BATCHED] = 0
        if m[me + at.AMOUNT] > 0:
            m[me + at.AMOUNT] -= 1
            client = pop(m, me + at.FROM_MAIN)
            m[me + at.CLIENT] = client
            m[me + at.PHASE] = WRITING
            return work(m, me, now, m[at.POP_PS] + begin_write(m, client))
        m[me + at.PHASE] = AWAKE
    return look(m, me, now)


@inlined
def begin(m, calendar):
    """I/O threads begin asleep."""
    for thread in range(1, m[at.IO_THREADS]):
        begin_asleep(m, calendar, thread)


@inlined
def server_step(m, calendar, agent, now):
    """Advance a thread whose present step ends now; returns when the next one ends."""
    return io_step(m, calendar, agent, now) if agent > 0 else main_step(m, calendar, now)


@inlined
def finish(m):
    """The main thread never spins."""
    m[thread_row(0) + at.ON_CPU_PS] = m[thread_row(0) + at.BUSY_PS]
