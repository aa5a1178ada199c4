// Interruptions by the host: times at which a thread's core does something else.
//
// Every thread has its own, a Poisson process whose draws are addressed by thread and number.

#ifndef FORECACHE_INTERRUPTIONS_H
#define FORECACHE_INTERRUPTIONS_H

#include "node.h"

enum { INTERRUPTION_DRAWS = 3 };

// Draw when a thread's interruption of this number begins and how long it lasts.
//
// It begins one gap after `since_ps`, when the one before it began.
INLINE void plan_interruption(struct node *n, struct thread *thread, int64_t index,
                              int64_t since_ps) {
    int64_t number = thread - n->threads;
    struct draw drawn = draw4(n->seed, n->replication, number, INTERRUPTION_DRAWS, index);
    uint32_t gap = drawn.word[0];
    uint32_t duration = drawn.word[1];
    thread->interruption = index;
    thread->interrupted_ps =
        since_ps + exponential_ps(to_unit(gap), (double)n->interruption_gap_ps);
    thread->interruption_ps = n->interruptions_ps[(int64_t)duration % QUANTILES];
}

// Before a thread's first step.
INLINE void plan_first_interruption(struct node *n, struct thread *thread) {
    if (n->interruption_gap_ps > 0) {
        plan_interruption(n, thread, 0, 0);
    } else {
        thread->interrupted_ps = INFINITY_PS;
    }
}

// When a step ends that interruptions make longer.
RARELY int64_t lengthened(struct node *n, struct thread *thread, int64_t now, int64_t ends_ps) {
    if (ends_ps == now) {
        return now;
    }
    int64_t begins_ps = thread->interrupted_ps;
    while (begins_ps < ends_ps) {
        int64_t lasts_ps = thread->interruption_ps;
        ends_ps += max64(0, min64(lasts_ps, begins_ps + lasts_ps - now));
        plan_interruption(n, thread, thread->interruption + 1, begins_ps);
        begins_ps = thread->interrupted_ps;
    }
    return ends_ps;
}

// How long a step takes that begins now where more threads may be busy than there are physical
// cores; `further` CPUs are busy that no thread has.
RARELY int64_t beside_siblings(struct node *n, int64_t duration_ps, int64_t further, int64_t now) {
    int64_t busy = n->busy_siblings + further;
    for (int64_t core = 0; core < n->interrupt_cores; core++) {
        busy += n->interrupts_free_ps[core] > now;
    }
    return (duration_ps * n->sibling_scale[min64(busy, n->most_siblings)]) >> JITTER_SHIFT;
}

// When a thread's step that begins now ends, with the interruptions that fall into it.
//
// One that began before, while the thread slept or looked for work, delays it to its end. A step
// of no duration suffers none, so that it makes no difference whether it is a step at all.
INLINE int64_t step_end(struct node *n, struct thread *thread, int64_t now, int64_t duration_ps) {
    if (unlikely(thread - n->threads < n->sibling_threads)) {
        int64_t alone_ps = duration_ps;
        duration_ps = beside_siblings(n, alone_ps, 0, now);
        if (thread - n->threads < n->io_threads) {
            n->sibling_ps += duration_ps - alone_ps;
        }
    }
    int64_t ends_ps = now + duration_ps;
    if (unlikely(thread->interrupted_ps < ends_ps)) {
        return lengthened(n, thread, now, ends_ps);
    }
    return ends_ps;
}

#endif
