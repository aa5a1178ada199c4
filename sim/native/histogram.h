// A log-linear histogram of latencies: `sim/histogram.py` says how it is laid out and reads it.

#ifndef FORECACHE_HISTOGRAM_H
#define FORECACHE_HISTOGRAM_H

#include <string.h>

#include "base.h"

enum {
    SUB_BUCKETS = 128,  // an octave
    N_BUCKETS = 63 * SUB_BUCKETS + 1,
    BUCKET_SHIFT = 45,  // what is left of a double are its exponent and seven bits of significand
    BUCKET_OFFSET = 1023 * SUB_BUCKETS - 1,
    CARRY_BITS = 61,
};

struct histogram {
    int64_t counts[N_BUCKETS];
    int64_t sum_low;
    int64_t sum_high;
    int64_t max_ps;
};

// The number of the bucket a value falls into.
INLINE int64_t bucket_of(int64_t value_ps) {
    if (value_ps <= 0) {
        return 0;
    }
    double value = (double)value_ps;
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits >> BUCKET_SHIFT) - BUCKET_OFFSET;
}

// Count one value several times; value times number is below 2**61.
INLINE void record_many(struct histogram *histogram, int64_t value_ps, int64_t times) {
    int64_t value = max64(value_ps, 0);
    histogram->counts[bucket_of(value)] += times;
    int64_t total = histogram->sum_low + value * times;
    if (total >= (int64_t)1 << CARRY_BITS) {
        total -= (int64_t)1 << CARRY_BITS;
        histogram->sum_high++;
    }
    histogram->sum_low = total;
    if (value > histogram->max_ps) {
        histogram->max_ps = value;
    }
}

// Count one value.
INLINE void record(struct histogram *histogram, int64_t value_ps) {
    record_many(histogram, value_ps, 1);
}

#endif
