// What an engine's user code is like: requests are parsed, hashed, looked up and answered; and, for
// what repeats within a long command, elements of a packed list are replied with.
//
// Everything stays in the first two cache levels. It stands for code whose instructions can't be
// counted where there are no hardware counters; `cores.py` says how many these are.

#define _GNU_SOURCE
#include <string.h>

#include "clock.h"

enum {
    KEY_BYTES = 16,
    VALUE_BYTES = 16,
    KEY_AT = 18,
    REQUEST_BYTES = 36,
    REPLY_BYTES = 23,
    BUCKETS = 512,
    ITEMS = 512,
    BATCH = 256,
};

struct item {
    struct item *next;
    uint64_t hash;
    uint8_t key[KEY_BYTES];
    uint8_t value[VALUE_BYTES];
};

struct command {
    const char *name;
    int64_t size;
    int64_t arguments;
};

static const struct command COMMANDS[] = {
    {"del", 3, 2}, {"set", 3, 3}, {"incr", 4, 2}, {"get", 3, 2}, {"ping", 4, 1},
};

INLINE uint64_t rotated(uint64_t x, int bits) {
    return (x << bits) | (x >> (64 - bits));
}

#define SIP_ROUND                                                                                  \
    do {                                                                                           \
        v0 += v1, v1 = rotated(v1, 13), v1 ^= v0, v0 = rotated(v0, 32);                            \
        v2 += v3, v3 = rotated(v3, 16), v3 ^= v2;                                                  \
        v0 += v3, v3 = rotated(v3, 21), v3 ^= v0;                                                  \
        v2 += v1, v1 = rotated(v1, 17), v1 ^= v2, v2 = rotated(v2, 32);                            \
    } while (0)

// SipHash-1-2 of a key of whole words, as engines hash theirs (J.-P. Aumasson, D. J. Bernstein).
static uint64_t hash_of(const uint8_t *key) {
    uint64_t v0 = 0x736f6d6570736575, v1 = 0x646f72616e646f6d;
    uint64_t v2 = 0x6c7967656e657261, v3 = 0x7465646279746573;
    for (int64_t at = 0; at <= KEY_BYTES; at += 8) {
        uint64_t word = (uint64_t)KEY_BYTES << 56;
        if (at < KEY_BYTES) {
            memcpy(&word, key + at, 8);
        }
        v3 ^= word;
        SIP_ROUND;
        v0 ^= word;
    }
    v2 ^= 0xff;
    SIP_ROUND;
    SIP_ROUND;
    return v0 ^ v1 ^ v2 ^ v3;
}

// A number in decimal digits that ends in CR LF, behind its type; returns what follows.
static const uint8_t *number_at(const uint8_t *at, uint8_t type, int64_t *number) {
    if (*at++ != type) {
        return 0;
    }
    int64_t value = 0;
    while (*at != '\r') {
        if (*at < '0' || *at > '9') {
            return 0;
        }
        value = 10 * value + (*at++ - '0');
    }
    *number = value;
    return at + 2;
}

static const struct command *command_at(const uint8_t *name, int64_t size) {
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        const struct command *command = &COMMANDS[i];
        if (command->size != size) {
            continue;
        }
        int64_t same = 0;
        while (same < size && (name[same] | 0x20) == command->name[same]) {
            same++;
        }
        if (same == size) {
            return command;
        }
    }
    return 0;
}

// Decimal digits of a number between CR LF and a type; returns how many bytes were written.
static int64_t write_number(uint8_t *out, uint8_t type, int64_t number) {
    uint8_t digits[20];
    int64_t count = 0;
    do {
        digits[count++] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    int64_t at = 0;
    out[at++] = type;
    while (count > 0) {
        out[at++] = digits[--count];
    }
    out[at++] = '\r';
    out[at++] = '\n';
    return at;
}

// Answer one request; returns what follows it, or 0 if it is none.
SOMETIMES const uint8_t *answer(const uint8_t *at, struct item *const *buckets, uint8_t *out) {
    int64_t arguments, size;
    if (!(at = number_at(at, '*', &arguments)) || !(at = number_at(at, '$', &size))) {
        return 0;
    }
    const struct command *command = command_at(at, size);
    if (!command || command->arguments != arguments) {
        return 0;
    }
    if (!(at = number_at(at + size + 2, '$', &size)) || size != KEY_BYTES) {
        return 0;
    }
    uint64_t hash = hash_of(at);
    const struct item *item = buckets[hash % BUCKETS];
    while (item && (item->hash != hash || memcmp(item->key, at, KEY_BYTES) != 0)) {
        item = item->next;
    }
    if (!item) {
        return 0;
    }
    int64_t written = write_number(out, '$', VALUE_BYTES);
    memcpy(out + written, item->value, VALUE_BYTES);
    memcpy(out + written + VALUE_BYTES, "\r\n", 2);
    return at + size + 2;
}

static void write_key(uint8_t *key, int64_t number) {
    memcpy(key, "key:000000000000", KEY_BYTES);
    for (int64_t at = KEY_BYTES; number > 0; number /= 10) {
        key[--at] = (uint8_t)('0' + number % 10);
    }
}

// Thread CPU ns of answering `batches` times 256 GETs of random keys; -1 if one can't be.
EXPORTED int64_t answer_requests_ns(int64_t batches) {
    struct item items[ITEMS];
    struct item *buckets[BUCKETS] = {0};
    uint8_t requests[BATCH * REQUEST_BYTES], replies[BATCH * REPLY_BYTES];
    for (int64_t number = 0; number < ITEMS; number++) {
        struct item *item = &items[number];
        write_key(item->key, number);
        memset(item->value, 'x', VALUE_BYTES);
        item->hash = hash_of(item->key);
        item->next = buckets[item->hash % BUCKETS];
        buckets[item->hash % BUCKETS] = item;
    }
    uint64_t random = 1;
    int64_t total = 0;
    for (int64_t batch = 0; batch < batches; batch++) {
        for (int64_t i = 0; i < BATCH; i++) {
            uint8_t *request = requests + i * REQUEST_BYTES;
            memcpy(request, "*2\r\n$3\r\nGET\r\n$16\r\n", KEY_AT);
            memcpy(request + KEY_AT + KEY_BYTES, "\r\n", 2);
            random = random * 6364136223846793005u + 1442695040888963407u;
            write_key(request + KEY_AT, (int64_t)(random >> 33) % ITEMS);
        }
        int64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
        const uint8_t *at = requests;
        for (int64_t i = 0; i < BATCH; i++) {
            at = answer(at, buckets, replies + i * REPLY_BYTES);
            if (!at) {
                return -1;
            }
        }
        total += now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        COMPUTED(replies[0]);
    }
    return total;
}

// What repeats within long commands: walking a packed list (as a listpack is one) and replying with
// each element. Branches go the same way each time, so cores retire more instructions a cycle.

enum {
    ELEMENTS = 64,
    ELEMENT_BYTES = 16,
    SHORT_STRING = 0x80,  // 10xxxxxx: up to 63 bytes
    LONG_STRING = 0xe0,   // 1110xxxx and a byte: up to 4,095 bytes
    END_OF_LIST = 0xff,
};

struct reply {
    uint8_t *bytes;
    int64_t used;
    int64_t room;
};

SOMETIMES void append(struct reply *reply, const void *from, int64_t bytes) {
    if (bytes > reply->room - reply->used) {
        reply->used = 0;
        return;
    }
    memcpy(reply->bytes + reply->used, from, (size_t)bytes);
    reply->used += bytes;
}

// Bytes of the string at `at`, and where they begin; 0 if it is a number.
SOMETIMES const uint8_t *string_at(const uint8_t *at, int64_t *bytes, int64_t *number) {
    uint8_t first = at[0];
    if (!(first & 0x80)) {
        *number = first;
        return 0;
    }
    if ((first & 0xc0) == SHORT_STRING) {
        *bytes = first & 0x3f;
        return at + 1;
    }
    *bytes = (int64_t)(first & 0x0f) << 8 | at[1];
    return at + 2;
}

// The element after that at `at`, behind its length, which is repeated for walks backwards; 0 at the
// end.
SOMETIMES const uint8_t *next_element(const uint8_t *at) {
    uint8_t first = at[0];
    int64_t bytes = 1;
    if ((first & 0xc0) == SHORT_STRING) {
        bytes = 1 + (first & 0x3f);
    } else if ((first & 0xf0) == LONG_STRING) {
        bytes = 2 + ((int64_t)(first & 0x0f) << 8 | at[1]);
    }
    at += bytes + (bytes < 128 ? 1 : 2);
    return *at == END_OF_LIST ? 0 : at;
}

// Thread CPU ns of replying `times` with all 64 elements of a packed list.
EXPORTED int64_t reply_elements_ns(int64_t times) {
    uint8_t list[ELEMENTS * (ELEMENT_BYTES + 2) + 1], replies[ELEMENTS * (ELEMENT_BYTES + 8)];
    uint8_t *end = list;
    for (int64_t number = 0; number < ELEMENTS; number++) {
        *end++ = SHORT_STRING | ELEMENT_BYTES;
        write_key(end, number);
        end += ELEMENT_BYTES;
        *end++ = 1 + ELEMENT_BYTES;
    }
    *end = END_OF_LIST;
    int64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int64_t i = 0; i < times; i++) {
        struct reply reply = {replies, 0, sizeof replies};
        const uint8_t *at = list;
        COMPUTED(at);
        while (at) {
            int64_t bytes, number;
            uint8_t head[24];
            const uint8_t *string = string_at(at, &bytes, &number);
            if (string) {
                append(&reply, head, write_number(head, '$', bytes));
                append(&reply, string, bytes);
                append(&reply, "\r\n", 2);
            } else {
                append(&reply, head, write_number(head, ':', number));
            }
            at = next_element(at);
        }
        COMPUTED(replies[0]);
    }
    return now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}
