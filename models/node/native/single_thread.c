// Policy: a single thread. One event loop reads, executes and writes for all clients.

#include "connections.h"
#include "generator.h"
#include "log.h"
#include "sockets.h"
#include "window.h"

// Phases of the main thread: the step that ends when its time comes.
enum {
    TURNING,
    DOZING,  // on the way to sleep; what arrives meanwhile is found without a wake-up
    WAKING,  // asleep, or woken and about to run
    READING,
    WRITING,
};

// What the present client has sent is executed.
INLINE void end_read(struct node *n, struct client *client) {
    client->executed = client->read;
    if (client->executed > client->written) {
        n->pending_writes[n->pending_write_count] = client;
        n->pending_write_count++;
    }
}

// Read, parse and execute what the next clients have sent; returns when that ends, or -1.
//
// Nobody sees anything of it before the replies are written.
INLINE int64_t read_step(struct node *n, int64_t now) {
    struct thread *me = &n->threads[0];
    if (me->client != NULL) {
        end_read(n, me->client);
    }
    if (me->count == 0) {
        me->count = late_sockets(n, me, now);
    }
    if (me->count == 0) {
        return -1;
    }
    while (true) {
        struct client *client = next_event(n, me);
        n->inline_reads++;
        int64_t duration = read_socket(n, client, now);
        now = work(n, me, now, duration + execute_commands(n, client, 0, 0));
        if (me->count == 0 || !goes_ahead(n, now)) {
            me->client = client;
            return now;
        }
        end_read(n, client);
    }
}

// Write to the next client; returns when that ends, or -1.
INLINE int64_t write_step(struct node *n, struct calendar *calendar, int64_t now) {
    struct thread *me = &n->threads[0];
    if (me->client != NULL) {
        end_write(n, calendar, me->client, now);
    }
    int64_t left = n->pending_write_count - 1;
    if (left < 0) {
        return -1;
    }
    // Clients with new replies enter the list at its head, so the last is served first.
    n->pending_write_count = left;
    struct client *client = n->pending_writes[left];
    me->client = client;
    n->inline_writes++;
    return work(n, me, now, begin_write(n, client, now));
}

// Advance the main thread whose present step ends now; returns when the next one ends.
INLINE int64_t main_step(struct node *n, struct calendar *calendar, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t phase = me->phase;
    if (phase >= READING) {
        int64_t following;
        if (phase == READING) {
            following = read_step(n, now);
            if (following >= 0) {
                return following;
            }
            me->client = NULL;
            me->phase = WRITING;
            if (unlikely(n->logged_bytes > 0)) {
                return work(n, me, now, flush_ps(n, now));
            }
        }
        following = write_step(n, calendar, now);
        if (following >= 0) {
            return following;
        }
        me->phase = TURNING;
        n->loops++;
        return work(n, me, now, n->loop_ps);
    }
    int64_t found = poll_sockets(n, me, now);
    if (found == 0) {
        if (phase != DOZING) {
            me->phase = DOZING;
            return work(n, me, now, n->doze_ps);
        }
        me->phase = WAKING;
        return sleep_in_epoll(n, me, now);
    }
    me->phase = READING;
    me->client = NULL;
    me->count = found;
    int64_t duration = polling(n, found);
    if (phase == WAKING) {
        // The call that slept returns the events; waking up comes on top.
        duration += count_block(n, scheduled_again(n, me));
    }
    duration += accept_alone(n, now);
    return work(n, me, now, duration);
}

// Of an engine that starts more threads without using them, all others sleep.
INLINE void begin(struct node *n, struct calendar *calendar) {
    for (int64_t thread = 1; thread < n->io_threads; thread++) {
        begin_asleep(n, calendar, thread);
    }
}

// Advance the only thread whose present step ends now; returns when the next one ends.
INLINE int64_t server_step(struct node *n, struct calendar *calendar, int64_t agent, int64_t now) {
    return main_step(n, calendar, now);
}

// The main thread never spins.
INLINE void finish(struct node *n) {
    n->threads[0].on_cpu_ps = n->threads[0].busy_ps;
}

#define RUN run_single_thread
#include "run.h"
