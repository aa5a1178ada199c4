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

// A thread falls asleep; waking it takes more the longer it has slept.
INLINE void fall_asleep(struct thread *thread, int64_t now) {
    thread->waits = SLEEPS;
    thread->slept_ps = now;
}

// A price between two, by how long a thread has slept; whole from `long_sleep_ps` on.
INLINE int64_t by_sleep(struct node *n, int64_t least_ps, int64_t most_ps, int64_t rested_ps) {
    int64_t rested = max64(0, rested_ps);
    if (rested >= n->long_sleep_ps || most_ps <= least_ps) {
        return most_ps;
    }
    return least_ps + (most_ps - least_ps) * rested / n->long_sleep_ps;
}

// What it adds to a system call that begins now to wake a sleeper's core.
INLINE int64_t waking_core(struct node *n, struct thread *thread, int64_t now) {
    return by_sleep(n, n->short_wake_send_ps, n->wake_send_ps, now - thread->slept_ps);
}

// A thread is woken at time `at`: how long that takes.
INLINE int64_t wake_up(struct node *n, struct thread *thread, int64_t at) {
    int64_t latency = thread->wake_latency_ps;
    thread->rested_ps = at - thread->slept_ps;
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

// A sender wakes a thread at time `at`: how long that takes.
INLINE int64_t woken(struct node *n, struct thread *thread, int64_t at) {
    int64_t latency = wake_latency(n, thread);
    wake_up(n, thread, at);
    return latency;
}

// CPU time to schedule a thread again that has slept.
INLINE int64_t scheduled_again(struct node *n, struct thread *thread) {
    return by_sleep(n, n->short_block_ps, n->block_ps, thread->rested_ps);
}

// What an epoll_wait that slept takes besides: nothing where its core went on with another thread.
INLINE int64_t unblocking(struct node *n, struct thread *thread) {
    if (n->crowded && n->task_rows[thread - n->threads].woke_busy) {
        return 0;
    }
    return scheduled_again(n, thread);
}

// A thread of the server has slept, which takes so long.
INLINE int64_t count_block(struct node *n, int64_t duration_ps) {
    n->blocks++;
    n->blocks_ps += duration_ps;
    return duration_ps;
}

// A thread of the server wakes another, which takes so long.
INLINE int64_t count_wake(struct node *n, int64_t duration_ps) {
    n->paid_wakes++;
    n->paid_wakes_ps += duration_ps;
    return duration_ps;
}

#endif
