// The compiled node for a browser: what `layout.py` lays out for Python, laid out in the memory of a
// WebAssembly module, which imports nothing.
//
// A caller asks `input` for room, writes the numbers of a run there and calls `simulate`. One run
// follows another in the same memory. Left out are threads that share cores, thinking clients,
// changing rates, traces and Memcached's locks: a page that has none of them needs none of them.
//
// `tests/models/test_node_web.py` holds runs to those of the shared library, to the bit.

#include "models/node/native/node.h"

#define CALLED(name) __attribute__((export_name(#name)))
#define PAGE_BYTES 65536
#define CACHE_LINE 64

// Numbers of a command: those of `struct command` that `NodeTimes` has, and its stalls.
enum { COMMAND_NUMBERS = 10, COMMAND_WORDS = COMMAND_NUMBERS + QUANTILES };
// The head of `struct node`, up to what has no fixed size.
enum { HEAD_WORDS = offsetof(struct node, client_rows) / sizeof(int64_t) };

typedef int64_t policy_run(struct node *, struct histogram *, struct calendar *);
policy_run run_single_thread, run_asynchronous, run_shared_queues, run_fork_join, run_multiplexed,
    run_owning_threads;

// In the order of `WEB_POLICIES` in `models/node/web.py`.
static policy_run *const policies[] = {run_single_thread, run_asynchronous, run_shared_queues,
                                       run_fork_join,     run_multiplexed,  run_owning_threads};

extern unsigned char __heap_base;
static uintptr_t top, highest;
static int64_t *given;
static struct node *node;
static struct histogram *histogram;

// Zeroed memory for so many things, from a cache line on.
static void *room(int64_t count, size_t size) {
    uintptr_t begins = (top + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1);
    top = begins + (size_t)count * size;
    size_t pages = (top + PAGE_BYTES - 1) / PAGE_BYTES, has = __builtin_wasm_memory_size(0);
    if (pages > has && __builtin_wasm_memory_grow(0, pages - has) == (size_t)-1) {
        __builtin_trap();
    }
    // What a run before this one did not use is still zero.
    if (begins < highest) {
        memset((void *)begins, 0, (top < highest ? top : highest) - begins);
    }
    highest = top > highest ? top : highest;
    return (void *)begins;
}

#define ROOM(count, type) ((type *)room(count, sizeof(type)))

static int64_t power_of_two(int64_t entries) {
    int64_t capacity = 1;
    while (capacity < entries) {
        capacity *= 2;
    }
    return capacity;
}

static void make_ring(struct ring *ring, int64_t entries) {
    ring->mask = power_of_two(entries) - 1;
    ring->entries = ROOM(ring->mask + 1, struct entry);
}

static void make_line(struct line *line, int64_t entries) {
    line->mask = power_of_two(entries) - 1;
    line->clients = ROOM(line->mask + 1, struct client *);
}

static int64_t each_of(int64_t clients, int64_t threads) {
    return (clients + threads - 1) / threads;
}

static void make_threads(struct node *n, int64_t outstanding) {
    int64_t each_owner = each_of(n->clients, n->owners);
    for (int64_t agent = n->first_owner; agent < n->first_owner + n->owners; agent++) {
        struct thread *thread = &n->threads[agent];
        thread->watched_sockets = ROOM(each_owner, struct client *);
        make_ring(&thread->request_wire, each_owner * outstanding);
        if (agent > 0) {
            make_ring(&thread->to_main, 2 * each_owner);
            make_ring(&thread->from_main, 2 * each_owner);
        }
    }
    for (int64_t agent = 1; agent < n->io_threads; agent++) {
        make_ring(&n->threads[agent].queue, n->job_capacity);
    }
    int64_t each = each_of(n->clients, n->generators);
    for (int64_t agent = 0; agent < n->generators; agent++) {
        struct thread *thread = &n->threads[n->io_threads + agent];
        make_ring(&thread->queue, each * outstanding);
        make_ring(&thread->tasks, each * (n->open_loop ? n->backlog_limit : outstanding));
        make_line(&thread->ready_clients, each);
        make_line(&thread->idle_clients, each);
    }
    for (int64_t agent = 0; agent < n->io_threads + n->generators; agent++) {
        n->threads[agent].waits = SLEEPS;
    }
}

static void make_clients(struct node *n, int64_t outstanding) {
    n->client_rows = ROOM(n->clients, struct client);
    struct slot *slots = ROOM(n->clients * outstanding, struct slot);
    for (int64_t number = 0; number < n->clients; number++) {
        struct client *client = &n->client_rows[number];
        int64_t thread = n->clients_in_blocks ? number * n->generators / n->clients
                                              : number % n->generators;
        client->generator = (int32_t)(n->io_threads + thread);
        client->owner = (int32_t)(n->first_owner + number % n->owners);
        client->slots = slots + number * outstanding;
    }
    n->pending_writes = ROOM(n->clients, struct client *);
    n->batch = ROOM(n->clients, struct client *);
    n->flows_in_free_ps = ROOM(n->clients, int64_t);
    n->flows_out_free_ps = ROOM(n->clients, int64_t);
    n->interrupts_free_ps = ROOM(n->interrupt_cores, int64_t);
    make_ring(&n->shared_jobs, n->job_capacity);
    make_line(&n->done_reads, n->clients + 1);
    make_line(&n->done_writes, n->clients + 1);
    make_ring(&n->responses, 2 * (n->clients + 1));
}

static void copy_words(int64_t *to, const int64_t **from, int64_t count) {
    memcpy(to, *from, (size_t)count * sizeof(int64_t));
    *from += count;
}

static void fill_tables(struct node *n, const int64_t *from, int64_t codes, int64_t prefetched) {
    copy_words(n->jitter, &from, QUANTILES);
    copy_words(n->interruptions_ps, &from, QUANTILES);
    copy_words(n->wake_latency_ps, &from, QUANTILES);
    for (int64_t draw = 0; draw < DRAWS; draw++) {
        n->code_by_draw[draw] = (uint8_t)*from++;
    }
    n->prefetch = ROOM(prefetched, int64_t);
    copy_words(n->prefetch, &from, prefetched);
    n->frees = n->free_arguments_ps > 0;
    for (int64_t code = 0; code < codes; code++) {
        struct command *row = &n->commands[code];
        row->parse_ps = from[0];
        row->execute_ps = from[1];
        row->prefetched_stall_ps = from[2];
        row->request_bytes = from[3];
        row->reply_bytes = from[4];
        row->write_ps = from[5];
        row->free_ps = from[6];
        row->keys = from[7];
        row->rare = from[8];
        row->written_to_log = from[9];
        from += COMMAND_NUMBERS;
        row->stalls = ROOM(QUANTILES, int64_t);
        copy_words(row->stalls, &from, QUANTILES);
        n->frees |= row->free_ps > 0;
        n->write_waits |= row->write_ps > 0;
        n->several_keys |= row->keys > 1;
        n->rare_below = max64(n->rare_below, row->rare);
    }
}

static struct calendar *new_calendar(int64_t agents) {
    int64_t leaves = 4, bits = 0;
    while (leaves < agents) {
        leaves *= 4;
    }
    while (((int64_t)1 << bits) < agents) {
        bits++;
    }
    int64_t *tree = ROOM(2 * leaves, int64_t);
    for (int64_t leaf = 0; leaf < leaves; leaf++) {
        tree[leaves + leaf] = INFINITY_PS | leaf;
    }
    for (int64_t place = leaves - 1; place > 0; place--) {
        if (4 * place < 2 * leaves) {
            // Only places with a multiple of four below them are nodes.
            tree[place] = tree[4 * place];
        }
    }
    struct calendar *calendar = (struct calendar *)tree;
    calendar->bits = bits;
    calendar->leaves = leaves;
    return calendar;
}

// Room for the numbers of a run, in the order of `models/node/web.py`.
CALLED(input) int64_t *input(int64_t words) {
    top = (uintptr_t)&__heap_base;
    given = ROOM(words, int64_t);
    return given;
}

// Run a policy until the end of the window; returns the number of events.
CALLED(simulate) int64_t simulate(int64_t policy, int64_t codes, int64_t prefetched) {
    int64_t io_threads = given[offsetof(struct node, io_threads) / sizeof(int64_t)];
    int64_t generators = given[offsetof(struct node, generators) / sizeof(int64_t)];
    int64_t threads = io_threads + generators;
    struct node *n = room(1, sizeof(struct node) + (size_t)threads * sizeof(struct thread));
    node = n;
    memcpy(n, given, HEAD_WORDS * sizeof(int64_t));
    int64_t outstanding = power_of_two(n->outstanding_limit);
    int64_t sources = n->open_loop ? n->generators : 0;
    n->series_entries = max64(1, (n->end_ps + n->series_ps - 1) / n->series_ps);
    n->series = n->entry = ROOM(n->series_entries + 1, struct interval);
    n->source_rows = ROOM(sources, struct source);
    n->outstanding_mask = outstanding - 1;
    n->lookahead_ps = n->same_host || sources > 0 ? 0 : n->one_way_ps;
    n->active_threads = n->initial_active;
    n->task_rows = ROOM(threads, struct task);
    for (int64_t task = 0; task < threads; task++) {
        n->task_rows[task].deadline_ps = n->slice_ps;
    }
    n->tasks_of_cores = threads;
    n->first_core_agent = threads + sources;
    n->most_siblings = -1;
    make_threads(n, outstanding);
    make_clients(n, outstanding);
    fill_tables(n, given + HEAD_WORDS, codes, prefetched);
    histogram = ROOM(1, struct histogram);
    return policies[policy](n, histogram, new_calendar(threads + sources));
}

// What a run has left: the counters of its window, from `completions` to `active_threads`.
CALLED(counters) int64_t *counters(void) {
    return &node->completions;
}

CALLED(backlog) int64_t backlog(void) {
    return node->backlog_at_start;
}

// A word per thread, its useful work in the window; then that of the main thread with spinning.
CALLED(busy) int64_t *busy(void) {
    int64_t threads = node->io_threads + node->generators;
    int64_t *found = ROOM(threads + 1, int64_t);
    for (int64_t thread = 0; thread < threads; thread++) {
        found[thread] = node->threads[thread].busy_ps;
    }
    found[threads] = node->threads[0].on_cpu_ps;
    return found;
}

CALLED(latencies) int64_t *latencies(void) {
    return histogram->counts;
}

// Completions, their summed latency and arrivals of each entry.
CALLED(series) struct interval *series(void) {
    return node->series;
}
