// Replies to GET and SET in what a connection receives, however they are cut.

#include "loadgen.h"

enum { AT_TYPE, IN_LINE, IN_BULK };

// No bulk string is longer, and ten times as much fits in 64 bits.
#define MOST_BULK_BYTES (INT64_C(1) << 56)

static bool is_type(uint8_t byte) {
    return byte == '$' || byte == '+' || byte == '-' || byte == ':';
}

// A byte of the length of a bulk string; false if it is none.
static bool scan_length(struct scan *scan, uint8_t byte) {
    if (byte == '-') {
        scan->negative = 1;
    } else if (byte >= '0' && byte <= '9') {
        scan->number = scan->number * 10 + (byte - '0');
    } else if (byte != '\r') {
        return false;
    }
    return scan->number <= MOST_BULK_BYTES;
}

// The end of a line; whether a reply ends with it.
static bool end_line(struct scan *scan, struct counters *counters) {
    if (scan->type == '$' && !scan->negative) {
        scan->state = IN_BULK;
        scan->number += 2;  // the line end behind it
        return false;
    }
    scan->state = AT_TYPE;
    if (scan->type == '$') {
        counters->misses++;
    } else if (scan->type == '-') {
        counters->errors++;
    }
    return true;
}

int64_t scan_replies(const uint8_t *bytes, int64_t size, struct scan *kept,
                     struct counters *counters) {
    struct scan scan = *kept;
    int64_t done = 0;
    int64_t at = 0;
    while (at < size) {
        if (scan.state == IN_BULK) {
            at += skip_value(&scan, size - at);
            if (scan.number == 0) {
                done++;
                scan.state = AT_TYPE;
            }
            continue;
        }
        uint8_t byte = bytes[at++];
        if (scan.state == AT_TYPE) {
            if (!is_type(byte)) {
                return -1;
            }
            scan = (struct scan){.state = IN_LINE, .type = byte};
        } else if (byte == '\n') {
            done += end_line(&scan, counters);
        } else if (scan.type == '$' && !scan_length(&scan, byte)) {
            return -1;
        }
    }
    *kept = scan;
    return done;
}
