// Policy: I/O threads on shared queues (Valkey 9.1).
//
// One queue of jobs that any thread takes from, one queue of responses to the main thread, and a
// private queue per thread. Rules and constants: io_threads.c and queues.c of Valkey 9.1.0; the
// reference execution states them in the order in which the main thread follows them.

#include "shared_jobs.h"

// Jobs an I/O thread takes from its private queue in one go.
enum { PRIVATE_JOBS_AT_ONCE = 32 };

// An I/O thread has finished something: main sees it at its first look after now.
INLINE void notice(struct node *n, struct calendar *calendar, int64_t now) {
    struct thread *me = &n->threads[0];
    if (me->phase != TURN_SPINNING) {
        return;
    }
    int64_t into = spun_into_turn(n, n->loop_ps, now);
    me->phase = TURN_LOOPED;
    stop_spinning(n, calendar, n->loop_ps - into, now);
}

// Take further frees of a private queue together with a job; returns how long they take.
INLINE int64_t batch_to_free(struct node *n, struct ring *queue, int64_t job, int64_t now) {
    int64_t duration = subject_of(job);
    int64_t taken = 1;
    while (taken < PRIVATE_JOBS_AT_ONCE && ring_length(queue) > 0 &&
           ring_first_stamp(queue) <= now) {
        if (kind_of(ring_first(queue)->value) != ARGUMENTS_JOB) {
            break;
        }
        duration += subject_of(ring_pop(queue));
        taken++;
    }
    return duration;
}

// Advance an I/O thread whose present job ends now, or whose reply has left; returns until when the
// next step lasts.
INLINE int64_t io_step(struct node *n, struct calendar *calendar, int64_t thread, int64_t now) {
    struct thread *me = &n->threads[thread];
    if (write_leaves(n, calendar, me, now)) {
        return now + SENT_PS;
    }
    if (me->phase != IO_LOOKING) {
        int64_t job = me->job;
        me->phase = IO_LOOKING;
        if (kind_of(job) <= POLL_JOB) {
            if (kind_of(job) == POLL_JOB) {
                n->poll_state = COMPLETED;
            } else {
                ring_push(&n->responses, now, job);
            }
            notice(n, calendar, now);
        } else if (kind_of(job) == FREE_JOB) {
            n->freed_values++;
        }
    }
    struct ring *queue = &me->queue;
    int64_t seen = INFINITY_PS;
    if (ring_length(queue) > 0) {
        seen = ring_first_stamp(queue);
    }
    if (seen > now && thread < n->active_threads && ring_length(&n->shared_jobs) > 0) {
        queue = &n->shared_jobs;
        seen = min64(seen, ring_first_stamp(queue));
    }
    if (seen == INFINITY_PS) {
        me->asleep = 1;
        me->waits = (thread < n->active_threads) ? SPINS : SLEEPS;
        return INFINITY_PS;
    }
    if (seen > now) {
        // A job that is not visible yet, on its way between the cores, is waited for.
        me->asleep = 0;
        me->waits = SPINS;
        return seen;
    }
    int64_t job = ring_pop(queue);
    me->job = job;
    me->phase = IO_WORKING;
    if (kind_of(job) == POLL_JOB) {
        return work(n, me, now, begin_poll_job(n, now));
    }
    if (kind_of(job) == ARGUMENTS_JOB) {
        return work(n, me, now, batch_to_free(n, queue, job, now));
    }
    if (kind_of(job) == READ_JOB) {
        client_of(n, job)->served_by = thread;
    }
    return work(n, me, now, begin_job(n, job, now));
}

// All threads begin as `start` leaves them.
INLINE void begin(struct node *n, struct calendar *calendar) {
}

// Advance a thread whose present step ends now; returns when the next one ends.
INLINE int64_t server_step(struct node *n, struct calendar *calendar, int64_t agent, int64_t now) {
    if (agent > 0) {
        return io_step(n, calendar, agent, now);
    }
    if (n->threads[0].phase == TURN_SPINNING) {
        // No thread finished anything until the turn that samples the load.
        skip_turns(n, n->loop_ps, now);
        n->threads[0].phase = TURN_BEGINS;
    }
    return main_step(n, calendar, now);
}

// Account for what was still going on.
INLINE void finish(struct node *n) {
    finish_dispatching(n);
}

#define RUN run_shared_queues
#include "run.h"
