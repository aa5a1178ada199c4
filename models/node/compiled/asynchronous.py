"""Policy: asynchronous I/O threads with one job ring each (Valkey 8.0 to 9.0).

Rules and constants: io_threads.c, networking.c and server.c of Valkey 8.0.0 and 8.1.0; the
reference execution states them in the order in which the main thread follows them.
"""

from forecache.sim.stamped_rings import POPPED, PUSHED, entry_of, put

from .. import layout as at
from . import job_rings
from .dispatching import LOOKED, finish_dispatching, main_step
from .halts import spun_into_turn, stop_spinning
from .inline import inlined
from .main_thread import (
    ARGUMENTS_JOB,
    FREE_JOB,
    KIND_BITS,
    KIND_MASK,
    LOOKING,
    POLL_JOB,
    READ_JOB,
    SPINNING,
    WORKING,
    WRITE_JOB,
    begin_job,
    begin_poll_job,
    idle,
)
from .sockets import end_write, thread_row, work


@inlined
def notice(m, calendar, now):
    """An I/O thread has finished something: where in its spinning turn does main see it?

    Turns that find nothing all last the same, so the present one is found by division; main sees
    the news at its next look after now. At equal times main acts first and has not seen it yet.
    """
    me = thread_row(0)
    if m[me + at.PHASE] != SPINNING:
        return
    into = spun_into_turn(m, job_rings.quiet_turn_ps(m), now)
    first = m[at.LOOP_PS] + m[at.SCAN_PS] * m[at.READS_IN_FLIGHT]
    second = first + m[at.SCAN_PS] * m[at.READS_IN_FLIGHT]
    m[me + at.PHASE] = LOOKED
    if into < first:
        m[me + at.AGAIN] = 0
        looks_after = first
    elif into < second:
        m[me + at.AGAIN] = 1
        looks_after = second
    else:
        m[me + at.PHASE] = job_rings.SCANNED_WRITES
        looks_after = job_rings.quiet_turn_ps(m)
    stop_spinning(m, calendar, looks_after - into, now)


@inlined
def end_job(m, calendar, job, now):
    """An I/O thread's job is done."""
    client = job >> KIND_BITS
    kind = job & KIND_MASK
    if kind == READ_JOB:
        put(m, at.DONE_READS, client)
    elif kind == WRITE_JOB:
        end_write(m, calendar, client, now)
        put(m, at.DONE_WRITES, client)
    elif kind == POLL_JOB:
        m[at.POLL_STATE] = at.COMPLETED
    else:
        return  # the main thread waits neither for frees nor for handshakes
    notice(m, calendar, now)


@inlined
def is_free(job):
    """Whether a job is to free values or arguments."""
    return job & KIND_MASK == FREE_JOB or job & KIND_MASK == ARGUMENTS_JOB


@inlined
def io_step(m, calendar, thread, now):
    """Advance an I/O thread whose present job ends now; returns when the next one ends."""
    me = thread_row(thread)
    ring = me + at.QUEUE
    popped = m[ring + POPPED]
    if m[me + at.PHASE] == WORKING:
        m[me + at.PHASE] = LOOKING
        # A job leaves the ring when it is done.
        popped += 1
        if is_free(m[me + at.CLIENT]):
            popped += m[me + at.COUNT] - 1
            m[at.FREED_VALUES] += m[me + at.AMOUNT]
        m[ring + POPPED] = popped
        end_job(m, calendar, m[me + at.CLIENT], now)
    if popped == m[ring + PUSHED]:
        return idle(m, thread, now)
    entry = entry_of(m, ring, popped)
    seen = m[entry]
    if seen > now:
        m[me + at.WAITS] = at.SPINS
        return seen
    job = m[entry + 1]
    m[me + at.PHASE] = WORKING
    m[me + at.CLIENT] = job
    if job & KIND_MASK == POLL_JOB:
        return work(m, me, now, begin_poll_job(m, now))
    duration = begin_job(m, job)
    if is_free(job):
        # Frees that follow each other are one step.
        m[me + at.COUNT] = 1
        m[me + at.AMOUNT] = job & KIND_MASK == FREE_JOB
        following = popped + 1
        while following < m[ring + PUSHED]:
            entry = entry_of(m, ring, following)
            if m[entry] > now or not is_free(m[entry + 1]):
                break
            duration += m[entry + 1] >> KIND_BITS
            m[me + at.COUNT] += 1
            m[me + at.AMOUNT] += m[entry + 1] & KIND_MASK == FREE_JOB
            following += 1
    return work(m, me, now, duration)


@inlined
def begin(m, calendar):
    """All threads begin as `start` leaves them."""


@inlined
def server_step(m, calendar, agent, now):
    """Advance a thread whose present step ends now; returns when the next one ends."""
    return io_step(m, calendar, agent, now) if agent > 0 else main_step(job_rings, m, calendar, now)


@inlined
def finish(m):
    """Account for what was still going on."""
    finish_dispatching(m)
