// Where everything of a node simulation lies: durations and rules, tables, counters, and a row for
// every client, thread, task and core.
//
// `layout.py` reads this file: it allocates what is declared here, fills it and reads results by
// these names. Every field has eight bytes, or two of them share eight; fields that are used
// together share a cache line.

#ifndef FORECACHE_NODE_H
#define FORECACHE_NODE_H

#include "ring.h"
#include "sim/native/calendar.h"
#include "sim/native/histogram.h"
#include "sim/native/random.h"

enum {
    QUANTILES = 256,
    DRAWS = 1024,
    MOST_CODES = 256,
    SECTIONS = 7,  // of a SET under locks of the process
    HEADER_WORDS = 232,
    BIG_ARGUMENT_BYTES = 32 * 1024,  // PROTO_MBULK_BIG_ARG (server.h)
    JITTER_SHIFT = 16,  // a factor of one, as a power of two
    SLICES_PER_BALANCE = 8,
    SENT_PS = 1,
    DRAWN = -1,  // in place of a command code: it is drawn
    MARKS = 4,  // a client's commands that are drawn together
};
_Static_assert((int)MARKS == (int)DRAWN_AT_ONCE, "marks are drawn as draw4_each does");
#define KEPT_BUDGET_PS INT64_C(1000000000)

// What a thread does until its next event, of interest where it shares cores.
enum {
    COMPUTES,
    SPINS,
    SPINS_IN_TURNS,  // as a main thread does; what it sees depends on how far it is in a turn
    SLEEPS,
};

// A task's state.
enum {
    HAS_NO_WORK,  // blocked
    ON_CORE,
    WAITS_FOR_CORE,
    THROTTLED,  // waits for the next period at a core that a quota has left no time
};

// Flags in a client's `jobs`.
enum {
    READ_UNDER_WAY = 1,
    WRITE_UNDER_WAY = 2,
    WRITE_PENDING = 4,  // in the main thread's list of pending writes
};

// States of the poll job.
enum { IDLE, PENDING, COMPLETED };

// A mark packs the number of a command code and three draws of eight bits.
enum { STALL_DRAW = 8, READ_DRAW = 16, WRITE_DRAW = 24 };
#define MARK_CODE ((INT64_C(1) << STALL_DRAW) - 1)

struct slot {
    int64_t mark;
    int64_t due_ps;
};

// An entry of the series.
struct interval {
    int64_t completions;
    int64_t latency_ps;  // their sum
    int64_t arrivals;
};

struct completion {
    int64_t client;
    int64_t index;
    int64_t time_ps;
};

struct command {
    int64_t parse_ps;
    int64_t execute_ps;
    int64_t prefetched_stall_ps;
    int64_t request_bytes;
    int64_t reply_bytes;
    int64_t *stalls;  // inverse distribution function of its stalls
    int64_t write_ps;
    int64_t free_ps;
    int64_t keys;
    int64_t rare;
    int64_t written_to_log;
    int64_t unused[5];
};

struct thread {
    int64_t phase;
    struct client *client;  // what the step under way is about
    int64_t index;
    int64_t count;
    int64_t amount;
    int64_t asleep;  // 1: blocked and not yet woken
    int64_t busy_ps;  // useful work; at the end, that inside the measured window
    int64_t busy_until_ps;  // end of its last piece of useful work
    struct ring queue;  // jobs of an I/O thread, replies on their way to a generator thread
    struct line ready_clients;  // whom a generator thread has replies for
    int64_t interrupted_ps;  // when its next interruption by the host begins
    int64_t waits;  // what it does until its next event: `COMPUTES` and so on
    int64_t job;  // of an I/O thread: the one under way
    int64_t available_ps;  // from when on a restarted thread takes jobs
    int64_t tasks_left;
    int64_t taken_ps;  // until when a due request already taken counts as waiting
    int64_t fetched;  // keys of the present batch that were fetched ahead and not yet used
    int64_t again;  // 1: the second look at finished jobs in this turn
    union {
        struct ring tasks;  // of a generator thread: what it is due to send, and since when
        struct ring to_main;  // of one that watches sockets: clients for the main thread
    };
    union {
        struct line idle_clients;  // open loop: connections that wait for a request
        struct ring from_main;  // and back
    };
    struct ring request_wire;  // what is on its way to the clients whose sockets it watches
    struct client **watched_sockets;  // the kernel's list of ready ones
    int64_t watched_count;
    int64_t fired_count;  // how many watched sockets, from the first, the last poll reported
    int64_t scanned_ps;  // when that poll had looked at all of them
    int64_t early_count;  // sockets that have become readable until then
    int64_t batched;  // clients of the batch that is to be handed over next
    int64_t handshakes_due;  // of new connections, in its next turn
    int64_t interruption;  // number of its next interruption by the host
    int64_t interruption_ps;  // how long it lasts
    int64_t wake_up;  // number of its next wake-up
    int64_t wake_latency_ps;  // how long that takes
    int64_t slept_ps;  // when it last fell asleep
    int64_t rested_ps;  // and how long it slept until it was woken
    int64_t since_ps;  // start of the present spin
    int64_t stopped_ps;  // when the policy stopped it
    int64_t on_cpu_ps;  // main thread: useful work and spinning inside the measured window
    // Of threads that own their clients.
    int64_t running;  // 0: from when it decides to sleep until its epoll_wait has returned
    int64_t dont_sleep;  // 1: its next epoll_wait doesn't block
    int64_t told;  // how many of its eventfds are readable
    int64_t told_main;  // 1: it wrote to the main thread's eventfd for it
    int64_t handed_over;  // clients handed over to the main thread
    int64_t position;  // in a list it has taken: number of the next client
    int64_t left;  // in that list
    // Of threads that execute under locks.
    int64_t *item_lock;  // of the command under way
    int64_t *new_list;  // the lock of the list that its item enters
    int64_t *old_list;  // and of the one that the old item leaves
    int64_t *waits_for;  // a lock that it sleeps for or is about to, or NULL
    int64_t ticket;  // among those who sleep, the lowest is next
    // Where it shares cores.
    int64_t turn_ps;  // length of the equal turns it spins in
    int64_t turns_until_ps;  // the turn that ends then or later is not one of them
    int64_t away_ps;  // time without a core in the present turn, inside the measured window
    int64_t taking_from;  // generator: first request whose reply it takes
    int64_t waking_ps;  // and what it adds to a send then to wake its client's owner
    int64_t unused_1[7];
};

struct task {
    int64_t first_core;
    int64_t last_core;  // it may run on these, the last excluded; none: it has its own
    int64_t home;  // the core it runs on, waits at or ran on last
    int64_t state;  // `ON_CORE` and so on
    int64_t virtual_ps;  // CPU time, but for where it was placed when it woke or moved
    int64_t on_since_ps;  // since when it has its core, or has to do without one
    int64_t goes_on_ps;  // when it went on after it got its core
    int64_t left_ps;  // of what it computes; spinning in turns: how far it is in a turn
    int64_t due;  // 1: its event happened while it waited for a core
    int64_t on_core_ps;  // inside the measured window
    int64_t hot_until_ps;  // until then a core that falls idle leaves it where it waits
    int64_t deadline_ps;  // of its slice, in virtual runtime
    int64_t keeps_until_ps;  // virtual runtime until which it keeps its core while it is eligible
    int64_t lag_ps;  // how far it was behind the average of its core when it blocked
    int64_t delayed;  // 1: it blocked ahead of the average, and still counts there
    int64_t woke_busy;  // 1: somebody had its core when it was woken
};

struct core {
    int64_t occupant;  // task number, or -1
    int64_t slices;  // for which it has been shared
    int64_t timed;  // 1: the end of the slice is in the calendar
    int64_t local_ps;  // what it has taken of the quota and not used
    int64_t throttled_as;  // a number that rises from one throttled core to the next; 0: it isn't
                           // throttled
    int64_t unused[3];
};

struct source {
    int64_t next_request;  // its number
    int64_t piece;
    int64_t piece_ends_ps;
};

struct client {
    int64_t arrived;  // in the server's socket
    int64_t read;  // completely read by the server
    int64_t executed;
    int64_t written;  // replies handed to the server's kernel
    int32_t jobs;  // `READ_UNDER_WAY` and so on
    int32_t watched;  // 1: in the kernel's list of ready sockets
    int64_t served_by;  // the I/O thread that had its last job, and among how many
    int64_t partial_bytes;  // of the next command, already read
    int64_t buffered_bytes;  // that its thread has read at most, and left for a later turn
    int64_t write_upto;  // replies covered by the write under way
    int64_t write_bytes;  // their bytes
    int32_t generator;  // agent number of its thread of the load generator
    int32_t owner;  // and of the server's thread that watches its socket
    struct slot *slots;  // its commands on their way
    int64_t sent;  // by the client
    int64_t returned;  // replies in the client's socket
    int64_t received;  // replies taken by the client
    int64_t taken_bytes;  // of the next reply
    int64_t readable_ps;  // since when its socket has been in the kernel's list
    int64_t scanned_ps;  // when the last poll found its socket empty
    int64_t ready_ps;  // since when it has replies to be taken
    int64_t first_read_ps;  // when it began to read the replies to a batch
    uint32_t marks[MARKS];  // of the command it sends next and those around it
};

struct node {
    // Durations of steps, in ps: `NodeTimes` in setup.py says what they are.
    int64_t loop_ps;
    int64_t poll_ps;
    int64_t poll_event_ps;
    int64_t doze_ps;
    int64_t block_ps;
    int64_t wake_send_ps;
    int64_t short_block_ps;
    int64_t short_wake_send_ps;
    int64_t long_sleep_ps;
    int64_t read_event_ps;
    int64_t recv_ps;
    int64_t send_ps;
    int64_t write_event_ps;
    int64_t recv_ps_per_kib;
    int64_t send_ps_per_kib;
    int64_t push_ps;
    int64_t pop_ps;
    int64_t scan_ps;
    int64_t event_ps;
    int64_t done_ps;
    int64_t collect_ps;
    int64_t handover_ps;
    int64_t activate_ps;
    int64_t thread_wake_ps;
    int64_t generator_poll_ps;
    int64_t generator_poll_event_ps;
    int64_t generator_recv_ps;
    int64_t generator_reply_ps;
    int64_t generator_recv_ps_per_kib;
    int64_t generator_send_ps_per_kib;
    int64_t generator_send_ps;
    int64_t generator_request_ps;
    int64_t one_way_ps;
    int64_t wire_ps_per_kib;
    int64_t free_push_ps;
    int64_t accept_ps;
    int64_t handshake_ps;
    int64_t publish_ps;
    int64_t own_turn_ps;
    int64_t notify_ps;
    int64_t notice_ps;
    int64_t packet_ps;
    int64_t flow_ps_per_kib;
    int64_t free_arguments_ps;
    int64_t softirq_ps;
    int64_t switch_ps;
    int64_t flush_ps;
    int64_t rearm_ps;
    int64_t futex_ps;

    // Counts and rules: `NodeSetup` there.
    int64_t io_threads;
    int64_t clients;
    int64_t generators;
    int64_t pipeline;
    int64_t open_loop;
    int64_t mean_interarrival_ps;
    int64_t think_ps;
    int64_t same_host;
    int64_t prefetch_batch;
    int64_t events_per_io_thread;
    int64_t whole_pipeline;
    int64_t lookahead;
    int64_t job_capacity;
    int64_t spin_ps;
    int64_t ignite_period_ps;
    int64_t grow_period_ps;
    int64_t shrink_after_ps;
    int64_t initial_active;
    int64_t outstanding_limit;
    int64_t warmup_ps;
    int64_t end_ps;
    int64_t series_ps;
    int64_t seed;
    int64_t replication;
    int64_t read_limit_bytes;
    int64_t commands_per_event;
    int64_t write_limit_bytes;
    int64_t segment_bytes;
    int64_t interruption_gap_ps;
    int64_t backlog_limit;
    int64_t generator_spins;
    int64_t connection_gap_ps;
    int64_t offload_handshakes;
    int64_t first_owner;
    int64_t owners;
    int64_t io_threads_do_reads;
    int64_t clients_in_blocks;
    int64_t generator_start_ps;
    int64_t hand_over_group;
    int64_t segment_size_bytes;
    int64_t header_bytes;
    int64_t interrupt_cores;
    int64_t server_cores;
    int64_t generator_cores;
    int64_t shared_cores;
    int64_t slice_ps;
    int64_t tick_ps;
    int64_t cache_hot_ps;
    int64_t other_threads;
    int64_t main_pinned;
    int64_t sibling_threads;
    int64_t quota_ps;
    int64_t quota_period_ps;
    int64_t quota_slice_ps;
    int64_t fsync_always;
    int64_t replicas;
    int64_t item_locks;
    int64_t lists;
    int64_t random_pieces;
    int64_t trace_period_ps;
    int64_t generator_refills;
    int64_t polls_to_send;
    int64_t generator_read_bytes;
    int64_t counts_first_read;

    // What has no fixed size, and sizes.
    struct client *client_rows;
    int64_t *prefetch;
    struct client **pending_writes;
    struct client **batch;
    struct source *source_rows;
    struct interval *series;
    int64_t series_entries;
    struct completion *log;
    int64_t log_entries;
    int64_t outstanding_mask;
    int64_t lookahead_ps;
    int64_t frees;  // 1: commands leave something that I/O threads free
    int64_t write_waits;  // 1: writers wait for some values
    int64_t *flows_in_free_ps;
    int64_t *flows_out_free_ps;  // a word per client
    int64_t *interrupts_free_ps;  // a word per interrupt core
    int64_t *locks;  // a word per item lock: whether it is held, and whether somebody may wait
    int64_t *lock_by_draw;
    int64_t *list_by_draw;
    int64_t *process_locks;
    int64_t *section_ps;
    int64_t *section_moved_ps;

    // Counters of the measured window. All but the first two and the last start again when it begins.
    int64_t completions;
    int64_t uncounted_ps;  // from where the tool stops its clock until the reply is taken
    int64_t loops;
    int64_t polls;
    int64_t reads;
    int64_t writes;
    int64_t blocks;
    int64_t blocks_ps;
    int64_t paid_wakes;
    int64_t paid_wakes_ps;
    int64_t prefetch_batches;
    int64_t prefetched_keys;
    int64_t inline_reads;
    int64_t inline_writes;
    int64_t refused_jobs;
    int64_t found_again;  // events of clients that have a job already
    int64_t activations;
    int64_t generator_polls;
    int64_t unsent_ps;  // of all requests, between the last reply of a batch and the next send
    int64_t arrivals;
    int64_t overflows;
    int64_t wire_bytes_out;
    int64_t wire_bytes_in;
    int64_t freed_values;
    int64_t inline_frees;
    int64_t handshakes;
    int64_t inline_handshakes;
    int64_t join_wait_ps;  // fork-join: the main thread has done its share and waits for the others
    int64_t notifications;  // writes to eventfds
    int64_t list_moves;  // lists of clients joined to a peer's
    int64_t inline_arguments;  // commands whose arguments the main thread freed
    int64_t packets_in;
    int64_t packets_out;
    int64_t interrupt_ps;
    int64_t switches;  // threads that took a core over
    int64_t flushes;
    int64_t lock_waits;  // times that a lock was found taken
    int64_t resumed_reads;  // reads that went on with what an earlier one had left
    int64_t rearms;  // sockets of which epoll was asked for another event than before
    int64_t throttles;  // cores that a quota left no time
    int64_t throttled_periods;  // that end while a core is throttled
    int64_t sibling_ps;  // that busy siblings added to the server's steps
    int64_t active_thread_ps;

    // State of the network and of the policy.
    int64_t until_ps;  // where events stop for the window to begin or to end
    int64_t active_threads;
    int64_t active_since_ps;
    int64_t poll_state;
    int64_t reads_in_flight;
    int64_t writes_in_flight;
    int64_t nic_in_free_ps;
    int64_t nic_out_free_ps;
    int64_t productive;
    int64_t turn_started_ps;
    int64_t samples;
    int64_t sample_sum;
    int64_t next_sample_ps;
    int64_t changed_ps;
    int64_t main_active_ps;
    int64_t sampled_active_ps;
    int64_t logged;
    int64_t pending_write_count;
    int64_t next_private;
    int64_t entry_from_ps;
    struct interval *entry;  // of the series, for the last completion; it begins at `entry_from_ps`
    int64_t completed_early;  // completions before the window
    int64_t
        backlog_at_start;  // open loop: requests due before the window and not completed before it
    int64_t frees_sent;  // job rings: values handed out to be freed
    int64_t connection;  // number of the next new connection
    int64_t accepted_connections;
    int64_t connection_due_ps;  // when it arrives
    int64_t forked_clients;  // fork-join: how many the threads share
    int64_t forked_reads;  // 1: to read from them; 0: to write to them
    int64_t shares_left;  // I/O threads that have not finished theirs
    int64_t joined_ps;  // when the main thread can see that the last one has
    int64_t packets_free_ps;
    int64_t lock_tickets;  // threads that have queued for a lock

    // Cores that threads share (see cores.h).
    int64_t crowded;  // 1: there are some
    int64_t tasks_of_cores;  // threads that may want one, those of other programs last
    struct task *task_rows;
    struct core *core_rows;
    int64_t first_core_agent;
    int64_t cores;
    int64_t pool_ps;  // what is left of the quota in this period
    int64_t tickets;  // times a core was throttled
    int64_t busy_siblings;  // threads with a core among those that may share physical ones
    int64_t *sibling_scale;  // how many times as long their steps take, by how many are busy
    int64_t most_siblings;  // the last entry

    // Rings.
    struct ring shared_jobs;
    struct line done_reads;
    struct line done_writes;
    struct ring responses;

    // Of workloads.
    int64_t several_keys;  // 1: some commands have more than one key
    int64_t rare_below;  // draws below this are rare commands
    int64_t logged_bytes;  // written since the last flush
    int64_t pieces;  // of arrivals at constant rate
    int64_t *piece_table;  // their lengths and, behind them, their gaps
    int64_t traced;  // requests of a trace
    int64_t *trace_table;  // their times and, behind them, their commands

    int64_t steps_ahead;  // taken together with the step before, but counted as events

    int64_t unused[HEADER_WORDS - 230];
    int64_t jitter[QUANTILES];
    int64_t interruptions_ps[QUANTILES];
    int64_t wake_latency_ps[QUANTILES];
    uint8_t code_by_draw[DRAWS];  // numbers of commands
    struct command commands[MOST_CODES];
    struct thread threads[];
};

#endif
