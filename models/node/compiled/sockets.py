"""Requests and replies in transit between clients and the server's threads.

A client is known by the offset of its row.
"""

from forecache.sim.calendar import INFINITY_PS, schedule
from forecache.sim.stamped_rings import POPPED, PUSHED, entry_of, first_stamp, insert, length

from .. import layout as at
from ..setup import BIG_ARGUMENT_BYTES, JITTER_ONE
from .inline import inlined, unlikely
from .interruptions import step_end
from .network import reply_arrives, request_arrives

_JITTER_SHIFT = JITTER_ONE.bit_length() - 1


@inlined
def thread_row(agent):
    """Where a thread's row begins."""
    return at.THREAD_ROWS + agent * at.THREAD_WORDS


@inlined
def number_of(m, client):
    """A client's number."""
    return (client - m[at.CLIENT_ROWS]) >> at.CLIENT_SHIFT


@inlined
def generator_of(m, client):
    """Agent number of a client's generator thread."""
    return m[client + at.ENDS] & at.GENERATOR_MASK


@inlined
def owner_of(m, client):
    """Agent number of the server thread that watches a client's socket."""
    return m[client + at.ENDS] >> at.OWNER_SHIFT


@inlined
def account_work(m, thread, now, ends_ps):
    """Account for useful work of a thread (by its row) from now on; returns when it ends."""
    m[thread + at.BUSY_PS] += ends_ps - now
    m[thread + at.BUSY_UNTIL_PS] = ends_ps
    return ends_ps


@inlined
def work(m, thread, now, duration_ps):
    """Useful work of a thread from now on, interruptions included; returns when it ends."""
    return account_work(m, thread, now, step_end(m, thread, now, duration_ps))


@inlined
def slot_of(m, client, index):
    """Where a client's request number `index` is kept."""
    return m[client + at.SLOTS] + at.SLOT_WORDS * (index & m[at.OUTSTANDING_MASK])


@inlined
def mark_of(m, client, index):
    """What was drawn for a client's request number `index`."""
    return m[slot_of(m, client, index) + at.MARK]


@inlined
def about(m, mark, field):
    """What the table of command codes says about a command."""
    return m[(mark & at.MARK_CODE) + field]


@inlined
def jittered(m, duration_ps, draw):
    """A kernel step's duration with its run-to-run variation; of the draw, eight bits count."""
    return (duration_ps * m[at.JITTER + (draw & 255)]) >> _JITTER_SHIFT


@inlined
def copying(m, size_bytes):
    """Time the kernel takes to copy a number of bytes."""
    return (size_bytes * m[at.COPY_PS_PER_KIB]) >> 10


@inlined
def deliver_request(m, calendar, client, commands, size_bytes, now):
    """Put a client's commands on the wire; wakes the client's owner if it sleeps in epoll_wait."""
    stamp = now
    if not m[at.SAME_HOST]:
        stamp = request_arrives(m, client, size_bytes, now)
    m[at.WIRE_BYTES_IN] += size_bytes
    owner = owner_of(m, client)
    thread = thread_row(owner)
    insert(m, thread + at.REQUEST_WIRE, stamp, (client << at.COUNT_BITS) | commands)
    if m[thread + at.ASLEEP]:
        m[thread + at.ASLEEP] = 0
        schedule(calendar, owner, stamp + m[at.WAKE_LATENCY_PS])


@inlined
def receive_requests(m, thread, now):
    """Move what has arrived by now from a thread's (by its row) wire into its sockets."""
    sockets = m[thread + at.WATCHED_SOCKETS]
    watched = m[thread + at.WATCHED_COUNT]
    wire = thread + at.REQUEST_WIRE
    popped, pushed = m[wire + POPPED], m[wire + PUSHED]
    while popped < pushed:
        entry = entry_of(m, wire, popped)
        if m[entry] > now:
            break
        popped += 1
        message = m[entry + 1]
        client = message >> at.COUNT_BITS
        m[client + at.ARRIVED] += message & at.COUNT_MASK
        if not m[client + at.WATCHED]:
            m[client + at.WATCHED] = 1
            m[sockets + watched] = client
            watched += 1
    m[wire + POPPED] = popped
    m[thread + at.WATCHED_COUNT] = watched


@inlined
def poll_sockets(m, thread, now):
    """One epoll_wait on a thread's (by its row) sockets: how many hold data?

    They become the first of its `WATCHED_SOCKETS`.

    As in the kernel, a socket reported once stays on the ready list until a later call finds it
    empty (level-triggered epoll).
    """
    receive_requests(m, thread, now)
    sockets = m[thread + at.WATCHED_SOCKETS]
    watched = m[thread + at.WATCHED_COUNT]
    found = 0
    position = 0
    while position < watched:
        client = m[sockets + position]
        position += 1
        if m[client + at.READ] < m[client + at.ARRIVED]:
            m[sockets + found] = client
            found += 1
        else:
            m[client + at.WATCHED] = 0
    m[thread + at.WATCHED_COUNT] = found
    m[thread + at.FIRED_COUNT] = found
    m[at.POLLS] += 1
    return found


@inlined
def sleep_in_epoll(m, thread):
    """A thread (by its row) without events sleeps; returns when it goes on.

    What is on its wire wakes it, or else a sender does.
    """
    wire = thread + at.REQUEST_WIRE
    m[thread + at.WAITS] = at.SLEEPS
    if length(m, wire) > 0:
        return first_stamp(m, wire) + m[at.WAKE_LATENCY_PS]
    m[thread + at.ASLEEP] = 1
    return INFINITY_PS


@inlined
def polling(m, found):
    """Duration of an epoll_wait that returns a number of events."""
    return m[at.POLL_PS] + found * m[at.POLL_EVENT_PS]


@inlined
def next_event(m, thread):
    """The next client that the last poll of a thread's sockets reported; `COUNT` are left."""
    left = m[thread + at.COUNT]
    m[thread + at.COUNT] = left - 1
    return m[m[thread + at.WATCHED_SOCKETS] + m[thread + at.FIRED_COUNT] - left]


@inlined
def read_socket(m, client):
    """One recv: takes up to the read limit, completes commands; returns its duration in ps."""
    read = m[client + at.READ]
    arrived = m[client + at.ARRIVED]
    m[at.READS] += 1
    if read == arrived:
        # It has been read since it was polled.
        return m[at.READ_EVENT_PS] + m[at.RECV_PS]
    partial = m[client + at.PARTIAL_BYTES]
    mark = mark_of(m, client, read)
    first_mark = mark
    budget = m[at.READ_LIMIT_BYTES]
    if partial > 0:
        size_bytes = about(m, mark, at.REQUEST_BYTES)
        if size_bytes > BIG_ARGUMENT_BYTES:
            budget = max(budget, size_bytes - partial)
    left = budget
    while True:
        missing = about(m, mark, at.REQUEST_BYTES) - partial
        if missing > left:
            partial += left
            left = 0
            break
        left -= missing
        partial = 0
        read += 1
        if read == arrived or left == 0:
            break
        mark = mark_of(m, client, read)
    m[client + at.READ] = read
    m[client + at.PARTIAL_BYTES] = partial
    duration = m[at.RECV_PS] + copying(m, budget - left)
    return m[at.READ_EVENT_PS] + jittered(m, duration, first_mark >> at.READ_DRAW)


@inlined
def execute_cold(m, mark):
    """Execution of one command whose lines were not fetched ahead, in ps."""
    stall = about(m, mark, at.STALLS) + ((mark >> at.STALL_DRAW) & 255)
    return about(m, mark, at.EXECUTE_PS) + m[stall]


@inlined
def execute_warm(m, mark):
    """Execution of one command whose lines were fetched ahead, in ps."""
    return about(m, mark, at.EXECUTE_PS) + about(m, mark, at.PREFETCHED_STALL_PS)


@inlined
def execute_partly_warm(m, mark, warm):
    """Execution of one command of several keys, `warm` of which were fetched ahead, in ps."""
    keys = about(m, mark, at.KEYS)
    stall = about(m, mark, at.STALLS) + ((mark >> at.STALL_DRAW) & 255)
    waits = warm * about(m, mark, at.PREFETCHED_STALL_PS) + (keys - warm) * m[stall]
    return about(m, mark, at.EXECUTE_PS) + waits // keys


@inlined
def keys_of(m, client, first, last):
    """Keys of a client's commands first to last - 1."""
    keys = last - first
    if unlikely(m[at.SEVERAL_KEYS]):
        keys = 0
        for index in range(first, last):
            keys += about(m, mark_of(m, client, index), at.KEYS)
    return keys


@inlined
def execute_commands(m, client, fetched, parsed):
    """Execute all complete commands of a client, one after the other; returns the duration.

    The first `fetched` keys were looked up by a batch, the first `parsed` commands were parsed by
    an I/O thread. Where an engine parses whole pipelines, the rest is fetched ahead in groups.
    """
    index = m[client + at.EXECUTED]
    last = m[client + at.READ]
    total = 0
    ahead = fetched
    parsed_until = index + parsed
    while index < last:
        mark = mark_of(m, client, index)
        if index >= parsed_until:
            total += about(m, mark, at.PARSE_PS)
        if ahead == 0 and m[at.WHOLE_PIPELINE]:
            keys = min(m[at.PREFETCH_BATCH], keys_of(m, client, index, last))
            if keys > 1:
                total += m[m[at.PREFETCH] + keys]
                m[at.PREFETCHED_KEYS] += keys
                ahead = keys
        if unlikely(about(m, mark, at.KEYS) > 1):
            warm = min(ahead, about(m, mark, at.KEYS))
            ahead -= warm
            total += execute_partly_warm(m, mark, warm)
        elif ahead > 0:
            ahead -= 1
            total += execute_warm(m, mark)
        else:
            total += execute_cold(m, mark)
        m[at.LOGGED_BYTES] += about(m, mark, at.WRITTEN_TO_LOG)
        index += 1
    return total


@inlined
def reply_bytes(m, client, first, last):
    """Bytes of the replies to commands first to last - 1."""
    total = 0
    while first < last:
        total += about(m, mark_of(m, client, first), at.REPLY_BYTES)
        first += 1
    return total


@inlined
def write_waits(m, client, first, last):
    """What the writer of replies first to last - 1 waits for besides, in ps."""
    total = 0
    while first < last:
        total += about(m, mark_of(m, client, first), at.WRITE_PS)
        first += 1
    return total


@inlined
def values_to_free(m, client):
    """How many jobs free the values that the commands to be executed now replace."""
    values = 0
    if unlikely(m[at.FREES]):
        for index in range(m[client + at.EXECUTED], m[client + at.READ]):
            if about(m, mark_of(m, client, index), at.FREE_PS) > 0:
                values += 1
    return values


@inlined
def freeing_ps(m, client):
    """How long freeing them takes."""
    total = 0
    for index in range(m[client + at.EXECUTED], m[client + at.READ]):
        total += about(m, mark_of(m, client, index), at.FREE_PS)
    return total


@inlined
def begin_write(m, client):
    """Start sending all replies that are ready; returns the duration in ps."""
    written = m[client + at.WRITTEN]
    executed = m[client + at.EXECUTED]
    size_bytes = reply_bytes(m, client, written, executed)
    m[client + at.WRITE_UPTO] = executed
    m[client + at.WRITE_BYTES] = size_bytes
    limit, segment = m[at.WRITE_LIMIT_BYTES], m[at.SEGMENT_BYTES]
    more, events = 0, m[at.WRITE_EVENT_PS]
    if size_bytes > segment or size_bytes > limit:
        calls = (size_bytes - 1) // limit
        last = size_bytes - calls * limit
        more = calls * ((limit - 1) // segment + 1) + (last - 1) // segment
        events += calls * m[at.WRITE_EVENT_PS]
    duration = (1 + more) * m[at.SEND_PS] + copying(m, size_bytes)
    duration = jittered(m, duration, mark_of(m, client, written) >> at.WRITE_DRAW)
    if unlikely(m[at.WRITE_WAITS]):
        duration += write_waits(m, client, written, executed)
    asleep = m[thread_row(generator_of(m, client)) + at.ASLEEP]
    if m[at.SAME_HOST] and asleep and not m[at.GENERATOR_SPINS]:
        duration += m[at.WAKE_SEND_PS]
        m[at.PAID_WAKES] += 1
    m[at.WRITES] += 1
    return events + duration


@inlined
def end_write(m, calendar, client, now):
    """The replies leave the server; wakes the client's generator thread if it sleeps."""
    stamp = now
    if not m[at.SAME_HOST]:
        size_bytes = m[client + at.WRITE_BYTES]
        stamp = reply_arrives(m, client, size_bytes, now)
        m[at.WIRE_BYTES_OUT] += size_bytes
    upto = m[client + at.WRITE_UPTO]
    commands = upto - m[client + at.WRITTEN]
    m[client + at.WRITTEN] = upto
    generator = generator_of(m, client)
    thread = thread_row(generator)
    insert(m, thread + at.QUEUE, stamp, (client << at.COUNT_BITS) | commands)
    if m[thread + at.ASLEEP]:
        m[thread + at.ASLEEP] = 0
        latency = 0 if m[at.GENERATOR_SPINS] else m[at.WAKE_LATENCY_PS]
        schedule(calendar, generator, stamp + latency)
