"""Policy: I/O threads on shared queues (Valkey 9.1).

One queue of jobs that any thread takes from, one queue of responses to the main thread, and a
private queue per thread. Rules and constants: io_threads.c and queues.c of Valkey 9.1.0; the
reference execution states them in the order in which the main thread follows them.
"""

from forecache.sim.calendar import INFINITY_PS
from forecache.sim.stamped_rings import first_stamp, first_value, length, pop, put

from .. import layout as at
from . import shared_jobs
from .dispatching import finish_dispatching, main_step
from .halts import spun_into_turn, stop_spinning
from .inline import inlined
from .main_thread import (
    ARGUMENTS_JOB,
    FREE_JOB,
    KIND_BITS,
    KIND_MASK,
    LOOKING,
    LOOPED,
    POLL_JOB,
    READ_JOB,
    SPINNING,
    TURN,
    WORKING,
    WRITE_JOB,
    begin_job,
    begin_poll_job,
    skip_turns,
)
from .sockets import end_write, thread_row, work

PRIVATE_JOBS_AT_ONCE = 32
"""Jobs an I/O thread takes from its private queue in one go."""


@inlined
def notice(m, calendar, now):
    """An I/O thread has finished something: main sees it at its first look after now."""
    me = thread_row(0)
    if m[me + at.PHASE] != SPINNING:
        return
    into = spun_into_turn(m, m[at.LOOP_PS], now)
    m[me + at.PHASE] = LOOPED
    stop_spinning(m, calendar, m[at.LOOP_PS] - into, now)


@inlined
def batch_to_free(m, queue, job, now):
    """Take further frees of a private queue together with a job; returns how long they take."""
    duration = job >> KIND_BITS
    taken = 1
    while taken < PRIVATE_JOBS_AT_ONCE and length(m, queue) > 0 and first_stamp(m, queue) <= now:
        if first_value(m, queue) & KIND_MASK != ARGUMENTS_JOB:
            break
        duration += pop(m, queue) >> KIND_BITS
        taken += 1
    return duration


@inlined
def io_step(m, calendar, thread, now):
    """Advance an I/O thread whose present job ends now; returns when the next one ends."""
    me = thread_row(thread)
    if m[me + at.PHASE] == WORKING:
        job = m[me + at.CLIENT]
        m[me + at.PHASE] = LOOKING
        if job & KIND_MASK <= POLL_JOB:
            if job & KIND_MASK == POLL_JOB:
                m[at.POLL_STATE] = at.COMPLETED
            else:
                if job & KIND_MASK == WRITE_JOB:
                    end_write(m, calendar, job >> KIND_BITS, now)
                put(m, at.RESPONSES, job)
            notice(m, calendar, now)
        elif job & KIND_MASK == FREE_JOB:
            m[at.FREED_VALUES] += 1
    queue = me + at.QUEUE
    seen = INFINITY_PS
    if length(m, queue) > 0:
        seen = first_stamp(m, queue)
    if seen > now and thread < m[at.ACTIVE_THREADS] and length(m, at.SHARED_JOBS) > 0:
        queue = at.SHARED_JOBS
        seen = min(seen, first_stamp(m, queue))
    if seen == INFINITY_PS:
        m[me + at.ASLEEP] = 1
        m[me + at.WAITS] = at.SPINS if thread < m[at.ACTIVE_THREADS] else at.SLEEPS
        return INFINITY_PS
    if seen > now:
        # A job that is not visible yet, on its way between the cores, is waited for.
        m[me + at.ASLEEP] = 0
        m[me + at.WAITS] = at.SPINS
        return seen
    job = pop(m, queue)
    m[me + at.CLIENT] = job
    m[me + at.PHASE] = WORKING
    if job & KIND_MASK == POLL_JOB:
        return work(m, me, now, begin_poll_job(m, now))
    if job & KIND_MASK == ARGUMENTS_JOB:
        return work(m, me, now, batch_to_free(m, queue, job, now))
    if job & KIND_MASK == READ_JOB:
        m[(job >> KIND_BITS) + at.SERVED_BY] = thread
    return work(m, me, now, begin_job(m, job))


@inlined
def begin(m, calendar):
    """All threads begin as `start` leaves them."""


@inlined
def server_step(m, calendar, agent, now):
    """Advance a thread whose present step ends now; returns when the next one ends."""
    if agent > 0:
        return io_step(m, calendar, agent, now)
    if m[thread_row(0) + at.PHASE] == SPINNING:
        # No thread finished anything until the turn that samples the load.
        skip_turns(m, m[at.LOOP_PS], now)
        m[thread_row(0) + at.PHASE] = TURN
    return main_step(shared_jobs, m, calendar, now)


@inlined
def finish(m):
    """Account for what was still going on."""
    finish_dispatching(m)
