// Policy: threads that execute by themselves, under locks (Memcached).
//
// The reference execution states the rules.

#include "connections.h"
#include "generator.h"
#include "sockets.h"
#include "window.h"

enum {
    LOCK_DRAWS = 5,
};
// Phases of a thread: the step that ends when its time comes.
enum {
    LOOKING,
    DOZING,  // on the way to sleep; what arrives meanwhile is found without a wake-up
    SLEEPING,  // or woken and about to run
    POLLED,
    READ,  // a part of a command
    PARSED,
    LOCKING_ITEM,  // waiting for its lock
    EXECUTED,
    LOCKING_LIST,  // waiting for its lock
    LINKED,
    WROTE,
};
// A lock is the sum of these.
enum {
    HELD = 1,
    WOKEN = 2,  // the thread that has waited longest was woken and has not looked yet
    WAITER = 4,  // for each thread that waits
};

// The item lock of a command: that of a popular key, or any.
INLINE int64_t *item_lock(struct node *n, struct client *client, int64_t index) {
    struct draw drawn = draw4(n->seed, n->replication, number_of(n, client), LOCK_DRAWS, index);
    uint32_t first = drawn.word[0];
    uint32_t second = drawn.word[1];
    int64_t popular = n->lock_by_draw[(int64_t)first >> DRAW_SHIFT];
    return n->locks + ((popular >= 0) ? popular : (int64_t)second % n->item_locks);
}

// Parse a client's next command, after other work of a duration; returns when it ends.
INLINE int64_t parse_next(struct node *n, struct thread *me, struct client *client,
                          int64_t duration, int64_t now) {
    int64_t mark = mark_of(n, client, client->executed);
    me->phase = PARSED;
    return work(n, me, now, duration + command_of(n, mark)->parse_ps);
}

// Whether a lock was free and is now held; else the thread waits, or waits on, for it.
INLINE int64_t take_lock(struct node *n, struct thread *me, int64_t *lock) {
    int64_t waited = me->waits_for == lock;
    if (unlikely(waited)) {
        *lock &= ~WOKEN;
    }
    if (!(*lock & HELD)) {
        *lock |= HELD;
        if (unlikely(waited)) {
            *lock -= WAITER;
            me->waits_for = 0;
        }
        return true;
    }
    if (!waited) {
        n->lock_waits++;
        n->lock_tickets++;
        *lock += WAITER;
        me->waits_for = lock;
        me->ticket = n->lock_tickets;
    }
    me->waits = SLEEPS;
    return false;
}

// The lock is free: wake the thread that has waited longest.
INLINE void release_lock(struct node *n, struct calendar *calendar, int64_t *lock, int64_t now) {
    *lock -= HELD;
    if (unlikely(*lock > 0 && !(*lock & WOKEN))) {
        *lock |= WOKEN;
        int64_t following = 0;
        int64_t ticket = INFINITY_PS;
        for (int64_t thread = 0; thread < n->io_threads; thread++) {
            struct thread *row = &n->threads[thread];
            if (row->waits_for == lock && row->ticket < ticket) {
                following = thread;
                ticket = row->ticket;
            }
        }
        schedule(calendar, following, now);
    }
}

// Execute a client's commands; returns when the next step ends, or -1 if all are executed.
INLINE int64_t command_step(struct node *n, struct calendar *calendar, struct thread *me,
                            struct client *client, int64_t now) {
    int64_t phase = me->phase;
    int64_t index = client->executed;
    int64_t mark = mark_of(n, client, index);
    if (phase == PARSED) {
        me->lock = item_lock(n, client, index);
    }
    if (phase == PARSED || phase == LOCKING_ITEM) {
        me->phase = LOCKING_ITEM;
        if (!take_lock(n, me, me->lock)) {
            return INFINITY_PS;
        }
        me->phase = EXECUTED;
        return work(n, me, now, execute_cold(n, mark));
    }
    int64_t linking_ps = command_of(n, mark)->free_ps;
    int64_t *list_lock = &command_of(n, mark)->list_lock;
    if (phase != LINKED && linking_ps > 0) {
        me->phase = LOCKING_LIST;
        if (!take_lock(n, me, list_lock)) {
            return INFINITY_PS;
        }
        n->freed_values++;
        me->phase = LINKED;
        return work(n, me, now, linking_ps);
    }
    if (phase == LINKED) {
        release_lock(n, calendar, list_lock, now);
    }
    release_lock(n, calendar, me->lock, now);
    client->executed = index + 1;
    if (index + 1 < client->read) {
        return parse_next(n, me, client, 0, now);
    }
    return -1;
}

// Read from the next client that the poll reported; returns when that ends, or -1.
INLINE int64_t serve_next(struct node *n, struct thread *me, int64_t now) {
    if (me->count == 0) {
        return -1;
    }
    struct client *client = next_event(n, me);
    me->client = client;
    int64_t duration = read_socket(n, client);
    if (client->executed == client->read) {
        me->phase = READ;
        return work(n, me, now, duration);
    }
    return parse_next(n, me, client, duration, now);
}

// Advance a thread whose present step ends now; returns when the next one ends.
INLINE int64_t server_step(struct node *n, struct calendar *calendar, int64_t thread, int64_t now) {
    struct thread *me = &n->threads[thread];
    int64_t phase = me->phase;
    if (phase >= POLLED) {
        struct client *client = me->client;
        int64_t following;
        if (phase == WROTE) {
            end_write(n, calendar, client, now);
        } else if (phase != POLLED) {
            if (phase != READ) {
                following = command_step(n, calendar, me, client, now);
                if (following >= 0) {
                    return following;
                }
            }
            if (client->executed > client->written) {
                me->phase = WROTE;
                return work(n, me, now, begin_write(n, client));
            }
        }
        following = serve_next(n, me, now);
        if (following >= 0) {
            return following;
        }
        me->phase = LOOKING;
        n->loops++;
        return work(n, me, now, n->loop_ps);
    }
    int64_t found = poll_sockets(n, me, now);
    if (found == 0) {
        if (phase != DOZING) {
            me->phase = DOZING;
            return work(n, me, now, n->doze_ps);
        }
        me->phase = SLEEPING;
        return sleep_in_epoll(n, me);
    }
    int64_t duration = polling(n, found);
    if (phase == SLEEPING) {
        n->blocks++;
        duration += n->block_ps;
    }
    if (thread == 0) {
        duration += accept_alone(n, now);
    }
    me->count = found;
    int64_t polled = work(n, me, now, duration);
    // What there is to read is known: the first client is read in the same step.
    if (in_one_go(n, polled)) {
        return serve_next(n, me, polled);
    }
    me->phase = POLLED;
    return polled;
}

// Threads but the first begin asleep.
INLINE void begin(struct node *n, struct calendar *calendar) {
    for (int64_t thread = 1; thread < n->io_threads; thread++) {
        n->threads[thread].phase = SLEEPING;
        begin_asleep(n, calendar, thread);
    }
}

// No thread spins.
INLINE void finish(struct node *n) {
    n->threads[0].on_cpu_ps = n->threads[0].busy_ps;
}

#define RUN run_locked_threads
#include "run.h"
