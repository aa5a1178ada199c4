// How long it takes until a thread that sleeps in epoll_wait runs, from the send that wakes it.
//
// Every thread has its own, whose draws are addressed by thread and number.

#ifndef FORECACHE_WAKEUPS_H
#define FORECACHE_WAKEUPS_H

#include "node.h"

enum { WAKE_UP_DRAWS = 6 };

// Draw how long a thread's wake-up of this number takes.
INLINE void plan_wake_up(struct node *n, struct thread *thread, int64_t index) {
    int64_t number = thread - n->threads;
    struct draw drawn = draw4(n->seed, n->replication, number, WAKE_UP_DRAWS, index);
    thread->wake_up = index;
    thread->wake_latency_ps = n->wake_latency_ps[drawn.word[0] & (QUANTILES - 1)];
}

// A thread is woken: how long that takes.
INLINE int64_t wake_up(struct node *n, struct thread *thread) {
    int64_t latency = thread->wake_latency_ps;
    plan_wake_up(n, thread, thread->wake_up + 1);
    return latency;
}

#endif
