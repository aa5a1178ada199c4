// Policy: asynchronous I/O threads with one job ring each (Valkey 8.0 to 9.0).
//
// Rules and constants: io_threads.c, networking.c and server.c of Valkey 8.0.0 and 8.1.0; the
// reference execution states them in the order in which the main thread follows them.

#include "job_rings.h"

// An I/O thread has finished something: where in its spinning turn does main see it?
//
// Turns that find nothing all last the same, so the present one is found by division; main sees
// the news at its next look after now. At equal times main acts first and has not seen it yet.
INLINE void notice(struct node *n, struct calendar *calendar, int64_t now) {
    struct thread *me = &n->threads[0];
    if (me->phase != TURN_SPINNING) {
        return;
    }
    int64_t into = spun_into_turn(n, quiet_turn_ps(n), now);
    int64_t first = n->loop_ps + n->scan_ps * n->reads_in_flight;
    int64_t second = first + n->scan_ps * n->reads_in_flight;
    me->phase = LOOKED;
    int64_t looks_after;
    if (into < first) {
        me->again = 0;
        looks_after = first;
    } else if (into < second) {
        me->again = 1;
        looks_after = second;
    } else {
        me->phase = SCANNED_WRITES;
        looks_after = quiet_turn_ps(n);
    }
    stop_spinning(n, calendar, looks_after - into, now);
}

// An I/O thread's job is done.
INLINE void end_job(struct node *n, struct calendar *calendar, int64_t job, int64_t now) {
    int64_t kind = kind_of(job);
    if (kind == READ_JOB) {
        line_put(&n->done_reads, client_of(n, job));
    } else if (kind == WRITE_JOB) {
        line_put(&n->done_writes, client_of(n, job));
    } else if (kind == POLL_JOB) {
        n->poll_state = COMPLETED;
    } else {
        return;  // the main thread waits neither for frees nor for handshakes
    }
    notice(n, calendar, now);
}

// Whether a job is to free values or arguments.
INLINE int64_t is_free(int64_t job) {
    return kind_of(job) == FREE_JOB || kind_of(job) == ARGUMENTS_JOB;
}

// Advance an I/O thread whose present job ends now, or whose reply has left; returns until when the
// next step lasts.
INLINE int64_t io_step(struct node *n, struct calendar *calendar, int64_t thread, int64_t now) {
    struct thread *me = &n->threads[thread];
    struct ring *ring = &me->queue;
    int64_t popped = ring->popped;
    if (write_leaves(n, calendar, me, now)) {
        return now + SENT_PS;
    }
    if (me->phase != IO_LOOKING) {
        me->phase = IO_LOOKING;
        // A job leaves the ring when it is done.
        popped++;
        if (is_free(me->job)) {
            popped += me->count - 1;
            n->freed_values += me->amount;
        }
        ring->popped = popped;
        end_job(n, calendar, me->job, now);
    }
    if (popped == ring->pushed) {
        return idle(n, thread, now);
    }
    struct entry *entry = ring_entry(ring, popped);
    int64_t seen = entry->stamp_ps;
    if (seen > now) {
        me->waits = SPINS;
        return seen;
    }
    int64_t job = entry->value;
    me->phase = IO_WORKING;
    me->job = job;
    if (kind_of(job) == POLL_JOB) {
        return work(n, me, now, begin_poll_job(n, now));
    }
    int64_t duration = begin_job(n, job, now);
    if (is_free(job)) {
        // Frees that follow each other are one step.
        me->count = 1;
        me->amount = kind_of(job) == FREE_JOB;
        int64_t following = popped + 1;
        while (following < ring->pushed) {
            entry = ring_entry(ring, following);
            if (entry->stamp_ps > now || !is_free(entry->value)) {
                break;
            }
            duration += subject_of(entry->value);
            me->count++;
            me->amount += kind_of(entry->value) == FREE_JOB;
            following++;
        }
    }
    return work(n, me, now, duration);
}

// All threads begin as `start` leaves them.
INLINE void begin(struct node *n, struct calendar *calendar) {
}

// Advance a thread whose present step ends now; returns when the next one ends.
INLINE int64_t server_step(struct node *n, struct calendar *calendar, int64_t agent, int64_t now) {
    return (agent > 0) ? io_step(n, calendar, agent, now) : main_step(n, calendar, now);
}

// Account for what was still going on.
INLINE void finish(struct node *n) {
    finish_dispatching(n);
}

#define RUN run_asynchronous
#include "run.h"
