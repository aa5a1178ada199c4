"""The load generator: its threads, and the sources that tell them what to send when."""

from numba import njit

from forecache.sim.calendar import INFINITY_PS, schedule
from forecache.sim.histogram import record
from forecache.sim.stamped_rings import capacity, first_stamp, length, pop, push
from forecache.sim.streams import draw4, exponential_ps, to_unit

from .. import layout as at
from .sockets import (
    COUNT_BITS,
    client_row,
    copying,
    count,
    deliver_request,
    reply_bytes,
    thread_row,
    work,
)

REQUEST_DRAWS = 1
ARRIVAL_DRAWS = 2
_COUNT_MASK = (1 << COUNT_BITS) - 1
_DRAW_SHIFT = 22  # leaves ten bits of a word: the slots of the command table

# Phases of a generator thread.
LOOKING = 0  # about to call epoll_wait
WAKING = 1  # asleep, or woken and about to run
HANDLING = 2  # busy with the poll or a client
DOZING = 3  # on its way to sleep

NOTHING = -1


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def compose(m, client, commands, due_ps):
    """Draw a client's next commands; returns their bytes.

    A mark packs the command code | stall quantile << 8 | read jitter << 16 | write jitter << 24,
    all from one address of the random streams.
    """
    row = client_row(m, client)
    mask = m[at.OUTSTANDING_MASK]
    rings = client * (mask + 1)
    size_bytes = 0
    for index in range(m[row + at.SENT], m[row + at.SENT] + commands):
        first, second, _, _ = draw4(m[at.SEED], m[at.REPLICATION], client, REQUEST_DRAWS, index)
        code = m[m[at.CODE] + (int(first) >> _DRAW_SHIFT)]
        slot = rings + (index & mask)
        m[m[at.MARKS] + slot] = code | ((int(second) & 0xFFFFFF) << 8)
        m[m[at.DUE] + slot] = due_ps
        size_bytes += m[m[at.REQUEST_BYTES] + code]
    m[row + at.SENT] += commands
    return size_bytes


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def complete(m, histogram, client, index, done_ps):
    """Record one reply taken by its client."""
    mask = m[at.OUTSTANDING_MASK]
    latency = done_ps - m[m[at.DUE] + client * (mask + 1) + (index & mask)]
    if m[at.WARMUP_PS] <= done_ps < m[at.END_PS]:
        m[at.COMPLETIONS] += 1
        record(histogram, latency)
    entry = done_ps // m[at.SERIES_PS]
    if entry < m[at.SERIES_ENTRIES]:
        m[m[at.SERIES] + 2 * entry] += 1
        m[m[at.SERIES] + 2 * entry + 1] += latency
    logged = m[at.LOGGED]
    if logged < m[at.LOG_ENTRIES]:
        m[m[at.LOG] + 3 * logged] = client
        m[m[at.LOG] + 3 * logged + 1] = index
        m[m[at.LOG] + 3 * logged + 2] = done_ps
        m[at.LOGGED] = logged + 1


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def sending_ps(m, commands, size_bytes):
    """Duration of one send of the generator."""
    duration = m[at.GENERATOR_SEND_PS] + commands * m[at.GENERATOR_REQUEST_PS]
    duration += copying(m, size_bytes)
    if m[at.SAME_HOST] and m[thread_row(m, 0) + at.ASLEEP]:
        duration += m[at.WAKE_SEND_PS]
    return duration


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def receive_replies(m, generator, now):
    """Move replies that have arrived by now into the clients' sockets."""
    wire = m[at.REPLY_WIRES] + generator * m[at.REPLY_WIRE_WORDS]
    while length(m, wire) > 0 and first_stamp(m, wire) <= now:
        entry = pop(m, wire)
        client = entry >> COUNT_BITS
        row = client_row(m, client)
        m[row + at.RETURNED] += entry & _COUNT_MASK
        if not m[row + at.READY]:
            m[row + at.READY] = 1
            push(m, m[at.READY_CLIENTS] + generator * m[at.READY_WORDS], 0, client)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def take_replies(m, histogram, agent, now):
    """Handle the next ready client: take its replies and, if it is due, send again at once."""
    generator = agent - m[at.IO_THREADS]
    client = pop(m, m[at.READY_CLIENTS] + generator * m[at.READY_WORDS])
    row = client_row(m, client)
    me = thread_row(m, agent)
    first = m[row + at.RECEIVED]
    last = m[row + at.RETURNED]
    duration = m[at.GENERATOR_RECV_PS] + (last - first) * m[at.GENERATOR_REPLY_PS]
    duration += copying(m, reply_bytes(m, client, first, last))
    done_ps = now + duration
    for index in range(first, last):
        complete(m, histogram, client, index, done_ps)
    m[row + at.RECEIVED] = last
    m[row + at.READY] = 0
    m[me + at.CLIENT] = NOTHING
    if not m[at.OPEN_LOOP] and last == m[row + at.SENT]:
        m[me + at.CLIENT] = client
        m[me + at.COUNT] = 0
        if m[at.THINK_PS] == 0:
            commands = m[at.PIPELINE]
            size_bytes = compose(m, client, commands, done_ps)
            m[me + at.COUNT] = commands
            m[me + at.AMOUNT] = size_bytes
            duration += sending_ps(m, commands, size_bytes)
    return work(m, agent, now, duration)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def take_task(m, agent, now):
    """Send what a source asked for, or count it as overflowing if the client has no room."""
    generator = agent - m[at.IO_THREADS]
    tasks = m[at.TASKS] + generator * m[at.TASK_WORDS]
    due_ps = first_stamp(m, tasks)
    client = pop(m, tasks)
    row = client_row(m, client)
    me = thread_row(m, agent)
    m[me + at.CLIENT] = NOTHING
    commands = 1 if m[at.OPEN_LOOP] else m[at.PIPELINE]
    if m[row + at.SENT] - m[row + at.RECEIVED] + commands > m[at.OUTSTANDING_MASK] + 1:
        count(m, at.OVERFLOWS, now, commands)
        return now
    size_bytes = compose(m, client, commands, due_ps)
    m[me + at.CLIENT] = client
    m[me + at.COUNT] = commands
    m[me + at.AMOUNT] = size_bytes
    return work(m, agent, now, sending_ps(m, commands, size_bytes))


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def next_in_snapshot(m, histogram, agent, now):
    """Begin the next entry of the present poll: replies first, then what is due to be sent."""
    me = thread_row(m, agent)
    m[me + at.INDEX] -= 1
    if m[me + at.INDEX] >= m[me + at.TASKS_LEFT]:
        return take_replies(m, histogram, agent, now)
    return take_task(m, agent, now)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def generator_step(m, histogram, calendar, agent, now):
    """Advance a generator thread whose present step ends now; returns when the next one ends."""
    generator = agent - m[at.IO_THREADS]
    me = thread_row(m, agent)
    extra_ps = 0
    if m[me + at.PHASE] == HANDLING:
        client = m[me + at.CLIENT]
        if client != NOTHING:
            m[me + at.CLIENT] = NOTHING
            if m[me + at.COUNT] > 0:
                deliver_request(m, calendar, client, m[me + at.COUNT], m[me + at.AMOUNT], now)
            else:
                source = m[at.IO_THREADS] + m[at.GENERATORS] + client
                schedule(calendar, source, now + m[at.THINK_PS])
        if m[me + at.INDEX] > 0:
            return next_in_snapshot(m, histogram, agent, now)
    elif m[me + at.PHASE] == WAKING:
        extra_ps = m[at.BLOCK_PS]
    receive_replies(m, generator, now)
    tasks = length(m, m[at.TASKS] + generator * m[at.TASK_WORDS])
    found = length(m, m[at.READY_CLIENTS] + generator * m[at.READY_WORDS]) + tasks
    if found == 0:
        if m[me + at.PHASE] != DOZING:
            m[me + at.PHASE] = DOZING
            return work(m, agent, now, m[at.DOZE_PS])
        m[me + at.PHASE] = WAKING
        wire = m[at.REPLY_WIRES] + generator * m[at.REPLY_WIRE_WORDS]
        if length(m, wire) > 0:
            return first_stamp(m, wire) + m[at.WAKE_LATENCY_PS]
        m[me + at.ASLEEP] = 1
        return INFINITY_PS
    m[me + at.PHASE] = HANDLING
    m[me + at.CLIENT] = NOTHING
    m[me + at.INDEX] = found
    m[me + at.TASKS_LEFT] = tasks
    count(m, at.GENERATOR_POLLS, now, 1)
    polling_ps = m[at.GENERATOR_POLL_PS] + found * m[at.GENERATOR_POLL_EVENT_PS]
    polled = work(m, agent, now, extra_ps + polling_ps)
    if m[at.SAME_HOST]:
        return polled
    # On another host nothing the first client's handling depends on changes before it begins. If it
    # is a request that fell due, it counts as still in the ring until then.
    m[me + at.TAKEN_PS] = polled if tasks == found else 0
    return next_in_snapshot(m, histogram, agent, polled)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def source_step(m, calendar, agent, now):
    """A request falls due: tell the generator thread; returns when the source's next one is."""
    source = agent - m[at.IO_THREADS] - m[at.GENERATORS]
    if m[at.OPEN_LOOP]:
        generator = source
        index = m[m[at.SOURCE_INDEX] + source]
        m[m[at.SOURCE_INDEX] + source] = index + 1
        gap, choice, _, _ = draw4(m[at.SEED], m[at.REPLICATION], source, ARRIVAL_DRAWS, index)
        mine = (m[at.CLIENTS] - generator + m[at.GENERATORS] - 1) // m[at.GENERATORS]
        client = generator + m[at.GENERATORS] * int(to_unit(choice) * mine)
        following = now + exponential_ps(to_unit(gap), float(m[at.MEAN_INTERARRIVAL_PS]))
        if index == 0:
            # The first call only draws the first gap: nothing is due at time zero.
            return following
        count(m, at.ARRIVALS, now, 1)
    else:
        client = source
        generator = client % m[at.GENERATORS]
        following = INFINITY_PS
    tasks = m[at.TASKS] + generator * m[at.TASK_WORDS]
    thread = thread_row(m, m[at.IO_THREADS] + generator)
    taken_early = 1 if now < m[thread + at.TAKEN_PS] else 0
    if length(m, tasks) + taken_early >= capacity(m, tasks):
        count(m, at.OVERFLOWS, now, 1)
        return following
    push(m, tasks, now, client)
    if m[thread + at.ASLEEP]:
        m[thread + at.ASLEEP] = 0
        schedule(calendar, m[at.IO_THREADS] + generator, now)
    return following


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def start(m, calendar):
    """Give every agent its first event: clients send at time zero, or when their source says."""
    m[at.ACTIVE_THREADS] = m[at.INITIAL_ACTIVE]
    schedule(calendar, 0, 0)
    for generator in range(m[at.GENERATORS]):
        schedule(calendar, m[at.IO_THREADS] + generator, 0)
    if m[at.OPEN_LOOP]:
        for source in range(m[at.GENERATORS]):
            schedule(calendar, m[at.IO_THREADS] + m[at.GENERATORS] + source, 0)
    else:
        for client in range(m[at.CLIENTS]):
            tasks = m[at.TASKS] + (client % m[at.GENERATORS]) * m[at.TASK_WORDS]
            push(m, tasks, 0, client)
