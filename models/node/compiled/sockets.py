"""Requests and replies on their way between clients and the server's threads."""

from numba import njit

from forecache.sim.calendar import schedule
from forecache.sim.stamped_rings import first_stamp, length, pop, push

from .. import layout as at
from ..setup import BIG_ARGUMENT_BYTES, JITTER_ONE

COUNT_BITS = 24
_COUNT_MASK = (1 << COUNT_BITS) - 1
_JITTER_SHIFT = JITTER_ONE.bit_length() - 1


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def client_row(m, client):
    """Where a client's row begins."""
    return m[at.CLIENT_ROWS] + client * at.CLIENT_WORDS


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def thread_row(m, agent):
    """Where a thread's row begins."""
    return m[at.THREAD_ROWS] + agent * at.THREAD_WORDS


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def work(m, agent, now, duration_ps):
    """Account for useful work from now on; returns when it ends."""
    end = now + duration_ps
    inside = min(end, m[at.END_PS]) - max(now, m[at.WARMUP_PS])
    if inside > 0:
        row = thread_row(m, agent)
        m[row + at.BUSY_PS] += inside
        m[row + at.ON_CPU_PS] += inside
    return end


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def count(m, counter, now, amount):
    """Add to a counter if now is inside the measured window."""
    if m[at.WARMUP_PS] <= now < m[at.END_PS]:
        m[counter] += amount


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def mark_of(m, client, index):
    """The draws of a client's request number `index`."""
    mask = m[at.OUTSTANDING_MASK]
    return m[m[at.MARKS] + client * (mask + 1) + (index & mask)]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def jittered(m, duration_ps, quantile):
    """A kernel step's duration with its run-to-run variation."""
    return (duration_ps * m[m[at.JITTER] + (quantile & 255)]) >> _JITTER_SHIFT


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def copying(m, size_bytes):
    """Time the kernel takes to copy so many bytes."""
    return (size_bytes * m[at.COPY_PS_PER_KIB]) >> 10


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def deliver_request(m, calendar, client, commands, size_bytes, now):
    """Put a client's commands on the wire; wakes the main thread if it sleeps in epoll_wait."""
    stamp = now
    if not m[at.SAME_HOST]:
        leaves = max(now, m[at.NIC_IN_FREE_PS]) + ((size_bytes * m[at.WIRE_PS_PER_KIB]) >> 10)
        m[at.NIC_IN_FREE_PS] = leaves
        stamp = leaves + m[at.ONE_WAY_PS]
    count(m, at.WIRE_BYTES_IN, now, size_bytes)
    push(m, m[at.REQUEST_WIRE], stamp, (client << COUNT_BITS) | commands)
    main = thread_row(m, 0)
    if m[main + at.ASLEEP]:
        m[main + at.ASLEEP] = 0
        schedule(calendar, 0, stamp + m[at.WAKE_LATENCY_PS])


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def receive_requests(m, now):
    """Move what has arrived by now from the wire into the sockets."""
    wire = m[at.REQUEST_WIRE]
    while length(m, wire) > 0 and first_stamp(m, wire) <= now:
        entry = pop(m, wire)
        client = entry >> COUNT_BITS
        row = client_row(m, client)
        m[row + at.ARRIVED] += entry & _COUNT_MASK
        if not m[row + at.WATCHED]:
            m[row + at.WATCHED] = 1
            push(m, m[at.WATCHED_SOCKETS], 0, client)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def poll_sockets(m, now):
    """One epoll_wait: fills `FIRED_EVENTS` with the clients whose socket holds data.

    As in the kernel, a socket reported once stays on the ready list until a later call finds it
    empty (level-triggered epoll). Returns how many were found.
    """
    receive_requests(m, now)
    watched = m[at.WATCHED_SOCKETS]
    found = 0
    for _ in range(length(m, watched)):
        client = pop(m, watched)
        row = client_row(m, client)
        if m[row + at.READ] < m[row + at.ARRIVED]:
            push(m, watched, 0, client)
            push(m, m[at.FIRED_EVENTS], 0, client)
            found += 1
        else:
            m[row + at.WATCHED] = 0
    count(m, at.POLLS, now, 1)
    return found


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def read_socket(m, client, now):
    """One recv: takes up to the read limit, completes commands; returns its duration in ps."""
    row = client_row(m, client)
    sizes = m[at.REQUEST_BYTES]
    read = m[row + at.READ]
    count(m, at.READS, now, 1)
    if read == m[row + at.ARRIVED]:
        # Somebody has read it since it was polled.
        return m[at.READ_EVENT_PS] + m[at.RECV_PS]
    partial = m[row + at.PARTIAL_BYTES]
    first_mark = mark_of(m, client, read)
    budget = m[at.READ_LIMIT_BYTES]
    if partial > 0:
        size_bytes = m[sizes + (first_mark & 255)]
        if size_bytes > BIG_ARGUMENT_BYTES:
            budget = max(budget, size_bytes - partial)
    left = budget
    while left > 0 and read < m[row + at.ARRIVED]:
        missing = m[sizes + (mark_of(m, client, read) & 255)] - partial
        if missing <= left:
            left -= missing
            partial = 0
            read += 1
        else:
            partial += left
            left = 0
    m[row + at.READ] = read
    m[row + at.PARTIAL_BYTES] = partial
    duration = m[at.RECV_PS] + copying(m, budget - left)
    return m[at.READ_EVENT_PS] + jittered(m, duration, first_mark >> 16)


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def execute_cold(m, mark):
    """Execution of one command whose lines nobody fetched ahead, in ps."""
    code = mark & 255
    return m[m[at.EXECUTE] + code] + m[m[at.STALL] + (code << 8) + ((mark >> 8) & 255)]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def parse(m, mark):
    """Parsing of one command, in ps."""
    return m[m[at.PARSE] + (mark & 255)]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def execute_warm(m, mark):
    """Execution of one command whose lines were fetched ahead, in ps."""
    code = mark & 255
    return m[m[at.EXECUTE] + code] + m[m[at.PREFETCHED_STALL] + code]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def execute_commands(m, client, fetched, parsed, now):
    """Execute all complete commands of a client, one after the other; returns the duration.

    The first `fetched` had their keys looked up by a batch, the first `parsed` were parsed by an
    I/O thread. Where an engine parses whole pipelines, the rest is fetched ahead in groups.
    """
    row = client_row(m, client)
    first = m[row + at.EXECUTED]
    last = m[row + at.READ]
    total = 0
    warm_until = first + fetched
    for index in range(first, last):
        mark = mark_of(m, client, index)
        if index >= first + parsed:
            total += parse(m, mark)
        if m[at.WHOLE_PIPELINE] and index >= warm_until and last - index > 1:
            keys = min(m[at.PREFETCH_BATCH], last - index)
            if keys > 1:
                total += m[m[at.PREFETCH] + keys]
                count(m, at.PREFETCHED_KEYS, now, keys)
                warm_until = index + keys
        total += execute_warm(m, mark) if index < warm_until else execute_cold(m, mark)
    return total


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def reply_bytes(m, client, first, last):
    """Bytes of the replies to commands first to last - 1."""
    total = 0
    for index in range(first, last):
        total += m[m[at.REPLY_BYTES] + (mark_of(m, client, index) & 255)]
    return total


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def begin_write(m, client, now):
    """Start sending all replies that are ready; returns the duration in ps."""
    row = client_row(m, client)
    written = m[row + at.WRITTEN]
    size_bytes = reply_bytes(m, client, written, m[row + at.EXECUTED])
    m[row + at.WRITE_UPTO] = m[row + at.EXECUTED]
    calls = max(1, -(-size_bytes // m[at.WRITE_LIMIT_BYTES]))
    duration = calls * m[at.SEND_PS] + copying(m, size_bytes)
    duration = jittered(m, duration, mark_of(m, client, written) >> 24)
    generator = thread_row(m, m[at.IO_THREADS] + client % m[at.GENERATORS])
    if m[at.SAME_HOST] and m[generator + at.ASLEEP]:
        duration += m[at.WAKE_SEND_PS]
        count(m, at.PAID_WAKES, now, 1)
    count(m, at.WRITES, now, 1)
    return m[at.WRITE_EVENT_PS] + duration


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def end_write(m, calendar, client, now):
    """The replies leave the server; wakes the client's generator thread if it sleeps."""
    row = client_row(m, client)
    stamp = now
    if not m[at.SAME_HOST]:
        size_bytes = reply_bytes(m, client, m[row + at.WRITTEN], m[row + at.WRITE_UPTO])
        leaves = max(now, m[at.NIC_OUT_FREE_PS]) + ((size_bytes * m[at.WIRE_PS_PER_KIB]) >> 10)
        m[at.NIC_OUT_FREE_PS] = leaves
        stamp = leaves + m[at.ONE_WAY_PS]
        count(m, at.WIRE_BYTES_OUT, now, size_bytes)
    commands = m[row + at.WRITE_UPTO] - m[row + at.WRITTEN]
    m[row + at.WRITTEN] = m[row + at.WRITE_UPTO]
    generator = client % m[at.GENERATORS]
    wire = m[at.REPLY_WIRES] + generator * m[at.REPLY_WIRE_WORDS]
    push(m, wire, stamp, (client << COUNT_BITS) | commands)
    agent = m[at.IO_THREADS] + generator
    thread = thread_row(m, agent)
    if m[thread + at.ASLEEP]:
        m[thread + at.ASLEEP] = 0
        schedule(calendar, agent, stamp + m[at.WAKE_LATENCY_PS])
