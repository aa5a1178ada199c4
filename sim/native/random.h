// Random numbers that are addressed, never ordered: Philox4x32-10.
//
// Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC'11. The counter is (index low word, index high word, stream, purpose), the key
// (seed, replication). Two executions that visit events in different ways see the same numbers.

#ifndef FORECACHE_RANDOM_H
#define FORECACHE_RANDOM_H

#include <math.h>

#include "base.h"

struct draw {
    uint32_t word[4];
};

// Four independent 32-bit words of one address.
INLINE struct draw draw4(int64_t seed, int64_t replication, int64_t stream, int64_t purpose,
                         int64_t index) {
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)((uint64_t)index >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)purpose;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)replication;
    for (int round = 0; round < 10; round++) {
        uint64_t product_0 = UINT64_C(0xD2511F53) * c0;
        uint64_t product_1 = UINT64_C(0xCD9E8D57) * c2;
        c0 = (uint32_t)(product_1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)product_1;
        c2 = (uint32_t)(product_0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)product_0;
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
    return (struct draw){{c0, c1, c2, c3}};
}

// So many draws are made together where their addresses follow each other.
enum { DRAWN_AT_ONCE = 4 };

struct draws {
    uint32_t word[4][DRAWN_AT_ONCE];
};

// What `draw4` returns for this index and the three after it; the index is a multiple of four.
//
// The four are independent of each other, which lets a compiler use vectors.
INLINE struct draws draw4_each(int64_t seed, int64_t replication, int64_t stream, int64_t purpose,
                               int64_t index) {
    struct draws drawn;
    uint32_t *c0 = drawn.word[0], *c1 = drawn.word[1], *c2 = drawn.word[2], *c3 = drawn.word[3];
    for (int i = 0; i < DRAWN_AT_ONCE; i++) {
        c0[i] = (uint32_t)index + (uint32_t)i;
        c1[i] = (uint32_t)((uint64_t)index >> 32);
        c2[i] = (uint32_t)stream;
        c3[i] = (uint32_t)purpose;
    }
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)replication;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < DRAWN_AT_ONCE; i++) {
            uint64_t product_0 = UINT64_C(0xD2511F53) * c0[i];
            uint64_t product_1 = UINT64_C(0xCD9E8D57) * c2[i];
            c0[i] = (uint32_t)(product_1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)product_1;
            c2[i] = (uint32_t)(product_0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)product_0;
        }
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
    return drawn;
}

// A number in (0, 1) from one word.
INLINE double to_unit(uint32_t word) {
    return ((double)word + 0.5) * 0x1p-32;
}

// A number in (0, 1) from two words, with a full significand: 52 random bits and a half step, as
// one more bit would round the largest value to 1.
INLINE double to_unit_wide(uint32_t high, uint32_t low) {
    uint64_t steps = ((uint64_t)high << 20) | (low >> 12);
    return ((double)steps + 0.5) * 0x1p-52;
}

// A number in (0, 1) with a full significand; the address is that of `draw4`.
INLINE double uniform(int64_t seed, int64_t replication, int64_t stream, int64_t purpose,
                      int64_t index) {
    struct draw drawn = draw4(seed, replication, stream, purpose, index);
    return to_unit_wide(drawn.word[0], drawn.word[1]);
}

// An exponentially distributed time in whole ps, by inversion.
INLINE int64_t exponential_ps(double unit, double mean_ps) {
    return (int64_t)(0.5 - mean_ps * log(unit));
}

#endif
