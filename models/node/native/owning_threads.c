// Policy: I/O threads that own their clients (Redis 8).
//
// Every I/O thread has an event loop of its own; clients with commands move to a list for the main
// thread and come back. Rules and constants: iothread.c and memory_prefetch.c of Redis 8.2; the
// reference execution states them in the order in which the threads follow them.

#include "connections.h"
#include "generator.h"
#include "hand_over.h"
#include "jobs.h"
#include "log.h"
#include "window.h"

INLINE int64_t begin_wait(struct node *n, struct thread *me, int64_t now);

enum { MAIN };
// Phases after those of `hand_over`: what ends when the thread's time comes.
enum {
    TURNING = POLLED + 1,
    NOTICED,
    TAKEN,
    JOINED,
    TOLD,
    LOOKED_UP,
    EXECUTED,  // main thread
    SCANNED,
    READ,
    WRITTEN,  // I/O thread
};

// The client that was put into a list after so many others.
INLINE struct client *client_at(struct node *n, struct ring *ring, int64_t number) {
    return ring_entry(ring, number)->client;
}

// Take a whole list, up to the entry before `last`; returns when its lock is released.
INLINE int64_t begin_taking(struct node *n, struct thread *me, struct ring *ring, int64_t last,
                            int64_t now) {
    me->position = ring->popped;
    me->left = last - ring->popped;
    ring->popped = last;
    me->phase = TAKEN;
    return work(n, me, now, n->done_ps);
}

// The next client of the list that was taken.
INLINE struct client *next_taken(struct node *n, struct thread *me, struct ring *ring) {
    struct client *client = client_at(n, ring, me->position);
    me->position++;
    me->left--;
    return client;
}

// Join a group of clients to a peer's list; returns when its lock is released.
INLINE int64_t begin_joining(struct node *n, struct thread *me, int64_t now) {
    me->phase = JOINED;
    n->list_moves++;
    return work(n, me, now, n->done_ps);
}

// The main thread looks at every thread's list before it sleeps; returns when it has.
INLINE int64_t begin_turn(struct node *n, int64_t now) {
    struct thread *me = &n->threads[MAIN];
    me->phase = TURNING;
    n->loops++;
    int64_t looks = n->loop_ps + (n->io_threads - 1) * n->scan_ps + flush_ps(n, now);
    return work(n, me, now, looks);
}

// How many clients an I/O thread has handed over that main has not taken.
INLINE int64_t handed_over(struct node *n, struct thread *thread) {
    return thread->handed_over - thread->to_main.popped;
}

// Go on to the next I/O thread that wants something; returns when the next step ends, or -1.
//
// `again` says whether it is a look at all lists, or eventfds are read.
INLINE int64_t next_thread(struct node *n, int64_t now) {
    struct thread *me = &n->threads[MAIN];
    while (me->index + 1 < n->io_threads) {
        me->index++;
        struct thread *thread = &n->threads[me->index];
        if (me->again) {
            if (thread->told_main) {
                thread->told_main = 0;
                me->told--;
                me->phase = NOTICED;
                return work(n, me, now, n->notice_ps);
            }
        } else if (handed_over(n, thread) > 0) {
            me->dont_sleep = 1;
            struct ring *ring = &thread->to_main;
            return begin_taking(n, me, ring, thread->handed_over, now);
        }
    }
    return -1;
}

// Look the keys of the next clients up together; returns when that ends.
//
// A last batch may be twice as large: better than a small one after it. A single key is not looked
// up ahead.
INLINE int64_t begin_batch(struct node *n, int64_t now) {
    struct thread *me = &n->threads[MAIN];
    struct ring *ring = &n->threads[me->index].to_main;
    int64_t limit = n->prefetch_batch;
    int64_t left = me->left;
    me->fetched = 0;
    if (limit < 2) {
        me->amount = left;
        return -1;
    }
    int64_t most = (left <= 2 * limit) ? left : limit;
    int64_t size = 0;
    int64_t keys = 0;
    while (size < most && keys < 2 * limit) {
        struct client *client = client_at(n, ring, me->position + size);
        size++;
        int64_t index = client->executed;
        keys += keys_of(n, client, index, index + parsed_commands(n, client));
    }
    me->amount = size;
    keys = min64(keys, 2 * limit);
    if (keys < 2) {
        return -1;
    }
    me->fetched = keys;
    n->prefetch_batches++;
    n->prefetched_keys += keys;
    me->phase = LOOKED_UP;
    return work(n, me, now, n->prefetch[keys]);
}

// Execute what the next client of the batch has sent; returns when that ends.
INLINE int64_t begin_execution(struct node *n, int64_t now) {
    struct thread *me = &n->threads[MAIN];
    struct client *client = next_taken(n, me, &n->threads[me->index].to_main);
    me->client = client;
    me->amount--;
    int64_t index = client->executed;
    int64_t parsed = parsed_commands(n, client);
    int64_t fetched = min64(keys_of(n, client, index, index + parsed), me->fetched);
    me->fetched -= fetched;
    me->phase = EXECUTED;
    int64_t duration = n->collect_ps + execute_commands(n, client, fetched, parsed);
    return work(n, me, now, duration + n->push_ps);
}

// Execute the clients taken from a thread and hand them back; -1 when all are handed back.
INLINE int64_t process_step(struct node *n, struct calendar *calendar, int64_t phase, int64_t now) {
    struct thread *me = &n->threads[MAIN];
    int64_t thread = me->index;
    struct thread *row = &n->threads[thread];
    struct client **group = n->pending_writes;
    if (phase == EXECUTED) {
        struct client *client = me->client;
        client->executed = client->read;
        group[n->pending_write_count] = client;
        n->pending_write_count++;
        if (n->pending_write_count == n->hand_over_group) {
            return begin_joining(n, me, now);
        }
    } else if (phase == JOINED) {
        int64_t alone = ring_length(&row->from_main) == 0;
        while (n->pending_write_count > 0) {
            // The last one goes first.
            n->pending_write_count--;
            ring_push_client(&row->from_main, now, group[n->pending_write_count]);
        }
        if (alone && !row->running) {
            me->phase = TOLD;
            return work(n, me, now, telling(n, calendar, thread, now));
        }
    } else if (phase == TOLD) {
        row->told = 1;
        tell(n, calendar, thread, now);
    }
    if (me->amount == 0) {
        if (me->left > 0) {
            int64_t following = begin_batch(n, now);
            if (following >= 0) {
                return following;
            }
        } else if (n->pending_write_count > 0) {
            return begin_joining(n, me, now);
        } else {
            return -1;
        }
    }
    return begin_execution(n, now);
}

// Advance the main thread whose present step ends now; returns when the next one ends.
INLINE int64_t main_step(struct node *n, struct calendar *calendar, int64_t now) {
    struct thread *me = &n->threads[MAIN];
    int64_t phase = me->phase;
    int64_t following;
    if (phase == TURNING || phase == POLLED) {
        me->index = 0;
        me->dont_sleep = 0;
        me->again = (phase == POLLED) ? 1 : 0;
        if (phase == POLLED) {
            me->running = 1;
        }
    } else if (phase == NOTICED) {
        struct thread *thread = &n->threads[me->index];
        if (handed_over(n, thread) > 0) {
            return begin_taking(n, me, &thread->to_main, thread->handed_over, now);
        }
    } else if (phase > POLLED) {
        following = process_step(n, calendar, phase, now);
        // Nobody sees anything of what is looked up and executed before it is handed back.
        while ((me->phase == LOOKED_UP || me->phase == EXECUTED) && goes_ahead(n, following)) {
            following = process_step(n, calendar, me->phase, following);
        }
        if (following >= 0) {
            return following;
        }
    }
    if (phase > WAKING) {
        following = next_thread(n, now);
        if (following >= 0) {
            return following;
        }
        if (me->again) {
            return begin_turn(n, now);
        }
        // A second look, once it is not running any more, finds nothing new: no time passes.
        me->running = me->dont_sleep;
    }
    following = poll_or_sleep(n, me, now);
    if (me->phase == POLLED) {
        return work(n, me, now, following + accept_alone(n, now));
    }
    return following;
}

// Hand over what was read, or else poll; returns when that ends.
INLINE int64_t begin_hand_over_or_wait(struct node *n, struct thread *me, int64_t now) {
    if (me->to_main.pushed > me->handed_over) {
        return begin_joining(n, me, now);
    }
    return begin_wait(n, me, now);
}

// Poll, doze or sleep; returns when that ends.
INLINE int64_t begin_wait(struct node *n, struct thread *me, int64_t now) {
    int64_t following = poll_or_sleep(n, me, now);
    if (me->phase == POLLED) {
        return work(n, me, now, following);
    }
    return following;
}

// A client has a command: its thread leaves it alone until it comes back.
INLINE void keep_for_main(struct node *n, struct thread *me, struct client *client, int64_t now) {
    client->jobs |= READ_UNDER_WAY;
    ring_push_client(&me->to_main, now, client);
}

// The present client is read: it is kept for the main thread if it has a command.
//
// If its group is full, that goes first: returns when it has been joined to the main thread's, or
// -1.
INLINE int64_t end_read(struct node *n, struct thread *me, struct client *client, int64_t now) {
    if (client->read > client->executed) {
        if (me->to_main.pushed - me->handed_over == n->hand_over_group) {
            return begin_joining(n, me, now);
        }
        keep_for_main(n, me, client, now);
    }
    return -1;
}

// Read the next clients of the poll, or end the turn; returns when that ends.
//
// The main thread sees nothing of them before it gets their group.
INLINE int64_t event_step(struct node *n, struct thread *me, int64_t now) {
    if (me->count == 0) {
        me->count = late_sockets(n, me, now);
    }
    while (me->count > 0) {
        struct client *client = next_event(n, me);
        me->client = client;
        if (client->jobs & READ_UNDER_WAY) {
            // The main thread has it; its socket is left for later.
            me->phase = SCANNED;
            now = work(n, me, now, n->scan_ps);
        } else {
            me->phase = READ;
            now = work(n, me, now, begin_job(n, new_job(READ_JOB, number_of(n, client)), now));
        }
        if (me->count == 0 || !goes_ahead(n, now)) {
            return now;
        }
        if (me->phase == READ) {
            int64_t following = end_read(n, me, client, now);
            if (following >= 0) {
                return following;
            }
        }
    }
    me->phase = TURNING;
    return work(n, me, now, n->own_turn_ps);
}

// What was read is on the main thread's list; returns when main is told, or -1.
INLINE int64_t end_joining(struct node *n, struct calendar *calendar, struct thread *me,
                           int64_t phase, int64_t now) {
    if (phase == TOLD) {
        // It may be readable from an earlier time: main found that list by itself.
        n->threads[MAIN].told += 1 - me->told_main;
        me->told_main = 1;
        tell(n, calendar, MAIN, now);
        return -1;
    }
    int64_t alone = handed_over(n, me) == 0;
    me->handed_over = me->to_main.pushed;
    if (alone && !n->threads[MAIN].running) {
        me->phase = TOLD;
        return work(n, me, now, telling(n, calendar, MAIN, now));
    }
    return -1;
}

// Advance an I/O thread whose present step ends now; returns when the next one ends.
//
// `again` is 1 before it sleeps and 0 while it handles events.
INLINE int64_t io_step(struct node *n, struct calendar *calendar, int64_t agent, int64_t now) {
    struct thread *me = &n->threads[agent];
    int64_t phase = me->phase;
    if (phase == DOZING || phase == WAKING) {
        return begin_wait(n, me, now);
    }
    if (phase == POLLED) {
        me->running = 1;
        me->again = 0;
        if (me->told) {
            me->told = 0;
            me->phase = NOTICED;
            return work(n, me, now, n->notice_ps);
        }
        return event_step(n, me, now);
    }
    if (phase == READ || phase == SCANNED) {
        int64_t following = (phase == READ) ? end_read(n, me, me->client, now) : -1;
        return (following >= 0) ? following : event_step(n, me, now);
    }
    if (phase == JOINED || phase == TOLD) {
        int64_t following = end_joining(n, calendar, me, phase, now);
        if (following >= 0) {
            return following;
        }
        if (me->again) {
            return begin_wait(n, me, now);
        }
        keep_for_main(n, me, me->client, now);
        return event_step(n, me, now);
    }
    if (phase == NOTICED || phase == TURNING) {
        if (phase == TURNING) {
            me->again = 1;
        }
        struct ring *ring = &me->from_main;
        int64_t waiting = ring_length(ring) > 0;
        if (phase == TURNING) {
            // Whoever has clients to write to polls once without sleeping: more will follow.
            me->dont_sleep = waiting ? 1 : 0;
        }
        if (waiting) {
            return begin_taking(n, me, ring, ring->pushed, now);
        }
    } else if (phase == WRITTEN) {
        end_write(n, calendar, me->client, now);
    }
    if ((phase == WRITTEN || phase == TAKEN) && me->left > 0) {
        struct client *client = next_taken(n, me, &me->from_main);
        client->jobs &= ~READ_UNDER_WAY;
        me->client = client;
        me->phase = WRITTEN;
        return work(n, me, now, begin_job(n, new_job(WRITE_JOB, number_of(n, client)), now));
    }
    if (me->again) {
        me->running = me->dont_sleep;
        return begin_hand_over_or_wait(n, me, now);
    }
    return event_step(n, me, now);
}

// I/O threads begin asleep.
INLINE void begin(struct node *n, struct calendar *calendar) {
    n->threads[MAIN].phase = POLLED;
    // Also while it waits for its first turn on a core.
    n->threads[MAIN].running = 1;
    for (int64_t thread = 1; thread < n->io_threads; thread++) {
        n->threads[thread].phase = WAKING;
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

#define RUN run_owning_threads
#include "run.h"
