"""The load generator: its threads, and the sources that tell them what to send when."""

from forecache.sim.calendar import INFINITY_PS, schedule
from forecache.sim.histogram import record
from forecache.sim.stamped_rings import (
    POPPED,
    PUSHED,
    capacity,
    entry_of,
    first_stamp,
    length,
    pop,
    push,
    put,
    take,
)
from forecache.sim.streams import draw4

from .. import layout as at
from .arrivals import begin_piece, given_code, next_arrival, source_row
from .connections import plan_first_connection
from .inline import inlined, unlikely
from .interruptions import plan_first_interruption, step_end
from .quota import plan_period
from .sockets import (
    about,
    account_work,
    copying,
    deliver_request,
    generator_of,
    number_of,
    owner_of,
    reply_bytes,
    slot_of,
    thread_row,
    work,
)

REQUEST_DRAWS = 1
_DRAW_SHIFT = 22  # leaves ten bits of a word: the slots of the command table

# Phases of a generator thread.
LOOKING = 0  # about to call epoll_wait
DOZING = 1  # on the way to sleep; what arrives meanwhile is found without a wake-up
WAKING = 2  # asleep, or woken and about to run
HANDLING = 3  # busy with the poll or a client
TAKING = 4  # busy with taking a client's replies, where that is a step of its own

NOTHING = -1


@inlined
def draw_mark(m, number, index):
    """What a client's command number `index` is: code and quantiles of stall and jitter.

    All come from one address of the random streams.
    """
    first, second, third, _ = draw4(m[at.SEED], m[at.REPLICATION], number, REQUEST_DRAWS, index)
    code = m[at.CODE_BY_DRAW + (int(first) >> _DRAW_SHIFT)]
    if unlikely(int(third) < m[at.RARE_BELOW]):
        code = at.CODE_ROWS
        while int(third) >= m[code + at.RARE]:
            code += at.CODE_WORDS
    return code | ((int(second) & 0xFFFFFF) << at.STALL_DRAW)


@inlined
def compose(m, client, commands, due_ps, code):
    """Make a client's next commands, of the code in this row unless it is 0; returns their bytes.

    Each mark is drawn one command ahead: nothing waits for it then.
    """
    number = number_of(m, client)
    index = m[client + at.SENT]
    last = index + commands
    mark = m[client + at.NEXT_MARK]
    size_bytes = 0
    while index < last:
        slot = slot_of(m, client, index)
        if unlikely(code > 0):
            mark = (mark & ~at.MARK_CODE) | code
        m[slot + at.MARK] = mark
        m[slot + at.DUE_PS] = due_ps
        size_bytes += about(m, mark, at.REQUEST_BYTES)
        index += 1
        mark = draw_mark(m, number, index)
    m[client + at.SENT] = last
    m[client + at.NEXT_MARK] = mark
    return size_bytes


@inlined
def complete(m, histogram, client, index, done_ps):
    """Record one reply taken by its client."""
    latency = done_ps - m[slot_of(m, client, index) + at.DUE_PS]
    if m[at.WARMUP_PS] <= done_ps < m[at.END_PS]:
        m[at.COMPLETIONS] += 1
        record(histogram, latency)
    elif done_ps < m[at.WARMUP_PS]:
        m[at.COMPLETED_EARLY] += 1
    into = done_ps - m[at.ENTRY_FROM_PS]
    if into < 0 or into >= m[at.SERIES_PS]:
        number = min(done_ps // m[at.SERIES_PS], m[at.SERIES_ENTRIES])
        m[at.ENTRY_FROM_PS] = number * m[at.SERIES_PS]
        m[at.ENTRY] = m[at.SERIES] + at.SERIES_WORDS * number
    entry = m[at.ENTRY]
    m[entry] += 1
    m[entry + 1] += latency
    logged = m[at.LOGGED]
    if logged < m[at.LOG_ENTRIES]:
        m[m[at.LOG] + 3 * logged] = number_of(m, client)
        m[m[at.LOG] + 3 * logged + 1] = index
        m[m[at.LOG] + 3 * logged + 2] = done_ps
        m[at.LOGGED] = logged + 1


@inlined
def sending_ps(m, owner_sleeps, commands, size_bytes):
    """Duration of one send of the generator."""
    duration = m[at.GENERATOR_SEND_PS] + commands * m[at.GENERATOR_REQUEST_PS]
    duration += copying(m, size_bytes)
    if m[at.SAME_HOST] and owner_sleeps:
        duration += m[at.WAKE_SEND_PS]
    return duration


@inlined
def receive_replies(m, me, now):
    """Move replies that have arrived by now into the clients' sockets."""
    wire = me + at.QUEUE
    popped, pushed = m[wire + POPPED], m[wire + PUSHED]
    while popped < pushed:
        entry = entry_of(m, wire, popped)
        if m[entry] > now:
            break
        popped += 1
        message = m[entry + 1]
        client = message >> at.COUNT_BITS
        returned = m[client + at.RETURNED]
        m[client + at.RETURNED] = returned + (message & at.COUNT_MASK)
        if returned == m[client + at.RECEIVED]:
            # It was not in the list: there was nothing to take.
            put(m, me + at.READY_CLIENTS, client)
    m[wire + POPPED] = popped


@inlined
def take_replies(m, histogram, me, now):
    """Handle the next ready client: take its replies and, if it is due, send again at once."""
    client = take(m, me + at.READY_CLIENTS)
    index = m[client + at.RECEIVED]
    last = m[client + at.RETURNED]
    duration = m[at.GENERATOR_RECV_PS] + (last - index) * m[at.GENERATOR_REPLY_PS]
    duration += copying(m, reply_bytes(m, client, index, last))
    done_ps = step_end(m, me, now, duration)
    m[client + at.RECEIVED] = last
    asleep = m[thread_row(owner_of(m, client)) + at.ASLEEP]
    if unlikely(m[at.CROWDED]):
        # The thread may lose its core on the way.
        m[me + at.PHASE] = TAKING
        m[me + at.CLIENT] = client
        m[me + at.COUNT] = 0
        m[me + at.TAKING_FROM] = index
        m[me + at.OWNER_SLEPT] = asleep
        return account_work(m, me, now, done_ps)
    ends_ps = end_taking(m, histogram, me, client, index, asleep, done_ps)
    return account_work(m, me, now, ends_ps)


@inlined
def end_taking(m, histogram, me, client, index, owner_slept, done_ps):
    """A client's replies from `index` on are taken; returns when it has sent again, if it does."""
    last = m[client + at.RECEIVED]
    while index < last:
        complete(m, histogram, client, index, done_ps)
        index += 1
    ends_ps = done_ps
    m[me + at.CLIENT] = NOTHING
    if last == m[client + at.SENT] and m[at.OPEN_LOOP]:
        put(m, me + at.IDLE_CLIENTS, client)
    elif last == m[client + at.SENT]:
        m[me + at.CLIENT] = client
        m[me + at.COUNT] = 0
        if m[at.THINK_PS] == 0:
            commands = m[at.PIPELINE]
            size_bytes = compose(m, client, commands, done_ps, 0)
            m[me + at.COUNT] = commands
            m[me + at.AMOUNT] = size_bytes
            sending = sending_ps(m, owner_slept, commands, size_bytes)
            ends_ps = step_end(m, me, done_ps, sending)
    return ends_ps


@inlined
def take_task(m, me, now):
    """Send what a source asked for; in an open loop on the connection that has waited longest."""
    due_ps = first_stamp(m, me + at.TASKS)
    client = pop(m, me + at.TASKS)
    commands = m[at.PIPELINE]
    code = 0
    if m[at.OPEN_LOOP]:
        code = client  # there is none yet
        client = take(m, me + at.IDLE_CLIENTS)
        commands = 1
    size_bytes = compose(m, client, commands, due_ps, code)
    m[me + at.CLIENT] = client
    m[me + at.COUNT] = commands
    m[me + at.AMOUNT] = size_bytes
    asleep = m[thread_row(owner_of(m, client)) + at.ASLEEP]
    return work(m, me, now, sending_ps(m, asleep, commands, size_bytes))


@inlined
def next_in_snapshot(m, histogram, me, now):
    """Begin the next entry of the present poll: replies first, then what is due to be sent."""
    left = m[me + at.INDEX] - 1
    m[me + at.INDEX] = left
    if left >= m[me + at.TASKS_LEFT]:
        return take_replies(m, histogram, me, now)
    return take_task(m, me, now)


@inlined
def end_handling(m, calendar, me, now):
    """What was composed leaves, or the client begins to think."""
    client = m[me + at.CLIENT]
    if client == NOTHING:
        return
    m[me + at.CLIENT] = NOTHING
    if m[me + at.COUNT] > 0:
        deliver_request(m, calendar, client, m[me + at.COUNT], m[me + at.AMOUNT], now)
    else:
        source = m[at.IO_THREADS] + m[at.GENERATORS] + number_of(m, client)
        schedule(calendar, source, now + m[at.THINK_PS])


@inlined
def fall_asleep(m, me, now):
    """There is nothing to do: doze, then sleep; returns when the thread next looks.

    If only the replies on its wire can wake it, and what is on the wire is all that can
    arrive while it dozes, the outcome is known at once, and dozing needs no event of its own.
    """
    if m[at.GENERATOR_SPINS]:
        # It keeps polling; how many polls find nothing does not matter.
        m[me + at.PHASE] = LOOKING
        m[me + at.WAITS] = at.SPINS
        if length(m, me + at.QUEUE) > 0:
            return first_stamp(m, me + at.QUEUE)
        m[me + at.ASLEEP] = 1
        return INFINITY_PS
    if m[me + at.PHASE] != DOZING:
        dozed = work(m, me, now, m[at.DOZE_PS])
        certain = dozed < now + m[at.LOOKAHEAD_PS]
        arrives = length(m, me + at.QUEUE) > 0 and first_stamp(m, me + at.QUEUE) <= dozed
        if arrives or not certain:
            m[me + at.PHASE] = DOZING
            return dozed
    m[me + at.PHASE] = WAKING
    m[me + at.WAITS] = at.SLEEPS
    if length(m, me + at.QUEUE) > 0:
        return first_stamp(m, me + at.QUEUE) + m[at.WAKE_LATENCY_PS]
    m[me + at.ASLEEP] = 1
    return INFINITY_PS


@inlined
def sendable(m, me):
    """How many due requests can be sent now: those that find a connection."""
    tasks = length(m, me + at.TASKS)
    if m[at.OPEN_LOOP]:
        tasks = min(tasks, length(m, me + at.IDLE_CLIENTS))
    return tasks


@inlined
def generator_step(m, histogram, calendar, agent, now):
    """Advance a generator thread whose present step ends now; returns when the next one ends."""
    me = thread_row(agent)
    if unlikely(m[me + at.PHASE] == TAKING):
        m[me + at.PHASE] = HANDLING
        slept, index = m[me + at.OWNER_SLEPT], m[me + at.TAKING_FROM]
        ends_ps = end_taking(m, histogram, me, m[me + at.CLIENT], index, slept, now)
        if ends_ps > now:
            return account_work(m, me, now, ends_ps)
    if m[me + at.PHASE] == HANDLING:
        end_handling(m, calendar, me, now)
        if m[me + at.INDEX] > 0:
            return next_in_snapshot(m, histogram, me, now)
    receive_replies(m, me, now)
    tasks = sendable(m, me)
    found = length(m, me + at.READY_CLIENTS) + tasks
    if found == 0:
        looks = fall_asleep(m, me, now)
        if looks >= min(now + m[at.LOOKAHEAD_PS], m[at.UNTIL_PS]):
            return looks
        # All that will have arrived by then is on the wire already.
        now = looks
        receive_replies(m, me, now)
        found = length(m, me + at.READY_CLIENTS)
    polling_ps = m[at.GENERATOR_POLL_PS] + found * m[at.GENERATOR_POLL_EVENT_PS]
    if m[me + at.PHASE] == WAKING:
        polling_ps += m[at.BLOCK_PS]
    m[me + at.PHASE] = HANDLING
    m[me + at.CLIENT] = NOTHING
    m[me + at.INDEX] = found
    m[me + at.TASKS_LEFT] = tasks
    m[at.GENERATOR_POLLS] += 1
    polled = work(m, me, now, polling_ps)
    if m[at.SAME_HOST] or m[at.CROWDED] or polled >= m[at.UNTIL_PS]:
        return polled
    # On another host nothing the first client's handling depends on changes before it begins. If it
    # is a request that fell due, it counts as still in the ring until then.
    m[me + at.TAKEN_PS] = polled if tasks == found else 0
    return next_in_snapshot(m, histogram, me, polled)


@inlined
def source_step(m, calendar, agent, now):
    """A request falls due: tell the generator thread; returns when the source's next one is."""
    source = agent - m[at.IO_THREADS] - m[at.GENERATORS]
    if m[at.OPEN_LOOP]:
        generator = m[at.IO_THREADS] + source
        row = source_row(m, source)
        index = m[row + at.NEXT_REQUEST]
        m[row + at.NEXT_REQUEST] = index + 1
        if unlikely(index == 0 and m[at.PIECES] > 0):
            begin_piece(m, row, 0, 0)
        following = next_arrival(m, source, index, now)
        if following >= m[at.END_PS]:
            following = INFINITY_PS
        client = given_code(m, source, index - 1)
        if index == 0:
            # The first call only draws the first gap: nothing is due at time zero.
            return following
        m[at.ARRIVALS] += 1
        m[m[at.SERIES] + at.SERIES_WORDS * (now // m[at.SERIES_PS]) + 2] += 1
    else:
        client = m[at.CLIENT_ROWS] + (source << at.CLIENT_SHIFT)
        generator = generator_of(m, client)
        following = INFINITY_PS
    thread = thread_row(generator)
    taken_early = 1 if now < m[thread + at.TAKEN_PS] else 0
    if length(m, thread + at.TASKS) + taken_early >= capacity(m, thread + at.TASKS):
        m[at.OVERFLOWS] += 1
        return following
    push(m, thread + at.TASKS, now, client)
    # Without a free connection there is nothing to send: only a reply wakes the thread.
    if m[thread + at.ASLEEP] and sendable(m, thread) > 0:
        m[thread + at.ASLEEP] = 0
        schedule(calendar, generator, now)
    return following


@inlined
def begin_asleep(m, calendar, thread):
    """A thread sleeps when the run begins; it needs no core for that."""
    m[thread_row(thread) + at.ASLEEP] = 1
    schedule(calendar, thread, INFINITY_PS)


@inlined
def start(m, calendar):
    """Give every agent its first event: clients send as their thread starts or a source says."""
    m[at.UNTIL_PS] = m[at.WARMUP_PS]
    plan_first_connection(m)
    if m[at.QUOTA_PS] > 0:
        plan_period(m, calendar, 0)
    schedule(calendar, 0, 0)
    for agent in range(m[at.IO_THREADS] + m[at.GENERATORS]):
        plan_first_interruption(m, thread_row(agent))
    for agent in range(1, m[at.IO_THREADS]):
        if m[at.CROWDED]:
            # It may have to wait for a core before it finds that there is nothing to do.
            schedule(calendar, agent, 0)
        else:
            m[thread_row(agent) + at.ASLEEP] = 1
    first = m[at.IO_THREADS]
    for generator in range(m[at.GENERATORS]):
        if m[at.OPEN_LOOP]:
            schedule(calendar, first + generator, 0)
            schedule(calendar, first + m[at.GENERATORS] + generator, 0)
        else:
            schedule(calendar, first + generator, generator * m[at.GENERATOR_START_PS])
    for number in range(m[at.CLIENTS]):
        client = m[at.CLIENT_ROWS] + (number << at.CLIENT_SHIFT)
        m[client + at.NEXT_MARK] = draw_mark(m, number, 0)
        thread = thread_row(generator_of(m, client))
        if m[at.OPEN_LOOP]:
            put(m, thread + at.IDLE_CLIENTS, client)
        else:
            starts_ps = (generator_of(m, client) - first) * m[at.GENERATOR_START_PS]
            push(m, thread + at.TASKS, starts_ps, client)
