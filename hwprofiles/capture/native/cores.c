// What the cores do on their own: clock, transfers, the cheapest system call, interruptions.

#define _GNU_SOURCE
#include <unistd.h>

#include "clock.h"

// Thread CPU ns of 16 times `rounds` additions and exclusive-ors that each need the one before.
//
// Alternating the two keeps a compiler from folding them; each takes one cycle on every current
// x86-64 and aarch64 core.
EXPORTED int64_t dependent_operations_ns(int64_t rounds, uint64_t addend, uint64_t mask) {
    uint64_t value = addend;
    int64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int64_t i = 0; i < rounds; i++) {
        value = (value + addend) ^ mask;
        value = (value + addend) ^ mask;
        value = (value + addend) ^ mask;
        value = (value + addend) ^ mask;
        value = (value + addend) ^ mask;
        value = (value + addend) ^ mask;
        value = (value + addend) ^ mask;
        value = (value + addend) ^ mask;
        COMPUTED(value);
    }
    return now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

// Thread CPU ns of `calls` times getppid, which does next to nothing in the kernel.
EXPORTED int64_t system_calls_ns(int64_t calls) {
    int64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int64_t i = 0; i < calls; i++) {
        getppid();
    }
    return now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

// One side of a ping-pong on a word by compare-and-exchange: side 0 turns even values odd, side 1
// odd values even. `elapsed_ns[i]` becomes the time of trial i, or -1 from the trial on in which
// the other side has not answered within `patience` attempts.
EXPORTED void pass_token(int64_t *token, int64_t side, int64_t *elapsed_ns, int64_t trials,
                         int64_t round_trips, int64_t patience) {
    int64_t value = side;
    for (int64_t trial = 0; trial < trials; trial++) {
        int64_t start = now_ns(CLOCK_MONOTONIC);
        for (int64_t i = 0; i < round_trips; i++) {
            int64_t expected = value;
            int64_t spins = 0;
            while (!__atomic_compare_exchange_n(token, &expected, value + 1, false,
                                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
                expected = value;
                if (++spins > patience) {
                    for (int64_t left = trial; left < trials; left++) {
                        elapsed_ns[left] = -1;
                    }
                    return;
                }
            }
            value += 2;
        }
        elapsed_ns[trial] = now_ns(CLOCK_MONOTONIC) - start;
    }
}

// Read the clock back to back for a time and note gaps of at least `shortest_ns`, in the order they
// came; returns how many, at most `most`.
EXPORTED int64_t watch_clock(int64_t duration_ns, int64_t shortest_ns, int64_t *gaps_ns,
                             int64_t most) {
    int64_t found = 0;
    int64_t start = now_ns(CLOCK_MONOTONIC);
    int64_t last = start;
    while (last - start < duration_ns && found < most) {
        int64_t now = now_ns(CLOCK_MONOTONIC);
        if (now - last >= shortest_ns) {
            gaps_ns[found++] = now - last;
        }
        last = now;
    }
    return found;
}
