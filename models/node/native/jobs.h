// Jobs that a main thread gives to I/O threads, and how long they take.

#ifndef FORECACHE_JOBS_H
#define FORECACHE_JOBS_H

#include "active_threads.h"
#include "sockets.h"

// What a job is about.
enum {
    READ_JOB,
    WRITE_JOB,
    POLL_JOB,
    FREE_JOB,  // with its duration in place of a client
    HANDSHAKE_JOB,
    ARGUMENTS_JOB,  // to free, with its duration in place of a client
    KIND_BITS = 3,
    KIND_MASK = 7,
};

// A job packs its kind, in the low bits, and a client's number or a duration.
INLINE int64_t new_job(int64_t kind, int64_t subject) {
    return (subject << KIND_BITS) | kind;
}

INLINE int64_t kind_of(int64_t job) {
    return job & KIND_MASK;
}

INLINE int64_t subject_of(int64_t job) {
    return job >> KIND_BITS;
}

INLINE struct client *client_of(struct node *n, int64_t job) {
    return &n->client_rows[subject_of(job)];
}

// Commands that a client's reader parsed: the complete ones it looks ahead to, or the first only.
INLINE int64_t parsed_commands(struct node *n, struct client *client) {
    int64_t ready = client->read - client->executed;
    return min64(ready, n->whole_pipeline ? n->lookahead : 1);
}

// Read from a client and parse what its reader parses; returns the duration in ps.
INLINE int64_t read_and_parse(struct node *n, struct client *client, int64_t now) {
    int64_t duration = read_socket(n, client, now);
    int64_t index = client->executed;
    int64_t last = index + parsed_commands(n, client);
    while (index < last) {
        duration += command_of(n, mark_of(n, client, index))->parse_ps;
        index++;
    }
    return duration;
}

// An I/O thread starts a job; returns its duration in ps.
INLINE int64_t begin_job(struct node *n, int64_t job, int64_t now) {
    int64_t kind = kind_of(job);
    if (kind == FREE_JOB || kind == ARGUMENTS_JOB) {
        return subject_of(job);
    }
    if (kind == HANDSHAKE_JOB) {
        return n->handshake_ps;
    }
    int64_t duration = n->pop_ps;
    if (kind == READ_JOB) {
        return duration + read_and_parse(n, client_of(n, job), now);
    }
    return duration + begin_write(n, client_of(n, job), now);
}

// An I/O thread starts the poll job; returns its duration in ps.
INLINE int64_t begin_poll_job(struct node *n, int64_t now) {
    return n->pop_ps + polling(n, poll_sockets(n, &n->threads[0], now));
}

// If an I/O thread's present job is a write that ends now, its reply leaves; returns whether whoever
// the reply wakes may take the core over before the thread can say that it is done.
INLINE int64_t write_leaves(struct node *n, struct calendar *calendar, struct thread *me,
                            int64_t now) {
    if (me->phase != IO_WORKING || kind_of(me->job) != WRITE_JOB) {
        return false;
    }
    struct client *client = client_of(n, me->job);
    end_write(n, calendar, client, now);
    if (!beside_generator(n, me, client)) {
        return false;
    }
    me->phase = IO_SENT;
    return true;
}

#endif
