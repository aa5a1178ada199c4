"""The compiled loop of the load generator: one thread, many connections, one epoll.

`drive` runs without the GIL and calls libc directly, so that several generator threads work at
once and a request costs little more than its system calls: per batch of `pipeline` requests one
send, one or more recv, and a share of an epoll_wait.
"""

import math

import numpy as np
from numba import njit

from forecache.sim.numba_functions import record, uniform
from forecache.sim.rings import length, oldest, pop, push

from .libc import (
    CTL_ADD,
    CTL_MOD,
    DATA_WORD,
    EAGAIN,
    EINTR,
    EPOLLERR,
    EPOLLHUP,
    EPOLLIN,
    EPOLLOUT,
    EVENT_WORDS,
    MSG_NOSIGNAL,
    c_close,
    c_epoll_create1,
    c_epoll_ctl,
    c_epoll_wait,
    c_recv,
    c_send,
    last_error,
    now_ns,
)
from .loadgen_wire import (
    BASE,
    BATCHES,
    CLIENTS,
    CLOSED,
    COUNT,
    DEADLINE_NS,
    DUE_NS,
    EVENTS,
    FD,
    FINISHED,
    FIRST,
    LATE_NS,
    LIMIT,
    LOOPS,
    MEASURE,
    OPEN_LOOP,
    OUTSTANDING,
    PARTIAL_SENDS,
    PIPELINE,
    PROTOCOL,
    PURPOSE_GAP,
    RATE_PER_NS,
    RECEIVED_BYTES,
    RECVS,
    REQUESTS,
    RUNNING,
    SEED,
    SENDS,
    SENT,
    SENT_BYTES,
    START_NS,
    STATUS,
    STOP,
    STREAM,
    SYSTEM,
    THINK_NS,
    TIMED_OUT,
    WANT_OUT,
    encode_batch,
    scan_replies,
)

# (settings, reals, templates, text, out) of `loadgen_wire`, and (epoll file descriptor, room for
# one epoll_event, scratch words).
Load = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Connection = tuple[int, np.ndarray, np.ndarray]

# epoll_wait counts in ms: closer than this to the next send the generator polls without sleeping.
_SPIN_NS = 2_000_000
# Longest sleep, so that a change of the control word is seen soon.
_LONGEST_SLEEP_MS = 50
# After STOP, replies still on their way have this long.
_DRAIN_NS = 2_000_000_000


@njit(nogil=True, cache=True)
def _watch(
    connection: Connection, action: int, client: int, state: np.ndarray, want_out: int
) -> int:
    """Tell epoll what to report of a connection; negative when it refuses."""
    epoll_fd, events, _ = connection
    events[0] = EPOLLIN | (EPOLLOUT if want_out else 0)
    events[DATA_WORD] = client
    events[DATA_WORD + 1] = 0
    state[WANT_OUT] = want_out
    return c_epoll_ctl(
        epoll_fd,
        action,
        state[FD],
        events.ctypes.data,
    )


@njit(nogil=True, cache=True)
def _send_batch(
    load: Load, connection: Connection, client: int, state: np.ndarray, counters: np.ndarray
) -> bool:
    """Send what is left of a connection's batch; False when the connection is broken."""
    settings, reals, templates, text, out = load
    length = encode_batch(settings, reals, templates, text, out, state[BASE], state[COUNT])
    sent = c_send(
        state[FD],
        out[state[SENT] :].ctypes.data,
        length - state[SENT],
        MSG_NOSIGNAL,
    )
    counters[SENDS] += 1
    if sent < 0:
        code = last_error(connection[2])
        if code != EAGAIN and code != EINTR:
            return False
        sent = 0
    counters[SENT_BYTES] += sent
    state[SENT] += sent
    left = state[SENT] < length
    if left:
        counters[PARTIAL_SENDS] += 1
    if left != (state[WANT_OUT] == 1):
        _watch(connection, CTL_MOD, client, state, 1 if left else 0)
    return True


@njit(nogil=True, cache=True)
def _start_batch(
    load: Load,
    connection: Connection,
    client: int,
    state: np.ndarray,
    counters: np.ndarray,
    start_ns: int,
    base: int,
) -> int:
    """Send the next requests from `base` on; returns how many, or -1 on a broken connection."""
    settings = load[0]
    count = min(settings[PIPELINE], settings[LIMIT] - base)
    state[BASE] = base
    state[COUNT] = count
    state[OUTSTANDING] = count
    state[START_NS] = start_ns
    state[SENT] = 0
    counters[BATCHES] += 1
    return count if _send_batch(load, connection, client, state, counters) else -1


@njit(nogil=True, cache=True)
def _receive(
    state: np.ndarray,
    received: np.ndarray,
    counters: np.ndarray,
    histogram: np.ndarray,
    scratch: np.ndarray,
    measuring: bool,
) -> int:
    """One recv and its replies; returns the time, or minus the status that ends the load."""
    size = c_recv(state[FD], received.ctypes.data, received.size, 0)
    counters[RECVS] += 1
    now = now_ns(scratch)
    if size <= 0:
        code = last_error(scratch) if size < 0 else 0
        if code != EAGAIN and code != EINTR:
            return -CLOSED
        return now
    counters[RECEIVED_BYTES] += size
    done = scan_replies(received, size, state, counters)
    if done < 0 or done > state[OUTSTANDING]:
        return -PROTOCOL
    state[OUTSTANDING] -= done
    counters[REQUESTS] += done
    if measuring and done > 0:
        latency_ps = (now - state[START_NS]) * 1000
        for _ in range(done):
            record(histogram, latency_ps)
    return now


@njit(nogil=True, cache=True)
def _sleep_ms(next_ns: int, now: int) -> int:
    """Timeout for epoll_wait until the next send is due; 0 when it is too near to sleep."""
    left = next_ns - now
    if left < _SPIN_NS:
        return 0
    return min(left // 1_000_000 - 1, _LONGEST_SLEEP_MS)


@njit(nogil=True, cache=True)
def _gap_ns(settings: np.ndarray, reals: np.ndarray, number: int) -> int:
    """Time between two batches of a Poisson stream."""
    unit = uniform(settings[SEED], 0, settings[STREAM], PURPOSE_GAP, number)
    return int(0.5 - math.log(unit) / reals[RATE_PER_NS])


@njit(nogil=True, cache=True)
def drive(
    load: Load,
    control: np.ndarray,
    counters: np.ndarray,
    histogram: np.ndarray,
    states: np.ndarray,
    received: np.ndarray,
    events: np.ndarray,
    control_event: np.ndarray,
    waiting: np.ndarray,
) -> int:
    """Run one generator thread until it is told to stop, its requests are done, or its deadline.

    Parameters
    ----------
    load : tuple
        (settings int64, reals float64, templates int64 2-D, command text uint8, encoding buffer
        uint8), see `loadgen_wire`.
    control : int64 array
        One word, WARM_UP, MEASURE or STOP, which another thread may change.
    counters, histogram : int64 arrays
        Written while running; the histogram is one of `forecache.sim.histogram`.
    states : int64 2-D array
        One row a connection, with its socket in FD.
    received : uint8 array
        What one recv may return.
    events, control_event : int32 arrays
        Room for epoll_event structures.
    waiting : int64 array
        An empty ring of `forecache.sim.rings` with room for every connection.

    Returns
    -------
    int
        The status, also in `counters[STATUS]`: FINISHED, CLOSED, PROTOCOL, TIMED_OUT or SYSTEM.
    """
    scratch = np.zeros(2, np.int64)
    epoll_fd = c_epoll_create1(0)
    if epoll_fd < 0:
        counters[STATUS] = SYSTEM
        return SYSTEM
    connection = (epoll_fd, control_event, scratch)
    status = _loop(
        load, connection, control, counters, histogram, states, received, events, waiting
    )
    c_close(epoll_fd)
    counters[STATUS] = status
    return status


@njit(nogil=True, cache=True)
def _finished(
    control: np.ndarray, settings: np.ndarray, now: int, busy: int, stopped_ns: int
) -> int:
    """The status when the loop must end, or RUNNING."""
    if now > settings[DEADLINE_NS]:
        return TIMED_OUT
    if stopped_ns >= 0:
        if busy == 0:
            return FINISHED
        if control[0] == STOP and now > stopped_ns + _DRAIN_NS:
            return TIMED_OUT
    return RUNNING


@njit(nogil=True, cache=True)
def _loop(
    load: Load,
    connection: Connection,
    control: np.ndarray,
    counters: np.ndarray,
    histogram: np.ndarray,
    states: np.ndarray,
    received: np.ndarray,
    events: np.ndarray,
    waiting: np.ndarray,
) -> int:
    settings, reals = load[0], load[1]
    epoll_fd, _, scratch = connection
    open_loop = settings[OPEN_LOOP] == 1
    at_once = not open_loop and settings[THINK_NS] == 0
    now = now_ns(scratch)
    for client in range(settings[CLIENTS]):
        if _watch(connection, CTL_ADD, client, states[client], 0) < 0:
            return SYSTEM
        # First starts are spread over one think time, so that clients don't move in step.
        states[client, DUE_NS] = now + (client * settings[THINK_NS]) // settings[CLIENTS]
        push(waiting, client)
    cursor = settings[FIRST]  # number of the next request
    gaps = 0
    intended_ns = now + (_gap_ns(settings, reals, gaps) if open_loop else 0)
    busy = 0  # connections with replies outstanding
    stopped_ns = -1
    while True:
        now = now_ns(scratch)
        if stopped_ns < 0 and (control[0] == STOP or cursor >= settings[LIMIT]):
            stopped_ns = now
        status = _finished(control, settings, now, busy, stopped_ns)
        if status != RUNNING:
            return status
        timeout_ms = _LONGEST_SLEEP_MS
        while stopped_ns < 0 and length(waiting) > 0 and cursor < settings[LIMIT]:
            client = oldest(waiting)
            due_ns = intended_ns if open_loop else states[client, DUE_NS]
            if due_ns > now:
                timeout_ms = _sleep_ms(due_ns, now)
                break
            pop(waiting)
            if open_loop:
                counters[LATE_NS] = max(counters[LATE_NS], now - due_ns)
                gaps += 1
                intended_ns += _gap_ns(settings, reals, gaps)
            # Latency counts from the intended start, so that a stall is not hidden.
            start_ns = due_ns if open_loop else now
            sent = _start_batch(
                load, connection, client, states[client], counters, start_ns, cursor
            )
            if sent < 0:
                return CLOSED
            cursor += sent
            busy += 1
            now = now_ns(scratch)
        ready = c_epoll_wait(
            epoll_fd,
            events.ctypes.data,
            events.size // EVENT_WORDS,
            timeout_ms,
        )
        counters[LOOPS] += 1
        if ready < 0:
            if last_error(scratch) == EINTR:
                continue
            return SYSTEM
        counters[EVENTS] += ready
        measuring = control[0] == MEASURE
        for i in range(ready):
            flags = events[i * EVENT_WORDS]
            client = int(events[i * EVENT_WORDS + DATA_WORD])
            state = states[client]
            if (flags & EPOLLOUT) != 0 and state[WANT_OUT] == 1:
                if not _send_batch(load, connection, client, state, counters):
                    return CLOSED
            if (flags & (EPOLLIN | EPOLLERR | EPOLLHUP)) == 0:
                continue
            idle = state[OUTSTANDING] == 0
            now = _receive(state, received, counters, histogram, scratch, measuring)
            if now < 0:
                return -now
            if idle or state[OUTSTANDING] > 0:
                continue
            busy -= 1
            if at_once and stopped_ns < 0 and cursor < settings[LIMIT]:
                sent = _start_batch(load, connection, client, state, counters, now, cursor)
                if sent < 0:
                    return CLOSED
                cursor += sent
                busy += 1
            else:
                state[DUE_NS] = now + settings[THINK_NS]
                push(waiting, client)
