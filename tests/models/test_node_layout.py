"""Where a node's state lies: names in the order of the records, and no more of it than needed."""

import numpy as np
import pytest

from forecache.models.node import layout as at
from forecache.models.node.sample import sample_setup, sample_times
from forecache.models.node.setup import NodeSetup, NodeTimes

TABLES = {
    "parse_by_code_ps": at.PARSE,
    "execute_by_code_ps": at.EXECUTE,
    "stall_ps": at.STALL,
    "prefetched_stall_by_code_ps": at.PREFETCHED_STALL,
    "prefetch_by_keys_ps": at.PREFETCH,
    "request_bytes_by_code": at.REQUEST_BYTES,
    "reply_bytes_by_code": at.REPLY_BYTES,
    "code_by_draw": at.CODE,
    "jitter": at.JITTER,
}


def test_header_names_are_those_of_the_records_in_order() -> None:
    scalars = [name for name in NodeTimes._fields if name not in TABLES]
    names = [*scalars, *NodeSetup._fields]
    assert [getattr(at, name.upper()) for name in names] == list(range(len(names)))


def test_values_and_tables_are_found_under_their_names() -> None:
    times, setup = sample_times(), sample_setup(clients=7, seed=99)
    memory = at.new_node(times, setup).memory
    for record in (times, setup):
        for name, value in record._asdict().items():
            if name in TABLES:
                start, size = memory[TABLES[name]], np.size(value)
                np.testing.assert_array_equal(memory[start : start + size], np.ravel(value))
            else:
                assert memory[getattr(at, name.upper())] == value, name


def test_header_fields_do_not_overlap() -> None:
    header = [*range(at.SERIES + 1), *range(at.FIRST_COUNTER, at.LAST_COUNTER + 1)]
    assert len(set(header)) == len(header)
    assert max(header) < at.HEADER_WORDS


@pytest.mark.parametrize("policy_threads", [1, 9])
def test_state_grows_with_time_by_the_series_only(policy_threads: int) -> None:
    setup = sample_setup(io_threads=policy_threads, clients=650, generators=50)
    short = at.new_node(sample_times(), setup._replace(end_ps=10**10, series_ps=10**9))
    long = at.new_node(sample_times(), setup._replace(end_ps=10**13, series_ps=10**9))
    coarse = at.new_node(sample_times(), setup._replace(end_ps=10**13, series_ps=10**12))
    assert len(coarse.memory) == len(short.memory)
    assert len(long.memory) - len(short.memory) == 2 * (10_000 - 10)
    assert len(long.histogram) == len(short.histogram)
    assert len(long.calendar) == len(short.calendar)


def test_a_node_of_the_usual_size_fits_the_caches() -> None:
    setup = sample_setup(io_threads=9, clients=650, generators=50, end_ps=10**11)
    assert at.new_node(sample_times(), setup).memory.nbytes < 1024 * 1024
