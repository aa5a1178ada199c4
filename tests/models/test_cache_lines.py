"""Which lines a cache holds: Che's approximation and shared lines against an exact cache."""

import math
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.models.memory.caches import characteristic_requests, hit_shares, line_classes
from forecache.models.memory.lines import Structure, popularity_bins
from forecache.models.scenario.workload import HotSet, HotSetPopularity, Workload, Zipf

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


@pytest.mark.parametrize("fills", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("capacity", [200, 900, 1500])
def test_che_matches_an_exact_cache_that_others_stream_through(fills: float, capacity: int) -> None:
    """Lines that come once and never again push ours out, also where ours alone would fit."""
    lines, requests = 1000, 40_000
    popularity = np.arange(1, lines + 1) ** -0.8
    popularity /= popularity.sum()
    random = np.random.default_rng(11)
    ours = random.choice(lines, size=requests, p=popularity)
    # This many lines of others have come before each of our touches.
    before = np.floor(fills * np.arange(requests)).astype(np.int64)
    touches = np.arange(requests + before[-1]) + lines
    touches[np.arange(requests) + before] = ours
    simulated = lru_hits(touches, capacity)[np.arange(requests) + before][requests // 4 :].mean()

    time = characteristic_requests(np.ones(lines), popularity, capacity, fills_per_request=fills)
    predicted = float(np.dot(popularity, hit_shares(popularity, time)))
    assert predicted == pytest.approx(simulated, abs=0.012)
    assert time < characteristic_requests(np.ones(lines), popularity, capacity)


def test_a_cache_with_nothing_of_ours_is_passed_through_in_its_lines() -> None:
    time = characteristic_requests(np.array([1e-6]), np.array([1e-9]), 1000, fills_per_request=4.0)
    assert time == pytest.approx(250.0, rel=1e-4)


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
    # Untouched lines take no room.
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


@pytest.mark.parametrize("together", [2, 8])
@pytest.mark.parametrize("popularity", [Zipf(zipf=0.6), SKEWED, Zipf(zipf=1.2), HOT])
@pytest.mark.parametrize("capacity", [120, 600])
def test_keys_that_share_lines_match_an_exact_cache(
    together: int, popularity: Zipf | HotSetPopularity, capacity: int
) -> None:
    """Keys of all popularities lie scattered; a popular one keeps those beside it in the cache."""
    keys, requests = 8000, 80_000
    if isinstance(popularity, Zipf):
        asked_for = np.arange(1, keys + 1) ** -popularity.zipf
    else:
        asked_for = np.where(np.arange(keys) < keys / 10, 9.0, 1.0 / 9.0)
    random = np.random.default_rng(5)
    line_of = random.permutation(keys) // together
    asked = random.choice(keys, size=requests, p=asked_for / asked_for.sum())
    hits = lru_hits(line_of[asked], capacity)[requests // 4 :]
    asked = asked[requests // 4 :]

    bins = popularity_bins(Workload(keys=keys, popularity=popularity))
    shares = np.array([share for _, share in bins])
    classes = line_classes(Structure("entry", 1.0 / together, 1.0), bins)
    time = characteristic_requests(classes.lines, classes.lines * classes.each, capacity)
    predicted = classes.hit_shares(time)
    # A line may have several keys of a wide bin; it counts as one with as many as the mean.
    tolerance = 0.01 if isinstance(popularity, Zipf) else 0.04
    assert np.dot(predicted, shares) == pytest.approx(hits.mean(), abs=tolerance)
    # The popular tenth and the unpopular half, each for itself.
    ends = np.cumsum([count for count, _ in bins])
    popular, unpopular = ends <= keys / 10, ends > keys / 2
    for chosen, group in ((popular, asked < keys / 10), (unpopular, asked >= keys / 2)):
        mean = np.dot(predicted[chosen], shares[chosen]) / shares[chosen].sum()
        assert mean == pytest.approx(hits[group].mean(), abs=0.04)


@pytest.mark.parametrize("popularity", ["uniform", SKEWED, HOT])
@pytest.mark.parametrize("lines_per_key", [0.1, 0.4, 1.0, 9.0])
def test_classes_keep_all_lines_and_all_touches(
    popularity: str | Zipf | HotSetPopularity, lines_per_key: float
) -> None:
    keys = 100_000
    bins = popularity_bins(Workload(keys=keys, popularity=popularity))  # type: ignore[arg-type]
    part = Structure("part", lines_per_key, 1.5, followers=2.0)
    classes = line_classes(part, bins)
    assert classes.lines.sum() == pytest.approx(keys * lines_per_key, rel=1e-6)
    assert np.dot(classes.lines, classes.each) == pytest.approx(1.5 * 3.0, rel=1e-6)
    assert (classes.own <= 1.0).all()
    assert (classes.own > 0.0).all()
    assert (np.diff(classes.each) <= 1e-12).all()
    for requests in (0.0, 10.0, 1e4, math.inf):
        shares = classes.hit_shares(requests)
        assert (shares >= 0.0).all()
        assert (shares <= 1.0).all()
        if lines_per_key >= 1.0:
            assert shares == pytest.approx(hit_shares(classes.each, requests))
            assert classes.own == pytest.approx(1.0)
        else:
            assert (shares >= hit_shares(classes.each, requests) - 1e-12).all()
