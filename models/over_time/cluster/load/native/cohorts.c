// Queues that stand alone: each gets requests and serves them, and nobody tries again.

#include "cohorts.h"

// One step of a number of queues: time-outs, arrivals, service.
//
// `counts` requests arrive and `capacity` can be served, by queue. What happens is added to
// `answered`, `timed_out`, `wasted` and `waits`.
EXPORTED void advance_queues(struct queue *queues, int64_t number_of_queues, int64_t step,
                             double step_s, int64_t timeout_steps, int64_t drops_gone,
                             const int64_t *counts, const int64_t *capacity, int64_t *answered,
                             int64_t *timed_out, int64_t *wasted, struct waits *waits) {
    for (int64_t i = 0; i < number_of_queues; i++) {
        struct queue *queue = &queues[i];
        // Every request is a first attempt.
        expire(queue, step, timeout_steps, drops_gone, &timed_out[i]);
        join(queue, step, 0, counts[i]);
        int64_t left = queue->left;
        serve(queue, step, step_s, capacity[i], &answered[i], &waits[i]);
        wasted[i] += left - queue->left;
    }
}
