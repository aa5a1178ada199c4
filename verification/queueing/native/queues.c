#include "queues.h"

#include <math.h>

#include "sim/native/calendar.h"
#include "sim/native/histogram.h"
#include "sim/native/random.h"

static int64_t service_ps(const struct open_queue *queue, uint32_t high, uint32_t low) {
    double mean_ps = queue->mean_service_ps;
    if (queue->kind == DETERMINISTIC) {
        return (int64_t)(mean_ps + 0.5);
    }
    double unit = to_unit_wide(high, low);
    if (queue->kind == EXPONENTIAL) {
        return exponential_ps(unit, mean_ps);
    }
    // Balanced means: a fraction p has mean m/2p and the rest m/2(1-p), so each branch carries half
    // of the load; p follows from the variation (Whitt 1982, Operations Research 30(1)).
    double variation = queue->squared_variation;
    double p = 0.5 * (1.0 + sqrt((variation - 1.0) / (variation + 1.0)));
    if (unit < p) {
        return exponential_ps(unit / p, mean_ps / (2.0 * p));
    }
    return exponential_ps((unit - p) / (1.0 - p), mean_ps / (2.0 * (1.0 - p)));
}

// The customer of a number arrives so long after the one before.
static int64_t gap_and_need(const struct open_queue *queue, int64_t number, int64_t *need_ps) {
    struct draw draw = draw4(queue->seed, queue->replication, 0, PURPOSE_CUSTOMER, number);
    *need_ps = service_ps(queue, draw.word[2], draw.word[3]);
    return exponential_ps(to_unit_wide(draw.word[0], draw.word[1]), queue->interarrival_ps);
}

// Serve all customers; they arrive as a Poisson process and go to the idle server with the lowest
// number.
EXPORTED void open_queue(struct open_queue *queue, struct calendar *calendar) {
    enum { IDLE = -1 };  // instead of the time of arrival
    for (int64_t server = 1; server <= queue->servers; server++) {
        queue->in_service[server].arrival_ps = IDLE;
    }
    int64_t busy = 0, arrived = 0, done = 0, joined_line = 0, left_line = 0;
    int64_t sum_ps = 0, area_ps = 0, now_ps = 0;

    struct customer next;
    schedule(calendar, ARRIVALS, gap_and_need(queue, 0, &next.need_ps));
    while (done < queue->customers) {
        int64_t key = next_key(calendar);
        int64_t agent = agent_of(calendar, key);
        int64_t last_ps = now_ps;
        now_ps = time_of(calendar, key);
        area_ps += (arrived - done) * (now_ps - last_ps);
        if (agent == ARRIVALS) {
            next.arrival_ps = now_ps;
            if (busy < queue->servers) {
                int64_t server = 1;
                while (queue->in_service[server].arrival_ps != IDLE) {
                    server++;
                }
                queue->in_service[server] = next;
                busy++;
                schedule(calendar, server, now_ps + next.need_ps);
            } else {
                if (joined_line - left_line == LINE_CAPACITY) {
                    queue->line_was_full = true;
                    return;
                }
                queue->line[joined_line++ % LINE_CAPACITY] = next;
            }
            arrived++;
            if (arrived < queue->customers) {
                int64_t gap_ps = gap_and_need(queue, arrived, &next.need_ps);
                schedule(calendar, ARRIVALS, now_ps + gap_ps);
            } else {
                schedule(calendar, ARRIVALS, INFINITY_PS);
            }
        } else {
            struct customer *served = &queue->in_service[agent];
            int64_t sojourn_ps = now_ps - served->arrival_ps;
            sum_ps += sojourn_ps;
            if (done < queue->kept) {
                queue->completions_ps[done] = now_ps;
                queue->sojourns_ps[done] = sojourn_ps;
            }
            done++;
            if (joined_line > left_line) {
                *served = queue->line[left_line++ % LINE_CAPACITY];
                schedule(calendar, agent, now_ps + served->need_ps);
            } else {
                served->arrival_ps = IDLE;
                busy--;
                schedule(calendar, agent, INFINITY_PS);
            }
        }
    }
    queue->sum_ps = sum_ps;
    queue->area_ps = area_ps;
    queue->last_ps = now_ps;
}

// The present life of a machine, and the repair that follows it, have one address.
static struct draw life_draw(const struct machine_repair *shop, int64_t machine) {
    return draw4(shop->seed, shop->replication, machine, PURPOSE_MACHINE, shop->life[machine]);
}

static void begin_life(const struct machine_repair *shop, struct calendar *calendar,
                       int64_t machine, int64_t now_ps) {
    struct draw draw = life_draw(shop, machine);
    double unit = to_unit_wide(draw.word[0], draw.word[1]);
    schedule(calendar, machine, now_ps + exponential_ps(unit, shop->mean_life_ps));
}

static void begin_repair(struct machine_repair *shop, struct calendar *calendar, int64_t repairman,
                         int64_t machine, int64_t now_ps) {
    shop->machine_of[repairman] = machine;
    struct draw draw = life_draw(shop, machine);
    double unit = to_unit_wide(draw.word[2], draw.word[3]);
    schedule(calendar, repairman, now_ps + exponential_ps(unit, shop->mean_repair_ps));
}

// Machines fail and wait for a repairman; each goes to the idle one with the lowest number.
EXPORTED void machine_repair(struct machine_repair *shop, struct calendar *calendar) {
    enum { NONE = -1 };
    int64_t machines = shop->machines;
    int64_t working = machines, idle = shop->repairmen, done = 0;
    int64_t joined_line = 0, left_line = 0;
    int64_t area_ps = 0, now_ps = 0;
    for (int64_t agent = 0; agent < machines + shop->repairmen; agent++) {
        shop->machine_of[agent] = NONE;
    }
    for (int64_t machine = 0; machine < machines; machine++) {
        begin_life(shop, calendar, machine, 0);
    }
    while (done < shop->repairs) {
        int64_t key = next_key(calendar);
        int64_t agent = agent_of(calendar, key);
        int64_t last_ps = now_ps;
        now_ps = time_of(calendar, key);
        area_ps += working * (now_ps - last_ps);
        int64_t repairman = NONE;
        if (agent < machines) {
            working--;
            schedule(calendar, agent, INFINITY_PS);
            shop->line[joined_line++ % machines] = agent;
            if (idle > 0) {
                idle--;
                repairman = machines;
                while (shop->machine_of[repairman] != NONE) {
                    repairman++;
                }
            }
        } else {
            int64_t machine = shop->machine_of[agent];
            shop->machine_of[agent] = NONE;
            working++;
            shop->life[machine]++;
            begin_life(shop, calendar, machine, now_ps);
            if (done < shop->kept) {
                shop->completions_ps[done] = now_ps;
            }
            done++;
            if (joined_line > left_line) {
                repairman = agent;
            } else {
                idle++;
                schedule(calendar, agent, INFINITY_PS);
            }
        }
        if (repairman != NONE) {
            int64_t machine = shop->line[left_line++ % machines];
            begin_repair(shop, calendar, repairman, machine, now_ps);
        }
    }
    shop->area_ps = area_ps;
    shop->last_ps = now_ps;
}

// Count each of a number of values.
EXPORTED void record_all(struct histogram *histogram, const int64_t *values_ps, int64_t values) {
    for (int64_t number = 0; number < values; number++) {
        record(histogram, values_ps[number]);
    }
}
