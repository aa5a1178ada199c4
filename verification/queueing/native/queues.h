// Queues with known answers on the event calendar. Python fills a structure, has it run, and reads
// what came of it.

#ifndef VERIFICATION_QUEUES_H
#define VERIFICATION_QUEUES_H

#include <stdint.h>

// Kinds of service time. The last is a mixture of two exponentials with balanced means.
enum { EXPONENTIAL, DETERMINISTIC, HYPEREXPONENTIAL };

// Purposes of random draws.
enum { PURPOSE_CUSTOMER = 1, PURPOSE_MACHINE = 2 };

// Agent number of the source of customers; the servers come after it.
enum { ARRIVALS = 0 };

// Customers that can wait. At 98% load a longer line has a probability of e**-1300.
enum { LINE_CAPACITY = 1 << 16 };

struct customer {
    int64_t arrival_ps;
    int64_t need_ps;
};

// M/M/c, M/D/c and M/G/c: one line, first come first served.
struct open_queue {
    int64_t seed;
    int64_t replication;
    int64_t customers;
    int64_t servers;
    double interarrival_ps;
    double mean_service_ps;
    int64_t kind;
    double squared_variation;
    int64_t kept;  // customers whose times are kept
    int64_t *completions_ps;
    int64_t *sojourns_ps;
    struct customer *line;  // LINE_CAPACITY
    struct customer *in_service;  // by agent, so there is one too many

    // What came of it.
    int64_t sum_ps;
    int64_t area_ps;
    int64_t last_ps;
    int64_t line_was_full;  // nothing else is known then
};

// The machine repairman, M/M/c//N. Machine i is agent i, the repairmen come after.
struct machine_repair {
    int64_t seed;
    int64_t replication;
    int64_t repairs;
    int64_t machines;
    int64_t repairmen;
    double mean_life_ps;
    double mean_repair_ps;
    int64_t kept;  // repairs whose end is kept
    int64_t *completions_ps;
    int64_t *line;  // of machines, as many as there are
    int64_t *machine_of;  // by agent; -1: none
    int64_t *life;  // by machine, how many lives it has had

    // What came of it.
    int64_t area_ps;
    int64_t last_ps;
};

#endif
