// What all compiled code of this project uses: 64-bit integers, and hints to the compiler.

#ifndef FORECACHE_BASE_H
#define FORECACHE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Functions of one step become part of the loop that calls them.
#define INLINE static inline __attribute__((always_inline))
// Rare ones do not, so that they keep out of the way of the rest.
#define RARELY static __attribute__((noinline, cold))

// Those that are called once in a while stay functions, of which there is one.
#define SOMETIMES static __attribute__((noinline))

// What Python calls; all else stays inside a library.
#define EXPORTED __attribute__((visibility("default")))

#define unlikely(condition) __builtin_expect(!!(condition), 0)

INLINE int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

INLINE int64_t max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// Quotient rounded down; the divisor is above 0.
INLINE int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

#endif
