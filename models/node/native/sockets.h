// Requests and replies on their way between clients and the server's threads.

#ifndef FORECACHE_SOCKETS_H
#define FORECACHE_SOCKETS_H

#include "interruptions.h"
#include "wakeups.h"
#include "network.h"
#include "node.h"

// Account for useful work of a thread from now on; returns when it ends.
INLINE int64_t account_work(struct node *n, struct thread *thread, int64_t now, int64_t ends_ps) {
    thread->busy_ps += ends_ps - now;
    thread->busy_until_ps = ends_ps;
    return ends_ps;
}

// Useful work of a thread from now on, interruptions included; returns when it ends.
INLINE int64_t work(struct node *n, struct thread *thread, int64_t now, int64_t duration_ps) {
    return account_work(n, thread, now, step_end(n, thread, now, duration_ps));
}

// Where a client's request number `index` is kept.
INLINE struct slot *slot_of(struct node *n, struct client *client, int64_t index) {
    return &client->slots[index & n->outstanding_mask];
}

// What was drawn for a client's request number `index`.
INLINE int64_t mark_of(struct node *n, struct client *client, int64_t index) {
    return slot_of(n, client, index)->mark;
}

// What the table of command codes says about a command.
INLINE struct command *command_of(struct node *n, int64_t mark) {
    return &n->commands[mark & MARK_CODE];
}

// A kernel step's duration with its run-to-run variation; of the draw, eight bits count.
INLINE int64_t jittered(struct node *n, int64_t duration_ps, int64_t draw) {
    return (duration_ps * n->jitter[draw & (QUANTILES - 1)]) >> JITTER_SHIFT;
}

// Time the kernel takes to copy a number of bytes.
INLINE int64_t copying(int64_t size_bytes, int64_t ps_per_kib) {
    return (size_bytes * ps_per_kib) >> 10;
}

// Put a client's commands on the wire; wakes the client's owner if it sleeps in epoll_wait.
INLINE void deliver_request(struct node *n, struct calendar *calendar, struct client *client,
                            int64_t commands, int64_t size_bytes, int64_t now) {
    int64_t stamp = now;
    if (!n->same_host) {
        stamp = request_arrives(n, client, size_bytes, now);
    }
    n->wire_bytes_in += size_bytes;
    struct thread *thread = &n->threads[client->owner];
    ring_insert(&thread->request_wire, stamp, number_of(n, client), commands);
    if (thread->asleep) {
        thread->asleep = 0;
        schedule(calendar, client->owner, stamp + woken(n, thread, stamp));
    }
}

// What it adds to a send to a client to wake a core for the thread that watches its socket.
INLINE int64_t waking_owner(struct node *n, struct client *client, int64_t now) {
    struct thread *owner = &n->threads[client->owner];
    return owner->asleep && wakes_core(n, owner) ? waking_core(n, owner, now) : 0;
}

// Reverse clients first to last - 1 of a list.
INLINE void reverse(struct client **clients, int64_t first, int64_t last) {
    while (first + 1 < last) {
        struct client *client = clients[first];
        last--;
        clients[first] = clients[last];
        clients[last] = client;
        first++;
    }
}

// Move what has arrived by now from a thread's wire into its sockets.
INLINE void receive_requests(struct node *n, struct thread *thread, int64_t now) {
    struct client **sockets = thread->watched_sockets;
    int64_t watched = thread->watched_count;
    struct ring *wire = &thread->request_wire;
    int64_t popped = wire->popped;
    int64_t pushed = wire->pushed;
    while (popped < pushed) {
        struct entry *entry = ring_entry(wire, popped);
        if (entry->stamp_ps > now) {
            break;
        }
        popped++;
        struct client *client = &n->client_rows[entry->number];
        client->arrived += entry->commands;
        if (!client->watched) {
            client->watched = 1;
            client->readable_ps = entry->stamp_ps;
            sockets[watched] = client;
            watched++;
            thread->early_count += entry->stamp_ps <= thread->scanned_ps;
        }
    }
    wire->popped = popped;
    thread->watched_count = watched;
}

// Put the sockets at the head of the ready list that belong there.
//
// A socket that becomes readable joins the end of that list; but one that does while an epoll_wait
// looks through it, and was not in it any more, its head (ep_done_scan in fs/eventpoll.c).
INLINE void order_sockets(struct thread *thread) {
    struct client **sockets = thread->watched_sockets;
    int64_t reported = thread->fired_count;
    int64_t early = thread->early_count;
    if (early > 0 && reported > 0) {
        // Stamps rise, so they are the first of the new ones.
        reverse(sockets, 0, reported);
        reverse(sockets, reported, reported + early);
        reverse(sockets, 0, reported + early);
    }
    thread->early_count = 0;
}

// Duration of an epoll_wait that returns a number of events.
INLINE int64_t polling(struct node *n, int64_t found) {
    return n->poll_ps + found * n->poll_event_ps;
}

// One epoll_wait on a thread's sockets: how many hold data?
//
// They become the first of its `watched_sockets`.
//
// As in the kernel, a socket reported once stays on the ready list until a later call finds it
// empty (level-triggered epoll).
INLINE int64_t poll_sockets(struct node *n, struct thread *thread, int64_t now) {
    receive_requests(n, thread, now);
    order_sockets(thread);
    struct client **sockets = thread->watched_sockets;
    int64_t watched = thread->watched_count;
    int64_t found = 0;
    int64_t position = 0;
    while (position < watched) {
        struct client *client = sockets[position];
        position++;
        if (client->read < client->arrived) {
            sockets[found] = client;
            found++;
        } else {
            client->watched = 0;
            client->scanned_ps = now + polling(n, found);
        }
    }
    thread->watched_count = found;
    thread->fired_count = found;
    thread->scanned_ps = now + polling(n, found);
    n->polls++;
    return found;
}

// What became readable after the last poll began and before it had come to it: the poll reported
// that too, at the end. To be asked once the rest has been served; returns how many.
INLINE int64_t late_sockets(struct node *n, struct thread *thread, int64_t now) {
    receive_requests(n, thread, now);
    struct client **sockets = thread->watched_sockets;
    int64_t last = thread->fired_count + thread->early_count;
    int64_t late = 0;
    for (int64_t position = thread->fired_count; position < last; position++) {
        struct client *client = sockets[position];
        if (client->readable_ps > client->scanned_ps) {
            continue;
        }
        for (int64_t to = position; to > thread->fired_count; to--) {
            sockets[to] = sockets[to - 1];
        }
        sockets[thread->fired_count] = client;
        thread->fired_count++;
        late++;
    }
    thread->early_count -= late;
    return late;
}

// A thread without events sleeps; returns when it goes on.
//
// What is on its wire wakes it, or else a sender does.
INLINE int64_t sleep_in_epoll(struct node *n, struct thread *thread, int64_t now) {
    struct ring *wire = &thread->request_wire;
    fall_asleep(thread, now);
    if (ring_length(wire) > 0) {
        int64_t stamp = ring_first_stamp(wire);
        return stamp + wake_up(n, thread, stamp);
    }
    thread->asleep = 1;
    return INFINITY_PS;
}

// The next client that the last poll of a thread's sockets reported; `count` are left.
INLINE struct client *next_event(struct node *n, struct thread *thread) {
    int64_t left = thread->count;
    thread->count = left - 1;
    return thread->watched_sockets[thread->fired_count - left];
}

// One recv: takes up to the limits of bytes and commands; returns its duration in ps.
//
// What is left in the thread's buffer needs no recv later; epoll is asked for another event.
INLINE int64_t read_socket(struct node *n, struct client *client, int64_t now) {
    if (unlikely(n->generator_refills)) {
        // More may have come since the poll.
        receive_requests(n, &n->threads[client->owner], now);
    }
    int64_t read = client->read;
    int64_t arrived = client->arrived;
    n->reads++;
    if (read == arrived) {
        // It has been read since it was polled.
        return n->read_event_ps + n->recv_ps;
    }
    int64_t all = arrived;
    int64_t buffered = client->buffered_bytes;
    arrived = min64(arrived, read + n->commands_per_event);
    int64_t partial = client->partial_bytes;
    int64_t mark = mark_of(n, client, read);
    int64_t first_mark = mark;
    int64_t budget = (buffered > 0) ? buffered : n->read_limit_bytes;
    if (partial > 0) {
        int64_t size_bytes = command_of(n, mark)->request_bytes;
        if (size_bytes > BIG_ARGUMENT_BYTES) {
            budget = max64(budget, size_bytes - partial);
        }
    }
    int64_t left = budget;
    while (true) {
        int64_t missing = command_of(n, mark)->request_bytes - partial;
        if (missing > left) {
            partial += left;
            left = 0;
            break;
        }
        left -= missing;
        partial = 0;
        read++;
        if (read == arrived || left == 0) {
            break;
        }
        mark = mark_of(n, client, read);
    }
    client->read = read;
    client->partial_bytes = partial;
    int64_t duration = copying(budget - left, n->recv_ps_per_kib);
    duration += (buffered > 0) ? 0 : n->recv_ps;
    duration = jittered(n, duration, first_mark >> READ_DRAW);
    int64_t kept = (read < all) ? left : 0;
    client->buffered_bytes = kept;
    n->resumed_reads += buffered > 0;
    if (unlikely((buffered > 0) != (kept > 0))) {
        n->rearms++;
        duration += n->rearm_ps;
    }
    return n->read_event_ps + duration;
}

// How long a command waits for lines that were not fetched ahead.
INLINE int64_t stall_of(struct command *command, int64_t mark) {
    return command->stalls[(mark >> STALL_DRAW) & (QUANTILES - 1)];
}

// Execution of one command whose lines were not fetched ahead, in ps.
INLINE int64_t execute_cold(struct node *n, int64_t mark) {
    struct command *command = command_of(n, mark);
    return command->execute_ps + stall_of(command, mark);
}

// Execution of one command whose lines were fetched ahead, in ps.
INLINE int64_t execute_warm(struct node *n, int64_t mark) {
    return command_of(n, mark)->execute_ps + command_of(n, mark)->prefetched_stall_ps;
}

// Execution of one command of several keys, `warm` of which were fetched ahead, in ps.
INLINE int64_t execute_partly_warm(struct node *n, int64_t mark, int64_t warm) {
    struct command *command = command_of(n, mark);
    int64_t waits = warm * command->prefetched_stall_ps;
    waits += (command->keys - warm) * stall_of(command, mark);
    return command->execute_ps + waits / command->keys;
}

// Keys of a client's commands first to last - 1.
INLINE int64_t keys_of(struct node *n, struct client *client, int64_t first, int64_t last) {
    int64_t keys = last - first;
    if (unlikely(n->several_keys)) {
        keys = 0;
        for (int64_t index = first; index < last; index++) {
            keys += command_of(n, mark_of(n, client, index))->keys;
        }
    }
    return keys;
}

// Execute all complete commands of a client, one after the other; returns the duration.
//
// The first `fetched` keys were looked up by a batch, the first `parsed` commands were parsed by
// an I/O thread. Where an engine parses whole pipelines, the rest is fetched ahead in groups.
INLINE int64_t execute_commands(struct node *n, struct client *client, int64_t fetched,
                                int64_t parsed) {
    int64_t index = client->executed;
    int64_t last = client->read;
    int64_t total = 0;
    int64_t ahead = fetched;
    int64_t parsed_until = index + parsed;
    while (index < last) {
        int64_t mark = mark_of(n, client, index);
        if (index >= parsed_until) {
            total += command_of(n, mark)->parse_ps;
        }
        if (ahead == 0 && n->whole_pipeline) {
            int64_t until = min64(last, index + n->lookahead);
            int64_t keys = min64(n->prefetch_batch, keys_of(n, client, index, until));
            if (keys > 1) {
                total += n->prefetch[keys];
                n->prefetched_keys += keys;
                ahead = keys;
            }
        }
        if (unlikely(command_of(n, mark)->keys > 1)) {
            int64_t warm = min64(ahead, command_of(n, mark)->keys);
            ahead -= warm;
            total += execute_partly_warm(n, mark, warm);
        } else if (ahead > 0) {
            ahead--;
            total += execute_warm(n, mark);
        } else {
            total += execute_cold(n, mark);
        }
        n->logged_bytes += command_of(n, mark)->written_to_log;
        index++;
    }
    return total;
}

// Bytes of the replies to commands first to last - 1.
INLINE int64_t reply_bytes(struct node *n, struct client *client, int64_t first, int64_t last) {
    int64_t total = 0;
    while (first < last) {
        total += command_of(n, mark_of(n, client, first))->reply_bytes;
        first++;
    }
    return total;
}

// What the writer of replies first to last - 1 waits for besides, in ps.
INLINE int64_t write_waits(struct node *n, struct client *client, int64_t first, int64_t last) {
    int64_t total = 0;
    while (first < last) {
        total += command_of(n, mark_of(n, client, first))->write_ps;
        first++;
    }
    return total;
}

// How many jobs free the values that the commands to be executed now replace.
INLINE int64_t values_to_free(struct node *n, struct client *client) {
    int64_t values = 0;
    if (unlikely(n->frees)) {
        for (int64_t index = client->executed; index < client->read; index++) {
            if (command_of(n, mark_of(n, client, index))->free_ps > 0) {
                values++;
            }
        }
    }
    return values;
}

// How long freeing them takes.
INLINE int64_t freeing_ps(struct node *n, struct client *client) {
    int64_t total = 0;
    for (int64_t index = client->executed; index < client->read; index++) {
        total += command_of(n, mark_of(n, client, index))->free_ps;
    }
    return total;
}

// Start sending all replies that are ready; returns the duration in ps.
INLINE int64_t begin_write(struct node *n, struct client *client, int64_t now) {
    int64_t written = client->written;
    int64_t executed = client->executed;
    int64_t size_bytes = reply_bytes(n, client, written, executed);
    client->write_upto = executed;
    client->write_bytes = size_bytes;
    int64_t limit = n->write_limit_bytes;
    int64_t segment = n->segment_bytes;
    int64_t more = 0;
    int64_t events = n->write_event_ps;
    if (size_bytes > segment || size_bytes > limit) {
        int64_t calls = (size_bytes - 1) / limit;
        int64_t last = size_bytes - calls * limit;
        more = calls * ((limit - 1) / segment + 1) + (last - 1) / segment;
        events += calls * n->write_event_ps;
    }
    int64_t duration = (1 + more) * n->send_ps + copying(size_bytes, n->send_ps_per_kib);
    duration = jittered(n, duration, mark_of(n, client, written) >> WRITE_DRAW);
    if (unlikely(n->write_waits)) {
        duration += write_waits(n, client, written, executed);
    }
    struct thread *generator = &n->threads[client->generator];
    int64_t asleep = generator->asleep && wakes_core(n, generator);
    if (n->same_host && asleep && !n->generator_spins) {
        duration += count_wake(n, waking_core(n, generator, now));
    }
    n->writes++;
    return events + duration;
}

// The replies leave the server; wakes the client's generator thread if it sleeps.
INLINE void end_write(struct node *n, struct calendar *calendar, struct client *client,
                      int64_t now) {
    int64_t stamp = now;
    if (!n->same_host) {
        int64_t size_bytes = client->write_bytes;
        stamp = reply_arrives(n, client, size_bytes, now);
        n->wire_bytes_out += size_bytes;
    }
    int64_t upto = client->write_upto;
    int64_t commands = upto - client->written;
    client->written = upto;
    struct thread *thread = &n->threads[client->generator];
    ring_insert(&thread->queue, stamp, number_of(n, client), commands);
    if (thread->asleep) {
        thread->asleep = 0;
        int64_t latency = n->generator_spins ? 0 : woken(n, thread, stamp);
        schedule(calendar, client->generator, stamp + latency);
    }
}

// Whether the load generator of a client may take over a core of this thread.
INLINE int64_t beside_generator(struct node *n, struct thread *thread, struct client *client) {
    struct task *row = &n->task_rows[thread - n->threads];
    struct task *other = &n->task_rows[client->generator];
    return n->crowded && row->first_core < other->last_core && other->first_core < row->last_core;
}

#endif
