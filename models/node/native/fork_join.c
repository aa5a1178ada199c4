// Policy: fork-join I/O threads (Redis 6.0 to 7.4, Valkey 7.2).
//
// Rules and constants: networking.c of Redis 6.2.0 and 7.0.0 and of Valkey 7.2.5; the reference
// execution states them in the order in which the main thread follows them.

#include "log.h"
#include "main_thread.h"

enum { CLIENTS_PER_THREAD = 2 };
// Phases of the main thread after it polled: first reads, then writes.
enum {
    FORKED = OWN_PHASES,  // the clients are handed out
    SERVED,  // one of the main thread's own
    JOINED,  // spinning until the slowest thread is done
    TAKEN_BACK,  // the other threads' clients are looked at again
    EXECUTED,
    WRITES,  // writes are next
    SWITCHED,  // the threads are started, or stopped
    WROTE_INLINE,
};

// The client at a position of what the threads share; both lists grow at their heads.
INLINE struct client *forked_client(struct node *n, int64_t position) {
    struct client **clients = n->forked_reads ? n->threads[0].watched_sockets : n->pending_writes;
    return clients[n->forked_clients - 1 - position];
}

// A thread reads from a client or writes to it; returns the duration in ps.
INLINE int64_t begin_serving(struct node *n, struct client *client, int64_t now) {
    return n->forked_reads ? read_and_parse(n, client, now) : begin_write(n, client, now);
}

// It has done so.
INLINE void end_serving(struct node *n, struct calendar *calendar, struct client *client,
                        int64_t now) {
    if (!n->forked_reads) {
        end_write(n, calendar, client, now);
        client->jobs &= ~WRITE_PENDING;
    }
}

// Begin to hand clients out; returns when that ends.
//
// Every counter is written, even for threads that get no client.
INLINE int64_t begin_fork(struct node *n, int64_t reads, int64_t clients, int64_t now) {
    struct thread *me = &n->threads[0];
    n->forked_reads = reads;
    n->forked_clients = clients;
    me->phase = FORKED;
    int64_t publishing = (n->io_threads - 1) * n->publish_ps;
    return step_end(n, me, now, clients * n->push_ps + publishing);
}

// Client number i goes to thread i modulo their number; those that spin see it.
INLINE void hand_out(struct node *n, struct calendar *calendar, int64_t now) {
    n->joined_ps = now;
    int64_t threads = min64(n->io_threads, n->forked_clients);
    for (int64_t thread = 1; thread < threads; thread++) {
        struct thread *row = &n->threads[thread];
        row->index = thread;
        row->count = 1;  // it has a share
        if (row->asleep) {
            row->asleep = 0;
            schedule(calendar, thread, max64(now + n->handover_ps, row->available_ps));
        }
    }
    // Otherwise it never had a core yet, and looks when it gets one.
    n->shares_left = threads - 1;
}

// Serve the main thread's own share, wait for the other threads, take their clients back.
//
// Returns when the next step ends, or -1 when all that is over.
INLINE int64_t fork_step(struct node *n, struct calendar *calendar, int64_t phase, int64_t now) {
    struct thread *me = &n->threads[0];
    if (phase == TAKEN_BACK) {
        return -1;
    }
    if (phase <= SERVED) {
        if (phase == FORKED) {
            hand_out(n, calendar, now);
            me->index = 0;
        } else {
            end_serving(n, calendar, me->client, now);
            me->index += n->io_threads;
        }
        if (me->index < n->forked_clients) {
            struct client *client = forked_client(n, me->index);
            me->client = client;
            me->phase = SERVED;
            *(n->forked_reads ? &n->inline_reads : &n->inline_writes) += 1;
            return step_end(n, me, now, begin_serving(n, client, now));
        }
        me->phase = JOINED;
        me->since_ps = now;
        if (n->shares_left > 0 || n->joined_ps > now) {
            me->waits = SPINS;
            return (n->shares_left > 0) ? INFINITY_PS : n->joined_ps;
        }
    }
    n->join_wait_ps += inside_window(n, me->since_ps, now);
    int64_t clients = n->forked_clients;
    int64_t threads = n->io_threads;
    me->phase = TAKEN_BACK;
    int64_t own = (clients + threads - 1) / threads;
    return step_end(n, me, now, (clients - own) * n->done_ps);
}

// Execute what the threads have read, client by client; returns when that ends, or -1.
INLINE int64_t execution_step(struct node *n, int64_t phase, int64_t now) {
    struct thread *me = &n->threads[0];
    struct client *client;
    if (phase == EXECUTED) {
        client = me->client;
        client->executed = client->read;
        add_pending_write(n, client);
        me->index++;
    } else {
        me->index = 0;
    }
    if (me->index == n->forked_clients) {
        return -1;
    }
    client = forked_client(n, me->index);
    me->client = client;
    me->phase = EXECUTED;
    return execute_inline(n, client, parsed_commands(n, client), now, 0);
}

// Begin to read what has arrived, by all threads or here; returns when that ends, or -1.
//
// Nobody sees anything of what is read here before the replies are written.
INLINE int64_t event_step(struct node *n, int64_t phase, int64_t now) {
    struct thread *me = &n->threads[0];
    struct client *client;
    if (phase == TURN_READ_INLINE) {
        client = me->client;
        client->executed = client->read;
        add_pending_write(n, client);
    } else if (n->io_threads_do_reads && n->active_threads > 1) {
        return begin_fork(n, 1, me->fired_count, now);
    }
    if (me->count == 0) {
        return -1;
    }
    me->phase = TURN_READ_INLINE;
    while (true) {
        client = next_event(n, me);
        now = read_inline(n, client, now);
        if (me->count == 0 || !goes_ahead(n, now)) {
            me->client = client;
            return now;
        }
        client->executed = client->read;
        add_pending_write(n, client);
    }
}

// Start or stop all I/O threads, unless that is their state; returns when that ends, or -1.
INLINE int64_t switch_threads(struct node *n, struct calendar *calendar, int64_t active,
                              int64_t now) {
    if (n->active_threads == active) {
        return -1;
    }
    for (int64_t thread = 1; thread < n->io_threads; thread++) {
        if (active > 1) {
            start_thread(n, calendar, thread, now);
        } else {
            stop_thread(n, calendar, thread, now);
        }
    }
    set_active(n, active, now);
    return step_end(n, &n->threads[0], now, (n->io_threads - 1) * n->activate_ps);
}

// Write by all threads if there is enough to write, else here; returns when that ends, or -1.
//
// The number of pending writes decides, at this point of every turn that has any.
INLINE int64_t write_step(struct node *n, struct calendar *calendar, int64_t phase, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t pending = n->pending_write_count;
    if (phase == WRITES) {
        if (pending == 0) {
            return -1;
        }
        int64_t enough = pending >= CLIENTS_PER_THREAD * n->io_threads;
        me->phase = SWITCHED;
        int64_t following = switch_threads(n, calendar, enough ? n->io_threads : 1, now);
        if (following >= 0) {
            return following;
        }
    } else if (phase == WROTE_INLINE) {
        end_write(n, calendar, me->client, now);
    }
    if (n->active_threads > 1) {
        return begin_fork(n, 0, pending, now);
    }
    if (pending == 0) {
        return -1;
    }
    struct client *client = take_pending_write(n);
    me->client = client;
    me->phase = WROTE_INLINE;
    n->inline_writes++;
    return step_end(n, me, now, begin_write(n, client, now));
}

// The fixed part of a turn ends it.
INLINE int64_t begin_loop(struct node *n, int64_t now) {
    struct thread *me = &n->threads[0];
    me->phase = TURN_LOOPED;
    return step_end(n, me, now, n->loop_ps);
}

// Advance the main thread whose present step ends now; returns when the next one ends.
INLINE int64_t main_step(struct node *n, struct calendar *calendar, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t phase = me->phase;
    int64_t following;
    if (FORKED <= phase && phase <= TAKEN_BACK) {
        following = fork_step(n, calendar, phase, now);
        if (following >= 0) {
            return following;
        }
        if (!n->forked_reads) {
            n->pending_write_count = 0;
            return begin_loop(n, now);
        }
    }
    if (phase == TAKEN_BACK || phase == EXECUTED) {
        following = execution_step(n, phase, now);
        if (following >= 0) {
            return following;
        }
        me->phase = WRITES;
    }
    if (phase == TURN_LOOPED || phase == TURN_BEGINS) {
        if (phase == TURN_LOOPED) {
            end_turn(n, now);
        }
        me->phase = TURN_LOOK_FOR_EVENTS;
    }
    if (TURN_LOOK_FOR_EVENTS <= me->phase && me->phase <= TURN_POLLED) {
        following = poll_step(n, now);
        if (following >= 0) {
            return following;
        }
        n->productive = 1;
        me->phase = TURN_NEXT_EVENT;
        following = accept_step(n, now);
        if (unlikely(following >= 0)) {
            return following;
        }
    }
    if (unlikely(me->phase == TURN_ACCEPTED)) {
        me->phase = TURN_NEXT_EVENT;
        // I/O threads of this generation do not handle TLS.
        following = handshakes_step(n, me->index, now);
        if (following >= 0) {
            return following;
        }
    }
    if (me->phase == TURN_NEXT_EVENT || me->phase == TURN_READ_INLINE) {
        following = event_step(n, me->phase, now);
        if (following >= 0) {
            return following;
        }
        me->phase = WRITES;
    }
    if (unlikely(n->logged_bytes > 0)) {
        return step_end(n, me, now, flush_ps(n, now));
    }
    following = write_step(n, calendar, me->phase, now);
    if (following >= 0) {
        return following;
    }
    return begin_loop(n, now);
}

// Advance an I/O thread whose present client is served; returns when the next one is.
INLINE int64_t io_step(struct node *n, struct calendar *calendar, int64_t thread, int64_t now) {
    struct thread *me = &n->threads[thread];
    if (me->phase == IO_WORKING) {
        end_serving(n, calendar, me->client, now);
        if (!n->forked_reads && beside_generator(n, me, me->client)) {
            me->phase = IO_SENT;
            return now + SENT_PS;
        }
    }
    if (me->phase != IO_LOOKING) {
        me->index += n->io_threads;
        if (me->index >= n->forked_clients) {
            me->phase = IO_LOOKING;
            n->shares_left--;
            n->joined_ps = now + n->handover_ps;
            if (n->shares_left == 0 && n->threads[0].phase == JOINED) {
                schedule(calendar, 0, n->joined_ps);
            }
        }
    }
    if (me->phase == IO_LOOKING) {
        if (me->count == 0) {
            return idle(n, thread, now);
        }
        me->count = 0;
    }
    struct client *client = forked_client(n, me->index);
    me->client = client;
    me->phase = IO_WORKING;
    return work(n, me, now, n->pop_ps + begin_serving(n, client, now));
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
    account_active(n, n->end_ps);
}

#define RUN run_fork_join
#include "run.h"
