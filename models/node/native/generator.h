// The load generator: its threads, and the sources that tell them what to send when.

#ifndef FORECACHE_GENERATOR_H
#define FORECACHE_GENERATOR_H

#include "arrivals.h"
#include "connections.h"
#include "quota.h"
#include "sockets.h"
#include "window.h"

enum {
    REQUEST_DRAWS = 1,
    DRAW_SHIFT = 22,  // leaves ten bits of a word: the slots of the command table
};

// Phases of a generator thread.
enum {
    GENERATOR_LOOKING,  // about to call epoll_wait
    GENERATOR_DOZING,  // on the way to sleep; what arrives meanwhile is found without a wake-up
    GENERATOR_WAKING,  // asleep, or woken and about to run
    GENERATOR_HANDLING,  // busy with the poll or a client
    GENERATOR_TAKING,  // busy with taking a client's replies, where that is a step of its own
};

// What a client's commands from number `index` on are: codes and quantiles of stall and jitter.
//
// Those of a command come from one address of the random streams.
SOMETIMES void draw_marks(struct node *n, struct client *client, int64_t index) {
    int64_t number = number_of(n, client);
    struct draws drawn = draw4_each(n->seed, n->replication, number, REQUEST_DRAWS, index);
    for (int i = 0; i < MARKS; i++) {
        int64_t third = drawn.word[2][i];
        uint32_t code = n->code_by_draw[drawn.word[0][i] >> DRAW_SHIFT];
        if (unlikely(third < n->rare_below)) {
            code = 0;
            while (third >= n->commands[code].rare) {
                code++;
            }
        }
        client->marks[i] = code | drawn.word[1][i] << STALL_DRAW;
    }
}

// Make a client's next commands, of this code unless it is `DRAWN`; returns their bytes.
//
// Marks are drawn before they are needed: nothing waits for them then.
INLINE int64_t compose(struct node *n, struct client *client, int64_t commands, int64_t due_ps,
                       int64_t code) {
    int64_t index = client->sent;
    int64_t last = index + commands;
    int64_t size_bytes = 0;
    while (index < last) {
        struct slot *slot = slot_of(n, client, index);
        int64_t mark = client->marks[(uint64_t)index % MARKS];
        if (unlikely(code != DRAWN)) {
            mark = (mark & ~MARK_CODE) | code;
        }
        slot->mark = mark;
        slot->due_ps = due_ps;
        size_bytes += command_of(n, mark)->request_bytes;
        index++;
        if ((uint64_t)index % MARKS == 0) {
            draw_marks(n, client, index);
        }
    }
    client->sent = last;
    return size_bytes;
}

// Record one reply taken by its client.
//
// The tool counts its latency until `read_ps`.
INLINE void complete(struct node *n, struct histogram *histogram, struct client *client,
                     int64_t index, int64_t read_ps, int64_t done_ps) {
    int64_t latency = read_ps - slot_of(n, client, index)->due_ps;
    if (n->warmup_ps <= done_ps && done_ps < n->end_ps) {
        n->completions++;
        n->uncounted_ps += done_ps - read_ps;
        record(histogram, latency);
    } else if (done_ps < n->warmup_ps) {
        n->completed_early++;
    }
    int64_t into = done_ps - n->entry_from_ps;
    if (into < 0 || into >= n->series_ps) {
        int64_t number = min64(done_ps / n->series_ps, n->series_entries);
        n->entry_from_ps = number * n->series_ps;
        n->entry = &n->series[number];
    }
    n->entry->completions++;
    n->entry->latency_ps += latency;
    if (unlikely(n->logged < n->log_entries)) {
        n->log[n->logged++] = (struct completion){number_of(n, client), index, done_ps};
    }
}

// Duration of one send of the generator.
INLINE int64_t sending_ps(struct node *n, int64_t waking_ps, int64_t commands,
                          int64_t size_bytes) {
    int64_t duration = n->generator_send_ps + commands * n->generator_request_ps;
    duration += copying(size_bytes, n->generator_send_ps_per_kib);
    return n->same_host ? duration + waking_ps : duration;
}

// Move replies that have arrived by now into the clients' sockets.
INLINE void receive_replies(struct node *n, struct thread *me, int64_t now) {
    struct ring *wire = &me->queue;
    int64_t popped = wire->popped;
    int64_t pushed = wire->pushed;
    while (popped < pushed) {
        struct entry *entry = ring_entry(wire, popped);
        if (entry->stamp_ps > now) {
            break;
        }
        popped++;
        struct client *client = &n->client_rows[entry->number];
        int64_t returned = client->returned;
        client->returned = returned + entry->commands;
        if (returned == client->received) {
            // It was not in the list: there was nothing to take.
            client->ready_ps = entry->stamp_ps;
            line_put(&me->ready_clients, client);
        }
    }
    wire->popped = popped;
}

// One read of a client's replies; returns its bytes. A reply cut short is completed by the next.
INLINE int64_t read_replies(struct node *n, struct client *client) {
    int64_t index = client->received;
    int64_t last = client->returned;
    int64_t taken_bytes = client->taken_bytes;
    int64_t left = n->generator_read_bytes;
    while (index < last) {
        int64_t missing = command_of(n, mark_of(n, client, index))->reply_bytes - taken_bytes;
        if (unlikely(missing > left)) {
            taken_bytes += left;
            left = 0;
            break;
        }
        left -= missing;
        taken_bytes = 0;
        index++;
    }
    client->taken_bytes = taken_bytes;
    client->received = index;
    return n->generator_read_bytes - left;
}

// Commands of a client that are sent together.
INLINE int64_t batch_of(struct node *n) {
    return n->open_loop ? 1 : n->pipeline;
}

INLINE int64_t end_taking(struct node *n, struct histogram *histogram, struct thread *me,
                          struct client *client, int64_t index, int64_t waking_ps,
                          int64_t done_ps);

// Handle the next ready client: take its replies and, if it is due, send again at once.
INLINE int64_t take_replies(struct node *n, struct histogram *histogram, struct thread *me,
                            int64_t now) {
    struct client *client = line_take(&me->ready_clients);
    int64_t index = client->received;
    if (client->taken_bytes == 0 && index % batch_of(n) == 0) {
        client->first_read_ps = now;
    }
    int64_t size_bytes = read_replies(n, client);
    int64_t replies = client->received - index;
    int64_t duration = n->generator_recv_ps + replies * n->generator_reply_ps;
    duration += copying(size_bytes, n->generator_recv_ps_per_kib);
    int64_t done_ps = step_end(n, me, now, duration);
    if (client->received < client->returned) {
        client->ready_ps = done_ps;
        line_put(&me->ready_clients, client);
    }
    int64_t waking_ps = waking_owner(n, client, now);
    if (unlikely(n->crowded)) {
        // The thread may lose its core on the way.
        me->phase = GENERATOR_TAKING;
        me->client = client;
        me->count = 0;
        me->taking_from = index;
        me->waking_ps = waking_ps;
        return account_work(n, me, now, done_ps);
    }
    int64_t ends_ps = end_taking(n, histogram, me, client, index, waking_ps, done_ps);
    return account_work(n, me, now, ends_ps);
}

// A client's replies from `index` on are taken; returns when it has sent again, if it does.
INLINE int64_t end_taking(struct node *n, struct histogram *histogram, struct thread *me,
                          struct client *client, int64_t index, int64_t waking_ps,
                          int64_t done_ps) {
    int64_t last = client->received;
    int64_t replies = last - index;
    int64_t read_ps = done_ps - replies * n->generator_reply_ps;
    if (n->counts_first_read) {
        read_ps = client->first_read_ps;
    }
    while (index < last) {
        complete(n, histogram, client, index, read_ps, done_ps);
        index++;
    }
    int64_t ends_ps = done_ps;
    me->client = NULL;
    int64_t commands = n->pipeline;
    int64_t is_due = last == client->sent;
    if (n->generator_refills) {
        commands = replies;
        is_due = replies > 0;
    }
    if (is_due && n->open_loop) {
        line_put(&me->idle_clients, client);
    } else if (is_due && n->polls_to_send) {
        ring_push(&me->tasks, done_ps, number_of(n, client));
    } else if (is_due) {
        me->client = client;
        me->count = 0;
        if (n->think_ps == 0) {
            int64_t size_bytes = compose(n, client, commands, done_ps, DRAWN);
            me->count = commands;
            me->amount = size_bytes;
            int64_t sending = sending_ps(n, waking_ps, commands, size_bytes);
            ends_ps = step_end(n, me, done_ps, sending);
        }
    }
    return ends_ps;
}

// Send what a source asked for; in an open loop on the connection that has waited longest.
INLINE int64_t take_task(struct node *n, struct thread *me, int64_t now) {
    int64_t due_ps = ring_first_stamp(&me->tasks);
    int64_t asked = ring_pop(&me->tasks);
    struct client *client = &n->client_rows[asked];
    int64_t commands = n->pipeline;
    int64_t code = DRAWN;
    if (n->open_loop) {
        code = asked;
        client = line_take(&me->idle_clients);
        commands = 1;
    } else if (n->polls_to_send) {
        n->unsent_ps += commands * inside_window(n, due_ps, now);
        due_ps = now;
    }
    int64_t size_bytes = compose(n, client, commands, due_ps, code);
    me->client = client;
    me->count = commands;
    me->amount = size_bytes;
    int64_t waking_ps = waking_owner(n, client, now);
    return work(n, me, now, sending_ps(n, waking_ps, commands, size_bytes));
}

// Whether the next entry of the present poll is a reply: all replies come before what is due to be
// sent, except where a client asks for an event to send. Both are on one ready list then, in the
// order in which they became ready.
INLINE int64_t reply_is_next(struct node *n, struct thread *me) {
    if (me->tasks_left == 0 || me->index == me->tasks_left) {
        return me->tasks_left == 0;
    }
    return !n->polls_to_send ||
           line_first(&me->ready_clients)->ready_ps <= ring_first_stamp(&me->tasks);
}

// Begin the next entry of the present poll.
INLINE int64_t next_in_snapshot(struct node *n, struct histogram *histogram, struct thread *me,
                                int64_t now) {
    int64_t is_reply = reply_is_next(n, me);
    me->index--;
    if (is_reply) {
        return take_replies(n, histogram, me, now);
    }
    me->tasks_left--;
    return take_task(n, me, now);
}

// What was composed leaves, or the client begins to think.
INLINE void end_handling(struct node *n, struct calendar *calendar, struct thread *me,
                         int64_t now) {
    struct client *client = me->client;
    if (client == NULL) {
        return;
    }
    me->client = NULL;
    if (me->count > 0) {
        deliver_request(n, calendar, client, me->count, me->amount, now);
    } else {
        int64_t source = n->io_threads + n->generators + number_of(n, client);
        schedule(calendar, source, now + n->think_ps);
    }
}

// There is nothing to do: doze, then sleep; returns when the thread next looks.
//
// If only the replies on its wire can wake it, and what is on the wire is all that can
// arrive while it dozes, the outcome is known at once, and dozing needs no event of its own.
INLINE int64_t doze_or_sleep(struct node *n, struct thread *me, int64_t now) {
    if (n->generator_spins) {
        // It keeps polling; how many polls find nothing does not matter.
        me->phase = GENERATOR_LOOKING;
        me->waits = SPINS;
        if (ring_length(&me->queue) > 0) {
            return ring_first_stamp(&me->queue);
        }
        me->asleep = 1;
        return INFINITY_PS;
    }
    int64_t asleep_ps = now;
    if (me->phase != GENERATOR_DOZING) {
        int64_t dozed = work(n, me, now, n->doze_ps);
        int64_t certain = dozed < now + n->lookahead_ps;
        int64_t arrives = ring_length(&me->queue) > 0 && ring_first_stamp(&me->queue) <= dozed;
        if (arrives || !certain) {
            me->phase = GENERATOR_DOZING;
            return dozed;
        }
        asleep_ps = dozed;
    }
    me->phase = GENERATOR_WAKING;
    fall_asleep(me, asleep_ps);
    if (ring_length(&me->queue) > 0) {
        int64_t stamp = ring_first_stamp(&me->queue);
        return stamp + wake_up(n, me, stamp);
    }
    me->asleep = 1;
    return INFINITY_PS;
}

// How many due requests can be sent now: those that find a connection.
INLINE int64_t sendable(struct node *n, struct thread *me) {
    int64_t tasks = ring_length(&me->tasks);
    if (n->open_loop) {
        tasks = min64(tasks, line_length(&me->idle_clients));
    }
    return tasks;
}

// Advance a generator thread whose present step ends now; returns when the next one ends.
INLINE int64_t generator_step(struct node *n, struct histogram *histogram,
                              struct calendar *calendar, int64_t agent, int64_t now) {
    struct thread *me = &n->threads[agent];
    if (unlikely(me->phase == GENERATOR_TAKING)) {
        me->phase = GENERATOR_HANDLING;
        int64_t waking_ps = me->waking_ps;
        int64_t index = me->taking_from;
        int64_t ends_ps = end_taking(n, histogram, me, me->client, index, waking_ps, now);
        if (ends_ps > now) {
            return account_work(n, me, now, ends_ps);
        }
    }
    if (me->phase == GENERATOR_HANDLING) {
        end_handling(n, calendar, me, now);
        if (me->index > 0) {
            return next_in_snapshot(n, histogram, me, now);
        }
    }
    receive_replies(n, me, now);
    int64_t tasks = sendable(n, me);
    int64_t found = line_length(&me->ready_clients) + tasks;
    if (found == 0) {
        int64_t looks = doze_or_sleep(n, me, now);
        if (looks >= min64(now + n->lookahead_ps, n->until_ps)) {
            return looks;
        }
        // All that will have arrived by then is on the wire already.
        now = looks;
        receive_replies(n, me, now);
        found = line_length(&me->ready_clients);
    }
    int64_t polling_ps = n->generator_poll_ps + found * n->generator_poll_event_ps;
    if (me->phase == GENERATOR_WAKING) {
        polling_ps += unblocking(n, me);
    }
    me->phase = GENERATOR_HANDLING;
    me->client = NULL;
    me->index = found;
    me->tasks_left = tasks;
    n->generator_polls++;
    int64_t polled = work(n, me, now, polling_ps);
    if (n->same_host || n->crowded || polled >= n->until_ps) {
        return polled;
    }
    // On another host nothing the first client's handling depends on changes before it begins. If
    // it is a request that fell due, it counts as still in the ring until then.
    me->taken_ps = (tasks == found) ? polled : 0;
    return next_in_snapshot(n, histogram, me, polled);
}

// A request falls due: tell the generator thread; returns when the source's next one is.
INLINE int64_t source_step(struct node *n, struct calendar *calendar, int64_t agent, int64_t now) {
    int64_t source = agent - n->io_threads - n->generators;
    int64_t asked;
    int64_t following;
    int64_t generator;
    if (n->open_loop) {
        generator = n->io_threads + source;
        struct source *row = &n->source_rows[source];
        int64_t index = row->next_request;
        row->next_request = index + 1;
        if (unlikely(index == 0 && n->pieces > 0)) {
            begin_piece(n, row, 0, 0);
        }
        following = next_arrival(n, source, index, now);
        if (following >= n->end_ps) {
            following = INFINITY_PS;
        }
        asked = given_code(n, source, index - 1);
        if (index == 0) {
            // The first call only draws the first gap: nothing is due at time zero.
            return following;
        }
        n->arrivals++;
        n->series[now / n->series_ps].arrivals++;
    } else {
        asked = source;
        generator = n->client_rows[source].generator;
        following = INFINITY_PS;
    }
    struct thread *thread = &n->threads[generator];
    int64_t taken_early = (now < thread->taken_ps) ? 1 : 0;
    if (ring_length(&thread->tasks) + taken_early >= ring_capacity(&thread->tasks)) {
        n->overflows++;
        return following;
    }
    ring_push(&thread->tasks, now, asked);
    // Without a free connection there is nothing to send: only a reply wakes the thread.
    if (thread->asleep && sendable(n, thread) > 0) {
        thread->asleep = 0;
        thread->rested_ps = now - thread->slept_ps;
        schedule(calendar, generator, now);
    }
    return following;
}

// A thread sleeps when the run begins; it needs no core for that.
INLINE void begin_asleep(struct node *n, struct calendar *calendar, int64_t thread) {
    n->threads[thread].asleep = 1;
    schedule(calendar, thread, INFINITY_PS);
}

// Give every agent its first event: clients send as their thread starts or a source says.
INLINE void start(struct node *n, struct calendar *calendar) {
    n->until_ps = n->warmup_ps;
    plan_first_connection(n);
    if (n->quota_ps > 0) {
        plan_period(n, calendar, 0);
    }
    schedule(calendar, 0, 0);
    for (int64_t agent = 0; agent < n->io_threads + n->generators; agent++) {
        plan_first_interruption(n, &n->threads[agent]);
        plan_wake_up(n, &n->threads[agent], 0);
    }
    for (int64_t agent = 1; agent < n->io_threads; agent++) {
        if (n->crowded) {
            // It may have to wait for a core before it finds that there is nothing to do.
            schedule(calendar, agent, 0);
        } else {
            n->threads[agent].asleep = 1;
        }
    }
    int64_t first = n->io_threads;
    for (int64_t generator = 0; generator < n->generators; generator++) {
        if (n->open_loop) {
            schedule(calendar, first + generator, 0);
            schedule(calendar, first + n->generators + generator, 0);
        } else {
            schedule(calendar, first + generator, generator * n->generator_start_ps);
        }
    }
    for (int64_t number = 0; number < n->clients; number++) {
        struct client *client = &n->client_rows[number];
        draw_marks(n, client, 0);
        struct thread *thread = &n->threads[client->generator];
        if (n->open_loop) {
            line_put(&thread->idle_clients, client);
        } else {
            int64_t starts_ps = (client->generator - first) * n->generator_start_ps;
            ring_push(&thread->tasks, starts_ps, number);
        }
    }
}

#endif
