// Policy: enhanced I/O multiplexing (ElastiCache for Redis 7.0, 7.1).
//
// The reference execution states the rules. What a thread does by itself between two moments at
// which others can see it (reading a turn's clients, executing a batch) is simulated in one go,
// unless it may lose its core meanwhile.

#include "connections.h"
#include "cores.h"
#include "generator.h"
#include "log.h"
#include "sockets.h"
#include "window.h"

// Phases of the main thread: the step that ends when its time comes.
enum {
    TURN = 0,  // a turn begins
};
// Phases of the main thread: the step that ends when its time comes.
enum {
    LOOKING = 1,  // at the channels, one after the other
};
// Phases of the main thread: the step that ends when its time comes.
enum {
    SERVING = 2,
    RINGING = 3,  // waking the other side
    DOZING = 4,  // on the way to sleep; what is handed over meanwhile is found without a wake-up
    SLEEPING = 5,  // or woken and about to run
};
// Phases of an I/O thread, besides the last three.
enum {
    NEW = 0,  // asleep until its first request
};
// Phases of an I/O thread, besides the last three.
enum {
    AWAKE = 1,  // about to look
};
// Phases of an I/O thread, besides the last three.
enum {
    POLLED = 2,  // reading what the poll has found
};
// Phases of an I/O thread, besides the last three.
enum { WRITING = 6 };

// How many clients in a channel can be seen by now.
INLINE int64_t seen(struct node *n, struct ring *channel, int64_t now) {
    int64_t number = channel->popped;
    while (number < channel->pushed && ring_entry(channel, number)->stamp_ps <= now) {
        number++;
    }
    return number - channel->popped;
}

// Whether a thread sleeps and nothing will wake it until then.
INLINE int64_t sleeps(struct node *n, struct calendar *calendar, int64_t thread, int64_t until_ps) {
    int64_t phase = n->threads[thread].phase;
    // A main thread is never new.
    int64_t asleep = phase == SLEEPING || (phase == NEW && thread > 0);
    return asleep && nobody_wakes(n, calendar, thread, until_ps);
}

// Let the reader of a channel see its last entries; if it sleeps, it runs as soon as it can.
INLINE void hand_over(struct node *n, struct calendar *calendar, struct ring *channel,
                      int64_t entries, int64_t reader, int64_t now) {
    int64_t seen_ps = now + n->handover_ps;
    int64_t number = channel->pushed;
    for (int64_t back = 1; back < entries + 1; back++) {
        ring_entry(channel, number - back)->stamp_ps = seen_ps;
    }
    int64_t runs_ps = max64(seen_ps, now + n->threads[reader].wake_latency_ps);
    if (sleeps(n, calendar, reader, runs_ps)) {
        n->threads[reader].asleep = 0;
        wake_up(n, &n->threads[reader], now);
        schedule(calendar, reader, runs_ps);
    }
}

// Commands that a client's I/O thread has parsed: all, or none.
INLINE int64_t parsed_commands(struct node *n, struct client *client) {
    return n->whole_pipeline ? client->read - client->executed : 0;
}

// Accept what has arrived; each I/O thread in turn gets a handshake for its next turn.
INLINE int64_t accept(struct node *n, int64_t now) {
    if (!n->offload_handshakes) {
        return accept_alone(n, now);
    }
    int64_t taken = take_connections(n, now);
    for (int64_t i = 0; i < taken; i++) {
        n->accepted_connections++;
        int64_t thread = n->accepted_connections % (n->io_threads - 1) + 1;
        n->threads[thread].handshakes_due++;
    }
    return taken * n->accept_ps;
}

// Take clients to be executed together; returns when their keys are looked up, or -1.
INLINE int64_t begin_group(struct node *n, struct ring *channel, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t limit = max64(1, n->prefetch_batch);
    int64_t size = 0;
    int64_t keys = 0;
    while (size < me->count && size < limit && keys < limit) {
        struct client *client = ring_entry(channel, channel->popped + size)->client;
        int64_t index = client->executed;
        keys += keys_of(n, client, index, index + parsed_commands(n, client));
        size++;
    }
    me->amount = size;
    me->fetched = 0;
    keys = min64(keys, limit);
    if (keys < 2) {
        return -1;
    }
    me->fetched = keys;
    n->prefetch_batches++;
    n->prefetched_keys += keys;
    return work(n, me, now, n->prefetch[keys]);
}

// Execute the commands of the next client in a channel; returns when that ends.
INLINE int64_t execute_next(struct node *n, struct ring *channel, struct ring *replies,
                            int64_t now) {
    struct thread *me = &n->threads[0];
    struct client *client = ring_pop_client(channel);
    me->count--;
    me->amount--;
    int64_t parsed = parsed_commands(n, client);
    int64_t index = client->executed;
    int64_t fetched = min64(keys_of(n, client, index, index + parsed), me->fetched);
    me->fetched -= fetched;
    int64_t duration = execute_commands(n, client, fetched, parsed) + 2 * n->push_ps;
    int64_t values = values_to_free(n, client);
    if (unlikely(values > 0)) {
        n->freed_values += values;
        n->inline_frees += values;
        duration += freeing_ps(n, client);
    }
    client->executed = client->read;
    ring_push_client(replies, INFINITY_PS, client);
    me->batched++;
    return work(n, me, now, duration);
}

// Execute the present channel's batch as far as it goes in one go; returns until when.
INLINE int64_t serve(struct node *n, int64_t now) {
    struct thread *me = &n->threads[0];
    struct thread *thread = &n->threads[me->index];
    int64_t reached = now;
    while (me->count > 0) {
        int64_t following = -1;
        if (me->amount == 0) {
            following = begin_group(n, &thread->to_main, reached);
        }
        if (following < 0) {
            following = execute_next(n, &thread->to_main, &thread->from_main, reached);
        }
        reached = following;
        if (!in_one_go(n, reached)) {
            break;
        }
    }
    return reached;
}

// The replies of a channel's batch go to its I/O thread; the next channel is next.
INLINE void hand_back(struct node *n, struct calendar *calendar, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t number = me->index;
    hand_over(n, calendar, &n->threads[number].from_main, me->batched, number, now);
    me->index = number + 1;
}

// Find the next channel with commands and begin to serve it; returns when, or -1 if none.
INLINE int64_t look_at_channels(struct node *n, int64_t now) {
    struct thread *me = &n->threads[0];
    while (me->index < n->io_threads) {
        int64_t found = seen(n, &n->threads[me->index].to_main, now);
        if (found > 0) {
            n->productive = 1;
            me->count = found;
            me->amount = 0;
            me->batched = 0;
            me->phase = SERVING;
            return work(n, me, now, n->collect_ps);
        }
        me->index++;
    }
    return -1;
}

// When the first of the commands in any channel can be seen; INFINITY_PS if there are none.
INLINE int64_t first_coming(struct node *n) {
    int64_t first = INFINITY_PS;
    for (int64_t number = 1; number < n->io_threads; number++) {
        struct ring *channel = &n->threads[number].to_main;
        if (ring_length(channel) > 0) {
            first = min64(first, ring_first_stamp(channel));
        }
    }
    return first;
}

// Advance the main thread whose present step ends now; returns when the next one ends.
INLINE int64_t main_step(struct node *n, struct calendar *calendar, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t phase = me->phase;
    if (phase == SERVING) {
        if (me->count > 0) {
            return serve(n, now);
        }
        if (sleeps(n, calendar, me->index, now + n->threads[me->index].wake_latency_ps)) {
            me->phase = RINGING;
            struct thread *reader = &n->threads[me->index];
            return work(n, me, now, count_wake(n, waking_core(n, reader, now)));
        }
        hand_back(n, calendar, now);
    } else if (phase == RINGING) {
        hand_back(n, calendar, now);
    } else if (phase == DOZING) {
        int64_t first = first_coming(n);
        if (first == INFINITY_PS) {
            me->phase = SLEEPING;
            me->asleep = 1;
            fall_asleep(me, now);
            return INFINITY_PS;
        }
        me->phase = TURN;
        me->waits = SPINS;
        return max64(now, first);
    } else if (phase == SLEEPING) {
        me->phase = TURN;
        return work(n, me, now, count_block(n, scheduled_again(n, me)) + polling(n, 1));
    }
    if (phase != TURN) {
        int64_t reached = look_at_channels(n, now);
        if (reached >= 0) {
            return reached;
        }
        n->loops++;
        if (!n->productive) {
            me->phase = DOZING;
            return work(n, me, now, n->doze_ps);
        }
    }
    me->phase = LOOKING;
    me->index = 1;
    n->productive = 0;
    int64_t looks = n->loop_ps + (n->io_threads - 1) * n->scan_ps + flush_ps(n, now);
    return work(n, me, now, looks + accept(n, now));
}

// Read, and from 7.1 on parse, what the next client has sent; returns when that ends.
INLINE int64_t read_next(struct node *n, struct thread *me, int64_t now) {
    struct client *client = next_event(n, me);
    if (client->jobs & READ_UNDER_WAY) {
        // Its earlier commands are still with the main thread.
        return work(n, me, now, n->scan_ps);
    }
    int64_t duration = read_socket(n, client, now);
    int64_t index = client->executed;
    int64_t last = client->read;
    if (last > index) {
        duration += n->pop_ps;
        client->jobs |= READ_UNDER_WAY;
        ring_push_client(&me->to_main, INFINITY_PS, client);
        me->batched++;
    }
    if (n->whole_pipeline) {
        while (index < last) {
            duration += command_of(n, mark_of(n, client, index))->parse_ps;
            index++;
        }
    }
    return work(n, me, now, duration);
}

// Read what the poll has reported as far as it goes in one go; returns until when.
INLINE int64_t read_all(struct node *n, struct thread *me, int64_t now) {
    int64_t reached = now;
    while (me->count > 0) {
        reached = read_next(n, me, reached);
        if (!in_one_go(n, reached)) {
            break;
        }
    }
    return reached;
}

// Poll, and look for replies; returns when the next step ends.
INLINE int64_t look(struct node *n, struct thread *me, int64_t now) {
    int64_t phase = me->phase;
    int64_t found = poll_sockets(n, me, now);
    int64_t answered = seen(n, &me->from_main, now);
    int64_t handshakes = me->handshakes_due;
    if (found + answered + handshakes == 0) {
        if (phase != DOZING) {
            me->phase = DOZING;
            return work(n, me, now, n->doze_ps);
        }
        if (ring_length(&me->from_main) > 0 && ring_first_stamp(&me->from_main) < INFINITY_PS) {
            me->waits = SPINS;
            return ring_first_stamp(&me->from_main);
        }
        me->phase = SLEEPING;
        return sleep_in_epoll(n, me, now);
    }
    int64_t duration = polling(n, found) + handshakes * n->handshake_ps;
    me->handshakes_due = 0;
    if (phase == SLEEPING || phase == NEW) {
        duration += count_block(n, scheduled_again(n, me));
    }
    me->count = found;
    me->amount = answered;
    me->phase = POLLED;
    int64_t polled = work(n, me, now, duration);
    return in_one_go(n, polled) ? read_all(n, me, polled) : polled;
}

// Advance an I/O thread whose present step ends now; returns when the next one ends.
INLINE int64_t io_step(struct node *n, struct calendar *calendar, int64_t thread, int64_t now) {
    struct thread *me = &n->threads[thread];
    int64_t phase = me->phase;
    if (phase == POLLED || phase == RINGING || phase == WRITING) {
        if (phase == POLLED) {
            if (me->count > 0) {
                return read_all(n, me, now);
            }
            if (me->batched > 0 && sleeps(n, calendar, 0, now + n->threads[0].wake_latency_ps)) {
                me->phase = RINGING;
                return work(n, me, now, count_wake(n, waking_core(n, &n->threads[0], now)));
            }
        }
        if (phase == WRITING) {
            end_write(n, calendar, me->client, now);
            me->client->jobs &= ~READ_UNDER_WAY;
        } else if (me->batched > 0) {
            hand_over(n, calendar, &me->to_main, me->batched, 0, now);
            me->batched = 0;
        }
        if (me->amount > 0) {
            me->amount--;
            struct client *client = ring_pop_client(&me->from_main);
            me->client = client;
            me->phase = WRITING;
            return work(n, me, now, n->pop_ps + begin_write(n, client, now));
        }
        me->phase = AWAKE;
    }
    return look(n, me, now);
}

// I/O threads begin asleep.
INLINE void begin(struct node *n, struct calendar *calendar) {
    for (int64_t thread = 1; thread < n->io_threads; thread++) {
        begin_asleep(n, calendar, thread);
    }
}

// Advance a thread whose present step ends now; returns when the next one ends.
INLINE int64_t server_step(struct node *n, struct calendar *calendar, int64_t agent, int64_t now) {
    return (agent > 0) ? io_step(n, calendar, agent, now) : main_step(n, calendar, now);
}

// The main thread never spins.
INLINE void finish(struct node *n) {
    n->threads[0].on_cpu_ps = n->threads[0].busy_ps;
}

#define RUN run_multiplexed
#include "run.h"
