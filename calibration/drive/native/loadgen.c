// The loop of the load generator: one thread, many connections, one epoll.
//
// A request costs little more than its system calls: per batch one send, one or more recv, and a
// share of an epoll_wait.

#define _GNU_SOURCE
#include "loadgen.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_EVENTS = 512 };

// epoll_wait counts in ms: closer than this to the next send the generator polls without sleeping.
#define SPIN_NS INT64_C(2000000)
// Longest sleep, so that a change of the control word is seen soon.
#define LONGEST_SLEEP_MS 50
// After STOP, replies still on their way have this long.
#define DRAIN_NS INT64_C(2000000000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define PS_PER_NS 1000

// A thread at work.
struct generator {
    struct load *load;
    struct counters *counters;
    int64_t (*scan)(const uint8_t *, int64_t, struct scan *, struct counters *);
    int epoll;
    bool measures;  // latencies of the replies that epoll reported last
    int64_t now_ns;
    int64_t next_request;
    int64_t gaps;  // open loop: how many times between batches have been drawn
    int64_t intended_ns;  // open loop: when the next batch is due
    int64_t busy;  // connections with replies outstanding
    int64_t stopped_ns;  // when it sent its last batch or was told to stop, or -1
    struct connection *first_waiting, *last_waiting;  // to send, in this order
    uint8_t received[RECEIVE_BYTES];
};

static int64_t clock_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * NS_PER_S + time.tv_nsec;
}

static int64_t control_word(const struct load *load) {
    return __atomic_load_n(load->control, __ATOMIC_RELAXED);
}

static void begin_to_wait(struct generator *g, struct connection *connection) {
    connection->next_waiting = NULL;
    if (g->first_waiting == NULL) {
        g->first_waiting = connection;
    } else {
        g->last_waiting->next_waiting = connection;
    }
    g->last_waiting = connection;
}

// Tell epoll what to report of a connection; false when it refuses.
static bool watch(struct generator *g, int action, struct connection *connection, bool wants_out) {
    struct epoll_event event = {
        .events = EPOLLIN | (wants_out ? EPOLLOUT : 0),
        .data.ptr = connection,
    };
    connection->wants_out = wants_out;
    return epoll_ctl(g->epoll, action, (int)connection->socket, &event) == 0;
}

// Nothing to send or receive now, which is no error.
static bool is_passing(int error) {
    return error == EAGAIN || error == EINTR;
}

// Send what is left of a connection's batch; false when the connection is broken.
static bool send_batch(struct generator *g, struct connection *connection) {
    int64_t length = encode_batch(g->load, connection->first, connection->count);
    const uint8_t *rest = g->load->batch + connection->sent;
    int64_t left = length - connection->sent;
    int64_t sent = send((int)connection->socket, rest, (size_t)left, MSG_NOSIGNAL);
    g->counters->sends++;
    if (sent < 0) {
        if (!is_passing(errno)) {
            return false;
        }
        sent = 0;
    }
    g->counters->sent_bytes += sent;
    connection->sent += sent;
    bool is_partial = sent < left;
    if (is_partial) {
        g->counters->partial_sends++;
    }
    if (is_partial != (connection->wants_out == 1)) {
        watch(g, EPOLL_CTL_MOD, connection, is_partial);
    }
    return true;
}

static bool may_send(const struct generator *g) {
    return g->stopped_ns < 0 && g->next_request < g->load->limit;
}

// Send the next requests on a connection; false when it is broken.
static bool start_batch(struct generator *g, struct connection *connection, int64_t start_ns) {
    connection->first = g->next_request;
    connection->count = min64(g->load->pipeline, g->load->limit - g->next_request);
    connection->outstanding = connection->count;
    connection->start_ns = start_ns;
    connection->sent = 0;
    g->counters->batches++;
    g->next_request += connection->count;
    g->busy++;
    return send_batch(g, connection);
}

// One recv and its replies; sets the time to that of its return.
static int receive(struct generator *g, struct connection *connection) {
    int64_t size = recv((int)connection->socket, g->received, sizeof g->received, 0);
    int error = size < 0 ? errno : 0;
    g->counters->recvs++;
    g->now_ns = clock_ns();
    if (size <= 0) {
        return is_passing(error) ? RUNNING : CLOSED;
    }
    g->counters->received_bytes += size;
    int64_t done = g->scan(g->received, size, &connection->scan, g->counters);
    if (done < 0 || done > connection->outstanding) {
        return PROTOCOL;
    }
    connection->outstanding -= done;
    g->counters->requests += done;
    if (g->measures) {
        int64_t latency_ps = (g->now_ns - connection->start_ns) * PS_PER_NS;
        for (int64_t i = 0; i < done; i++) {
            record(g->load->histogram, latency_ps);
        }
    }
    return RUNNING;
}

// How long epoll_wait may sleep before a send is due; 0 when it is too near to sleep.
static int sleep_ms(int64_t due_ns, int64_t now_ns) {
    int64_t left_ns = due_ns - now_ns;
    if (left_ns < SPIN_NS) {
        return 0;
    }
    return (int)min64(left_ns / NS_PER_MS - 1, LONGEST_SLEEP_MS);
}

// Send on waiting connections as long as they are due. `timeout_ms` becomes the time until the
// next one is.
static int send_what_is_due(struct generator *g, int *timeout_ms) {
    const struct load *load = g->load;
    *timeout_ms = LONGEST_SLEEP_MS;
    while (g->first_waiting != NULL && may_send(g)) {
        struct connection *connection = g->first_waiting;
        int64_t due_ns = load->open_loop ? g->intended_ns : connection->due_ns;
        if (due_ns > g->now_ns) {
            *timeout_ms = sleep_ms(due_ns, g->now_ns);
            break;
        }
        g->first_waiting = connection->next_waiting;
        if (load->open_loop) {
            g->counters->late_ns = max64(g->counters->late_ns, g->now_ns - due_ns);
            g->intended_ns += gap_ns(load, ++g->gaps);
        }
        // Latency counts from the intended start, so that a stall is not hidden.
        if (!start_batch(g, connection, load->open_loop ? due_ns : g->now_ns)) {
            return CLOSED;
        }
        g->now_ns = clock_ns();
    }
    return RUNNING;
}

static int handle(struct generator *g, const struct epoll_event *event) {
    const struct load *load = g->load;
    struct connection *connection = event->data.ptr;
    if ((event->events & EPOLLOUT) && connection->wants_out) {
        if (!send_batch(g, connection)) {
            return CLOSED;
        }
    }
    if (!(event->events & (EPOLLIN | EPOLLERR | EPOLLHUP))) {
        return RUNNING;
    }
    bool was_idle = connection->outstanding == 0;
    int status = receive(g, connection);
    if (status != RUNNING || was_idle || connection->outstanding > 0) {
        return status;
    }
    g->busy--;
    if (!load->open_loop && load->think_ns == 0 && may_send(g)) {
        return start_batch(g, connection, g->now_ns) ? RUNNING : CLOSED;
    }
    connection->due_ns = g->now_ns + load->think_ns;
    begin_to_wait(g, connection);
    return RUNNING;
}

// Whether the loop has to end, and how.
static int status_now(struct generator *g) {
    bool stop = control_word(g->load) == STOP;
    if (g->stopped_ns < 0 && (stop || g->next_request >= g->load->limit)) {
        g->stopped_ns = g->now_ns;
    }
    if (g->now_ns > g->load->deadline_ns) {
        return TIMED_OUT;
    }
    if (g->stopped_ns >= 0) {
        if (g->busy == 0) {
            return FINISHED;
        }
        if (stop && g->now_ns > g->stopped_ns + DRAIN_NS) {
            return TIMED_OUT;
        }
    }
    return RUNNING;
}

static int begin(struct generator *g) {
    const struct load *load = g->load;
    g->now_ns = clock_ns();
    for (int64_t client = 0; client < load->clients; client++) {
        struct connection *connection = &load->connections[client];
        if (!watch(g, EPOLL_CTL_ADD, connection, false)) {
            return SYSTEM;
        }
        // First starts are spread over one think time, so that clients don't move in step.
        connection->due_ns = g->now_ns + client * load->think_ns / load->clients;
        begin_to_wait(g, connection);
    }
    g->intended_ns = g->now_ns + (load->open_loop ? gap_ns(load, 0) : 0);
    return RUNNING;
}

static int turn(struct generator *g) {
    g->now_ns = clock_ns();
    int status = status_now(g);
    int timeout_ms;
    if (status == RUNNING) {
        status = send_what_is_due(g, &timeout_ms);
    }
    if (status != RUNNING) {
        return status;
    }
    struct epoll_event events[MOST_EVENTS];
    int ready = epoll_wait(g->epoll, events, MOST_EVENTS, timeout_ms);
    g->counters->loops++;
    if (ready < 0) {
        return errno == EINTR ? RUNNING : SYSTEM;
    }
    g->counters->events += ready;
    g->measures = control_word(g->load) == MEASURE;
    for (int i = 0; i < ready && status == RUNNING; i++) {
        status = handle(g, &events[i]);
    }
    return status;
}

int64_t drive(struct load *load) {
    struct generator g = {
        .load = load,
        .counters = &load->counters,
        .scan = load->protocol == MEMCACHED ? scan_text_replies : scan_replies,
        .next_request = load->first,
        .stopped_ns = -1,
    };
    int status = SYSTEM;
    g.epoll = epoll_create1(0);
    if (g.epoll >= 0) {
        status = begin(&g);
        while (status == RUNNING) {
            status = turn(&g);
        }
        close(g.epoll);
    }
    load->counters.status = status;
    return status;
}
