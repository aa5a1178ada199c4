"""Policy: I/O threads that own their clients (Redis 8).

Every I/O thread has an event loop of its own; clients with commands move to a list for the main
thread and come back. Rules and constants: iothread.c and memory_prefetch.c of Redis 8.2; the
reference execution states them in the order in which the threads follow them.
"""

from forecache.sim.stamped_rings import POPPED, PUSHED, entry_of, length, push

from .. import layout as at
from .connections import accept_alone
from .generator import begin_asleep
from .hand_over import DOZING, POLLED, WAKING, tell, telling, wait
from .inline import inlined
from .log import flush_ps
from .main_thread import KIND_BITS, READ_JOB, WRITE_JOB, begin_job
from .sockets import end_write, execute_commands, keys_of, next_event, thread_row, work

MAIN = 0

# Phases after those of `hand_over`: what ends when the thread's time comes.
# fmt: off
(
    TURNING, NOTICED, TAKEN, JOINED, TOLD,
    LOOKED_UP, EXECUTED,  # main thread
    SCANNED, READ, WRITTEN,  # I/O thread
) = range(POLLED + 1, POLLED + 11)
# fmt: on


@inlined
def client_at(m, ring, number):
    """The client that was put into a list after so many others."""
    return m[entry_of(m, ring, number) + 1]


@inlined
def begin_taking(m, me, ring, last, now):
    """Take a whole list, up to the entry before `last`; returns when its lock is released."""
    m[me + at.POSITION] = m[ring + POPPED]
    m[me + at.LEFT] = last - m[ring + POPPED]
    m[ring + POPPED] = last
    m[me + at.PHASE] = TAKEN
    return work(m, me, now, m[at.DONE_PS])


@inlined
def next_taken(m, me, ring):
    """The next client of the list that was taken."""
    client = client_at(m, ring, m[me + at.POSITION])
    m[me + at.POSITION] += 1
    m[me + at.LEFT] -= 1
    return client


@inlined
def begin_joining(m, me, now):
    """Join a group of clients to a peer's list; returns when its lock is released."""
    m[me + at.PHASE] = JOINED
    m[at.LIST_MOVES] += 1
    return work(m, me, now, m[at.DONE_PS])


# --- the main thread ------------------------------------------------------------------------------


@inlined
def begin_turn(m, now):
    """The main thread looks at every thread's list before it sleeps; returns when it has."""
    me = thread_row(MAIN)
    m[me + at.PHASE] = TURNING
    m[at.LOOPS] += 1
    looks = m[at.LOOP_PS] + (m[at.IO_THREADS] - 1) * m[at.SCAN_PS] + flush_ps(m, now)
    return work(m, me, now, looks)


@inlined
def handed_over(m, thread):
    """How many clients an I/O thread (by its row) has handed over that main has not taken."""
    return m[thread + at.HANDED_OVER] - m[thread + at.TO_MAIN + POPPED]


@inlined
def next_thread(m, now):
    """Go on to the next I/O thread that wants something; returns when the next step ends, or -1.

    `AGAIN` says whether it is a look at all lists, or eventfds are read.
    """
    me = thread_row(MAIN)
    while m[me + at.INDEX] + 1 < m[at.IO_THREADS]:
        m[me + at.INDEX] += 1
        thread = thread_row(m[me + at.INDEX])
        if m[me + at.AGAIN]:
            if m[thread + at.TOLD_MAIN]:
                m[thread + at.TOLD_MAIN] = 0
                m[me + at.TOLD] -= 1
                m[me + at.PHASE] = NOTICED
                return work(m, me, now, m[at.NOTICE_PS])
        elif handed_over(m, thread) > 0:
            m[me + at.DONT_SLEEP] = 1
            ring = thread + at.TO_MAIN
            return begin_taking(m, me, ring, m[thread + at.HANDED_OVER], now)
    return -1


@inlined
def begin_batch(m, now):
    """Look the keys of the next clients up together; returns when that ends.

    A last batch may be twice as large: better than a small one after it. A single key is not looked
    up ahead.
    """
    me = thread_row(MAIN)
    ring = thread_row(m[me + at.INDEX]) + at.TO_MAIN
    limit = m[at.PREFETCH_BATCH]
    left = m[me + at.LEFT]
    m[me + at.FETCHED] = 0
    if limit < 2:
        m[me + at.AMOUNT] = left
        return -1
    most = left if left <= 2 * limit else limit
    size = 0
    keys = 0
    while size < most and keys < 2 * limit:
        client = client_at(m, ring, m[me + at.POSITION] + size)
        size += 1
        index = m[client + at.EXECUTED]
        ready = m[client + at.READ] - index
        parsed = ready if m[at.WHOLE_PIPELINE] else min(ready, 1)
        keys += keys_of(m, client, index, index + parsed)
    m[me + at.AMOUNT] = size
    keys = min(keys, 2 * limit)
    if keys < 2:
        return -1
    m[me + at.FETCHED] = keys
    m[at.PREFETCH_BATCHES] += 1
    m[at.PREFETCHED_KEYS] += keys
    m[me + at.PHASE] = LOOKED_UP
    return work(m, me, now, m[m[at.PREFETCH] + keys])


@inlined
def begin_execution(m, now):
    """Execute what the next client of the batch has sent; returns when that ends."""
    me = thread_row(MAIN)
    client = next_taken(m, me, thread_row(m[me + at.INDEX]) + at.TO_MAIN)
    m[me + at.CLIENT] = client
    m[me + at.AMOUNT] -= 1
    index = m[client + at.EXECUTED]
    ready = m[client + at.READ] - index
    parsed = ready if m[at.WHOLE_PIPELINE] else min(ready, 1)
    fetched = min(keys_of(m, client, index, index + parsed), m[me + at.FETCHED])
    m[me + at.FETCHED] -= fetched
    m[me + at.PHASE] = EXECUTED
    duration = m[at.COLLECT_PS] + execute_commands(m, client, fetched, parsed)
    return work(m, me, now, duration + m[at.PUSH_PS])


@inlined
def process_step(m, calendar, phase, now):
    """Execute the clients taken from a thread and hand them back; -1 when all are handed back."""
    me = thread_row(MAIN)
    thread = m[me + at.INDEX]
    row = thread_row(thread)
    group = m[at.PENDING_WRITES]
    if phase == EXECUTED:
        client = m[me + at.CLIENT]
        m[client + at.EXECUTED] = m[client + at.READ]
        m[group + m[at.PENDING_WRITE_COUNT]] = client
        m[at.PENDING_WRITE_COUNT] += 1
        if m[at.PENDING_WRITE_COUNT] == m[at.HAND_OVER_GROUP]:
            return begin_joining(m, me, now)
    elif phase == JOINED:
        alone = length(m, row + at.FROM_MAIN) == 0
        while m[at.PENDING_WRITE_COUNT] > 0:
            # The last one goes first.
            m[at.PENDING_WRITE_COUNT] -= 1
            push(m, row + at.FROM_MAIN, now, m[group + m[at.PENDING_WRITE_COUNT]])
        if alone and not m[row + at.RUNNING]:
            m[me + at.PHASE] = TOLD
            return work(m, me, now, telling(m, calendar, thread, now))
    elif phase == TOLD:
        m[row + at.TOLD] = 1
        tell(m, calendar, thread, now)
    if m[me + at.AMOUNT] == 0:
        if m[me + at.LEFT] > 0:
            following = begin_batch(m, now)
            if following >= 0:
                return following
        elif m[at.PENDING_WRITE_COUNT] > 0:
            return begin_joining(m, me, now)
        else:
            return -1
    return begin_execution(m, now)


@inlined
def main_step(m, calendar, now):
    """Advance the main thread whose present step ends now; returns when the next one ends."""
    me = thread_row(MAIN)
    phase = m[me + at.PHASE]
    if phase in (TURNING, POLLED):
        m[me + at.INDEX] = 0
        m[me + at.DONT_SLEEP] = 0
        m[me + at.AGAIN] = 1 if phase == POLLED else 0
        if phase == POLLED:
            m[me + at.RUNNING] = 1
    elif phase == NOTICED:
        thread = thread_row(m[me + at.INDEX])
        if handed_over(m, thread) > 0:
            return begin_taking(m, me, thread + at.TO_MAIN, m[thread + at.HANDED_OVER], now)
    elif phase > POLLED:
        following = process_step(m, calendar, phase, now)
        if following >= 0:
            return following
    if phase > WAKING:
        following = next_thread(m, now)
        if following >= 0:
            return following
        if m[me + at.AGAIN]:
            return begin_turn(m, now)
        # A second look, once it is not running any more, finds nothing new: no time passes.
        m[me + at.RUNNING] = m[me + at.DONT_SLEEP]
    following = wait(m, me, now)
    if m[me + at.PHASE] == POLLED:
        return work(m, me, now, following + accept_alone(m, now))
    return following


# --- an I/O thread --------------------------------------------------------------------------------


@inlined
def begin_hand_over_or_wait(m, me, now):
    """Hand over what was read, or else poll; returns when that ends."""
    if m[me + at.TO_MAIN + PUSHED] > m[me + at.HANDED_OVER]:
        return begin_joining(m, me, now)
    return begin_wait(m, me, now)


@inlined
def begin_wait(m, me, now):
    """Poll, doze or sleep; returns when that ends."""
    following = wait(m, me, now)
    if m[me + at.PHASE] == POLLED:
        return work(m, me, now, following)
    return following


@inlined
def keep_for_main(m, me, client, now):
    """A client has a command: its thread leaves it alone until it comes back."""
    m[client + at.JOBS] |= at.READING
    push(m, me + at.TO_MAIN, now, client)


@inlined
def event_step(m, me, now):
    """Read the next client of the poll, or end the turn; returns when that ends."""
    if m[me + at.COUNT] == 0:
        m[me + at.PHASE] = TURNING
        return work(m, me, now, m[at.OWN_TURN_PS])
    client = next_event(m, me)
    m[me + at.CLIENT] = client
    if m[client + at.JOBS] & at.READING:
        # The main thread has it; its socket is left for later.
        m[me + at.PHASE] = SCANNED
        return work(m, me, now, m[at.SCAN_PS])
    m[me + at.PHASE] = READ
    return work(m, me, now, begin_job(m, (client << KIND_BITS) | READ_JOB))


@inlined
def end_joining(m, calendar, me, phase, now):
    """What was read is on the main thread's list; returns when main is told, or -1."""
    if phase == TOLD:
        # It may be readable from an earlier time: main found that list by itself.
        m[thread_row(MAIN) + at.TOLD] += 1 - m[me + at.TOLD_MAIN]
        m[me + at.TOLD_MAIN] = 1
        tell(m, calendar, MAIN, now)
        return -1
    alone = handed_over(m, me) == 0
    m[me + at.HANDED_OVER] = m[me + at.TO_MAIN + PUSHED]
    if alone and not m[thread_row(MAIN) + at.RUNNING]:
        m[me + at.PHASE] = TOLD
        return work(m, me, now, telling(m, calendar, MAIN, now))
    return -1


@inlined
def io_step(m, calendar, agent, now):
    """Advance an I/O thread whose present step ends now; returns when the next one ends.

    `AGAIN` is 1 before it sleeps and 0 while it handles events.
    """
    me = thread_row(agent)
    phase = m[me + at.PHASE]
    if phase in (DOZING, WAKING):
        return begin_wait(m, me, now)
    if phase == POLLED:
        m[me + at.RUNNING] = 1
        m[me + at.AGAIN] = 0
        if m[me + at.TOLD]:
            m[me + at.TOLD] = 0
            m[me + at.PHASE] = NOTICED
            return work(m, me, now, m[at.NOTICE_PS])
        return event_step(m, me, now)
    if phase == READ:
        client = m[me + at.CLIENT]
        if m[client + at.READ] > m[client + at.EXECUTED]:
            if m[me + at.TO_MAIN + PUSHED] - m[me + at.HANDED_OVER] == m[at.HAND_OVER_GROUP]:
                return begin_joining(m, me, now)
            keep_for_main(m, me, client, now)
        return event_step(m, me, now)
    if phase == SCANNED:
        return event_step(m, me, now)
    if phase in (JOINED, TOLD):
        following = end_joining(m, calendar, me, phase, now)
        if following >= 0:
            return following
        if m[me + at.AGAIN]:
            return begin_wait(m, me, now)
        keep_for_main(m, me, m[me + at.CLIENT], now)
        return event_step(m, me, now)
    if phase in (NOTICED, TURNING):
        if phase == TURNING:
            m[me + at.AGAIN] = 1
        ring = me + at.FROM_MAIN
        waiting = length(m, ring) > 0
        if phase == TURNING:
            # Whoever has clients to write to polls once without sleeping: more will follow.
            m[me + at.DONT_SLEEP] = 1 if waiting else 0
        if waiting:
            return begin_taking(m, me, ring, m[ring + PUSHED], now)
    elif phase == WRITTEN:
        end_write(m, calendar, m[me + at.CLIENT], now)
    if phase in (WRITTEN, TAKEN) and m[me + at.LEFT] > 0:
        client = next_taken(m, me, me + at.FROM_MAIN)
        m[client + at.JOBS] &= ~at.READING
        m[me + at.CLIENT] = client
        m[me + at.PHASE] = WRITTEN
        return work(m, me, now, begin_job(m, (client << KIND_BITS) | WRITE_JOB))
    if m[me + at.AGAIN]:
        m[me + at.RUNNING] = m[me + at.DONT_SLEEP]
        return begin_hand_over_or_wait(m, me, now)
    return event_step(m, me, now)


@inlined
def begin(m, calendar):
    """I/O threads begin asleep."""
    m[thread_row(MAIN) + at.PHASE] = POLLED
    # Also while it waits for its first turn on a core.
    m[thread_row(MAIN) + at.RUNNING] = 1
    for thread in range(1, m[at.IO_THREADS]):
        m[thread_row(thread) + at.PHASE] = WAKING
        begin_asleep(m, calendar, thread)


@inlined
def server_step(m, calendar, agent, now):
    """Advance a thread whose present step ends now; returns when the next one ends."""
    return io_step(m, calendar, agent, now) if agent > 0 else main_step(m, calendar, now)


@inlined
def finish(m):
    """The main thread never spins."""
    m[thread_row(0) + at.ON_CPU_PS] = m[thread_row(0) + at.BUSY_PS]
