// What a thread that shares cores does when it loses its core, and how it goes on with one.
//
// What it computes is left to be done; a main thread that spins in equal turns goes on within one.

#ifndef FORECACHE_HALTS_H
#define FORECACHE_HALTS_H

#include "turns.h"

// Whether a number is none of the node's own threads.
INLINE int64_t is_other(struct node *n, int64_t task) {
    return task >= n->io_threads + n->generators;
}

// Whether a thread could go on but others have its cores, or its quota is used up.
INLINE int64_t waits_for_core(struct node *n, int64_t task) {
    return n->crowded && n->task_rows[task].state >= WAITS_FOR_CORE;
}

// Until when a task that has a core, or lost it at the latest, has gone on.
INLINE int64_t progress_until(struct node *n, int64_t task, int64_t now) {
    struct task *row = &n->task_rows[task];
    if (row->state >= WAITS_FOR_CORE) {
        now = row->on_since_ps;
    }
    return max64(now, row->goes_on_ps);
}

// A thread loses its core.
INLINE void freeze(struct node *n, struct calendar *calendar, int64_t task, int64_t now) {
    if (is_other(n, task)) {
        return;
    }
    struct thread *thread = &n->threads[task];
    struct task *row = &n->task_rows[task];
    int64_t waits = thread->waits;
    now = progress_until(n, task, now);
    if (waits == COMPUTES) {
        row->left_ps = event_time(calendar, task) - now;
        schedule(calendar, task, INFINITY_PS);
    } else if (waits == SPINS_IN_TURNS) {
        row->left_ps = now - skip_turns(n, thread->turn_ps, now);
        schedule(calendar, task, INFINITY_PS);
    }
}

// A thread spins on in its turns from a time on; returns its next event.
INLINE int64_t thaw_turns(struct node *n, struct thread *thread, int64_t left_ps, int64_t at_ps) {
    int64_t period = thread->turn_ps;
    int64_t since = at_ps - left_ps;
    int64_t until = thread->turns_until_ps;
    thread->since_ps = since;
    if (until == INFINITY_PS) {
        return until;
    }
    if (since + period >= until) {
        thread->phase = TURN_LOOPED;
        thread->waits = COMPUTES;
        return since + period;
    }
    return since + (until - since - 1) / period * period;
}

// A thread has a core and goes on at a time.
INLINE void thaw(struct node *n, struct calendar *calendar, int64_t task, int64_t at_ps) {
    if (is_other(n, task)) {
        return;
    }
    struct thread *thread = &n->threads[task];
    struct task *row = &n->task_rows[task];
    int64_t waits = thread->waits;
    int64_t following = at_ps;
    if (waits == COMPUTES) {
        following = at_ps + row->left_ps;
    } else if (waits == SPINS_IN_TURNS) {
        following = thaw_turns(n, thread, row->left_ps, at_ps);
    } else if (waits == SPINS && !row->due && !thread->asleep) {
        following = max64(at_ps, event_time(calendar, task));
    }
    schedule(calendar, task, following);
}

// The main thread begins to spin in equal turns, of which none ends at `until_ps` or later.
INLINE void spin_in_turns(struct node *n, int64_t period, int64_t until_ps) {
    struct thread *me = &n->threads[0];
    me->waits = SPINS_IN_TURNS;
    me->turn_ps = period;
    me->turns_until_ps = until_ps;
}

// How far the main thread, spinning in equal turns, is in the present one.
INLINE int64_t spun_into_turn(struct node *n, int64_t period, int64_t now) {
    if (unlikely(waits_for_core(n, 0))) {
        return n->task_rows[0].left_ps;
    }
    if (unlikely(n->crowded)) {
        now = progress_until(n, 0, now);
    }
    return now - skip_turns(n, period, now);
}

// The main thread, spinning in turns, finds something after so much more of its time.
INLINE void stop_spinning(struct node *n, struct calendar *calendar, int64_t after_ps,
                          int64_t now) {
    n->threads[0].waits = COMPUTES;
    if (unlikely(waits_for_core(n, 0))) {
        n->task_rows[0].left_ps = after_ps;
    } else {
        if (unlikely(n->crowded)) {
            now = progress_until(n, 0, now);
        }
        schedule(calendar, 0, now + after_ps);
    }
}

// The run ends while the main thread spins in equal turns.
INLINE void finish_turns(struct node *n, int64_t period) {
    int64_t last_ps = n->end_ps - 1;
    // What it did before it lost its core is accounted for.
    if (!waits_for_core(n, 0) && n->task_rows[0].goes_on_ps <= last_ps) {
        skip_turns(n, period, last_ps);
    }
}

#endif
