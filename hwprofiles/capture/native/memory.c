// Pointer chases and sequential reads.

#define _GNU_SOURCE
#include "clock.h"

enum { WORDS_PER_LINE = 8 };

INLINE void swap(uint64_t *a, uint64_t *b) {
    uint64_t kept = *a;
    *a = *b;
    *b = kept;
}

// Turn the first `lines` cache lines into one random cycle of word indices (Sattolo 1986).
EXPORTED void link_random_cycle(uint64_t *words, int64_t lines, uint64_t seed) {
    for (int64_t line = 0; line < lines; line++) {
        words[line * WORDS_PER_LINE] = (uint64_t)(line * WORDS_PER_LINE);
    }
    uint64_t state = seed | 1;
    for (int64_t line = lines - 1; line > 0; line--) {
        // xorshift64 (Marsaglia 2003): good enough to defeat prefetchers.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint64_t other = state % (uint64_t)line;
        swap(&words[line * WORDS_PER_LINE], &words[other * WORDS_PER_LINE]);
    }
}

// In a register: the cursor's own latency would show against a first-level cache.
static int64_t chase_one_ns(const uint64_t *words, uint64_t *cursor, int64_t steps) {
    uint64_t position = *cursor;
    COMPUTED(position);
    int64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int64_t i = 0; i < steps; i++) {
        position = words[position];
    }
    COMPUTED(position);
    int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID);
    *cursor = position;
    return end - start;
}

// Follow one chain per cursor for `steps` steps; thread CPU ns. Cursors are left where they end.
EXPORTED int64_t chase_ns(const uint64_t *words, uint64_t *cursors, int64_t chains, int64_t steps) {
    if (chains == 1) {
        return chase_one_ns(words, cursors, steps);
    }
    int64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int64_t i = 0; i < steps; i++) {
        for (int64_t chain = 0; chain < chains; chain++) {
            cursors[chain] = words[cursors[chain]];
        }
    }
    return now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

// Words that are loaded and added at once: two on any core, four with AVX2.
typedef uint64_t pair __attribute__((vector_size(16), aligned(8), may_alias));
typedef uint64_t quad __attribute__((vector_size(32), aligned(8), may_alias));

enum { VECTORS_A_STEP = 4 };  // with a sum each, so that the additions don't wait for each other

static uint64_t sum_pairs(const pair *pairs, int64_t steps) {
    pair first = {0}, second = {0}, third = {0}, fourth = {0};
    for (; steps > 0; steps--, pairs += VECTORS_A_STEP) {
        first += pairs[0];
        second += pairs[1];
        third += pairs[2];
        fourth += pairs[3];
    }
    first += second + third + fourth;
    return first[0] + first[1];
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static uint64_t sum_quads(const quad *quads, int64_t steps) {
    quad first = {0}, second = {0}, third = {0}, fourth = {0};
    for (; steps > 0; steps--, quads += VECTORS_A_STEP) {
        first += quads[0];
        second += quads[1];
        third += quads[2];
        fourth += quads[3];
    }
    first += second + third + fourth;
    return first[0] + first[1] + first[2] + first[3];
}
#endif

// The sum of all words, read in order.
static uint64_t sum_of(const uint64_t *words, int64_t count) {
    int64_t steps = count / (4 * VECTORS_A_STEP);
    uint64_t sum;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        sum = sum_quads((const quad *)words, steps);
    } else
#endif
    {
        sum = sum_pairs((const pair *)words, 2 * steps);
    }
    for (int64_t i = steps * 4 * VECTORS_A_STEP; i < count; i++) {
        sum += words[i];
    }
    return sum;
}

// One reading of all words.
struct reading {
    int64_t start_ns;  // on the monotonic clock
    int64_t end_ns;
    uint64_t sum;
};

EXPORTED void read_repeatedly(const uint64_t *words, int64_t count, struct reading *readings,
                              int64_t repetitions) {
    for (int64_t i = 0; i < repetitions; i++) {
        readings[i].start_ns = now_ns(CLOCK_MONOTONIC);
        uint64_t sum = sum_of(words, count);
        COMPUTED(sum);
        readings[i].end_ns = now_ns(CLOCK_MONOTONIC);
        readings[i].sum = sum;
    }
}
