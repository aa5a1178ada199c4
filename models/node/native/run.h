// The loop over all events of a run, which is the same for every policy.
//
// A policy's file says how its server begins (`begin`), what a thread of the server does when its
// step ends (`server_step`), and what is left to account for when the run ends (`finish`), and then
// includes this one with `RUN` as the name of its function.

#include "cores.h"
#include "generator.h"
#include "window.h"

// Simulate until `end_ps`; the results are in the node. Returns the number of events.
__attribute__((visibility("default"))) int64_t RUN(struct node *restrict n,
                                                   struct histogram *restrict histogram,
                                                   struct calendar *restrict calendar) {
    start(n, calendar);
    begin(n, calendar);
    int64_t first_generator = n->io_threads;
    int64_t first_source = first_generator + n->generators;
    int64_t events = 0;
    int64_t key = next_key(calendar);
    while (true) {
        int64_t now = time_of(calendar, key);
        if (unlikely(now >= n->until_ps)) {
            if (n->until_ps == n->end_ps) {
                break;
            }
            begin_window(n);
            continue;
        }
        int64_t agent = agent_of(calendar, key);
        if (unlikely(n->crowded) && !has_core(n, calendar, agent, now)) {
            key = next_key(calendar);
            continue;
        }
        int64_t following;
        if (agent >= first_source) {
            following = source_step(n, calendar, agent, now);
        } else if (agent >= first_generator) {
            following = generator_step(n, histogram, calendar, agent, now);
        } else {
            following = server_step(n, calendar, agent, now);
        }
        key = advance(calendar, agent, following);
        events++;
        if (unlikely(n->crowded)) {
            after_step(n, calendar, agent, now);
            key = next_key(calendar);
        }
    }
    finish_cores(n);
    end_window(n);
    finish(n);
    return events;
}
