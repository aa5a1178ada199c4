"""Where everything of a node simulation lies in its memory, one int64 array.

Compiled code reads `memory[at.RECV_PS]` for a scalar and `memory[client + at.READ]` for a field of
a client, where `client` is the offset of its row. One array means one argument, which lets the
compiler keep everything in registers; names mean that it still reads like a record.

Whatever has a fixed size lies at a fixed place, so that compiled code needs no look-up to find it.
Fields that are used together share a cache line of eight words. The order of the first two groups
is that of `NodeTimes` and `NodeSetup`; a test compares them.
"""

from typing import NamedTuple

import numpy as np

from forecache.sim.calendar import new_calendar
from forecache.sim.histogram import LatencyHistogram
from forecache.sim.stamped_rings import (
    POPPED,
    PUSHED,
    RING_WORDS,
    STAMPED_WORDS,
    entry_words,
    initialise,
    rounded_capacity,
    values,
)

from .setup import (
    DRAWS,
    QUANTILES,
    NodeSetup,
    NodeTimes,
    core_ranges,
    n_cores,
    owner_of,
    owners,
    shared_range,
)

# Where each group begins: after the names of the one before it.
_SETUP = 41
_OFFSETS = _SETUP + 56
_COUNTERS = _OFFSETS + 19
_STATE = _COUNTERS + 35
_CORES = _STATE + 33
_RINGS = _CORES + 8

# fmt: off
(
    LOOP_PS, POLL_PS, POLL_EVENT_PS, DOZE_PS, BLOCK_PS, WAKE_LATENCY_PS, WAKE_SEND_PS,
    READ_EVENT_PS, RECV_PS, SEND_PS, WRITE_EVENT_PS, COPY_PS_PER_KIB, PUSH_PS, POP_PS, SCAN_PS,
    DONE_PS, COLLECT_PS, HANDOVER_PS, ACTIVATE_PS, THREAD_WAKE_PS, GENERATOR_POLL_PS,
    GENERATOR_POLL_EVENT_PS, GENERATOR_RECV_PS, GENERATOR_REPLY_PS, GENERATOR_SEND_PS,
    GENERATOR_REQUEST_PS, ONE_WAY_PS, WIRE_PS_PER_KIB, FREE_PUSH_PS, ACCEPT_PS, HANDSHAKE_PS,
    PUBLISH_PS,
    OWN_TURN_PS, NOTIFY_PS, NOTICE_PS,
    PACKET_PS, FLOW_PS_PER_KIB,
    FREE_ARGUMENTS_PS,
    SOFTIRQ_PS,
    SWITCH_PS,
    FLUSH_PS,
) = range(_SETUP)

(
    IO_THREADS, CLIENTS, GENERATORS, PIPELINE, OPEN_LOOP, MEAN_INTERARRIVAL_PS, THINK_PS,
    SAME_HOST, PREFETCH_BATCH, EVENTS_PER_IO_THREAD, WHOLE_PIPELINE, JOB_CAPACITY,
    SPIN_PS, IGNITE_PERIOD_PS, GROW_PERIOD_PS, SHRINK_AFTER_PS, INITIAL_ACTIVE,
    OUTSTANDING_LIMIT, WARMUP_PS, END_PS, SERIES_PS, SEED, REPLICATION, READ_LIMIT_BYTES,
    WRITE_LIMIT_BYTES, SEGMENT_BYTES, INTERRUPTION_GAP_PS, BACKLOG_LIMIT, GENERATOR_SPINS,
    CONNECTION_GAP_PS, OFFLOAD_HANDSHAKES, FIRST_OWNER, OWNERS,
    IO_THREADS_DO_READS,
    CLIENTS_IN_BLOCKS, GENERATOR_START_PS,
    HAND_OVER_GROUP,
    SEGMENT_SIZE_BYTES, HEADER_BYTES, INTERRUPT_CORES,
    SERVER_CORES, GENERATOR_CORES, SHARED_CORES, SLICE_PS, TICK_PS, CACHE_HOT_PS,
    OTHER_THREADS,
    MAIN_PINNED, QUOTA_PS, QUOTA_PERIOD_PS, QUOTA_SLICE_PS,
    FSYNC_ALWAYS, REPLICAS,
    ITEM_LOCKS, RANDOM_PIECES, TRACE_PERIOD_PS,
) = range(_SETUP, _OFFSETS)

# Offsets of what has no fixed size, and sizes.
(
    CLIENT_ROWS, PREFETCH, PENDING_WRITES, BATCH, SOURCE_ROWS, SERIES, SERIES_ENTRIES, LOG,
    LOG_ENTRIES, OUTSTANDING_MASK, LOOKAHEAD_PS, SOURCES_DIGEST,
    FREES,  # 1: commands leave something that I/O threads free
    WRITE_WAITS,  # 1: writers wait for some values
    FLOWS_IN_FREE_PS, FLOWS_OUT_FREE_PS,  # a word per client
    INTERRUPTS_FREE_PS,  # a word per interrupt core
    LOCKS,  # a word per item lock: whether it is held, and who waits
    LOCK_BY_DRAW,
) = range(_OFFSETS, _COUNTERS)

# Counters of the measured window. All but the two around them start again when it begins.
(
    COMPLETIONS, LOOPS, POLLS, READS, WRITES, BLOCKS, PAID_WAKES, PREFETCH_BATCHES,
    PREFETCHED_KEYS, INLINE_READS, INLINE_WRITES, REFUSED_JOBS, ACTIVATIONS, GENERATOR_POLLS,
    ARRIVALS, OVERFLOWS, WIRE_BYTES_OUT, WIRE_BYTES_IN, FREED_VALUES,
    INLINE_FREES, HANDSHAKES, INLINE_HANDSHAKES,
    JOIN_WAIT_PS,  # fork-join: the main thread has done its share and waits for the others
    NOTIFICATIONS,  # writes to eventfds
    LIST_MOVES,  # lists of clients joined to a peer's
    INLINE_ARGUMENTS,  # commands whose arguments the main thread freed
    PACKETS_IN, PACKETS_OUT, INTERRUPT_PS,
    SWITCHES,  # threads that took a core over
    FLUSHES,
    LOCK_WAITS,  # times that a lock was found taken
    THROTTLES,  # cores that a quota left no time
    THROTTLED_PERIODS,  # that end while a core is throttled
    ACTIVE_THREAD_PS,
) = range(_COUNTERS, _STATE)
FIRST_COUNTER, LAST_COUNTER = COMPLETIONS, ACTIVE_THREAD_PS

SERIES_WORDS = 3
"""Of an entry of the series: completions, their summed latency, arrivals."""

# State of the network and of the policy.
(
    UNTIL_PS,  # where events stop for the window to begin or to end
    ACTIVE_THREADS, ACTIVE_SINCE_PS, POLL_STATE, READS_IN_FLIGHT, WRITES_IN_FLIGHT, NIC_IN_FREE_PS,
    NIC_OUT_FREE_PS,
    PRODUCTIVE, TURN_STARTED_PS, SAMPLES, SAMPLE_SUM, NEXT_SAMPLE_PS, CHANGED_PS, MAIN_ACTIVE_PS,
    SAMPLED_ACTIVE_PS, LOGGED, PENDING_WRITE_COUNT, NEXT_PRIVATE,
    ENTRY_FROM_PS, ENTRY,  # the series entry of the last completion: where it begins and lies
    COMPLETED_EARLY,  # completions before the window
    BACKLOG_AT_START,  # open loop: requests due before the window and not completed before it
    FREES_SENT,  # job rings: values handed out to be freed
    CONNECTION,  # number of the next new connection
    ACCEPTED_CONNECTIONS,
    CONNECTION_DUE_PS,  # when it arrives
    FORKED_CLIENTS,  # fork-join: how many the threads share
    FORKED_READS,  # 1: to read from them; 0: to write to them
    SHARES_LEFT,  # I/O threads that have not finished theirs
    JOINED_PS,  # when the main thread can see that the last one has
    PACKETS_FREE_PS,
    LOCK_TICKETS,  # threads that have queued for a lock
) = range(_STATE, _CORES)

# Cores that threads share (see `compiled.cores`).
(
    CROWDED,  # 1: there are some
    TASKS_OF_CORES,  # threads that may want one, those of other programs last
    TASK_ROWS, CORE_ROWS,  # offsets
    FIRST_CORE_AGENT,
    CORES,
    POOL_PS,  # what is left of the quota in this period
    TICKETS,  # times a core was throttled
) = range(_CORES, _RINGS)

# Rings (see `forecache.sim.stamped_rings`).
SHARED_JOBS, DONE_READS, DONE_WRITES, RESPONSES = range(_RINGS, _RINGS + 4 * RING_WORDS, RING_WORDS)

# Of workloads.
(
    SEVERAL_KEYS,  # 1: some commands have more than one key
    RARE_BELOW,  # draws below this are rare commands
    LOGGED_BYTES,  # written since the last flush
    PIECES,  # of arrivals at constant rate
    PIECE_TABLE,  # offset of their lengths and, behind them, of their gaps
    TRACED,  # requests of a trace
    TRACE_TABLE,  # offset of their times and, behind them, of their code rows
) = range(_RINGS + 4 * RING_WORDS, _RINGS + 4 * RING_WORDS + 7)
HEADER_WORDS = 216

# Tables of a fixed size.
JITTER = HEADER_WORDS
INTERRUPTIONS_PS = JITTER + QUANTILES
CODE_BY_DRAW = INTERRUPTIONS_PS + QUANTILES  # holds offsets of code rows
CODE_ROWS = CODE_BY_DRAW + DRAWS
MOST_CODES = 256
(
    PARSE_PS, EXECUTE_PS, PREFETCHED_STALL_PS, REQUEST_BYTES, REPLY_BYTES,
    STALLS,  # offset of the inverse distribution function of its stalls
    WRITE_PS, FREE_PS,
    KEYS, RARE, WRITTEN_TO_LOG,
    LIST_LOCK,  # of its size class: whether it is held, and who waits
) = range(12)
CODE_WORDS = 16
THREAD_ROWS = CODE_ROWS + MOST_CODES * CODE_WORDS

# Fields of a thread's row; the row number is the agent number.
(
    PHASE,
    CLIENT,  # what the step under way is about
    INDEX,
    COUNT,
    AMOUNT,
    ASLEEP,  # 1: blocked and not yet woken
    BUSY_PS,  # useful work; at the end, that inside the measured window
    BUSY_UNTIL_PS,  # end of its last piece of useful work
) = range(8)
(
    QUEUE,  # ring: jobs of an I/O thread, replies on their way to a generator thread
    READY_CLIENTS,  # ring: whom a generator thread has replies for
    TASKS,  # ring: whom a generator thread is due to send for, and since when
    IDLE_CLIENTS,  # ring, open loop: connections that wait for a request
) = range(8, 24, RING_WORDS)
(
    TASKS_LEFT,
    TAKEN_PS,  # until when a due request already taken counts as waiting
    SINCE_PS,  # start of the present spin
    STOPPED_PS,  # when the policy stopped it
    AVAILABLE_PS,  # from when on a restarted thread takes jobs
    FETCHED,  # keys of the present batch that were fetched ahead and not yet used
    AGAIN,  # 1: the second look at finished jobs in this turn
    ON_CPU_PS,  # main thread: useful work and spinning inside the measured window
) = range(24, 32)
(
    INTERRUPTION,  # number of its next interruption by the host
    INTERRUPTED_PS,  # when that begins
    INTERRUPTION_PS,  # how long it lasts
    WATCHED_SOCKETS,  # offset of the sockets in its list of ready ones
    WATCHED_COUNT,
    FIRED_COUNT,  # how many watched sockets, from the first, the last poll reported
    BATCHED,  # clients of the batch that is to be handed over next
    HANDSHAKES_DUE,  # of new connections, in its next turn
) = range(32, 40)
REQUEST_WIRE = 40  # ring: what is on its way to the clients whose sockets it watches
# Of threads that own their clients.
(
    RUNNING,  # 0: from when it decides to sleep until its epoll_wait has returned
    DONT_SLEEP,  # 1: its next epoll_wait doesn't block
    TOLD,  # how many of its eventfds are readable
    TOLD_MAIN,  # 1: it wrote to the main thread's eventfd for it
    HANDED_OVER,  # clients handed over to the main thread
    POSITION,  # in a list it has taken: number of the next client
    LEFT,  # in that list
    # Of threads that execute under locks.
    LOCK,  # offset of the item lock it holds or waits for
    WAITS_FOR,  # offset of the lock; 0: of none
    TICKET,  # among those who wait, the lowest is next
) = range(44, 54)
(
    WAITS,  # what it does until its next event: one of the four below
    TURN_PS,  # length of the equal turns it spins in
    TURNS_UNTIL_PS,  # the turn that ends then or later is not one of them
    AWAY_PS,  # time without a core in the present turn, inside the measured window
    TAKING_FROM,  # generator: first request whose reply it takes
    OWNER_SLEPT,  # and whether its client's owner slept when it began
) = range(56, 62)
THREAD_WORDS = 64

# Where a thread that watches sockets has a channel to the main thread and one back, they take the
# place of what only a generator thread has.
TO_MAIN, FROM_MAIN = TASKS, IDLE_CLIENTS

# What a thread does until its next event, of interest where it shares cores.
COMPUTES = 0
SPINS = 1
SPINS_IN_TURNS = 2
"""As a main thread does; what it sees depends on how far it is in a turn."""
SLEEPS = 3

# Fields of a task's row: where a thread stands with the cores it shares; numbered as the threads.
(
    FIRST_CORE, LAST_CORE,  # it may run on these, the last excluded; none: it has its own
    HOME,  # the core it runs on, waits at or ran on last
    STATE,  # one of the three below
    VIRTUAL_PS,  # CPU time, but for what it was raised to when it woke or moved
    ON_SINCE_PS,  # since when it has its core, or has to do without one
    GOES_ON_PS,  # when it went on after it got its core
    LEFT_PS,  # of what it computes; spinning in turns: how far it is in a turn
    DUE,  # 1: its event happened while it waited for a core
    ON_CORE_PS,  # inside the measured window
    HOT_UNTIL_PS,  # until then a core that falls idle leaves it where it waits
) = range(11)
TASK_WORDS = 16

HAS_NO_WORK = 0
"""Blocked."""
ON_CORE = 1
WAITS_FOR_CORE = 2
THROTTLED = 3
"""Waits for the next period at a core that a quota has left no time."""

# Fields of a core's row.
(
    OCCUPANT,  # task number, or -1
    GRANTED_PS,  # since when its slice counts
    SLICES,  # for which it has been shared
    TIMED,  # 1: the end of the slice is in the calendar
    LOCAL_PS,  # what it has taken of the quota and not used
    THROTTLED_AS,  # a number that rises from one throttled core to the next; 0: it isn't throttled
) = range(6)
CORE_WORDS = 8

# Fields of the row of a source of requests.
(
    NEXT_REQUEST,  # its number
    PIECE,
    PIECE_ENDS_PS,
) = range(3)
SOURCE_WORDS = 3

# Fields of a client's row: mostly counts of commands along their way.
(
    ARRIVED,  # in the server's socket
    READ,  # completely read by the server
    EXECUTED,
    WRITTEN,  # replies handed to the server's kernel
    JOBS,  # flags below
    SERVED_BY,  # the I/O thread that had its last job, and among how many
    WATCHED,  # 1: in the kernel's list of ready sockets
    PARTIAL_BYTES,  # of the next command, already read
    WRITE_UPTO,  # replies covered by the write under way
    WRITE_BYTES,  # their bytes
    ENDS,  # agent numbers of its generator thread and, above `OWNER_SHIFT`, of its owner
    SLOTS,  # offset of its commands
    SENT,  # by the client
    RETURNED,  # replies in the client's socket
    RECEIVED,  # replies taken by the client
    NEXT_MARK,  # what was drawn for the command it sends next
) = range(16)
CLIENT_SHIFT = 4
CLIENT_WORDS = 1 << CLIENT_SHIFT

# A client's owner is the server thread that watches its socket.
OWNER_SHIFT = 32
GENERATOR_MASK = (1 << OWNER_SHIFT) - 1

# What is kept of each command in flight.
MARK, DUE_PS = range(2)
SLOT_WORDS = 2
# fmt: on

# Flags in a client's `JOBS`.
READING = 1
WRITING = 2
WRITE_PENDING = 4
"""In the main thread's list of pending writes."""

# States of the poll job.
IDLE = 0
PENDING = 1
COMPLETED = 2

# A mark packs the offset of the code row and three draws of eight bits.
STALL_DRAW = 32
READ_DRAW = 40
WRITE_DRAW = 48
MARK_CODE = (1 << STALL_DRAW) - 1

# An entry of a wire packs the client and a count of commands.
COUNT_BITS = 24
COUNT_MASK = (1 << COUNT_BITS) - 1

_LINE_BYTES = 64


class Node(NamedTuple):
    """The arrays of one run."""

    memory: np.ndarray
    histogram: np.ndarray
    calendar: np.ndarray
    setup: NodeSetup

    def counter(self, index: int) -> int:
        """A counter of the measured window, by its name here."""
        return int(self.memory[index])

    def latency(self) -> LatencyHistogram:
        """Latencies of the measured window."""
        return LatencyHistogram(self.histogram)

    def thread(self, agent: int, field: int) -> int:
        """A field of a thread's row."""
        return int(self.memory[thread_at(agent) + field])

    def on_core_ps(self, agent: int) -> int:
        """Time of the measured window that a thread which shares cores had one."""
        return int(self.memory[self.memory[TASK_ROWS] + agent * TASK_WORDS + ON_CORE_PS])

    def clients(self) -> np.ndarray:
        """(clients, CLIENT_WORDS): the rows of all clients."""
        start = int(self.memory[CLIENT_ROWS])
        rows = self.memory[start : start + self.setup.clients * CLIENT_WORDS]
        return rows.reshape(self.setup.clients, CLIENT_WORDS)

    def client_numbers(self, rows: np.ndarray) -> np.ndarray:
        """The numbers of clients whose rows are at these offsets."""
        return (rows - self.memory[CLIENT_ROWS]) // CLIENT_WORDS

    def outstanding_slots(self) -> int:
        """Requests a client may have in flight: the limit rounded up to a power of two."""
        return int(self.memory[OUTSTANDING_MASK]) + 1

    def commands(self, field: int) -> np.ndarray:
        """(clients, outstanding slots): MARK or DUE_PS of request i, at i modulo slots."""
        start = int(self.clients()[0, SLOTS])
        words = self.setup.clients * self.outstanding_slots() * SLOT_WORDS
        return self.memory[start : start + words].reshape(self.setup.clients, -1, 2)[:, :, field]

    def series(self) -> np.ndarray:
        """(entries, 3): completions, their summed latency in ps and arrivals, from time zero.

        Arrivals are an open loop's; of a closed loop there are none.
        """
        entries = int(self.memory[SERIES_ENTRIES])
        start = int(self.memory[SERIES])
        words = SERIES_WORDS * entries
        return self.memory[start : start + words].reshape(entries, SERIES_WORDS)

    def backlog_at_start(self) -> int:
        """Open loop: requests due before the window and not completed before it."""
        return int(self.memory[BACKLOG_AT_START])

    def backlog_at_end(self) -> int:
        """Open loop: requests due before the window's end and not completed before it."""
        accepted = self.counter(ARRIVALS) - self.counter(OVERFLOWS)
        return self.backlog_at_start() + accepted - self.counter(COMPLETIONS)

    def waiting(self) -> int:
        """Requests that are due and not sent, on all threads of the load generator."""
        first = self.setup.io_threads
        rings = [thread_at(first + n) + TASKS for n in range(self.setup.generators)]
        return sum(int(self.memory[r + PUSHED] - self.memory[r + POPPED]) for r in rings)

    def log(self) -> np.ndarray:
        """(n, 3): client, index and time in ps of each logged completion."""
        start = int(self.memory[LOG])
        return self.memory[start : start + 3 * int(self.memory[LOGGED])].reshape(-1, 3)

    def on_wire(self, ring: int) -> np.ndarray:
        """(n, 2): client number and commands of each entry of the wire at this offset."""
        entries = values(self.memory, ring)
        numbers = self.client_numbers(entries >> COUNT_BITS)
        return np.stack([numbers, entries & COUNT_MASK], axis=1)


def thread_at(agent: int) -> int:
    """Where a thread's row begins."""
    return THREAD_ROWS + agent * THREAD_WORDS


def n_sources(setup: NodeSetup) -> int:
    """Agents beside the threads: one a generator when arrivals are open, one a thinking client."""
    if setup.open_loop:
        return setup.generators
    return setup.clients if setup.think_ps > 0 else 0


def n_agents(setup: NodeSetup) -> int:
    """Agents with a next event: threads, sources, cores that threads share, the quota."""
    agents = setup.io_threads + setup.generators + n_sources(setup) + n_cores(setup)
    return agents + (n_cores(setup) + 1 if setup.quota_ps > 0 else 0)


def _fill_cores(memory: np.ndarray, setup: NodeSetup) -> None:
    """Write which cores each thread may run on; no thread has one yet."""
    own, shared = core_ranges(setup), shared_range(setup)
    ranges = np.array([*own, *[shared] * setup.other_threads])
    tasks = memory[memory[TASK_ROWS] :][: len(ranges) * TASK_WORDS].reshape(-1, TASK_WORDS)
    tasks[:, FIRST_CORE], tasks[:, LAST_CORE] = ranges.T
    spans = np.maximum(ranges[:, 1] - ranges[:, 0], 1)
    tasks[:, HOME] = ranges[:, 0] + np.arange(len(ranges)) % spans
    cores = n_cores(setup)
    memory[memory[CORE_ROWS] :][: cores * CORE_WORDS : CORE_WORDS] = -1
    memory[CROWDED] = int(cores > 0)
    for agent in range(setup.io_threads + setup.generators):
        memory[thread_at(agent) + WAITS] = SLEEPS
    # Other programs have been there before.
    first, last = shared
    threads = len(own)
    for other in range(setup.other_threads if last > first else 0):
        core = first + other % (last - first)
        row = tasks[threads + other]
        row[HOME] = core
        row[STATE] = ON_CORE if other < last - first else WAITS_FOR_CORE
        if row[STATE] == ON_CORE:
            memory[memory[CORE_ROWS] + core * CORE_WORDS + OCCUPANT] = threads + other
    memory[TASKS_OF_CORES] = len(ranges)
    memory[FIRST_CORE_AGENT] = setup.io_threads + setup.generators + n_sources(setup)
    memory[CORES] = cores
    memory[POOL_PS] = setup.quota_ps


def _rings(setup: NodeSetup, outstanding: int) -> list[tuple[int, int, int]]:
    """Offset, capacity and words of an entry of every ring."""
    each_client = setup.clients + 1
    per_generator = -(-setup.clients // setup.generators)
    rings = [
        (SHARED_JOBS, setup.job_capacity, STAMPED_WORDS),
        (DONE_READS, each_client, 1),
        (DONE_WRITES, each_client, 1),
        (RESPONSES, 2 * each_client, 1),
    ]
    each_owner = -(-setup.clients // setup.owners)
    for thread in owners(setup):
        row = thread_at(thread)
        rings.append((row + REQUEST_WIRE, each_owner * outstanding, STAMPED_WORDS))
        if thread > 0:
            # While a list is processed, clients that are done may enter it again.
            rings.append((row + TO_MAIN, 2 * each_owner, STAMPED_WORDS))
            rings.append((row + FROM_MAIN, 2 * each_owner, STAMPED_WORDS))
    for thread in range(1, setup.io_threads):
        rings.append((thread_at(thread) + QUEUE, setup.job_capacity, STAMPED_WORDS))
    for generator in range(setup.generators):
        row = thread_at(setup.io_threads + generator)
        rings.append((row + QUEUE, per_generator * outstanding, STAMPED_WORDS))
        tasks = setup.backlog_limit if setup.open_loop else outstanding
        rings.append((row + TASKS, per_generator * tasks, STAMPED_WORDS))
        rings.append((row + READY_CLIENTS, per_generator, 1))
        rings.append((row + IDLE_CLIENTS, per_generator, 1))
    return rings


def _aligned_zeros(words: int) -> np.ndarray:
    """A zeroed array that begins with a cache line."""
    raw = np.zeros(words + _LINE_BYTES // 8, np.int64)
    skipped = -raw.ctypes.data % _LINE_BYTES // 8
    return raw[skipped : skipped + words]


def _fill_tables(memory: np.ndarray, times: NodeTimes, stalls: int) -> None:
    """Write the tables of a fixed size; the stalls go to offset `stalls`."""
    codes = len(times.parse_by_code_ps)
    rows = memory[CODE_ROWS : CODE_ROWS + codes * CODE_WORDS].reshape(codes, CODE_WORDS)
    rows[:, PARSE_PS] = times.parse_by_code_ps
    rows[:, EXECUTE_PS] = times.execute_by_code_ps
    rows[:, PREFETCHED_STALL_PS] = times.prefetched_stall_by_code_ps
    rows[:, REQUEST_BYTES] = times.request_bytes_by_code
    rows[:, REPLY_BYTES] = times.reply_bytes_by_code
    rows[:, WRITE_PS] = times.write_by_code_ps
    rows[:, FREE_PS] = times.free_by_code_ps
    rows[:, KEYS] = times.keys_by_code
    rows[:, RARE] = times.rare_below_by_code
    rows[:, WRITTEN_TO_LOG] = times.logged_bytes_by_code
    rows[:, STALLS] = stalls + QUANTILES * np.arange(codes)
    memory[stalls : stalls + codes * QUANTILES] = np.ravel(times.stall_ps)
    memory[JITTER : JITTER + QUANTILES] = times.jitter
    memory[INTERRUPTIONS_PS : INTERRUPTIONS_PS + QUANTILES] = times.interruption_ps
    memory[CODE_BY_DRAW : CODE_BY_DRAW + DRAWS] = CODE_ROWS + CODE_WORDS * times.code_by_draw


def new_node(times: NodeTimes, setup: NodeSetup, *, log_completions: int = 0) -> Node:
    """Memory of a node before its first event.

    Parameters
    ----------
    log_completions : int
        How many completions to log one by one, for tests; 0 in normal use.

    Raises
    ------
    ValueError
        If there are more command codes than fit.
    """
    codes = len(times.parse_by_code_ps)
    if codes > MOST_CODES:
        raise ValueError(f"{codes} command codes; at most {MOST_CODES} are possible")
    outstanding = rounded_capacity(setup.outstanding_limit)
    entries = max(1, -(-setup.end_ps // setup.series_ps))
    rings = _rings(setup, outstanding)
    slots_words = setup.clients * outstanding * SLOT_WORDS
    blocks = {
        CLIENT_ROWS: setup.clients * CLIENT_WORDS,
        PREFETCH: len(times.prefetch_by_keys_ps),
        PENDING_WRITES: setup.clients,
        BATCH: setup.clients,
        FLOWS_IN_FREE_PS: setup.clients,
        FLOWS_OUT_FREE_PS: setup.clients,
        INTERRUPTS_FREE_PS: setup.interrupt_cores,
        LOCKS: setup.item_locks,
        LOCK_BY_DRAW: DRAWS,
        SOURCE_ROWS: n_sources(setup) * SOURCE_WORDS,
        PIECE_TABLE: 2 * len(times.piece_ps),
        TRACE_TABLE: 2 * len(times.trace_due_ps),
        SERIES: SERIES_WORDS * (entries + 1),  # one more for what completes after the end
        LOG: 3 * log_completions,
        TASK_ROWS: (setup.io_threads + setup.generators + setup.other_threads) * TASK_WORDS,
        CORE_ROWS: n_cores(setup) * CORE_WORDS,
    }
    for thread in owners(setup):
        blocks[thread_at(thread) + WATCHED_SOCKETS] = -(-setup.clients // setup.owners)
    end = thread_at(setup.io_threads + setup.generators)
    rings_words = sum(entry_words(slots, words) for _, slots, words in rings)
    size = end + sum(blocks.values()) + slots_words + codes * QUANTILES + rings_words
    memory = _aligned_zeros(size)
    scalars = [field for field in times if not isinstance(field, np.ndarray)]
    memory[: len(scalars)] = scalars
    memory[len(scalars) : len(scalars) + len(setup)] = setup
    for offset, words in blocks.items():
        memory[offset] = end
        end += words
    memory[memory[PREFETCH] : memory[PREFETCH] + blocks[PREFETCH]] = times.prefetch_by_keys_ps
    memory[memory[LOCK_BY_DRAW] : memory[LOCK_BY_DRAW] + DRAWS] = times.lock_by_draw
    slots, stalls = end, end + slots_words
    _fill_tables(memory, times, stalls)
    end = stalls + codes * QUANTILES
    for ring, capacity, words in rings:
        initialise(memory, ring, capacity, end)
        end += entry_words(capacity, words)
    memory[OUTSTANDING_MASK] = outstanding - 1
    memory[SERIES_ENTRIES] = entries
    memory[LOG_ENTRIES] = log_completions
    # On another host only replies tell a generator thread what to do, and each takes at least this
    # long on the wire.
    lonely = not setup.same_host and n_sources(setup) == 0 and n_cores(setup) == 0
    memory[LOOKAHEAD_PS] = times.one_way_ps if lonely else 0
    memory[ACTIVE_THREADS] = setup.initial_active
    memory[FREES] = int(times.free_arguments_ps > 0 or np.any(times.free_by_code_ps > 0))
    memory[WRITE_WAITS] = int(np.any(times.write_by_code_ps > 0))
    memory[SEVERAL_KEYS] = int(np.any(times.keys_by_code > 1))
    memory[PIECES] = len(times.piece_ps)
    tables = np.concatenate([times.piece_ps, times.piece_gap_ps])
    memory[memory[PIECE_TABLE] : memory[PIECE_TABLE] + len(tables)] = tables
    memory[TRACED] = len(times.trace_due_ps)
    tables = np.concatenate([times.trace_due_ps, CODE_ROWS + CODE_WORDS * times.trace_code])
    memory[memory[TRACE_TABLE] : memory[TRACE_TABLE] + len(tables)] = tables
    memory[RARE_BELOW] = times.rare_below_by_code.max()
    memory[ENTRY] = memory[SERIES]
    _fill_cores(memory, setup)
    calendar = new_calendar(n_agents(setup))
    node = Node(memory, LatencyHistogram().counts, calendar, setup)
    numbers = np.arange(setup.clients)
    generators = np.array([setup.generator_of(number) for number in range(setup.clients)])
    generators += setup.io_threads
    node.clients()[:, ENDS] = generators | owner_of(setup, numbers) << OWNER_SHIFT
    node.clients()[:, SLOTS] = slots + numbers * outstanding * SLOT_WORDS
    return node
