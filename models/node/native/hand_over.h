// Threads with event loops of their own that tell each other by eventfd: polling, sleeping, waking.
//
// What a peer's write to the eventfd costs depends on whether the reader really sleeps.

#ifndef FORECACHE_HAND_OVER_H
#define FORECACHE_HAND_OVER_H

#include "cores.h"
#include "sockets.h"

// Phases of a thread around its epoll_wait.
enum {
    DOZING,  // on the way to sleep; what arrives meanwhile is found without blocking
    WAKING,  // asleep, or woken and about to run
    POLLED,
};

// One epoll_wait of a thread on its sockets and eventfds.
//
// In phase `POLLED` there is something, or it must not sleep: returns the duration of the call,
// and `count` says how many sockets it reports. Otherwise returns when the thread looks again.
INLINE int64_t poll_or_sleep(struct node *n, struct thread *thread, int64_t now) {
    int64_t phase = thread->phase;
    int64_t found = poll_sockets(n, thread, now);
    int64_t told = thread->told;
    if (found + told == 0 && !thread->dont_sleep) {
        if (phase != DOZING) {
            thread->phase = DOZING;
            return work(n, thread, now, n->doze_ps);
        }
        thread->phase = WAKING;
        return sleep_in_epoll(n, thread, now);
    }
    int64_t duration = polling(n, found + told);
    if (phase == WAKING) {
        duration += count_block(n, unblocking(n, thread));
    }
    thread->count = found;
    thread->phase = POLLED;
    return duration;
}

// Duration of a write to a peer's eventfd, which wakes it if no other thread has done so.
INLINE int64_t telling(struct node *n, struct calendar *calendar, int64_t peer, int64_t now) {
    n->notifications++;
    struct thread *row = &n->threads[peer];
    if (row->phase == WAKING && nobody_wakes(n, calendar, peer, now + wake_latency(n, row))) {
        return n->notify_ps + (wakes_core(n, row) ? waking_core(n, row, now) : 0);
    }
    return n->notify_ps;
}

// The write is done: a peer that sleeps runs as soon as it can.
INLINE void tell(struct node *n, struct calendar *calendar, int64_t peer, int64_t now) {
    struct thread *row = &n->threads[peer];
    int64_t runs_ps = now + wake_latency(n, row);
    if (row->phase == WAKING && nobody_wakes(n, calendar, peer, runs_ps)) {
        row->asleep = 0;
        wake_up(n, row, now);
        schedule(calendar, peer, runs_ps);
    }
}

#endif
