// What the load generator puts on the wire, and when: batches of GET and SET with the key's digits
// patched into encoded commands.
//
// Draws are addressed by the number of the request, so a batch that the socket took only in part is
// simply encoded again when the rest can be sent: nothing is buffered per connection, and the
// generator leaves the caches to the server.

#include <math.h>
#include <string.h>

#include "loadgen.h"
#include "sim/native/random.h"

enum { KEY_DRAWS, SIZE_DRAWS, GAP_DRAWS, RANK_DRAWS };

enum { MOST_ATTEMPTS = 256 };  // of a rank

// Integral of t**-exponent from 1 to x.
static double zipf_integral(double x, double exponent) {
    double log_x = log(x);
    double power = (1.0 - exponent) * log_x;
    if (fabs(power) < 1e-8) {
        return log_x * (1.0 + 0.5 * power);
    }
    return expm1(power) / (1.0 - exponent);
}

// The x whose integral is `area`.
static double zipf_inverse(double area, double exponent) {
    double power = area * (1.0 - exponent);
    if (fabs(power) < 1e-8) {
        return exp(area * (1.0 - 0.5 * power));
    }
    return exp(log1p(fmax(power, -1.0 + 1e-15)) / (1.0 - exponent));
}

// The whole number next to x that is a rank, counted from 1.
static int64_t nearest_rank(double x, int64_t keys) {
    double rank = x + 0.5;
    return rank < (double)keys ? max64((int64_t)rank, 1) : keys;
}

// Rejection-inversion (W. Hoermann, G. Derflinger, "Rejection-inversion to generate variates from
// monotone discrete distributions", ACM TOMACS 6(3), 1996): exact, no table, so it takes no cache
// from the server. Attempt n of a draw has the address number * 2**8 + n.
int64_t zipf_rank(int64_t keys, double exponent, int64_t seed, int64_t stream, int64_t number) {
    double low = zipf_integral(1.5, exponent) - 1.0;
    double high = zipf_integral((double)keys + 0.5, exponent);
    for (int64_t attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
        int64_t address = number * MOST_ATTEMPTS + attempt;
        double area = high + uniform(seed, 0, stream, RANK_DRAWS, address) * (low - high);
        int64_t rank = nearest_rank(zipf_inverse(area, exponent), keys);
        double share = exp(-exponent * log((double)rank));
        if (area >= zipf_integral((double)rank + 0.5, exponent) - share) {
            return rank - 1;
        }
    }
    return 0;
}

// A whole number below `limit`, which is at most 2**32.
static int64_t below(int64_t limit, uint32_t word) {
    return (int64_t)(((uint64_t)word * (uint64_t)limit) >> 32);
}

// The key of a popularity rank. Neighbours in rank must not be neighbours in memory: keys are
// loaded in order. Both factors are below 2**32.
static int64_t scattered(const struct load *load, int64_t rank) {
    return (int64_t)((uint64_t)rank * (uint64_t)load->stride % (uint64_t)load->keys);
}

static int64_t pick_key(const struct load *load, int64_t number, struct draw draw) {
    if (load->sequential) {
        return number % load->keys;
    }
    if (load->zipf_exponent > 0.0) {
        return scattered(
            load, zipf_rank(load->keys, load->zipf_exponent, load->seed, load->stream, number));
    }
    int64_t hot = load->hot_keys;
    if (hot > 0) {
        bool is_hot = to_unit(draw.word[1]) < load->hot_share;
        return scattered(
            load, is_hot ? below(hot, draw.word[0]) : hot + below(load->keys - hot, draw.word[0]));
    }
    return below(load->keys, draw.word[0]);
}

// The GET, or the SET with the size that belongs to this key.
static const struct command *pick_command(const struct load *load, int64_t key, uint32_t word) {
    if (load->only_command >= 0) {
        return &load->commands[load->only_command];
    }
    if (to_unit(word) < load->get_fraction) {
        return &load->commands[0];
    }
    // The size is a function of the key, so overwriting keeps the data set as it was loaded.
    int64_t size_word = draw4(load->seed, 0, 0, SIZE_DRAWS, key).word[0];
    int64_t row = 1;
    while (row < load->n_commands - 1 && size_word >= load->commands[row].share) {
        row++;
    }
    return &load->commands[row];
}

static void write_number(uint8_t *digits, int64_t count, uint64_t number) {
    for (int64_t place = count - 1; place >= 0; place--) {
        digits[place] = (uint8_t)('0' + number % 10);
        number /= 10;
    }
}

int64_t encode_batch(struct load *load, int64_t first, int64_t count) {
    uint8_t *at = load->batch;
    for (int64_t number = first; number < first + count; number++) {
        struct draw draw = draw4(load->seed, 0, load->stream, KEY_DRAWS, number);
        int64_t key = pick_key(load, number, draw);
        const struct command *command = pick_command(load, key, draw.word[2]);
        if (load->only_command < 0) {
            memcpy(at, load->text + command->offset, (size_t)command->length);
        }
        write_number(at + command->digits, load->key_digits, (uint64_t)(key + load->first_key));
        at += command->length;
    }
    return at - load->batch;
}

int64_t gap_ns(const struct load *load, int64_t number) {
    double unit = uniform(load->seed, 0, load->stream, GAP_DRAWS, number);
    return (int64_t)(0.5 - log(unit) / load->batches_per_ns);
}
