// Cores that several threads share: who has one, who waits for one, and for how long.
//
// The reference execution says by which rules. What a thread does until its next event is in its
// row's `waits`: policies and the load generator say where it spins or blocks; all else is
// computing. Where every thread has a core of its own, nothing of this happens.

#ifndef FORECACHE_CORES_H
#define FORECACHE_CORES_H

#include "halts.h"
#include "quota.h"
#include "window.h"

// Whether a thread that sleeps is not woken by a time, nor was and only waits for a core.
INLINE int64_t nobody_wakes(struct node *n, struct calendar *calendar, int64_t sleeper,
                            int64_t by_ps) {
    if (unlikely(n->crowded) && n->task_rows[sleeper].due) {
        return false;
    }
    return planned(calendar, sleeper) > by_ps;
}

// How many threads wait at a core.
RARELY int64_t waiting(struct node *n, int64_t core) {
    int64_t found = 0;
    for (int64_t task = 0; task < n->tasks_of_cores; task++) {
        struct task *row = &n->task_rows[task];
        found += row->state == WAITS_FOR_CORE && row->home == core;
    }
    return found;
}

// Threads that have a core or wait at it.
INLINE int64_t runnable(struct node *n, int64_t core) {
    return waiting(n, core) + (n->core_rows[core].occupant >= 0);
}

// A task's virtual runtime, the time since it got its core included.
INLINE int64_t virtual_ps(struct node *n, struct task *row, int64_t now) {
    if (row->state == ON_CORE) {
        return row->virtual_ps + now - row->on_since_ps;
    }
    return row->virtual_ps;
}

// Whether a thread counts at a core: it has it, waits for it, or blocked ahead of the others.
INLINE int64_t counts_on(struct task *row, int64_t core) {
    return row->home == core &&
           (row->state == ON_CORE || row->state == WAITS_FOR_CORE || row->delayed);
}

// The virtual runtimes of the threads that count at a core, but for one task, and how many.
struct at_core {
    int64_t number;
    int64_t total_ps;
};

RARELY struct at_core at_core(struct node *n, int64_t core, int64_t but, int64_t now) {
    struct at_core found = {0, 0};
    for (int64_t task = 0; task < n->tasks_of_cores; task++) {
        struct task *row = &n->task_rows[task];
        if (task != but && counts_on(row, core)) {
            found.number++;
            found.total_ps += virtual_ps(n, row, now);
        }
    }
    return found;
}

// It no longer counts anywhere, nor does what it was behind or ahead.
INLINE void forget(struct task *row) {
    row->delayed = 0;
    row->lag_ps = 0;
}

// Of the threads that wait elsewhere and may come to a core, the one with the least virtual
// runtime, or -1.
RARELY int64_t furthest_behind(struct node *n, int64_t core, int64_t now) {
    int64_t best = -1;
    int64_t least_ps = INFINITY_PS;
    for (int64_t task = 0; task < n->tasks_of_cores; task++) {
        struct task *row = &n->task_rows[task];
        if (row->state == WAITS_FOR_CORE && row->virtual_ps < least_ps) {
            bool allowed = row->first_core <= core && core < row->last_core;
            if (allowed && now >= row->hot_until_ps && !throttles(n, task, core)) {
                best = task;
                least_ps = row->virtual_ps;
            }
        }
    }
    return best;
}

// The eligible thread with the earliest deadline, or the one that may keep the core; -1: none.
RARELY int64_t pick(struct node *n, int64_t core, int64_t now) {
    int64_t occupant = n->core_rows[core].occupant;
    while (true) {
        struct at_core all = at_core(n, core, -1, now);
        int64_t best = -1;
        int64_t earliest_ps = INFINITY_PS;
        for (int64_t task = 0; task < n->tasks_of_cores; task++) {
            struct task *row = &n->task_rows[task];
            int64_t runtime_ps = virtual_ps(n, row, now);
            if (!counts_on(row, core) || all.number * runtime_ps > all.total_ps) {
                continue;
            }
            if (task == occupant && runtime_ps < row->keeps_until_ps) {
                return task;
            }
            if (row->deadline_ps < earliest_ps) {
                best = task;
                earliest_ps = row->deadline_ps;
            }
        }
        if (best < 0 || !n->task_rows[best].delayed) {
            return best;
        }
        // The others have caught up with a thread that blocked: it has left.
        forget(&n->task_rows[best]);
    }
}

// Who of those on a core, or of those that wait elsewhere, is to have it, if it may; or -1.
RARELY int64_t following_on(struct node *n, int64_t core, int64_t elsewhere, int64_t now) {
    while (true) {
        int64_t task = elsewhere ? furthest_behind(n, core, now) : pick(n, core, now);
        if (task < 0 || task == n->core_rows[core].occupant || allows(n, task, core)) {
            return task;
        }
    }
}

// Account for the time since a task got its core.
INLINE void charge(struct node *n, struct task *row, int64_t now) {
    int64_t since_ps = row->on_since_ps;
    row->virtual_ps += now - since_ps;
    if (row->virtual_ps >= row->deadline_ps) {
        row->deadline_ps = row->virtual_ps + n->slice_ps;
    }
    row->on_core_ps += inside_window(n, since_ps, now);
    spend(n, row, now - since_ps);
    row->on_since_ps = now;
    row->hot_until_ps = now + n->cache_hot_ps;
}

// For how long a look at a thread past its slice would find that it keeps its core.
//
// Until it has run ahead of the average or to its deadline, or until one with an earlier deadline
// is eligible.
RARELY int64_t unchanged_ps(struct node *n, int64_t task, int64_t now) {
    struct task *row = &n->task_rows[task];
    struct at_core all = at_core(n, row->home, -1, now);
    int64_t runtime_ps = virtual_ps(n, row, now);
    int64_t soonest_ps = row->deadline_ps - runtime_ps;
    if (all.number > 1) {
        int64_t behind_ps = floor_div(all.total_ps - all.number * runtime_ps, all.number - 1);
        soonest_ps = min64(soonest_ps, behind_ps + 1);
    }
    for (int64_t other = 0; other < n->tasks_of_cores; other++) {
        struct task *its = &n->task_rows[other];
        int64_t earlier = its->deadline_ps < row->deadline_ps ||
                          (its->deadline_ps == row->deadline_ps && other < task);
        if (earlier && counts_on(its, row->home)) {
            int64_t eligible_ps = all.number * virtual_ps(n, its, now) - all.total_ps;
            soonest_ps = min64(soonest_ps, eligible_ps);
        }
    }
    return max64(1, soonest_ps);
}

// Put the end of a core's slice into the calendar, at a tick.
INLINE void set_timer(struct node *n, struct calendar *calendar, int64_t core, int64_t now) {
    struct core *here = &n->core_rows[core];
    struct task *row = &n->task_rows[here->occupant];
    int64_t tick_ps = max64(1, n->tick_ps);
    int64_t keeps_ps = row->keeps_until_ps - virtual_ps(n, row, now);
    if (keeps_ps <= 0) {
        keeps_ps = unchanged_ps(n, here->occupant, now);
    }
    int64_t ends_ps = now + keeps_ps;
    here->timed = 1;
    schedule(calendar, n->first_core_agent + core, (ends_ps + tick_ps - 1) / tick_ps * tick_ps);
}

// Nobody waits for the end of the slice.
INLINE void cancel_timer(struct node *n, struct calendar *calendar, int64_t core) {
    n->core_rows[core].timed = 0;
    schedule(calendar, n->first_core_agent + core, INFINITY_PS);
}

// A thread's virtual runtime and deadline among those on a core.
//
// As far behind their average, it included, as when it blocked. One that still counts there goes on
// with what it had, unless the others have caught up with it.
RARELY void place(struct node *n, int64_t task, int64_t core, int64_t now) {
    struct task *row = &n->task_rows[task];
    struct at_core others = at_core(n, core, task, now);
    if (row->delayed) {
        forget(row);
        if (others.total_ps <= others.number * row->virtual_ps) {
            return;
        }
    }
    if (others.number > 0) {
        int64_t lag_ps = floor_div(row->lag_ps * (others.number + 1), others.number);
        row->virtual_ps = floor_div(others.total_ps, others.number) - lag_ps;
    }
    row->lag_ps = 0;
    row->deadline_ps = row->virtual_ps + n->slice_ps;
}

// A thread begins to wait at a core.
RARELY void enqueue(struct node *n, struct calendar *calendar, int64_t task, int64_t core,
                    int64_t now) {
    struct task *row = &n->task_rows[task];
    place(n, task, core, now);
    if (row->home != core) {
        row->hot_until_ps = 0;
    }
    row->home = core;
    row->state = WAITS_FOR_CORE;
    if (!n->core_rows[core].timed && n->core_rows[core].occupant >= 0) {
        set_timer(n, calendar, core, now);
    }
}

// Whether a task, or -1, is one of the threads that may share physical cores.
INLINE int64_t is_sibling(struct node *n, int64_t task) {
    return task >= 0 && (task < n->sibling_threads || is_other(n, task));
}

// A thread gets a core that nobody has.
RARELY void grant(struct node *n, struct calendar *calendar, int64_t core, int64_t task,
                  int64_t now) {
    struct task *row = &n->task_rows[task];
    n->core_rows[core].occupant = task;
    n->busy_siblings += is_sibling(n, task);
    row->on_since_ps = now;
    row->keeps_until_ps = row->deadline_ps;
    row->goes_on_ps = now;
    row->home = core;
    row->state = ON_CORE;
    begin_budget(n, calendar, task, core, now);
    if (waiting(n, core) > 0) {
        set_timer(n, calendar, core, now);
    } else {
        cancel_timer(n, calendar, core);
    }
}

// A waiting thread takes over a core.
RARELY void resume(struct node *n, struct calendar *calendar, int64_t core, int64_t task,
                   int64_t now) {
    struct thread *thread = &n->threads[task];
    struct task *row = &n->task_rows[task];
    int64_t goes_on_ps = now + n->switch_ps;
    if (!is_other(n, task) && thread->waits != SLEEPS) {
        // It lost its core before: what it worked on ends later.
        int64_t frozen_ps = progress_until(n, task, now);
        if (thread->busy_until_ps > frozen_ps) {
            thread->busy_until_ps += goes_on_ps - frozen_ps;
        }
        thread->away_ps += inside_window(n, frozen_ps, goes_on_ps);
    }
    n->switches++;
    grant(n, calendar, core, task, now);
    row->goes_on_ps = goes_on_ps;
    thaw(n, calendar, task, goes_on_ps);
}

// Let a thread wait at the core with the fewest threads, if `left` here aren't fewer.
INLINE void pass_on(struct node *n, struct calendar *calendar, int64_t task, int64_t left,
                    int64_t now) {
    struct task *row = &n->task_rows[task];
    int64_t first = row->first_core;
    int64_t last = row->last_core;
    int64_t least = left + 1;
    int64_t choice = -1;
    for (int64_t step = 1; step < last - first; step++) {
        int64_t core = first + (row->home - first + step) % (last - first);
        if (throttles(n, task, core)) {
            continue;
        }
        if (n->core_rows[core].occupant >= 0 && runnable(n, core) < least) {
            least = runnable(n, core);
            choice = core;
        }
    }
    if (choice >= 0) {
        forget(row);
        enqueue(n, calendar, task, choice, now);
    }
}

// Nobody has a core.
INLINE void vacate(struct node *n, struct calendar *calendar, int64_t core) {
    n->busy_siblings -= is_sibling(n, n->core_rows[core].occupant);
    n->core_rows[core].occupant = -1;
    cancel_timer(n, calendar, core);
    cancel_budget(n, calendar, core);
}

// A thread that was charged loses its core though it could go on.
INLINE void take_away(struct node *n, struct calendar *calendar, int64_t task, int64_t state,
                      int64_t now) {
    struct task *row = &n->task_rows[task];
    freeze(n, calendar, task, now);
    forget(row);
    row->state = state;
    vacate(n, calendar, row->home);
}

// A core that nobody has goes to one that waits there, or else anywhere it can be.
RARELY void fill(struct node *n, struct calendar *calendar, int64_t core, int64_t now) {
    int64_t following = following_on(n, core, false, now);
    if (following < 0) {
        following = following_on(n, core, true, now);
    }
    if (following >= 0) {
        resume(n, calendar, core, following, now);
    }
}

// The quota is used up: a thread loses its core, which goes to one without a quota.
INLINE void stop(struct node *n, struct calendar *calendar, int64_t task, int64_t core,
                 int64_t now) {
    take_away(n, calendar, task, THROTTLED, now);
    fill(n, calendar, core, now);
}

// The thread that is to have a core goes on, which may be the one that has it.
RARELY void take_over(struct node *n, struct calendar *calendar, int64_t core, int64_t slices,
                      int64_t now) {
    struct core *here = &n->core_rows[core];
    int64_t task = here->occupant;
    if (task < 0) {
        return;
    }
    charge(n, &n->task_rows[task], now);
    if (!allows(n, task, core)) {
        stop(n, calendar, task, core, now);
        return;
    }
    int64_t following = following_on(n, core, false, now);
    if (following < 0 || following == task) {
        set_timer(n, calendar, core, now);
        return;
    }
    int64_t left = waiting(n, core);
    take_away(n, calendar, task, WAITS_FOR_CORE, now);
    here->slices += slices;
    if (here->slices >= SLICES_PER_BALANCE) {
        here->slices = 0;
        pass_on(n, calendar, task, left, now);
    }
    resume(n, calendar, core, following, now);
}

// A slice is used up: another thread may go on.
RARELY void expire(struct node *n, struct calendar *calendar, int64_t core, int64_t now) {
    cancel_timer(n, calendar, core);
    if (waiting(n, core) > 0) {
        take_over(n, calendar, core, 1, now);
    }
}

// What a core had is used up, or should be: the thread that runs there goes on if it may.
RARELY void end_budget(struct node *n, struct calendar *calendar, int64_t core, int64_t now) {
    int64_t task = n->core_rows[core].occupant;
    cancel_budget(n, calendar, core);
    charge(n, &n->task_rows[task], now);
    if (allows(n, task, core)) {
        begin_budget(n, calendar, task, core, now);
    } else {
        stop(n, calendar, task, core, now);
    }
}

// Threads that a quota stopped at a core may run again.
RARELY void unthrottle(struct node *n, struct calendar *calendar, int64_t core, int64_t now) {
    for (int64_t task = 0; task < n->io_threads; task++) {
        struct task *row = &n->task_rows[task];
        if (row->state == THROTTLED && row->home == core) {
            if (runnable(n, core) > 0) {
                enqueue(n, calendar, task, core, now);
            } else {
                row->state = WAITS_FOR_CORE;
            }
        }
    }
    if (n->core_rows[core].occupant < 0) {
        fill(n, calendar, core, now);
    } else {
        take_over(n, calendar, core, 0, now);
    }
}

// The pool holds the quota again, and throttled cores go on.
RARELY void new_period(struct node *n, struct calendar *calendar, int64_t now) {
    n->pool_ps = n->quota_ps;
    int64_t last = n->tickets;
    int64_t core = longest_throttled(n, 0);
    n->throttled_periods += core >= 0;
    while (core >= 0) {
        int64_t ticket = n->core_rows[core].throttled_as;
        if (ticket > last) {
            break;
        }
        if (refill(n, core)) {
            n->core_rows[core].throttled_as = 0;
            unthrottle(n, calendar, core, now);
        }
        core = longest_throttled(n, ticket);
    }
    plan_period(n, calendar, now);
}

// What happens to cores: a slice ends, what one has of a quota is used up, a period begins.
INLINE void core_step(struct node *n, struct calendar *calendar, int64_t number, int64_t now) {
    int64_t cores = n->cores;
    if (number < cores) {
        expire(n, calendar, number, now);
    } else if (number < 2 * cores) {
        end_budget(n, calendar, number - cores, now);
    } else {
        new_period(n, calendar, now);
    }
}

// Whether a quota has a thread that wakes wait at a core for the next period.
INLINE int64_t refused(struct node *n, int64_t task, int64_t core, int64_t idle) {
    if (throttles(n, task, core) || (idle && !allows(n, task, core))) {
        struct task *row = &n->task_rows[task];
        forget(row);
        row->home = core;
        row->state = THROTTLED;
        return true;
    }
    return false;
}

// A blocked thread wakes: 1 if it has a core at once, else it waits for one.
RARELY int64_t admit(struct node *n, struct calendar *calendar, int64_t task, int64_t now) {
    struct task *row = &n->task_rows[task];
    int64_t core = row->home;
    int64_t idle = n->core_rows[core].occupant < 0;
    int64_t least = runnable(n, core);
    for (int64_t other = row->first_core; other < row->last_core; other++) {
        if (idle || row->delayed) {
            break;
        }
        idle = n->core_rows[other].occupant < 0;
        if (idle || runnable(n, other) < least) {
            core = other;
            least = runnable(n, other);
        }
    }
    if (refused(n, task, core, idle)) {
        return false;
    }
    row->woke_busy = !idle;
    if (idle) {
        place(n, task, core, now);
        grant(n, calendar, core, task, now);
        return true;
    }
    enqueue(n, calendar, task, core, now);
    take_over(n, calendar, core, 0, now);
    return false;
}

// Whether the agent whose event happens now may act on it.
//
// If not, the event has been dealt with: a slice ended, or a thread has to wait for a core.
RARELY int64_t has_core(struct node *n, struct calendar *calendar, int64_t agent, int64_t now) {
    if (agent >= n->first_core_agent) {
        core_step(n, calendar, agent - n->first_core_agent, now);
        return false;
    }
    if (is_other(n, agent)) {
        return true;  // a source
    }
    struct task *row = &n->task_rows[agent];
    if (row->first_core == row->last_core) {
        return true;
    }
    if (row->state != ON_CORE) {
        schedule(calendar, agent, INFINITY_PS);
        if (row->state >= WAITS_FOR_CORE || !admit(n, calendar, agent, now)) {
            row->due = 1;
            return false;
        }
    }
    if (now < row->goes_on_ps) {
        // It spins, and was woken while it takes its core over from another thread.
        schedule(calendar, agent, row->goes_on_ps);
        row->due = 1;
        return false;
    }
    row->due = 0;
    n->threads[agent].waits = COMPUTES;
    n->threads[agent].asleep = 0;
    return true;
}

// A thread that blocks gives its core to one that waits there, or else where it may be.
RARELY void after_step(struct node *n, struct calendar *calendar, int64_t agent, int64_t now) {
    if (is_other(n, agent) || n->threads[agent].waits != SLEEPS) {
        return;
    }
    struct task *row = &n->task_rows[agent];
    if (row->first_core == row->last_core) {
        return;
    }
    int64_t core = row->home;
    charge(n, row, now);
    struct at_core all = at_core(n, core, -1, now);
    row->delayed = all.number * row->virtual_ps > all.total_ps;
    int64_t lag_ps = floor_div(all.total_ps, all.number) - row->virtual_ps;
    row->lag_ps = min64(lag_ps, max64(2 * n->slice_ps, n->tick_ps));
    row->state = HAS_NO_WORK;
    vacate(n, calendar, core);
    give_back(n, agent, core);
    fill(n, calendar, core, now);
}

// The run ends: charge whoever has a core.
INLINE void finish_cores(struct node *n) {
    for (int64_t task = 0; task < n->tasks_of_cores; task++) {
        struct task *row = &n->task_rows[task];
        if (row->state == ON_CORE) {
            charge(n, row, n->end_ps);
        }
    }
}

#endif
