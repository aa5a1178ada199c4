// How many I/O threads are active: starting and stopping them, and what they do without work.

#ifndef FORECACHE_ACTIVE_THREADS_H
#define FORECACHE_ACTIVE_THREADS_H

#include "window.h"

// Phases of an I/O thread.
// `IO_SENT`: a reply has left, and whoever it woke may have taken the core over.
enum { IO_LOOKING, IO_WORKING, IO_SENT };

// Account for the time since the number of active threads last changed.
INLINE void account_active(struct node *n, int64_t now) {
    int64_t inside = inside_window(n, n->active_since_ps, now);
    n->active_thread_ps += (n->active_threads - 1) * inside;
    n->active_since_ps = now;
}

// Change how many threads are active.
INLINE void set_active(struct node *n, int64_t active, int64_t now) {
    account_active(n, now);
    n->active_threads = active;
    n->activations++;
}

// Let an idle I/O thread that shares cores look whether it still has to spin or to sleep.
INLINE void look_at(struct node *n, struct calendar *calendar, int64_t thread, int64_t time_ps) {
    if (unlikely(n->crowded) && n->threads[thread].asleep) {
        schedule(calendar, thread, time_ps);
    }
}

// A stopped thread may work again: at once if it still spins, else when it is awake.
INLINE void start_thread(struct node *n, struct calendar *calendar, int64_t thread, int64_t now) {
    struct thread *row = &n->threads[thread];
    if (now - row->stopped_ps > n->spin_ps) {
        // It has stopped spinning and sleeps on its mutex.
        row->available_ps = now + n->thread_wake_ps;
        look_at(n, calendar, thread, row->available_ps);
    }
}

// A thread gets no more work; it spins on for a while before it sleeps on its mutex.
INLINE void stop_thread(struct node *n, struct calendar *calendar, int64_t thread, int64_t now) {
    n->threads[thread].stopped_ps = now;
    look_at(n, calendar, thread, now + n->spin_ps);
}

// An I/O thread without work spins if it is active, a stopped one for a while, then sleeps.
//
// Returns when it looks by itself; only where it shares cores does that make a difference.
INLINE int64_t idle(struct node *n, int64_t thread, int64_t now) {
    struct thread *row = &n->threads[thread];
    row->asleep = 1;
    row->waits = SPINS;
    if (unlikely(n->crowded) && thread >= n->active_threads) {
        int64_t sleeps_ps = row->stopped_ps + n->spin_ps;
        if (now < sleeps_ps) {
            return sleeps_ps;
        }
        row->waits = SLEEPS;
    }
    return INFINITY_PS;
}

#endif
