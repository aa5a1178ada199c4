"""Where a node's state lies: names in the order of the records, and no more of it than needed."""

import numpy as np
import pytest

from forecache.models.node import layout as at
from forecache.models.node.sample import sample_setup, sample_times
from forecache.models.node.setup import DRAWS, QUANTILES, NodeSetup, NodeTimes
from forecache.sim.stamped_rings import ENTRIES, MASK, RING_WORDS

BY_CODE = {
    "parse_by_code_ps": at.PARSE_PS,
    "execute_by_code_ps": at.EXECUTE_PS,
    "prefetched_stall_by_code_ps": at.PREFETCHED_STALL_PS,
    "request_bytes_by_code": at.REQUEST_BYTES,
    "reply_bytes_by_code": at.REPLY_BYTES,
    "write_by_code_ps": at.WRITE_PS,
    "free_by_code_ps": at.FREE_PS,
    "keys_by_code": at.KEYS,
    "rare_below_by_code": at.RARE,
    "logged_bytes_by_code": at.WRITTEN_TO_LOG,
}
ARRIVALS = ("piece_ps", "piece_gap_ps", "trace_due_ps", "trace_code")
TABLES = {
    *BY_CODE,
    *ARRIVALS,
    "stall_ps",
    "prefetch_by_keys_ps",
    "code_by_draw",
    "jitter",
    "interruption_ps",
    "lock_by_draw",
}


def test_header_names_are_those_of_the_records_in_order() -> None:
    scalars = [name for name in NodeTimes._fields if name not in TABLES]
    names = [*scalars, *NodeSetup._fields]
    assert [getattr(at, name.upper()) for name in names] == list(range(len(names)))


def test_values_and_tables_are_found_under_their_names() -> None:
    rng = np.random.default_rng(1)
    times = sample_times(stall_ps=rng.integers(0, 10**6, (2, QUANTILES)))
    setup = sample_setup(clients=7, seed=99)
    memory = at.new_node(times, setup).memory
    for name, value in (times._asdict() | setup._asdict()).items():
        if name not in TABLES:
            assert memory[getattr(at, name.upper())] == value, name
    for code in range(2):
        row = at.CODE_ROWS + code * at.CODE_WORDS
        for name, field in BY_CODE.items():
            assert memory[row + field] == getattr(times, name)[code], name
        stalls = memory[row + at.STALLS]
        np.testing.assert_array_equal(memory[stalls : stalls + QUANTILES], times.stall_ps[code])
    prefetch = memory[at.PREFETCH]
    np.testing.assert_array_equal(memory[prefetch : prefetch + 33], times.prefetch_by_keys_ps)
    np.testing.assert_array_equal(memory[at.JITTER : at.JITTER + QUANTILES], times.jitter)
    interruptions = memory[at.INTERRUPTIONS_PS : at.INTERRUPTIONS_PS + QUANTILES]
    np.testing.assert_array_equal(interruptions, times.interruption_ps)
    locks = memory[at.LOCK_BY_DRAW]
    np.testing.assert_array_equal(memory[locks : locks + DRAWS], times.lock_by_draw)
    rows = memory[at.CODE_BY_DRAW : at.CODE_BY_DRAW + DRAWS]
    np.testing.assert_array_equal((rows - at.CODE_ROWS) // at.CODE_WORDS, times.code_by_draw)


def test_nothing_overlaps() -> None:
    """Written one after the other, all fields of all rows and rings keep what was written."""
    header = [
        *range(at.WRITE_WAITS + 1),
        *range(at.FIRST_COUNTER, at.JOINED_PS + 1),
        *range(at.SHARED_JOBS, at.RESPONSES + RING_WORDS),
    ]
    assert len(set(header)) == len(header)
    assert max(header) < at.HEADER_WORDS
    thread = [
        *range(at.PHASE, at.BUSY_UNTIL_PS + 1),
        *(
            ring + word
            for ring in (at.QUEUE, at.READY_CLIENTS, at.TASKS, at.IDLE_CLIENTS, at.REQUEST_WIRE)
            for word in range(4)
        ),
        *range(at.TASKS_LEFT, at.HANDSHAKES_DUE + 1),
        *range(at.RUNNING, at.TICKET + 1),
        *range(at.WAITS, at.OWNER_SLEPT + 1),
    ]
    assert len(set(thread)) == len(thread)
    assert max(thread) < at.THREAD_WORDS
    assert at.NEXT_MARK < at.CLIENT_WORDS


def test_rings_and_rows_lie_apart() -> None:
    setup = sample_setup(
        io_threads=3,
        clients=10,
        generators=3,
        pipeline=4,
        end_ps=10**10,
        first_owner=1,
        owners=2,
        interrupt_cores=2,
        server_cores=2,
    )
    node = at.new_node(sample_times(), setup)
    memory = node.memory
    taken = np.zeros(len(memory), int)
    taken[: at.thread_at(6)] += 1
    for offset, words in (
        (at.CLIENT_ROWS, 10 * at.CLIENT_WORDS),
        (at.PREFETCH, 33),
        *((offset, 10) for offset in (at.PENDING_WRITES, at.BATCH)),
        *((offset, 10) for offset in (at.FLOWS_IN_FREE_PS, at.FLOWS_OUT_FREE_PS)),
        (at.INTERRUPTS_FREE_PS, 2),
        (at.LOCKS, 64),
        (at.LOCK_BY_DRAW, DRAWS),
        *((at.thread_at(number) + at.WATCHED_SOCKETS, 5) for number in (1, 2)),
        (at.SERIES, at.SERIES_WORDS * (10 + 1)),
        (at.TASK_ROWS, 6 * at.TASK_WORDS),
        (at.CORE_ROWS, 2 * at.CORE_WORDS),
    ):
        taken[memory[offset] : memory[offset] + words] += 1
    slots = int(node.clients()[:, at.SLOTS].min())
    taken[slots : slots + 10 * 4 * at.SLOT_WORDS] += 1
    for code in range(2):
        stalls = memory[at.CODE_ROWS + code * at.CODE_WORDS + at.STALLS]
        taken[stalls : stalls + QUANTILES] += 1
    threads = [at.thread_at(number) for number in range(6)]
    rings = [
        (at.SHARED_JOBS, 2),
        *((row + at.REQUEST_WIRE, 2) for row in threads[1:3]),
        *((row + channel, 2) for row in threads[1:3] for channel in (at.TO_MAIN, at.FROM_MAIN)),
        *((ring, 1) for ring in (at.DONE_READS, at.DONE_WRITES, at.RESPONSES)),
        *((row + at.QUEUE, 2) for row in threads[1:]),
        *((row + at.TASKS, 2) for row in threads[3:]),
        *((row + at.READY_CLIENTS, 1) for row in threads[3:]),
        *((row + at.IDLE_CLIENTS, 1) for row in threads[3:]),
    ]
    for ring, words in rings:
        entries, capacity = memory[ring + ENTRIES], memory[ring + MASK] + 1
        taken[entries : entries + words * capacity] += 1
    np.testing.assert_array_equal(taken, 1)


def test_too_many_command_codes_are_refused() -> None:
    codes = np.zeros(257, np.int64)
    with pytest.raises(ValueError, match="257 command codes; at most 256 are possible"):
        at.new_node(sample_times(parse_by_code_ps=codes), sample_setup())


@pytest.mark.parametrize("policy_threads", [1, 9])
def test_state_grows_with_time_by_the_series_only(policy_threads: int) -> None:
    setup = sample_setup(io_threads=policy_threads, clients=650, generators=50)
    short = at.new_node(sample_times(), setup._replace(end_ps=10**10, series_ps=10**9))
    long = at.new_node(sample_times(), setup._replace(end_ps=10**13, series_ps=10**9))
    coarse = at.new_node(sample_times(), setup._replace(end_ps=10**13, series_ps=10**12))
    assert len(coarse.memory) == len(short.memory)
    assert len(long.memory) - len(short.memory) == at.SERIES_WORDS * (10_000 - 10)
    assert len(long.histogram) == len(short.histogram)
    assert len(long.calendar) == len(short.calendar)


def test_a_node_of_the_usual_size_fits_the_caches() -> None:
    setup = sample_setup(io_threads=9, clients=650, generators=50, end_ps=10**11)
    assert at.new_node(sample_times(), setup).memory.nbytes < 1024 * 1024
