// The queueing block: FIFO queues of cohorts. `cohorts.py` says what they are for.

#ifndef FORECACHE_COHORTS_H
#define FORECACHE_COHORTS_H

#include <math.h>

#include "cluster.h"

#define SHORTEST_WAIT_S 1e-6

// The cohort of a number.
INLINE struct cohort *cohort_of(const struct queue *queue, int64_t number) {
    return &queue->cohorts[number & queue->mask];
}

// The number of the first cohort whose clients wait.
INLINE int64_t first_waiting(const struct queue *queue) {
    return max64(queue->gone, queue->head);
}

// All requests that are there, whether anybody waits for them or not.
INLINE int64_t length_of(const struct queue *queue) {
    return queue->waiting + queue->left;
}

// The cell of the histogram of waits that a wait falls into.
static inline int64_t wait_cell(double wait_s) {
    if (wait_s < SHORTEST_WAIT_S) {
        return 0;
    }
    int64_t cell = 1 + (int64_t)(WAITS_PER_DECADE * log10(wait_s / SHORTEST_WAIT_S));
    return min64(cell, WAIT_CELLS - 1);
}

// Add a number of requests to the end of a queue.
//
// `Queues.make_room` has seen to a free slot. If there were none, the requests would be lost, and
// the check of conservation would tell.
static inline void join(struct queue *queue, int64_t step, int64_t attempt, int64_t count) {
    if (count == 0 || queue->tail - queue->head > queue->mask) {
        return;
    }
    *cohort_of(queue, queue->tail) =
        (struct cohort){.step = step, .attempt = attempt, .count = count, .size = count};
    queue->tail++;
    queue->waiting += count;
}

// Clients that have waited for `timeout_steps` go; adds them to `timed_out` by attempt.
//
// With `drop` the server leaves their requests out, as if it knew.
static inline void expire(struct queue *queue, int64_t step, int64_t timeout_steps, bool drop,
                          int64_t *timed_out) {
    int64_t number = first_waiting(queue);
    for (; number < queue->tail; number++) {
        struct cohort *cohort = cohort_of(queue, number);
        if (cohort->step + timeout_steps > step) {
            break;
        }
        timed_out[cohort->attempt] += cohort->count;
        queue->waiting -= cohort->count;
        if (drop) {
            cohort->count = 0;
        } else {
            queue->left += cohort->count;
        }
    }
    queue->gone = number;
}

// Note the waits of requests that are answered: the next `take` of a cohort, after `served` others
// of the `most` that can be served in this step.
static inline void note_waits(const struct cohort *cohort, int64_t take, int64_t served,
                              int64_t most, int64_t step, double step_s, struct waits *waits) {
    double pace = (double)max64(most, 1);
    if (cohort->step == step && served + cohort->count <= most) {
        // The queue empties in this step: those who come later than that do not wait.
        int64_t free = most - cohort->count;
        double emptied = served >= free ? 1.0 : (double)served / (double)free;
        int64_t late = (int64_t)(emptied * (double)take + 0.5);
        waits->count[wait_cell(0.5 * (double)served / pace * step_s)] += late;
        waits->count[0] += take - late;
        return;
    }
    // Joined and served evenly, so that the middle one's wait is the mean.
    double middle = 0.5 * (double)take;
    int64_t before = cohort->size - cohort->count;
    double joined = (double)cohort->step + ((double)before + middle) / (double)cohort->size;
    double done = (double)step + ((double)served + middle) / pace;
    double steps = done - joined;
    waits->count[wait_cell((steps > 0.0 ? steps : 0.0) * step_s)] += take;
}

// Serve up to `most` requests from the front; returns how many, wasted ones included.
//
// `most` is the capacity of this step, which says how fast they go, too. What is answered is added
// to `answered` by attempt, and to `waits`.
static inline int64_t serve(struct queue *queue, int64_t step, double step_s, int64_t most,
                            int64_t *answered, struct waits *waits) {
    int64_t served = 0;
    while (queue->head < queue->tail) {
        struct cohort *cohort = cohort_of(queue, queue->head);
        int64_t take = min64(cohort->count, most - served);
        if (queue->head < queue->gone) {
            queue->left -= take;
        } else if (take > 0) {
            answered[cohort->attempt] += take;
            queue->waiting -= take;
            note_waits(cohort, take, served, most, step, step_s, waits);
        }
        served += take;
        cohort->count -= take;
        if (cohort->count > 0) {
            break;
        }
        queue->head++;
    }
    return served;
}

// Empty a queue at once; adds those who still waited to `by_attempt`.
static inline void withdraw(struct queue *queue, int64_t *by_attempt) {
    for (int64_t number = first_waiting(queue); number < queue->tail; number++) {
        const struct cohort *cohort = cohort_of(queue, number);
        by_attempt[cohort->attempt] += cohort->count;
    }
    queue->head = queue->gone = queue->tail;
    queue->waiting = queue->left = 0;
}

#endif
