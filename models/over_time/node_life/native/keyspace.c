// How keys come and go: requests, eviction as evict.c does it, expiry cycles as expire.c does.

#include <math.h>
#include <string.h>

#include "keyspace.h"
#include "sim/native/random.h"

enum { KEY_DRAWS = 7110 };

#define NO_TIME HUGE_VAL
#define LFU_START 5
#define LFU_MOST 255

static struct draw next(struct keyspace *all) {
    return draw4(all->seed, 0, 0, KEY_DRAWS, all->draws++);
}

static int64_t one_of(int64_t count, uint32_t word) {
    return (int64_t)(((uint64_t)word * (uint64_t)count) >> 32);
}

// --- the calendar of times to live ----------------------------------------------------------------

static int64_t cell_of(const struct keyspace *all, double time_s) {
    return (int64_t)floor(time_s / all->cell_s);
}

// Count a key's time, or one less.
static void count_time(struct keyspace *all, double expires_s, int64_t by) {
    int64_t cell = cell_of(all, expires_s);
    if (cell < all->cell) {
        all->stale += by;
    } else {
        all->due[cell % TIMES] += by;
    }
}

static void pass_time(struct keyspace *all, double now_s) {
    all->now_s = now_s;
    for (int64_t now = cell_of(all, now_s); all->cell < now; all->cell++) {
        int64_t *due = &all->due[all->cell % TIMES];
        all->stale += *due;
        *due = 0;
    }
}

// --- keys that are there --------------------------------------------------------------------------

static void take_out(struct key *keys, int32_t *order, int64_t *count, int32_t place,
                     bool expiring) {
    int32_t last = order[--*count];
    order[place] = last;
    if (expiring) {
        keys[last].expiring = place;
    } else {
        keys[last].place = place;
    }
}

static void no_longer_expires(struct keyspace *all, struct key *key) {
    if (key->expiring >= 0) {
        count_time(all, key->expires_s, -1);
        take_out(all->key, all->expiring_order, &all->expiring, key->expiring, true);
        key->expiring = -1;
    }
}

static void delete(struct keyspace *all, int64_t number) {
    struct key *key = &all->key[number];
    no_longer_expires(all, key);
    take_out(all->key, all->order, &all->there, key->place, false);
    key->place = -1;
    all->bytes -= key->bytes;
}

static double clock_now(const struct keyspace *all) {
    return floor(all->now_s / all->clock_s) * all->clock_s;
}

// LFUDecrAndReturn: one less for every decay time that has passed since the key was last used.
static int32_t decayed(const struct keyspace *all, const struct key *key) {
    if (all->decay_s <= 0.0) {
        return key->counter;
    }
    double minutes = floor(all->now_s / 60.0) - floor(key->touched_s / 60.0);
    return (int32_t)fmax(0.0, key->counter - floor(minutes * 60.0 / all->decay_s));
}

// updateLFU, or the clock of the last use.
static void touch(struct keyspace *all, struct key *key, uint32_t word, bool written) {
    if (all->policy == LEAST_FREQUENT) {
        key->counter = decayed(all, key);
        double over = fmax(0.0, key->counter - LFU_START);
        if (key->counter < LFU_MOST && to_unit(word) < 1.0 / (over * all->log_factor + 1.0)) {
            key->counter++;
        }
        key->touched_s = all->now_s;
    } else if (written || all->policy != LEAST_MODIFIED) {
        key->touched_s = clock_now(all);
    }
}

static void store(struct keyspace *all, int64_t number, uint32_t word) {
    struct key *key = &all->key[number];
    no_longer_expires(all, key);
    if (key->place < 0) {
        key->place = (int32_t)all->there;
        all->order[all->there++] = (int32_t)number;
        all->bytes += key->bytes;
        key->counter = LFU_START;
        key->touched_s = all->policy == LEAST_FREQUENT ? all->now_s : clock_now(all);
        all->counts.created++;
    } else {
        touch(all, key, word, true);
        all->counts.overwritten++;
    }
    if (key->ttl_s > 0.0) {
        double unit = to_unit(next(all).word[0]);
        double share = all->ttl_least + unit * (1.0 - all->ttl_least);
        key->expires_s = all->now_s + share * key->ttl_s;
        key->expiring = (int32_t)all->expiring;
        all->expiring_order[all->expiring++] = (int32_t)number;
        count_time(all, key->expires_s, 1);
    }
}

// --- eviction -------------------------------------------------------------------------------------

// The higher, the sooner a key goes.
static double score(const struct keyspace *all, const struct key *key) {
    switch (all->policy) {
        case LEAST_FREQUENT:
            return LFU_MOST - decayed(all, key);
        case SHORTEST_TTL:
            return -key->expires_s;
        default:
            return clock_now(all) - key->touched_s;
    }
}

// evictionPoolPopulate: where a candidate belongs among those of the pool.
static void offer(struct keyspace *all, int64_t number, double its_score) {
    struct candidate *pool = all->pool;
    int k = 0;
    while (k < POOL_SIZE && pool[k].key >= 0 && pool[k].score < its_score) {
        k++;
    }
    bool full = pool[POOL_SIZE - 1].key >= 0;
    if (k == 0 && full) {
        return;
    }
    if (k < POOL_SIZE && pool[k].key < 0) {
        // An empty place.
    } else if (!full) {
        memmove(pool + k + 1, pool + k, sizeof *pool * (size_t)(POOL_SIZE - k - 1));
    } else {
        k--;
        memmove(pool, pool + 1, sizeof *pool * (size_t)k);
    }
    pool[k] = (struct candidate){number, its_score};
}

// dictGetSomeKeys: neighbours in a table, whose keys lie there at random.
static int64_t one_sample(struct keyspace *all, uint32_t word) {
    return all->is_volatile ? all->expiring_order[one_of(all->expiring, word)]
                            : all->order[one_of(all->there, word)];
}

static bool is_candidate(const struct keyspace *all, int64_t number) {
    const struct key *key = &all->key[number];
    return all->is_volatile ? key->expiring >= 0 : key->place >= 0;
}

// Before the pool, the best of the samples goes.
static int64_t best_sample(struct keyspace *all) {
    int64_t best = -1;
    double most = -HUGE_VAL;
    for (int64_t i = 0; i < all->samples; i++) {
        int64_t number = one_sample(all, next(all).word[0]);
        double found = score(all, &all->key[number]);
        if (found > most) {
            best = number;
            most = found;
        }
    }
    return best;
}

static int64_t best_of_pool(struct keyspace *all) {
    while (true) {
        for (int64_t i = 0; i < all->samples; i += 4) {
            struct draw draw = next(all);
            for (int64_t j = 0; j < min64(4, all->samples - i); j++) {
                int64_t number = one_sample(all, draw.word[j]);
                offer(all, number, score(all, &all->key[number]));
            }
        }
        for (int k = POOL_SIZE - 1; k >= 0; k--) {
            int64_t number = all->pool[k].key;
            if (number < 0) {
                continue;
            }
            all->pool[k] = (struct candidate){-1, 0.0};
            if (is_candidate(all, number)) {
                return number;
            }
        }
    }
}

// performEvictions; false where there is nothing that may go.
static bool make_room(struct keyspace *all) {
    while (all->bytes > all->limit_bytes) {
        if (all->policy == KEEP || (all->is_volatile ? all->expiring : all->there) == 0) {
            return false;
        }
        int64_t number;
        if (all->policy == ANY) {
            number = one_sample(all, next(all).word[0]);
        } else {
            number = all->has_pool ? best_of_pool(all) : best_sample(all);
        }
        delete(all, number);
        all->counts.evicted++;
    }
    return true;
}

// --- requests -------------------------------------------------------------------------------------

static void write_key(struct keyspace *all, int64_t number, uint32_t word) {
    if (make_room(all)) {
        store(all, number, word);
    } else {
        all->counts.refused++;
    }
}

static void ask(struct keyspace *all, int64_t number, int64_t action, uint32_t word) {
    struct key *key = &all->key[number];
    struct group *group = &all->group[key->group];
    group->asked[action]++;
    if (key->expiring >= 0 && key->expires_s <= all->now_s) {
        delete(all, number);
        all->counts.expired_asked++;
    }
    if (action == WRITE) {
        write_key(all, number, word);
    } else if (action == DELETE) {
        if (key->place >= 0) {
            delete(all, number);
            all->counts.deleted++;
        }
    } else if (key->place >= 0) {
        touch(all, key, word, false);
    } else {
        group->missed++;
        if (all->fills) {
            group->filled++;
            write_key(all, number, word);
        }
    }
}

static void serve(struct keyspace *all, int64_t requests) {
    for (int64_t i = 0; i < requests; i++) {
        struct draw draw = next(all);
        int64_t place = one_of(all->groups, draw.word[0]);
        if (to_unit(draw.word[1]) >= all->likely[place]) {
            place = all->alias[place];
        }
        const struct group *group = &all->group[place];
        int64_t number = all->members[group->first + one_of(group->keys, draw.word[2])];
        double unit = to_unit(draw.word[3]);
        int64_t action = READ;
        while (action < ACTIONS - 1 && unit >= all->action_up_to[action]) {
            action++;
        }
        ask(all, number, action, draw.word[0] * UINT32_C(2654435761) ^ draw.word[3]);
    }
}

// --- expiry cycles --------------------------------------------------------------------------------

// Whether cycles go through the sample in turn. Where few of its keys have a time to live, they are
// drawn: that takes no walk past all the others.
static bool scans(const struct keyspace *all) {
    enum { SPARSE = 20 };
    return all->scans && all->expiring * SPARSE >= all->keys;
}

// Share of keys with a time to live that are stale: where a scan goes on, of those that it comes to
// next, unless these are too few to tell.
static double stale_ahead(const struct keyspace *all) {
    enum { AHEAD = 200, FEW = 50, PLACES = 1000 };
    if (all->stale == 0) {
        return 0.0;
    }
    int64_t seen = 0, stale = 0, places = scans(all) ? min64(all->keys, PLACES) : 0;
    for (int64_t i = 0; i < places && seen < AHEAD; i++) {
        const struct key *key = &all->key[(all->cursor + i) % all->keys];
        if (key->expiring >= 0) {
            seen++;
            stale += key->expires_s <= all->now_s;
        }
    }
    if (seen < FEW) {
        return all->expiring ? (double)all->stale / (double)all->expiring : 0.0;
    }
    return (double)stale / (double)seen;
}

// How probable it is that a cycle goes on: more than the accepted share of a sample is stale.
static double goes_on(const struct keyspace *all, double share) {
    int64_t sample = (int64_t)all->sample, most = (int64_t)floor(all->accepted * all->sample);
    double term = pow(1.0 - share, (double)sample), total = term;
    for (int64_t k = 0; k < most && share < 1.0; k++) {
        term *= (double)(sample - k) / (double)(k + 1) * share / (1.0 - share);
        total += term;
    }
    return share >= 1.0 ? 1.0 : fmax(0.0, 1.0 - total);
}

// Go through so many keys of the node.
static void look_at(struct keyspace *all, double count) {
    all->scan_left += count / all->scale;
    int64_t passed = 0;
    while (all->scan_left >= 1.0 && all->expiring > 0 && passed <= all->keys) {
        int64_t number;
        if (scans(all)) {
            number = all->cursor;
            all->cursor = (all->cursor + 1) % all->keys;
            passed++;
            if (all->key[number].expiring < 0) {
                continue;
            }
        } else {
            number = all->expiring_order[one_of(all->expiring, next(all).word[0])];
        }
        all->scan_left -= 1.0;
        if (all->key[number].expires_s <= all->now_s) {
            delete(all, number);
            all->counts.expired++;
        }
    }
    all->scan_left = fmin(all->scan_left, 1.0);
}

// activeExpireCycle: those of the timer, and the fast ones between.
static void expire(struct keyspace *all) {
    double expiring = (double)all->expiring * all->scale;
    if (expiring <= 0.0) {
        all->timed_out = 0;
        return;
    }
    double share = stale_ahead(all);
    double key_s = (all->look_ns + share * all->expire_ns) / 1e9;
    // A cycle that comes to the end of the keys is over.
    double samples = fmin(1.0 / fmax(1.0 - goes_on(all, share), 1e-9), expiring / all->sample);
    double wanted_s = samples * all->sample * key_s;
    double slow_s = fmin(wanted_s, all->slow_limit_s);
    double fast_s = fmin(wanted_s, all->fast_limit_s);
    double slow = all->cycles;
    // Only after a cycle that ran out of time: the other condition compares a fraction with a number
    // of per cent (stat_expired_stale_perc, config_cycle_acceptable_stale), and hardly ever holds.
    bool again = all->timed_out;
    double fast = again ? all->fast_cycles_per_s * all->period_s * slow : 0.0;
    double total_s = slow * slow_s + fast * fast_s;
    all->timed_out = (again ? fast_s : slow_s) < wanted_s;
    double looked_at = fmin(total_s / key_s, slow * expiring);
    all->counts.looked_at += looked_at;
    all->counts.cycles_s += looked_at * key_s;
    all->counts.longest_cycle_s = fmax(all->counts.longest_cycle_s, slow_s);
    look_at(all, looked_at);
}

// --- what Python calls ----------------------------------------------------------------------------

// Requests and expiry cycles up to a time.
EXPORTED void advance_keys(struct keyspace *all, double until_s) {
    while (all->now_s < until_s - 1e-9) {
        double part_s = fmin(all->until_cycle_s, until_s - all->now_s);
        pass_time(all, all->now_s + part_s);
        all->left += all->requests_per_s * part_s;
        int64_t requests = (int64_t)all->left;
        all->left -= (double)requests;
        serve(all, requests);
        all->until_cycle_s -= part_s;
        if (all->until_cycle_s <= 1e-9) {
            expire(all);
            all->until_cycle_s = all->period_s * all->cycles;
        }
    }
    make_room(all);
}

// Writes of keys of the sample one after the other, without anybody asking for them otherwise.
// A time to live above 0 is that of all of them, whatever other writes give.
EXPORTED void write_keys(struct keyspace *all, int64_t first, int64_t count, double ttl_s) {
    double usual_least = all->ttl_least;
    all->ttl_least = ttl_s > 0.0 ? 1.0 : usual_least;
    for (int64_t number = first; number < first + count; number++) {
        struct key *key = &all->key[number];
        double usual_s = key->ttl_s;
        key->ttl_s = ttl_s > 0.0 ? ttl_s : usual_s;
        write_key(all, number, next(all).word[0]);
        key->ttl_s = usual_s;
    }
    all->ttl_least = usual_least;
}

// Keys of the sample that are there at first.
EXPORTED void begin_keys(struct keyspace *all, const uint8_t *there) {
    for (int64_t number = 0; number < all->keys; number++) {
        if (there[number]) {
            store(all, number, 0);
        }
    }
}

// What is counted key by key; the same as the totals unless the program is at fault.
EXPORTED int64_t is_consistent(const struct keyspace *all) {
    int64_t there = 0, expiring = 0;
    double bytes = 0.0;
    for (int64_t number = 0; number < all->keys; number++) {
        const struct key *key = &all->key[number];
        if (key->place >= 0) {
            there++;
            bytes += key->bytes;
            if (all->order[key->place] != number) {
                return 0;
            }
        }
        if (key->expiring >= 0) {
            expiring++;
            if (key->place < 0 || all->expiring_order[key->expiring] != number) {
                return 0;
            }
        }
    }
    int64_t timed = all->stale;
    for (int64_t cell = 0; cell < TIMES; cell++) {
        timed += all->due[cell];
    }
    return there == all->there && expiring == all->expiring && timed == expiring &&
           fabs(bytes - all->bytes) <= 1e-6 * (bytes + 1.0);
}
