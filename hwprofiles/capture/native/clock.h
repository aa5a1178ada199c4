// Clocks, and what keeps a compiler from dropping or moving the work between two looks at them.

#ifndef FORECACHE_CLOCK_H
#define FORECACHE_CLOCK_H

#include <time.h>

#include "sim/native/base.h"

// A clock in ns: CLOCK_MONOTONIC, or CLOCK_THREAD_CPUTIME_ID for CPU time of the calling thread.
static inline int64_t now_ns(int64_t clock) {
    struct timespec time;
    clock_gettime((clockid_t)clock, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

// The value has to be in a register here, and the compiler knows nothing more of it.
#define COMPUTED(value) __asm__ volatile("" : "+r"(value) : : "memory")

#endif
