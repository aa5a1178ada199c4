// Replies of Memcached's text protocol to get and set in what a connection receives, however they
// are cut (doc/protocol.txt of Memcached 1.6).

#include <string.h>

#include "loadgen.h"

enum { IN_LINE, IN_VALUE };

enum {
    HEAD_BYTES = 8,
    // No line is longer: keys end at 250 bytes, errors at some hundred.
    MOST_LINE_BYTES = 2048,
    // `VALUE <key> <flags> <bytes>`
    LENGTH_WORD = 3,
};

// No value is longer, and ten times as much fits in 64 bits.
#define MOST_VALUE_BYTES (INT64_C(1) << 56)

// What begins a line.
static const char FIRST_BYTES[] = "VESNC";

// The first bytes of a text, as `scan.head` has those of a line.
static int64_t head_of(const char *text) {
    uint64_t head = 0;
    for (int place = 0; place < HEAD_BYTES && text[place] != '\0'; place++) {
        head |= (uint64_t)(uint8_t)text[place] << (8 * place);
    }
    return (int64_t)head;
}

// Whether the line is this text.
static bool is_line(const struct scan *scan, const char *text) {
    return scan->head == head_of(text) && scan->length == (int64_t)strlen(text);
}

// Whether the line begins with this text of HEAD_BYTES or less.
static bool begins(const struct scan *scan, const char *text) {
    int64_t length = (int64_t)strlen(text);
    uint64_t mask = length < HEAD_BYTES ? (UINT64_C(1) << (8 * length)) - 1 : UINT64_MAX;
    return scan->length >= length && ((uint64_t)scan->head & mask) == (uint64_t)head_of(text);
}

static bool is_error(const struct scan *scan) {
    return is_line(scan, "ERROR") || begins(scan, "CLIENT_E") || begins(scan, "SERVER_E") ||
           is_line(scan, "NOT_STORED");
}

// A byte of a line; false if it can be none.
static bool scan_byte(struct scan *scan, uint8_t byte) {
    if (scan->length == 0 && memchr(FIRST_BYTES, byte, sizeof FIRST_BYTES - 1) == NULL) {
        return false;
    }
    if (scan->length < HEAD_BYTES) {
        scan->head = (int64_t)((uint64_t)scan->head | (uint64_t)byte << (8 * scan->length));
    }
    scan->length++;
    if (byte == ' ') {
        scan->word++;
        scan->number = -1;
    } else if (scan->word == LENGTH_WORD && begins(scan, "VALUE ")) {
        if (byte < '0' || byte > '9') {
            return false;
        }
        scan->number = max64(scan->number, 0) * 10 + (byte - '0');
    }
    return scan->length <= MOST_LINE_BYTES && scan->number <= MOST_VALUE_BYTES;
}

// The end of a line: 1 if a reply ends with it, 0 if not, -1 if it is no line of a reply.
static int64_t end_line(struct scan *scan, struct counters *counters) {
    struct scan line = *scan;
    *scan = (struct scan){.state = IN_LINE, .values = line.values};
    if (begins(&line, "VALUE ")) {
        if (line.word != LENGTH_WORD || line.number < 0) {
            return -1;
        }
        scan->state = IN_VALUE;
        scan->number = line.number + 2;  // the line end behind it
        scan->values++;
        return 0;
    }
    scan->values = 0;
    if (is_line(&line, "END")) {
        counters->misses += line.values == 0;
        return 1;
    }
    if (is_error(&line)) {
        counters->errors++;
        return 1;
    }
    return is_line(&line, "STORED") && line.values == 0 ? 1 : -1;
}

int64_t scan_text_replies(const uint8_t *bytes, int64_t size, struct scan *kept,
                          struct counters *counters) {
    struct scan scan = *kept;
    int64_t done = 0;
    int64_t at = 0;
    while (at < size) {
        if (scan.state == IN_VALUE) {
            at += skip_value(&scan, size - at);
            if (scan.number == 0) {
                scan.state = IN_LINE;
            }
            continue;
        }
        uint8_t byte = bytes[at++];
        if (byte == '\n') {
            int64_t ended = end_line(&scan, counters);
            if (ended < 0) {
                return -1;
            }
            done += ended;
        } else if (byte != '\r' && !scan_byte(&scan, byte)) {
            return -1;
        }
    }
    *kept = scan;
    return done;
}
