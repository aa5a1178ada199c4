"""The compiled loop of the load generator: one thread, many connections, one epoll.

`drive` runs without the GIL and calls libc directly, so that several generator threads work at
once and a request costs little more than its system calls: per batch of `pipeline` requests one
send, one or more recv, and a share of an epoll_wait.
"""

import math
import platform

import numpy as np
from numba import int64, njit, types

from forecache.sim.histogram import record
from forecache.sim.rings import length, oldest, pop, push
from forecache.sim.streams import uniform

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

# libc, resolved by name in the running process.
_recv = types.ExternalFunction(
    "recv", types.intp(types.int32, types.uintp, types.uintp, types.int32)
)
_send = types.ExternalFunction(
    "send", types.intp(types.int32, types.uintp, types.uintp, types.int32)
)
_epoll_create1 = types.ExternalFunction("epoll_create1", types.int32(types.int32))
_epoll_ctl = types.ExternalFunction(
    "epoll_ctl", types.int32(types.int32, types.int32, types.int32, types.uintp)
)
_epoll_wait = types.ExternalFunction(
    "epoll_wait", types.int32(types.int32, types.uintp, types.int32, types.int32)
)
_close = types.ExternalFunction("close", types.int32(types.int32))
_memcpy = types.ExternalFunction("memcpy", types.uintp(types.uintp, types.uintp, types.uintp))
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))
_errno_location = types.ExternalFunction("__errno_location", types.uintp())

# struct epoll_event is {uint32 events; uint64 data}. The kernel packs it on x86-64 (12 bytes, data
# after 4) and aligns it elsewhere (16 bytes, data after 8): linux/eventpoll.h, EPOLL_PACKED.
_PACKED = platform.machine() in ("x86_64", "AMD64")
EVENT_WORDS = 3 if _PACKED else 4
_DATA_WORD = 1 if _PACKED else 2

_CLOCK_MONOTONIC = 1
_EPOLLIN, _EPOLLOUT, _EPOLLERR, _EPOLLHUP = 0x1, 0x4, 0x8, 0x10
_CTL_ADD, _CTL_MOD = 1, 3
_EINTR, _EAGAIN = 4, 11
_MSG_NOSIGNAL = 0x4000
_NS = 1_000_000_000
_MS = 1_000_000

# epoll_wait counts in ms: closer than this to the next send the generator polls without sleeping.
_SPIN_NS = 2 * _MS
# Longest sleep, so that a change of the control word is seen soon.
_LONGEST_SLEEP_MS = 50
# After STOP, replies still on their way have this long.
_DRAIN_NS = 2 * _NS


@njit(int64(int64[::1]), nogil=True, cache=True)
def _now_ns(scratch):  # type: ignore[no-untyped-def]
    """CLOCK_MONOTONIC in ns; `scratch` holds a struct timespec."""
    _clock_gettime(types.int32(_CLOCK_MONOTONIC), scratch.ctypes.data)
    return scratch[0] * _NS + scratch[1]


@njit(int64(int64[::1]), nogil=True, cache=True)
def _errno(scratch):  # type: ignore[no-untyped-def]
    scratch[0] = 0
    _memcpy(scratch.ctypes.data, _errno_location(), types.uintp(4))
    return scratch[0] & 0x7FFFFFFF


@njit(nogil=True, cache=True)
def _watch(connection, action, client, state, want_out):  # type: ignore[no-untyped-def]
    """Tell epoll what to report of a connection; negative when it refuses."""
    epoll_fd, events, _ = connection
    events[0] = _EPOLLIN | (_EPOLLOUT if want_out else 0)
    events[_DATA_WORD] = client
    events[_DATA_WORD + 1] = 0
    state[WANT_OUT] = want_out
    return _epoll_ctl(
        types.int32(epoll_fd),
        types.int32(action),
        types.int32(state[FD]),
        events.ctypes.data,
    )


@njit(nogil=True, cache=True)
def _send_batch(load, connection, client, state, counters):  # type: ignore[no-untyped-def]
    """Send what is left of a connection's batch; False when the connection is broken."""
    settings, reals, templates, text, out = load
    length = encode_batch(settings, reals, templates, text, out, state[BASE], state[COUNT])
    sent = _send(
        types.int32(state[FD]),
        out.ctypes.data + types.uintp(state[SENT]),
        types.uintp(length - state[SENT]),
        types.int32(_MSG_NOSIGNAL),
    )
    counters[SENDS] += 1
    if sent < 0:
        code = _errno(connection[2])
        if code != _EAGAIN and code != _EINTR:
            return False
        sent = 0
    counters[SENT_BYTES] += sent
    state[SENT] += sent
    left = state[SENT] < length
    if left:
        counters[PARTIAL_SENDS] += 1
    if left != (state[WANT_OUT] == 1):
        _watch(connection, _CTL_MOD, client, state, 1 if left else 0)
    return True


@njit(nogil=True, cache=True)
def _start_batch(load, connection, client, state, counters, start_ns, base):  # type: ignore[no-untyped-def]
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
def _receive(state, received, counters, histogram, scratch, measuring):  # type: ignore[no-untyped-def]
    """One recv and its replies; returns the time, or minus the status that ends the load."""
    size = _recv(
        types.int32(state[FD]), received.ctypes.data, types.uintp(received.size), types.int32(0)
    )
    counters[RECVS] += 1
    now = _now_ns(scratch)
    if size <= 0:
        code = _errno(scratch) if size < 0 else 0
        if code != _EAGAIN and code != _EINTR:
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
def _sleep_ms(next_ns, now):  # type: ignore[no-untyped-def]
    """Timeout for epoll_wait until the next send is due; 0 when it is too near to sleep."""
    left = next_ns - now
    if left < _SPIN_NS:
        return 0
    return min((left - _MS) // _MS, _LONGEST_SLEEP_MS)


@njit(nogil=True, cache=True)
def _gap_ns(settings, reals, number):  # type: ignore[no-untyped-def]
    """Time between two batches of a Poisson stream."""
    unit = uniform(settings[SEED], 0, settings[STREAM], PURPOSE_GAP, number)
    return int64(0.5 - math.log(unit) / reals[RATE_PER_NS])


@njit(nogil=True, cache=True)
def drive(load, control, counters, histogram, states, received, events, control_event, waiting):  # type: ignore[no-untyped-def]
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
    epoll_fd = int64(_epoll_create1(types.int32(0)))
    if epoll_fd < 0:
        counters[STATUS] = SYSTEM
        return SYSTEM
    connection = (epoll_fd, control_event, scratch)
    status = _loop(
        load, connection, control, counters, histogram, states, received, events, waiting
    )
    _close(types.int32(epoll_fd))
    counters[STATUS] = status
    return status


@njit(nogil=True, cache=True)
def _finished(control, settings, now, busy, stopped_ns):  # type: ignore[no-untyped-def]
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
def _loop(load, connection, control, counters, histogram, states, received, events, waiting):  # type: ignore[no-untyped-def]
    settings, reals = load[0], load[1]
    epoll_fd, _, scratch = connection
    open_loop = settings[OPEN_LOOP] == 1
    at_once = not open_loop and settings[THINK_NS] == 0
    now = _now_ns(scratch)
    for client in range(settings[CLIENTS]):
        if _watch(connection, _CTL_ADD, client, states[client], 0) < 0:
            return SYSTEM
        # First starts are spread over one think time, so that clients don't move in step.
        states[client, DUE_NS] = now + (client * settings[THINK_NS]) // settings[CLIENTS]
        push(waiting, client)
    cursor = settings[FIRST]  # number of the next request
    gaps = 0
    intended_ns = now + (_gap_ns(settings, reals, gaps) if open_loop else 0)
    busy = 0  # connections with replies outstanding
    stopped_ns = int64(-1)
    while True:
        now = _now_ns(scratch)
        if stopped_ns < 0 and (control[0] == STOP or cursor >= settings[LIMIT]):
            stopped_ns = now
        status = _finished(control, settings, now, busy, stopped_ns)
        if status != RUNNING:
            return status
        timeout_ms = int64(_LONGEST_SLEEP_MS)
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
            now = _now_ns(scratch)
        ready = _epoll_wait(
            types.int32(epoll_fd),
            events.ctypes.data,
            types.int32(events.size // EVENT_WORDS),
            types.int32(timeout_ms),
        )
        counters[LOOPS] += 1
        if ready < 0:
            if _errno(scratch) == _EINTR:
                continue
            return SYSTEM
        counters[EVENTS] += ready
        measuring = control[0] == MEASURE
        for i in range(ready):
            flags = events[i * EVENT_WORDS]
            client = int64(events[i * EVENT_WORDS + _DATA_WORD])
            state = states[client]
            if (flags & _EPOLLOUT) != 0 and state[WANT_OUT] == 1:  # noqa: SIM102
                if not _send_batch(load, connection, client, state, counters):
                    return CLOSED
            if (flags & (_EPOLLIN | _EPOLLERR | _EPOLLHUP)) == 0:
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
