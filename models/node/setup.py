"""What one node simulation is made of: durations of steps, and counts and rules.

Both executions read the same two records. Durations are whole picoseconds, so that both compute
the same times to the last digit.
"""

from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

T = TypeVar("T", int, np.ndarray)

QUANTILES = 256
"""Rows of an inverse distribution function: stall times, jitter and interruptions are drawn from
so many."""

DRAWS = 1024
"""Slots of the command table: the mix of commands and sizes is kept to one part in so many."""

BIG_ARGUMENT_BYTES = 32 * 1024
"""PROTO_MBULK_BIG_ARG: from here on an argument is read to its end in one go (server.h)."""

JITTER_ONE = 1 << 16
"""The value of a jitter factor of one."""

SENT_PS = 1
"""What is left of a write once its reply has left, on a core that others share: the reply may wake
a thread that takes the core over before the sender can say that it is done."""

SLICES_PER_BALANCE = 8
"""Slices for which a core is shared before it passes a thread on to another core. Assumed: Linux
takes several times as long, so that a run of a second would hold few of the ways in which threads
can share cores; this way it holds many."""

KEPT_BUDGET_PS = 10**9
"""Of a CPU quota, what a core keeps when it has no thread left that needs it (kernel/sched/fair.c,
min_cfs_rq_runtime)."""


class NodeTimes(NamedTuple):
    """How long each step takes, in picoseconds; arrays are int64.

    The index of `..._by_code` arrays is the command code: what the command is and how large its
    value. `stall_ps[code, q]` is the time an execution waits for memory at quantile q;
    `jitter[q]` multiplies kernel steps (`JITTER_ONE` is a factor of one).
    """

    # the server's threads
    loop_ps: int
    """Fixed part of one turn of the main thread's event loop."""
    poll_ps: int
    """One epoll_wait that returns."""
    poll_event_ps: int
    """Each event it returns."""
    doze_ps: int
    """CPU time of going to sleep in epoll_wait; what arrives meanwhile needs no wake-up."""
    block_ps: int
    """CPU time of being scheduled again."""
    wake_send_ps: int
    """Time that waking a sleeper adds to the sender's system call."""
    short_block_ps: int
    short_wake_send_ps: int
    """`block_ps` and `wake_send_ps` of a thread that is woken as soon as it has fallen asleep."""
    long_sleep_ps: int
    """Time asleep from which on the whole price is paid; from 0 on where it is 0."""
    read_event_ps: int
    """User-space work per readable client."""
    recv_ps: int
    """One recv of a small message."""
    send_ps: int
    """One send of a small message."""
    write_event_ps: int
    """User-space work per client written to."""
    recv_ps_per_kib: int
    """Kernel copy out of a socket, per 1024 bytes."""
    send_ps_per_kib: int
    """Kernel copy into a socket and segmentation, per 1024 bytes."""
    push_ps: int
    """Main thread: hand a job to an I/O thread."""
    pop_ps: int
    """I/O thread: take a job, and report it done."""
    scan_ps: int
    """Main thread: look at one client whose job is not done."""
    event_ps: int
    """Main thread: an event of a client who has a job already, which a poll found again."""
    done_ps: int
    """Main thread: bookkeeping for a finished write."""
    collect_ps: int
    """Main thread: take one finished job from the I/O threads."""
    handover_ps: int
    """Until a spinning thread sees what another thread wrote: a line's way between cores."""
    activate_ps: int
    """Main thread: start or stop one I/O thread."""
    thread_wake_ps: int
    """Until an I/O thread that sleeps on its mutex runs again."""
    # the load generator
    generator_poll_ps: int
    generator_poll_event_ps: int
    generator_recv_ps: int
    generator_reply_ps: int
    generator_send_ps: int
    generator_recv_ps_per_kib: int
    """The same copies at the load generator."""
    generator_send_ps_per_kib: int
    generator_request_ps: int
    # the network
    one_way_ps: int
    wire_ps_per_kib: int
    # the server's threads again
    free_push_ps: int
    """Main thread: hand a command's arguments, or what it replaced, to a thread that frees them."""
    accept_ps: int
    """Main thread: accept a new connection."""
    handshake_ps: int
    """TLS handshake of a new connection."""
    publish_ps: int
    """Main thread: tell one I/O thread that its share is ready (fork-join)."""
    own_turn_ps: int
    """One turn of an I/O thread's own event loop."""
    notify_ps: int
    """One write to a peer's eventfd; waking it comes on top."""
    notice_ps: int
    """One read of an eventfd that has become readable."""
    # the network's other limits
    packet_ps: int
    """Between two packets, of both directions together; 0: no limit."""
    flow_ps_per_kib: int
    """One connection: per 1024 bytes in either direction; 0: no limit of its own."""
    free_arguments_ps: int
    """Freeing a command's arguments, where that is a job of its own for the thread that read them;
    0: it is part of parsing."""
    softirq_ps: int
    """Interrupt cores: one packet from the network interface to its socket."""
    switch_ps: int
    """Until a thread that takes a core over from another goes on."""
    flush_ps: int
    """Main thread, once a turn with writes: hand what was logged to the kernel."""
    rearm_ps: int
    """Ask epoll to report another event of a socket than before: that it can be written to, where a
    thread turns to others before it has served what it read, or again that it holds data."""
    futex_ps: int
    """Under locks: ask the kernel to sleep until a lock is free, or to wake who sleeps."""
    # per command
    parse_by_code_ps: np.ndarray
    execute_by_code_ps: np.ndarray
    """Execution with all its lines in the nearest cache."""
    stall_ps: np.ndarray
    prefetched_stall_by_code_ps: np.ndarray
    """Remaining wait for memory when all of its keys were fetched ahead."""
    prefetch_by_keys_ps: np.ndarray
    """Interleaved look-up of 0, 1, 2 ... keys, up to the batch limit."""
    request_bytes_by_code: np.ndarray
    reply_bytes_by_code: np.ndarray
    write_by_code_ps: np.ndarray
    """Wait of the thread that writes a reply for a value that is sent from where it lies."""
    free_by_code_ps: np.ndarray
    """Freeing what a command replaced, where that is a job of its own; 0: it is not."""
    keys_by_code: np.ndarray
    """Keys of a command, which batches count and look up; at least one."""
    logged_bytes_by_code: np.ndarray
    """Bytes a command adds to the append-only file and to the replication stream."""
    rare_below_by_code: np.ndarray
    """Of commands too rare for `code_by_draw`: a request whose draw of 32 bits is below this, and
    not below that of a code before, is such a command; 0: not a rare one."""
    code_by_draw: np.ndarray
    lock_by_draw: np.ndarray
    """(1024,) the item lock of commands on a popular key; -1: any of them."""
    list_by_draw: np.ndarray
    """(1024,) the size class of what a SET stores, or replaces."""
    section_ps: np.ndarray
    """(7,) what a SET does under each of the process's locks that it takes, in order."""
    section_moved_ps: np.ndarray
    """(7,) and fetching what the lock protects, where another thread held it last."""
    jitter: np.ndarray
    wake_latency_ps: np.ndarray
    """(256,) from the send that wakes a sleeper until it runs, at each quantile."""
    interruption_ps: np.ndarray
    """(256,) how long an interruption takes a thread's core away, at each quantile."""
    # arrivals in an open loop
    piece_ps: np.ndarray
    """Length of each piece of constant rate; the pieces repeat. Empty: the rate is constant."""
    piece_gap_ps: np.ndarray
    """Mean time between two requests of one generator thread in each piece; 0: none come."""
    trace_due_ps: np.ndarray
    """When each request of a trace falls due, in order; empty: there is none."""
    trace_code: np.ndarray
    """Its command code."""
    sibling_scale: np.ndarray
    """By how many threads are busy on the server's host, in units of 1 / `JITTER_ONE`: how many
    times as long a step takes whose thread may share its physical core. Empty: none does."""


NO_LIMIT = 1 << 40
"""More commands than any client ever sends at a time."""


class NodeSetup(NamedTuple):
    """Counts and rules of one simulated run."""

    io_threads: int
    """As the engine counts: the main thread included."""
    clients: int
    generators: int
    """Threads of the load generator; see `generator_of` for whose clients are whose."""
    pipeline: int
    open_loop: int
    """1: requests arrive by themselves; 0: each client waits for its replies."""
    mean_interarrival_ps: int
    """Open loop: between two requests of one generator thread (Poisson)."""
    think_ps: int
    """Closed loop: from the last reply of a batch to the next batch; 0: at once."""
    same_host: int
    """1: server and generator share a kernel, so the sender wakes the sleeper."""
    prefetch_batch: int
    """prefetch-batch-max-size; 0 or 1: no prefetch."""
    events_per_io_thread: int
    """events-per-io-thread; 0: all threads always."""
    whole_pipeline: int
    """1: a reader parses the complete commands it has ahead; 0: the first only."""
    lookahead: int
    """Commands of one client that are parsed ahead of their execution, at most; `NO_LIMIT`: all."""
    job_capacity: int
    """Entries of the queue from the main thread to an I/O thread (or to all of them)."""
    spin_ps: int
    """How long an I/O thread without work spins before it sleeps on its mutex."""
    ignite_period_ps: int
    grow_period_ps: int
    shrink_after_ps: int
    initial_active: int
    """I/O threads active at the start, the main thread included."""
    outstanding_limit: int
    """Requests one client may have in flight."""
    warmup_ps: int
    end_ps: int
    series_ps: int
    """Length of one entry of the recorded time series."""
    seed: int
    replication: int
    read_limit_bytes: int
    """Most bytes of one read (PROTO_IOBUF_LEN)."""
    commands_per_event: int
    """Most commands of one read; the rest waits for the next turn (-R of Memcached). `NO_LIMIT`:
    all that were read."""
    write_limit_bytes: int
    """Bytes after which a write continues with another call (NET_MAX_WRITES_PER_EVENT)."""
    segment_bytes: int
    """Bytes of a call that go through the network stack together."""
    interruption_gap_ps: int
    """From one interruption of a thread by its host to the next (Poisson); 0: there are none."""
    backlog_limit: int
    """Open loop: requests per connection that may be due and not yet sent."""
    generator_spins: int
    """1: an idle load generator keeps polling, so that no sender has to wake it."""
    connection_gap_ps: int
    """From one new connection to the next (Poisson); 0: there are none."""
    offload_handshakes: int
    """1: I/O threads do the TLS handshakes of new connections; 0: the main thread."""
    first_owner: int
    """The first of the threads that watch sockets."""
    owners: int
    """How many threads watch the sockets of their own clients, each with its own epoll. With
    `first_owner` 0 and one of them, the main thread's epoll watches all."""
    io_threads_do_reads: int
    """Fork-join: 1: active I/O threads read as well; 0: they write only."""
    clients_in_blocks: int
    """1: each generator thread connects all its clients before the next thread does; 0: connections
    go to the generator's threads in turn. The server sees clients in the order they connect."""
    generator_start_ps: int
    """Closed loop: from one generator thread's first requests to the next thread's."""
    hand_over_group: int
    """Clients after which a thread hands over before its turn ends; `NO_LIMIT`: at its end."""
    segment_size_bytes: int
    """Bytes of a message per packet (TCP's maximum segment size)."""
    header_bytes: int
    """Further bytes of each packet on the wire."""
    interrupt_cores: int
    """Cores of the server that only take packets from its network interface; 0: the threads' steps
    contain that work."""
    server_cores: int
    """Cores for the server's threads; 0: each has its own."""
    generator_cores: int
    """Cores for the load generator's threads; 0: each has its own."""
    shared_cores: int
    """1: the load generator's threads run on the server's cores."""
    slice_ps: int
    """How long a thread keeps its core while others wait for it."""
    tick_ps: int
    """Ends of slices are noticed at multiples of this; 0: at once."""
    cache_hot_ps: int
    """Idle cores leave a thread at the core it waits for if it ran there this recently."""
    other_threads: int
    """Threads of other programs on the server's cores that never block."""
    main_pinned: int
    """1: of the server's cores one is the main thread's, which stays there alone."""
    sibling_threads: int
    """Threads, from the first, whose steps take longer where more of them are busy than there are
    physical cores, by `sibling_scale`; 0: each of them has a core that nobody shares."""
    quota_ps: int
    """CPU time that all server threads together may take per period; 0: no limit."""
    quota_period_ps: int
    quota_slice_ps: int
    """CPU time that a core takes from the quota at a time."""
    fsync_always: int
    """1: replies wait until the turn's writes are in the file."""
    replicas: int
    """Copies of logged writes that leave the host."""
    item_locks: int
    """Number of item locks, one of which is chosen by the hash of the key."""
    lists: int
    """Size classes of what is stored, each of which has lists with locks of their own."""
    random_pieces: int
    """1: the pieces of `piece_ps` have exponential lengths of that mean."""
    trace_period_ps: int
    """Period after which a trace begins again."""

    generator_refills: int
    """Closed loop without think time. 1: a client sends one request for each reply that it reads;
    0: its next batch once it has all replies of the last."""
    polls_to_send: int
    """Closed loop without think time. 1: a client's next batch is sent in the round after the poll
    that follows its last reply; 0: as soon as that reply is taken."""
    generator_read_bytes: int
    """Most bytes of replies that the load generator reads at a time."""
    counts_first_read: int
    """1: the tool counts the latency of a batch until it begins to read the first reply; 0: that of
    each reply until it is read."""

    def generator_of(self, client: T) -> T:
        """Which thread of the load generator a client belongs to."""
        if self.clients_in_blocks:
            return client * self.generators // self.clients
        return client % self.generators


OWN_CORE = (0, 0)
"""The range of a thread that has a core of its own."""


def shared_range(setup: NodeSetup) -> tuple[int, int]:
    """First core and last + 1 of those that threads of the server have to share; or `OWN_CORE`."""
    rest = setup.io_threads - setup.main_pinned
    rest += setup.generators if setup.shared_cores else 0
    cores = setup.server_cores - setup.main_pinned
    crowded = setup.server_cores > 0 and cores < rest + setup.other_threads
    return (0, cores) if rest > 0 and crowded else OWN_CORE


# One run asks several times.
@lru_cache(maxsize=8)
def core_ranges(setup: NodeSetup) -> tuple[tuple[int, int], ...]:
    """First core and last + 1 of those that each thread may run on.

    Server threads come first, then those of the load generator. `OWN_CORE` stands for a core of its
    own, which a pinned main thread has, and all threads of a group that has no more than cores.
    Under a quota these cores of server threads have numbers as well: it is kept by core. So have
    those of threads that compete for physical cores: it is known then which of them are busy.
    """
    server = generators = shared_range(setup)
    main = OWN_CORE if setup.main_pinned else server
    if not setup.shared_cores:
        generators = OWN_CORE
        if 0 < setup.generator_cores < setup.generators:
            generators = (server[1], server[1] + setup.generator_cores)
    ranges = [main, *[server] * (setup.io_threads - 1), *[generators] * setup.generators]
    following = max(last for _, last in ranges)
    limited = setup.io_threads if setup.quota_ps > 0 else 0
    for thread in range(max(limited, setup.sibling_threads)):
        if ranges[thread] == OWN_CORE:
            ranges[thread] = (following, following + 1)
            following += 1
    return tuple(ranges)


def n_cores(setup: NodeSetup) -> int:
    """Cores that threads share, or on which their time is counted."""
    return max(last for _, last in core_ranges(setup))


def owners(setup: NodeSetup) -> range:
    """Agent numbers of the threads that watch sockets."""
    return range(setup.first_owner, setup.first_owner + setup.owners)


def owner_of(setup: NodeSetup, client: T) -> T:
    """Agent number of the thread that watches a client's socket.

    Clients connect in the order of their numbers, and each goes to the thread with the fewest: to
    one after the other.
    """
    return setup.first_owner + client % setup.owners


def rounded_capacity(entries: int) -> int:
    """Entries of a ring that holds at least so many: a power of two."""
    return 1 << max(0, entries - 1).bit_length()
