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
    ASKING,  // the kernel to sleep until a lock is free
    DROPPING_OFF,  // until a lock is free
    ASLEEP,
    RETURNING,  // to a lock that may be free
    EXECUTED,
    HELD_LOCK,  // of the process: what it protects is done
    FETCHED_LOCK,  // to release it, after others have fetched it meanwhile
    WAKING,  // who sleeps until the lock is free that was released
    WROTE,
};
// What a SET locks, by position: memory, its item, and while it holds that, the others.
enum {
    FIRST_SECTION = 0,
    ITEM = 1,
    SECOND_SECTION = 2,
    LAST_SECTION = SECTIONS,
};
// Locks of the process; those of lists follow, one for each size class and each kind of list.
enum {
    MEMORY,
    STATISTICS,
    NUMBERS,
    LISTS,
};
// A lock is the sum of these; the rest is who held it last, counted from one.
enum {
    HELD = 1,
    CONTENDED = 2,
    HOLDER = 4,
};

// The locks of a command. The item's is that of a popular key, or any.
INLINE void find_locks(struct node *n, struct thread *me, struct client *client, int64_t index) {
    struct draw drawn = draw4(n->seed, n->replication, number_of(n, client), LOCK_DRAWS, index);
    uint32_t first = drawn.word[0];
    uint32_t second = drawn.word[1];
    int64_t popular = n->lock_by_draw[(int64_t)first >> DRAW_SHIFT];
    me->item_lock = n->locks + ((popular >= 0) ? popular : (int64_t)second % n->item_locks);
    int64_t *lists = n->process_locks + LISTS;
    me->new_list = lists + n->list_by_draw[(int64_t)drawn.word[2] >> DRAW_SHIFT];
    me->old_list = lists + n->lists + n->list_by_draw[(int64_t)drawn.word[3] >> DRAW_SHIFT];
}

// The lock at a position.
INLINE int64_t *lock_at(struct node *n, struct thread *me, int64_t position) {
    switch (position) {
        case ITEM:
            return me->item_lock;
        case 2:
        case 4:
            return n->process_locks + STATISTICS;
        case 3:
            return me->old_list;
        case 5:
            return n->process_locks + NUMBERS;
        case 6:
            return me->new_list;
        default:
            return n->process_locks + MEMORY;
    }
}

// Parse a client's next command, after other work of a duration; returns when it ends.
INLINE int64_t parse_next(struct node *n, struct thread *me, struct client *client,
                          int64_t duration, int64_t now) {
    int64_t mark = mark_of(n, client, client->executed);
    me->phase = PARSED;
    return work(n, me, now, duration + command_of(n, mark)->parse_ps);
}

// Do what the lock at the thread's position protects; returns when that ends.
INLINE int64_t under_lock(struct node *n, struct thread *me, int64_t *lock, int64_t now) {
    int64_t position = me->position;
    if (position == ITEM) {
        int64_t mark = mark_of(n, me->client, me->client->executed);
        me->phase = EXECUTED;
        return work(n, me, now, execute_cold(n, mark) + command_of(n, mark)->free_ps);
    }
    int64_t section = (position == FIRST_SECTION) ? 0 : position - 1;
    int64_t duration = n->section_ps[section];
    int64_t self = HOLDER * (1 + (me - n->threads));
    int64_t holder = *lock & -HOLDER;
    if (holder != 0 && holder != self) {
        duration += n->section_moved_ps[section];
    }
    *lock += self - holder;
    me->phase = HELD_LOCK;
    return work(n, me, now, duration);
}

// Take the lock at the thread's position, or ask the kernel to sleep; returns when that ends.
INLINE int64_t try_lock(struct node *n, struct thread *me, int64_t waited, int64_t now) {
    int64_t *lock = lock_at(n, me, me->position);
    if (!(*lock & HELD)) {
        *lock |= waited ? HELD | CONTENDED : HELD;
        return under_lock(n, me, lock, now);
    }
    if (!waited) {
        n->lock_waits++;
    }
    *lock |= CONTENDED;
    me->phase = ASKING;
    return work(n, me, now, n->futex_ps);
}

// Take the lock at a position.
INLINE int64_t take_lock(struct node *n, struct thread *me, int64_t position, int64_t now) {
    me->position = position;
    return try_lock(n, me, false, now);
}

// The kernel lets a thread sleep unless the lock was released since it was marked.
INLINE int64_t queue_up(struct node *n, struct thread *me, int64_t now) {
    int64_t *lock = lock_at(n, me, me->position);
    if (!(*lock & CONTENDED)) {
        return try_lock(n, me, true, now);
    }
    n->lock_tickets++;
    me->waits_for = lock;
    me->ticket = n->lock_tickets;
    me->phase = DROPPING_OFF;
    return work(n, me, now, n->doze_ps);
}

// The thread that has slept longest until a lock is free; -1: none sleeps.
INLINE int64_t first_sleeper(struct node *n, int64_t *lock) {
    int64_t first = -1;
    int64_t ticket = INFINITY_PS;
    for (int64_t thread = 0; thread < n->io_threads; thread++) {
        struct thread *row = &n->threads[thread];
        if (row->waits_for == lock && row->ticket < ticket) {
            first = thread;
            ticket = row->ticket;
        }
    }
    return first;
}

// Wake who has slept longest, if anybody sleeps.
INLINE void wake_sleeper(struct node *n, struct calendar *calendar, int64_t *lock, int64_t now) {
    int64_t first = first_sleeper(n, lock);
    if (first < 0) {
        return;
    }
    struct thread *row = &n->threads[first];
    row->waits_for = NULL;
    if (row->phase == ASLEEP) {
        schedule(calendar, first, now + wake_up(n, row, now));
    }
}

// Release the lock at the thread's position; returns when who may sleep is woken, or -1.
INLINE int64_t release_lock(struct node *n, struct thread *me, int64_t now) {
    int64_t *lock = lock_at(n, me, me->position);
    int64_t contended = *lock & CONTENDED;
    *lock &= -HOLDER;
    if (!contended) {
        return -1;
    }
    int64_t waking_ps = (first_sleeper(n, lock) >= 0) ? n->wake_send_ps : 0;
    me->phase = WAKING;
    return work(n, me, now, n->futex_ps + waking_ps);
}

// Execute a client's commands; returns when the next step ends, or -1 if all are executed.
INLINE int64_t command_step(struct node *n, struct calendar *calendar, struct thread *me,
                            struct client *client, int64_t now) {
    int64_t phase = me->phase;
    int64_t index = client->executed;
    int64_t stores = command_of(n, mark_of(n, client, index))->free_ps > 0;
    switch (phase) {
        case PARSED:
            find_locks(n, me, client, index);
            return take_lock(n, me, stores ? FIRST_SECTION : ITEM, now);
        case ASKING:
            return queue_up(n, me, now);
        case DROPPING_OFF:
            if (me->waits_for == NULL) {
                return try_lock(n, me, true, now);
            }
            me->phase = ASLEEP;
            me->waits = SLEEPS;
            return INFINITY_PS;
        case ASLEEP:
            me->phase = RETURNING;
            return work(n, me, now, n->block_ps);
        case RETURNING:
            return try_lock(n, me, true, now);
        case EXECUTED:
            if (stores) {
                n->freed_values++;
                return take_lock(n, me, SECOND_SECTION, now);
            }
            break;
        case HELD_LOCK:
            if (*lock_at(n, me, me->position) & CONTENDED) {
                me->phase = FETCHED_LOCK;
                return work(n, me, now, n->handover_ps);
            }
            break;
        case WAKING:
            wake_sleeper(n, calendar, lock_at(n, me, me->position), now);
            break;
        default:
            break;
    }
    if (phase != WAKING) {
        int64_t waking = release_lock(n, me, now);
        if (waking >= 0) {
            return waking;
        }
    }
    if (me->position == FIRST_SECTION) {
        return take_lock(n, me, ITEM, now);
    }
    if (me->position != ITEM) {
        if (me->position < LAST_SECTION) {
            return take_lock(n, me, me->position + 1, now);
        }
        me->position = ITEM;
        int64_t waking = release_lock(n, me, now);
        if (waking >= 0) {
            return waking;
        }
    }
    client->executed = index + 1;
    if (index + 1 < client->read) {
        return parse_next(n, me, client, 0, now);
    }
    return -1;
}

// Read from the next client that the poll reported; returns when that ends, or -1.
INLINE int64_t serve_next(struct node *n, struct thread *me, int64_t now) {
    if (me->count == 0) {
        me->count = late_sockets(n, me, now);
    }
    if (me->count == 0) {
        return -1;
    }
    struct client *client = next_event(n, me);
    me->client = client;
    int64_t duration = read_socket(n, client, now);
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
                return work(n, me, now, begin_write(n, client, now));
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
        return sleep_in_epoll(n, me, now);
    }
    int64_t duration = polling(n, found);
    if (phase == SLEEPING) {
        duration += count_block(n, scheduled_again(n, me));
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
