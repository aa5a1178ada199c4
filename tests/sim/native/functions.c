// The functions of `sim/native/`, for tests to call one by one.

#include <string.h>

#include "sim/native/calendar.h"
#include "sim/native/histogram.h"
#include "sim/native/random.h"

EXPORTED int64_t call_advance(struct calendar *calendar, int64_t agent, int64_t time_ps) {
    return advance(calendar, agent, time_ps);
}

EXPORTED int64_t call_next_key(struct calendar *calendar) {
    return next_key(calendar);
}

EXPORTED int64_t call_time_of(struct calendar *calendar, int64_t key) {
    return time_of(calendar, key);
}

EXPORTED int64_t call_agent_of(struct calendar *calendar, int64_t key) {
    return agent_of(calendar, key);
}

EXPORTED int64_t call_planned(struct calendar *calendar, int64_t agent) {
    return planned(calendar, agent);
}

EXPORTED int64_t call_event_time(struct calendar *calendar, int64_t agent) {
    return event_time(calendar, agent);
}

EXPORTED int64_t histogram_words(void) {
    return sizeof(struct histogram) / sizeof(int64_t);
}

EXPORTED int64_t call_bucket_of(int64_t value_ps) {
    return bucket_of(value_ps);
}

EXPORTED void call_record_many(struct histogram *histogram, int64_t value_ps, int64_t times) {
    record_many(histogram, value_ps, times);
}

EXPORTED void call_draw4(int64_t seed, int64_t replication, int64_t stream, int64_t purpose,
                         int64_t index, uint32_t words[4]) {
    struct draw draw = draw4(seed, replication, stream, purpose, index);
    memcpy(words, draw.word, sizeof draw.word);
}

EXPORTED void call_draw4_each(int64_t seed, int64_t replication, int64_t stream, int64_t purpose,
                              int64_t index, uint32_t words[4 * DRAWN_AT_ONCE]) {
    struct draws draws = draw4_each(seed, replication, stream, purpose, index);
    memcpy(words, draws.word, sizeof draws.word);
}

EXPORTED double call_uniform(int64_t seed, int64_t replication, int64_t stream, int64_t purpose,
                             int64_t index) {
    return uniform(seed, replication, stream, purpose, index);
}

EXPORTED double call_to_unit(uint32_t word) {
    return to_unit(word);
}

EXPORTED int64_t call_exponential_ps(double unit, double mean_ps) {
    return exponential_ps(unit, mean_ps);
}
