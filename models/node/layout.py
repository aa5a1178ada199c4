"""Where everything of a node simulation lies in its memory, one int64 array.

Compiled code reads `memory[at.RECV_PS]` for a scalar and `memory[client + at.READ]` for a field of
a client, where `client` is the offset of its row. One array means one argument, which lets the
compiler keep everything in registers; names mean that it still reads like a record.

The order of the first two groups is that of `NodeTimes` and `NodeSetup`; a test compares them.
"""

from typing import NamedTuple

import numpy as np

from forecache.sim.calendar import new_calendar
from forecache.sim.histogram import LatencyHistogram
from forecache.sim.stamped_rings import initialise, ring_words, rounded_capacity, values

from .setup import NodeSetup, NodeTimes

# fmt: off
(
    LOOP_PS, POLL_PS, POLL_EVENT_PS, DOZE_PS, BLOCK_PS, WAKE_LATENCY_PS, WAKE_SEND_PS,
    READ_EVENT_PS, RECV_PS, SEND_PS, WRITE_EVENT_PS, COPY_PS_PER_KIB, PUSH_PS, POP_PS, SCAN_PS,
    DONE_PS, COLLECT_PS, HANDOVER_PS, ACTIVATE_PS, THREAD_WAKE_PS, GENERATOR_POLL_PS,
    GENERATOR_POLL_EVENT_PS, GENERATOR_RECV_PS, GENERATOR_REPLY_PS, GENERATOR_SEND_PS,
    GENERATOR_REQUEST_PS, ONE_WAY_PS, WIRE_PS_PER_KIB,
) = range(28)

(
    IO_THREADS, CLIENTS, GENERATORS, PIPELINE, OPEN_LOOP, MEAN_INTERARRIVAL_PS, THINK_PS,
    SAME_HOST, PREFETCH_BATCH, EVENTS_PER_IO_THREAD, WHOLE_PIPELINE, JOB_CAPACITY,
    RESPONSE_CAPACITY, SPIN_PS, IGNITE_PERIOD_PS, GROW_PERIOD_PS, SHRINK_AFTER_PS, INITIAL_ACTIVE,
    OUTSTANDING_LIMIT, WARMUP_PS, END_PS, SERIES_PS, SEED, REPLICATION,
    READ_LIMIT_BYTES, WRITE_LIMIT_BYTES,
) = range(28, 54)

# Offsets of the tables, rows and rings that follow the header.
(
    PARSE, EXECUTE, STALL, PREFETCHED_STALL, PREFETCH, REQUEST_BYTES, REPLY_BYTES, CODE, JITTER,
    CLIENT_ROWS, THREAD_ROWS, DUE, MARKS, OUTSTANDING_MASK, REQUEST_WIRE, REPLY_WIRES,
    REPLY_WIRE_WORDS, TASKS, TASK_WORDS, READY_CLIENTS, READY_WORDS, WATCHED_SOCKETS, FIRED_EVENTS,
    PENDING_WRITES, BATCH, JOBS, JOB_WORDS, SHARED_JOBS, RESPONSES, DONE_READS, DONE_WRITES,
    SOURCE_INDEX, SERIES, SERIES_ENTRIES, LOG, LOG_ENTRIES,
) = range(54, 90)

# Counters of the measured window.
(
    COMPLETIONS, LOOPS, POLLS, READS, WRITES, BLOCKS, PAID_WAKES, PREFETCH_BATCHES,
    PREFETCHED_KEYS, INLINE_READS, INLINE_WRITES, REFUSED_JOBS, ACTIVATIONS, GENERATOR_POLLS,
    ARRIVALS, OVERFLOWS, WIRE_BYTES_OUT, WIRE_BYTES_IN, ACTIVE_THREAD_PS,
) = range(90, 109)
FIRST_COUNTER, LAST_COUNTER = COMPLETIONS, ACTIVE_THREAD_PS

# State of the network and of the policy.
(
    ACTIVE_THREADS, ACTIVE_SINCE_PS, POLL_STATE, READS_IN_FLIGHT, WRITES_IN_FLIGHT, NIC_IN_FREE_PS,
    NIC_OUT_FREE_PS, PRODUCTIVE, TURN_STARTED_PS, SAMPLES, SAMPLE_SUM, NEXT_SAMPLE_PS, CHANGED_PS,
    MAIN_ACTIVE_PS, SAMPLED_ACTIVE_PS, LOGGED, PENDING_WRITE_COUNT, NEXT_PRIVATE,
) = range(109, 127)
HEADER_WORDS = 128

# Fields of a client's row: counts of commands along their way, then flags.
(
    SENT,  # by the client
    ARRIVED,  # in the server's socket
    READ,  # completely read by the server
    PARSED,  # by an I/O thread
    EXECUTED,
    WRITTEN,  # replies handed to the server's kernel
    WRITE_UPTO,  # replies covered by the write under way
    RETURNED,  # replies in the client's socket
    RECEIVED,  # replies taken by the client
    PARTIAL_BYTES,  # of the next command, already read
    WATCHED,  # 1: in the kernel's list of ready sockets
    READY,  # 1: in its generator's list of ready clients
    READ_STATE,
    WRITE_STATE,
    SERVED_BY,  # the I/O thread that had its last job
    WRITE_PENDING,  # 1: in the main thread's list of pending writes
) = range(16)
CLIENT_WORDS = 16

# Fields of a thread's row; the row number is the agent number.
(
    PHASE,
    CLIENT,  # what the step under way is about
    INDEX,
    COUNT,
    AMOUNT,
    TASKS_LEFT,
    ASLEEP,  # 1: blocked, and nobody has woken it yet
    SINCE_PS,  # start of the present sleep or spin
    PERIOD_PS,  # of one turn, while spinning
    STOPPED_PS,  # when the policy stopped it
    AVAILABLE_PS,  # from when on a restarted thread takes jobs
    FETCHED,  # keys of the present batch that were fetched ahead and not yet used
    AGAIN,  # 1: the second look at finished jobs in this turn
    TAKEN_PS,  # until when a due request already taken counts as waiting
    BUSY_PS,  # useful work inside the measured window
    ON_CPU_PS,  # useful work and spinning inside the measured window
) = range(16)
THREAD_WORDS = 16
# fmt: on

RING_WORDS = {
    REPLY_WIRES: REPLY_WIRE_WORDS,
    TASKS: TASK_WORDS,
    READY_CLIENTS: READY_WORDS,
    JOBS: JOB_WORDS,
}
"""Where several rings of a kind lie in a row, the word that says how far apart they are."""

# States of a client's read or write, and of the poll job.
IDLE = 0
PENDING = 1
COMPLETED = 2


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
        return int(self.memory[self.memory[THREAD_ROWS] + agent * THREAD_WORDS + field])

    def clients(self) -> np.ndarray:
        """(clients, CLIENT_WORDS): the rows of all clients."""
        start = int(self.memory[CLIENT_ROWS])
        rows = self.memory[start : start + self.setup.clients * CLIENT_WORDS]
        return rows.reshape(self.setup.clients, CLIENT_WORDS)

    def outstanding_slots(self) -> int:
        """Requests a client may have on the way: the limit rounded up to a power of two."""
        return int(self.memory[OUTSTANDING_MASK]) + 1

    def due_ps(self) -> np.ndarray:
        """(clients, outstanding slots): when request i of a client fell due, at i modulo slots."""
        start, slots = int(self.memory[DUE]), self.outstanding_slots()
        return self.memory[start : start + self.setup.clients * slots].reshape(-1, slots)

    def marks(self) -> np.ndarray:
        """(clients, outstanding slots): what was drawn for request i, at i modulo slots."""
        start, slots = int(self.memory[MARKS]), self.outstanding_slots()
        return self.memory[start : start + self.setup.clients * slots].reshape(-1, slots)

    def ring_values(self, ring: int, row: int = 0) -> np.ndarray:
        """The values in a ring, oldest first; `row` counts rings of one kind."""
        words_at = RING_WORDS.get(ring)
        start = int(self.memory[ring]) + (row * int(self.memory[words_at]) if words_at else 0)
        return values(self.memory, start)

    def series(self) -> np.ndarray:
        """(entries, 2): completions and their summed latency in ps, from time zero."""
        entries = int(self.memory[SERIES_ENTRIES])
        start = int(self.memory[SERIES])
        return self.memory[start : start + 2 * entries].reshape(entries, 2)

    def log(self) -> np.ndarray:
        """(n, 3): client, index and time in ps of each logged completion."""
        start = int(self.memory[LOG])
        return self.memory[start : start + 3 * int(self.memory[LOGGED])].reshape(-1, 3)


def n_sources(setup: NodeSetup) -> int:
    """Agents beside the threads: one a generator when arrivals are open, one a thinking client."""
    if setup.open_loop:
        return setup.generators
    return setup.clients if setup.think_ps > 0 else 0


def new_node(times: NodeTimes, setup: NodeSetup, *, log_completions: int = 0) -> Node:
    """Memory of a node before its first event.

    Parameters
    ----------
    log_completions : int
        How many completions to log one by one, for tests; 0 in normal use.
    """
    per_generator = -(-setup.clients // setup.generators)
    outstanding = rounded_capacity(setup.outstanding_limit)
    wire = per_generator * outstanding
    each_client = setup.clients + 1
    entries = max(1, -(-setup.end_ps // setup.series_ps))
    tables = [np.ravel(field) for field in times if isinstance(field, np.ndarray)]
    rings = {
        REQUEST_WIRE: (1, setup.clients * outstanding),
        REPLY_WIRES: (setup.generators, wire),
        TASKS: (setup.generators, wire),
        READY_CLIENTS: (setup.generators, per_generator),
        WATCHED_SOCKETS: (1, each_client),
        FIRED_EVENTS: (1, each_client),
        JOBS: (setup.io_threads, setup.job_capacity),
        SHARED_JOBS: (1, setup.job_capacity),
        RESPONSES: (1, 2 * each_client + 1),
        DONE_READS: (1, each_client),
        DONE_WRITES: (1, each_client),
    }
    blocks = {
        CLIENT_ROWS: setup.clients * CLIENT_WORDS,
        THREAD_ROWS: (setup.io_threads + setup.generators) * THREAD_WORDS,
        DUE: setup.clients * outstanding,
        MARKS: setup.clients * outstanding,
        PENDING_WRITES: each_client,
        BATCH: each_client,
        SOURCE_INDEX: max(1, n_sources(setup)),
        SERIES: 2 * entries,
        LOG: 3 * log_completions,
    }
    size = HEADER_WORDS + sum(len(table) for table in tables) + sum(blocks.values())
    size += sum(rows * ring_words(slots) for rows, slots in rings.values())
    memory = np.zeros(size, np.int64)
    scalars = [field for field in times if not isinstance(field, np.ndarray)]
    memory[: len(scalars)] = scalars
    memory[len(scalars) : len(scalars) + len(setup)] = setup
    end = HEADER_WORDS
    for offset, table in zip(range(PARSE, JITTER + 1), tables, strict=True):
        memory[offset] = end
        memory[end : end + len(table)] = table
        end += len(table)
    for offset, words in blocks.items():
        memory[offset] = end
        end += words
    for offset, (rows, slots) in rings.items():
        memory[offset] = end
        if offset in RING_WORDS:
            memory[RING_WORDS[offset]] = ring_words(slots)
        for _ in range(rows):
            initialise(memory, end, slots)
            end += ring_words(slots)
    memory[OUTSTANDING_MASK] = outstanding - 1
    memory[SERIES_ENTRIES] = entries
    memory[LOG_ENTRIES] = log_completions
    calendar = new_calendar(setup.io_threads + setup.generators + n_sources(setup))
    return Node(memory, LatencyHistogram().counts, calendar, setup)
