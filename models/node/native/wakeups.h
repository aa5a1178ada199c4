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

// Whether waking a thread wakes a core as well: one that it may run on and nobody has.
INLINE int64_t wakes_core(struct node *n, struct thread *thread) {
    if (!n->crowded) {
        return true;
    }
    struct task *row = &n->task_rows[thread - n->threads];
    for (int64_t core = row->first_core; core < row->last_core; core++) {
        if (n->core_rows[core].occupant < 0) {
            return true;
        }
    }
    return row->first_core == row->last_core;
}

// How long it takes until a thread that is woken now may run: no time if its core is awake.
INLINE int64_t wake_latency(struct node *n, struct thread *thread) {
    return wakes_core(n, thread) ? thread->wake_latency_ps : 0;
}

// A sender wakes a thread: how long that takes.
INLINE int64_t woken(struct node *n, struct thread *thread) {
    int64_t latency = wake_latency(n, thread);
    wake_up(n, thread);
    return latency;
}

// What an epoll_wait that slept takes besides: nothing where its core went on with another thread.
INLINE int64_t unblocking(struct node *n, struct thread *thread) {
    return n->crowded && n->task_rows[thread - n->threads].woke_busy ? 0 : n->block_ps;
}

#endif
