// What a thread of the load generator works on: the load, its commands, connections and counters.
//
// `loadgen.py` reads this file: it allocates what is declared here, fills it and reads counters
// by these names. Every field has eight bytes.

#ifndef FORECACHE_LOADGEN_H
#define FORECACHE_LOADGEN_H

#include "sim/native/base.h"
#include "sim/native/histogram.h"

enum {
    // One recv may return this much: large enough that a pipeline of small replies is one call.
    RECEIVE_BYTES = 65536,
};

// How a thread is doing.
enum {
    RUNNING,
    FINISHED,
    CLOSED,  // the engine closed a connection
    PROTOCOL,  // it sent what is no reply, or one too many
    TIMED_OUT,
    SYSTEM,  // epoll refused a call
};

// What the engine speaks: Redis's protocol, or Memcached's in text.
enum { RESP, MEMCACHED };

// The control word, written by others: connections send and are measured, or finish.
enum { WARM_UP, MEASURE, STOP };

// An encoded command, with zeros for the digits of its key.
struct command {
    int64_t offset;  // in the text
    int64_t length;
    int64_t digits;  // where they begin
    int64_t share;  // of 2**32: how many SETs have this value size or one of a row before
};

// How far the replies of a connection are scanned.
struct scan {
    int64_t state;
    int64_t type;  // the reply's first byte
    int64_t number;  // bytes of a bulk string, or what is left of them
    int64_t negative;
    int64_t head;  // Memcached: the first bytes of the line, the first one lowest
    int64_t length;  // of the line so far
    int64_t word;  // of the line, counted from 0
    int64_t values;  // that the reply has had so far
};

// Pass over bytes of a value, of which `scan->number` are to come; returns how many there were.
INLINE int64_t skip_value(struct scan *scan, int64_t left) {
    int64_t step = min64(left, scan->number);
    scan->number -= step;
    return step;
}

struct connection {
    int64_t socket;
    int64_t first;  // of the present batch, the number of its first request
    int64_t count;  // its requests
    int64_t outstanding;  // its replies still to come
    int64_t start_ns;  // from when on its latency counts
    int64_t sent;  // bytes of it that the socket took
    int64_t wants_out;  // 1: epoll is to say when the socket takes more
    int64_t due_ns;  // when it may send again, if it waits
    struct connection *next_waiting;
    struct scan scan;
};

// Written by the thread, read by others at any time.
struct counters {
    int64_t requests;  // replies received
    int64_t loops;
    int64_t events;
    int64_t recvs;
    int64_t sends;
    int64_t received_bytes;
    int64_t sent_bytes;
    int64_t errors;
    int64_t misses;
    int64_t batches;
    int64_t partial_sends;
    int64_t late_ns;  // open loop: worst delay of a send behind its intended time
    int64_t status;
};

struct load {
    int64_t protocol;
    int64_t clients;
    int64_t pipeline;
    int64_t keys;
    int64_t sequential;  // 1: request number i names key i, which is how a data set is loaded
    int64_t first;  // number of the first request of this thread
    int64_t limit;  // number after the last one
    int64_t seed;
    int64_t stream;  // of the random draws: the number of the thread
    int64_t open_loop;
    int64_t think_ns;
    int64_t hot_keys;  // size of the hot set; 0 when popularity is not a hot set
    int64_t key_digits;
    int64_t first_key;  // number in the name of key 0
    int64_t n_commands;
    int64_t only_command;  // that a run uses, or -1 for a mix
    int64_t deadline_ns;  // on CLOCK_MONOTONIC: whatever happens, return by then
    int64_t stride;  // multiplier that scatters popularity ranks over the keys
    double get_fraction;
    double batches_per_ns;  // open loop
    double zipf_exponent;  // 0 when popularity is not Zipf's
    double hot_share;
    struct command *commands;  // GET first, then a SET for each value size
    uint8_t *text;  // of all commands
    uint8_t *batch;  // room for one; where there is one command only, filled with it
    struct connection *connections;
    struct histogram *histogram;  // of latencies
    int64_t *control;
    struct counters counters;
};

// Run a thread until it is told to stop, its requests are done, or its deadline; returns the
// status, which is in the counters as well.
EXPORTED int64_t drive(struct load *load);

// Encode requests `first` to `first + count - 1`; returns their length in bytes.
EXPORTED int64_t encode_batch(struct load *load, int64_t first, int64_t count);

// Count the replies that end in these bytes; a reply may start or end in other calls. `-` replies
// count as errors, null bulk strings as misses. Returns -1 for anything that is no reply to GET or
// SET.
EXPORTED int64_t scan_replies(const uint8_t *bytes, int64_t size, struct scan *scan,
                              struct counters *counters);

// The same of Memcached's text protocol: ERROR, CLIENT_ERROR, SERVER_ERROR and NOT_STORED count as
// errors, an END without a value before it as a miss.
EXPORTED int64_t scan_text_replies(const uint8_t *bytes, int64_t size, struct scan *scan,
                                   struct counters *counters);

// A rank 0 to keys - 1 with probability proportional to (rank + 1)**-exponent.
EXPORTED int64_t zipf_rank(int64_t keys, double exponent, int64_t seed, int64_t stream,
                           int64_t number);

// Time between two batches of a Poisson stream.
int64_t gap_ns(const struct load *load, int64_t number);

#endif
