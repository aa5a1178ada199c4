// The calendar of next events: one per agent, the earliest first, of simultaneous ones that of the
// lowest agent number.
//
// A winner tree of four children a node: leaves are agents, and a node holds the least key below
// it. A key is time << bits | agent, so that one minimum moves time and agent together and the rule
// for simultaneous events is part of the comparison. Packing bounds simulated time by
// `INFINITY_PS >> bits`; at or beyond that an event never happens.

#ifndef FORECACHE_CALENDAR_H
#define FORECACHE_CALENDAR_H

#include "base.h"

// The time of an event that does not happen, in ps.
#define INFINITY_PS ((int64_t)1 << 62)

// The words of a calendar. Those of the tree lie behind each other: the children of node k are
// 4k to 4k + 3, the root is 1, and the leaves are the second half.
struct calendar {
    int64_t bits;  // of an agent number
    int64_t root;  // node 1
    int64_t leaves;  // how many there are
};

INLINE int64_t *calendar_tree(struct calendar *calendar) {
    return (int64_t *)calendar;
}

// Set the time of an agent's next event; returns the key of the next event of all.
INLINE int64_t advance(struct calendar *calendar, int64_t agent, int64_t time_ps) {
    int64_t *tree = calendar_tree(calendar);
    int64_t bits = calendar->bits;
    uint64_t node = (uint64_t)(calendar->leaves + agent);
    int64_t key = (min64(time_ps, INFINITY_PS >> bits) << bits) | agent;
    tree[node] = key;
    while (node > 1) {
        // The siblings are compared while the key is still on its way.
        int64_t others = min64(min64(tree[node ^ 1], tree[node ^ 2]), tree[node ^ 3]);
        key = min64(key, others);
        node >>= 2;
        tree[node] = key;
    }
    return key;
}

// Set the time of an agent's next event; `INFINITY_PS` cancels it.
INLINE void schedule(struct calendar *calendar, int64_t agent, int64_t time_ps) {
    advance(calendar, agent, time_ps);
}

// The key of the next event.
INLINE int64_t next_key(struct calendar *calendar) {
    return calendar->root;
}

// The time of an event; at or beyond the calendar's horizon it never happens.
INLINE int64_t time_of(struct calendar *calendar, int64_t key) {
    return key >> calendar->bits;
}

// The agent whose event it is.
INLINE int64_t agent_of(struct calendar *calendar, int64_t key) {
    return key & (((int64_t)1 << calendar->bits) - 1);
}

// The time of one agent's next event; at or beyond the horizon it never happens.
INLINE int64_t planned(struct calendar *calendar, int64_t agent) {
    return time_of(calendar, calendar_tree(calendar)[calendar->leaves + agent]);
}

// The same, and `INFINITY_PS` for an event that never happens.
INLINE int64_t event_time(struct calendar *calendar, int64_t agent) {
    int64_t key = calendar_tree(calendar)[calendar->leaves + agent];
    return key >= INFINITY_PS ? INFINITY_PS : key >> calendar->bits;
}

#endif
