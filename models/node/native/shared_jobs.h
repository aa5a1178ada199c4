// Queue discipline of `shared_queues`: one queue of jobs that any I/O thread takes from.
//
// Responses come back through one queue; each thread has a private queue too. Threads are started
// and stopped by sampled load. Rules and constants: io_threads.c and queues.c of Valkey 9.1.0.

#ifndef FORECACHE_SHARED_JOBS_H
#define FORECACHE_SHARED_JOBS_H

#include "node.h"

enum {
    // Any thread may take any job, so a client has one job at a time.
    BUSY = READ_UNDER_WAY | WRITE_UNDER_WAY | WRITE_PENDING,
    STARTS_FOR_WRITES = false,
};

#include "dispatching.h"

// In place of the number of an I/O thread: all take jobs from one queue.
enum { ANY_THREAD = 0 };
// Responses the main thread takes from the queue in one go.
enum { RESPONSES_AT_ONCE = 16 };
// With more active threads, the poll job goes to their private queues in turn.
enum {
    SHARED_POLL_LIMIT = 9,
    SAMPLES_PER_DECISION = 16,
};
// Share of active main-thread time above which the first I/O thread starts.
enum { IGNITION_PER_MILLE = 300 };

// The private queue of an I/O thread.
INLINE struct ring *private_jobs(struct node *n, int64_t thread) {
    return &n->threads[thread].queue;
}

// Any thread takes a client's jobs.
INLINE int64_t thread_for(struct node *n, struct client *client) {
    return ANY_THREAD;
}

// Whether the shared queue takes another job.
INLINE int64_t has_room(struct node *n, int64_t thread) {
    return !ring_is_full(&n->shared_jobs);
}

// Let an I/O thread that spins idly see a job at a time, if it takes jobs by then.
INLINE void wake(struct node *n, struct calendar *calendar, int64_t thread, int64_t seen) {
    struct thread *row = &n->threads[thread];
    row->asleep = 0;
    schedule(calendar, thread, max64(seen, row->available_ps));
}

// Put a job into the shared queue; the first active thread that spins idly takes it.
INLINE void queue_job(struct node *n, struct calendar *calendar, int64_t thread, int64_t job,
                      int64_t now) {
    int64_t seen = now + n->handover_ps;
    ring_push(&n->shared_jobs, seen, job);
    for (int64_t thread = 1; thread < n->active_threads; thread++) {
        if (n->threads[thread].asleep && !waits_for_core(n, thread)) {
            wake(n, calendar, thread, seen);
            return;
        }
    }
}

// Put a job into a thread's private queue.
INLINE void put_private(struct node *n, struct calendar *calendar, int64_t thread, int64_t job,
                        int64_t now) {
    int64_t seen = now + n->handover_ps;
    struct thread *row = &n->threads[thread];
    ring_push(&row->queue, max64(seen, row->available_ps), job);
    if (row->asleep) {
        wake(n, calendar, thread, seen);
    }
}

// Give a job without a client to any I/O thread; returns whether there was room.
INLINE int64_t put_work(struct node *n, struct calendar *calendar, int64_t job, int64_t now) {
    if (n->active_threads == 1 || ring_is_full(&n->shared_jobs)) {
        return false;
    }
    queue_job(n, calendar, ANY_THREAD, job, now);
    return true;
}

// Let whichever thread takes it free a value; returns whether there was room.
INLINE int64_t put_free(struct node *n, struct calendar *calendar, int64_t work_ps, int64_t now) {
    return put_work(n, calendar, new_job(FREE_JOB, work_ps), now);
}

// Let any thread do a handshake; returns whether there was room.
INLINE int64_t put_handshake(struct node *n, struct calendar *calendar, int64_t now) {
    return put_work(n, calendar, HANDSHAKE_JOB, now);
}

// Let the thread that read a client's arguments free them; returns whether there was room.
INLINE int64_t put_arguments(struct node *n, struct calendar *calendar, struct client *client,
                             int64_t work_ps, int64_t now) {
    int64_t thread = client->served_by;
    if (thread >= n->active_threads || ring_is_full(private_jobs(n, thread))) {
        return false;
    }
    put_private(n, calendar, thread, new_job(ARGUMENTS_JOB, work_ps), now);
    return true;
}

// Give the poll job to the shared queue or, with many threads, to each in turn.
INLINE void put_poll(struct node *n, struct calendar *calendar, int64_t now) {
    int64_t active = n->active_threads;
    if (active <= SHARED_POLL_LIMIT) {
        queue_job(n, calendar, ANY_THREAD, POLL_JOB, now);
        return;
    }
    int64_t thread = n->next_private % (active - 1) + 1;
    n->next_private = thread;
    put_private(n, calendar, thread, POLL_JOB, now);
}

// Start or stop the last thread.
INLINE void change_active(struct node *n, struct calendar *calendar, int64_t active, int64_t now) {
    struct thread *row = &n->threads[max64(active, n->active_threads) - 1];
    if (active > n->active_threads) {
        // A stopped thread of this generation blocks on its mutex at once.
        row->available_ps = now + n->thread_wake_ps;
        look_at(n, calendar, active - 1, row->available_ps);
    } else {
        row->stopped_ps = now;
        look_at(n, calendar, active, now);
    }
    set_active(n, active, now);
    n->changed_ps = now;
}

// Start or stop I/O threads by sampled load; returns how many changed.
//
// Alone, the main thread samples its active time; with helpers, it samples the depth of the
// shared queue. Every sixteenth sample decides.
INLINE int64_t adjust_threads(struct node *n, struct calendar *calendar, int64_t events,
                              int64_t increase_only, int64_t now) {
    if (now < n->next_sample_ps) {
        return 0;
    }
    int64_t active = n->active_threads;
    if (n->io_threads == 1) {
        return 0;
    }
    int64_t period;
    if (active == 1) {
        period = n->ignite_period_ps;
        int64_t elapsed = now - n->next_sample_ps + period;
        int64_t spent = n->main_active_ps - n->sampled_active_ps;
        n->sample_sum += spent * 1000 / elapsed;
        n->sampled_active_ps = n->main_active_ps;
    } else {
        period = n->grow_period_ps;
        n->sample_sum += ring_length(&n->shared_jobs);
    }
    n->next_sample_ps = now + period;
    n->samples++;
    if (n->samples < SAMPLES_PER_DECISION) {
        return 0;
    }
    int64_t total = n->sample_sum;
    n->samples = 0;
    n->sample_sum = 0;
    if (active == 1) {
        if (total > IGNITION_PER_MILLE * SAMPLES_PER_DECISION) {
            change_active(n, calendar, 2, now);
            return 1;
        }
    } else if (total > SAMPLES_PER_DECISION) {
        if (active < n->io_threads) {
            change_active(n, calendar, active + 1, now);
            return 1;
        }
    } else if (total == 0 && now - n->changed_ps > n->shrink_after_ps) {
        int64_t left = ring_length(private_jobs(n, active - 1));
        if (active == 2) {
            left += ring_length(&n->shared_jobs);
        }
        if (left == 0 && active > 1) {
            n->sampled_active_ps = n->main_active_ps;
            change_active(n, calendar, active - 1, now);
            return 1;
        }
    }
    return 0;
}

// A look at the queue of responses takes no time.
INLINE int64_t begin_look(struct node *n, int64_t now) {
    return -1;
}

// Take up to 16 responses and sort them into reads and writes; returns when that ends.
INLINE int64_t take_responses(struct node *n, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t taken = min64(ring_length(&n->responses), RESPONSES_AT_ONCE);
    for (int64_t i = 0; i < taken; i++) {
        int64_t response = ring_pop(&n->responses);
        if (kind_of(response) == READ_JOB) {
            line_put(&n->done_reads, client_of(n, response));
        } else {
            line_put(&n->done_writes, client_of(n, response));
        }
    }
    n->productive = 1;
    me->count = line_length(&n->done_reads);
    me->phase = NEXT_IN_BATCH;
    me->index = 0;
    me->amount = 0;
    return step_end(n, me, now, taken * n->collect_ps);
}

// Take responses until there are none: reads in batches, then writes.
//
// Returns when the next step ends, or -1 when there is none.
INLINE int64_t look_step(struct node *n, struct calendar *calendar, int64_t phase, int64_t now) {
    struct thread *me = &n->threads[0];
    if (phase != LOOKED) {
        int64_t following = execution_step(n, calendar, phase, now);
        if (following >= 0) {
            return following;
        }
        int64_t done = line_length(&n->done_writes);
        n->writes_in_flight -= done;
        for (int64_t i = 0; i < done; i++) {
            line_take(&n->done_writes)->jobs &= ~WRITE_UNDER_WAY;
        }
        me->phase = LOOKED;
        if (done > 0) {
            return step_end(n, me, now, done * n->done_ps);
        }
    }
    if (ring_length(&n->responses) > 0) {
        return take_responses(n, now);
    }
    return -1;
}

// Whether a turn will find no response, and take no sample, as long as no thread responds.
INLINE int64_t finds_nothing(struct node *n, int64_t now) {
    return ring_length(&n->responses) == 0 && now + n->loop_ps < n->next_sample_ps;
}

// Spin until a response comes, at the latest until the turn that samples the load begins.
INLINE int64_t spin(struct node *n, int64_t now) {
    spin_in_turns(n, n->loop_ps, n->next_sample_ps);
    int64_t turns = (n->next_sample_ps - now - 1) / n->loop_ps;
    return now + turns * n->loop_ps;
}

// Not here: which thread takes a job depends on which ones are idle when it is queued.
INLINE int64_t execute_ahead(struct node *n, struct calendar *calendar, int64_t now) {
    return now;
}

// Not here either.
INLINE int64_t dispatch_ahead(struct node *n, struct calendar *calendar, int64_t now) {
    return now;
}

#endif
