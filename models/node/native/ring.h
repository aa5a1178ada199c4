// First-in first-out rings. The capacity is a power of two; nothing checks or allocates: a caller
// that may meet a full ring asks `ring_is_full` first.

#ifndef FORECACHE_RING_H
#define FORECACHE_RING_H

#include "sim/native/base.h"

struct client;

// What a ring holds, with a time from which on it can be seen, or since when it has been due.
struct entry {
    int64_t stamp_ps;
    union {
        int64_t value;  // a job, or the number of a command
        struct client *client;
        struct {
            int32_t number;  // of the client
            int32_t commands;  // of a message
        };
    };
};

struct ring {
    int64_t popped;  // so many entries have left it
    int64_t pushed;  // so many have entered it
    int64_t mask;  // its capacity, less one
    struct entry *entries;
};

INLINE int64_t ring_length(const struct ring *ring) {
    return ring->pushed - ring->popped;
}

INLINE int64_t ring_capacity(const struct ring *ring) {
    return ring->mask + 1;
}

// Whether another entry would overwrite the oldest.
INLINE bool ring_is_full(const struct ring *ring) {
    return ring_length(ring) > ring->mask;
}

// The entry that was pushed after so many others.
INLINE struct entry *ring_entry(const struct ring *ring, int64_t number) {
    return &ring->entries[number & ring->mask];
}

// The oldest entry; the ring must not be empty.
INLINE struct entry *ring_first(const struct ring *ring) {
    return ring_entry(ring, ring->popped);
}

INLINE int64_t ring_first_stamp(const struct ring *ring) {
    return ring_first(ring)->stamp_ps;
}

INLINE void ring_push(struct ring *ring, int64_t stamp_ps, int64_t value) {
    struct entry *entry = ring_entry(ring, ring->pushed++);
    entry->stamp_ps = stamp_ps;
    entry->value = value;
}

INLINE void ring_push_client(struct ring *ring, int64_t stamp_ps, struct client *client) {
    struct entry *entry = ring_entry(ring, ring->pushed++);
    entry->stamp_ps = stamp_ps;
    entry->client = client;
}

// Add a message behind those whose stamps are not later.
INLINE void ring_insert(struct ring *ring, int64_t stamp_ps, int64_t number, int64_t commands) {
    int64_t place = ring->pushed++;
    struct entry *entry = ring_entry(ring, place);
    while (place > ring->popped) {
        struct entry *before = ring_entry(ring, place - 1);
        if (before->stamp_ps <= stamp_ps) {
            break;
        }
        *entry = *before;
        entry = before;
        place--;
    }
    entry->stamp_ps = stamp_ps;
    entry->number = (int32_t)number;
    entry->commands = (int32_t)commands;
}

// Remove the oldest entry; the ring must not be empty.
INLINE int64_t ring_pop(struct ring *ring) {
    return ring_entry(ring, ring->popped++)->value;
}

INLINE struct client *ring_pop_client(struct ring *ring) {
    return ring_entry(ring, ring->popped++)->client;
}

// A ring of clients without stamps.
struct line {
    int64_t popped;
    int64_t pushed;
    int64_t mask;
    struct client **clients;
};

INLINE int64_t line_length(const struct line *line) {
    return line->pushed - line->popped;
}

INLINE void line_put(struct line *line, struct client *client) {
    line->clients[line->pushed++ & line->mask] = client;
}

INLINE struct client *line_first(const struct line *line) {
    return line->clients[line->popped & line->mask];
}

INLINE struct client *line_take(struct line *line) {
    return line->clients[line->popped++ & line->mask];
}

#endif
