// The loop over all events of a run, which is the same for every policy.
//
// A policy's file defines three functions and then includes this one, with `RUN` as the name of the
// function that Python calls: `run_` and what the policy's record calls `compiled`.
//
// - `begin` is called once, after `start` of generator.h. That has planned the main thread's first
//   step at time 0; the others sleep until they are woken. On cores that are shared they are
//   planned at time 0 as well, since they may have to wait for a core before they find nothing to
//   do; a thread that never does anything is put to sleep by `begin_asleep`.
// - `server_step` is called when the present step of one of the server's threads, `agent`, ends. It
//   applies what the step did, begins the next one and returns when that ends, or `INFINITY_PS`
//   while the thread waits to be woken.
// - `finish` accounts for what is left when the run ends.

#include "cores.h"
#include "generator.h"
#include "window.h"

// Simulate until `end_ps`; the results are in the node. Returns the number of events; steps taken
// ahead count.
EXPORTED int64_t RUN(struct node *restrict n, struct histogram *restrict histogram,
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
    return events + n->steps_ahead;
}
