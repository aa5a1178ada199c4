"""Where a node's state lies: what C declares, filled by name, and no more of it than needed."""

from itertools import pairwise

import numpy as np
import pytest

from forecache.models.node import layout as at
from forecache.models.node.setup import (
    BIG_ARGUMENT_BYTES,
    DRAWS,
    JITTER_ONE,
    KEPT_BUDGET_PS,
    QUANTILES,
    SLICES_PER_BALANCE,
    NodeSetup,
    NodeTimes,
)
from forecache.sim.native import pointer
from verification.nodes.sample_node import sample_setup, sample_times

TABLES = {name for name, value in sample_times()._asdict().items() if isinstance(value, np.ndarray)}


def test_the_head_has_a_field_for_every_number_of_the_records() -> None:
    fields = set(at.RECORDS["node"].names or ())
    assert {*NodeTimes._fields, *NodeSetup._fields} - TABLES <= fields


def test_constants_that_both_executions_use_are_the_same() -> None:
    assert at.CONSTANTS["QUANTILES"] == QUANTILES
    assert at.CONSTANTS["DRAWS"] == DRAWS
    assert at.CONSTANTS["BIG_ARGUMENT_BYTES"] == BIG_ARGUMENT_BYTES
    assert at.CONSTANTS["SLICES_PER_BALANCE"] == SLICES_PER_BALANCE
    assert at.CONSTANTS["KEPT_BUDGET_PS"] == KEPT_BUDGET_PS
    assert 1 << at.CONSTANTS["JITTER_SHIFT"] == JITTER_ONE


def test_values_and_tables_are_found_under_their_names() -> None:
    rng = np.random.default_rng(1)
    times = sample_times(stall_ps=rng.integers(0, 10**6, (2, QUANTILES)))
    setup = sample_setup(clients=7, seed=99)
    node = at.new_node(times, setup)
    for name, value in (times._asdict() | setup._asdict()).items():
        if name not in TABLES:
            assert node.head[name] == value, name
    for code in range(2):
        row = node.head["commands"][code]
        for field, name in at.BY_CODE.items():
            assert row[field] == getattr(times, name)[code], name
        stalls = (row["stalls"] - pointer(node.blocks["stalls"])) // 8
        found = node.blocks["stalls"][stalls : stalls + QUANTILES]
        np.testing.assert_array_equal(found, times.stall_ps[code])
    for name in ("jitter", "code_by_draw"):
        np.testing.assert_array_equal(node.head[name], getattr(times, name))
    np.testing.assert_array_equal(node.head["interruptions_ps"], times.interruption_ps)
    np.testing.assert_array_equal(node.blocks["prefetch"], times.prefetch_by_keys_ps)
    np.testing.assert_array_equal(node.blocks["lock_by_draw"], times.lock_by_draw)


def test_every_ring_has_its_room_to_itself() -> None:
    setup = sample_setup(
        io_threads=3, clients=10, generators=3, pipeline=4, first_owner=1, owners=2
    )
    node = at.new_node(sample_times(), setup)
    blocks = [block for block in node.blocks.values() if block.nbytes]
    pieces = sorted((pointer(block), block.nbytes) for block in blocks)
    for (start, size), (following, _) in pairwise(pieces):
        assert start + size <= following
    for key, block in node.blocks.items():
        if isinstance(key, tuple) and key[1] != "watched_sockets":
            agent, name = key
            ring = (node.head if agent < 0 else node.threads[agent])[name]
            assert ring["mask"] + 1 == len(block)
            kept = "entries" if block.dtype == at.RECORDS["entry"] else "clients"
            assert ring[kept] == pointer(block)


def test_too_many_command_codes_are_refused() -> None:
    codes = np.zeros(257, np.int64)
    with pytest.raises(ValueError, match="257 command codes; at most 256 are possible"):
        at.new_node(sample_times(parse_by_code_ps=codes), sample_setup())


def size_bytes(node: at.Node) -> int:
    return sum(block.nbytes for block in node.blocks.values())


@pytest.mark.parametrize("policy_threads", [1, 9])
def test_state_grows_with_time_by_the_series_only(policy_threads: int) -> None:
    setup = sample_setup(io_threads=policy_threads, clients=650, generators=50)
    short = at.new_node(sample_times(), setup._replace(end_ps=10**10, series_ps=10**9))
    long = at.new_node(sample_times(), setup._replace(end_ps=10**13, series_ps=10**9))
    coarse = at.new_node(sample_times(), setup._replace(end_ps=10**13, series_ps=10**12))
    assert size_bytes(coarse) == size_bytes(short)
    each = at.RECORDS["interval"].itemsize
    assert size_bytes(long) - size_bytes(short) == each * (10_000 - 10)
    assert len(long.histogram) == len(short.histogram)
    assert len(long.calendar) == len(short.calendar)


def test_a_node_of_the_usual_size_fits_the_caches() -> None:
    setup = sample_setup(io_threads=9, clients=650, generators=50, end_ps=10**11)
    assert size_bytes(at.new_node(sample_times(), setup)) < 1024 * 1024
