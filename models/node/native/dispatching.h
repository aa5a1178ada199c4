// The main thread of the two asynchronous policies, which never waits for its I/O threads.
//
// It does the steps of the reference execution (`JobQueues` in `policies/io_threads.py`) in the
// same order. The queue discipline, job_rings.h or shared_jobs.h, includes this file after it has
// said with which jobs a client gets no further one (`BUSY`) and whether pending writes start
// threads (`STARTS_FOR_WRITES`), and then defines what is declared here.

#ifndef FORECACHE_DISPATCHING_H
#define FORECACHE_DISPATCHING_H

#include "halts.h"
#include "log.h"
#include "main_thread.h"

// --- what a queue discipline defines -------------------------------------------------------------

// Queueing jobs: who gets a client's job, whether there is room, and the kinds that have ways of
// their own; those say whether there was room.
INLINE int64_t thread_for(struct node *n, struct client *client);
INLINE int64_t has_room(struct node *n, int64_t thread);
INLINE void queue_job(struct node *n, struct calendar *calendar, int64_t thread, int64_t job,
                      int64_t now);
INLINE void put_poll(struct node *n, struct calendar *calendar, int64_t now);
INLINE int64_t put_free(struct node *n, struct calendar *calendar, int64_t work_ps, int64_t now);
INLINE int64_t put_arguments(struct node *n, struct calendar *calendar, struct client *client,
                             int64_t work_ps, int64_t now);
INLINE int64_t put_handshake(struct node *n, struct calendar *calendar, int64_t now);

// Finding finished jobs.
INLINE int64_t begin_look(struct node *n, int64_t now);
INLINE int64_t look_step(struct node *n, struct calendar *calendar, int64_t phase, int64_t now);

// Starting and stopping threads.
INLINE int64_t adjust_threads(struct node *n, struct calendar *calendar, int64_t events,
                              int64_t increase_only, int64_t now);

// Spinning in turns that are certain to find nothing.
INLINE int64_t finds_nothing(struct node *n, int64_t now);
INLINE int64_t spin(struct node *n, int64_t now);

// Doing several steps at once where no other thread can interfere.
INLINE int64_t execute_ahead(struct node *n, struct calendar *calendar, int64_t now);
INLINE int64_t dispatch_ahead(struct node *n, struct calendar *calendar, int64_t now);

// --- the main thread -----------------------------------------------------------------------------

// Phases of the main thread before it polls. A discipline has its own from LOOK_PHASES on.
enum {
    SENT_POLL = OWN_PHASES,
    COUNT_PENDING_WRITES,
    NEXT_PENDING_WRITE,
    SENT_PENDING_WRITE,
    WROTE_INLINE,
    LOOKED,  // it has looked for finished jobs
    NEXT_IN_BATCH,
    EXECUTED_CLIENT,
    FREED_INLINE,
    LOOK_PHASES,
};

// Queue a read that finds room.
INLINE void send_read(struct node *n, struct calendar *calendar, struct client *client,
                      int64_t now) {
    queue_job(n, calendar, thread_for(n, client), new_job(READ_JOB, number_of(n, client)), now);
    client->jobs |= READ_UNDER_WAY;
    n->reads_in_flight++;
}

// Queue a write that finds room.
INLINE void send_write(struct node *n, struct calendar *calendar, struct client *client,
                       int64_t now) {
    queue_job(n, calendar, thread_for(n, client), new_job(WRITE_JOB, number_of(n, client)), now);
    client->jobs |= WRITE_UNDER_WAY;
    n->writes_in_flight++;
}

// Queue a client's replies, or leave them for the pending writes.
INLINE void try_send_write(struct node *n, struct calendar *calendar, struct client *client,
                           int64_t now) {
    int64_t nothing = client->executed == client->written;
    if (nothing || (client->jobs & WRITE_UNDER_WAY)) {
        return;
    }
    if (n->active_threads > 1) {
        if (has_room(n, thread_for(n, client))) {
            send_write(n, calendar, client, now);
            return;
        }
        n->refused_jobs++;
    }
    add_pending_write(n, client);
}

// Queue the freeing of what a client's SETs replaced, and of its arguments.
//
// Returns the time that it takes to free what found no room, in ps.
INLINE int64_t send_frees(struct node *n, struct calendar *calendar, struct client *client,
                          int64_t now) {
    int64_t refused_ps = 0;
    int64_t work_ps;
    for (int64_t index = client->executed; index < client->read; index++) {
        work_ps = command_of(n, mark_of(n, client, index))->free_ps;
        if (work_ps > 0 && !put_free(n, calendar, work_ps, now)) {
            refused_ps += work_ps;
            n->freed_values++;
            n->inline_frees++;
        }
    }
    int64_t commands = client->read - client->executed;
    work_ps = commands * n->free_arguments_ps;
    if (work_ps > 0 && !put_arguments(n, calendar, client, work_ps, now)) {
        refused_ps += work_ps;
        n->inline_arguments += commands;
    }
    return refused_ps;
}

// Queue the handshakes of new connections; returns how many found no room.
INLINE int64_t send_handshakes(struct node *n, struct calendar *calendar, int64_t connections,
                               int64_t now) {
    int64_t refused = 0;
    for (int64_t i = 0; i < connections; i++) {
        n->accepted_connections++;
        if (!(n->offload_handshakes && put_handshake(n, calendar, now))) {
            refused++;
        }
    }
    return refused;
}

// Start a turn; if it is certain to find nothing, spin until an I/O thread is done.
INLINE int64_t begin_turn(struct node *n, int64_t now) {
    struct thread *me = &n->threads[0];
    if (n->poll_state == PENDING && n->pending_write_count == 0 && n->logged_bytes == 0 &&
        finds_nothing(n, now)) {
        me->phase = TURN_SPINNING;
        me->since_ps = now;
        return spin(n, now);
    }
    me->phase = TURN_LOOPED;
    return now + n->loop_ps;
}

// Take up to a batch of clients whose reads are done and look their keys up; returns when.
//
// A single key is not fetched ahead: there is nothing to overlap its misses with.
INLINE int64_t begin_batch(struct node *n, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t limit = max64(1, n->prefetch_batch);
    int64_t left = me->count;
    struct client **batch = n->batch;
    int64_t size = 0;
    int64_t keys = 0;
    while (left > 0 && size < limit && keys < limit) {
        struct client *client = line_take(&n->done_reads);
        left--;
        batch[size] = client;
        size++;
        int64_t index = client->executed;
        keys += keys_of(n, client, index, index + parsed_commands(n, client));
    }
    me->count = left;
    n->reads_in_flight -= size;
    n->productive = 1;
    me->index = 0;
    me->amount = size;
    me->fetched = 0;
    keys = min64(keys, limit);
    if (keys > 1) {
        me->fetched = keys;
        n->prefetch_batches++;
        n->prefetched_keys += keys;
        return step_end(n, me, now, n->prefetch[keys]);
    }
    return now;
}

// Execute what a client's finished read brought; returns when that ends.
INLINE int64_t begin_execution(struct node *n, struct client *client, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t parsed = parsed_commands(n, client);
    int64_t index = client->executed;
    int64_t fetched = min64(keys_of(n, client, index, index + parsed), me->fetched);
    me->fetched -= fetched;
    int64_t duration = execute_commands(n, client, fetched, parsed) + n->push_ps;
    // What the commands leave to be freed is queued one by one.
    int64_t pushed = values_to_free(n, client);
    if (n->free_arguments_ps > 0) {
        pushed += client->read - client->executed;
    }
    return step_end(n, me, now, duration + pushed * n->free_push_ps);
}

// The present client of the batch is executed.
INLINE void end_execution(struct node *n, struct client *client) {
    n->threads[0].index++;
    client->executed = client->read;
    client->jobs &= ~READ_UNDER_WAY;
}

// Execute, batch by batch, what finished reads brought.
//
// Returns when the next step ends, or -1 when there is none.
INLINE int64_t execution_step(struct node *n, struct calendar *calendar, int64_t phase,
                              int64_t now) {
    struct thread *me = &n->threads[0];
    if (phase >= EXECUTED_CLIENT) {
        struct client *client = n->batch[me->index];
        if (n->frees && phase == EXECUTED_CLIENT) {
            int64_t refused_ps = send_frees(n, calendar, client, now);
            if (refused_ps > 0) {
                me->phase = FREED_INLINE;
                return step_end(n, me, now, refused_ps);
            }
        }
        end_execution(n, client);
        if (n->fsync_always) {
            add_pending_write(n, client);
        } else {
            try_send_write(n, calendar, client, now);
        }
    }
    if (phase >= NEXT_IN_BATCH) {
        me->phase = NEXT_IN_BATCH;
        int64_t reached = execute_ahead(n, calendar, now);
        if (reached > now) {
            return reached;
        }
        if (me->index < me->amount) {
            me->phase = EXECUTED_CLIENT;
            return begin_execution(n, n->batch[me->index], now);
        }
    }
    if (me->count > 0) {
        me->phase = NEXT_IN_BATCH;
        return begin_batch(n, now);
    }
    return -1;
}

// Flush the log and send replies that found no room earlier, last client first.
//
// Returns when the next step ends, or -1 when there is none.
INLINE int64_t pending_write_step(struct node *n, struct calendar *calendar, int64_t phase,
                                  int64_t now) {
    struct thread *me = &n->threads[0];
    if (phase == COUNT_PENDING_WRITES) {
        if (unlikely(n->logged_bytes > 0)) {
            me->phase = COUNT_PENDING_WRITES;
            n->productive = 1;
            return step_end(n, me, now, flush_ps(n, now));
        }
        if (n->pending_write_count > 0) {
            me->phase = NEXT_PENDING_WRITE;
            n->productive = 1;
            if (STARTS_FOR_WRITES) {
                int64_t changed = adjust_threads(n, calendar, n->pending_write_count, true, now);
                return step_end(n, me, now, changed * n->activate_ps);
            }
        }
    } else if (phase == SENT_PENDING_WRITE) {
        try_send_write(n, calendar, me->client, now);
    } else if (phase == WROTE_INLINE) {
        end_write(n, calendar, me->client, now);
    }
    while (n->pending_write_count > 0) {
        struct client *client = take_pending_write(n);
        me->client = client;
        if ((client->jobs & WRITE_UNDER_WAY) || client->executed == client->written) {
            continue;  // the rest follows when that write is done, or has left with it
        }
        if (n->active_threads > 1 && has_room(n, thread_for(n, client))) {
            me->phase = SENT_PENDING_WRITE;
            return step_end(n, me, now, n->push_ps);
        }
        me->phase = WROTE_INLINE;
        n->inline_writes++;
        return step_end(n, me, now, begin_write(n, client, now));
    }
    return -1;
}

// The part of a turn before the poll; returns when its next step ends, or -1 when it is over.
//
// Order: poll job, finished jobs, pending writes, finished jobs again.
INLINE int64_t before_sleep_step(struct node *n, struct calendar *calendar, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t phase = me->phase;
    int64_t following;
    if (phase <= SENT_POLL) {
        if (phase == SENT_POLL) {
            n->poll_state = PENDING;
            put_poll(n, calendar, now);
        } else if (n->active_threads > 1 && n->poll_state == IDLE) {
            int64_t in_flight = n->reads_in_flight + n->writes_in_flight;
            if (in_flight > 0 && has_room(n, n->active_threads - 1)) {
                me->phase = SENT_POLL;
                return step_end(n, me, now, n->push_ps);
            }
        }
        me->again = 0;
        me->phase = LOOKED;
        phase = LOOKED;
        following = begin_look(n, now);
        if (following >= 0) {
            return following;
        }
    }
    while (true) {
        if (phase >= LOOKED) {
            following = look_step(n, calendar, phase, now);
            if (following >= 0 || me->again) {
                return following;
            }
            phase = COUNT_PENDING_WRITES;
        }
        following = pending_write_step(n, calendar, phase, now);
        if (following >= 0) {
            return following;
        }
        me->again = 1;
        me->phase = LOOKED;
        phase = LOOKED;
        following = begin_look(n, now);
        if (following >= 0) {
            return following;
        }
    }
}

// Hand readable clients to I/O threads or serve them; returns when that ends, or -1.
INLINE int64_t event_step(struct node *n, struct calendar *calendar, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t phase = me->phase;
    struct client *client = me->client;
    if (phase == TURN_SENT_READ) {
        send_read(n, calendar, client, now);
    } else if (phase == TURN_READ_INLINE) {
        client->executed = client->read;
        add_pending_write(n, client);
    }
    int64_t reached = dispatch_ahead(n, calendar, now);
    if (reached > now) {
        return reached;
    }
    if (me->count == 0) {
        return -1;
    }
    n->productive = 1;
    client = next_event(n, me);
    me->client = client;
    if (client->jobs & BUSY) {
        n->found_again++;
        me->phase = TURN_NEXT_EVENT;
        return step_end(n, me, now, n->event_ps);
    }
    if (n->active_threads > 1) {
        if (has_room(n, thread_for(n, client))) {
            me->phase = TURN_SENT_READ;
            return step_end(n, me, now, n->push_ps);
        }
        n->refused_jobs++;
    }
    me->phase = TURN_READ_INLINE;
    return read_inline(n, client, now);
}

// Advance the main thread whose present step ends now; returns when the next one ends.
INLINE int64_t main_step(struct node *n, struct calendar *calendar, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t following;
    if (me->phase >= TURN_LOOPED) {
        following = before_sleep_step(n, calendar, now);
        if (following >= 0) {
            return following;
        }
        me->phase = TURN_LOOK_FOR_EVENTS;
    }
    if (TURN_LOOK_FOR_EVENTS <= me->phase && me->phase <= TURN_POLLED) {
        following = poll_step(n, now);
        if (following >= 0) {
            return following;
        }
        me->phase = TURN_ACCEPT;
        int64_t changed = adjust_threads(n, calendar, me->count, false, now);
        if (changed) {
            return step_end(n, me, now, changed * n->activate_ps);
        }
    }
    if (me->phase == TURN_ACCEPT) {
        me->phase = TURN_NEXT_EVENT;
        following = accept_step(n, now);
        if (unlikely(following >= 0)) {
            return following;
        }
    }
    if (unlikely(me->phase == TURN_ACCEPTED)) {
        me->phase = TURN_NEXT_EVENT;
        int64_t refused = send_handshakes(n, calendar, me->index, now);
        following = handshakes_step(n, refused, now);
        if (following >= 0) {
            return following;
        }
    }
    if (me->phase != TURN_BEGINS) {
        following = event_step(n, calendar, now);
        if (following >= 0) {
            return following;
        }
        end_turn(n, now);
    }
    return begin_turn(n, now);
}

// Account for what was still going on at the end of the run.
INLINE void finish_dispatching(struct node *n) {
    struct thread *me = &n->threads[0];
    if (me->phase == TURN_SPINNING) {
        finish_turns(n, me->turn_ps);
    }
    account_active(n, n->end_ps);
}

#endif
