// CPU time that the server's threads may take per period: a quota of their control group.
//
// The reference execution says by which rules. Here is who has how much; `cores` takes cores away.

#ifndef FORECACHE_QUOTA_H
#define FORECACHE_QUOTA_H

#include "node.h"

// Whether it is a thread of the server, and there is a quota.
INLINE int64_t limits(struct node *n, int64_t task) {
    return n->quota_ps > 0 && task < n->io_threads;
}

// Whether a thread must not run on a core, as far as is known.
INLINE int64_t throttles(struct node *n, int64_t task, int64_t core) {
    return limits(n, task) && n->core_rows[core].throttled_as > 0;
}

// Fill a core's slice up from the pool; returns whether the core then has any time.
INLINE int64_t refill(struct node *n, int64_t core) {
    struct core *here = &n->core_rows[core];
    int64_t taken_ps = min64(n->pool_ps, n->quota_slice_ps - here->local_ps);
    n->pool_ps -= taken_ps;
    here->local_ps += taken_ps;
    return here->local_ps > 0;
}

// Whether a thread may run on a core now; if not, the core is throttled.
RARELY int64_t allows(struct node *n, int64_t task, int64_t core) {
    if (!limits(n, task)) {
        return true;
    }
    struct core *here = &n->core_rows[core];
    if (here->throttled_as > 0) {
        return false;
    }
    if (here->local_ps > 0 || refill(n, core)) {
        return true;
    }
    n->tickets++;
    here->throttled_as = n->tickets;
    n->throttles++;
    for (int64_t other = 0; other < n->io_threads; other++) {
        struct task *row = &n->task_rows[other];
        if (row->state == WAITS_FOR_CORE && row->home == core) {
            row->state = THROTTLED;
        }
    }
    return false;
}

// A thread runs on a core: plan when what the core has will be used up.
INLINE void begin_budget(struct node *n, struct calendar *calendar, int64_t task, int64_t core,
                         int64_t now) {
    if (limits(n, task)) {
        int64_t tick_ps = max64(1, n->tick_ps);
        int64_t ends_ps = now + n->core_rows[core].local_ps;
        ends_ps = (ends_ps + tick_ps - 1) / tick_ps * tick_ps;
        schedule(calendar, n->first_core_agent + n->cores + core, ends_ps);
    }
}

// No thread has the core.
INLINE void cancel_budget(struct node *n, struct calendar *calendar, int64_t core) {
    if (n->quota_ps > 0) {
        schedule(calendar, n->first_core_agent + n->cores + core, INFINITY_PS);
    }
}

// Charge a core for the time a task has been on it.
INLINE void spend(struct node *n, struct task *row, int64_t time_ps) {
    if (n->quota_ps > 0 && row < &n->task_rows[n->io_threads]) {
        n->core_rows[row->home].local_ps -= time_ps;
    }
}

// A thread has blocked; if it was the core's only one, most of what is left is returned.
RARELY void give_back(struct node *n, int64_t task, int64_t core) {
    if (!limits(n, task)) {
        return;
    }
    for (int64_t other = 0; other < n->io_threads; other++) {
        struct task *row = &n->task_rows[other];
        if (row->state == WAITS_FOR_CORE && row->home == core) {
            return;
        }
    }
    struct core *here = &n->core_rows[core];
    int64_t left_ps = max64(0, here->local_ps - KEPT_BUDGET_PS);
    here->local_ps -= left_ps;
    n->pool_ps += left_ps;
}

// The core that was throttled next after the one with this number; -1 if none was.
INLINE int64_t longest_throttled(struct node *n, int64_t after) {
    int64_t best = -1;
    for (int64_t core = 0; core < n->cores; core++) {
        int64_t ticket = n->core_rows[core].throttled_as;
        if (ticket > after && (best < 0 || ticket < n->core_rows[best].throttled_as)) {
            best = core;
        }
    }
    return best;
}

// A period begins: so will the next one.
INLINE void plan_period(struct node *n, struct calendar *calendar, int64_t begins_ps) {
    int64_t number = n->first_core_agent + 2 * n->cores;
    schedule(calendar, number, begins_ps + n->quota_period_ps);
}

#endif
