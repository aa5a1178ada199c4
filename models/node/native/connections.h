// New connections: a Poisson process whose draws are addressed by number.
//
// They wake no thread: the main thread accepts what has arrived when it has polled.

#ifndef FORECACHE_CONNECTIONS_H
#define FORECACHE_CONNECTIONS_H

#include "node.h"

enum { CONNECTION_DRAWS = 4 };

// Draw when the next connection arrives: one gap after the one before it.
INLINE void plan_connection(struct node *n, int64_t since_ps) {
    int64_t index = n->connection;
    struct draw drawn = draw4(n->seed, n->replication, 0, CONNECTION_DRAWS, index);
    uint32_t gap = drawn.word[0];
    n->connection = index + 1;
    n->connection_due_ps = since_ps + exponential_ps(to_unit(gap), (double)n->connection_gap_ps);
}

// Before the server's first step.
INLINE void plan_first_connection(struct node *n) {
    if (n->connection_gap_ps > 0) {
        plan_connection(n, 0);
    } else {
        n->connection_due_ps = INFINITY_PS;
    }
}

// How many connections have arrived since the last call.
INLINE int64_t take_connections(struct node *n, int64_t now) {
    int64_t taken = 0;
    while (unlikely(n->connection_due_ps <= now)) {
        taken++;
        plan_connection(n, n->connection_due_ps);
    }
    n->handshakes += taken;
    return taken;
}

// Accept what has arrived, handshakes included; returns the duration in ps.
INLINE int64_t accept_alone(struct node *n, int64_t now) {
    int64_t taken = take_connections(n, now);
    n->inline_handshakes += taken;
    return taken * (n->accept_ps + n->handshake_ps);
}

#endif
