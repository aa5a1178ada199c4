"""What waiting for memory costs: which lines a command touches, where they are, what overlaps.

A look-up walks from line to line, each address known only from the line before. Where a line is
found follows from how often it is touched against everything else that wants the same cache (Che's
approximation: H. Che, Y. Tung, Z. Wang, "Hierarchical web caching systems", IEEE JSAC 20(7),
2002). Looked up one at a time, the waits add up; looked up together, the waits of independent keys
overlap up to the misses a core sustains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq, least_squares

from forecache.hwprofiles.schema import HostProfile, HostSpeed

from .node.setup import QUANTILES
from .scenario import HotSetPopularity, Workload, Zipf

LINE_BYTES = 64
COPIED_AT_ONCE = 8
STREAMED_AT_ONCE = 32
"""How lines of one value that follow its first are fetched: the first holds the string header,
and the copy's loads of the next ones go out together once it is there; from then on the prefetcher
has seen the stream and runs ahead (assumed from the shape of single-core streaming: 64 bytes in
about 3 ns against a first access of 100 and more)."""

_POPULARITY_BINS = 24
_SUMMED_RANKS = 1000
"""Ranks up to which Zipf's law is summed rank by rank; beyond it an integral is as good."""

_SAMPLES = 4096


@dataclass(frozen=True)
class Structure:
    """A kind of line that commands touch.

    Attributes
    ----------
    lines_per_key
        How many lines the structure has for each key; 0 for another touch of the lines of the
        structure before it.
    touches
        How many of its lines one command waits for, one after the other.
    followers
        Lines that follow the first one at adjacent addresses.
    prefetched
        Whether a batched look-up fetches its first line ahead.
    """

    name: str
    lines_per_key: float
    touches: float
    followers: float = 0.0
    prefetched: bool = True


@dataclass(frozen=True)
class CacheTimes:
    """How long a line that nobody touches stays in a cache: Che's characteristic time, in requests.

    Attributes
    ----------
    l2_requests, l3_requests
        Of the second and the last level; infinite where everything fits.
    data_bytes
        What all keys take in memory, as far as a look-up walks through it.
    """

    l2_requests: float
    l3_requests: float
    data_bytes: float


@dataclass(frozen=True)
class MemoryTimes:
    """What a command waits for; ns.

    Attributes
    ----------
    stall_ns
        (256,) quantiles of the wait when nothing was fetched ahead.
    prefetched_stall_ns
        Mean of what is left after a batched look-up.
    prefetch_ns
        (limit + 1,) a batched look-up of so many keys, without its instructions.
    miss_share
        Mean share of touches that reach DRAM.
    last_touch_ns
        Mean wait for the first line of the last structure, the value's.
    """

    stall_ns: np.ndarray
    prefetched_stall_ns: float
    prefetch_ns: np.ndarray
    miss_share: float
    last_touch_ns: float


def popularity_bins(workload: Workload) -> list[tuple[float, float]]:
    """(keys, share of requests) of groups of keys that are about equally popular."""
    popularity = workload.popularity
    keys = float(workload.keys)
    if isinstance(popularity, HotSetPopularity):
        hot = popularity.hot_set
        return [(keys * hot.keys, hot.requests), (keys * (1 - hot.keys), 1 - hot.requests)]
    if isinstance(popularity, Zipf) and workload.keys > 1:
        edges = np.unique(np.geomspace(1, keys + 1, _POPULARITY_BINS + 1).astype(np.int64))
        s = popularity.zipf

        def mass(low: int, high: int) -> float:
            # The sum over ranks low to high - 1; the midpoint integral is good for high ranks.
            if low < _SUMMED_RANKS:
                middle = min(high, _SUMMED_RANKS)
                head = float(np.sum(np.arange(low, middle, dtype=float) ** -s))
                return head + (mass(middle, high) if high > middle else 0.0)
            if abs(s - 1.0) < 1e-9:
                return math.log((high - 0.5) / (low - 0.5))
            return ((high - 0.5) ** (1 - s) - (low - 0.5) ** (1 - s)) / (1 - s)

        weights = [mass(a, b) for a, b in pairwise(edges)]
        total = sum(weights)
        return [
            (float(b - a), weight / total)
            for (a, b), weight in zip(pairwise(edges), weights, strict=True)
        ]
    return [(keys, 1.0)]


def characteristic_requests(lines: np.ndarray, rates: np.ndarray, capacity_lines: float) -> float:
    """Requests after which a line that was not touched again has left a cache (Che et al. 2002).

    It is the time in which as many different lines are touched as the cache holds; the cache evicts
    the least recently used line.

    Parameters
    ----------
    lines : (n,)
        Number of lines in each class of equally popular lines.
    rates : (n,)
        Touches of the whole class per request.
    capacity_lines
        Lines the cache holds.

    Returns
    -------
    float
        Infinite if all lines that are ever touched fit, 0 for a cache of no lines.
    """
    touched = (lines > 0) & (rates > 0)
    lines, each = lines[touched], rates[touched] / lines[touched]
    if lines.sum() <= capacity_lines:
        return math.inf
    if capacity_lines <= 0:
        return 0.0

    def excess(log_time: float) -> float:
        return float((lines * -np.expm1(-each * math.exp(log_time))).sum()) - capacity_lines

    low, high = -20.0, 20.0
    while excess(low) > 0:
        low -= 10.0
    while excess(high) < 0:
        high += 10.0
    return math.exp(brentq(excess, low, high, xtol=1e-6))


def hit_shares(each: np.ndarray, requests: float) -> np.ndarray:
    """Share of touches that a cache holds, of lines touched `each` times per request.

    Parameters
    ----------
    requests
        The cache's characteristic time.
    """
    if math.isinf(requests):
        return np.ones_like(each)
    return np.asarray(-np.expm1(-each * requests))


def cache_times(
    population: Sequence[tuple[float, Sequence[Structure]]],
    workload: Workload,
    speed: HostSpeed,
    *,
    other_lines: float,
    other_touches: float,
) -> CacheTimes:
    """How long the caches of a host hold a line under a workload.

    Parameters
    ----------
    population
        Share of the keys and the structures of each of them, for every size of value.
    other_lines, other_touches
        Lines besides the data that compete for the caches (code, connection and socket buffers),
        and how many of them each request touches.
    """
    rows = [
        (weight * s.lines_per_key * keys, weight * s.touches * (1.0 + s.followers) * share)
        for weight, structures in population
        for s in structures
        for keys, share in popularity_bins(workload)
        if s.lines_per_key > 0
    ]
    lines, rates = np.array([*rows, (other_lines, other_touches)]).T
    return CacheTimes(
        l2_requests=characteristic_requests(lines, rates, speed.l2_bytes / LINE_BYTES),
        l3_requests=characteristic_requests(lines, rates, speed.l3_bytes / LINE_BYTES),
        data_bytes=float(lines[:-1].sum()) * LINE_BYTES,
    )


def memory_times(
    structures: Sequence[Structure],
    workload: Workload,
    speed: HostSpeed,
    caches: CacheTimes,
    *,
    batch_limit: int,
) -> MemoryTimes:
    """What one kind of command waits for, beyond the second-level cache.

    Waits inside the first two levels are part of the execution itself (`user_ipc`).

    Parameters
    ----------
    structures
        What the command walks through, in order.
    batch_limit
        The largest batch of keys that is looked up together.
    """
    bins = popularity_bins(workload)
    count = len(bins)
    shares = np.array([share for _, share in bins])
    each = np.zeros(len(structures) * count)
    for index, s in enumerate(structures):
        rows = slice(index * count, (index + 1) * count)
        if s.lines_per_key > 0:
            touches = s.touches * (1.0 + s.followers)
            each[rows] = [share * touches / (keys * s.lines_per_key) for keys, share in bins]
        elif index > 0:
            each[rows] = each[(index - 1) * count : index * count]
    in_l2 = hit_shares(each, caches.l2_requests)
    in_l3 = np.maximum(hit_shares(each, caches.l3_requests), in_l2)

    walk_ns = speed.tlb_walk_ns * beyond(speed.tlb_reach_bytes, caches.data_bytes)
    if workload.key_pattern == "sequential":
        # Data written in the order in which they are visited lie on pages that were just used.
        walk_ns = 0.0
    near_ns = max(0.0, speed.l3_ns - speed.l2_ns)
    far_ns = max(near_ns, speed.dram_ns - speed.l2_ns) + walk_ns
    mean_ns = near_ns * (in_l3 - in_l2) + far_ns * (1.0 - in_l3)

    left = whole_ns = 0.0
    levels: list[tuple[float, float, float]] = []
    for index, structure in enumerate(structures):
        rows = slice(index * count, (index + 1) * count)
        mean = float(np.dot(shares, mean_ns[rows]))
        missed = float(np.dot(shares, 1.0 - in_l2[rows]))
        later = structure.touches * stream_waits(structure.followers) * mean
        left += later
        whole_ns += structure.touches * mean + later
        if structure.prefetched:
            levels.append((structure.touches, missed, mean))
        else:
            left += structure.touches * mean
    prefetch = np.zeros(max(1, batch_limit) + 1)
    for keys in range(2, batch_limit + 1):
        for touches, missed, mean in levels:
            if missed <= 0.0:
                continue
            # So many of the batch's keys miss at this step; at least one wave if any does.
            waves = max(1.0 - (1.0 - missed) ** keys, keys * missed / speed.parallel_misses)
            prefetch[keys] += touches * waves * mean / missed
    stall = _stall_quantiles(structures, shares, in_l2, in_l3, near_ns, far_ns, mean_ns)
    # The table is what the simulation adds up: its mean is made exact.
    if stall.any():
        stall *= whole_ns / stall.mean()
    else:
        stall[-1] = whole_ns * len(stall)
    touches_array = np.array([s.touches for s in structures])
    misses = [
        float(np.dot(shares, 1.0 - in_l3[i * count : (i + 1) * count]))
        for i in range(len(structures))
    ]
    total = float(touches_array.sum())
    miss_share = float(np.dot(touches_array, misses)) / total if total else 0.0
    last_ns = float(np.dot(shares, mean_ns[-count:]))
    return MemoryTimes(stall, left, prefetch, miss_share, last_ns)


def beyond(reach_bytes: float, data_bytes: float) -> float:
    """Share of random touches of data that lie outside what is reached."""
    return max(0.0, 1.0 - reach_bytes / max(data_bytes, 1.0))


def stream_waits(followers: float) -> float:
    """Waits for a single line that so many following lines are worth."""
    return min(followers, 1.0) + max(0.0, followers - COPIED_AT_ONCE) / STREAMED_AT_ONCE


def _stall_quantiles(
    structures: Sequence[Structure],
    shares: np.ndarray,
    in_l2: np.ndarray,
    in_l3: np.ndarray,
    near_ns: float,
    far_ns: float,
    mean_ns: np.ndarray,
) -> np.ndarray:
    """(256,) quantiles of a command's whole wait, by drawing where each touched line is."""
    random = np.random.default_rng(20020701)  # fixed: these are tables, not an experiment
    group = random.choice(len(shares), size=_SAMPLES, p=shares / shares.sum())
    total = np.zeros(_SAMPLES)
    for index, structure in enumerate(structures):
        rows = index * len(shares) + group
        whole = int(structure.touches)
        for touch in range(whole + 1):
            weight = 1.0 if touch < whole else structure.touches - whole
            if weight == 0.0:
                continue
            happens = random.random(_SAMPLES) < weight
            where = random.random(_SAMPLES)
            beyond_l2 = np.where(where < in_l3[rows], near_ns, far_ns)
            wait = np.where(where < in_l2[rows], 0.0, beyond_l2)
            total += happens * (wait + stream_waits(structure.followers) * mean_ns[rows])
    quantiles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.asarray(np.quantile(total, quantiles))


def with_effective_l3(speed: HostSpeed, host: HostProfile) -> HostSpeed:
    """The host with the last-level cache it really gets.

    A virtual machine shares that cache with neighbours it can't see. Where the host's latency by
    working set was captured, size and latency are those whose random chase fits the curve best; the
    nominal size is the upper bound.
    """
    curve = host.latency_curve
    if curve is None:
        return speed
    points = np.array(curve.points)
    bytes_, measured = points[points[:, 0] > speed.l2_bytes].T
    low, high = math.log(2 * speed.l2_bytes), math.log(speed.l3_bytes)
    near, far = math.log(1.5 * speed.l2_ns), math.log(0.7 * speed.dram_ns)
    if len(bytes_) < 4 or low >= high or near >= far:
        return speed
    beyond_l2 = 1.0 - np.minimum(1.0, speed.l2_bytes / bytes_)
    # The curve was captured on small pages.
    walks = np.array([beyond(speed.tlb_reach_bytes, size) for size in bytes_])
    far_ns = speed.dram_ns + speed.tlb_walk_ns * walks

    def misfit(logs: np.ndarray) -> np.ndarray:
        held = np.minimum(1.0, math.exp(logs[0]) / bytes_)
        beyond_l3 = held * math.exp(logs[1]) + (1 - held) * far_ns
        return np.log(((1 - beyond_l2) * speed.l2_ns + beyond_l2 * beyond_l3) / measured)

    start = [(low + high) / 2, (near + far) / 2]
    best = least_squares(misfit, start, bounds=([low, near], [high, far]), loss="soft_l1")
    return replace(speed, l3_bytes=math.exp(best.x[0]), l3_ns=math.exp(best.x[1]))
