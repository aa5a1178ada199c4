// Queue discipline of `asynchronous`: one ring of jobs for each I/O thread.
//
// A client's jobs go to one thread at a time; the main thread finds finished ones by looking at
// every client that has a job. Rules and constants: io_threads.c and networking.c of Valkey 8.0.0
// and 8.1.0.

#ifndef FORECACHE_JOB_RINGS_H
#define FORECACHE_JOB_RINGS_H

#include "node.h"

enum {
    // A socket that was still full when it was polled is left to the read that is under way.
    BUSY = READ_UNDER_WAY,
    STARTS_FOR_WRITES = true,
};

#include "dispatching.h"

// Phases of a look at finished writes.
enum {
    SCANNED_WRITES = LOOK_PHASES,
    NEXT_UNFINISHED,
    SENT_REST,
};
// A client's `served_by` packs the thread and among how many active ones it was chosen.
enum {
    ACTIVE_SHIFT = 16,
    THREAD_MASK = (1 << ACTIVE_SHIFT) - 1,
};

// The job ring of an I/O thread.
INLINE struct ring *jobs_of(struct node *n, int64_t thread) {
    return &n->threads[thread].queue;
}

// The I/O thread that gets a client's job: the one it still has a job with, else by number.
INLINE int64_t thread_for(struct node *n, struct client *client) {
    int64_t served_by = client->served_by;
    int64_t active = n->active_threads;
    if ((served_by >> ACTIVE_SHIFT) != active &&
        !(client->jobs & (READ_UNDER_WAY | WRITE_UNDER_WAY))) {
        served_by = (number_of(n, client) % (active - 1) + 1) | (active << ACTIVE_SHIFT);
        client->served_by = served_by;
    }
    return served_by & THREAD_MASK;
}

// Whether the job ring takes another job: one slot always stays empty.
INLINE int64_t has_room(struct node *n, int64_t thread) {
    return ring_length(jobs_of(n, thread)) < ring_capacity(jobs_of(n, thread)) - 1;
}

// Put a job into a thread's ring; a thread that spins sees it one hand-over later.
INLINE void queue_job(struct node *n, struct calendar *calendar, int64_t thread, int64_t job,
                      int64_t now) {
    struct thread *row = &n->threads[thread];
    int64_t seen = max64(now + n->handover_ps, row->available_ps);
    ring_push(&row->queue, seen, job);
    if (row->asleep) {
        row->asleep = 0;
        schedule(calendar, thread, seen);
    }
}

// The last active thread polls.
INLINE void put_poll(struct node *n, struct calendar *calendar, int64_t now) {
    queue_job(n, calendar, n->active_threads - 1, POLL_JOB, now);
}

// Give a job without a client to active threads in turn; returns whether there was room.
INLINE int64_t put_by_number(struct node *n, struct calendar *calendar, int64_t number, int64_t job,
                             int64_t now) {
    int64_t others = n->active_threads - 1;
    int64_t thread = number % max64(1, others) + 1;
    if (others == 0 || !has_room(n, thread)) {
        return false;
    }
    queue_job(n, calendar, thread, job, now);
    return true;
}

// Let the active threads free values in turn; returns whether there was room.
INLINE int64_t put_free(struct node *n, struct calendar *calendar, int64_t work_ps, int64_t now) {
    int64_t sent = put_by_number(n, calendar, n->frees_sent, new_job(FREE_JOB, work_ps), now);
    n->frees_sent += sent;
    return sent;
}

// Let a client's thread free its arguments; returns whether there was room.
INLINE int64_t put_arguments(struct node *n, struct calendar *calendar, struct client *client,
                             int64_t work_ps, int64_t now) {
    if (n->active_threads == 1 || !has_room(n, thread_for(n, client))) {
        return false;
    }
    queue_job(n, calendar, thread_for(n, client), new_job(ARGUMENTS_JOB, work_ps), now);
    return true;
}

// Give a new connection to a thread by its number; returns whether there was room.
INLINE int64_t put_handshake(struct node *n, struct calendar *calendar, int64_t now) {
    return put_by_number(n, calendar, n->accepted_connections, HANDSHAKE_JOB, now);
}

// Activate one thread per `events-per-io-thread` events; returns how many changed.
INLINE int64_t adjust_threads(struct node *n, struct calendar *calendar, int64_t events,
                              int64_t increase_only, int64_t now) {
    int64_t per_thread = n->events_per_io_thread;
    int64_t target = (per_thread == 0) ? events + 1 : events / per_thread;
    target = max64(1, min64(target, n->io_threads));
    int64_t active = n->active_threads;
    int64_t before = active;
    while (active < target) {
        start_thread(n, calendar, active, now);
        active++;
    }
    if (!increase_only) {
        while (active > target && ring_length(jobs_of(n, active - 1)) == 0) {
            active--;
            stop_thread(n, calendar, active, now);
        }
    }
    if (active != before) {
        set_active(n, active, now);
    }
    return active < before ? before - active : active - before;
}

// Look at every client whose read is under way; returns when the look is over.
INLINE int64_t begin_look(struct node *n, int64_t now) {
    return now + n->scan_ps * n->reads_in_flight;
}

INLINE int64_t written_step(struct node *n, struct calendar *calendar, int64_t phase, int64_t now);

// Process finished reads on both looks of a turn, finished writes on the second.
//
// Returns when the next step ends, or -1 when there is none.
INLINE int64_t look_step(struct node *n, struct calendar *calendar, int64_t phase, int64_t now) {
    struct thread *me = &n->threads[0];
    if (phase >= SCANNED_WRITES) {
        return written_step(n, calendar, phase, now);
    }
    if (phase == LOOKED) {
        me->count = line_length(&n->done_reads);
    }
    int64_t following = execution_step(n, calendar, phase, now);
    if (following >= 0 || !me->again) {
        return following;
    }
    me->phase = SCANNED_WRITES;
    return now + n->scan_ps * n->writes_in_flight;
}

// Take note of finished writes and send what was added meanwhile.
//
// Returns when the next step ends, or -1 when there is none.
INLINE int64_t written_step(struct node *n, struct calendar *calendar, int64_t phase, int64_t now) {
    struct thread *me = &n->threads[0];
    struct client *client;
    if (phase == SCANNED_WRITES) {
        int64_t done = line_length(&n->done_writes);
        if (done == 0) {
            return -1;
        }
        n->productive = 1;
        n->writes_in_flight -= done;
        for (int64_t position = 0; position < done; position++) {
            client = line_take(&n->done_writes);
            client->jobs &= ~WRITE_UNDER_WAY;
            n->batch[position] = client;
        }
        me->index = 0;
        me->amount = done;
        me->phase = NEXT_UNFINISHED;
        return step_end(n, me, now, done * n->done_ps);
    }
    if (phase == SENT_REST) {
        try_send_write(n, calendar, n->batch[me->index], now);
        me->index++;
        me->phase = NEXT_UNFINISHED;
    }
    while (me->index < me->amount) {
        client = n->batch[me->index];
        if (client->executed > client->written) {
            me->phase = SENT_REST;
            return step_end(n, me, now, n->push_ps);
        }
        me->index++;
    }
    return -1;
}

// How long a turn takes that finds nothing.
INLINE int64_t quiet_turn_ps(struct node *n) {
    int64_t looks = 2 * n->reads_in_flight + n->writes_in_flight;
    return n->loop_ps + n->scan_ps * looks;
}

// Whether a turn will find no finished job, as long as no thread finishes one.
INLINE int64_t finds_nothing(struct node *n, int64_t now) {
    return line_length(&n->done_reads) == 0 && line_length(&n->done_writes) == 0;
}

// Spin until an I/O thread has finished something.
INLINE int64_t spin(struct node *n, int64_t now) {
    spin_in_turns(n, quiet_turn_ps(n), INFINITY_PS);
    return INFINITY_PS;
}

// The room that the fullest job ring has left.
INLINE int64_t least_room(struct node *n) {
    int64_t least = n->job_capacity;
    for (int64_t thread = 1; thread < n->active_threads; thread++) {
        least =
            min64(least, ring_capacity(jobs_of(n, thread)) - 1 - ring_length(jobs_of(n, thread)));
    }
    return least;
}

// Execute on in the batch as far as no other thread can interfere; returns until when.
//
// Jobs carry the time at which they are seen, so they may be sent ahead of time while every ring
// is certain to have room and the client has no write under way that would take new replies.
INLINE int64_t execute_ahead(struct node *n, struct calendar *calendar, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t reached = now;
    // Every client gets a write, and perhaps jobs for its arguments and each value it replaces.
    int64_t jobs = me->amount - me->index;
    if (unlikely(n->frees)) {
        jobs *= 2 + n->outstanding_limit;
    }
    int64_t hindered = n->active_threads < 2 || n->crowded || n->fsync_always;
    if (hindered || jobs > least_room(n)) {
        return reached;
    }
    while (me->index < me->amount && reached < n->until_ps) {
        struct client *client = n->batch[me->index];
        if (client->jobs & WRITE_UNDER_WAY) {
            break;
        }
        reached = begin_execution(n, client, reached);
        if (unlikely(n->frees)) {
            send_frees(n, calendar, client, reached);
        }
        end_execution(n, client);
        if (client->executed > client->written) {
            send_write(n, calendar, client, reached);
        }
    }
    return reached;
}

// Hand out readable clients as long as every ring is certain to have room; see above.
INLINE int64_t dispatch_ahead(struct node *n, struct calendar *calendar, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t reached = now;
    if (n->active_threads < 2 || n->crowded || me->count > least_room(n)) {
        return reached;
    }
    while (me->count > 0 && reached < n->until_ps) {
        n->productive = 1;
        struct client *client = next_event(n, me);
        if (client->jobs & READ_UNDER_WAY) {
            n->found_again++;
            reached = step_end(n, me, reached, n->event_ps);
        } else {
            reached = step_end(n, me, reached, n->push_ps);
            send_read(n, calendar, client, reached);
        }
    }
    me->phase = TURN_NEXT_EVENT;
    return reached;
}

#endif
