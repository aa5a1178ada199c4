"""Waits for memory: closed limits, what each number moves, and what no batch can do."""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.hwprofiles import load_host
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.engines.commands import LONG_BYTES
from forecache.models.memory.caches import (
    COPIED_AT_ONCE,
    CacheTimes,
    Population,
    buffer_wait_ns,
    cache_times,
    line_classes,
    page_walk_ns,
)
from forecache.models.memory.lines import (
    FAR_STREAMED_AT_ONCE,
    FETCHED_AT_ONCE,
    LINE_BYTES,
    NEAR_STREAMED_AT_ONCE,
    Structure,
    popularity_bins,
)
from forecache.models.memory.waits import MemoryTimes, memory_times, waits_of
from forecache.models.scenario.workload import HotSet, HotSetPopularity, Workload, Zipf

SPEED = load_host("graviton3").speed()
SKEWED = Zipf(zipf=0.99)
HOT = HotSetPopularity(hot_set=HotSet(keys=0.1, requests=0.9))


def waits(
    structures: list[Structure],
    workload: Workload,
    speed: HostSpeed = SPEED,
    *,
    batch_limit: int = 16,
    stream_scale: float = 1.0,
    fills_per_request: float = 0.0,
) -> tuple[MemoryTimes, CacheTimes]:
    caches = cache_times(
        [Population(workload, structures)],
        speed,
        others=[(6000.0, 900.0)],
        fills_per_request=fills_per_request,
    )
    times = memory_times(
        waits_of(structures, workload, speed, caches),
        parallel_misses=speed.parallel_misses,
        batch_limit=batch_limit,
        stream_scale=stream_scale,
    )
    return times, caches


LOOK_UP = [
    Structure("bucket", 0.2, 1.06),
    Structure("entry", 0.6, 1.0),
    Structure("value", 8.5, 1.0, followers=7.5),
]
LINES_PER_KEY = 9.3


def line_waits_ns(
    part: Structure,
    workload: Workload,
    caches: CacheTimes,
    walk_ns: float,
    *,
    at_once: tuple[int, int] = (1, 1),
) -> np.ndarray:
    """(bins,) mean wait for a line of each popularity, said once more.

    So many lines of the last level and of DRAM come in the time of one wait.
    """
    near_ns, far_ns = (
        (latency_ns - SPEED.l2_ns + walk_ns) / lines
        for latency_ns, lines in zip((SPEED.l3_ns, SPEED.dram_ns), at_once, strict=True)
    )
    classes = line_classes(part, popularity_bins(workload))
    near = classes.hit_shares(caches.l2_requests)
    inside = np.maximum(near, classes.hit_shares(caches.l3_requests))
    return np.asarray((inside - near) * near_ns + (1.0 - inside) * far_ns)


@pytest.mark.parametrize("stream_scale", [1.0, 0.4])
@pytest.mark.parametrize("popularity", ["uniform", SKEWED, HOT])
@pytest.mark.parametrize("keys", [1000, 300_000, 50_000_000])
def test_the_stall_table_has_the_analytic_mean(
    popularity: str | Zipf | HotSetPopularity, keys: int, stream_scale: float
) -> None:
    workload = Workload(keys=keys, popularity=popularity)  # type: ignore[arg-type]
    look_up = [*LOOK_UP[:2], replace(LOOK_UP[2], followers=40.0)]
    times, caches = waits(look_up, workload, stream_scale=stream_scale)
    data_bytes = keys * LINES_PER_KEY * LINE_BYTES
    assert caches.data_bytes == pytest.approx(data_bytes, rel=1e-6)
    walk_ns = SPEED.tlb_walk_ns * max(0.0, 1.0 - SPEED.tlb_reach_bytes / data_bytes)
    shares = np.array([share for _, share in popularity_bins(workload)])
    where = (workload, caches, walk_ns)
    waited = sum(part.touches * line_waits_ns(part, *where) for part in look_up)
    # One wait for the first lines that follow; the prefetcher brings the rest.
    value = look_up[-1]
    waited = waited + stream_scale * line_waits_ns(value, *where)
    streamed = (NEAR_STREAMED_AT_ONCE, FAR_STREAMED_AT_ONCE)
    waited = waited + (40.0 - FETCHED_AT_ONCE) * line_waits_ns(value, *where, at_once=streamed)
    expected = float(np.dot(shares, waited))
    assert times.stall_ns.mean() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert (np.diff(times.stall_ns) >= 0).all()
    assert times.stall_ns[0] >= 0


def test_what_fits_the_second_level_waits_for_nothing() -> None:
    times, caches = waits(LOOK_UP, Workload(keys=100))
    assert caches.l2_requests == caches.l3_requests == math.inf
    assert not times.stall_ns.any()
    assert not times.prefetch_ns.any()
    assert times.prefetched_stall_ns == times.last_touch_ns == 0.0


def test_more_keys_wait_longer_and_skew_shortens_the_wait() -> None:
    keys = [10**n for n in range(3, 10)]
    uniform = [waits(LOOK_UP, Workload(keys=n))[0] for n in keys]
    means = [times.stall_ns.mean() for times in uniform]
    assert means == sorted(means)
    assert means[-1] > 3 * (SPEED.dram_ns - SPEED.l2_ns)
    assert uniform[-1].last_touch_ns > 0.95 * (SPEED.dram_ns - SPEED.l2_ns)
    for popularity in (SKEWED, HOT):
        skewed, _ = waits(LOOK_UP, Workload(keys=10**7, popularity=popularity))
        assert skewed.stall_ns.mean() < means[4]


@pytest.mark.parametrize("pattern", ["sequential", "own_ranges"])
def test_keys_in_the_order_they_were_written_need_page_walks_of_the_table_only(
    pattern: Literal["sequential", "own_ranges"],
) -> None:
    random, _ = waits(LOOK_UP, Workload(keys=10**8))
    ordered, _ = waits(LOOK_UP, Workload(keys=10**8, key_pattern=pattern))
    difference = random.stall_ns.mean() - ordered.stall_ns.mean()
    # One walk for each of the dependent touches behind the table, one for the first lines that
    # follow, and a part of one for each line that the prefetcher brings.
    waits_for = 2.0 + 1.0 + (LOOK_UP[2].followers - FETCHED_AT_ONCE) / FAR_STREAMED_AT_ONCE
    assert difference == pytest.approx(waits_for * SPEED.tlb_walk_ns, rel=0.02)


def test_keys_of_one_sequence_come_in_a_stream() -> None:
    own_ranges, _ = waits(LOOK_UP, Workload(keys=10**8, key_pattern="own_ranges"))
    sequential, _ = waits(LOOK_UP, Workload(keys=10**8, key_pattern="one_sequence"))
    difference = own_ranges.stall_ns.mean() - sequential.stall_ns.mean()
    # The touches behind the table, and the first lines that follow; the prefetcher brings the
    # others anyway.
    alone_ns = SPEED.dram_ns - SPEED.l2_ns
    saved_ns = 3.0 * alone_ns * (1.0 - 1.0 / FAR_STREAMED_AT_ONCE)
    assert difference == pytest.approx(saved_ns, rel=0.02)


def test_what_a_hash_scatters_lies_in_no_order() -> None:
    """The buckets, and other keys of a chain."""
    chain = [Structure("bucket", 0.125, 1.0), Structure("entry", 0.25, 2.0)]
    speed = replace(SPEED, tlb_walk_ns=0.0)
    orders = [Workload(keys=10**8), Workload(keys=10**8, key_pattern="one_sequence")]
    random, ordered = (
        waits_of(chain, order, speed, waits(chain, order, speed)[1]) for order in orders
    )
    assert ordered.line_ns == pytest.approx(random.line_ns * [1.0, 0.5], rel=0.1)


def test_another_touch_finds_its_line_where_the_first_one_did() -> None:
    workload = Workload(keys=2_000_000)
    again = [*LOOK_UP, Structure("old value", 0.0, 1.0)]
    once, caches = waits(LOOK_UP, workload)
    twice, caches_again = waits(again, workload)
    added = twice.stall_ns.mean() - once.stall_ns.mean()
    assert added == pytest.approx(once.last_touch_ns, rel=1e-9)
    assert caches_again == caches


@pytest.mark.parametrize(
    ("followers", "written", "head", "tail"),
    [
        (0.0, False, 0.0, 0.0),
        (0.4, False, 0.2, 0.0),
        (1.0, False, 0.5, 0.0),
        (2.0, False, 1.0, 0.0),
        (72.0, False, 1.0, 70.0),
        (72.0, True, 1.0, 0.0),
        (0.4, True, 0.2, 0.0),
    ],
)
def test_lines_that_follow_come_together(
    followers: float, written: bool, head: float, tail: float
) -> None:
    part = Structure("value", 80.0, 1.0, followers=followers, written=written)
    assert part.head_waits == head
    assert part.tail_lines == tail


def test_long_stores_wait_for_nothing_beyond_their_first_lines() -> None:
    """A written value waits as a read one does for what both have, and less for the rest."""
    workload = Workload(keys=50_000_000)

    def mean_ns(followers: float, *, written: bool) -> float:
        part = Structure("value", followers + 1, 1.0, followers=followers, written=written)
        return float(waits([part], workload)[0].stall_ns.mean())

    assert mean_ns(1.5, written=True) == pytest.approx(mean_ns(1.5, written=False), rel=1e-9)
    assert mean_ns(100.0, written=True) == pytest.approx(mean_ns(2.0, written=True), rel=0.01)
    line_ns = mean_ns(0.0, written=False)
    more = mean_ns(100.0, written=False) - mean_ns(100.0, written=True)
    # Nearly all of them come from DRAM.
    assert more == pytest.approx(98.0 / FAR_STREAMED_AT_ONCE * line_ns, rel=0.02)


def test_long_values_come_as_fast_as_a_core_copies_them_out_of_memory() -> None:
    workload = Workload(keys=500_000)

    def mean_ns(followers: float, **speed: float) -> float:
        part = Structure("value", followers + 1, 1.0, followers=followers)
        found = waits([part], workload, replace(SPEED, **speed))[0]
        return float(found.stall_ns.mean())

    short, long = LONG_BYTES / LINE_BYTES, 4 * LONG_BYTES / LINE_BYTES
    for per_byte_ns in (0.03, 0.1):
        added_ns = mean_ns(long, dram_copy_ns_per_byte=per_byte_ns) - mean_ns(
            short, dram_copy_ns_per_byte=per_byte_ns
        )
        assert added_ns == pytest.approx(3 * LONG_BYTES * per_byte_ns, rel=0.03)
    assert mean_ns(short, dram_copy_ns_per_byte=0.1) == mean_ns(short, dram_copy_ns_per_byte=0.03)


def test_stream_scale_moves_only_the_first_lines_that_follow() -> None:
    workload = Workload(keys=50_000_000)
    head_ns = waits([LOOK_UP[2]], workload)[0].last_touch_ns
    plain, half = (waits(LOOK_UP, workload, stream_scale=s)[0] for s in (1.0, 0.5))
    assert plain.stall_ns.mean() - half.stall_ns.mean() == pytest.approx(0.5 * head_ns, rel=0.01)
    assert (half.prefetch_ns == plain.prefetch_ns).all()
    assert half.last_touch_ns == plain.last_touch_ns
    difference = plain.prefetched_stall_ns - half.prefetched_stall_ns
    assert difference == pytest.approx(0.5 * head_ns, rel=0.01)


def test_neighbours_shorten_what_the_last_level_holds() -> None:
    workload = Workload(keys=30_000)
    stalls, kept = [], []
    for fills in (0.0, 1.0, 10.0, 100.0, 1e4):
        times, caches = waits(LOOK_UP, workload, fills_per_request=fills)
        stalls.append(times.stall_ns.mean())
        kept.append(caches)
    assert stalls == sorted(stalls)
    assert stalls[-1] > 1.5 * stalls[0]
    assert len({caches.l2_requests for caches in kept}) == 1, "the second level is ours alone"
    assert kept[0].l3_requests == math.inf
    times_left = [caches.l3_requests for caches in kept]
    assert times_left == sorted(times_left, reverse=True)
    # With that many of theirs, a line stays as long as theirs take to fill the cache.
    alone = SPEED.l3_bytes / LINE_BYTES / 1e4
    assert kept[-1].l3_requests == pytest.approx(alone, rel=0.05)


def test_a_page_walk_follows_the_captured_curve() -> None:
    assert page_walk_ns(SPEED, 1e12) == page_walk_ns(SPEED, 1.0) == SPEED.tlb_walk_ns
    curve = ((2.0**27, 10.0), (2.0**29, 30.0), (2.0**31, 80.0))
    speed = replace(SPEED, walk_curve=curve)
    for size, walk_ns in curve:
        assert page_walk_ns(speed, size) == pytest.approx(walk_ns)
    assert page_walk_ns(speed, 2.0**28) == pytest.approx(20.0), "linear in the logarithm"
    assert page_walk_ns(speed, 2.0**30) == pytest.approx(55.0)
    assert page_walk_ns(speed, 0.0) == 10.0, "no further than it was measured"
    assert page_walk_ns(speed, 2.0**40) == 80.0


def test_each_structure_walks_its_own_pages() -> None:
    """Allocators keep sizes apart: small entries lie on fewer pages than large values."""
    keys = 10_000_000
    small, large = Structure("entry", 0.5, 1.0), Structure("value", 16.0, 1.0)
    sizes = [part.lines_per_key * keys * LINE_BYTES for part in (small, large)]
    speed = replace(SPEED, walk_curve=((sizes[0], 20.0), (sizes[1], 90.0)), tlb_reach_bytes=0.0)
    workload = Workload(keys=keys)
    _, caches = waits([small, large], workload, speed)
    found = waits_of([small, large], workload, speed, caches)
    assert found.far_ns - (speed.dram_ns - speed.l2_ns) == pytest.approx([20.0, 90.0])
    assert found.near_ns - (speed.l3_ns - speed.l2_ns) == pytest.approx([20.0, 90.0])
    ordered = Workload(keys=keys, key_pattern="sequential")
    assert waits_of([small], ordered, speed, caches).far_ns == speed.dram_ns - speed.l2_ns


def test_a_buffer_is_found_by_how_long_ago_it_was_used() -> None:
    def wait_ns(l2_requests: float, l3_requests: float, lines: float = 100.0) -> float:
        caches = CacheTimes(l2_requests, l3_requests, data_bytes=1e9)
        return buffer_wait_ns(lines, 10.0, SPEED, caches)

    assert wait_ns(math.inf, math.inf) == 0.0
    near_ns = (SPEED.l3_ns - SPEED.l2_ns) / COPIED_AT_ONCE
    far_ns = (SPEED.dram_ns - SPEED.l2_ns) / COPIED_AT_ONCE
    assert wait_ns(0.0, math.inf) == pytest.approx(near_ns)
    assert wait_ns(0.0, 0.0) == pytest.approx(far_ns)
    # Each of a hundred lines is touched every ten requests.
    kept = 1.0 - math.exp(-10.0 / 10.0)
    assert wait_ns(0.0, 10.0) == pytest.approx(kept * near_ns + (1 - kept) * far_ns)
    # What the second level holds the last one need not.
    assert wait_ns(10.0, 0.0) == pytest.approx((1 - kept) * far_ns)
    # A long message is copied as fast as the core streams memory, whatever one line waits.
    long = 8 * LONG_BYTES / LINE_BYTES
    nothing = CacheTimes(0.0, 0.0, data_bytes=1e9)
    per_line_ns = buffer_wait_ns(100 * long, long, SPEED, nothing)
    streamed_ns = LINE_BYTES * SPEED.dram_copy_ns_per_byte
    assert per_line_ns == pytest.approx(far_ns / 8 + 7 / 8 * streamed_ns)
    by_lines = [wait_ns(10.0, 100.0, lines) for lines in (10.0, 100.0, 1e3, 1e5)]
    assert by_lines == sorted(by_lines)
    assert by_lines[-1] > 0.9 * far_ns


structure = st.builds(
    Structure,
    name=st.just("part"),
    lines_per_key=st.floats(0.05, 20.0),
    touches=st.floats(0.1, 3.0),
    followers=st.floats(0.0, 20.0),
    prefetched=st.booleans(),
    written=st.booleans(),
)


@given(
    structures=st.lists(structure, min_size=1, max_size=4),
    keys=st.integers(1, 10**9),
    parallel=st.floats(1.0, 30.0),
    dram_ns=st.floats(30.0, 300.0),
    batch=st.integers(2, 32),
)
def test_a_batch_never_loses_and_gains_at_most_the_parallel_misses(
    structures: list[Structure], keys: int, parallel: float, dram_ns: float, batch: int
) -> None:
    speed = replace(SPEED, parallel_misses=parallel, dram_ns=dram_ns)
    times, _ = waits(structures, Workload(keys=keys), speed, batch_limit=batch)
    assert len(times.prefetch_ns) == batch + 1
    assert not times.prefetch_ns[:2].any(), "a single key has nothing to overlap with"
    one_by_one = times.stall_ns.mean()
    prefetched = one_by_one - times.prefetched_stall_ns
    assert prefetched >= -1e-9
    for count in range(2, batch + 1):
        batched = times.prefetch_ns[count]
        assert batched <= count * prefetched * (1 + 1e-9) + 1e-9
        assert batched >= count * prefetched / parallel * (1 - 1e-9) - 1e-9
    assert (np.diff(times.prefetch_ns[1:]) >= -1e-9).all()


def test_a_batch_out_of_reach_gains_what_the_core_sustains() -> None:
    """The amortisation of a batch of 16 beyond all caches, out of the formula alone."""
    speed = replace(SPEED, parallel_misses=8.0)
    chain = [Structure("bucket", 1.0, 1.0), Structure("entry", 1.0, 1.0)]
    times, _ = waits(chain, Workload(keys=10**9), speed)
    gain = 16 * times.stall_ns.mean() / times.prefetch_ns[16]
    assert gain == pytest.approx(8.0, rel=0.01)
    # Two keys go together in one wave.
    assert 2 * times.stall_ns.mean() / times.prefetch_ns[2] == pytest.approx(2.0, rel=0.01)
