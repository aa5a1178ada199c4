// When requests fall due in an open loop.
//
// Each generator thread has a source: the number of its next request, and where its time lies in
// the pieces of constant rate.

#ifndef FORECACHE_ARRIVALS_H
#define FORECACHE_ARRIVALS_H

#include "node.h"

enum {
    ARRIVAL_DRAWS = 2,
    PIECE_DRAWS = 9,
};
#define UNIT (INT64_C(1) << 40)  // an exponential of mean one is drawn as a whole number of these

// The next piece of constant rate begins.
INLINE void begin_piece(struct node *n, struct source *row, int64_t number, int64_t since_ps) {
    int64_t kind = number % n->pieces;
    int64_t lasts_ps = n->piece_table[kind];
    if (n->random_pieces) {
        // The same for all threads, so that a burst is a burst.
        struct draw drawn = draw4(n->seed, n->replication, 0, PIECE_DRAWS, number);
        lasts_ps = exponential_ps(to_unit(drawn.word[0]), (double)lasts_ps);
    }
    row->piece = number;
    row->piece_ends_ps = since_ps + lasts_ps;
}

// Mean time between two requests of a thread in the present piece; 0: none come.
INLINE int64_t piece_gap_ps(struct node *n, struct source *row) {
    int64_t kind = row->piece % n->pieces;
    return n->piece_table[n->pieces + kind];
}

// When the next request falls due whose exponential is drawn, in pieces of constant rate.
//
// Exponentials of mean one are used up at the rate of the piece that time is in.
INLINE int64_t varying_arrival(struct node *n, struct source *row, uint32_t gap, int64_t now) {
    double left = (double)exponential_ps(to_unit(gap), (double)UNIT) / (double)UNIT;
    while (true) {
        int64_t gap_ps = piece_gap_ps(n, row);
        int64_t ends_ps = row->piece_ends_ps;
        if (gap_ps > 0) {
            if (left * (double)gap_ps < (double)(ends_ps - now)) {
                return now + (int64_t)(left * (double)gap_ps);
            }
            left -= (double)(ends_ps - now) / (double)(gap_ps);
        }
        now = ends_ps;
        begin_piece(n, row, row->piece + 1, ends_ps);
    }
}

// When a thread's request of this number falls due, where the one before did so now.
INLINE int64_t next_arrival(struct node *n, int64_t source, int64_t index, int64_t now) {
    if (unlikely(n->traced > 0)) {
        int64_t number = source + index * n->generators;
        int64_t again = number / n->traced;
        int64_t row = number - again * n->traced;
        return again * n->trace_period_ps + n->trace_table[row];
    }
    struct draw drawn = draw4(n->seed, n->replication, source, ARRIVAL_DRAWS, index);
    uint32_t gap = drawn.word[0];
    if (unlikely(n->pieces > 0)) {
        return varying_arrival(n, &n->source_rows[source], gap, now);
    }
    return now + exponential_ps(to_unit(gap), (double)n->mean_interarrival_ps);
}

// The command code that a trace says a thread's request is, or `DRAWN`.
INLINE int64_t given_code(struct node *n, int64_t source, int64_t index) {
    if (unlikely(n->traced > 0)) {
        int64_t row = (source + index * n->generators) % n->traced;
        return n->trace_table[n->traced + row];
    }
    return DRAWN;
}

#endif
