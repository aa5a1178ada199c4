"""Memory waits against an exact cache, closed limits, and what no batch can do."""

import math
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.hwprofiles import load_host
from forecache.hwprofiles.quantity import Curve
from forecache.hwprofiles.schema import HostSpeed
from forecache.models.memory import (
    LINE_BYTES,
    CacheTimes,
    MemoryTimes,
    Structure,
    cache_times,
    characteristic_requests,
    hit_shares,
    memory_times,
    popularity_bins,
    stream_waits,
    with_effective_l3,
)
from forecache.models.scenario import HotSet, HotSetPopularity, Workload, Zipf

SPEED = load_host("graviton3").speed()
SKEWED = Zipf(zipf=0.99)
HOT = HotSetPopularity(hot_set=HotSet(keys=0.1, requests=0.9))


def lru_hits(touches: np.ndarray, capacity: int) -> np.ndarray:
    """Which touches an exact cache of least recently used lines holds, once it is full."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = np.zeros(len(touches), bool)
    for position, line in enumerate(touches.tolist()):
        hits[position] = line in cache
        cache[line] = None
        cache.move_to_end(line)
        if len(cache) > capacity:
            cache.popitem(last=False)
    return hits


@pytest.mark.parametrize("exponent", [0.0, 0.7, 0.99, 1.3])
@pytest.mark.parametrize("capacity", [30, 200, 900])
def test_che_matches_an_exact_cache(exponent: float, capacity: int) -> None:
    lines = 1000
    popularity = np.arange(1, lines + 1) ** -exponent
    popularity /= popularity.sum()
    random = np.random.default_rng(7)
    touches = random.choice(lines, size=60_000, p=popularity)
    simulated = lru_hits(touches, capacity)[20_000:].mean()

    time = characteristic_requests(np.ones(lines), popularity, capacity)
    predicted = float(np.dot(popularity, hit_shares(popularity, time)))
    assert predicted == pytest.approx(simulated, abs=0.012)


def test_che_matches_an_exact_cache_that_two_structures_share() -> None:
    random = np.random.default_rng(3)
    # Every request touches one of 50 hot lines and one of 2,000 cold ones.
    requests = 40_000
    touches = np.empty(2 * requests, np.int64)
    touches[::2] = random.integers(0, 50, requests)
    touches[1::2] = 50 + random.integers(0, 2000, requests)
    hits = lru_hits(touches, 400)[20_000:]
    lines, rates = np.array([50.0, 2000.0]), np.array([1.0, 1.0])
    predicted = hit_shares(rates / lines, characteristic_requests(lines, rates, 400))
    assert predicted[0] == pytest.approx(hits[::2].mean(), abs=0.01)
    assert predicted[1] == pytest.approx(hits[1::2].mean(), abs=0.01)


def test_closed_limits() -> None:
    one_class = np.array([1000.0]), np.array([3.0])
    assert characteristic_requests(*one_class, 1000) == math.inf
    assert hit_shares(np.array([0.003]), math.inf) == 1.0
    assert characteristic_requests(*one_class, 0) == 0.0
    assert hit_shares(np.array([0.003]), 0.0) == 0.0
    # Equally popular lines: as many hits as there is room.
    for capacity in (1.0, 250.0, 999.0):
        time = characteristic_requests(*one_class, capacity)
        assert hit_shares(np.array([0.003]), time)[0] == pytest.approx(capacity / 1000, rel=1e-4)
    # Lines that nobody touches take no room.
    assert characteristic_requests(np.array([10.0, 1e9]), np.array([1.0, 0.0]), 10) == math.inf


@given(
    lines=st.lists(st.floats(0.1, 1e9), min_size=1, max_size=6),
    rates=st.lists(st.floats(1e-6, 1e4), min_size=6, max_size=6),
    full=st.floats(1e-4, 0.99),
)
def test_a_cache_is_exactly_full(lines: list[float], rates: list[float], full: float) -> None:
    number, touches = np.array(lines), np.array(rates[: len(lines)])
    capacity = full * number.sum()
    shares = hit_shares(touches / number, characteristic_requests(number, touches, capacity))
    assert np.dot(number, shares) == pytest.approx(capacity, rel=1e-3)
    larger = hit_shares(touches / number, characteristic_requests(number, touches, 1.01 * capacity))
    assert (larger >= shares - 1e-9).all()
    # The more often a line is touched, the more of its touches hit.
    order = np.argsort(touches / number)
    assert (np.diff(shares[order]) >= -1e-12).all()


@pytest.mark.parametrize("exponent", [0.3, 0.99, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("keys", [2, 700, 200_000])
def test_zipf_bins_hold_the_exact_shares(exponent: float, keys: int) -> None:
    exact = np.arange(1, keys + 1, dtype=float) ** -exponent
    cumulative = np.cumsum(exact) / exact.sum()
    bins = popularity_bins(Workload(keys=keys, popularity=Zipf(zipf=exponent)))
    counts = np.cumsum([count for count, _ in bins])
    assert counts[-1] == keys
    held = np.cumsum([share for _, share in bins])
    assert held == pytest.approx(cumulative[counts.astype(int) - 1], abs=1e-4)


@pytest.mark.parametrize("popularity", ["uniform", SKEWED, HOT])
@pytest.mark.parametrize("keys", [1, 3, 10**6, 10**11])
def test_bins_cover_all_keys_and_requests(
    popularity: str | Zipf | HotSetPopularity, keys: int
) -> None:
    bins = popularity_bins(Workload(keys=keys, popularity=popularity))  # type: ignore[arg-type]
    assert sum(count for count, _ in bins) == pytest.approx(keys)
    assert sum(share for _, share in bins) == pytest.approx(1.0)
    per_key = [share / count for count, share in bins]
    assert per_key == sorted(per_key, reverse=True)


def waits(
    structures: list[Structure],
    workload: Workload,
    speed: HostSpeed = SPEED,
    *,
    batch_limit: int = 16,
) -> tuple[MemoryTimes, CacheTimes]:
    caches = cache_times(
        [(1.0, structures)], workload, speed, other_lines=6000.0, other_touches=900.0
    )
    return memory_times(structures, workload, speed, caches, batch_limit=batch_limit), caches


LOOK_UP = [
    Structure("bucket", 0.2, 1.06),
    Structure("entry", 0.6, 1.0),
    Structure("value", 8.5, 1.0, followers=7.5),
]


@pytest.mark.parametrize("popularity", ["uniform", SKEWED, HOT])
@pytest.mark.parametrize("keys", [1000, 300_000, 50_000_000])
def test_the_stall_table_has_the_analytic_mean(
    popularity: str | Zipf | HotSetPopularity, keys: int
) -> None:
    workload = Workload(keys=keys, popularity=popularity)  # type: ignore[arg-type]
    times, caches = waits(LOOK_UP, workload)
    data_bytes = keys * 9.3 * LINE_BYTES
    walk_ns = SPEED.tlb_walk_ns * max(0.0, 1.0 - SPEED.tlb_reach_bytes / data_bytes)
    expected = 0.0
    for structure in LOOK_UP:
        for count, share in popularity_bins(workload):
            touches = structure.touches * (1 + structure.followers)
            each = np.array([share * touches / (count * structure.lines_per_key)])
            near = float(hit_shares(each, caches.l2_requests)[0])
            inside = max(near, float(hit_shares(each, caches.l3_requests)[0]))
            wait = (inside - near) * (SPEED.l3_ns - SPEED.l2_ns)
            wait += (1.0 - inside) * (SPEED.dram_ns - SPEED.l2_ns + walk_ns)
            expected += share * structure.touches * wait * (1.0 + stream_waits(structure.followers))
    assert times.stall_ns.mean() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert (np.diff(times.stall_ns) >= 0).all()
    assert times.stall_ns[0] >= 0


def test_what_fits_the_second_level_waits_for_nothing() -> None:
    times, caches = waits(LOOK_UP, Workload(keys=100))
    assert caches.l2_requests == caches.l3_requests == math.inf
    assert not times.stall_ns.any()
    assert not times.prefetch_ns.any()
    assert times.prefetched_stall_ns == times.miss_share == 0.0


def test_more_keys_wait_longer_and_skew_shortens_the_wait() -> None:
    keys = [10**n for n in range(3, 10)]
    uniform = [waits(LOOK_UP, Workload(keys=n))[0] for n in keys]
    means = [times.stall_ns.mean() for times in uniform]
    assert means == sorted(means)
    assert means[-1] > 3 * (SPEED.dram_ns - SPEED.l2_ns)
    assert uniform[-1].miss_share == pytest.approx(1.0, abs=0.05)
    for popularity in (SKEWED, HOT):
        skewed, _ = waits(LOOK_UP, Workload(keys=10**7, popularity=popularity))
        assert skewed.stall_ns.mean() < means[4]


def test_keys_in_the_order_they_were_written_need_no_page_walks() -> None:
    random, _ = waits(LOOK_UP, Workload(keys=10**8))
    ordered, _ = waits(LOOK_UP, Workload(keys=10**8, key_pattern="sequential"))
    difference = random.stall_ns.mean() - ordered.stall_ns.mean()
    # One walk for each of the dependent touches, and a share for the lines that follow.
    assert difference == pytest.approx((3.06 + 7.5 / 8) * SPEED.tlb_walk_ns, rel=0.02)


def test_another_touch_finds_its_line_where_the_first_one_did() -> None:
    again = [*LOOK_UP, Structure("old value", 0.0, 1.0)]
    once, caches = waits(LOOK_UP, Workload(keys=2_000_000))
    twice = memory_times(again, Workload(keys=2_000_000), SPEED, caches, batch_limit=16)
    added = twice.stall_ns.mean() - once.stall_ns.mean()
    assert added == pytest.approx(once.last_touch_ns, rel=1e-9)
    assert waits(again, Workload(keys=2_000_000))[1].data_bytes == caches.data_bytes


structure = st.builds(
    Structure,
    name=st.just("part"),
    lines_per_key=st.floats(0.05, 20.0),
    touches=st.floats(0.1, 3.0),
    followers=st.floats(0.0, 20.0),
    prefetched=st.booleans(),
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


def test_the_last_level_is_what_the_latency_curve_shows() -> None:
    host = load_host("graviton3")
    speed = host.speed()
    assert with_effective_l3(speed, host) is speed, "no curve, nothing to correct"
    true_bytes, true_ns = 6 * 2**20, 25.0
    points = []
    for size in np.geomspace(16e3, 512e6, 40):
        near = min(1.0, speed.l2_bytes / size)
        inside = min(1.0, true_bytes / size)
        walk = speed.tlb_walk_ns * max(0.0, 1.0 - speed.tlb_reach_bytes / size)
        beyond = inside * true_ns + (1 - inside) * (speed.dram_ns + walk)
        points.append((float(size), near * speed.l2_ns + (1 - near) * beyond))
    curve = Curve(kind="measured", source="test", x_unit="bytes", y_unit="ns", points=points)
    shown = with_effective_l3(speed, host.model_copy(update={"latency_curve": curve}))
    assert shown.l3_bytes == pytest.approx(true_bytes, rel=0.05)
    assert shown.l3_ns == pytest.approx(true_ns, rel=0.05)
    assert replace(shown, l3_bytes=speed.l3_bytes, l3_ns=speed.l3_ns) == speed
