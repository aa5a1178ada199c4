// Where the load of a cluster lies: queues, what each node is at, and what holds in a step.
//
// `cohorts.py` reads this file: Python allocates what is declared here and fills it by these names.
// All counts are integers, so that nothing is lost to rounding.

#ifndef FORECACHE_CLUSTER_H
#define FORECACHE_CLUSTER_H

#include "sim/native/base.h"

enum {
    WAITS_PER_DECADE = 40,
    WAIT_CELLS = 1 + 11 * WAITS_PER_DECADE,  // no wait, then 1 us to 28 hours
    UTILISATION_CELLS = 201,
    TOKEN = 1000,  // a retry token in the unit of `tokens`
};

// Whether a node is up.
enum { UP, REFUSES, SILENT };

// Requests that joined a queue in the same step as the same attempt.
struct cohort {
    int64_t step;
    int64_t attempt;
    int64_t count;  // how many are left
    int64_t size;  // and were at first
};

// A FIFO queue of cohorts, which are numbered in the order they came.
struct queue {
    int64_t head;  // number of the first cohort
    int64_t gone;  // of the first whose clients wait
    int64_t tail;  // behind the last
    int64_t waiting;  // requests whose clients wait
    int64_t left;  // and those whose clients have gone
    int64_t mask;  // slots of the ring, a power of two, less one
    struct cohort *cohorts;
};

// How many requests waited how long; `cell_waits_s` says what the cells stand for.
struct waits {
    int64_t count[WAIT_CELLS];
};

// The same by the utilisation of the node, whose cells `cell_loads` explains.
struct latencies {
    struct waits at_load[UTILISATION_CELLS];
};

// A node.
struct node {
    // What is so now.
    int64_t open;  // connections
    int64_t stale;  // connections that no longer lead anywhere
    int64_t down;  // UP, REFUSES or SILENT
    int64_t stall_ps;  // that a standstill still takes
    int64_t credit_ps;  // left over, too short for a request
    int64_t accept_credit_ps;  // the same for a connection
    int64_t tokens;  // for retries, in thousandths
    int64_t backing_off;  // requests that wait for their next attempt
    // What has been counted from the start: requests, attempts and what became of them.
    int64_t offered;
    int64_t attempts;
    int64_t answered;
    int64_t timed_out;
    int64_t refused;
    int64_t retries;
    int64_t failed;  // requests given up
    int64_t wasted;  // served after their clients had given up
    int64_t connected;  // connections opened
    int64_t closed;  // and closed
    int64_t backlog_full;  // attempts that found the backlog full
    int64_t too_many;  // that found maxclients reached
    int64_t broken;  // that found their connection broken
    int64_t abandoned;  // that were accepted when the client had gone
    // Time of the main thread from the start.
    int64_t busy_ps;  // on requests, each counted with what it takes where the node is full
    int64_t connect_ps;  // on connections
    int64_t budget_ps;  // what background work left for both
};

// What holds for a node in a step.
struct given {
    int64_t new_requests;  // that begin
    int64_t expected;  // the mean that they were drawn around, in thousandths
    int64_t per_request_ps;  // time of the main thread
    int64_t budget_ps;  // that the main thread has
    int64_t elsewhere;  // requests that the node's other threads can serve
    int64_t per_connection_ps;
    int64_t per_rejection_ps;  // for a connection that is turned away
    int64_t accepts_per_turn;
    int64_t handshakes;  // that I/O threads can do
    int64_t maxclients;
    int64_t backlog;
    int64_t wanted;  // connections that the clients want to keep
    int64_t kind;  // of the node
    int64_t forgets;  // whether whoever waits is refused
};

// What clients do.
struct rules {
    int64_t timeout_steps;
    int64_t connect_timeout_steps;
    int64_t persistent;  // whether connections are
    int64_t drops_gone;  // whether nodes leave out requests whose clients have gone
    int64_t tokens_per_answer;  // of the retry budget, in thousandths
    int64_t most_tokens;  // 0 for no budget
    int64_t connect_delay_steps;  // wait for a connection that the kernel does not answer
};

// When an attempt that came to nothing is made again.
struct backoff {
    int64_t from_steps;  // later, at the earliest
    int64_t in_steps;  // evenly over so many
};

// One step of the load.
struct load {
    int64_t seed;
    int64_t step;
    double step_s;
    double cell_width;  // of utilisations, on the scale of `cell_loads`
    int64_t nodes;
    struct node *state;
    struct given *given;
    struct queue *connect_queues;  // connections that wait to be accepted
    struct queue *request_queues;  // requests that wait for an answer
    struct rules *rules;
    int64_t attempts;  // that a request has at most
    struct backoff *backoffs;  // by attempt
    int64_t horizon;  // steps
    int64_t *due;  // attempts that begin, by step modulo the horizon, node and attempt
    // By attempt, of the present node: attempts that came to nothing, those whose connections the
    // kernel left without an answer (both are all 0 between nodes), and those that were served.
    int64_t *lost;
    int64_t *dropped;
    int64_t *served;
    // What was answered in it, and what was accepted.
    struct latencies *latencies;  // by kind of node
    struct waits *connect_waits;
    double *utilisation;  // share of what a node could do that was asked of it
};

#endif
