// Turns of the event loop of a main thread that works with I/O threads: their phases, and the
// accounting of turns that find something and of those that only spin.

#ifndef FORECACHE_TURNS_H
#define FORECACHE_TURNS_H

#include "window.h"

// Phases of the main thread: a turn of the event loop. Each policy has its own from OWN_PHASES on,
// for its steps before it polls.
enum {
    TURN_BEGINS,  // a turn begins
    TURN_SPINNING,  // turns that find nothing, until an I/O thread has finished something
    TURN_LOOK_FOR_EVENTS,
    TURN_DOZING,  // on the way to sleep; what arrives meanwhile is found without a wake-up
    TURN_WAKING,  // asleep, or woken and about to run
    TURN_POLLED,
    TURN_ACCEPT,  // new connections are next
    TURN_ACCEPTED,
    TURN_NEXT_EVENT,
    TURN_SENT_READ,
    TURN_READ_INLINE,
    TURN_LOOPED,  // the fixed part of the turn is over
};
enum { OWN_PHASES = 12 };

// Account for the turn of the event loop that ends now; the next one starts.
INLINE void end_turn(struct node *n, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t started = n->turn_started_ps;
    int64_t inside = inside_window(n, started, now) - me->away_ps;
    me->away_ps = 0;
    me->on_cpu_ps += inside;
    if (n->productive) {
        me->busy_ps += inside;
        n->main_active_ps += now - started;
    }
    n->turn_started_ps = now;
    n->productive = 0;
    n->loops++;
}

// Account for the equal turns spun since `since_ps`; returns when the present one began.
INLINE int64_t skip_turns(struct node *n, int64_t period, int64_t now) {
    struct thread *me = &n->threads[0];
    int64_t since = me->since_ps;
    int64_t turns = (now - since) / period;
    int64_t turn_started = since + turns * period;
    if (turns == 0) {
        return turn_started;
    }
    // The first of them may have begun before the thread was without a core for a while.
    me->on_cpu_ps += inside_window(n, n->turn_started_ps, turn_started);
    me->on_cpu_ps -= me->away_ps;
    me->away_ps = 0;
    // Turns that ended inside the measured window.
    int64_t before = max64(0, -floor_div(-(n->warmup_ps - since), period) - 1);
    n->loops += max64(0, turns - before);
    n->turn_started_ps = turn_started;
    return turn_started;
}

#endif
