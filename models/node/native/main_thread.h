// Steps of a main thread that works with I/O threads, shared by the policies.

#ifndef FORECACHE_MAIN_THREAD_H
#define FORECACHE_MAIN_THREAD_H

#include "active_threads.h"
#include "connections.h"
#include "jobs.h"
#include "turns.h"

// Put a client with replies into the list of pending writes, once.
INLINE void add_pending_write(struct node *n, struct client *client) {
    int64_t jobs = client->jobs;
    if (!(jobs & WRITE_PENDING) && client->executed > client->written) {
        client->jobs = jobs | WRITE_PENDING;
        n->pending_writes[n->pending_write_count] = client;
        n->pending_write_count++;
    }
}

// Remove the client that entered the list of pending writes last.
INLINE struct client *take_pending_write(struct node *n) {
    int64_t left = n->pending_write_count - 1;
    n->pending_write_count = left;
    struct client *client = n->pending_writes[left];
    client->jobs &= ~WRITE_PENDING;
    return client;
}

// Get events from the poll job or by an own epoll_wait; returns when the next step ends.
//
// Returns -1 when there are no more steps and `count` says how many events there are. The main
// thread sleeps if there is nothing to do and no job is in flight.
INLINE int64_t poll_step(struct node *n, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t phase = me->phase;
    if (phase == TURN_POLLED) {
        return -1;
    }
    me->count = 0;
    if (n->poll_state == COMPLETED) {
        n->poll_state = IDLE;
        me->count = me->fired_count;
        return -1;
    }
    if (n->poll_state == PENDING) {
        return -1;
    }
    int64_t found = poll_sockets(n, me, now);
    if (found == 0 && n->reads_in_flight + n->writes_in_flight == 0) {
        if (phase != TURN_DOZING) {
            me->phase = TURN_DOZING;
            return step_end(n, me, now, n->doze_ps);
        }
        end_turn(n, now);
        me->phase = TURN_WAKING;
        return sleep_in_epoll(n, me, now);
    }
    int64_t duration = polling(n, found);
    if (phase == TURN_WAKING) {
        // What came before the sleep is accounted for; the call that slept returns the events.
        n->turn_started_ps = now;
        n->productive = 1;
        duration += count_block(n, unblocking(n, me));
    }
    me->count = found;
    me->phase = TURN_POLLED;
    return step_end(n, me, now, duration);
}

INLINE int64_t execute_inline(struct node *n, struct client *client, int64_t parsed, int64_t now,
                              int64_t before_ps);

// The main thread reads, parses, executes and frees by itself; returns when that ends.
INLINE int64_t read_inline(struct node *n, struct client *client, int64_t now) {
    n->inline_reads++;
    int64_t duration = read_socket(n, client, now);
    return execute_inline(n, client, 0, now, duration);
}

// The main thread executes, and frees what the commands replace; returns when that ends.
//
// Of the commands `parsed` were parsed by their reader; `before_ps` is what the step takes before.
INLINE int64_t execute_inline(struct node *n, struct client *client, int64_t parsed, int64_t now,
                              int64_t before_ps) {
    int64_t duration = before_ps + execute_commands(n, client, 0, parsed);
    int64_t values = values_to_free(n, client);
    if (unlikely(values > 0)) {
        n->freed_values += values;
        n->inline_frees += values;
        duration += freeing_ps(n, client);
    }
    if (n->free_arguments_ps > 0) {
        int64_t commands = client->read - client->executed;
        n->inline_arguments += commands;
        duration += commands * n->free_arguments_ps;
    }
    return step_end(n, &n->threads[0], now, duration);
}

// Accept new connections; returns when that ends, or -1 if there are none.
INLINE int64_t accept_step(struct node *n, int64_t now) {
    struct thread *me = &n->threads[0];
    if (n->poll_state == PENDING) {
        return -1;  // the poll that would report them is still in flight
    }
    int64_t taken = take_connections(n, now);
    if (taken == 0) {
        return -1;
    }
    n->productive = 1;
    me->index = taken;
    me->phase = TURN_ACCEPTED;
    return step_end(n, me, now, taken * n->accept_ps);
}

// The handshakes that no I/O thread takes; returns when they are over, or -1.
INLINE int64_t handshakes_step(struct node *n, int64_t refused, int64_t now) {
    if (refused == 0) {
        return -1;
    }
    n->inline_handshakes += refused;
    return step_end(n, &n->threads[0], now, refused * n->handshake_ps);
}

#endif
