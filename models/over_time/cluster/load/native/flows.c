// One step of the load, node by node: arrivals, connections, service, time-outs, retries.
//
// `load.py` prepares what it is given and looks at what it leaves.

#include <string.h>

#include "cohorts.h"
#include "sim/native/random.h"

// Purposes of random draws; the stream is the node, the index the step.
enum { ARRIVAL_DRAWS = 7010, ROUNDING_DRAWS = 7011 };

// From here on a Poisson number is a rounded normal one.
#define LARGE_MEAN 60.0
#define FULL_CIRCLE 6.283185307179586

// The last cell of utilisations.
#define LAST_CELL 0.99

// A node in the present step.
struct turn {
    struct load *load;
    int64_t number;
    struct node *node;
    const struct given *given;
    struct queue *connects;
    struct queue *requests;
};

// A Poisson number with a mean.
static int64_t poisson(struct draw draw, double mean) {
    if (mean <= 0.0) {
        return 0;
    }
    double unit = to_unit(draw.word[0]);
    if (mean < LARGE_MEAN) {
        int64_t count = 0;
        double term = exp(-mean), total = term;
        while (unit > total && count < 1000) {
            count++;
            term *= mean / (double)count;
            total += term;
        }
        return count;
    }
    double normal = sqrt(-2.0 * log(unit)) * cos(FULL_CIRCLE * to_unit(draw.word[1]));
    return max64(0, (int64_t)(mean + sqrt(mean) * normal + 0.5));
}

// How many requests begin at each node; the mean rounded at random unless `drawn`.
EXPORTED void draw_arrivals(int64_t seed, int64_t step, int64_t nodes, const double *means,
                            int64_t drawn, int64_t *counts) {
    for (int64_t node = 0; node < nodes; node++) {
        struct draw draw = draw4(seed, 0, node, ARRIVAL_DRAWS, step);
        counts[node] =
            drawn ? poisson(draw, means[node]) : (int64_t)(means[node] + to_unit(draw.word[2]));
    }
}

// The cell that is nearest to a utilisation.
static int64_t utilisation_cell(const struct load *load, double utilisation) {
    double within = fmin(fmax(utilisation, 0.0), LAST_CELL);
    return (int64_t)(0.5 - log1p(-within) / load->cell_width);
}

// Attempts at a node that are due in a step, by attempt.
static int64_t *due_at(const struct load *load, int64_t step, int64_t node) {
    return &load->due[(step % load->horizon * load->nodes + node) * load->attempts];
}

static int64_t sum(const int64_t *values, int64_t count) {
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++) {
        total += values[i];
    }
    return total;
}

static void clear(int64_t *values, int64_t count) {
    memset(values, 0, (size_t)count * sizeof *values);
}

// How many of `some` of the `wanted` connections are used for the first time.
//
// Each request goes to any of them; rounded at random.
static int64_t first_uses(int64_t requests, int64_t some, int64_t wanted, double unit) {
    if (wanted <= 0 || some <= 0) {
        return 0;
    }
    double used = -expm1((double)-requests / (double)wanted);
    return min64(min64(requests, some), (int64_t)((double)some * used + unit));
}

// Clients that have waited for too long go, those that a node has forgotten are refused. Returns
// how many timed out.
static int64_t end_waits(const struct turn *turn) {
    const struct load *load = turn->load;
    const struct rules *rules = load->rules;
    struct node *node = turn->node;
    expire(turn->requests, load->step, rules->timeout_steps, rules->drops_gone, load->lost);
    int64_t timed_out = sum(load->lost, load->attempts);
    // The client closes the connection that its request went out on.
    int64_t closed = min64(timed_out, node->open);
    node->open -= closed;
    node->closed += closed;
    node->stale -= min64(timed_out - closed, node->stale);
    expire(turn->connects, load->step, rules->connect_timeout_steps, false, load->lost);
    timed_out = sum(load->lost, load->attempts);
    node->timed_out += timed_out;
    if (node->down == REFUSES || turn->given->forgets) {
        withdraw(turn->requests, load->lost);
        // Their connections are among the broken ones, and known to be.
        int64_t withdrawn = sum(load->lost, load->attempts) - timed_out;
        node->stale -= min64(withdrawn, node->stale);
        withdraw(turn->connects, load->lost);
    }
    return timed_out;
}

// Attempts that failed before try again. They have lost their connections.
static void join_again(const struct turn *turn, int64_t *due) {
    const struct load *load = turn->load;
    const struct node *node = turn->node;
    int64_t room = turn->given->wanted - node->open - node->stale - turn->connects->waiting;
    for (int64_t attempt = 1; attempt < load->attempts; attempt++) {
        int64_t connecting = due[attempt];
        if (load->rules->persistent) {
            connecting = min64(connecting, max64(0, room));
            room -= connecting;
        }
        join(turn->connects, load->step, attempt, connecting);
        join(turn->requests, load->step, attempt, due[attempt] - connecting);
        due[attempt] = 0;
    }
}

// Requests that begin join one of the two queues.
static void join_first(const struct turn *turn, double broken_unit, double connecting_unit) {
    const struct load *load = turn->load;
    struct node *node = turn->node;
    int64_t connecting = turn->given->new_requests, direct = 0;
    if (load->rules->persistent) {
        // A request goes to any worker: one whose connection is broken, one that has none, or one
        // that is connected.
        int64_t wanted = turn->given->wanted;
        int64_t broken = first_uses(connecting, node->stale, wanted, broken_unit);
        node->stale -= broken;
        node->broken += broken;
        load->lost[0] += broken;
        int64_t rest = connecting - broken;
        // Those that back off, or will in a moment, open theirs when they try again.
        int64_t missing = wanted - node->open - node->stale - turn->connects->waiting;
        missing -= node->backing_off + sum(load->lost, load->attempts);
        connecting = first_uses(rest, missing, wanted, connecting_unit);
        direct = rest - connecting;
    }
    join(turn->connects, load->step, 0, connecting);
    join(turn->requests, load->step, 0, direct);
}

// Requests that begin and attempts that are due arrive.
static void arrive(const struct turn *turn, double broken_unit, double connecting_unit) {
    const struct load *load = turn->load;
    struct node *node = turn->node;
    int64_t *due = due_at(load, load->step, turn->number);
    int64_t new_requests = turn->given->new_requests;
    int64_t again = sum(due, load->attempts);
    node->offered += new_requests;
    node->attempts += new_requests + again;
    node->backing_off -= again;
    if (node->down == REFUSES) {
        // Each is another worker's: one that was refused backs off.
        node->stale -= min64(new_requests, node->stale);
        load->lost[0] += new_requests;
        for (int64_t attempt = 1; attempt < load->attempts; attempt++) {
            load->lost[attempt] += due[attempt];
        }
        clear(due, load->attempts);
        return;
    }
    join_again(turn, due);
    join_first(turn, broken_unit, connecting_unit);
}

// What a main thread has for accepting connections, of the time that it has.
static int64_t accepting_ps(const struct turn *turn, int64_t budget_ps) {
    const struct given *given = turn->given;
    int64_t each_ps = given->per_connection_ps + given->per_request_ps;
    int64_t ready_ps = length_of(turn->requests) * given->per_request_ps;
    if (length_of(turn->connects) * each_ps + ready_ps <= budget_ps) {
        return budget_ps;
    }
    // Every turn of the event loop accepts a few and serves all requests that lie ready.
    int64_t few_ps = given->accepts_per_turn * given->per_connection_ps;
    int64_t turn_ps = few_ps + max64(ready_ps, given->per_request_ps);
    int64_t fair_ps = (int64_t)((double)budget_ps * ((double)few_ps / (double)turn_ps));
    return max64(fair_ps, budget_ps - ready_ps);
}

// How many more connections there may be, when a time is left for requests.
static int64_t room_for_connections(const struct turn *turn, int64_t left_ps) {
    const struct given *given = turn->given;
    int64_t room = given->maxclients - turn->node->open;
    if (!turn->load->rules->persistent) {
        // A connection closes with its answer: those answered in this step make room in it. Without
        // that a step would accept `maxclients` connections at most, however short they last.
        int64_t served = floor_div(turn->node->credit_ps + left_ps, given->per_request_ps);
        room += max64(0, min64(served, given->elsewhere) - turn->requests->left);
    }
    return max64(0, room);
}

// Accept connections; their requests join the other queue. Returns the time left for these.
static int64_t accept_connections(const struct turn *turn, int64_t budget_ps) {
    const struct load *load = turn->load;
    const struct given *given = turn->given;
    struct node *node = turn->node;
    int64_t waiting = length_of(turn->connects);
    int64_t credit_ps = node->accept_credit_ps;
    node->accept_credit_ps = 0;
    if (waiting == 0) {
        return budget_ps;
    }
    int64_t accept_ps = given->per_connection_ps;
    int64_t allowed_ps = accepting_ps(turn, budget_ps);
    int64_t able = floor_div(allowed_ps + credit_ps, accept_ps);
    int64_t most = min64(min64(able, waiting), given->handshakes);
    int64_t *accepted = load->served;
    clear(accepted, load->attempts);
    int64_t gone =
        serve(turn->connects, load->step, load->step_s, most, accepted, load->connect_waits);
    int64_t spent_ps = gone * accept_ps, left_ps;
    if (most == able && able < waiting) {
        // Time too short for a connection counts in the next step.
        node->accept_credit_ps = allowed_ps + credit_ps - spent_ps;
        left_ps = budget_ps - allowed_ps;
    } else {
        left_ps = budget_ps - max64(0, spent_ps - credit_ps);
    }
    int64_t room = room_for_connections(turn, min64(left_ps, budget_ps));
    for (int64_t attempt = 0; attempt < load->attempts; attempt++) {
        int64_t let_in = min64(room, accepted[attempt]);
        int64_t turned_away = accepted[attempt] - let_in;
        int64_t saved_ps = turned_away * (accept_ps - given->per_rejection_ps);
        room -= let_in;
        load->lost[attempt] += turned_away;
        node->too_many += turned_away;
        spent_ps -= saved_ps;
        left_ps += saved_ps;
        node->open += let_in;
        node->connected += let_in;
        join(turn->requests, load->step, attempt, let_in);
        gone -= accepted[attempt];
    }
    node->abandoned += gone;
    node->connect_ps += spent_ps;
    return min64(left_ps, budget_ps);
}

// Serve requests in the time that is left; a node of this utilisation has these latencies.
static void serve_requests(const struct turn *turn, int64_t left_ps, struct waits *waits) {
    const struct load *load = turn->load;
    const struct rules *rules = load->rules;
    const struct given *given = turn->given;
    struct node *node = turn->node;
    int64_t most = min64(floor_div(left_ps, given->per_request_ps), given->elsewhere);
    clear(load->served, load->attempts);
    int64_t served = serve(turn->requests, load->step, load->step_s, most, load->served, waits);
    int64_t answered = sum(load->served, load->attempts);
    int64_t spent_ps = served * given->per_request_ps;
    node->answered += answered;
    node->wasted += served - answered;
    node->busy_ps += spent_ps;
    // Time too short for a request counts in the next step, if somebody waits for it.
    node->credit_ps = 0;
    if (length_of(turn->requests) > 0) {
        node->credit_ps = max64(0, min64(left_ps - spent_ps, given->per_request_ps));
    }
    if (!rules->persistent) {
        int64_t closed = min64(answered, node->open);
        node->open -= closed;
        node->closed += closed;
    }
    if (rules->most_tokens > 0) {
        node->tokens += answered * rules->tokens_per_answer;
        node->tokens = min64(node->tokens, rules->most_tokens);
    }
}

// The kernel leaves connections unanswered that find the backlog full: the last to come.
static void overflow(const struct turn *turn) {
    struct queue *connects = turn->connects;
    int64_t over = length_of(connects) - turn->given->backlog;
    int64_t first = first_waiting(connects);
    for (int64_t number = connects->tail - 1; over > 0 && number >= first; number--) {
        struct cohort *cohort = cohort_of(connects, number);
        int64_t taken = min64(over, cohort->count);
        cohort->count -= taken;
        connects->waiting -= taken;
        turn->load->dropped[cohort->attempt] += taken;
        over -= taken;
    }
}

// Attempts that came to nothing are scheduled again, or their requests are given up.
static void try_again(const struct turn *turn, int64_t *lost, int64_t delay_steps, double unit) {
    const struct load *load = turn->load;
    struct node *node = turn->node;
    for (int64_t attempt = 0; attempt < load->attempts; attempt++) {
        int64_t again = attempt < load->attempts - 1 ? lost[attempt] : 0;
        if (load->rules->most_tokens > 0) {
            again = min64(again, floor_div(node->tokens, TOKEN));
            node->tokens -= again * TOKEN;
        }
        node->failed += lost[attempt] - again;
        node->retries += again;
        node->backing_off += again;
        lost[attempt] = 0;
        if (again == 0) {
            continue;
        }
        // Evenly over the steps of the backoff, what is left over from a random one on.
        const struct backoff *backoff = &load->backoffs[attempt];
        int64_t span = backoff->in_steps;
        int64_t each = again / span, more = again % span;
        int64_t first = (int64_t)(unit * (double)span);
        int64_t from = load->step + delay_steps + backoff->from_steps;
        for (int64_t number = 0; number < span; number++) {
            int64_t behind = number - first + (number < first ? span : 0);
            int64_t *due = due_at(load, from + number, turn->number);
            due[attempt + 1] += each + (behind < more);
        }
    }
}

// One step of the load at a node.
static void advance_node(const struct turn *turn) {
    struct load *load = turn->load;
    const struct given *given = turn->given;
    struct node *node = turn->node;
    struct draw draw = draw4(load->seed, 0, turn->number, ROUNDING_DRAWS, load->step);
    int64_t timed_out = end_waits(turn);
    arrive(turn, to_unit(draw.word[0]), to_unit(draw.word[1]));
    int64_t stalled_ps = min64(node->stall_ps, given->budget_ps);
    int64_t budget_ps = given->budget_ps - stalled_ps;
    node->stall_ps -= stalled_ps;
    node->budget_ps += budget_ps;
    bool serving = node->down == UP;
    int64_t connecting_ps = given->per_connection_ps + given->per_request_ps;
    int64_t work_ps = length_of(turn->requests) * given->per_request_ps +
                      length_of(turn->connects) * connecting_ps;
    int64_t can_ps = min64(budget_ps, given->elsewhere * given->per_request_ps);
    double asked = can_ps <= 0 ? 1.0 : fmin(1.0, (double)work_ps / (double)can_ps);
    load->utilisation[turn->number] = serving && work_ps > 0 ? asked : 0.0;
    // Chance between steps is part of the waiting that the node model has in its latencies.
    int64_t too_few = given->expected - 1000 * given->new_requests;
    work_ps += floor_div(too_few * given->per_request_ps, 1000);
    if (serving) {
        int64_t left_ps = node->credit_ps + accept_connections(turn, budget_ps);
        double usual = can_ps <= 0 ? 1.0 : (double)work_ps / (double)can_ps;
        struct latencies *latencies = &load->latencies[given->kind];
        serve_requests(turn, left_ps, &latencies->at_load[utilisation_cell(load, usual)]);
        overflow(turn);
    }
    int64_t dropped = sum(load->dropped, load->attempts);
    node->refused += sum(load->lost, load->attempts) - timed_out + dropped;
    node->backlog_full += dropped;
    double unit = to_unit(draw.word[2]);
    try_again(turn, load->lost, 0, unit);
    if (dropped > 0) {
        try_again(turn, load->dropped, load->rules->connect_delay_steps, unit);
    }
}

// One step of the load at every node.
EXPORTED void advance_load(struct load *load) {
    for (int64_t number = 0; number < load->nodes; number++) {
        struct turn turn = {
            .load = load,
            .number = number,
            .node = &load->state[number],
            .given = &load->given[number],
            .connects = &load->connect_queues[number],
            .requests = &load->request_queues[number],
        };
        advance_node(&turn);
    }
}
