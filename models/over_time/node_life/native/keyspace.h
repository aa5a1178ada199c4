// A sample of a node's keys: which of them are there, and how they go: expired, evicted, deleted.
//
// `keyspace.py` reads this file: Python allocates what is declared here and fills it by these names.
// Every key of the sample stands for `scale` keys of the node. Times are in seconds of the run.

#ifndef FORECACHE_KEYSPACE_H
#define FORECACHE_KEYSPACE_H

#include "sim/native/base.h"

enum {
    POOL_SIZE = 16,  // EVPOOL_SIZE of evict.c
    MOST_SAMPLES = 64,
    TIMES = 4096,  // cells of the calendar of times to live
};

// What is evicted. VOLATILE is added where only keys with a time to live are.
enum { KEEP, ANY, LEAST_RECENT, LEAST_FREQUENT, SHORTEST_TTL, LEAST_MODIFIED };

// What becomes of a key's value when it is asked for.
enum { READ, WRITE, DELETE, ACTIONS };

struct key {
    int32_t place;  // among the keys that are there, or -1
    int32_t expiring;  // its place among those with a time to live, or -1
    int32_t group;  // of keys that are equally popular
    int32_t counter;  // of how often it is used (LFU)
    double touched_s;  // as the engine's clock of 24 bits says
    double expires_s;  // only with a time to live
    double bytes;  // of memory
    double ttl_s;  // that a write gives it; 0 for none
};

// Keys that are equally popular, of the sample.
struct group {
    int64_t first;  // of its keys in `members`
    int64_t keys;
    int64_t asked[ACTIONS];
    int64_t missed;  // reads that found nothing
    int64_t filled;  // keys that were stored because of that
};

// A candidate for eviction; the pool is sorted by score, the best one last.
struct candidate {
    int64_t key;  // -1 for none
    double score;
};

// What has happened to keys of the sample from the start.
struct counts {
    int64_t created;  // writes that found no key
    int64_t overwritten;  // and those that found one
    int64_t deleted;  // by clients
    int64_t evicted;
    int64_t expired;  // found by the cycles
    int64_t expired_asked;  // found because somebody asked for them
    int64_t refused;  // writes for which there was no room
    double looked_at;  // keys that expiry cycles looked at, of the node
    double cycles_s;  // time of the main thread in them
    double longest_cycle_s;  // since it was last set to 0
};

struct keyspace {
    int64_t seed;
    int64_t draws;  // made so far
    double now_s;
    double scale;  // keys of the node that a key of the sample stands for

    int64_t keys;  // of the sample
    struct key *key;
    int64_t groups;
    struct group *group;
    int32_t *members;  // keys, group by group
    double *likely;  // of the alias method, by group
    int32_t *alias;
    double requests_per_s;  // to keys of the sample
    double left;  // part of a request
    double action_up_to[ACTIONS];  // shares of requests, added up
    int64_t fills;  // whether a client that misses stores the key
    double ttl_least;  // a time to live is drawn evenly from this share of it to all of it

    int64_t there;  // keys
    int32_t *order;  // those that are there
    int64_t expiring;  // those with a time to live
    int32_t *expiring_order;
    double bytes;  // of the keys that are there
    double limit_bytes;  // that they may take
    int64_t policy;
    int64_t is_volatile;
    int64_t samples;  // maxmemory-samples
    int64_t has_pool;
    double clock_s;  // resolution of what is recorded of a key's last use
    double log_factor;  // lfu-log-factor
    double decay_s;  // lfu-decay-time
    struct candidate pool[POOL_SIZE];

    // Expiry.
    double period_s;  // of the slow cycle: 1 / hz
    double cycles;  // that are taken together, with the fast ones between them
    double until_cycle_s;
    int64_t cursor;  // of the scan, in `key`
    double scan_left;  // part of a key
    double sample;  // keys that a cycle looks at before it decides whether to go on
    double accepted;  // share of those that may be stale
    double slow_limit_s;
    double fast_limit_s;
    double fast_cycles_per_s;  // at most
    int64_t scans;  // whether cycles go through keys in turn; they draw them otherwise
    double look_ns;  // time for a key that is looked at
    double expire_ns;  // and for one that goes
    int64_t timed_out;  // whether the last cycle ended for its limit
    double cell_s;  // of the calendar
    int64_t cell;  // of the present time
    int64_t due[TIMES];  // keys whose time ends in each cell
    int64_t stale;  // keys whose time has ended and that are still there

    struct counts counts;
};

#endif
