// The measured window: what happens before it or after it does not count.
//
// Counters and busy times are added up without looking at the time; where the window begins and
// where it ends, what does not belong is taken out.

#ifndef FORECACHE_WINDOW_H
#define FORECACHE_WINDOW_H

#include "node.h"

// The part of an interval that lies in the measured window, in ps.
INLINE int64_t inside_window(struct node *n, int64_t start_ps, int64_t end_ps) {
    return max64(0, min64(end_ps, n->end_ps) - max64(start_ps, n->warmup_ps));
}

// What is left of a thread's work under way, in ps.
INLINE int64_t left_to_do(struct node *n, int64_t agent, int64_t now) {
    int64_t since_ps = now;
    if (unlikely(n->crowded)) {
        // It stands still without a core, and until it goes on with one.
        struct task *task = &n->task_rows[agent];
        if (task->state >= WAITS_FOR_CORE) {
            since_ps = task->on_since_ps;
        }
        since_ps = max64(since_ps, task->goes_on_ps);
    }
    return max64(0, n->threads[agent].busy_until_ps - since_ps);
}

// Whether a thread begins its next step, after one that ends then, without an event between.
//
// It may where others see nothing of it meanwhile, unless it could lose its core, a read could
// find what clients send meanwhile, or the window begins or ends.
INLINE int64_t in_one_go(struct node *n, int64_t ends_ps) {
    return ends_ps < n->until_ps && !n->crowded && !n->generator_refills;
}

// The same for a step that counts as an event.
INLINE int64_t goes_ahead(struct node *n, int64_t ends_ps) {
    if (!in_one_go(n, ends_ps)) {
        return false;
    }
    n->steps_ahead++;
    return true;
}

// The warm-up is over: count from here on, of work under way what is left of it.
INLINE void begin_window(struct node *n) {
    int64_t accepted = n->arrivals - n->overflows;
    n->backlog_at_start = n->open_loop ? accepted - n->completed_early : 0;
    memset(&n->loops, 0, offsetof(struct node, active_thread_ps) - offsetof(struct node, loops));
    for (int64_t agent = 0; agent < n->io_threads + n->generators; agent++) {
        struct thread *thread = &n->threads[agent];
        thread->busy_ps = left_to_do(n, agent, n->warmup_ps);
    }
    n->until_ps = n->end_ps;
}

// Take out the part of work under way that lies after the window.
INLINE void end_window(struct node *n) {
    for (int64_t agent = 0; agent < n->io_threads + n->generators; agent++) {
        struct thread *thread = &n->threads[agent];
        thread->busy_ps -= left_to_do(n, agent, n->end_ps);
    }
}

#endif
